"""What a run needs to have been trained before it: an image tokenizer, an aligned FuseLIP. Once a machine, as
decoded data are.

    RECSTUDY_CACHE/vq-DIGEST.safetensors         an image tokenizer trained on the training images of a data set
    RECSTUDY_CACHE/codes-DIGEST.npy              (N, K) int32, its codes of all images of one official split
    RECSTUDY_CACHE/fuselip-DIGEST.safetensors    the encoder of an aligner, trained as its own run config says

A digest covers all that decides the content: the data's checksum, the training rows, the configs and, of
codes and of an encoder that learned from them, the image tokenizer's hash. Another process that wants the
same waits for the one that makes it.

The stand-in image tokenizer is trained by a plain loop of AdamW over the images of one data set. The learning
rate warms up over a twentieth of the steps and falls along a cosine. A tenth of the images is held out; the
quality that is reported is theirs.
"""

import hashlib
import io
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from recstudy.config import RunConfig
from recstudy.data.cache import DataSet, Split, build_lock, ensure_cached
from recstudy.data.reader import Tokens
from recstudy.errors import DataError
from recstudy.files import cache_folder, caching, sweep
from recstudy.models.fuselip import VQ
from recstudy.models.networks.layers import in_float64
from recstudy.models.networks.vq import (
    ImageTokenizer,
    VQNetwork,
    load_tokenizer,
    save_tokenizer,
    unit,
    vq_loss,
)
from recstudy.programs.settings import digest
from recstudy.programs.watchdog import heartbeat
from recstudy.records import Json
from recstudy.records.files import write_whole

BATCH = 32
LEARNING_RATE = 0.2  # over the width: 1e-3 at 192
WARMUP = 0.05  # of the steps
HELD_OUT = 0.1  # of the images
CODED = 64  # images at once
# how it is said that a tokenizer is not there, or not whole
DAMAGED = (OSError, ValueError, SafetensorError, DataError)


def train_tokenizer(
    images: Tensor,
    config: VQ,
    epochs: int,
    seed: int,
    device: torch.device | None = None,
) -> tuple[VQNetwork, Json]:
    """Return a tokenizer trained on `images` (N, 3, size, size) of 8 bits, and the facts that belong beside
    every use of it.

    The facts: `images`, `epochs`, `seed`; on the images held out `psnr` in dB, `used_percent` of the codebook
        and its
    `perplexity`.

    Raises:
        DataError: too few images, or not of the config's size.
    """
    _check(images, config)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    held = max(1, round(HELD_OUT * len(images)))
    network = VQNetwork(config).to(device or torch.device("cpu"))
    _fit(network, images[order[held:]], epochs, generator)
    return network, {
        "images": len(images) - held,
        "epochs": epochs,
        "seed": seed,
        **quality(network, images[order[:held]]),
    }


@torch.no_grad()
def quality(network: VQNetwork, images: Tensor) -> dict[str, float]:
    """Return PSNR and codebook use on images (N, 3, size, size), of which a batch at a time is drawn
    again.
    """
    decibels, ids = 0.0, []
    for part in images.split(BATCH):
        again, codes = network(unit(part.to(_device(network))))
        decibels += psnr(again.cpu(), unit(part)) * len(part)
        ids.append(codes.ids.cpu())
    return {"psnr": decibels / len(images), **codebook_use(torch.cat(ids), network.config.codebook)}


def _fit(network: VQNetwork, images: Tensor, epochs: int, generator: torch.Generator) -> None:
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=LEARNING_RATE / network.config.width, betas=(0.9, 0.99), weight_decay=1e-4
    )
    steps = epochs * math.ceil(len(images) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    for _ in range(epochs):
        for rows in torch.randperm(len(images), generator=generator).split(BATCH):
            batch = unit(images[rows].to(_device(network)))
            again, codes = network(batch)
            loss = vq_loss(again, batch, codes, network.config)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            network.tokenizer.quantiser.count_and_restart(codes, generator)
        heartbeat()


def _rate(step: int, steps: int) -> float:
    """Share of the learning rate: a linear warm-up, then a cosine down to 0."""
    warmup = max(1, round(WARMUP * steps))
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))) / 2


def _device(network: VQNetwork) -> torch.device:
    return network.tokenizer.quantiser.codebook.device


def _check(images: Tensor, config: VQ) -> None:
    wanted = (3, config.size, config.size)
    if images.dtype != torch.uint8 or tuple(images.shape[1:]) != wanted:
        raise DataError(
            f"{config.name} needs 8-bit images of 3x{config.size}x{config.size}, but got {images.dtype} of"
            f" {'x'.join(map(str, images.shape[1:]))}. Decode the data at size={config.size}, or set the"
            " tokenizer's size"
        )
    if len(images) < 2:
        raise DataError(
            f"{config.name} needs at least 2 images, of which one is held out, but got {len(images)}"
        )


def psnr(drawn_again: Tensor, images: Tensor) -> float:
    """Peak signal-to-noise ratio in dB of images (N, ...) from 0 to 1: 10 log10(1 / MSE) of each, then the
    mean.

    What is outside of 0 to 1 is cut off first, as a screen does.
    """
    errors_N = (in_float64(drawn_again).clamp(0, 1) - in_float64(images)).square().flatten(1).mean(1)
    return (-10 * errors_N.clamp(min=1e-12).log10()).mean().item()  # 120 dB where nothing is lost


def codebook_use(ids: Tensor, codebook: int) -> dict[str, float]:
    """Return of `ids` (N, K) `used_percent` of the codebook's codes, and `perplexity`, as many codes as
    evenly used would be.
    """
    counts_V = in_float64(torch.bincount(ids.flatten(), minlength=codebook))
    shares = counts_V[counts_V > 0] / counts_V.sum()
    return {
        "used_percent": 100 * len(shares) / codebook,
        "perplexity": (-(shares * shares.log()).sum()).exp().item(),
    }


def image_tokenizer(
    config: VQ,
    epochs: int,
    data: DataSet,
    title: str,
    device: torch.device,
) -> tuple[VQNetwork, dict[str, Any]]:
    """Return a tokenizer trained on all training images of a data set, and its header: title, facts, hash."""

    def train(file: Path) -> None:
        images = torch.from_numpy(np.asarray(data.train.images[np.sort(data.train.rows)]))
        network, facts = train_tokenizer(images, config, epochs, seed=0, device=device)
        with caching("the image tokenizer", file.parent):
            save_tokenizer(network, facts, title, file)

    decides = [data.train.source, _rows(data), config.model_dump(mode="json"), epochs]
    network, header = _tokenizer(_file("vq", "safetensors", decides), train)
    return network.to(device).eval(), header


def _tokenizer(file: Path, train: Callable[[Path], None]) -> tuple[VQNetwork, dict[str, Any]]:
    """Return the tokenizer of a file, which may be of another machine: its header has the hash of its
    weights.
    """
    with suppress(*DAMAGED):
        return load_tokenizer(file)
    with build_lock(file.stem):
        with suppress(*DAMAGED):  # another process may have made it while this one waited
            return load_tokenizer(file)
        sweep(file)
        train(file)
    return load_tokenizer(file)


def image_codes(split: Split, tokenizer: ImageTokenizer, tokenizer_hash: str, device: torch.device) -> Tokens:
    """Codes (N, K) of all images of the official split that `split` is a part of."""

    def compute(file: Path) -> None:
        parts = []
        for start in range(0, len(split.images), CODED):
            heartbeat()
            images = torch.from_numpy(np.asarray(split.images[start : start + CODED])).to(device)
            with torch.no_grad():
                parts.append(tokenizer(unit(images)).ids.cpu())
        buffer = io.BytesIO()
        np.save(buffer, torch.cat(parts).to(torch.int32).numpy())
        with caching("the images' codes", file.parent):
            write_whole(file, buffer.getvalue())

    file = ensure_cached(_file("codes", "npy", [split.source, tokenizer_hash]), compute)
    return np.asarray(np.load(file, mmap_mode="c"))


def encoder_weights(
    config: RunConfig, data: DataSet, tokenizer_hash: str, train: Callable[[], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """Weights of an aligner's encoder trained as `config` says, by `train` where that has not been done here.

    `tokenizer_hash`: of the image tokenizer; that of public weights covers the encoder's, which training
    begins with.
    """

    def keep(file: Path) -> None:
        content = save({name: value.detach().cpu().contiguous() for name, value in train().items()})
        with caching("the encoder", file.parent):
            write_whole(file, content)

    decides = [data.checksum, _rows(data), tokenizer_hash, config.deciding]
    return load_file(ensure_cached(_file("fuselip", "safetensors", decides), keep))


def _file(kind: str, ending: str, decides: Any) -> Path:
    """Return where what `decides` stands for is kept."""
    return cache_folder() / f"{kind}-{digest([kind, decides], 16)}.{ending}"


def _rows(data: DataSet) -> str:
    return hashlib.sha256(np.sort(data.train.rows).tobytes()).hexdigest()
