"""What a network reads of a split: its images as they are, a frozen backbone's features of them, or an image tokenizer's codes.

Features and codes are computed once a machine and kept beside the decoded data.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from recstudy.config import RunConfig, TrainConfig
from recstudy.data.cache import DataSet, Split
from recstudy.data.features import features
from recstudy.models.aligner import Aligner
from recstudy.models.backbone import CaptionModel
from recstudy.models.networks.backbones import frozen
from recstudy.models.networks.contract import Network
from recstudy.models.vq import VQ
from recstudy.train.prepared import encoder_weights, image_codes, image_tokenizer

Read = Callable[[Split], Split]


def reader(config: RunConfig, data: DataSet, device: torch.device) -> tuple[Read, dict[str, Any]]:
    """How a split is read, and what the result must state of the tokenizer that does it."""
    model = config.model
    if isinstance(model, CaptionModel) and model.fuselip is not None:
        aligner = model.fuselip.aligner
        return _codes(aligner.tokenizer, aligner.tokenizer_epochs, config, data, device)
    if isinstance(model, Aligner):
        return _codes(model.tokenizer, model.tokenizer_epochs, config, data, device)
    if isinstance(model, CaptionModel) and model.reads_features:
        backbone, name = frozen(model).to(device), model.backbone
        return lambda split: replace(split, images=features(split, backbone, name, device)), {}
    return lambda split: split, {}


def equip(network: Network, config: RunConfig, data: DataSet, align: Callable[[RunConfig], dict[str, Tensor]]) -> None:
    """Give a captioner the FuseLIP encoder that `align` trains, where it has one."""
    model = config.model
    if not isinstance(model, CaptionModel) or model.fuselip is None:
        return
    eyes = network.get_submodule("eyes.injection.encoder")
    own = model.fuselip
    train = TrainConfig(
        epochs=own.epochs, batch_size=own.batch_size, learning_rate=own.learning_rate, warmup=0.1, weight_decay=0.1,
        ema_decay=0.0, selection="last",
    )  # fmt: skip
    aligned = RunConfig(data=config.data, model=own.aligner, train=train)
    weights = encoder_weights(aligned, data, lambda: align(aligned))
    eyes.load_state_dict({name.removeprefix("encoder."): value for name, value in weights.items()})


def _codes(tokenizer: VQ, epochs: int, config: RunConfig, data: DataSet, device: torch.device) -> tuple[Read, dict[str, Any]]:
    network, header = image_tokenizer(tokenizer, epochs, data, config.data.title, device)
    facts = header["facts"]
    quality = f"PSNR {facts['psnr']:.1f} dB, {facts['used_percent']:.0f} % of {tokenizer.codebook:,} codes used"
    stated = {"image": f"{header['title']}; {quality}", "image_hash": header["hash"]}
    return lambda split: replace(split, images=image_codes(split, network, header, device)), stated
