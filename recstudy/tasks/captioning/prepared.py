"""What a run needs to have been trained before it: an image tokenizer, an aligned FuseLIP. Once a machine, as decoded data are.

    RECSTUDY_CACHE/vq-DIGEST.safetensors         an image tokenizer trained on the training images of a data set
    RECSTUDY_CACHE/codes-DIGEST.npy              (N, K) int32, its codes of all images of one official split
    RECSTUDY_CACHE/fuselip-DIGEST.safetensors    the encoder of an aligner, trained as its own run config says

A digest covers all that decides the content: the data's checksum, the training rows, the configs and, of codes and of an
encoder that learned from them, the image tokenizer's hash. Another process that wants the same waits for the one that makes it.
"""

import hashlib
import io
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from recstudy.config import RunConfig, digest
from recstudy.data.cache import DataSet, Split
from recstudy.data.cache_folder import alone, cached
from recstudy.data.images import Tokens
from recstudy.errors import DataError
from recstudy.files import cache_folder, caching, sweep
from recstudy.models.fuselip import VQ
from recstudy.models.networks.vq import ImageTokenizer, VQNetwork, load_tokenizer, save_tokenizer, unit
from recstudy.records.files import write_whole
from recstudy.tasks.captioning.tokenizer import Progress, train_tokenizer
from recstudy.train.watchdog import alive

BATCH = 64
DAMAGED = (OSError, ValueError, SafetensorError, DataError)  # how it is said that a tokenizer is not there, or not whole


def image_tokenizer(
    config: VQ,
    epochs: int,
    data: DataSet,
    title: str,
    device: torch.device,
    report: Callable[[Progress], None] = lambda progress: alive(),
) -> tuple[VQNetwork, dict[str, Any]]:
    """A tokenizer trained on all training images of a data set, and its header: title, facts, hash."""

    def train(file: Path) -> None:
        images = torch.from_numpy(np.asarray(data.train.images[np.sort(data.train.rows)]))
        network, facts = train_tokenizer(images, config, epochs, seed=0, report=report, device=device)
        with caching("the image tokenizer", file.parent):
            save_tokenizer(network, facts, title, file)

    decides = [data.train.source, _rows(data), config.model_dump(mode="json"), epochs]
    network, header = _tokenizer(_file("vq", "safetensors", decides), train)
    return network.to(device).eval(), header


def _tokenizer(file: Path, train: Callable[[Path], None]) -> tuple[VQNetwork, dict[str, Any]]:
    """From its file, which may have been brought from another machine: its header has the hash of its weights."""
    with suppress(*DAMAGED):
        return load_tokenizer(file)
    with alone(file.stem):
        with suppress(*DAMAGED):  # another process may have made it while this one waited
            return load_tokenizer(file)
        sweep(file)
        train(file)
    return load_tokenizer(file)


def image_codes(split: Split, tokenizer: ImageTokenizer, tokenizer_hash: str, device: torch.device) -> Tokens:
    """Codes (N, K) of all images of the official split that `split` is a part of."""

    def compute(file: Path) -> None:
        parts = []
        for start in range(0, len(split.images), BATCH):
            alive()
            images = torch.from_numpy(np.asarray(split.images[start : start + BATCH])).to(device)
            with torch.no_grad():
                parts.append(tokenizer(unit(images)).ids.cpu())
        buffer = io.BytesIO()
        np.save(buffer, torch.cat(parts).to(torch.int32).numpy())
        with caching("the images' codes", file.parent):
            write_whole(file, buffer.getvalue())

    file = cached(_file("codes", "npy", [split.source, tokenizer_hash]), compute)
    return np.asarray(np.load(file, mmap_mode="c"))


def encoder_weights(
    config: RunConfig, data: DataSet, tokenizer_hash: str, train: Callable[[], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """Weights of an aligner's encoder trained as `config` says, by `train` where that has not been done here.

    `tokenizer_hash`: of the image tokenizer; that of public weights covers the encoder's, which training begins with.
    """

    def keep(file: Path) -> None:
        content = save({name: value.detach().cpu().contiguous() for name, value in train().items()})
        with caching("the encoder", file.parent):
            write_whole(file, content)

    decides = [data.checksum, _rows(data), tokenizer_hash, config.deciding]
    return load_file(cached(_file("fuselip", "safetensors", decides), keep))


def _file(kind: str, ending: str, decides: Any) -> Path:
    """Where what `decides` stands for is kept."""
    return cache_folder() / f"{kind}-{digest([kind, decides], 16)}.{ending}"


def _rows(data: DataSet) -> str:
    return hashlib.sha256(np.sort(data.train.rows).tobytes()).hexdigest()
