"""Settings of the model families. Importing them does not load torch; `config.build(...)` does."""

from recstudy.models.captioners import (
    CaptionTransformer,
    FuseLIPBackboneConfig,
    ImageHRM,
    ImageLSTM,
    ImageTRM,
    R2Gen,
    ShowAttendTell,
    ShowTell,
)
from recstudy.models.classifiers import CNN, DenseNet, HRMImage, ResNet, ViT, ViTRM
from recstudy.models.fuselip import FUSELIP_ON_BYTES, VQ, Aligner, FuseLIP
from recstudy.models.micar import MicarVLMoE
from recstudy.models.sequence import HRM, TRM, Transformer, parameter_growth

__all__ = [
    "CNN",
    "FUSELIP_ON_BYTES",
    "HRM",
    "TRM",
    "VQ",
    "Aligner",
    "CaptionTransformer",
    "DenseNet",
    "FuseLIP",
    "FuseLIPBackboneConfig",
    "HRMImage",
    "ImageHRM",
    "ImageLSTM",
    "ImageTRM",
    "MicarVLMoE",
    "R2Gen",
    "ResNet",
    "ShowAttendTell",
    "ShowTell",
    "Transformer",
    "ViT",
    "ViTRM",
    "parameter_growth",
]  # fmt: skip
