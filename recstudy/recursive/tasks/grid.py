"""The task of puzzles: a token in every cell of a grid. A cell with label 0 is not scored.

    L = mean over the scored cells of CE(p, token)        (1)

`solving.py` evaluates a network on puzzles. `at_test.py` adds more computation at test.

Shapes: B puzzles, S cells, V tokens.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from recstudy.base.lazy import np
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS, Labels
from recstudy.recursive.config.train import Augment
from recstudy.recursive.data.puzzles import Puzzles
from recstudy.recursive.tasks import TokenTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt
    from torch import Tensor

    from recstudy.recursive.config.answers import Answers
    from recstudy.recursive.config.reader import Labels as Rows
    from recstudy.recursive.data.batches import Batch
    from recstudy.recursive.data.cache import Split
    from recstudy.recursive.models.networks.contract import Output

# Answers that are checked against the rules at a time. The rows of all 423,000 puzzles of Sudoku-Extreme at
# once take 0.3 GB.
PIECE = 2**15


@TASKS.add("grid")
class Grid(TokenTask):
    """The token of each cell."""

    name = "grid"
    labels = Labels("uint8", ("cells",), least=0, below="classes")
    output = "cells"
    score = "exact_accuracy"
    takes = ("puzzles", "ids")
    augments = "puzzles: they have symmetries of their own (data.augmentations)"
    evaluation = "recstudy.recursive.tasks.solving"

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Check that augmentation is off, and that the model and the data allow `train.at_test`.

        Raises:
            ValueError: A setting is not possible for puzzles.
        """
        at_test = config.train.at_test
        if config.train.augment != Augment():
            raise ValueError(f"train.augment must be off for {cls.augments}")
        if at_test.on and not config.model.halts:
            raise ValueError(
                f"train.at_test must be off for {config.model.title}, which has no halting head to choose by"
            )
        if at_test.copies > 1 and not getattr(config.data, "draws", 0):
            raise ValueError(
                f"train.at_test.copies must be 0 for {config.data.title}, whose symmetries are not defined"
            )

    def kept(self, output: "Output", batch: "Batch") -> "dict[str, Tensor]":
        return {"cells": output.logits.argmax(-1).byte()}

    @staticmethod
    def context(labels: "Tensor", groups: "Tensor | None", ids: "Tensor | None") -> "Tensor | None":
        """Return the identifier of each puzzle, if the data have identifiers."""
        return ids

    def answers(self, arrays: "Mapping[str, npt.NDArray[Any]]", rows: "Rows", split: "Split") -> "Answers":
        """Return the answers, and whether each breaks no rule of the puzzle, if the data define rules."""
        data = self.config.data
        answers = super().answers(arrays, rows, split)
        verdicts = []
        assert isinstance(data, Puzzles)
        for start in range(0, len(rows), PIECE):
            cells = answers.cells[start : start + PIECE]
            puzzles = np.asarray(split.images[rows[start : start + PIECE]]).reshape(cells.shape)
            verdicts.append(data.check_answers(puzzles, cells))
        # A data set without rules returns None.
        known_verdicts = [verdict for verdict in verdicts if verdict is not None]
        return replace(answers, lawful=np.concatenate(known_verdicts) if known_verdicts else None)
