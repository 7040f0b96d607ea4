"""A process that trains one run after another, as if each were its first."""

import json
import os
import random
import sys
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
import torch._dynamo  # now, before a test replaces what it reads at its import
from test_trial import run_in_process

from recstudy.base.errors import ClusterError
from recstudy.programs.attempt import Trial
from recstudy.programs.trial import hardware, run_trial
from recstudy.recursive.data.cache import load
from recstudy.recursive.testing import make_trial, tiny_model, tiny_run
from recstudy.recursive.train import process
from recstudy.recursive.train.evaluate import take_step
from recstudy.recursive.train.loop import Training, compile_mode
from recstudy.recursive.train.process import reset_process

RECURSIVE = tiny_run(epochs=2).with_changes({"model.dropout": 0.1, "model.latent_steps": 3})
NORMED = tiny_run(tiny_model("cnn", width=4), epochs=1, precision="bfloat16").with_changes({"seed": 3})


def numbers(work: Trial) -> tuple[list[list[object]], str]:
    """What a run's log says of each epoch but its speed, and its weights' digest: pytest would compare
    megabytes for minutes.
    """
    folder = Path(work.folder)
    lines = map(json.loads, (folder / "epochs.jsonl").read_text().splitlines())
    records = [[value for name, value in line.items() if "second" not in name] for line in lines]
    return records, sha256((folder / "weights.safetensors").read_bytes()).hexdigest()


def spoil() -> None:
    """What a model's own code may leave behind."""
    torch.backends.cudnn.benchmark = True
    torch.set_default_dtype(torch.float64)
    torch.set_grad_enabled(False)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(2)
    torch.rand(3), np.random.rand(3), random.random()


@pytest.mark.whole
def test_a_run_gives_the_same_numbers_whatever_ran_before_it(tmp_path):
    """Bit for bit: in a new process, and after another of another family and precision."""
    separate_trials = [make_trial(tmp_path / "alone", config) for config in (RECURSIVE, NORMED)]
    for work in separate_trials:
        run_in_process(work)

    for place, config in (("first", RECURSIVE), ("second", NORMED), ("third", RECURSIVE)):
        work = make_trial(tmp_path / place, config)
        run_trial(work, lambda line: None)
        assert numbers(work) == numbers(separate_trials[config == NORMED])
        spoil()
    reset_process(RECURSIVE)


def test_the_device_is_the_one_that_was_asked_for(monkeypatch):
    """An Apple GPU as far as a machine without one can tell: what is asked of torch, and the device that a
    run then gets.
    """
    config, emptied = RECURSIVE.with_changes({"resources": {"device": "mps"}}), []
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "empty_cache", lambda: emptied.append(True))

    assert reset_process(RECURSIVE) == torch.device("cpu")
    assert reset_process(config) == torch.device("mps")
    assert emptied == [True]
    assert hardware(config.resources)["gpu"] == "Apple (MPS)"

    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ClusterError, match="torch sees no Apple GPU on this machine"):
        reset_process(config)


def switched() -> list[object]:
    cudnn = torch.backends.cudnn
    switches = [
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
    ]
    random_numbers = [torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random()]
    return [
        *switches,
        torch.is_autocast_cache_enabled(),
        cudnn.enabled,
        cudnn.benchmark,
        cudnn.deterministic,
        *random_numbers,
    ]


def test_reset_process_restores_every_switch():
    reset_process(RECURSIVE)
    fresh_state = switched()

    spoil()
    reset_process(RECURSIVE)

    assert switched() == fresh_state
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("changes", "is_kept"),
    [
        ({"seed": 1, "train.learning_rate": 1e-4}, True),
        ({"model.width": 16}, False),
        ({"train.batch_size": 8}, False),
    ],
)
def test_compiled_graphs_are_kept_for_the_same_network_alone(monkeypatch, changes, is_kept):
    dropped = []
    monkeypatch.setattr(process, "_graphs", "")
    monkeypatch.setattr(torch.compiler, "reset", lambda: dropped.append(True))
    config = RECURSIVE.with_changes({"resources.compile": "on"})

    for run in (
        config,
        config,
        config.with_changes({"resources.compile": "off", "model.width": 32}),
        config.with_changes(changes),
    ):
        reset_process(run)

    assert len(dropped) == (1 if is_kept else 2)


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux says how much memory a process had since it was last asked"
)
def test_the_peak_of_memory_is_the_runs_own_and_not_that_of_a_run_before():
    cpu = torch.device("cpu")
    reset_process(RECURSIVE)
    large = torch.ones(2**27)  # 512 MB
    first = process.peak_memory_mb(cpu)
    del large

    reset_process(RECURSIVE)

    assert first - process.peak_memory_mb(cpu) > 400


@pytest.mark.parametrize(
    ("gpus", "compile", "compiles"),
    [(1, "auto", True), (0, "auto", False), (0, "on", True), (1, "off", False)],
)
def test_a_run_is_compiled_on_a_gpu_or_on_request(gpus, compile, compiles):
    assert (
        RECURSIVE.with_changes({"resources.gpus": gpus, "resources.compile": compile}).resources.compiles
        is compiles
    )


@pytest.mark.parametrize("chosen_folder", ["", "mine"])
def test_compiled_graphs_stay_in_the_cache_folder_or_where_the_user_says(
    monkeypatch, tmp_path, chosen_folder
):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", chosen_folder)
    if not chosen_folder:
        monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR")

    reset_process(RECURSIVE.with_changes({"resources.compile": "on"}))

    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == (chosen_folder or str(tmp_path / "compiled"))


GRAPHS = "reduce-overhead"


@pytest.mark.parametrize(
    ("mode", "device", "compile", "rest", "reason"),
    [
        (GRAPHS, "cuda", True, 0, ""),
        (GRAPHS, "cpu", True, 0, "it needs a CUDA GPU, but this run uses device cpu"),
        (GRAPHS, "cuda", False, 0, "the network is not compiled"),
        (GRAPHS, "cuda", True, 3, "the last batch of an epoch has 3 images, but train.batch_size is 16"),
        ("max-autotune-no-cudagraphs", "cuda", True, 3, ""),
    ],
)
def test_cuda_graphs_are_for_a_compiled_network_on_batches_of_one_shape(
    caplog, mode, device, compile, rest, reason
):
    config = RECURSIVE.with_changes({"resources.compile_mode": mode, "train.batch_size": 16})

    assert compile_mode(config, torch.device(device), compile, rest) == (None if reason else mode)
    assert [reason in line for line in caplog.messages] == [True] * bool(reason)
    assert config.run_id == config.with_changes({"resources.compile_mode": "default"}).run_id


def test_a_carry_outlives_the_replay_of_a_cuda_graph(monkeypatch):
    training = Training(RECURSIVE, load(RECURSIVE.data, Path("data")), torch.device("cpu"))
    batch = next(training._train.epoch(0))
    memory = training.state.network.start(batch.images, batch.context)  # of the graph's outputs
    output, _ = training.state.network(batch.images, memory)
    training.state.network.has_graphs = True
    monkeypatch.setattr(training.state.network, "forward", lambda images, carry: (output, memory))

    with torch.no_grad():
        answer, carry = take_step(training.state.network, batch.images, memory, training.config.train)

    assert [captured.data_ptr() for captured in carry] != [state.data_ptr() for state in memory]
    assert answer.logits.data_ptr() != output.logits.data_ptr()
