"""Puzzles: a token in every cell of a grid. Label 0 says that a cell is not asked for; it counts neither as
right nor as wrong.

    L = mean over the cells that are asked for of CE(p, token)        (1)

What an answer is read from, and how often, stands in `solving.py`; more thinking at test in `at_test.py`.

Shapes: B puzzles, S cells, V tokens.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from recstudy.config import Augment, RunConfig
from recstudy.data.puzzles import Puzzles
from recstudy.metrics import TASKS
from recstudy.tasks.task import Labels, Task

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt
    from torch import Tensor

    from recstudy.data.batches import Batch
    from recstudy.data.cache import Split
    from recstudy.data.reader import Labels as Rows
    from recstudy.metrics import Answers
    from recstudy.models.networks.contract import Output

# answers that are held to the rules at a time: of Sudoku-Extreme's 423,000 at once the rows alone take 0.3 GB
PIECE = 2**15


@TASKS.add("grid")
class Grid(Task):
    """The token of each cell."""

    name: ClassVar[str] = "grid"
    labels: ClassVar[Labels] = Labels("uint8", ("cells",), least=0, below="classes")
    output: ClassVar[str] = "cells"
    score: ClassVar[str] = "exact_accuracy"
    takes: ClassVar[tuple[str, ...]] = ("puzzles", "ids")
    augments: ClassVar[str] = "puzzles: they have symmetries of their own (data.augmentations)"
    registered_loss: ClassVar[bool] = True
    evaluation: ClassVar[str] = "recstudy.tasks.solving"

    @classmethod
    def check(cls, config: RunConfig) -> None:
        """Refuse (ValueError) augmentations, and more thinking at test than the model and the data allow."""
        at_test = config.train.at_test
        if config.train.augment != Augment():
            raise ValueError(f"train.augment must be off for {cls.augments}")
        if at_test.on and not config.model.halts:
            raise ValueError(
                f"train.at_test must be off for {config.model.title}, which has no halting head to choose by"
            )
        if at_test.copies > 1 and not getattr(config.data, "draws", 0):
            raise ValueError(
                f"train.at_test.copies must be 0 for {config.data.title}, whose symmetries nobody knows"
            )

    def loss(self, output: "Output", batch: "Batch") -> "Tensor":
        """Equation (1) in nats a cell."""
        from recstudy.train.losses import loss_of, token_loss

        return token_loss(output.logits.float(), batch.labels, loss_of(self.config.train), batch.smoothing)

    def right(self, output: "Output", batch: "Batch") -> "Tensor":
        """Return whether every cell that is asked for is; of a model that learns to halt by shares, the share
        that is.
        """
        from recstudy.train.losses import token_share

        return token_share(output.logits, batch.labels, exact=self.config.model.exact_halt)

    def kept(self, output: "Output", batch: "Batch") -> "dict[str, Tensor]":
        return {"cells": output.logits.argmax(-1).byte()}

    @staticmethod
    def context(labels: "Tensor", groups: "Tensor | None", ids: "Tensor | None") -> "Tensor | None":
        """Return which puzzle it is, where the data number them."""
        return ids

    def answers(self, kept: "Mapping[str, npt.NDArray[Any]]", rows: "Rows", split: "Split") -> "Answers":
        """Return the answers, and which of them break no rule, where the data know the rules."""
        import numpy as np

        data, told, verdicts = self.config.data, super().answers(kept, rows, split), []
        assert isinstance(data, Puzzles)
        for start in range(0, len(rows), PIECE):
            cells = told.cells[start : start + PIECE]
            verdicts.append(
                data.check_answers(
                    np.asarray(split.images[rows[start : start + PIECE]]).reshape(cells.shape), cells
                )
            )
        known = [one for one in verdicts if one is not None]
        return replace(told, labels=np.asarray(told.labels), lawful=np.concatenate(known) if known else None)
