"""A toy puzzle: a grid of 2x3 tokens, and the same read from right to left; the cell at the upper left is not
asked for.
"""

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch

from recstudy.recursive import DATASETS, TRM, Arrays, Reader
from recstudy.recursive.data.puzzles import Puzzles

SMALL = {"tokens": "cell", "width": 16, "heads": 2}
TINY = TRM(**SMALL, layers=1, cycles=1, latent_steps=1, prefix=2, mixing="mlp")
SIZES = (120, 40)  # training and test puzzles


@DATASETS.add("mirrored")
class Mirrored(Puzzles):
    synthetic: ClassVar[bool] = True
    title: ClassVar[str] = "Mirrored grids (synthetic)"
    shape: ClassVar = (1, 2, 3)
    classes: ClassVar[int] = 5
    draws: ClassVar[int] = 1
    train_size: ClassVar[int | None] = SIZES[0]

    name: Literal["mirrored"] = "mirrored"

    def symmetry(self, draws):
        """Half of them with the rows exchanged."""
        source = torch.where(draws < 0.5, torch.tensor([3, 4, 5, 0, 1, 2]), torch.arange(6))
        return source, torch.arange(5).expand(len(draws), -1)

    def check_answers(self, puzzles, answers):
        return (
            (answers.reshape(-1, 2, 3)[:, 1] == puzzles.reshape(-1, 2, 3)[:, 1, ::-1]).all(1).astype(np.int64)
        )

    def reader(self):
        return MirroredReader(self)


class MirroredReader(Reader):
    def sources(self, folder: Path):
        return ()

    def program(self):
        return ("mirrored", 1)

    def decode(self, folder: Path) -> Arrays:
        draws, parts = np.random.default_rng(0), []
        for count in SIZES:
            grids = draws.integers(1, 5, (count, 1, 2, 3)).astype(np.uint8)
            answers = grids[:, 0, :, ::-1].reshape(count, -1).copy()
            answers[:, 0] = 0
            parts += [grids, answers]
        return Arrays(*parts)
