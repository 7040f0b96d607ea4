"""Data sets by name. Importing this loads neither torch nor any image."""

from recstudy.data.sets import Cifar10, Cifar100, Digits, ImageFolder, Mnist

__all__ = ["Cifar10", "Cifar100", "Digits", "ImageFolder", "Mnist"]
