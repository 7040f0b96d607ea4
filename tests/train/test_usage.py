"""What a run uses of its machine over time: lines that say what was used, few of them, and none that costs the run."""

import json
import time
from pathlib import Path

import pytest
import torch

from recstudy.records import RunFolder, read_log
from recstudy.records.schema import UsageLine
from recstudy.testing import make_trial, tiny_run
from recstudy.train import usage
from recstudy.train.trial import run_trial
from recstudy.train.usage import Usage, usage_recorded

CPU = torch.device("cpu")


def burn(seconds: float) -> None:
    """Keep one core busy for so much processor time."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


def lines_of(path: Path) -> list[UsageLine]:
    return read_log(path, UsageLine)


def test_lines_cover_the_time_and_say_how_busy_the_process_was(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "STEP_S", 0.1)
    began = time.perf_counter()
    with usage_recorded(tmp_path / "usage.jsonl", CPU) as recorded:
        burn(0.25)
        time.sleep(0.5)
    took, lines = time.perf_counter() - began, lines_of(tmp_path / "usage.jsonl")

    assert 3 <= len(lines) <= took / 0.1
    assert sum(line.seconds for line in lines) == pytest.approx(took, abs=0.3)
    assert lines[0].cores > 2 * lines[-1].cores  # busy, then asleep
    assert all(line.memory_mb is not None and 50 < line.memory_mb < 50_000 for line in lines)
    assert all(line.gpu is None and line.gpu_memory_mb is None for line in lines)
    assert recorded.means == {"cores_used": pytest.approx(sum(one.cores * one.seconds for one in lines) / took, rel=0.4)}


def test_a_week_takes_as_many_lines_as_an_hour_and_loses_no_mean_and_no_peak(tmp_path, monkeypatch):
    """16 lines at most, of 100 stretches: two become one, and the step doubles."""
    monkeypatch.setattr(usage, "STEP_S", 0.001)
    recorded, began = Usage(tmp_path / "usage.jsonl", CPU, most=16), time.perf_counter()
    held = []
    for at in range(100):
        monkeypatch.setattr(usage, "_resident_mb", lambda at=at: 1000.0 if at == 40 else 100.0 + at)
        time.sleep(0.002)
        recorded.tick()
        held.append(len(recorded.lines))
    took, lines = time.perf_counter() - began, lines_of(tmp_path / "usage.jsonl")

    assert lines == recorded.lines
    assert max(held) == 16
    assert 8 <= len(lines) <= 16
    assert sum(line.seconds for line in lines) == pytest.approx(took, rel=0.1)
    assert max(line.memory_mb for line in lines) == 1000.0
    assert lines[0].seconds > 2 * lines[-1].seconds
    assert recorded.step == lines[0].seconds  # the next line covers as much as the oldest does


def test_a_run_that_goes_on_goes_on_with_its_lines_without_what_a_kill_left_of_one(tmp_path):
    log = tmp_path / "usage.jsonl"
    whole = '{"seconds": 40.0, "cores": 1.5}\n{"seconds": 40.0, "cores": "many"}\n{"seconds": 40.0, "cores": 0.5, "gpu": 50.0}\n'
    log.write_text(whole + '{"seconds": 10.0, "co')
    with usage_recorded(log, CPU) as recorded:
        assert recorded.step == 40.0
        recorded.tick()

    first, second, third = lines_of(log)
    assert (first.cores, second.cores, second.gpu) == (1.5, 0.5, 50.0)
    assert third.seconds < 10
    assert recorded.means["cores_used"] == pytest.approx(1.0, abs=0.1)
    assert recorded.means["gpu_use"] == 50.0


def test_a_run_says_what_it_used_in_its_folder_and_in_its_result(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "STEP_S", 0.02)
    work = make_trial(tmp_path, tiny_run(epochs=6))
    run_trial(work, lambda line: None)
    folder = RunFolder(Path(work.folder))
    cost = json.loads(folder.result.read_text())["cost"]

    assert lines_of(folder.usage)
    assert 0.1 < cost["cores_used"] < 64
    assert "gpu_use" not in cost


def test_a_run_of_less_than_a_step_leaves_no_file(tmp_path):
    work = make_trial(tmp_path, tiny_run())
    run_trial(work, lambda line: None)
    folder = RunFolder(Path(work.folder))

    assert folder.finished
    assert not folder.usage.exists()


def test_a_log_that_cannot_be_written_costs_the_run_nothing_but_a_warning(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(usage, "STEP_S", 0.02)
    (tmp_path / "usage.jsonl").mkdir()
    with usage_recorded(tmp_path / "usage.jsonl", CPU, write=True):
        time.sleep(0.2)

    assert caplog.text.count("what the run uses is recorded no further") == 1
