"""Training of the stand-in image tokenizer: a plain loop of AdamW over the images of one data set.

The learning rate warms up over a twentieth of the steps and falls along a cosine. A tenth of the images is held out; the
quality that is reported is theirs.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from recstudy.errors import DataError
from recstudy.metrics.reconstruction import codebook_use, psnr
from recstudy.models.fuselip import VQ
from recstudy.models.networks.vq import VQNetwork, unit, vq_loss
from recstudy.records import Json

BATCH = 32
LEARNING_RATE = 0.2  # over the width: 1e-3 at 192
WARMUP = 0.05  # of the steps
HELD_OUT = 0.1  # of the images


class Progress(NamedTuple):
    """What an epoch reports."""

    epoch: int
    loss: float
    restarted: int  # codes that were dead and started again


def train_tokenizer(
    images: Tensor,
    config: VQ,
    epochs: int,
    seed: int,
    report: Callable[[Progress], None] | None = None,
    device: torch.device | None = None,
) -> tuple[VQNetwork, Json]:
    """A tokenizer trained on `images` (N, 3, size, size) of 8 bits, and the facts that belong beside every use of it.

    The facts: `images`, `epochs`, `seed`; on the images held out `psnr` in dB, `used_percent` of the codebook and its
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
    _fit(network, images[order[held:]], epochs, generator, report)
    return network, {"images": len(images) - held, "epochs": epochs, "seed": seed, **quality(network, images[order[:held]])}


@torch.no_grad()
def quality(network: VQNetwork, images: Tensor) -> dict[str, float]:
    """PSNR and codebook use on images (N, 3, size, size), of which a batch at a time is drawn again."""
    decibels, ids = 0.0, []
    for part in images.split(BATCH):
        again, codes = network(unit(part.to(_device(network))))
        decibels += psnr(again.cpu(), unit(part)) * len(part)
        ids.append(codes.ids.cpu())
    return {"psnr": decibels / len(images), **codebook_use(torch.cat(ids), network.config.codebook)}


def _fit(
    network: VQNetwork, images: Tensor, epochs: int, generator: torch.Generator, report: Callable[[Progress], None] | None
) -> None:
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=LEARNING_RATE / network.config.width, betas=(0.9, 0.99), weight_decay=1e-4
    )
    steps = epochs * math.ceil(len(images) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
    for epoch in range(epochs):
        total, restarted = torch.zeros((), device=_device(network)), 0
        for rows in torch.randperm(len(images), generator=generator).split(BATCH):
            batch = unit(images[rows].to(_device(network)))
            again, codes = network(batch)
            loss = vq_loss(again, batch, codes, network.config)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            restarted += network.tokenizer.quantiser.count_and_restart(codes, generator)
            total += loss.detach() * len(rows)
        if report is not None:
            report(Progress(epoch, total.item() / len(images), restarted))


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
            f"{config.name} needs 8-bit images of 3x{config.size}x{config.size}, but got {images.dtype} of "
            f"{'x'.join(map(str, images.shape[1:]))}. Decode the data at size={config.size}, or set the tokenizer's size"
        )
    if len(images) < 2:
        raise DataError(f"{config.name} needs at least 2 images, of which one is held out, but got {len(images)}")
