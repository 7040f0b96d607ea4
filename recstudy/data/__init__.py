"""Data sets by name. Importing this loads neither torch nor any image."""

from recstudy.data.sets import Cifar10, Cifar100, Digits, ImageFolder, Mnist
from recstudy.data.xray import FINDINGS, ChestXray14, PhantomXray

__all__ = ["FINDINGS", "ChestXray14", "Cifar10", "Cifar100", "Digits", "ImageFolder", "Mnist", "PhantomXray"]
