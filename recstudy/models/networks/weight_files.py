"""Files of weights that others made: read without executing anything in them, and matched to a network's own
names.
"""

import pickle
import re
import string
import warnings
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from recstudy.errors import DataError, choices
from recstudy.files import stand_in
from recstudy.terminal import say

LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # how torch.save began a file before torch 1.6


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file, or of its `model`, beside which some programs save their optimisers.

    If the file has further copies of the weights beside `model`, such as a moving average, a note names them.

    Raises:
        DataError: there is no such file, it cannot be read, or it holds other things than tensors.
    """
    try:
        with open(path, "rb") as opened:
            head = opened.read(64)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read: {error.strerror or error}. Give the file of weights."
        ) from None
    try:
        if head[8:9] == b"{":  # behind the length of a JSON object: safetensors, whatever the file is called
            return load_file(path)
        with warnings.catch_warnings(action="ignore"):  # torch's advice is for who wrote the file
            found = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of any kind: the bytes may be anything
        raise DataError(f"{path} {_describe_fault(path, head, str(error))}") from None
    if not isinstance(found, dict):
        raise DataError(
            f"{path} holds no weights by name, but a {type(found).__name__}. Save the network's state dict."
        )
    weights: dict[str, Any] = found["model"] if isinstance(found.get("model"), dict) else found
    others = [str(name) for name, value in weights.items() if not isinstance(value, Tensor)]
    if others:
        raise DataError(
            f"{path} holds more than weights ({choices(others, limit=3)}). Save the network's state dict."
        )
    if copies := [
        str(name) for name, value in found.items() if value is not weights and _has_copy(value, weights)
    ]:
        say(
            f"{path} has weights under model and under {choices(copies, limit=3)}. "
            "Those under model are read. To read others, save them alone."
        )
    return weights


def _has_copy(value: object, weights: Mapping[str, Tensor]) -> bool:
    """Return whether an entry of a checkpoint, or a part of it, has names of the weights, behind whatever
    prefix.
    """
    if not isinstance(value, dict):
        return False
    names = {name.rpartition(".")[2] for name in weights}
    parts = [part for part in (value, *value.values()) if isinstance(part, dict)]
    return any(str(name).rpartition(".")[2] in names for part in parts for name in part)


def _describe_fault(path: Path, head: bytes, reason: str) -> str:
    """Return what a file is that cannot be read as weights, and how to get the real one. Advice of torch is
    not passed on.
    """
    if problem := stand_in(path):
        return problem
    if not head:
        return "is empty. Download it again."
    if unsafe := re.search(r"GLOBAL (\S+)", reason):
        return (
            f"holds Python objects beside weights ({unsafe[1]}). They are not read, because that could run"
            " code. Save the state dict alone: torch.save(network.state_dict(), FILE)."
        )
    if head.startswith(b"PK") and zipfile.is_zipfile(path):
        return "is an archive that torch.save did not write. Unpack it and give the file of weights."
    if head.startswith(b"\x80") and not head.startswith(LEGACY) and path.read_bytes().endswith(pickle.STOP):
        return (
            "is a pickle that torch.save did not write. Save the state dict with"
            " torch.save(network.state_dict(), FILE)."
        )
    if head.startswith((b"PK", b"\x80")) or head[8:9] == b"{":
        return (
            f"is damaged or cut off: it has {path.stat().st_size:,} bytes. Download it again and compare its"
            " size."
        )
    if all(byte in string.printable.encode() for byte in head):
        return f"is a text, not weights: it begins with {head[:20].decode()!r}. Give the file of weights."
    return "is no file of weights: neither torch.save nor safetensors wrote it. Give the file of weights."


def check_shape(path: object, name: str, wanted: Tensor, found: Tensor) -> None:
    """Refuse (DataError) a weight of another shape than the network's."""
    if found.shape != wanted.shape:
        raise DataError(f"{path}: {name} must be of shape {tuple(wanted.shape)}, but is {tuple(found.shape)}")


def public_names(network: nn.Module, rules: Mapping[str, str]) -> dict[str, str]:
    """Return the public name of each of the network's weights.

    Args:
        network: ours.
        rules: pattern -> replacement; all that match are applied, in their order.
    """
    names = {}
    for own in network.state_dict():
        name = own
        for pattern, replacement in rules.items():
            name = re.sub(pattern, replacement, name)
        names[own] = name
    return names


def check_names(path: object, title: str, wanted: Collection[str], found: Collection[str]) -> None:
    """Refuse (DataError) a file that lacks a weight of the network, or has one that it does not know."""
    missing, unexpected = (sorted(set(one) - set(other)) for one, other in ((wanted, found), (found, wanted)))
    if missing or unexpected:
        told = f"{_listed(missing)} missing, {_listed(unexpected)} unexpected"
        raise DataError(f"{path} is not {title}: {told}. Nothing was loaded.")


def _listed(keys: list[str]) -> str:
    first = f" ({', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''})" if keys else ""
    return f"{len(keys)} keys{first}"
