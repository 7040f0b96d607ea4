"""What becomes of a group of Ray Train workers, and of the runs after it, when a run harms it."""

import os
import signal
from itertools import pairwise
from pathlib import Path

import pytest
from shell import Shell, titled, until
from twice import curve, curve_alone

pytestmark = pytest.mark.fault

CORES = str(os.cpu_count())  # of a run, so that there is one group
ALONE = ("--cpus-per-run", CORES)


@pytest.fixture
def warm(tmp_path: Path) -> Shell:
    return Shell(tmp_path, Path(__file__).with_name("warm.py"))


def begun(shell: Shell, *arguments: str) -> dict[str, list[int]]:
    """The processes of a run's attempts, by label."""
    attempts = shell.lines("attempts.jsonl")
    return {label: [line["process"] for line in attempts.get(run, ())] for label, run in shell.plan(*arguments).items()}


def test_a_group_serves_families_in_turn_and_is_replaced_where_it_found_no_memory(warm, tmp_path):
    output = warm.run(*ALONE, code=1)  # one run diverges, and one finds no memory

    processes = {label.removesuffix(", seed 0"): tried for label, tried in begun(warm, *ALONE).items()}
    first = processes["recursive"]
    assert len(first) == 1
    assert all(processes[label] == first for label in ("residual", "diverges", "recursive again")), output
    assert processes["hungry"][0] == first[0]
    assert len(processes["hungry"]) == 2  # once more, alone
    assert processes["residual again"] != first
    statuses = [result["status"] for result in warm.records().values()]
    assert sorted(statuses) == ["diverged", "done", "done", "done", "done"]
    ((_, failure),) = warm.records("failure.json").items()
    assert failure["class"] == "out of memory"
    assert "Once more, one at a time, for want of memory: hungry, seed 0" in output
    assert "[6/6] hungry, seed 0: RuntimeError" in output
    for run, result in warm.records().items():
        if result["status"] == "diverged":  # in its first epoch
            continue
        assert curve(warm.results / "runs" / run) == curve_alone(warm, run, tmp_path / "alone"), result
    ended = {path.parent.name: path.stat().st_mtime for path in warm.results.glob("runs/*/result.json")}
    started = {run: (warm.results / "runs" / run / "config.json").stat().st_mtime for run in ended}
    order = [run for label, run in warm.plan(*ALONE).items() if label.partition(",")[0] in list(processes)[:4]]
    assert max(started[after] - ended[before] for before, after in pairwise(order)) < 5


def test_a_worker_that_dies_in_a_warm_group_takes_its_run_s_epoch_alone(shell):
    """In the second run of the group of two; then the third run is the new group's."""
    chosen = ("--only", "*supervision_steps=1", "--set", "train.epochs=40", "--workers-per-run", "2")
    labels = [f"latent_steps={steps}, supervision_steps=1" for steps in (1, 2, 3)]
    planned = shell.plan(*chosen)
    first, second, third = (planned[f"{label}, seed 0"] for label in labels)
    with shell.start(*chosen) as driver:
        until(lambda: second in shell.begun(), "ten epochs of the second run")
        (attempt,) = shell.lines("attempts.jsonl")[second]
        (other,) = set(titled(f"tiny {labels[1]} seed=0", driver.pid, 2)) - {attempt["process"]}
        os.kill(other, signal.SIGKILL)
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 0, output + errors
    tries = {run: [line["process"] for line in lines] for run, lines in shell.lines("attempts.jsonl").items()}
    assert tries[first] == tries[second][:1]
    assert len(tries[second]) == 2
    assert tries[third] == tries[second][1:]
    assert [epoch for epoch, *_ in curve(shell.results / "runs" / second)] == list(range(40))


def test_a_worker_that_is_stopped_ends_its_group_and_the_next_run_begins(shell):
    """The second of two: the first waits for it, as silent as it is."""
    two = ("--only", "latent_steps=1*", "--workers-per-run", "2")
    chosen = (*two, "--set", "train.epochs=80", "--set", "place.silent_minutes=0.1")
    frozen, other = shell.plan(*chosen).values()
    with shell.start(*chosen) as driver:
        until(lambda: frozen in shell.begun(), "ten epochs")
        (attempt,) = shell.lines("attempts.jsonl")[frozen]
        title = "tiny latent_steps=1, supervision_steps=1 seed=0"
        (second,) = set(titled(title, driver.pid, 2)) - {attempt["process"]}
        os.kill(second, signal.SIGSTOP)
        output, errors = driver.communicate(timeout=900)

    assert driver.returncode == 5, output + errors
    assert shell.records("failure.json")[frozen]["class"] == "hung"
    assert list(shell.records()) == [other]


def test_the_next_command_sees_changed_code(warm, tmp_path):
    """Workers are of one command: none lives on with code of before."""
    copy = tmp_path / "changing.py"
    copy.write_text(warm.study.read_text())
    changing = Shell(tmp_path, copy)
    chosen = ("--only", "recursive", *ALONE)
    changing.run(*chosen)
    copy.write_text(copy.read_text().replace("latent_tokens=4", "latent_tokens=3"))

    changing.run(*chosen)

    assert sorted(config["model"]["latent_tokens"] for config in changing.records("config.json").values()) == [3, 4]
