"""Base classes of data sets of puzzles: a grid with a token in every cell, and its solution.

They have the common settings, apply symmetries, and draw one puzzle per group for an epoch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field, NonNegativeInt

from recstudy.base.errors import ConfigError
from recstudy.recursive.config.answers import Answers, Scores
from recstudy.recursive.config.parts import Count, DataConfig, Shape
from recstudy.recursive.config.reader import (
    Array,
    Arrays,
    DrawingReader,
    Labels,
    Tensor,
    counts_within,
    np,
    torch,
)


class Puzzles(DataConfig):
    """A set of puzzles. A grid is an image of one channel whose values are tokens.

    Token 0 is PAD and is never scored. Shapes: B puzzles, S cells (row by row), V tokens, D random numbers of
    a symmetry.
    """

    task: ClassVar = "grid"
    # With these moments, standardization leaves the tokens unchanged.
    moments: ClassVar = ((0.0,), (1 / 255,))

    augmentations: int | None = Field(None, ge=0)
    """symmetries of a training puzzle: null draws a new one each time the puzzle is shown; a number draws
    that many once per puzzle, in addition to the original; 0 uses none"""
    rounds: Count = 1
    """number of passes over the training puzzles per epoch"""

    @property
    def draws(self) -> int:
        """D: number of random numbers that define a symmetry; 0 without known symmetries."""
        return 0

    @property
    def showings(self) -> int:
        return self.rounds

    @property
    def symbols(self) -> tuple[str, ...]:
        """The text displayed for each token."""
        return self.class_names

    @property
    def spelled(self) -> tuple[str, ...]:
        """The allowed characters of each token from 1 on in a CSV file."""
        return ()

    @property
    def colours(self) -> tuple[str, ...]:
        """The colour displayed for each token as `#RRGGBB`; empty if symbols are displayed."""
        return ()

    @property
    def boxes(self) -> tuple[int, int]:
        """Rows and columns of the boxes displayed in a grid; (0, 0) without boxes."""
        return (0, 0)

    def symmetry(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Return the symmetry that random numbers define.

        Args:
            draws: (B, D) float64 from 0 to 1.

        Returns:
            The source cell of each cell, (B, S), and the new token of each token, (B, V).
        """
        raise ConfigError(f"the data set {self.name!r} has no symmetries. Define `symmetry` in its class")

    def transform(
        self, seed: int, images: Tensor, labels: Tensor, rows: Labels, turns: Labels
    ) -> tuple[Tensor, Tensor]:
        """Apply the symmetry of each puzzle's current turn. See `DataConfig.transform`.

        Args:
            seed: The run's random seed.
            images: (B, 1, rows, columns) puzzles.
            labels: (B, S) answers.
            rows: (B,) rows of the puzzles in their split.
            turns: (B,) how often each puzzle was shown before.
        """
        if not self.draws or self.augmentations == 0:
            return images, labels
        draws, is_original = symmetries(self, seed, rows, turns)
        inputs = images.flatten(1).long()
        new_inputs, new_labels = self.apply_symmetry(inputs, labels, torch.from_numpy(draws))
        keep_mask = torch.from_numpy(is_original).to(images.device)[:, None]
        return torch.where(keep_mask, inputs, new_inputs).to(images.dtype).view_as(images), torch.where(
            keep_mask, labels, new_labels
        )

    def apply_symmetry(self, inputs: Tensor, answers: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Apply symmetries to puzzles and their answers.

        Args:
            inputs: (B, S) tokens.
            answers: (B, S) tokens.
            draws: (B, D) random numbers of the symmetries.
        """
        source, becomes = self._symmetry(draws, inputs.device)
        pair_tokens = (
            torch.cat([inputs, answers], 1).long().gather(1, torch.cat([source, source + self.cells], 1))
        )
        new_inputs, new_answers = becomes.gather(1, pair_tokens).chunk(2, 1)
        return new_inputs.to(inputs.dtype), new_answers.to(answers.dtype)

    def undo_symmetry(self, answers: Tensor, draws: Tensor) -> Tensor:
        """Turn answers (B, S) to transformed puzzles back into answers to the original puzzles."""
        # The inverse of a permutation is its argsort.
        source, becomes = self._symmetry(draws, answers.device)
        return becomes.argsort(1).gather(1, answers.long()).gather(1, source.argsort(1)).to(answers.dtype)

    def _symmetry(self, draws: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return `symmetry` on a device."""
        # Apple's GPU has no float64, so symmetries are computed on the CPU there.
        draw_device = torch.device("cpu") if device.type == "mps" else device
        source, becomes = self.symmetry(draws.to(draw_device))
        return source.to(device), becomes.to(device)

    def check_answers(self, inputs: Array, answers: Array) -> Labels | None:
        """Check answers against the rules of the puzzle.

        Args:
            inputs: (B, S) tokens.
            answers: (B, S) tokens.

        Returns:
            (B,) 1 if the answer keeps the given cells and breaks no rule, else 0. None without known rules.
        """
        return None

    def count_solutions(self, inputs: Array) -> int | None:
        """Count the solutions of a puzzle of tokens (S,): 0, 1, or 2 for several; None if not implemented."""
        return None

    def verdict(
        self, answers: Answers, halt: Array, ids: Labels | None, names: Sequence[str] | None
    ) -> tuple[Scores, dict[str, Any]]:
        """Compute metrics of the test puzzles that only this set has.

        Args:
            answers: Answers to N puzzles.
            halt: (N,) confidence of the model: the logit of its halting head, 0 without one.
            ids: (N,) id of each puzzle; None for sets without ids.
            names: Name of every id; None if ids have no names.

        Returns:
            The metrics by name, and the JSON content of files to keep, by file name.
        """
        return {}, {}


class GeneratedPuzzles(Puzzles):
    """Base class of generated square puzzles."""

    synthetic: ClassVar = True

    side: int
    puzzles: int = Field(1000, ge=16)
    """number of training puzzles, including validation puzzles"""
    test_puzzles: int = Field(500, ge=16)
    """number of test puzzles"""
    drawing_seed: NonNegativeInt = 0
    """random seed of the puzzles and, for Sudokus, of the classes in the test split"""

    @property
    def title(self) -> str:
        return f"{type(self).__name__} {self.side}x{self.side} (synthetic)"

    @property
    def shape(self) -> Shape:
        return (1, self.side, self.side)

    @property
    def train_size(self) -> int:
        return self.puzzles

    @property
    def test_size(self) -> int:
        return self.test_puzzles

    @abstractmethod
    def generate(self) -> Arrays:
        """Generate the puzzles and solutions of both splits."""

    def reader(self) -> DrawingReader:
        ignores = frozenset(Puzzles.model_fields)
        return DrawingReader(self, lambda folder: self.generate(), self.name, 1, ignores=ignores)


def numbers(seed: int, rows: Labels, turns: Labels, count: int) -> Array:
    """Return random numbers (B, count) float64 from 0 to 1 that depend only on seed, row and turn.

    They do not depend on the batch, so every puzzle has the same symmetry whatever the number of workers.
    """
    # splitmix64 (Steele, Lea and Flood 2014) of the three.
    keys = _mixed(_mixed(np.uint64(seed) + rows.astype(np.uint64)) + turns.astype(np.uint64))
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (_mixed(keys[:, None] + steps) >> np.uint64(11)) * 2.0**-53


def _mixed(x: Any) -> Any:
    with np.errstate(over="ignore"):  # arithmetic is modulo 2^64
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def symmetries(config: Puzzles, seed: int, rows: Labels, turns: Labels) -> tuple[Array, Array]:
    """Choose the symmetry of each puzzle's current turn.

    Args:
        config: Its `augmentations` is the number of symmetries per puzzle.
        seed: The run's random seed.
        rows: (B,) rows of the puzzles.
        turns: (B,) how often each puzzle was shown before.

    Returns:
        The random numbers (B, D) of the symmetries, and (B,) whether the puzzle is shown unchanged.
    """
    if config.augmentations is None:
        return numbers(seed, rows, turns, config.draws), np.zeros(len(rows), bool)
    symmetry_numbers = (numbers(seed, rows, turns, 1)[:, 0] * (config.augmentations + 1)).astype(np.int64)
    # The fixed symmetries of a puzzle depend on `split_seed`, so they are the same for every seed of a study.
    return numbers(config.split_seed, rows, symmetry_numbers, config.draws), symmetry_numbers == 0


class Groups:
    """Index of examples by puzzle and group, which draws one puzzle of each group.

    Drawing does not look at all examples, because an epoch may use a thousand examples of a million.

    Args:
        groups: (N,) group of each example.
        puzzles: (N,) puzzle of each example. A puzzle is in one group.
    """

    def __init__(self, groups: Labels, puzzles: Labels) -> None:
        self.order = np.lexsort((puzzles, groups))
        _, first, size = np.unique(puzzles[self.order], return_index=True, return_counts=True)
        by_place = np.argsort(first)
        self.first, self.size = first[by_place], size[by_place]
        _, self.starts, self.count = np.unique(
            groups[self.order][self.first], return_index=True, return_counts=True
        )

    @property
    def examples(self) -> int:
        """The mean number of examples in a draw of one puzzle per group."""
        return round(len(self.order) / len(self.first) * len(self.starts))

    def one_of_each(self, draws: Any) -> Labels:
        """Draw one puzzle of each group, with the groups in random order.

        Args:
            draws: A NumPy Generator.

        Returns:
            The rows of all examples of the chosen puzzles.
        """
        chosen = self.starts + (draws.random(len(self.starts)) * self.count).astype(np.int64)
        chosen = chosen[draws.permutation(len(chosen))]
        lengths = self.size[chosen]
        return self.order[np.repeat(self.first[chosen], lengths) + counts_within(lengths)]
