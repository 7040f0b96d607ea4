"""What pages say, as text, without a browser."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import made_up
import numpy as np
import pytest
from boards import HOSTILE, page, poll_folder, sections, words
from made_up import (
    as_failure,
    failure,
    finish,
    plan,
    read,
    result,
    run_id,
    write_caption_study,
    write_chest,
    write_epochs,
    write_losses,
    write_mistakes,
    write_plan,
    write_search,
    write_study,
)

from recstudy.board.folder import ResultsFolder
from recstudy.board.progress import progress_words, run_time_left, time_left
from recstudy.board.server import make_app
from recstudy.records import append_line
from recstudy.report import Differences, Table, dump_report
from recstudy.report.parts import parts_of
from recstudy.report.writing import section

STUDY_KEY = ("made_up", "paper")
STUDY, RUNS = "/study/made_up/paper", "/runs/made_up/paper"


def test_the_index_has_each_study_with_its_finding_cost_and_time_left(results):
    studies = words(page(results.root, "/"))

    assert "Made up (paper preset)" in studies
    assert "6 of 12 done" in studies  # one more has diverged
    assert "ViT-Small, batch size 128, seed 2: epoch 3 of 1000" in studies
    # five runs of 90 s, one of which has done 3 of 1000 epochs
    assert "about 7.5 min, 1 run at a time" in studies
    assert "Published (interim, 6 of 12 runs): 2 of 4 values undecided" in studies
    assert (
        len(
            re.findall(
                r'href="http://127.0.0.1:\d+" target="_blank" rel="noopener noreferrer"',
                page(results.root, "/"),
            )
        )
        == 3
    )


def write_running_study(
    root: Path, epochs: int, evaluation_seconds: dict[int, float] | None = None
) -> ResultsFolder:
    """One run has recorded five epochs of 18 s; of the others, these took so many seconds to evaluate."""
    results = write_plan(root, plan(base=made_up.base(epochs=epochs, patience=0)))
    results.run(run_id(0, 0)).path.mkdir(parents=True)
    write_epochs(results, run_id(0, 0), 93.0)
    for variant, seconds in (evaluation_seconds or {}).items():
        record = result(93.0)
        finish(results, variant, 1, record | {"cost": record["cost"] | {"evaluation_seconds": seconds}})
    return poll_folder(root)


@pytest.mark.parametrize(("epochs", "progress", "left"), [(6, "epoch 5 of 6", "18 s"), (5, "evaluating", "")])
def test_a_run_is_training_or_evaluating(tmp_path, epochs, progress, left):
    study = write_running_study(tmp_path, epochs).studies[STUDY_KEY]
    row = study.records.rows[0]

    assert (progress_words(study, row), run_time_left(study, row)) == (progress, left)


def test_the_time_left_has_the_evaluation(tmp_path):
    """Runs of 90 s of training and 600 s of evaluation: one done, one in its evaluation, ten to do."""
    study = write_running_study(tmp_path / "r", 5, evaluation_seconds={1: 600.0}).studies[STUDY_KEY]

    assert time_left(study) == "about 2.1 h, 1 run at a time"  # 600 + 10 * 690 s


def test_before_a_run_has_finished_the_time_left_is_of_training(tmp_path):
    assert (
        time_left(write_running_study(tmp_path / "r", 5).studies[STUDY_KEY])
        == "about 16.5 min of training, 1 run at a time"
    )
    results = write_plan(tmp_path / "none", plan())
    assert (
        time_left(poll_folder(results.root).studies[STUDY_KEY])
        == "12 runs remaining; no estimate until a run finishes"
    )


def test_between_two_runs_the_time_left_counts_as_many_at_a_time(results):
    folder = poll_folder(results.root)
    results.run(run_id(3, 1)).path.mkdir()
    write_epochs(results, run_id(3, 1), 70.0)
    folder.poll()
    finish(results, 3, 1, result(94.0, "ViT-Small"))
    folder.poll()

    study = folder.studies[STUDY_KEY]
    assert len(study.logs) == 1
    assert time_left(study) == "about 3.0 min, 2 runs at a time"  # four runs of 90 s


@pytest.mark.parametrize("write", [write_study, write_search])
def test_tables_and_figures_are_those_of_the_report(tmp_path, write):
    results = write(tmp_path / "results")
    records, page_html = read(results), page(results.root, STUDY)
    page_html = re.sub(
        r'<a href="/runs/[^"]*">(.*?)</a>', r"\1", page_html
    )  # only the board links numbers to runs

    assert len(parts_of(records)) > 2
    for part in parts_of(records):
        assert section(records, part).content.strip() in page_html


def test_each_number_of_a_table_leads_to_its_runs(tmp_path):
    """Also where none has given a number, and of a difference to the runs of both."""
    report = [Table("scores"), Differences(base="ViTRM, batch_size=64")]
    results = write_study(tmp_path / "results", report=dump_report(report))
    study = page(results.root, STUDY)

    for entry, variants in ((r"93\.1 \[92\.8, 93\.4\]", "0"), ("[^<]*not run", "3"), ("interim", "0,2")):
        addresses = re.findall(rf'<a href="/runs/made_up/paper\?variant=([^"]*)">(?:<strong>)?{entry}', study)
        assert variants in map(unquote, addresses)


def test_the_table_of_runs_has_a_row_a_run(results):
    data = json.loads(
        re.search(r'<script type="application/json" id="rows">(.*?)</script>', page(results.root, RUNS))[1]
    )
    names = [column["name"] for column in data["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in data["rows"]]

    assert len(rows) == 12
    assert (rows[0]["id"], rows[0]["label"], rows[0]["top1_accuracy"]) == (
        run_id(0, 0),
        "ViTRM, batch size 64",
        "93.0",
    )
    assert {
        (row["status"], row["detail"], row["top1_accuracy"]) for row in rows if row["status"] != "done"
    } == {
        ("diverged", "", ""),
        ("failed", "code: ValueError: heads must divide width", ""),
        ("not run", "", ""),
        ("running", "epoch 3 of 1000, 5.0 h left", "63.3"),
    }


def curves(root: Path, **query: str) -> dict[str, Any]:
    """The answer to a request for the curves of three runs."""
    runs = [("run", identity) for identity in (run_id(0, 0), run_id(3, 2), "unknown")]
    return json.loads(page(root, f"/curves/made_up/paper?{urlencode([*query.items(), *runs])}"))


def test_curves_are_of_the_first_metric_of_the_report_on_the_selection_split(results):
    answer = curves(results.root)

    assert (answer["metric"], answer["axis"]) == ("selection_top1_accuracy", "epoch")
    assert list(answer["metrics"]) == ["selection_top1_accuracy", "train_loss"]
    assert list(answer["runs"]) == [run_id(0, 0), run_id(3, 2)]
    assert answer["runs"][run_id(3, 2)] == {
        "curve": [[0, 1, 2], [50.0, 60.0, pytest.approx(63.333333)]],
        "last": "63.3",
        "planned": 1000,
    }
    assert curves(results.root, metric="train_loss")["runs"][run_id(3, 2)]["curve"][1][1] == 1.15


@pytest.mark.parametrize("line", ['{"epoch": 3, "selection_top1_accuracy": null}', '{"epoch": 3'])
def test_curves_leave_out_missing_values(results, line):
    with results.run(run_id(3, 2)).epochs.open("a") as log:
        log.write(line + "\n")

    assert len(curves(results.root)["runs"][run_id(3, 2)]["curve"][0]) == 3


def test_a_damaged_log_has_no_curve(results):
    results.run(run_id(0, 0)).epochs.write_text("{}\n{}\n")

    assert list(curves(results.root)["runs"]) == [run_id(3, 2)]


def test_long_curves_are_thinned(results):
    write_epochs(results, run_id(0, 0), 90.0, epochs=1000)

    assert len(curves(results.root)["runs"][run_id(0, 0)]["curve"][0]) <= 102


def test_two_runs_are_overlaid(results):
    query = f"run={run_id(0, 0)}&run={run_id(1, 0)}"
    page_sections = sections(page(results.root, f"/compare/made_up/paper?{query}"))

    assert words(page_sections["head"]) == "2 runs of Made up (paper preset)"
    assert "Top-1 accuracy (%) 93.0 92.9" in words(page_sections["Metrics"])
    assert "train.batch_size 64 128" in words(page_sections["Settings that differ"])
    assert 'class="figure"' in page_sections["Learning curves"]
    assert "Select 2 to 12 runs" in page(results.root, f"/compare/made_up/paper?run={run_id(0, 0)}", 404)


@pytest.mark.parametrize("write", [write_search, write_caption_study, write_chest])
def test_every_page_can_be_shown(tmp_path, write):
    results = write(tmp_path / "results")
    client = make_app(results).test_client()
    runs = {row.id for row in read(results).rows}

    for path in ("/", STUDY, RUNS, *(f"/run/{run}" for run in runs)):
        answer = client.get(path)
        assert answer.status_code == 200, answer.text


def test_a_run_shows_its_parts_and_its_log(results):
    folder, identity = results.run(run_id(3, 2)), run_id(0, 0)
    write_losses(results, identity, [2.0, 1.0], [0.5])
    write_mistakes(results, identity, np.zeros((3, 1, 8, 8)))
    append_line(
        folder.attempts,
        {"started": "2025-01-01T00:00:00Z", "host": "node-1", "commit": "0123abc", "dirty": True},
    )
    results.run(run_id(1, 2)).hang_log(0).write_text("line\n" * 50 + "in wait_for_ever")
    done, running, failed = (
        sections(page(results.root, f"/run/{run}")) for run in (identity, run_id(3, 2), run_id(1, 2))
    )

    titles = "head|Numbers|Learning curves|Training loss by update|Misclassified test images|Last epochs|Settings|Provenance"
    assert list(done) == titles.split("|")
    assert "Top-1 accuracy 93.0 %" in words(done["Numbers"])
    assert "train.batch_size 128 64" in words(done["Settings"])
    assert words(running["Attempts"]).endswith("2025-01-01T00:00:00Z started node-1 0123abc with changes")
    assert "epoch 3 of 1000" in words(running["head"])
    assert "ValueError: heads must divide width" in words(failed["Failure"])
    assert words(failed["Failure"]).endswith("in wait_for_ever Copy")


@pytest.mark.parametrize("path", ["/run/..%2F..%2Fsecret", "/study/made_up/none", "/run/..", "/x"])
def test_missing_page_is_reported(results, path):
    text = page(results.root, path, 404)

    assert "root:" not in text
    assert path == "/x" or re.search("No study|Not Found", text)


def test_hostile_words_are_text_on_every_page(tmp_path):
    texts = dict.fromkeys(("question", "description", "command"), HOSTILE)
    variants = [
        variant | dict.fromkeys(("label", "model", "data"), HOSTILE) for variant in plan()["variants"]
    ]
    results = write_study(tmp_path / "results", variants=variants, **texts)
    results.run(run_id(1, 2)).fail(
        as_failure(failure() | dict.fromkeys(("class", "error", "traceback"), HOSTILE))
    )
    compare = f"/compare/made_up/paper?run={run_id(0, 0)}&run={run_id(1, 0)}"

    for path in (
        "/",
        STUDY,
        f"/run/{run_id(1, 2)}",
        f"/run/{run_id(0, 0)}",
        f"{RUNS}?status={quote(HOSTILE)}",
        compare,
    ):
        assert not re.search(r"<img src=x|<b>|<i>", page(results.root, path))
