"""Data sets by name. Importing this loads neither torch nor any image."""

from recstudy.data.captions import CaptionFolder, CovCtr, MedPix, MmRetinal, PeirGross, PhantomCaptions, Roco, RocoV2
from recstudy.data.sets import Cifar10, Cifar100, Digits, ImageFolder, Mnist
from recstudy.data.xray import FINDINGS, ChestXray14, PhantomXray

__all__ = [
    "FINDINGS",
    "CaptionFolder",
    "ChestXray14",
    "Cifar10",
    "Cifar100",
    "CovCtr",
    "Digits",
    "ImageFolder",
    "MedPix",
    "MmRetinal",
    "Mnist",
    "PeirGross",
    "PhantomCaptions",
    "PhantomXray",
    "Roco",
    "RocoV2",
]
