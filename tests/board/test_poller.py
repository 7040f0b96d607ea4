import json
import os
import re
import time

import pytest
from boards import looked
from made_up import (
    as_failure,
    as_result,
    failure,
    plan,
    result,
    run_id,
    write_caption_study,
    write_epochs,
    write_search,
    write_study,
)

from recstudy.analysis.frame import load_study
from recstudy.board.markup import address_of
from recstudy.board.renderer import page_at
from recstudy.errors import ConfigError
from recstudy.records import Results, append_line
from recstudy.records.files import write_json
from recstudy.records.locks import locked

STUDY = ("made_up", "paper")


@pytest.mark.parametrize("write", [write_study, write_search, write_caption_study])
def test_the_board_reads_the_rows_that_the_report_reads(tmp_path, write):
    results = write(tmp_path / "results")

    assert looked(results.root).records(STUDY).rows == load_study(results, *STUDY).rows


def test_rows_follow_the_folder_and_are_then_still_those_of_the_report(results):
    sources = looked(results.root)
    before = sources.records(STUDY)
    results.run(run_id(3, 0)).finish(as_result(result(94.0, "ViT-Small")))  # was not run
    results.run(run_id(1, 2)).finish(as_result(result(93.3)))  # had failed
    results.run(run_id(3, 2)).fail(as_failure(failure()))  # was under way

    sources.poller.poll()
    after = sources.records(STUDY)

    assert after.rows == load_study(results, *STUDY).rows
    changed = {row.id for old, row in zip(before.rows, after.rows, strict=True) if old != row}
    assert changed == {run_id(3, 0), run_id(1, 2), run_id(3, 2)}


def test_a_finished_result_is_read_once(results):
    """Written over in its place, so that its folder looks untouched: a second reading would find other numbers."""
    file = results.run(run_id(0, 0)).result
    folder = file.parent.stat()
    sources = looked(results.root)
    file.write_text(json.dumps(result(1.0)))
    os.utime(file.parent, ns=(folder.st_atime_ns, folder.st_mtime_ns))

    sources.poller.poll()

    assert sources.poller.outcome(run_id(0, 0)).value("top1_accuracy") == 93.0


def test_a_log_is_read_from_where_the_last_look_ended(results):
    """What was read is written over in its place: a second reading would find it damaged."""
    sources = looked(results.root)
    epochs = results.run(run_id(3, 2)).epochs
    content = epochs.read_bytes()
    with open(epochs, "rb+") as file:
        file.write(re.sub(rb"[^\n]", b"#", content))
    append_line(epochs, {"epoch": 3, "train_loss": 0.5})

    sources.poller.poll()

    run = sources.poller.running[run_id(3, 2)]
    assert sorted(run.log.lines) == [0, 1, 2, 3]
    assert run.offset == epochs.stat().st_size


def test_a_torn_line_waits_until_it_is_whole(results):
    epochs = results.run(run_id(3, 2)).epochs
    with open(epochs, "a") as file:
        file.write('{"epoch": 3, "train')
    sources = looked(results.root)
    log = sources.poller.running[run_id(3, 2)].log
    torn = sorted(log.lines)
    with open(epochs, "a") as file:
        file.write('_loss": 0.5}\n')

    sources.poller.poll()

    assert torn == [0, 1, 2]
    assert sorted(log.lines) == [0, 1, 2, 3]


def test_a_log_that_was_cut_back_is_read_anew(results):
    sources = looked(results.root)
    results.run(run_id(3, 2)).keep_epochs(below=1)
    append_line(results.run(run_id(3, 2)).epochs, {"epoch": 1, "train_loss": 9.0})

    sources.poller.poll()

    lines = sources.poller.running[run_id(3, 2)].log.lines
    assert sorted(lines) == [0, 1]
    assert lines[1].values["train_loss"] == 9.0


def test_a_run_runs_while_its_lock_is_held_or_its_logs_grow(results):
    """A copy of an object store has no locks."""
    folder = results.run(run_id(3, 2))
    without_lock = set(looked(results.root).poller.running)
    with locked(folder.lock, "process 1"):
        for file in folder.path.iterdir():
            os.utime(file, (0, time.time() - 100))
        locked_by_worker = set(looked(results.root).poller.running)

    assert without_lock == locked_by_worker == {run_id(3, 2)}
    assert looked(results.root).poller.running == {}


def test_a_folder_that_changed_within_a_tick_is_read_again_whatever_its_clock_says(results):
    """The time of change of a folder stays as it was, as on a file server whose clock ticks once a second and is behind ours."""
    poller, folder, then = looked(results.root).poller, results.run(run_id(3, 2)), time.time_ns() - 10**12
    os.utime(folder.path, ns=(then, then))
    poller.poll()
    folder.finish(as_result(result(90.0)))
    os.utime(folder.path, ns=(then, then))
    poller.poll()

    assert poller.outcome(run_id(3, 2)).done


def test_a_failed_run_does_not_run_until_it_is_tried_again(results):
    failed = results.run(run_id(1, 2))
    append_line(failed.attempts, {"attempt": 1})
    failed.fail(as_failure(failure()))
    before = set(looked(results.root).poller.running)
    os.utime(failed.attempts, (0, time.time() + 5))

    assert run_id(1, 2) not in before
    assert run_id(1, 2) in looked(results.root).poller.running


def test_a_new_study_and_a_new_trial_are_found(tmp_path):
    results = write_search(tmp_path / "results")
    sources = looked(results.root)
    trials = len(sources.records(STUDY).rows)
    log = next(results.study(*STUDY).glob("trials-*.jsonl"))
    line = json.loads(log.read_text().splitlines()[0])
    append_line(log, line | {"number": 99, "id": run_id(99, 0)})
    write_json(results.study("other", "quick") / "plan.json", plan(study="other"))

    sources.poller.poll()

    assert len(sources.records(STUDY).rows) == trials + 1
    assert set(sources.poller.studies) == {STUDY, ("other", "quick")}


LINKS = ["runs", "studies", "studies/linked", "studies/made_up/linked", "studies/made_up/other/plan.json"]


@pytest.mark.parametrize("link", [*LINKS, *(f"runs/{run_id(3, 1)}{file}" for file in ("", "/result.json", "/epochs.jsonl"))])
def test_no_link_out_of_the_folder_is_followed(results, tmp_path, link):
    outside = tmp_path / "elsewhere"
    secret = Results(outside).create()
    write_json(secret.study(*STUDY) / "plan.json", plan(question="a secret question"))
    write_json(secret.root / "studies/made_up/plan.json", plan(question="a secret question"))
    secret.run(run_id(3, 1)).finish(as_result(result(12.34567)))
    write_epochs(secret, run_id(3, 1), 12.34567)
    place, kind = results.root / link, link.partition("/")[0]
    if link == kind:
        place.rename(tmp_path / "before")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(
        outside / {"linked": "studies/made_up", "plan.json": "studies/made_up/paper/plan.json"}.get(place.name, link)
    )
    sources = looked(results.root)
    paths = ["/", *(f"/study/{name}/{preset}" for name, preset in sources.poller.studies)]
    pages = [page_at(sources, address_of(path)) for path in paths if not path.endswith(("linked", "other"))]
    said = "".join(recipe.part().body for page in pages for recipe in page.recipes)

    assert "secret" not in said + str(sources.poller.studies)
    assert "12.3" not in said
    if link.startswith("runs/"):
        assert "The board follows none" in sources.poller.outcome(run_id(3, 1)).error


def test_stray_files_are_neither_runs_nor_studies(results):
    before = looked(results.root).poller
    for folder in ("runs", "studies", "studies/made_up", "studies/made_up/paper"):
        (results.root / folder / ".DS_Store").touch()
    poller = looked(results.root).poller

    assert (poller.runs.keys(), poller.studies.keys()) == (before.runs.keys(), before.studies.keys())
    assert not poller.outcome(".DS_Store").failure


def test_a_damaged_result_costs_its_own_row(results):
    write_json(results.run(run_id(0, 1)).path / "result.json", {"status": "done", "metrics": ["a list"]})
    results.run(run_id(0, 2)).result.write_text("{")
    rows = {row.id: row for row in looked(results.root).records(STUDY).rows}

    assert [rows[run_id(0, seed)].status for seed in range(3)] == ["done", "failed", "failed"]
    assert rows[run_id(0, 1)].error_class == "damaged record"


@pytest.mark.parametrize("content", ["{", "{}"])
def test_a_damaged_plan_costs_its_own_study(results, content):
    folder = results.study("broken", "quick")
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(content)
    sources = looked(results.root)

    with pytest.raises(ConfigError, match=r"damaged"):
        sources.records(("broken", "quick"))
    assert len(sources.records(STUDY).rows) == 12
