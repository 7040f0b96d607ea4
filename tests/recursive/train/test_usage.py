"""What a run uses of its machine."""

import json
import time
from pathlib import Path

import torch

from recstudy.programs.trial import run_trial
from recstudy.records import RunFolder
from recstudy.recursive.testing import make_trial, tiny_run
from recstudy.recursive.train import usage
from recstudy.recursive.train.usage import Usage


def test_values_are_means_and_peaks(monkeypatch):
    monkeypatch.setattr(usage, "STEP_S", 0.01)
    samples = iter([20.0, 100.0, 60.0, None])
    monkeypatch.setattr(usage, "gpu_use", lambda index: next(samples))
    measured = Usage(torch.device("cuda"))
    measured.sample()
    cpu_start, start = time.process_time(), time.perf_counter()
    while time.perf_counter() - start < 0.2:
        pass

    values = measured.values
    assert (values["gpu_use"], values["gpu_use_peak"]) == (60.0, 100.0)
    assert 0 < values["cores_used"] <= (time.process_time() - cpu_start + 0.2) / 0.2


def test_a_run_records_the_cores_that_it_used(tmp_path, monkeypatch):
    monkeypatch.setattr(usage, "STEP_S", 0.02)
    work = make_trial(tmp_path, tiny_run(epochs=6))
    run_trial(work, lambda line: None)
    cost = json.loads(RunFolder(Path(work.folder)).result.read_text())["cost"]

    assert 0 < cost["cores_used"] < 64
    assert "gpu_use" not in cost


def test_a_run_shorter_than_a_step_has_no_means():
    with Usage(torch.device("cpu")) as measured:
        assert measured.values == {}
