"""Checkpoints: what an interrupted run needs to go on, and proof that it is unharmed.

A checkpoint file is a torch archive followed by the sha256 of its bytes. Two are kept; where the newest fails
its checksum, the one before is used, with a warning. Files are read with `weights_only=True`: nothing in them
is executed. The epoch stands for the state of every random generator and for the position in the data: all of
them are drawn anew from (seed, epoch).
"""

import hashlib
import io
import logging
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save as safetensors_bytes
from torch import Tensor

from recstudy.data.batches import Batch
from recstudy.errors import ConfigError, DataError, StorageError
from recstudy.records import write_whole
from recstudy.train.halting import Slots
from recstudy.train.loop import BestEpoch, Training
from recstudy.train.parallel import concatenated, rank_and_world

log = logging.getLogger(__name__)

FORMAT = 1  # of a checkpoint's content; one of another format is of no use
KEPT = 2
DIGEST = 32  # bytes of a sha256
MOST = 200  # characters of what torch says
OTHER_CAPTIONS = "the captions have changed since. Put the old ones back"
OTHER_CODES = (
    "a machine that has none trains its own. Copy vq-*.safetensors from RECSTUDY_CACHE where the run began,"
    " or go on there"
)


def save_checkpoint(training: Training, folder: Path, write: bool = True) -> None:
    """Write the state after the last finished epoch; older checkpoints than the newest two go.

    Where it cannot be written, a warning says so and the older ones are kept: the run can do without. Every
    worker of a group calls this, because the samples in work are spread over them; one of them writes.
    """
    state = training.state
    slots = None if state.slots is None else [concatenated(part) for part in _parts(state.slots)]
    if not write:
        return
    content = {
        "format": FORMAT,
        "epoch": state.epoch,
        "updates": state.updates,
        "network": state.network.state_dict(),
        "average": None if state.average is None else state.average.network.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in state.optimizers],
        "slots": slots,
        "tokenizer": _words(training),
        "image_tokenizer": _codes(training),
        "best": vars(state.best),
        "spent": state.spent,
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    archive = buffer.getvalue()
    path = folder / f"checkpoint-{state.epoch:06d}.pt"
    try:
        write_whole(path, archive + hashlib.sha256(archive).digest())
    except StorageError as error:
        log.warning("training continues without a checkpoint of epoch %d: %s", state.epoch, error)
        return
    for old in checkpoints(folder)[KEPT:]:
        old.unlink()


def load_checkpoint(training: Training, folder: Path) -> bool:
    """Continue from the newest good checkpoint of `folder`; False where there is none.

    Raises:
        ConfigError: it is of another network than the run's is by now.
        DataError: its tokens were made by another text tokenizer than the data's, or its images' codes by
            another image tokenizer than this machine's, so its weights mean other words or other images.
    """
    for path in checkpoints(folder):
        content = _read(path)
        if content is None:
            log.warning("%s is damaged; trying the checkpoint before it", path)
            continue
        if content.get("format") != FORMAT:
            log.warning("%s was written by another version of recstudy; not used", path)
            continue
        _check(path, "text", content.get("tokenizer"), "the data", _words(training), OTHER_CAPTIONS)
        _check(path, "image", content.get("image_tokenizer"), "this machine", _codes(training), OTHER_CODES)
        state = training.state
        try:
            state.network.load_state_dict(content["network"])
            if state.average is not None:
                state.average.network.load_state_dict(content["average"])
            for optimizer, values in zip(state.optimizers, content["optimizers"], strict=True):
                optimizer.load_state_dict(values)
            if content["slots"] is not None:
                state.slots = _slots(training, [part.to(training.device) for part in content["slots"]])
            best = content["best"]
            weights = {name: value.to(training.device) for name, value in best["weights"].items()}
            state.best = BestEpoch(best["epoch"], best["score"], weights)
            state.spent, state.epoch, state.updates = content["spent"], content["epoch"], content["updates"]
        except torch.OutOfMemoryError:
            raise
        # torch's own, of weights that are missing or of another shape
        except (RuntimeError, ValueError, KeyError) as error:
            why = " ".join(str(error).split())
            why = f"{why[:MOST]}..." if len(why) > MOST else why
            raise ConfigError(
                f"{path} does not fit the network, whose code has changed since the run began: {why} "
                f"Put the old code back, or remove {path.parent} to train anew."
            ) from None
        return True
    return False


def checkpoints(folder: Path) -> list[Path]:
    """Newest first."""
    return sorted(folder.glob("checkpoint-*.pt"), reverse=True)


def save_weights(weights: dict[str, Tensor], path: Path) -> None:
    """Write the selected weights as safetensors."""
    write_whole(path, safetensors_bytes({name: value.contiguous() for name, value in weights.items()}))


def _read(path: Path) -> dict[str, Any] | None:
    content = path.read_bytes()
    archive, digest = content[:-DIGEST], content[-DIGEST:]
    if hashlib.sha256(archive).digest() != digest:
        return None
    return torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)


def _words(training: Training) -> str:
    """Return the data's text tokenizer by name and checksum; empty for data without captions."""
    tokenizer = training.data.tokenizer
    return (
        "" if tokenizer is None else f"{tokenizer.name} ({tokenizer.size:,} ids, {tokenizer.checksum[:12]})"
    )


def _codes(training: Training) -> str:
    """Return the hash of the image tokenizer; empty for images that are not read as codes."""
    return str(training.facts.get("image_hash", ""))


def _check(path: Path, kind: str, own: str | None, place: str, found: str, fix: str) -> None:
    """Refuse a checkpoint of other words or codes; one from before they were kept says nothing (None)."""
    if own is not None and own != found:
        raise DataError(
            f"{path} was trained with the {kind} tokenizer {own or 'none'}, but that of {place} is"
            f" {found or 'none'}: {fix}, or remove {path.parent} to train anew."
        )


def _parts(slots: Slots) -> list[Tensor]:
    """Return all tensors of the samples in work; the batch's optional ones are empty where it has none."""
    batch = slots.batch
    optional = [
        batch.images.new_empty(0) if part is None else part for part in (batch.targets, batch.context)
    ]
    return [*optional, batch.images, batch.labels, slots.steps, slots.halted, *slots.carry]


def _slots(training: Training, parts: list[Tensor]) -> Slots:
    """Return this worker's share of the samples in work."""
    targets, context, images, labels, steps, halted, *carry = parts
    count = len(images)
    rank, world = rank_and_world()
    share = slice(count * rank // world, count * (rank + 1) // world)
    optional = [part[share] if len(part) else None for part in (targets, context)]
    batch = Batch(images[share], labels[share], optional[0], count, optional[1])
    return Slots(batch, tuple(part[share] for part in carry), steps[share], halted[share])
