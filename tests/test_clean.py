import os
import subprocess
import sys

import pytest

from recstudy.clean import reclaimable
from recstudy.command import main
from recstudy.records import Results, append_line, locked, write_json


@pytest.fixture
def results(tmp_path) -> Results:
    """Five runs of a study in different states, a trial of a search, a run that no study names, and leftovers."""
    results = Results(tmp_path / "results").create()
    study = results.study("depths", "quick")
    names = ["done", "failed", "stopped", "cut", "busy"]
    write_json(study / "plan.json", {"runs": [[0, seed, name] for seed, name in enumerate(names)]})
    append_line(study / "trials-abc.jsonl", {"number": 0, "id": "trial"})
    for name in (*names, "trial", "orphan"):
        folder = results.run(name)
        folder.path.mkdir(parents=True)
        folder.config.write_text("{}")
        (folder.path / "checkpoint-000001.pt").write_bytes(b"x" * 1000)
        (folder.path / ".epochs.jsonl.7.tmp").write_bytes(b"x" * 10)
    results.run("done").finish({"status": "done"})
    results.run("done").weights.write_bytes(b"w")
    results.run("failed").fail({"class": "code"})
    results.run("failed").hang_log(0).write_text("stack")
    write_json(results.run("stopped").stopped, {"epoch": 1})
    (results.root / "recstudy-4u1b").mkdir()
    (results.root / "recstudy-4u1b/state").write_bytes(b"x" * 100)
    (study / ".plan.json.7.tmp").write_bytes(b"x")
    return results


def found(results: Results, orphans: bool = False) -> dict[str, tuple[int, str]]:
    return {str(path.relative_to(results.root)): (size, why) for path, size, why in reclaimable(results, orphans)}


TEMPORARY = (10, "left half-written by a killed process")
CAN_GO = {
    "recstudy-4u1b": (100, "Ray's scratch of a killed driver"),
    "runs/cut/.epochs.jsonl.7.tmp": TEMPORARY,
    "runs/done/.epochs.jsonl.7.tmp": TEMPORARY,
    "runs/done/checkpoint-000001.pt": (1000, "a checkpoint of a finished run"),
    "runs/failed/.epochs.jsonl.7.tmp": TEMPORARY,
    "runs/failed/checkpoint-000001.pt": (1000, "a checkpoint of a failed run, which would begin anew"),
    "runs/failed/hang-0.log": (5, "where a run hung, which the next command would tell"),
    "runs/orphan/.epochs.jsonl.7.tmp": TEMPORARY,
    "runs/stopped/.epochs.jsonl.7.tmp": TEMPORARY,
    "runs/stopped/checkpoint-000001.pt": (1000, "a checkpoint of a stopped run, which would begin anew"),
    "runs/trial/.epochs.jsonl.7.tmp": TEMPORARY,
    "studies/depths/quick/.plan.json.7.tmp": (1, "left half-written by a killed process"),
}


def test_what_can_go_is_what_no_report_and_no_run_under_way_needs(results):
    with locked(results.run("busy").lock, "a worker"):
        assert dict(sorted(found(results).items())) == CAN_GO


def test_runs_that_no_study_names_go_only_when_asked(results):
    assert "runs/orphan" not in found(results)
    assert found(results, orphans=True)["runs/orphan"] == (1012, "no study names this run")


def test_scratch_of_a_driver_that_lives_stays(results):
    with locked(results.study("depths", "quick") / "lock", "a driver"):
        assert "recstudy-4u1b" not in found(results)


def test_the_command_shows_first_and_removes_with_yes(results, capsys):
    def clean(*arguments: str) -> str:
        with pytest.raises(SystemExit, match="0"):
            main(["clean", str(results.root), *arguments])
        return capsys.readouterr().out

    before = sorted(results.root.rglob("*"))
    with locked(results.run("busy").lock, "a worker"):
        shown = clean("--orphans")
        assert "no study names this run" in shown
        assert "0.0 MB in all. Nothing was removed; --yes removes it." in shown
        assert sorted(path for path in results.root.rglob("*") if path.name != "lock") == before

        assert "Removed 12 files and folders" in clean("--orphans", "--yes")

    assert found(results) == {"runs/busy/.epochs.jsonl.7.tmp": TEMPORARY}  # no longer busy
    assert results.states() == {"done": "done", "failed": "failed", "stopped": "stopped"}
    assert results.run("done").weights.exists()
    assert sorted(os.listdir(results.root / "runs/cut")) == ["checkpoint-000001.pt", "config.json"]
    assert not results.run("orphan").path.exists()


def test_the_runs_of_a_damaged_plan_are_not_taken_for_orphans(results, capsys):
    (results.study("depths", "quick") / "plan.json").write_text('{"runs": [[0')

    with pytest.raises(SystemExit, match="2"):
        main(["clean", str(results.root), "--yes"])

    assert "plan.json is damaged" in capsys.readouterr().err
    assert results.run("orphan").path.exists()


def test_a_folder_that_is_no_results_folder_is_left_alone(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["clean", str(tmp_path), "--yes"])

    assert "is no results folder: recstudy.json is missing" in capsys.readouterr().err


def test_cleaning_loads_neither_torch_nor_ray(results):
    code = "import sys\nfrom recstudy.command import main\ntry:\n    main(['clean', sys.argv[1]])\nfinally:\n    print({'torch', 'ray'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, str(results.root)], capture_output=True, text=True, check=False)

    assert done.stdout.endswith("set()\n"), done.stdout + done.stderr
