"""Train image tokenizers and FuseLIP encoders that runs start from, once on each machine, and cache them.

`encoders.py` calls `image_tokenizer`, `image_codes` and `encoder_weights`. The cache has these files:

    RECSTUDY_CACHE/vq-DIGEST.safetensors       an image tokenizer of the training images of a data set
    RECSTUDY_CACHE/codes-DIGEST.npy            (N, K) int32, its codes of all images of one official split
    RECSTUDY_CACHE/fuselip-DIGEST.safetensors  the encoder of an aligner, trained by its own run config

A digest covers everything that determines the content: the checksum of the data, the training rows, the
configs and, for codes and encoders, the hash of the image tokenizer. If two processes need the same file, one
waits for the other.

A plain AdamW loop trains the substitute image tokenizer on the images of one data set. The learning rate
warms up over a twentieth of the steps and falls along a cosine. The reported quality is that of a held-out
tenth of the images.
"""

import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from recstudy.base.errors import DataError
from recstudy.base.files import cache_folder, caching, sweep
from recstudy.base.values import digest
from recstudy.programs.watchdog import heartbeat
from recstudy.records import Json
from recstudy.records.files import write_whole
from recstudy.recursive.config.answers import Scores
from recstudy.recursive.config.reader import Pixels, Tokens
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.data.cache import DataSet, Split, build_lock, cached_results, ensure_cached
from recstudy.recursive.models.fuselip import VQ
from recstudy.recursive.models.networks.layers import in_float64
from recstudy.recursive.models.networks.vq import (
    ImageTokenizer,
    VQNetwork,
    load_tokenizer,
    save_tokenizer,
    unit,
    vq_loss,
)
from recstudy.recursive.models.networks.weight_files import weight_bytes

BATCH = 32
LEARNING_RATE = 0.2  # over the width: 1e-3 at 192
WARMUP = 0.05  # of the steps
HELD_OUT_SHARE = 0.1  # of the images
# The exceptions of a missing or incomplete tokenizer file.
DAMAGED = (OSError, ValueError, SafetensorError, DataError)


def train_tokenizer(
    images: Tensor,
    config: VQ,
    epochs: int,
    seed: int,
    device: torch.device,
) -> tuple[VQNetwork, Json]:
    """Train a tokenizer on `images`, (N, 3, size, size) uint8.

    Returns:
        The tokenizer, and its facts: `images`, `epochs`, `seed`, and on the held-out images `psnr` in dB,
        `used_percent` of the codebook, and `perplexity` of the codes.

    Raises:
        DataError: there are too few images, or their size differs from the config's.
    """
    _check(images, config)
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(images), generator=generator)
    held_out_count = max(1, round(HELD_OUT_SHARE * len(images)))
    network = VQNetwork(config).to(device)
    _fit(network, images[order[held_out_count:]], epochs, generator)
    return network, {
        "images": len(images) - held_out_count,
        "epochs": epochs,
        "seed": seed,
        **quality(network, images[order[:held_out_count]]),
    }


@torch.no_grad()
def quality(network: VQNetwork, images: Tensor) -> Scores:
    """Return PSNR and codebook use on images (N, 3, size, size), which are reconstructed batch by batch."""
    decibels = 0.0
    ids = []
    for part in images.split(BATCH):
        reconstruction, codes = network(unit(part.to(_device(network))))
        decibels += psnr(reconstruction.cpu(), unit(part)) * len(part)
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
            reconstruction, codes = network(batch)
            loss = vq_loss(reconstruction, batch, codes, network.config)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            network.tokenizer.quantiser.count_and_restart(codes, generator)
        heartbeat()


def _rate(step: int, steps: int) -> float:
    """Return the factor of the learning rate at a step: a linear warm-up, then a cosine down to 0."""
    warmup = max(1, round(WARMUP * steps))
    if step < warmup:
        return (step + 1) / warmup
    return (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))) / 2


def _device(network: VQNetwork) -> torch.device:
    return network.tokenizer.quantiser.codebook.device


def _check(images: Tensor, config: VQ) -> None:
    expected_shape = (3, config.size, config.size)
    if images.dtype != torch.uint8 or tuple(images.shape[1:]) != expected_shape:
        raise DataError(
            f"{config.name} needs 8-bit images of 3x{config.size}x{config.size}, but got {images.dtype} of"
            f" {'x'.join(map(str, images.shape[1:]))}. Decode the data at size={config.size}, or set the"
            " tokenizer's size"
        )
    if len(images) < 2:
        raise DataError(
            f"{config.name} needs at least 2 images, of which one is held out, but got {len(images)}"
        )


def psnr(reconstructions: Tensor, images: Tensor) -> float:
    """Return the peak signal-to-noise ratio in dB of images (N, ...) from 0 to 1.

    It is 10 log10(1 / MSE) of each image, averaged over images.
    """
    # Reconstructed values outside of 0 to 1 are clipped first, as on a screen.
    differences = in_float64(reconstructions).clamp(0, 1) - in_float64(images)
    errors_N = differences.square().flatten(1).mean(1)
    return (-10 * errors_N.clamp(min=1e-12).log10()).mean().item()  # 120 dB for equal images


def codebook_use(ids: Tensor, codebook: int) -> Scores:
    """Return `used_percent` of the codebook and the `perplexity` of the codes `ids` (N, K).

    The perplexity is the number of equally frequent codes with the same entropy.
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
) -> tuple[VQNetwork, Json]:
    """Return a tokenizer of all training images of a data set, and its header: title, facts and hash."""

    def train(file: Path) -> None:
        images = torch.from_numpy(np.asarray(data.train.images[np.sort(data.train.rows)]))
        network, facts = train_tokenizer(images, config, epochs, seed=0, device=device)
        with caching("the image tokenizer", file.parent):
            save_tokenizer(network, facts, title, file)

    decides = [data.train.source, _rows(data), config.model_dump(mode="json"), epochs]
    network, header = _tokenizer(_file("vq", "safetensors", decides), train)
    return network.to(device).eval(), header


def _tokenizer(file: Path, train: Callable[[Path], None]) -> tuple[VQNetwork, Json]:
    """Return the tokenizer in a file, which is trained first if it is missing or damaged."""
    # The file may come from another machine, because its header has the hash of its weights.
    with suppress(*DAMAGED):
        return load_tokenizer(file)
    with build_lock(file.stem):
        with suppress(*DAMAGED):  # another process may have made it while this one waited
            return load_tokenizer(file)
        sweep(file)
        train(file)
    return load_tokenizer(file)


def image_codes(split: Split, tokenizer: ImageTokenizer, tokenizer_hash: str, device: torch.device) -> Tokens:
    """Return the codes (N, K) of all images of the official split that `split` is a part of."""

    def compute(images: Pixels) -> Tokens:
        with torch.no_grad():
            ids = tokenizer(unit(torch.from_numpy(images).to(device))).ids
        return ids.to("cpu", torch.int32).numpy()

    return cached_results(_file("codes", "npy", [split.source, tokenizer_hash]), split, compute)


def encoder_weights(
    config: RunConfig, data: DataSet, tokenizer_hash: str, train: Callable[[], dict[str, Tensor]]
) -> dict[str, Tensor]:
    """Return the weights of an aligner's encoder, from the cache or trained now.

    Args:
        config: the run config of the aligner.
        data: the data of the run.
        tokenizer_hash: hash of the image tokenizer. The hash of public weights also covers the encoder that
            training starts from.
        train: trains the aligner and returns its weights.
    """

    def keep(file: Path) -> None:
        content = weight_bytes(train())
        with caching("the encoder", file.parent):
            write_whole(file, content)

    decides = [data.checksum, _rows(data), tokenizer_hash, config.deciding]
    return load_file(ensure_cached(_file("fuselip", "safetensors", decides), keep))


def _file(kind: str, ending: str, decides: Any) -> Path:
    """Return the path of the cached file whose content `decides` determines."""
    return cache_folder() / f"{kind}-{digest([kind, decides], 16)}.{ending}"


def _rows(data: DataSet) -> str:
    return hashlib.sha256(np.sort(data.train.rows).tobytes()).hexdigest()
