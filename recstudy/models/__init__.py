"""Model families by name: what can be set. Importing this loads no torch; `config.build(...)` does."""

from recstudy.models.backbone import FuseLIPBackboneConfig
from recstudy.models.captioners import CaptionTransformer, ImageLSTM, R2Gen, ShowAttendTell, ShowTell
from recstudy.models.classifiers import CNN, DenseNet, ResNet, ViT
from recstudy.models.fuselip import VQ, Aligner, FuseLIP
from recstudy.models.hrm import HRM, parameter_growth
from recstudy.models.hrm_image import HRMImage
from recstudy.models.image_hrm import ImageHRM, ImageTRM
from recstudy.models.micar import MicarVLMoE
from recstudy.models.sequence import Transformer
from recstudy.models.trm import TRM
from recstudy.models.vitrm import ViTRM

__all__ = [
    "CNN",
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
