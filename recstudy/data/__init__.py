"""Data sets by name: the configs and readers that a study's settings refer to.

Importing this package loads neither torch nor any image.
"""

from recstudy.config import AUGMENTATIONS, DATASETS, DataConfig
from recstudy.data import augment  # noqa: F401  it fills the registry of augmentations
from recstudy.data.arc_agi import ArcAgi
from recstudy.data.caption_sets import CovCtr, MedPix, MmRetinal, PeirGross, PhantomCaptions, Roco, RocoV2
from recstudy.data.captions import Captioned, CaptionFiles, CaptionFolder, CaptionReader, CaptionRow
from recstudy.data.chest_xray14 import FINDINGS, ChestXray14
from recstudy.data.dominoes import Dominoes
from recstudy.data.images import ImageFolder
from recstudy.data.maze import Maze
from recstudy.data.phantom_xray import PhantomXray
from recstudy.data.puzzle_files import MazeHard, PuzzleFolder, SudokuExtreme
from recstudy.data.reader import Arrays, Reader
from recstudy.data.small_images import Cifar10, Cifar100, Digits, Mnist
from recstudy.data.sudoku import Sudoku

__all__ = [
    "AUGMENTATIONS",
    "DATASETS",
    "FINDINGS",
    "ArcAgi",
    "Arrays",
    "CaptionFiles",
    "CaptionFolder",
    "CaptionReader",
    "CaptionRow",
    "Captioned",
    "ChestXray14",
    "Cifar10",
    "Cifar100",
    "CovCtr",
    "DataConfig",
    "Digits",
    "Dominoes",
    "ImageFolder",
    "Maze",
    "MazeHard",
    "MedPix",
    "MmRetinal",
    "Mnist",
    "PeirGross",
    "PhantomCaptions",
    "PhantomXray",
    "PuzzleFolder",
    "Reader",
    "Roco",
    "RocoV2",
    "Sudoku",
    "SudokuExtreme",
]
