"""The recursive models: HRM, TRM, ViTRM, ImageHRM, ImageTRM, MicarVLMoE, their baselines and data sets.

    from recstudy.recursive import Cifar10, RunConfig, TrainConfig, ViTRM

Importing this package fills the registries of families, data sets, tasks, metrics and figures. It loads
neither torch nor an image.
"""

from recstudy.programs.metric import METRICS, Metric, NotAvailable
from recstudy.recursive.config.answers import UNKNOWN, Answers
from recstudy.recursive.config.functions import LOSSES, OPTIMIZERS, SCHEDULES, OneOf
from recstudy.recursive.config.parts import DATASETS, FAMILIES, PAD, DataConfig, ModelConfig, Moments, Shape
from recstudy.recursive.config.reader import Arrays, Reader
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS, Labels
from recstudy.recursive.config.train import AUGMENTATIONS, AtTest, Augment, TrainConfig
from recstudy.recursive.data import augment  # noqa: F401  registers the augmentations
from recstudy.recursive.data.arc_agi import ArcAgi
from recstudy.recursive.data.caption_sets import (
    CovCtr,
    MedPix,
    MmRetinal,
    PeirGross,
    PhantomCaptions,
    Roco,
    RocoV2,
)
from recstudy.recursive.data.captions import CaptionFiles, CaptionFolder, CaptionReader, CaptionRow
from recstudy.recursive.data.chest_xray14 import FINDINGS, ChestXray14
from recstudy.recursive.data.dominoes import Dominoes
from recstudy.recursive.data.images import ImageFolder
from recstudy.recursive.data.maze import Maze
from recstudy.recursive.data.phantom_xray import PhantomXray
from recstudy.recursive.data.puzzle_files import MazeHard, PuzzleFolder, SudokuExtreme
from recstudy.recursive.data.small_images import Cifar10, Cifar100, Digits, Mnist
from recstudy.recursive.data.sudoku import Sudoku
from recstudy.recursive.data.text import Captioned
from recstudy.recursive.figures.captioner import AttentionMaps, ExpertLoad, ExpertPath, FeatureMaps
from recstudy.recursive.figures.captions import Alignment, Captions
from recstudy.recursive.figures.examples import answers_of
from recstudy.recursive.figures.thinking import Residuals, Thinking
from recstudy.recursive.figures.tiles import Mistakes
from recstudy.recursive.metrics import arc, classification, grids, quantities  # noqa: F401  registers the metrics
from recstudy.recursive.metrics.registry import Value, measured, metric
from recstudy.recursive.models.caption import FuseLIPBackboneConfig
from recstudy.recursive.models.classifiers import CNN, ViT
from recstudy.recursive.models.fuselip import FUSELIP_CC3M, FUSELIP_ON_BYTES, VQ, Aligner, FuseLIP
from recstudy.recursive.models.hrm import HRM, parameter_growth
from recstudy.recursive.models.hrm_image import HRMImage
from recstudy.recursive.models.image_hrm import ImageHRM, ImageTRM
from recstudy.recursive.models.lstm_captioners import ImageLSTM, ShowAttendTell, ShowTell
from recstudy.recursive.models.micar import MicarVLMoE
from recstudy.recursive.models.sequence import Transformer
from recstudy.recursive.models.torchvision_models import DenseNet, ResNet
from recstudy.recursive.models.transformer_captioners import CaptionTransformer, R2Gen
from recstudy.recursive.models.trm import TRM
from recstudy.recursive.models.vitrm import ViTRM
from recstudy.recursive.program import RECURSIVE_MODELS
from recstudy.recursive.tasks.captioning import Captioning, ImageCaptionPairs
from recstudy.recursive.tasks.classification import Classification, Findings
from recstudy.recursive.tasks.grid import Grid
from recstudy.recursive.train.task import Task

__all__ = [
    "AUGMENTATIONS",
    "CNN",
    "DATASETS",
    "FAMILIES",
    "FINDINGS",
    "FUSELIP_CC3M",
    "FUSELIP_ON_BYTES",
    "HRM",
    "LOSSES",
    "METRICS",
    "OPTIMIZERS",
    "PAD",
    "RECURSIVE_MODELS",
    "SCHEDULES",
    "TASKS",
    "TRM",
    "UNKNOWN",
    "VQ",
    "Aligner",
    "Alignment",
    "Answers",
    "ArcAgi",
    "Arrays",
    "AtTest",
    "AttentionMaps",
    "Augment",
    "CaptionFiles",
    "CaptionFolder",
    "CaptionReader",
    "CaptionRow",
    "CaptionTransformer",
    "Captioned",
    "Captioning",
    "Captions",
    "ChestXray14",
    "Cifar10",
    "Cifar100",
    "Classification",
    "CovCtr",
    "DataConfig",
    "DenseNet",
    "Digits",
    "Dominoes",
    "ExpertLoad",
    "ExpertPath",
    "FeatureMaps",
    "Findings",
    "FuseLIP",
    "FuseLIPBackboneConfig",
    "Grid",
    "HRMImage",
    "ImageCaptionPairs",
    "ImageFolder",
    "ImageHRM",
    "ImageLSTM",
    "ImageTRM",
    "Labels",
    "Maze",
    "MazeHard",
    "MedPix",
    "Metric",
    "MicarVLMoE",
    "Mistakes",
    "MmRetinal",
    "Mnist",
    "ModelConfig",
    "Moments",
    "NotAvailable",
    "OneOf",
    "PeirGross",
    "PhantomCaptions",
    "PhantomXray",
    "PuzzleFolder",
    "R2Gen",
    "Reader",
    "ResNet",
    "Residuals",
    "Roco",
    "RocoV2",
    "RunConfig",
    "Shape",
    "ShowAttendTell",
    "ShowTell",
    "Sudoku",
    "SudokuExtreme",
    "Task",
    "Thinking",
    "TrainConfig",
    "Transformer",
    "Value",
    "ViT",
    "ViTRM",
    "answers_of",
    "measured",
    "metric",
    "parameter_growth",
]
