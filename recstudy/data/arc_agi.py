"""ARC-AGI: tasks of a few pairs of coloured grids each, whose rule is to be found and applied to a test input."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from recstudy.config import DATASETS, Shape
from recstudy.data.decoded import Decoded
from recstudy.data.puzzles import Puzzles
from recstudy.data.reader import Reader

if TYPE_CHECKING:
    from recstudy.data.images import Labels
    from recstudy.metrics.answers import Answers, Floats

LARGEST = 30
EXAMPLES = {1: 3081, 2: 4666}  # that train, by version
CONCEPT = 907  # those of ConceptARC
SETS = {1: ("training", "evaluation"), 2: ("training2", "evaluation2")}


@DATASETS.add("arc_agi")
class ArcAgi(Puzzles):
    """The public tasks of ARC-AGI-1 (400 that train, 400 for evaluation) or ARC-AGI-2 (1,000 and 120), by the protocol of HRM.

    Demonstration pairs of all tasks train, those of the evaluation tasks too, and the test pairs of the training tasks; the test
    pairs of the evaluation tasks test. A grid stands on a canvas: colour c is token c + 2, EOS (1) goes along its lower and right
    edge, PAD (0) fills the rest and is not asked for. A puzzle is a task under one augmentation, and has an id: as it is, and
    under `augmentations` others, drawn once: one of eight turns, and colours 1 to 9 exchanged. In training all pairs of a puzzle
    but one are moved on the canvas as well. Test pairs are answered under every augmentation, which votes (`metrics.arc`).

    An epoch shows each task's demonstration pairs under one augmentation, and its test pairs under one. Validation holds out the
    test pairs of the training tasks, under all of them. `model.identifiers` is at most 1 + tasks x (1 + augmentations). Of 1,000
    on 30x30, the decoded set takes 6.3 GB of disk, and 12 while it is made.
    """

    classes: ClassVar[int] = 12
    class_names: ClassVar[tuple[str, ...]] = ("PAD", "EOS", *"0123456789")
    symbols: ClassVar[tuple[str, ...]] = (" ", "|", *"0123456789")
    colours: ClassVar[tuple[str, ...]] = (
        "#FFFFFF", "#E6EAEE", "#000000", "#0074D9", "#FF4136", "#2ECC40", "#FFDC00", "#AAAAAA", "#F012BE", "#FF851B", "#7FDBFF",
        "#870C25",
    )  # fmt: skip

    name: Literal["arc_agi"] = "arc_agi"
    version: Literal[1, 2] = 1
    side: int = Field(LARGEST, ge=2, le=LARGEST, description="of the canvas; less than 30 leaves out tasks with a larger grid")
    augmentations: int = Field(1000, ge=0, le=10_000, description="of each task, fewer where it has no more")
    concept: bool = Field(False, description="train on the 160 tasks of ConceptARC too, as the code of HRM and TRM does")
    drawing_seed: int = Field(0, ge=0, description="draws the augmentations")
    path: str = Field("arc_agi", description="the folder of arc-agi_*.json, as Kaggle has them, below the data folder")

    @property
    def title(self) -> str:
        return f"ARC-AGI-{self.version}" + (f" (subset of grids up to {self.side}x{self.side})" if self.side < LARGEST else "")

    @property
    def shape(self) -> Shape:
        return (1, self.side, self.side)

    @property
    def train_size(self) -> int | None:
        """Of an epoch, which shows one puzzle of each task."""
        return EXAMPLES[self.version] + CONCEPT * self.concept if self.side == LARGEST else None

    @property
    def training_sets(self) -> tuple[str, ...]:
        return (*SETS[self.version], *(["concept"] if self.concept else []))

    @property
    def test_set(self) -> str:
        return SETS[self.version][1]

    def verdict(
        self, answers: "Answers", halt: "Floats", ids: "Labels | None", names: Sequence[str] | None
    ) -> tuple[dict[str, float], dict[str, Any]]:
        """pass@1, pass@2, and the attempts as Kaggle has them."""
        from recstudy.metrics.arc import ATTEMPTS, ballots, pass_at, submission

        assert ids is not None and names is not None, "its reader gives both"  # noqa: PT018
        found = ballots(answers, halt, ids, names)
        scores = {f"pass_at_{count}": pass_at(count, found) for count in range(1, ATTEMPTS + 1)}
        return scores, {"submission.json": submission(found)}

    def reader(self) -> "ArcAgiReader":
        return ArcAgiReader(self)


class ArcAgiReader(Reader):
    """Reads challenges and solutions."""

    config: ArcAgi
    ignores = frozenset({"name", "rounds"})

    def sources(self, folder: Path) -> Sequence[str]:
        kinds = ("challenges", "solutions")
        return [f"{self.config.path}/arc-agi_{name}_{kind}.json" for name in self.config.training_sets for kind in kinds]

    def decode(self, folder: Path) -> Decoded:
        from recstudy.data.arc_making import make_set

        return make_set(folder / self.config.path, self.config)
