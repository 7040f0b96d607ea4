"""Several workers take the steps of one, where samples halt by themselves and puzzle embeddings have sparse
gradients.
"""

import json
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from logs import read_lines

from recstudy.programs.trial import run_trial
from recstudy.records import RunFolder
from recstudy.recursive import FuseLIPBackboneConfig, PhantomCaptions, PhantomXray
from recstudy.recursive.contract.checks import training_of
from recstudy.recursive.tasks.captioning.writing import captions
from recstudy.recursive.testing import make_trial, tiny_model, tiny_run, trained
from recstudy.recursive.train.evaluate import predict
from recstudy.recursive.train.loop import Training
from recstudy.recursive.train.parallel import concatenated
from recstudy.recursive.train.state import load_checkpoint, save_checkpoint

pytestmark = [
    pytest.mark.whole,
    pytest.mark.skipif(sys.platform != "linux", reason="gloo's file rendezvous is tried on Linux only"),
]

XRAYS = tiny_run(
    tiny_model("hrm", tokens="patch", patch=4, head="multilabel", puzzle_emb="patient", identifiers=794),
    PhantomXray(size=16, limit=48),
    batch_size=12, supervision_steps=3, evaluation_steps=3, halting="sample", exploration=0.0, ema_decay=0.0, gradient_clip=1.0,
)  # fmt: skip


def together(work: Callable[..., Any], folder: Path, *arguments: Any) -> list[Any]:
    """Return what each of two workers gives that do this, each in a process of its own."""
    mp.spawn(worker, (work, str(folder), *arguments), nprocs=2)
    return [json.loads((folder / f"given-{rank}.json").read_text()) for rank in (0, 1)]


def worker(rank: int, work: Callable[..., Any], folder: str, *arguments: Any) -> None:
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "RECSTUDY_CACHE": f"{folder}/cache",
    }
    torch.set_num_threads(1)
    meet, patience = f"file://{folder}/meet-{'-'.join(map(str, arguments))}", timedelta(seconds=100)
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2, timeout=patience)
    Path(folder, f"given-{rank}.json").write_text(json.dumps(work(Path(folder), *arguments)))
    dist.barrier()
    dist.destroy_process_group()


def captions_of(folder: Path) -> list[Any]:
    """By method, what the same drawn weights write of the 21 test images; and how many images this worker
    looked at.
    """
    written_captions, batch_sizes = {}, []
    for method in ("greedy", "beam", "official_quirk"):
        model = tiny_model("image_lstm", beam=2, decode=method)
        run = tiny_run(model, PhantomCaptions(limit=21, size=32, length=12), epochs=1, batch_size=4)
        training = training_of(run)
        network = training.state.network
        # likes and dislikes, so that images have captions of their own
        torch.nn.init.normal_(network.answer.weight, std=3.0)
        network.eyes.register_forward_hook(lambda eyes, images, features: batch_sizes.append(len(features)))
        data = training.data
        written_captions[method] = captions(
            network, training._batches(data.test, shared=False), run, data.tokenizer
        )
    return [written_captions, sum(batch_sizes)]


def test_a_group_writes_the_captions_of_one_worker_in_their_order(tmp_path):
    """Each image is looked at by one of the two; in 003's search, with the images that share its batch for
    one worker.
    """
    single_process, _ = captions_of(tmp_path)

    (first_captions, first), (two, second) = together(captions_of, tmp_path)

    assert first_captions == two == single_process
    assert all(len(set(map(tuple, captions))) > 5 for captions in single_process.values())
    assert (first + second, min(first, second) > 20) == (3 * 21, True)


def a_fused_captioner(folder: Path) -> list[Any]:
    """Both want an encoder that is not there yet: one aligns it, the other waits for its file."""
    eyes = FuseLIPBackboneConfig(aligner=tiny_model("fuselip"), epochs=1, batch_size=8)
    model = tiny_model("image_trm", backbone="fuselip", fuselip=eyes)
    training = training_of(tiny_run(model, PhantomCaptions(limit=32, size=32)))
    return [weight.tolist() for weight in training.state.network.eyes.injection.encoder.state_dict().values()]


def test_a_group_aligns_its_encoder_once(tmp_path):
    first_worker, two = together(a_fused_captioner, tmp_path)

    assert first_worker == two
    assert len(list((tmp_path / "cache").glob("fuselip-*.safetensors"))) == 1


def the_last_epoch(folder: Path) -> dict[str, Any]:
    """What every worker of a group does without a selection, as `trial.py` does it: train, write captions,
    and the first judges.
    """
    data = PhantomCaptions(limit=31, size=32)
    run = tiny_run(
        tiny_model("image_lstm", tuned=True), data, epochs=1, batch_size=8, ema_decay=0.0, selection="last"
    )
    training = trained(run)
    test = training._batches(training.data.test)  # 31 = 16 + 15: shares of 8 and 7 or less
    (outputs,), loss = predict(training.task, training.state.evaluated, test)
    assert {len(part) for part in outputs.values()} == {len(loss)}
    return training.finish()


def test_a_group_without_a_selection_comes_to_its_end(tmp_path):
    result, _ = together(the_last_epoch, tmp_path)

    assert result["selected"] == {"split": "last", "epoch": 0}
    assert 0 < result["metrics"]["token_accuracy"] < 100


def epochs_of(folder: Path, stop_after: int | None = None) -> dict[str, Any]:
    """Train from the checkpoint that is there, up to and with a checkpoint of this epoch, and return what
    came of it.
    """
    training: Training = training_of(XRAYS, folder)
    load_checkpoint(training, folder)
    traces, scores = [], []
    for line in training.epochs():
        traces.append(training.trace["losses"])
        scores.append(line["selection_auroc"])
        if training.state.epoch == stop_after:
            save_checkpoint(training, folder, write=not dist.is_initialized() or dist.get_rank() == 0)
            break
    slots = training.state.slots
    assert slots is not None
    return {
        "traces": traces,
        "scores": scores,
        "puzzle": training.state.network.puzzle.weight.flatten().tolist(),
        "steps": concatenated(slots.steps).tolist(),
        "begun": training.state.compute["images"],
    }


def test_two_workers_train_like_one_and_one_resumes_their_samples(tmp_path):
    """Two that are never stopped, and two that stop after an epoch with one that resumes: both give the run
    of one.
    """
    single_process, (two, _) = epochs_of(tmp_path), together(epochs_of, tmp_path)
    together(epochs_of, tmp_path, 1)
    resumed = epochs_of(tmp_path)

    assert len(resumed["traces"]) == 2
    for traces, expected in (
        (two["traces"], single_process["traces"]),
        (resumed["traces"], single_process["traces"][1:]),
    ):
        for ours, theirs in zip(traces, expected, strict=True):
            assert ours == pytest.approx(theirs, rel=2e-4)
    assert two["scores"] == pytest.approx(single_process["scores"], abs=1e-6)
    assert two["puzzle"] == pytest.approx(single_process["puzzle"], abs=1e-6)
    assert any(two["puzzle"])
    assert (two["steps"], two["begun"]) == (single_process["steps"], single_process["begun"])
    assert resumed["steps"] == single_process["steps"]


def attempt_of_two(folder: Path, attempt: int) -> str:
    """The node of the second worker alone is wanted back, in the first attempt."""
    work = make_trial(folder, XRAYS.with_changes({"resources.workers": 2}), folder=f"{folder}/run")
    return run_trial(work, lambda line: None, leave=lambda: attempt == 0 and dist.get_rank() == 1)["status"]


def test_group_leaves_together_when_one_node_is_drained_and_resumes(tmp_path):
    folder = RunFolder(tmp_path / "run")
    for attempt, status in enumerate(["drained", "done"]):
        assert together(attempt_of_two, tmp_path, attempt) == [status, status]
        assert [line["epoch"] for line in read_lines(folder.epochs)] == [[0], [0, 1, 2]][attempt]
    assert folder.tries == 1
