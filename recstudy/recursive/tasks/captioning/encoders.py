"""The input of captioners and aligners: images, features of a frozen backbone, or image codes.

The tasks on captioned images call `reader` and `equip`. Features and codes are computed once on each machine
and cached next to the decoded data. Features are memory-mapped arrays that all trials of a node share:

    RECSTUDY_CACHE/features-NAME-DIGEST.npy   (N, F) or (N, P, F) float32, of all images of one official split

NAME is the backbone with its grid. The digest covers the data set's checksum, the split, and every weight of
the backbone. It does not cover the device: CPUs and GPUs share a file, although their last digits differ.

Shapes: N images of an official split, B images of a batch, P places of a grid, F features.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from recstudy.base.errors import DataError
from recstudy.base.files import cache_folder, sha256_of
from recstudy.base.values import digest
from recstudy.programs.watchdog import paused_watchdog
from recstudy.records.files import Json
from recstudy.recursive.config.reader import Pixels, Tokens
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.train import TrainConfig
from recstudy.recursive.data.cache import DataSet, Split, cached_results
from recstudy.recursive.models.caption import CaptionModel, aligner_of
from recstudy.recursive.models.fuselip import Aligner
from recstudy.recursive.models.networks.caption import frozen
from recstudy.recursive.models.networks.contract import Network
from recstudy.recursive.models.networks.fuselip_weights import load_public, weight_file
from recstudy.recursive.models.networks.vq import ImageTokenizer
from recstudy.recursive.tasks.captioning.tokenizer import encoder_weights, image_codes, image_tokenizer
from recstudy.recursive.train.parallel import concatenated

FORMAT = 1  # of a file of features; increase it if the same backbone computes other numbers

Features = npt.NDArray[np.float32]
Read = Callable[[Split], Split]


def reader(config: RunConfig, data: DataSet, device: torch.device) -> tuple[Read, Json]:
    """Return a function that reads a split, and the facts about the image tokenizer for the result."""
    model = config.model
    facts: Json = {}
    compute: Callable[[Split], Features | Tokens]
    if aligner := aligner_of(model)[0]:
        tokenizer, facts = _image_tokenizer(aligner, config, data, device)
        name = facts["image_hash"]
        compute = partial(image_codes, tokenizer=tokenizer, tokenizer_hash=name, device=device)
    elif isinstance(model, CaptionModel) and model.reads_features:
        title = model.backbone if model.grid is None else f"{model.backbone}-{model.grid}x{model.grid}"
        name = f"{title}-{model.weights}"
        compute = partial(features, backbone=frozen(model).to(device), name=title, device=device)
    else:
        return lambda split: split, facts

    def read(split: Split) -> Split:
        images: Any = compute(split)
        return replace(split, images=images, source=f"{split.source}/{name}")

    return read, facts


def equip(
    network: Network,
    config: RunConfig,
    data: DataSet,
    facts: Json,
    align: Callable[[RunConfig], dict[str, Tensor]],
) -> None:
    """Load the weights that a captioner or an aligner starts from.

    Args:
        network: a captioner, which gets the FuseLIP encoder of its aligner, or an aligner, which gets public
            weights.
        config: of the run.
        data: of the run.
        facts: the facts about the image tokenizer that `reader` returned.
        align: trains an aligner and returns its weights.

    Raises:
        DataError: the workers have different image tokenizers or encoders.
    """
    model = config.model
    if facts:
        check_shared("image tokenizer", facts["image_hash"])
    load_initial_weights(network, config, data)
    if not isinstance(model, CaptionModel) or model.fuselip is None:
        return
    encoder = network.get_submodule("eyes.injection.encoder")
    settings = model.fuselip
    train = TrainConfig(
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        schedule="update",
        warmup=0.1,
        weight_decay=0.1,
        decayed="matrices",
        ema_decay=0.0,
        selection="last",
    )
    aligned = RunConfig(data=config.data, model=settings.aligner, train=train)
    weights = encoder_weights(aligned, data, facts["image_hash"], lambda: align(aligned))
    encoder.load_state_dict({name.removeprefix("encoder."): value for name, value in weights.items()})
    check_shared("FuseLIP encoder", checksum(encoder))


def check_shared(name: str, checksum: str) -> None:
    """Check that all workers have the same checksum, in hex digits.

    Raises:
        DataError: they do not.
    """
    with paused_watchdog():  # another machine may be training it
        numbers = concatenated(torch.tensor([int(checksum[:15], 16)]))
    if len(numbers.unique()) > 1:
        raise DataError(
            f"each machine has its own {name}, so the workers differ. Set RECSTUDY_CACHE to a folder that all"
            " machines share"
        )


def load_initial_weights(network: Network, config: RunConfig, data: DataSet) -> None:
    """Load the public weights of an aligner, if its settings name any."""
    if isinstance(config.model, Aligner) and config.model.files:
        encoder, _ = load_public(config, data.folder)
        network.get_submodule("encoder").load_state_dict(encoder.state_dict())


def features(split: Split, backbone: nn.Module, name: str, device: torch.device) -> Features:
    """Return the features of `split.images`, (N, F) or (N, P, F), from the cache.

    Missing features are computed and cached.

    Args:
        split: any part of an official split; the features of all images of that split are computed.
        backbone: maps pixels from 0 to 255 (B, C, H, W) float32 to (B, F) or (B, P, F), in evaluation mode
            and on `device`.
        name: name of the backbone with its grid, for the file.
        device: the device that computes.

    Raises:
        DataError: the cache folder cannot be written.
    """

    def compute(images: Pixels) -> Features:
        with torch.inference_mode():
            return backbone(torch.from_numpy(images).to(device).float()).float().cpu().numpy()

    file = cache_folder() / f"features-{name}-{digest([FORMAT, split.source, checksum(backbone)], 16)}.npy"
    return cached_results(file, split, compute)


def checksum(network: nn.Module) -> str:
    """Return a checksum of 20 hex digits over the names and bits of all weights and buffers."""
    hashed = hashlib.sha256()
    for name, value in network.state_dict().items():
        array = value.detach().cpu().contiguous().numpy()
        hashed.update(f"{name} {array.dtype} {array.shape}".encode())
        hashed.update(array.data)
    return hashed.hexdigest()[:20]


def _image_tokenizer(
    aligner: Aligner, config: RunConfig, data: DataSet, device: torch.device
) -> tuple[ImageTokenizer, Json]:
    """Return the public image tokenizer, or a substitute trained on the same images, and facts about it."""
    if aligner.files:
        _, tokenizer = load_public(config, data.folder)
        name = f"{aligner.tokenizer.name} (public weights)"
        checksum_of_file = sha256_of(weight_file(data.folder / aligner.files))[:20]
        return tokenizer.to(device).eval(), {"image": name, "image_hash": checksum_of_file}
    network, header = image_tokenizer(
        aligner.tokenizer, aligner.tokenizer_epochs, data, config.data.title, device
    )
    facts = header["facts"]
    quality = (
        f"PSNR {facts['psnr']:.1f} dB, {facts['used_percent']:.0f} % of {aligner.tokenizer.codebook:,}"
        " codes used"
    )
    return network.tokenizer, {"image": f"{header['title']}; {quality}", "image_hash": header["hash"]}
