"""Puzzles: a grid with a token in every cell, and the same grid solved. What their data sets share in what
can be set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from recstudy.config import DataConfig, Moments, Shape
from recstudy.data.reader import np, torch
from recstudy.errors import ConfigError

if TYPE_CHECKING:
    import numpy.typing as npt
    from torch import Tensor

    from recstudy.data.reader import Labels
    from recstudy.metrics.answers import Answers, Floats


class Puzzles(DataConfig):
    """A set of puzzles. A grid is an image of one channel whose values are tokens; token 0 is PAD, and is
    never asked for.

    Its shape is one channel, rows and columns. Shapes: B puzzles, S cells, row by row, V tokens, D numbers of
    a symmetry.
    """

    task: ClassVar[str] = "grid"
    moments: ClassVar[Moments | None] = ((0.0,), (1 / 255,))  # tokens stay what they are

    augmentations: int | None = Field(
        None,
        ge=0,
        description=(
            "symmetries under which a training puzzle is shown: by default another one each time; or itself"
            " and so many, drawn once a puzzle; 0 for none"
        ),
    )
    rounds: int = Field(1, ge=1, description="how often an epoch goes over the training puzzles")

    @property
    def draws(self) -> int:
        """D: how many numbers make one of the symmetries; 0 where none is known."""
        return 0

    @property
    def showings(self) -> int:
        return self.rounds

    @property
    def symbols(self) -> tuple[str, ...]:
        """Return what a person sees for each token."""
        return self.class_names

    @property
    def spelled(self) -> tuple[str, ...]:
        """The characters that may stand for each token from 1 on in a CSV file."""
        return ()

    @property
    def colours(self) -> tuple[str, ...]:
        """Return what a person sees for each token where that is no symbol but the cell's colour, as
        `#RRGGBB`; else none.
        """
        return ()

    @property
    def boxes(self) -> tuple[int, int]:
        """Rows and columns of the boxes that a person sees in a grid; (0, 0) where there are none."""
        return (0, 0)

    def symmetry(self, draws: Tensor) -> tuple[Tensor, Tensor]:
        """Return what numbers (B, D) float64 from 0 to 1 make of a puzzle: the cell that stands in each cell,
        (B, S), and what each token becomes, (B, V)."""
        raise ConfigError(f"the data set {self.name!r} states no symmetry")

    def transform(
        self, seed: int, images: Tensor, labels: Tensor, rows: Labels, turns: Labels
    ) -> tuple[Tensor, Tensor]:
        """Return puzzles (B, 1, rows, columns) and answers (B, S) under their symmetries."""
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
        """Return puzzles and their answers, tokens (B, S) each, under the symmetries of these draws."""
        source, becomes = self._symmetry(draws, inputs.device)
        pair_tokens = (
            torch.cat([inputs, answers], 1).long().gather(1, torch.cat([source, source + self.cells], 1))
        )
        new_inputs, new_answers = becomes.gather(1, pair_tokens).chunk(2, 1)
        return new_inputs.to(inputs.dtype), new_answers.to(answers.dtype)

    def undo_symmetry(self, answers: Tensor, draws: Tensor) -> Tensor:
        """Return answers (B, S) to puzzles under the symmetries of these draws, as answers to the puzzles as
        they were.
        """
        source, becomes = self._symmetry(draws, answers.device)
        return becomes.argsort(1).gather(1, answers.long()).gather(1, source.argsort(1)).to(answers.dtype)

    def _symmetry(self, draws: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return `symmetry` on a device: made there, or on the CPU for Apple's GPU, which has no float64."""
        draw_device = torch.device("cpu") if device.type == "mps" else device
        source, becomes = self.symmetry(draws.to(draw_device))
        return source.to(device), becomes.to(device)

    def check_answers(self, inputs: npt.NDArray[Any], answers: npt.NDArray[Any]) -> Labels | None:
        """Return (B,) 1 where an answer, tokens (B, S), keeps what is given and breaks no rule; None where no
        rules are known.
        """
        return None

    def count_solutions(self, inputs: npt.NDArray[Any]) -> int | None:
        """Return how many solutions a puzzle, tokens (S,), has: 0, 1, or 2 for several; None where nobody
        counts them.
        """
        return None

    def verdict(
        self, answers: Answers, halt: Floats, ids: Labels | None, names: Sequence[str] | None
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """Return metrics of the test puzzles that only this set has, and what is kept to look at, JSON by
        file.

        Args:
            answers: to N of them.
            halt: (N,) how sure the model is of each: the logit of its halting head, 0 where it has none.
            ids: (N,) of each; None for sets without such.
            names: of every id; None where they have none.
        """
        return {}, {}


class GeneratedPuzzles(Puzzles):
    """Square puzzles that a program generates."""

    synthetic: ClassVar[bool] = True

    side: int
    puzzles: int = Field(1000, ge=16, description="that train, those for validation among them")
    test_puzzles: int = Field(500, ge=16)
    drawing_seed: int = Field(0, ge=0, description="draws the puzzles, and of Sudokus the classes that test")

    @property
    def title(self) -> str:
        return f"{type(self).__name__} {self.side}x{self.side} (synthetic)"

    @property
    def shape(self) -> Shape:
        return (1, self.side, self.side)

    @property
    def train_size(self) -> int:
        return self.puzzles


def numbers(seed: int, rows: Labels, turns: Labels, count: int) -> npt.NDArray[Any]:
    """Return (B, count) float64 from 0 to 1 that follow from the seed, a puzzle's row and its turn alone.

    By splitmix64 (Steele, Lea and Flood 2014) over the three.
    """
    keys = _mixed(_mixed(np.uint64(seed) + rows.astype(np.uint64)) + turns.astype(np.uint64))
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray((_mixed(keys[:, None] + steps) >> np.uint64(11)) * 2.0**-53)


def _mixed(x: Any) -> Any:
    with np.errstate(over="ignore"):  # modulo 2^64 is meant
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def symmetries(
    config: Puzzles, seed: int, rows: Labels, turns: Labels
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the draws (B, D) of the symmetry under which each puzzle is shown, and whether it is shown as it
    is, (B,).

    Args:
        config: its `augmentations` say how many a puzzle has.
        seed: the run's.
        rows: (B,) which puzzles.
        turns: (B,) how often each was shown before.
    """
    if config.augmentations is None:
        return numbers(seed, rows, turns, config.draws), np.zeros(len(rows), bool)
    symmetry_numbers = (numbers(seed, rows, turns, 1)[:, 0] * (config.augmentations + 1)).astype(np.int64)
    # the same ones for every seed of a study
    return numbers(config.split_seed, rows, symmetry_numbers, config.draws), symmetry_numbers == 0


class Groups:
    """Draws one puzzle of each group at random: fast, because an epoch of a set of a million takes a
    thousand.

    Args:
        groups: (N,) of each example.
        puzzles: (N,) of each example; a puzzle is in one group.
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
        """Return the examples of one puzzle of each group, on average."""
        return round(len(self.order) / len(self.first) * len(self.starts))

    def one_of_each(self, draws: Any) -> Labels:
        """Return positions of one puzzle's examples of every group, in the groups' order of `draws`, a numpy
        Generator.
        """
        chosen = self.starts + (draws.random(len(self.starts)) * self.count).astype(np.int64)
        chosen = chosen[draws.permutation(len(chosen))]
        lengths = self.size[chosen]
        example_offsets = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.asarray(self.order[np.repeat(self.first[chosen], lengths) + example_offsets])
