"""Several workers take the steps of one, where samples halt by themselves and puzzle embeddings have sparse gradients."""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from recstudy.config import RunConfig, TrainConfig
from recstudy.data import Digits, PhantomCaptions, PhantomXray
from recstudy.data.cache import load
from recstudy.models import HRM, VQ, Aligner, FuseLIP, FuseLIPBackboneConfig, HRMImage, ImageLSTM, ImageTRM
from recstudy.records import RunFolder, read_lines
from recstudy.tasks.captioning.writing import captions
from recstudy.train.evaluate import predict
from recstudy.train.loop import Training
from recstudy.train.parallel import concatenated
from recstudy.train.state import load_checkpoint, save_checkpoint
from recstudy.train.trial import Trial, run_trial

pytestmark = pytest.mark.whole

CONFIG = RunConfig(
    data=PhantomXray(size=16, limit=48),
    model=HRM(
        width=16, heads=2, high_layers=1, low_layers=1, tokens="patch", patch=4, head="multilabel",
        puzzle_emb="patient", identifiers=794,
    ),
    train=TrainConfig(
        epochs=3, batch_size=12, supervision_steps=3, evaluation_steps=3, halting="sample", exploration=0.0, ema_decay=0.0,
        gradient_clip=1.0,
    ),
)  # fmt: skip


def trained(folder: Path, stop_after: int | None = None) -> dict[str, object]:
    training = Training(CONFIG, load(CONFIG.data, folder), torch.device("cpu"))
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
        "begun": training.state.spent["images"],
    }


def joined(rank: int, world: int, folder: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": str(rank), "WORLD_SIZE": str(world)}
    torch.set_num_threads(1)
    patience = timedelta(seconds=100)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world, timeout=patience)


def worker_of_a_captioner(rank: int, world: int, folder: str) -> None:
    """What every worker does, as `trial.py` does it: train, write captions together, and the first one judges them."""
    joined(rank, world, folder)
    config = RunConfig(
        data=PhantomCaptions(limit=32, size=32), model=ImageLSTM(backbone="small", weights="random", tuned=True, width=16),
        train=TrainConfig(epochs=1, batch_size=8, ema_decay=0.0),
    )  # fmt: skip
    training = Training(config, load(config.data, Path(folder)), torch.device("cpu"))
    list(training.epochs())
    found = training.finish()
    if rank == 0:
        Path(folder, "found.json").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.skipif(sys.platform != "linux", reason="gloo's file rendezvous is tried on Linux only")
def test_a_group_that_trains_a_captioner_comes_to_its_end(tmp_path):
    mp.spawn(worker_of_a_captioner, (2, str(tmp_path)), nprocs=2)

    assert 0 < json.loads((tmp_path / "found.json").read_text())["metrics"]["token_accuracy"] < 100


def captions_of(rank: int, world: int, folder: str) -> dict[str, list[list[int]]]:
    """By method, what the same drawn weights write of the 21 test images; and how many images this worker looked at."""
    config = RunConfig(
        data=PhantomCaptions(limit=21, size=32, length=12), model=ImageLSTM(backbone="small", weights="random", width=16, beam=2),
        train=TrainConfig(epochs=1, batch_size=4),
    )  # fmt: skip
    data, found, seen = load(config.data, Path(folder)), {}, []
    for method in ("greedy", "beam", "official_quirk"):
        run = config.with_changes({"model.decode": method})
        training = Training(run, data, torch.device("cpu"))
        network = training.state.network
        torch.nn.init.normal_(network.answer.weight, std=3.0)  # likes and dislikes, so that images have captions of their own
        network.eyes.register_forward_hook(lambda eyes, images, features: seen.append(len(features)))
        found[method] = captions(network, training._batches(data.test, shared=False), run, data.tokenizer)
    Path(folder, f"captions-{world}-{rank}.json").write_text(json.dumps([found, sum(seen)]))
    return found


def worker_that_writes(rank: int, world: int, folder: str) -> None:
    joined(rank, world, folder)
    captions_of(rank, world, folder)
    dist.destroy_process_group()


@pytest.mark.skipif(sys.platform != "linux", reason="gloo's file rendezvous is tried on Linux only")
def test_a_group_writes_the_captions_of_one_worker_in_their_order(tmp_path):
    """Each image is looked at by one of the two; in 003's search, with the images that share its batch for one worker."""
    alone = captions_of(0, 1, str(tmp_path))
    mp.spawn(worker_that_writes, (2, str(tmp_path)), nprocs=2)

    (one, first), (two, second) = (json.loads((tmp_path / f"captions-2-{rank}.json").read_text()) for rank in (0, 1))
    assert one == two == alone
    assert all(len(set(map(tuple, written))) > 5 for written in alone.values())
    assert (first + second, min(first, second) > 20) == (3 * 21, True)


def worker_with_fuselip(rank: int, world: int, folder: str) -> None:
    """Both want an encoder that is not there yet: one aligns it, the other waits for its file."""
    os.environ["RECSTUDY_CACHE"] = f"{folder}/cache"
    joined(rank, world, folder)
    aligner = Aligner(
        encoder=FuseLIP(width=8, heads=1, layers=1, text_vocabulary=64, bos=1, eos=2, codes=4, codebook=8, context=40),
        tokenizer=VQ(size=32, patch=16, codes=4, codebook=8, width=8, layers=1, heads=1), tokenizer_epochs=1,
    )  # fmt: skip
    eyes = FuseLIPBackboneConfig(aligner=aligner, epochs=1, batch_size=8)
    config = RunConfig(
        data=PhantomCaptions(limit=32, size=32),
        model=ImageTRM(backbone="fuselip", fuselip=eyes, width=16, heads=2, layers=1, cycles=1, latent_steps=1),
        train=TrainConfig(epochs=1, batch_size=8, ema_decay=0.0),
    )  # fmt: skip
    encoder = Training(config, load(config.data, Path(folder)), torch.device("cpu")).state.network.eyes.injection.encoder
    torch.save(encoder.state_dict(), f"{folder}/encoder-{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.skipif(sys.platform != "linux", reason="gloo's file rendezvous is tried on Linux only")
def test_a_group_aligns_its_encoder_once(tmp_path):
    mp.spawn(worker_with_fuselip, (2, str(tmp_path)), nprocs=2)

    one, two = (torch.load(tmp_path / f"encoder-{rank}.pt", weights_only=True) for rank in (0, 1))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert len(list((tmp_path / "cache").glob("fuselip-*.safetensors"))) == 1


def worker_of_the_last_epoch(rank: int, world: int, folder: str) -> None:
    """What every worker of a group does without a selection, as `trial.py` does it: train and finish; the first one tests."""
    joined(rank, world, folder)
    config = RunConfig(
        data=Digits(limit=31), model=HRMImage(width=16, heads=2, low_layers=1, high_layers=1, patch=4),
        train=TrainConfig(epochs=1, batch_size=8, ema_decay=0.0, selection="last"),
    )  # fmt: skip
    training = Training(config, load(config.data, Path(folder)), torch.device("cpu"))
    list(training.epochs())
    found = training.finish()
    if rank == 0:
        Path(folder, "found.json").write_text(json.dumps(found))
    test = training._batches(training.data.test)  # 31 = 16 + 15: shares of 8 and 7 or less
    (kept,), loss = predict(training.task, training.state.evaluated, test)
    assert kept["logits"].shape == (len(loss), 10)
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.skipif(sys.platform != "linux", reason="gloo's file rendezvous is tried on Linux only")
def test_a_group_without_a_selection_comes_to_its_end(tmp_path):
    mp.spawn(worker_of_the_last_epoch, (2, str(tmp_path)), nprocs=2)

    assert json.loads((tmp_path / "found.json").read_text())["selected"] == {"split": "last", "epoch": 0}


def worker(rank: int, world: int, folder: str, stop_after: int | None) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": str(rank), "WORLD_SIZE": str(world)}
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet-{stop_after}", rank=rank, world_size=world)
    found = trained(Path(folder), stop_after)
    if rank == 0:
        Path(folder, "found.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def together(folder: Path, stop_after: int | None = None) -> dict:
    mp.spawn(worker, (2, str(folder), stop_after), nprocs=2)
    return json.loads((folder / "found.json").read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="gloo's file rendezvous is tried on Linux only")
def test_two_workers_take_the_steps_of_one(tmp_path):
    one, two = trained(tmp_path), together(tmp_path)

    for ours, theirs in zip(two["traces"], one["traces"], strict=True):
        assert ours == pytest.approx(theirs, rel=2e-4)
    assert two["scores"] == pytest.approx(one["scores"], abs=1e-6)
    assert two["puzzle"] == pytest.approx(one["puzzle"], abs=1e-6)
    assert any(two["puzzle"])
    assert (two["steps"], two["begun"]) == (one["steps"], one["begun"])


@pytest.mark.skipif(sys.platform != "linux", reason="gloo's file rendezvous is tried on Linux only")
def test_the_samples_in_work_of_two_workers_go_on_with_one(tmp_path):
    """Stopped by two workers after an epoch, resumed by one: the run of one that was never stopped."""
    straight = trained(tmp_path)
    together(tmp_path, stop_after=1)
    resumed = trained(tmp_path)

    assert len(resumed["traces"]) == 2
    for ours, theirs in zip(resumed["traces"], straight["traces"][1:], strict=True):
        assert ours == pytest.approx(theirs, rel=2e-4)
    assert resumed["steps"] == straight["steps"]


def worker_asked_to_leave(rank: int, world: int, folder: str, attempt: int) -> None:
    """The node of the second worker alone is wanted back, in the first attempt."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "RANK": str(rank), "WORLD_SIZE": str(world)}
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet-{attempt}", rank=rank, world_size=world)
    config = CONFIG.with_changes({"place.workers_per_run": 2, "place.gpus_per_run": 0})
    values = {**config.values, "place": config.place.model_dump()}
    work = Trial("s", "v", values, config.run_id, f"{folder}/run", folder, False, folder, None, False)
    outcome = run_trial(work, lambda line: None, leave=lambda: attempt == 0 and rank == 1)
    Path(folder, f"outcome-{attempt}-{rank}").write_text(outcome["status"])
    dist.destroy_process_group()


@pytest.mark.skipif(sys.platform != "linux", reason="gloo's file rendezvous is tried on Linux only")
def test_a_group_leaves_together_when_one_node_is_drained_and_goes_on(tmp_path):
    folder = RunFolder(tmp_path / "run")
    for attempt, status in enumerate(["drained", "done"]):
        mp.spawn(worker_asked_to_leave, (2, str(tmp_path), attempt), nprocs=2)
        assert [Path(tmp_path, f"outcome-{attempt}-{rank}").read_text() for rank in (0, 1)] == [status, status]
        assert [line["epoch"] for line in read_lines(folder.epochs)] == [[0], [0, 1, 2]][attempt]
    assert folder.tries == 1
