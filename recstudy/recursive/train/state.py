"""Write and read checkpoints, from which interrupted runs resume.

A checkpoint file is a torch archive followed by the sha256 of its bytes. Two checkpoints are kept: if the
newest one fails its checksum, the one before is used, with a warning. Files are read with
`weights_only=True`, which executes nothing in them. A checkpoint has no state of random generators and no
position in the data, because both follow from (seed, epoch).
"""

import hashlib
import io
import logging
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recstudy.base.errors import ConfigError, DataError, StorageError
from recstudy.records import write_whole
from recstudy.recursive.data.batches import Batch
from recstudy.recursive.train.halting import Slots
from recstudy.recursive.train.loop import BestEpoch, Training
from recstudy.recursive.train.parallel import concatenated, rank_and_world

log = logging.getLogger(__name__)

FORMAT = 1  # version of a checkpoint's content; a checkpoint of another version is not used
KEPT_CHECKPOINTS = 2
DIGEST = 32  # bytes of a sha256
MESSAGE_LENGTH = 200  # maximum number of characters of torch's message
OTHER_TOKENIZER = {  # entry of a checkpoint -> kind, what the present one belongs to, and the fix
    "tokenizer": ("text", "the data", "The captions have changed. Restore the old ones"),
    "image_tokenizer": (
        "image",
        "this machine",
        "A machine without an image tokenizer trains its own. Copy vq-*.safetensors from RECSTUDY_CACHE of"
        " the machine where the run started, or resume there",
    ),
}


def save_checkpoint(training: Training, folder: Path, write: bool = True) -> None:
    """Write the state after the last finished epoch, and delete all but the newest two checkpoints.

    If the checkpoint cannot be written, the run continues with a warning, and the older ones are kept. Every
    worker of a group calls this function, because each has a part of the current samples; one of them writes.

    Args:
        training: The training.
        folder: The run's folder.
        write: Whether this worker writes.
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
        **tokenizers(training),
        "best": vars(state.best),
        "spent": state.compute,
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
    for old in checkpoints(folder)[KEPT_CHECKPOINTS:]:
        old.unlink()


def load_checkpoint(training: Training, folder: Path) -> bool:
    """Load the newest undamaged checkpoint of a folder, if there is one.

    Args:
        training: The training that gets the state.
        folder: The run's folder.

    Returns:
        Whether there was a checkpoint.

    Raises:
        ConfigError: The network has changed since the checkpoint was written.
        DataError: The checkpoint was trained with another text tokenizer than the data's or another image
            tokenizer than this machine's, so its weights belong to other words or images.
    """
    for path in checkpoints(folder):
        content = _read(path)
        if content is None:
            log.warning("%s is damaged. The checkpoint before it is tried", path)
            continue
        if content.get("format") != FORMAT:
            log.warning("%s was written by another version of recstudy and is not used", path)
            continue
        for entry, current in tokenizers(training).items():
            saved = content.get(entry, current)  # early versions recorded none
            if saved != current:
                kind, owner, fix = OTHER_TOKENIZER[entry]
                raise DataError(
                    f"{path} was trained with the {kind} tokenizer {saved or 'none'}, but {owner} has"
                    f" {current or 'none'}. {fix}, or remove {path.parent} to train again."
                )
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
            state.compute, state.epoch, state.updates = content["spent"], content["epoch"], content["updates"]
        except torch.OutOfMemoryError:
            raise
        # load_state_dict raises these for missing weights and for other shapes.
        except (RuntimeError, ValueError, KeyError) as error:
            reason = " ".join(str(error).split())
            reason = f"{reason[:MESSAGE_LENGTH]}..." if len(reason) > MESSAGE_LENGTH else reason
            raise ConfigError(
                f"{path} does not fit the network, whose code has changed since the run started: {reason} "
                f"Restore the old code, or remove {path.parent} to train again."
            ) from None
        return True
    return False


def checkpoints(folder: Path) -> list[Path]:
    """Return a folder's checkpoints, newest first."""
    return sorted(folder.glob("checkpoint-*.pt"), reverse=True)


def _read(path: Path) -> dict[str, Any] | None:
    """Return a checkpoint's content; None if its checksum is wrong."""
    content = path.read_bytes()
    archive, digest = content[:-DIGEST], content[-DIGEST:]
    if hashlib.sha256(archive).digest() != digest:
        return None
    return torch.load(io.BytesIO(archive), map_location="cpu", weights_only=True)


def tokenizers(training: Training) -> dict[str, str]:
    """Return name and checksum of the data's text tokenizer, and the hash of the image tokenizer.

    They are empty for data without captions, and for images that are not read as codes.
    """
    text = training.data.tokenizer
    words = f"{text.name} ({text.size:,} ids, {text.checksum[:12]})" if text else ""
    return {"tokenizer": words, "image_tokenizer": str(training.facts.get("image_hash", ""))}


def _parts(slots: Slots) -> list[Tensor]:
    """Return all tensors of the current samples; a missing optional part of the batch is an empty tensor."""
    batch = slots.batch
    empty = batch.images.new_empty(0)
    optional = [empty if part is None else part for part in (batch.targets, batch.context)]
    return [*optional, batch.images, batch.labels, slots.steps, slots.halted, *slots.carry]


def _slots(training: Training, parts: list[Tensor]) -> Slots:
    """Return this worker's share of the current samples, from the tensors of `_parts`."""
    targets, context, images, labels, steps, halted, *carry = parts
    count = len(images)
    rank, world = rank_and_world()
    share = slice(count * rank // world, count * (rank + 1) // world)
    optional = [part[share] if len(part) else None for part in (targets, context)]
    batch = Batch(images[share], labels[share], optional[0], count, optional[1])
    return Slots(batch, tuple(part[share] for part in carry), steps[share], halted[share])
