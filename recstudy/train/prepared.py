"""What a run needs to have been trained before it: an image tokenizer, an aligned FuseLIP. Once a machine, as decoded data are.

    RECSTUDY_CACHE/vq-DIGEST.safetensors         an image tokenizer trained on the training images of a data set
    RECSTUDY_CACHE/codes-DIGEST.npy              (N, K) int32, its codes of all images of one official split
    RECSTUDY_CACHE/fuselip-DIGEST.safetensors    the encoder of an aligner, trained as its own run config says

A digest covers all that decides the content: the data's checksum, the configs and, of codes, the tokenizer's hash. Another
process that wants the same waits for the one that makes it.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save
from torch import Tensor

from recstudy.config import RunConfig, canonical
from recstudy.data.cache import DataSet, Split, alone, cache_folder
from recstudy.data.images import Tokens
from recstudy.files import write_whole
from recstudy.models.networks.vq import ImageTokenizer, VQNetwork, unit
from recstudy.models.networks.vq_file import load_tokenizer, save_tokenizer
from recstudy.models.vq import VQ
from recstudy.train.tokenizer import Progress, train_tokenizer
from recstudy.train.watchdog import alive

BATCH = 64


def made(kind: str, ending: str, decides: Any, make: Callable[[Path], None]) -> Path:
    """The file of what `decides` stands for, made first where it is missing."""
    digest = hashlib.sha256(canonical([kind, decides]).encode()).hexdigest()[:16]
    file = cache_folder() / f"{kind}-{digest}.{ending}"
    if not file.exists():
        with alone(cache_folder(), file.stem):
            if not file.exists():  # another process may have made it while this one waited
                make(file)
    return file


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
        save_tokenizer(network, facts, title, file)

    rows = hashlib.sha256(np.sort(data.train.rows).tobytes()).hexdigest()
    decides = [data.train.source, rows, config.model_dump(mode="json"), epochs]
    network, header = load_tokenizer(made("vq", "safetensors", decides, train))
    return network.to(device).eval(), header


def image_codes(split: Split, tokenizer: ImageTokenizer, tokenizer_hash: str, device: torch.device) -> Tokens:
    """Codes (N, K) of all images of the official split that `split` is a part of."""

    def compute(file: Path) -> None:
        parts = []
        for start in range(0, len(split.images), BATCH):
            alive()
            images = torch.from_numpy(np.asarray(split.images[start : start + BATCH])).to(device)
            with torch.no_grad():
                parts.append(tokenizer(unit(images)).ids.cpu())
        temporary = file.with_suffix(".tmp.npy")
        np.save(temporary, torch.cat(parts).to(torch.int32).numpy())
        temporary.rename(file)

    file = made("codes", "npy", [split.source, tokenizer_hash], compute)
    return np.asarray(np.load(file, mmap_mode="c"))


def encoder_weights(config: RunConfig, data: DataSet, begun: str, train: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Weights of an aligner's encoder trained as `config` says, by `train` where that has not been done here.

    `begun`: the hash of the public weights that it begins with; empty for drawn ones.
    """

    def keep(file: Path) -> None:
        write_whole(file, save({name: value.detach().cpu().contiguous() for name, value in train().items()}))

    return load_file(made("fuselip", "safetensors", [data.checksum, config.deciding, *filter(None, [begun])], keep))
