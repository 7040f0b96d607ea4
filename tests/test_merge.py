"""Two results folders become one, without a training: what is taken, what is kept beside, and what a kill in between leaves."""

import os
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from recstudy.command import main
from recstudy.records import Attempt, Measured, PlanRecord, Results, append_record, locked, read_log, read_record, write_record
from recstudy.records.merge import ASIDE
from recstudy.records.plans import kept_plans, read_plan
from recstudy.records.reading import read_trials
from recstudy.records.schema import Later, MergeLine
from recstudy.records.study_schema import Clock, ClockLine, ConfirmLine, Look, TrialLine, VariantRecord
from recstudy.study.design import grid
from recstudy.testing import make_failure, make_result, tiny_study, write_study


def merge(*words: object) -> None:
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["merge", *map(str, words)])


def refused(capsys, *words: object) -> str:
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["merge", *map(str, words)])
    return capsys.readouterr().err.strip()


def content(folder: Path) -> dict[str, bytes]:
    """Every file but the lock, and when it was changed."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path != folder / "lock"]
    return {f"{path.relative_to(folder)} {path.stat().st_mtime_ns}": path.read_bytes() for path in files}


@pytest.fixture
def folders(tmp_path) -> tuple[Results, Results]:
    """One study of four runs: ours has seed 0, theirs both seeds."""
    ours = write_study(tmp_path / "ours", seeds=1)
    return ours, write_study(tmp_path / "theirs", seeds=2, score=lambda run: None if run.seed == 0 else 80.0)


def test_runs_that_ours_lacks_are_taken_and_the_plan_names_the_seeds_of_both(folders, capsys):
    ours, theirs = folders
    before = content(theirs.root)

    merge(ours.root, theirs.root)

    assert f"{theirs.root}: runs: 2 new; 2 files of studies" in capsys.readouterr().out
    assert len(ours.states()) == 4
    plan = read_plan(ours.study("tiny", "quick"))
    assert (plan.seeds, len(plan.runs)) == ((0, 1), 4)
    assert content(theirs.root) == before
    assert not (ours.root / ASIDE).exists()

    merge(ours.root, theirs.root)
    assert "runs: 2 the same in both; 0.0 MB copied" in capsys.readouterr().out


def test_a_third_folder_receives_both_and_a_dry_run_makes_nothing(folders, tmp_path, capsys):
    before = [content(one.root) for one in folders]
    words = [folders[0].root, folders[1].root, "--into", tmp_path / "both"]

    merge(*words, "--dry-run")
    assert "runs: 2 new" in capsys.readouterr().out
    assert not (tmp_path / "both").exists()

    merge(*words)
    assert len(Results(tmp_path / "both").states()) == 4
    assert [content(one.root) for one in folders] == before


def test_a_finished_run_takes_the_place_of_an_unfinished_one_which_is_kept(tmp_path, capsys):
    ours = write_study(tmp_path / "ours", seeds=2, score=lambda run: 70.0 if run.seed else make_failure("it broke"))
    theirs = write_study(tmp_path / "theirs", seeds=2, score=lambda run: make_failure() if run.seed else 90.0)
    failed = ours.run(next(run for run, state in ours.states().items() if state == "failed"))
    failed.begin(Attempt(started="now"))
    (failed.path / "checkpoint-000001.pt").write_bytes(b"x")
    failed.notes.write_text('{"text": "look at this"}\n')

    merge(ours.root, theirs.root)

    said = capsys.readouterr().out
    assert "runs: 2 in the place of unfinished ones, which are kept beside, 2 not taken, because ours got as far" in said
    assert sorted(file.name for file in failed.path.iterdir()) == ["notes.jsonl", "other-1", "result.json"]
    assert sorted(file.name for file in (failed.path / "other-1").iterdir()) == ["attempts.jsonl", "failure.json"]
    assert sorted(result.metrics["top1_accuracy"] for _, result in ours.finished()) == [70.0, 70.0, 90.0, 90.0]


def test_two_attempts_are_both_kept_and_their_numbers_are_said(tmp_path, capsys):
    ours, theirs = write_study(tmp_path / "ours", seeds=1), write_study(tmp_path / "theirs", seeds=1, score=91.5)
    run = min(ours.states())
    theirs.run(run).archive()
    theirs.run(run).finish(make_result(92.0))

    merge(ours.root, theirs.root)

    said = capsys.readouterr().out
    assert f"conflict: run {run} (tiny: latent_steps=" in said
    assert f"top1_accuracy 90.0 here, 92.0 there; ours is shown, theirs kept in runs/{run}/other-1" in said
    files = [ours.run(run).result, *(ours.run(run).path / f"other-{at}/result.json" for at in (1, 2))]
    assert [read_record(file, type(make_result())).metrics["top1_accuracy"] for file in files] == [90.0, 92.0, 91.5]
    assert read_log(ours.merges, MergeLine)[0].others == tuple(sorted(ours.states()))

    before = content(ours.root)
    merge(ours.root, theirs.root)
    assert "2 another attempt that was kept before" in capsys.readouterr().out
    assert content(ours.root) == before


def test_what_was_computed_since_and_files_that_one_lacks_are_added(tmp_path, capsys):
    ours = write_study(tmp_path / "ours", seeds=1)
    merge(ours.root, write_study(tmp_path / "empty", tiny_study(name="other"), score=lambda run: None).root)
    theirs = Results(tmp_path / "theirs")
    merge(ours.root, ours.root.parent / "empty", "--into", theirs.root)
    run = min(ours.states())
    later = {name: Later(value=value, how="answers") for name, value in {"nll": 1.0, "ece": 2.0}.items()}
    write_record(ours.run(run).measured, Measured(metrics={"nll": Later(value=3.0, how="answers")}))
    write_record(theirs.run(run).measured, Measured(metrics=later))
    theirs.run(run).weights.write_bytes(b"weights")

    merge(ours.root, theirs.root)

    assert f"conflict: run {run}: computed later on both sides, nll 3.0 here, 1.0 there; ours stays" in capsys.readouterr().out
    found = read_record(ours.run(run).measured, Measured).metrics
    assert {name: one.value for name, one in found.items()} == {"nll": 3.0, "ece": 2.0}
    assert ours.run(run).weights.read_bytes() == b"weights"


def test_definitions_stand_beside_each_other_and_the_earlier_date_of_a_claim_holds(tmp_path, capsys):
    ours, theirs = (
        write_study(tmp_path / "ours"),
        write_study(tmp_path / "theirs", tiny_study(grid({"model.latent_steps": [1, 3]}))),
    )
    places = [results.study("tiny", "quick") for results in (ours, theirs)]
    for place, date in zip(places, ("2026-11-05T00:00:00+00:00", "2026-11-01T00:00:00+00:00"), strict=True):
        plan = replace(read_record(place / "plan.json", PlanRecord), stated={"abc": date})
        for file in place.glob("plan*.json"):
            write_record(file, plan)
        append_record(place / "looks-same.jsonl", Look(seeds=int(date[9]), date=date))

    merge(ours.root, theirs.root)

    said = capsys.readouterr().out
    assert "a claim or margin was first stated on 2026-11-05T00:00:00+00:00 here, on 2026-11-01T00:00:00+00:00 there" in said
    assert f"stands beside {read_plan(places[0]).definition}, which is ours" in said
    assert [variant.label for variant in read_plan(places[0]).variants] == ["latent_steps=1", "latent_steps=2"]
    assert {plan.stated["abc"][:10] for _, plan in kept_plans(places[0])} == {"2026-11-01"}
    assert [look.seeds for look in read_log(places[0] / "looks-same.jsonl", Look)] == [5, 1]


def test_trials_of_two_searches_are_numbered_on_and_of_one_run_there_is_one(tmp_path):
    logs = []
    for name, ids in (("ours", "ab"), ("theirs", "bcd")):
        logs.append(write_study(tmp_path / name).study("tiny", "quick") / "trials-x.jsonl")
        for at, one in enumerate(ids):
            append_record(logs[-1], TrialLine(number=at, params={}, variant=VariantRecord(label=one), seed=0, id=one))
        append_record(logs[-1], ClockLine(clock=Clock(session=name, h=1.0, gpuh=0.0)))
        append_record(logs[-1], ConfirmLine(confirms=1, seed=1, id=f"{ids[1]}1"))

    for _ in range(2):
        merge(tmp_path / "ours", tmp_path / "theirs")

    lines = read_trials(logs[0])
    assert [(line.number, line.id) for line in lines if isinstance(line, TrialLine)] == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]
    assert [(line.confirms, line.id) for line in lines if isinstance(line, ConfirmLine)] == [(1, "b1"), (2, "c1")]
    assert [line.clock.session for line in lines if isinstance(line, ClockLine)] == ["ours", "theirs"]


def test_links_and_pipes_are_named_and_not_followed(folders, tmp_path, capsys):
    ours, theirs = folders
    run, other = sorted(theirs.states())
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (theirs.run(run).path / "captions.json").symlink_to(secret)
    os.mkfifo(theirs.run(run).path / "lock")
    (theirs.root / "runs/linked").symlink_to(theirs.run(other).path)
    (theirs.root / "studies/linked").symlink_to(theirs.root / "studies/tiny")

    merge(ours.root, theirs.root)

    said = capsys.readouterr().out
    for path in ("captions.json", "lock", "runs/linked", "studies/linked"):
        assert f"{path} is a link or a special file, which is not followed\n" in said
    assert len(ours.states()) == 4
    assert not (ours.run(run).path / "captions.json").exists()
    assert not (ours.root / "studies/linked").exists()


def test_a_damaged_run_and_a_damaged_plan_are_left_out_by_name(folders, capsys):
    ours, theirs = folders
    run = min(theirs.states())
    theirs.run(run).result.write_text("{")
    (theirs.study("tiny", "quick") / "plan.json").write_text("{")

    merge(ours.root, theirs.root)

    said = capsys.readouterr().out
    assert f"conflict: run {run} is left out: {theirs.run(run).result} is damaged" in said
    assert "conflict: studies/tiny/quick is left out: " in said
    assert run not in ours.states()


def test_what_lies_in_a_run_and_is_none_of_its_records_is_not_taken(folders):
    ours, theirs = folders
    run = min(theirs.states())
    for name in ("own_model.py", "hang-0.log", ".config.json.1.tmp"):
        (theirs.run(run).path / name).write_text("x")

    merge(ours.root, theirs.root)

    assert [file.name for file in ours.run(run).path.iterdir()] == ["result.json"]


@pytest.mark.parametrize("busy", ["ours", "theirs"])
def test_a_study_that_is_being_run_is_refused_by_one_line(busy, folders, tmp_path, capsys):
    ours, theirs = folders
    study = (tmp_path / busy / "studies/tiny/quick").absolute()
    with locked(study / "lock", "a driver"):
        assert (
            refused(capsys, ours.root, theirs.root) == f"StorageError: {study} is being run. Wait for it or stop it, then merge"
        )
    assert len(ours.states()) == 2


def test_a_run_under_way_is_left_out(folders, capsys):
    ours, theirs = folders
    run = min(theirs.states())
    with locked(theirs.run(run).lock, "a worker"):
        merge(ours.root, theirs.root)
    assert f"conflict: run {run} is under way and left out" in capsys.readouterr().out
    assert run not in ours.states()


def test_folders_that_are_none_or_the_same_are_refused(folders, tmp_path, capsys):
    ours, theirs = folders
    (tmp_path / "none").mkdir()

    assert refused(capsys, ours.root, tmp_path / "none").endswith("none is no results folder: recstudy.json is missing")
    assert refused(capsys, ours.root, "s3://bucket/results").endswith("is no results folder: merge takes folders on this machine")
    assert "are one folder, or one lies in the other" in refused(capsys, ours.root, ours.root)
    assert "are one folder, or one lies in the other" in refused(capsys, ours.root, theirs.root, "--into", ours.root / "runs")


def test_weights_whose_name_is_not_their_digest_are_left_out(folders, capsys):
    from hashlib import sha256

    ours, theirs = folders
    digest = sha256(b"good").hexdigest()[:20]
    theirs.weights(digest).parent.mkdir()
    theirs.weights(digest).write_bytes(b"good")
    theirs.weights("0" * 20).write_bytes(b"bad")

    merge(ours.root, theirs.root)

    assert "its name is not its digest" in capsys.readouterr().out
    assert [file.name for file in (ours.root / "weights").iterdir()] == [f"{digest}.safetensors"]


KILLED = """
import os, sys
from pathlib import Path
from recstudy.records import merge
from recstudy.terminal import console

left = int(sys.argv[3])

def counting(call):
    def counted(*values, **named):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
        return call(*values, **named)
    return counted

for place, name in ((os, "replace"), (os, "sync"), (Path, "rename"), (Path, "mkdir"), (merge.shutil, "copyfileobj")):
    setattr(place, name, counting(getattr(place, name)))
merge.show_merge(Path(sys.argv[1]), Path(sys.argv[2]), None, False, console())
"""


@pytest.mark.parametrize("calls", [0, 3, 5, 8, 9, 10, 11, 12, 13, 14, 16])
def test_a_merge_that_is_killed_anywhere_loses_nothing_and_goes_on(calls, tmp_path):
    score = {0: 90.0, 1: make_failure("it broke")}
    ours = write_study(tmp_path / "ours", seeds=2, score=lambda run: score[run.seed])
    theirs = write_study(tmp_path / "theirs", seeds=3, score=lambda run: 80.0)
    before = {path.read_bytes() for path in ours.root.glob("runs/*/*.json")}

    ended = subprocess.run([sys.executable, "-c", KILLED, ours.root, theirs.root, str(calls)], check=False, capture_output=True)

    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert before <= {path.read_bytes() for path in ours.root.rglob("runs/**/*.json")}
    merge(ours.root, theirs.root)
    assert set(ours.states().values()) == {"done"}
    assert len(ours.states()) == 6
    attempts = sorted(str(path.relative_to(ours.root / "runs").parent)[21:] for path in ours.root.glob("runs/*/other-*/*.json"))
    assert attempts == ["other-1"] * 4  # two results of theirs, and two failures of ours
    assert not (ours.root / ASIDE).exists()


def test_the_commands_of_the_documentation_run(folders, tmp_path, monkeypatch):
    page = (Path(__file__).parents[1] / "docs/how-to/run.md").read_text()
    lines = [shlex.split(line, comments=True)[1:] for line in page.splitlines() if line.startswith("recstudy merge ")]
    (tmp_path / "ours").rename(tmp_path / "results")
    monkeypatch.chdir(tmp_path)

    for words in lines:
        merge(*words[1:])

    assert len(lines) == 3
    assert [len(Results(name).states()) for name in ("results", "theirs", "both")] == [4, 2, 4]
