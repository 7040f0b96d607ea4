"""Features of a frozen backbone: computed once a machine, as memory-mapped arrays that all trials of a node share.

    RECSTUDY_CACHE/features-NAME-DIGEST.npy      (N, F) or (N, P, F) float32, of all images of one official split

NAME says the backbone and its grid; the digest covers the data set's checksum, the split, and every weight of the backbone.
What one kind of device computed serves the others too, which would round otherwise in the last digits.

Shapes: N images of an official split, B images of a batch, P places of a grid, F features.
"""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from recstudy.config import digest
from recstudy.data.cache import Split, cached, making
from recstudy.files import cache_folder

FORMAT = 1  # of a file; raise it when the same backbone gives other numbers
BATCH = 64  # images; 224x224 pixels in float32 are 37 MiB

Features = npt.NDArray[np.float32]


def features(
    split: Split, backbone: nn.Module, name: str, device: torch.device, report: Callable[[], None] = lambda: None
) -> Features:
    """Return features (N, F) or (N, P, F) of `split.images`, from the cache or computed into it; `split.rows` says which count.

    Args:
        split: any part of an official split: all of its images are computed.
        backbone: pixels of 0 to 255 (B, C, H, W) float32 -> (B, F) or (B, P, F), in evaluation mode and on `device`.
        name: the backbone's with its grid, for the file.
        device: where to compute.
        report: called after each batch that is computed.

    Raises:
        DataError: a cache folder that cannot be written.
    """
    file = cache_folder() / f"features-{name}-{digest([FORMAT, split.source, checksum(backbone)], 16)}.npy"
    cached(file, lambda path: _save(path, _computed(split, backbone, device, report), len(split.images)))
    return np.asarray(np.load(file, mmap_mode="c"))


def checksum(network: nn.Module) -> str:
    """Return 20 hex digits over the names and bits of all weights and buffers."""
    hashed = hashlib.sha256()
    for name, value in network.state_dict().items():
        array = value.detach().cpu().contiguous().numpy()
        hashed.update(f"{name} {array.dtype} {array.shape}".encode())
        hashed.update(array.data)
    return hashed.hexdigest()[:20]


def _computed(split: Split, backbone: nn.Module, device: torch.device, report: Callable[[], None]) -> Iterator[Features]:
    """Yield a batch after the other: a grid of all images may be larger than memory."""
    for start in range(0, len(split.images), BATCH):
        with torch.inference_mode():
            found = backbone(torch.from_numpy(split.images[start : start + BATCH]).to(device).float())
        yield found.float().cpu().contiguous().numpy()
        report()


def _save(file: Path, parts: Iterator[Features], count: int) -> None:
    with making(file) as temporary, open(temporary, "wb") as opened:
        for part in parts:
            if opened.tell() == 0:
                header = {"descr": part.dtype.str, "fortran_order": False, "shape": (count, *part.shape[1:])}
                np.lib.format.write_array_header_1_0(opened, header)
            opened.write(part.data)
