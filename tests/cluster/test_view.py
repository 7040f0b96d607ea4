"""What a pipe or a log file is told while a study runs."""

import io

import pytest
import tiny
from rich.console import Console

from recstudy.base.errors import EXIT_CODES
from recstudy.cluster import view
from recstudy.cluster.view import QUIET_S, View
from recstudy.study.plan import make_plan

FIRST, SECOND, *_ = RUNS = make_plan(tiny.study).runs


@pytest.fixture
def clock(monkeypatch) -> list[float]:
    """Its one number is the time; no FLOPs are known."""
    clock_time = [100.0]
    monkeypatch.setattr(view.time, "monotonic", lambda: clock_time[0])
    # whatever other tests have counted
    monkeypatch.setattr("recstudy.recursive.program.known_pflop", lambda config: None)
    return clock_time


def line(epoch: int, loss: float) -> dict[str, float]:
    return {"epoch": epoch, "epochs": 4, "train_loss": loss, "selection_top1_accuracy": 50.0}


def test_epoch_is_printed_after_half_a_minute_of_silence_and_not_before(clock):
    quiet_view = View(Console(file=io.StringIO(), width=200))
    with quiet_view:
        quiet_view.planned(RUNS[:2], RUNS[:2])
        quiet_view.on_start(FIRST)
        quiet_view.on_epoch(FIRST, line(0, 2.5))
        clock[0] += QUIET_S
        quiet_view.on_epoch(FIRST, line(1, 1.25))
        clock[0] += QUIET_S - 1
        quiet_view.on_epoch(FIRST, line(2, 1.0))
        clock[0] += 1
        quiet_view.on_start(SECOND)
        quiet_view.on_epoch(SECOND, line(0, 3.0))

    first, *progress_lines = quiet_view.console.file.getvalue().splitlines()
    assert first.endswith("2 to run")
    # two epochs tell no pace yet; three took 59 s, so that 20 are left of this run, and 3/4 of 79 of the one
    # beside it
    assert progress_lines == [
        f"{FIRST.label}, seed {FIRST.seed}: epoch 2/4, loss 1.250, 50.00 %",
        f"{SECOND.label}, seed {SECOND.seed}: epoch 1/4, loss 3.000, 50.00 %   about 59 s left",
    ]


def test_the_line_of_an_epoch_without_a_loss_names_none(clock):
    quiet_view = View(Console(file=io.StringIO(), width=200))
    with quiet_view:
        clock[0] += QUIET_S
        quiet_view.on_epoch(FIRST, {"epoch": 0, "epochs": 4, "selection_top1_accuracy": 50.0})

    assert quiet_view.console.file.getvalue() == f"{FIRST.label}, seed {FIRST.seed}: epoch 1/4, 50.00 %\n"


def test_a_start_shows_its_phase_with_the_elapsed_time_until_the_first_run(clock):
    def shown(row=0) -> str:
        page = Console(file=io.StringIO(), width=100)
        page.print(terminal._picture())
        return page.file.getvalue().splitlines()[row].rstrip()

    terminal = View(Console(file=io.StringIO(), width=200))
    clock[0] += 3
    phases = [shown()]
    terminal.planned(RUNS[:2], RUNS[:2])
    terminal.begin("starting Ray")
    clock[0] += 12
    phases.append(shown())
    terminal.ray_started("http://127.0.0.1:8265")
    clock[0] += 5
    phases.append(shown())
    terminal.on_start(FIRST)

    assert phases == [
        "checking data and settings (3 s)",
        "starting Ray (12 s)",
        "starting the first run (5 s)",
    ]
    assert shown() == "0 done, 1 running, 0 failed of 2"
    clock[0] += 7
    assert shown(-1).split("  ")[-1] == "starting (7 s)"
    assert terminal.console.file.getvalue().splitlines() == [
        "2 runs: 0 finished before, 2 to run",
        "Ray started in 12 s. Ray dashboard: http://127.0.0.1:8265",
    ]


def test_lost_head_ends_the_process_and_prints_the_command_to_resume(monkeypatch, capsys):
    codes: list[int] = []
    monkeypatch.setattr("sys.argv", ["tiny.py", "--only", "a=1", "--address", "here:1"])
    monkeypatch.setattr("os._exit", codes.append)

    View(Console(file=io.StringIO())).exit_lost(
        "the head node of the Ray cluster, here:1, does not answer any more"
    )

    line = capsys.readouterr().err
    assert line.startswith(
        "ClusterError: the head node of the Ray cluster, here:1, does not answer any more. Finished runs are"
    )
    assert line.endswith(": python tiny.py --only a=1 --address here:1\n")
    assert codes == [EXIT_CODES["lost node"]] == [9]
