"""Read weight files of other programs and match them to a network's names.

Nothing in a file is executed. `recstudy weights import` and public FuseLIP weights use these functions.
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
from safetensors.torch import load_file, save
from torch import Tensor, nn

from recstudy.base.errors import DataError, choices
from recstudy.base.files import stand_in
from recstudy.base.terminal import say

LEGACY = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."  # first bytes of a file of torch.save before torch 1.6


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a file, or of its entry `model`.

    Some programs save the weights under `model`, together with their optimiser. If the file has further
    copies of the weights, such as a moving average, a note names them.

    Raises:
        DataError: There is no such file, it cannot be read, or it contains other objects than tensors.
    """
    try:
        with open(path, "rb") as stream:
            head = stream.read(64)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}. Give a weight file.") from None
    try:
        if head[8:9] == b"{":  # safetensors begins with the length of a JSON object, then the object
            return load_file(path)
        with warnings.catch_warnings(action="ignore"):  # torch's advice is for the author of the file
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # damaged bytes can raise any exception
        raise DataError(f"{path} {_describe_fault(path, head, str(error))}") from None
    if not isinstance(content, dict):
        raise DataError(
            f"{path} contains a {type(content).__name__}, not weights by name. Save the network's state dict."
        )
    weights: dict[str, Any] = content["model"] if isinstance(content.get("model"), dict) else content
    other_entries = [str(name) for name, value in weights.items() if not isinstance(value, Tensor)]
    if other_entries:
        raise DataError(
            f"{path} contains more than weights ({choices(other_entries, limit=3)}). Save only the network's"
            " state dict."
        )
    other_items = [(str(name), value) for name, value in content.items() if value is not weights]
    if copies := [name for name, value in other_items if _has_copy(value, weights)]:
        say(
            f"{path} has weights under model and under {choices(copies, limit=3)}. "
            "Those under model are read. To read others, save them to a separate file."
        )
    return weights


def weight_bytes(state: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """Return the content of a safetensors file with these weights."""
    weights = {name: value.detach().cpu().contiguous() for name, value in state.items()}
    return save(weights, metadata)


def _has_copy(value: object, weights: Mapping[str, Tensor]) -> bool:
    """Return whether an entry of a checkpoint, or a part of it, has names of the weights, with any prefix."""
    if not isinstance(value, dict):
        return False
    names = {name.rpartition(".")[2] for name in weights}
    parts = [part for part in (value, *value.values()) if isinstance(part, dict)]
    return any(str(name).rpartition(".")[2] in names for part in parts for name in part)


def _describe_fault(path: Path, head: bytes, reason: str) -> str:
    """Return why a file cannot be read as weights, and the fix, as the rest of a sentence about the file.

    Args:
        path: The file.
        head: Its first bytes.
        reason: torch's message, which is not shown itself.
    """
    if problem := stand_in(path):
        return problem
    if not head:
        return "is empty. Download it again."
    if unsafe := re.search(r"GLOBAL (\S+)", reason):
        return (
            f"contains Python objects in addition to weights ({unsafe[1]}). They are not read, because that"
            " could run code. Save only the state dict: torch.save(network.state_dict(), FILE)."
        )
    if head.startswith(b"PK") and zipfile.is_zipfile(path):
        return "is an archive that torch.save did not write. Unpack it and give the weight file."
    if head.startswith(b"\x80") and not head.startswith(LEGACY) and path.read_bytes().endswith(pickle.STOP):
        return (
            "is a pickle that torch.save did not write. Save the state dict with"
            " torch.save(network.state_dict(), FILE)."
        )
    if head.startswith((b"PK", b"\x80")) or head[8:9] == b"{":
        return (
            f"is damaged or truncated: it has {path.stat().st_size:,} bytes. Download it again and compare"
            " its size."
        )
    if all(byte in string.printable.encode() for byte in head):
        return (
            f"is a text file, not a weight file: it begins with {head[:20].decode()!r}. Give a weight file."
        )
    return "is not a weight file: neither torch.save nor safetensors wrote it. Give a weight file."


def public_names(network: nn.Module, rules: Mapping[str, str]) -> dict[str, str]:
    """Return the public name of each of the network's weights.

    Args:
        network: The network.
        rules: Pattern -> replacement. All matching rules are applied, in order.
    """
    names = {}
    for own_name in network.state_dict():
        name = own_name
        for pattern, replacement in rules.items():
            name = re.sub(pattern, replacement, name)
        names[own_name] = name
    return names


def check_weights(
    path: object, title: str, expected: Mapping[str, Tensor], weights: Mapping[str, Tensor], fix: str = ""
) -> None:
    """Check that a file has exactly the expected weights, each with the expected shape.

    Args:
        path: The file.
        title: The expected content, for the message.
        expected: The expected weights by name.
        weights: The weights in the file.
        fix: The settings to change, as a sentence that begins with a space.

    Raises:
        DataError: A name is missing or unexpected, or a shape differs.
    """
    for name in (name for name in expected if name in weights):
        shape, expected_shape = tuple(weights[name].shape), tuple(expected[name].shape)
        if shape != expected_shape:
            raise DataError(f"{path}: {name} must have the shape {expected_shape}, but has {shape}.{fix}")
    missing_names, unexpected_names = expected.keys() - weights.keys(), weights.keys() - expected.keys()
    if missing_names or unexpected_names:
        difference = f"{_count_keys(missing_names)} missing, {_count_keys(unexpected_names)} unexpected"
        raise DataError(f"{path} is not {title}: {difference}. Nothing was loaded.{fix}")


def _count_keys(keys: Collection[str]) -> str:
    """Return the number of keys and the first three of them, in words."""
    if not keys:
        return "0 keys"
    first_keys = ", ".join([*sorted(keys)[:3], *(["..."] if len(keys) > 3 else [])])
    return f"{len(keys)} keys ({first_keys})"
