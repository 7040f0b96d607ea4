"""What pages say, as text, without a browser."""

import html
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import made_up
import numpy as np
import pytest
from boards import HOSTILE, looked
from made_up import (
    as_failure,
    as_result,
    failure,
    plan,
    result,
    run_id,
    write_caption_study,
    write_chest,
    write_epochs,
    write_losses,
    write_mistakes,
    write_search,
    write_study,
)

from recstudy.board.markup import Address, address_of, page_of
from recstudy.board.pages import page_at
from recstudy.board.progress import progress
from recstudy.board.sources import Sources
from recstudy.errors import ConfigError
from recstudy.records import Results, append_line
from recstudy.records.files import write_json
from recstudy.report import Differences, Table, dump_report
from recstudy.report.rows import Row
from recstudy.report.study_records import load_study
from recstudy.report.writing import section


def parts(sources, path: str, search: str = "") -> dict[str, str]:
    """The parts of a page by their keys."""
    return {part.key: part.body for part in page_at(sources, address_of(path, search)).parts}


def words(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


STUDY, RUNS = "/study/made_up/paper", "/runs/made_up/paper"


def listed(sources, query: str) -> list[str]:
    """The runs of the list that this query asks for."""
    query = unquote(query)
    return re.findall(r'href="/run/(\w+)"', parts(sources, RUNS, f"?{query}")["runs"])


@pytest.mark.parametrize(
    ("query", "count", "first"),
    [
        ("", 12, (0, 0)),
        ("status=diverged", 1, (2, 1)),
        ("status=running", 1, (3, 2)),
        ("variant=1-2", 6, (1, 0)),
        ("variant=3,0", 6, (0, 0)),
        ("sort=-seed", 12, (0, 2)),
    ],
)
def test_runs_are_filtered_and_sorted_by_the_address(sources, query, count, first):
    runs = listed(sources, query)
    assert (len(runs), runs[0]) == (count, run_id(*first))


def test_runs_without_a_value_are_sorted_last(sources):
    scores = {row.id: row.value("top1_accuracy") for row in sources.records(("made_up", "paper")).rows}
    known = sorted(score for score in scores.values() if score is not None)
    for query, order in (("sort=top1_accuracy", known), ("sort=-top1_accuracy", known[::-1])):
        assert [scores[run] for run in listed(sources, query)] == [*order, *[None] * (12 - len(known))]


def test_the_overview_has_each_study_with_its_cost_and_time_left_and_the_runs_under_way(sources):
    found = parts(sources, "/")
    studies = words(found["studies"])

    assert "made_up (paper)" in studies
    assert "6 of 12" in studies  # one more has diverged
    assert "about 7.5 min, 1 run at a time" in studies  # five runs of 90 s, one of which has done 3 of 1000 epochs
    assert words(found["running"]).endswith("seed 2 made_up (paper) 3 of 1000, training 0.767 63.3 5.0 h")  # 997 of 18 s
    assert "No significant difference: between variants" in words(found["findings"])
    assert len(re.findall(r'href="http://127.0.0.1:\d+" target="_blank" rel="noopener noreferrer"', found["elsewhere"])) == 3


def begun(root: Path, epochs: int, patience: int = 0, ended: dict[int, float] | None = None) -> Sources:
    """One run has told of five epochs of 18 s and a growing score; of the others, these took so many seconds to evaluate."""
    results = Results(root).create()
    made = plan(base=made_up.base(epochs=epochs, patience=patience))
    write_json(results.study("made_up", "paper") / "plan.json", made)
    results.run(run_id(0, 0)).path.mkdir(parents=True)
    write_epochs(results, run_id(0, 0), 93.0)
    for variant, seconds in (ended or {}).items():
        found = result(93.0)
        results.run(run_id(variant, 1)).finish(as_result(found | {"cost": found["cost"] | {"evaluation_seconds": seconds}}))
    return looked(root)


@pytest.mark.parametrize(
    ("epochs", "patience", "more", "phase"),
    [
        (6, 0, 0, "training"),
        (5, 0, 0, "evaluating"),
        (100, 1, 0, "training"),  # its last epoch is its best
        (100, 3, 3, "evaluating"),  # out of patience
    ],
)
def test_a_run_is_training_or_evaluating(tmp_path, epochs, patience, more, phase):
    sources = begun(tmp_path, epochs, patience)
    for epoch in range(5, 5 + more):
        append_line(sources.poller.results.run(run_id(0, 0)).epochs, {"epoch": epoch, "selection_top1_accuracy": 1.0})
    sources.poller.poll()

    (run,) = sources.under_way()

    assert run.phase == phase
    assert phase == "training" or run.left == 0.0


def test_paid_and_left_have_the_evaluation(tmp_path):
    """Runs of 90 s of training and 600 s of evaluation: one done, one in its evaluation, ten to do."""
    sources = begun(tmp_path / "r", 5, ended={1: 600.0})

    now = progress(sources.poller, sources.poller.studies["made_up", "paper"])

    assert (now.paid, now.left) == (690.0, 600 + 10 * 690)
    assert "Compute used 13.0 min" in words(parts(sources, "/")["head"])  # and 90 s of the run under way


def test_before_a_run_has_told_how_long_it_takes_the_time_left_says_so(sources, tmp_path):
    def left(given: Sources) -> str:
        return progress(given.poller, given.poller.studies["made_up", "paper"]).words

    half = left(begun(tmp_path / "r", 5))
    for run, seen in sources.poller.runs.items():
        outcome = Row(status="failed" if run != run_id(3, 2) else "unfinished")
        sources.poller.runs[run] = replace(seen, outcome=outcome)
    sources.poller.running.clear()

    assert half == "about 16.5 min of training; no estimate of evaluation until a run finishes"  # eleven runs of 90 s
    assert left(sources).startswith("12 runs to do; no estimate until a run finishes")


def test_between_two_runs_the_time_left_is_reckoned_with_as_many_at_a_time(sources, results):
    results.run(run_id(3, 1)).path.mkdir()
    write_epochs(results, run_id(3, 1), 70.0)
    sources.poller.poll()
    results.run(run_id(3, 1)).finish(as_result(result(94.0, "ViT-Small")))
    sources.poller.poll()

    now = progress(sources.poller, sources.poller.studies["made_up", "paper"])

    assert len(now.running) == 1
    assert now.words == "about 3.0 min, 2 runs at a time"  # four runs of 90 s


@pytest.mark.parametrize("write", [write_study, write_search])
def test_tables_and_figures_are_those_of_the_report(tmp_path, write):
    results = write(tmp_path / "results")
    records, found = load_study(results, "made_up", "paper"), parts(looked(results.root), STUDY)

    assert len(records.parts) > 2
    for at, spec in enumerate(records.parts, 1):
        reported = section(records, spec).content
        shown = re.sub(r'<a href="/runs/[^"]*">(.*?)</a>', r"\1", found[f"part{at}"])  # of the board alone
        assert shown == reported


def test_each_number_of_a_table_leads_to_its_runs(tmp_path):
    """Also where none has given a number, and of a difference to the runs of both."""
    report = [Table("scores"), Differences(base="ViTRM, batch_size=64")]
    sources = looked(write_study(tmp_path / "results", report=dump_report(report)).root)
    found = parts(sources, STUDY)

    for part, cell, variants in (
        ("part1", r"93\.1 \[91\.6, 94\.5\]", [0]),
        ("part1", "[^<]*not run", [3]),
        ("part2", "interim", [0, 2]),
    ):
        (query,) = set(re.findall(rf'<a href="/runs/made_up/paper\?([^"]*)">(?:<strong>)?{cell}', found[part]))
        runs = [run_id(variant, seed) for variant in variants for seed in range(3)]
        assert sorted(listed(sources, html.unescape(query))) == runs


@pytest.mark.parametrize("write", [write_search, write_caption_study, write_chest])
def test_every_part_of_every_page_can_be_shown(tmp_path, write):
    sources = looked(write(tmp_path / "results").root)

    for path in ("/", STUDY, RUNS, *(f"/run/{run}" for run in sources.poller.runs)):
        assert all(parts(sources, path).values())


@pytest.mark.parametrize(("asked", "rows"), [("2", (50, 100)), ("99", (100, 120)), ("-1", (0, 50))])
def test_a_page_that_is_not_there_is_the_nearest_one(asked, rows):
    shown, _ = page_of(Address((), (("t", asked),)), "t", 120)

    assert (shown.start, shown.stop) == rows


def test_a_run_shows_its_parts_its_log_and_what_it_used_of_its_machine(results):
    folder, identity = results.run(run_id(3, 2)), run_id(0, 0)
    write_losses(results, identity, [2.0, 1.0], [0.5])
    write_mistakes(results, identity, np.zeros((3, 1, 8, 8)))
    append_line(folder.attempts, {"started": "2025-01-01T00:00:00Z", "host": "node-1", "commit": "0123abc", "dirty": True})
    results.run(run_id(1, 2)).hang_log(0).write_text("line\n" * 50 + "in wait_for_ever")
    sources = looked(results.root)
    found, running, failed = (parts(sources, f"/run/{run}") for run in (identity, run_id(3, 2), run_id(1, 2)))

    keys = "head numbers curves log losses mistakes machine settings provenance"
    assert list(found) == keys.split()
    assert "Top-1 accuracy 93.0 %" in words(found["numbers"])
    assert "train.batch_size 128 64" in words(found["settings"])
    assert words(found["machine"]).startswith("Host node-1 CPU a processor GPU none Throughput 800 images/s")
    log = words(running["log"])
    assert log.startswith("2025-01-01T00:00:00Z attempt 1 began on node-1, commit 0123abc with changes epoch 1: training loss")
    assert log.endswith("epoch 3: training loss 0.767 nats, top-1 accuracy, selection 63.3 %, 18 s under way Copy")
    assert "failed after 2 attempts (code): ValueError: heads must divide width" in words(failed["log"])
    assert words(failed["failure"]).endswith("in wait_for_ever Copy")


def test_a_run_of_no_study_is_shown_by_its_config(results):
    write_json(results.run("ab12").config, {"model": {"family": "vitrm", "width": 32}, "seed": 4})
    found = parts(looked(results.root), "/run/ab12")

    assert "vitrm" in words(found["head"])
    assert "model.width 32" in words(found["settings"])


@pytest.mark.parametrize("path", ["/run/..%2F..%2Fsecret", "/study/made_up/none", "/run/..", "/x"])
def test_what_is_not_there_is_said(sources, path):
    with pytest.raises(ConfigError, match=r"no run|no study|no page"):
        page_at(sources, address_of(path))


def test_hostile_words_are_text_on_every_page(tmp_path):
    words = dict.fromkeys(("question", "description", "command"), HOSTILE)
    variants = [variant | dict.fromkeys(("label", "model", "data"), HOSTILE) for variant in plan()["variants"]]
    results = write_study(tmp_path / "results", variants=variants, **words)
    results.run(run_id(1, 2)).fail(as_failure(failure() | dict.fromkeys(("class", "error", "traceback"), HOSTILE)))
    sources = looked(results.root)

    for path in ("/", STUDY, f"/run/{run_id(1, 2)}", f"/run/{run_id(0, 0)}"):
        for body in parts(sources, path, f"?find={HOSTILE}&a={HOSTILE}").values():
            assert not re.search(r"<img src=x|<b>|<i>", body)
