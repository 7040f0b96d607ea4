"""What a network reads of a split: its images as they are, a frozen backbone's features of them, or an image
tokenizer's codes.

Features and codes are computed once a machine and kept beside the decoded data. Features are memory-mapped
arrays that all trials of a node share:

    RECSTUDY_CACHE/features-NAME-DIGEST.npy      (N, F) or (N, P, F) float32, of all images of one official split

NAME says the backbone and its grid; the digest covers the data set's checksum, the split, and every weight of
the backbone. What one kind of device computed serves the others too, which would round otherwise in the last
digits.

Shapes: N images of an official split, B images of a batch, P places of a grid, F features.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from recstudy.config import ModelConfig, RunConfig, TrainConfig
from recstudy.data.cache import DataSet, Split, ensure_cached, write_entry
from recstudy.files import cache_folder
from recstudy.models.captioners import CaptionModel
from recstudy.models.fuselip import Aligner
from recstudy.models.networks.caption import frozen
from recstudy.models.networks.contract import Network
from recstudy.models.networks.fuselip_weights import load_public, public_hash
from recstudy.programs.settings import digest
from recstudy.programs.watchdog import heartbeat
from recstudy.tasks.captioning.tokenizer import encoder_weights, image_codes, image_tokenizer

FORMAT = 1  # of a file of features; raise it when the same backbone gives other numbers
BATCH = 64  # images; 224x224 pixels in float32 are 37 MiB

Features = npt.NDArray[np.float32]
Read = Callable[[Split], Split]


def reader(config: RunConfig, data: DataSet, device: torch.device) -> tuple[Read, dict[str, Any]]:
    """Return how a split is read, and what the result must state of the tokenizer that does it."""
    model = config.model
    if isinstance(model, CaptionModel) and model.fuselip is not None:
        return _codes(model.fuselip.aligner, config, data, device)
    if isinstance(model, Aligner):
        return _codes(model, config, data, device)
    if isinstance(model, CaptionModel) and model.reads_features:
        backbone = frozen(model).to(device)
        name = model.backbone if model.grid is None else f"{model.backbone}-{model.grid}x{model.grid}"

        def read(split: Split) -> Split:
            images: Any = features(split, backbone, name, device)
            return replace(split, images=images, source=f"{split.source}/{name}-{model.weights}")

        return read, {}
    return lambda split: split, {}


def equip(
    network: Network,
    config: RunConfig,
    data: DataSet,
    facts: dict[str, Any],
    align: Callable[[RunConfig], dict[str, Tensor]],
) -> None:
    """Give a captioner the FuseLIP encoder that `align` trains, where it has one, and an aligner the public
    weights.

    `facts`: what `reader` states of the image tokenizer that the encoder learns from.
    """
    model = config.model
    begin(network, model)
    if not isinstance(model, CaptionModel) or model.fuselip is None:
        return
    eyes = network.get_submodule("eyes.injection.encoder")
    own = model.fuselip
    train = TrainConfig(
        epochs=own.epochs, batch_size=own.batch_size, learning_rate=own.learning_rate, schedule="update", warmup=0.1,
        weight_decay=0.1, decayed="matrices", ema_decay=0.0, selection="last",
    )  # fmt: skip
    aligned = RunConfig(data=config.data, model=own.aligner, train=train)
    weights = encoder_weights(aligned, data, facts["image_hash"], lambda: align(aligned))
    eyes.load_state_dict({name.removeprefix("encoder."): value for name, value in weights.items()})


def begin(network: Network, model: ModelConfig) -> None:
    """Give an aligner the public weights that it begins with, where it names some."""
    if isinstance(model, Aligner) and model.files:
        encoder, _ = load_public(model.encoder, model.tokenizer, Path(model.files))
        network.get_submodule("encoder").load_state_dict(encoder.state_dict())


def features(split: Split, backbone: nn.Module, name: str, device: torch.device) -> Features:
    """Return features (N, F) or (N, P, F) of `split.images`, from the cache or computed into it; `split.rows`
    says which count.

    Args:
        split: any part of an official split: all of its images are computed.
        backbone: pixels of 0 to 255 (B, C, H, W) float32 -> (B, F) or (B, P, F), in evaluation mode and on
            `device`.
        name: the backbone's with its grid, for the file.
        device: where to compute.

    Raises:
        DataError: a cache folder that cannot be written.
    """

    def save(path: Path) -> None:
        """Write a batch after the other: a grid of all images may be larger than memory."""
        with write_entry(path) as temporary:
            for start in range(0, len(split.images), BATCH):
                heartbeat()
                with torch.inference_mode():
                    part = (
                        backbone(torch.from_numpy(split.images[start : start + BATCH]).to(device).float())
                        .float()
                        .cpu()
                    )
                if start == 0:
                    shape = (len(split.images), *part.shape[1:])
                    file = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=shape)
                file[start : start + BATCH] = part.numpy()
            file.flush()

    file = cache_folder() / f"features-{name}-{digest([FORMAT, split.source, checksum(backbone)], 16)}.npy"
    return np.asarray(np.load(ensure_cached(file, save), mmap_mode="c"))


def checksum(network: nn.Module) -> str:
    """Return 20 hex digits over the names and bits of all weights and buffers."""
    hashed = hashlib.sha256()
    for name, value in network.state_dict().items():
        array = value.detach().cpu().contiguous().numpy()
        hashed.update(f"{name} {array.dtype} {array.shape}".encode())
        hashed.update(array.data)
    return hashed.hexdigest()[:20]


def _codes(
    aligner: Aligner, config: RunConfig, data: DataSet, device: torch.device
) -> tuple[Read, dict[str, Any]]:
    """Return the codes of the public weights' tokenizer, or of a stand-in trained on the same images."""
    if aligner.files:
        _, tokenizer = load_public(aligner.encoder, aligner.tokenizer, Path(aligner.files))
        name = f"{aligner.tokenizer.name} (public weights)"
        tokenizer, stated = (
            tokenizer.to(device).eval(),
            {"image": name, "image_hash": public_hash(Path(aligner.files))},
        )
    else:
        network, header = image_tokenizer(
            aligner.tokenizer, aligner.tokenizer_epochs, data, config.data.title, device
        )
        facts, tokenizer = header["facts"], network.tokenizer
        quality = (
            f"PSNR {facts['psnr']:.1f} dB, {facts['used_percent']:.0f} % of {aligner.tokenizer.codebook:,}"
            " codes used"
        )
        stated = {"image": f"{header['title']}; {quality}", "image_hash": header["hash"]}

    def read(split: Split) -> Split:
        codes: Any = image_codes(split, tokenizer, stated["image_hash"], device)
        return replace(split, images=codes, source=f"{split.source}/{stated['image_hash']}")

    return read, stated
