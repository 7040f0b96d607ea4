"""What a model gets wrong, as in Figures 2 and 4 of 004: test images with their true (T) and predicted (P) class."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from recstudy.lazy import go, pd
from recstudy.records import Json
from recstudy.report.kept import pictures, read_archive, read_runs
from recstudy.report.look import clipped
from recstudy.report.names import plural
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import Tiles, tile, tile_figure
from recstudy.report.variants import run_columns

COLUMNS = ["variant", "label", "seed", "row", "true", "predicted", "synthetic"]
LETTERS = 10  # of a class under a tile
SHORT = 3  # letters of classes of which ten have room side by side


@PARTS.add("mistakes")
class Mistakes(FigurePart, OfVariants):
    """Test images that a model misclassified, with their true and their predicted class: one seed of a variant."""

    name: str = "mistakes"
    most: int = Field(default=25, ge=1)  # images of a variant; a run keeps 36
    default_title: ClassVar[str] = "Misclassified test images"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per image, of the first finished seed of each of the best variants."""
        runs, notes = read_runs(records, self.where, "mistakes.npz", partial(read_mistakes, most=self.most))
        rows = [{**run_columns(records, run), **image} for run, images in runs for image in images]
        data = pd.DataFrame(rows, columns=[*COLUMNS, "_image"])
        data.attrs["notes"] = [*notes, *(f"{run.label}: no test image is misclassified" for run, images in runs if not images)]
        return data

    def caption(self, data: pd.DataFrame) -> str:
        images = plural(int(data["variant"].value_counts().max()), "misclassified image")
        order = "in the order of the test set, of each variant's first finished seed"
        return f"T: true class, P: predicted class. The first {images} {order}."

    def describe(self, data: pd.DataFrame) -> str:
        answers = "T " + data["true"] + ", P " + data["predicted"]
        return " ".join(f"{label}: {', '.join(part)}." for label, part in answers.groupby(data["label"], sort=False))

    def draw(self, data: pd.DataFrame) -> go.Figure:
        longest = max(map(len, [*data["true"], *data["predicted"]]))
        panels = []
        for (_, label), part in data.groupby(["variant", "label"], sort=False):
            images = part.to_dict("records")
            words = [f"T {_short(image['true'])}<br>P {_short(image['predicted'])}" for image in images]
            hover = ["T {true}, P {predicted}, test image {row}, seed {seed}".format_map(image) for image in images]
            panels.append(Tiles(str(label), list(map(tile, part["_image"])), words, hover, 10 if longest <= SHORT else 5))
        return tile_figure(panels)


def read_mistakes(path: Path, most: int) -> list[Json]:
    """Read the first images of a run's `mistakes.npz` with their `row`, `true` and `predicted` class.

    Raises:
        StorageError: The file is damaged. The message names it.
    """

    def mistakes(archive: Mapping[str, Any]) -> list[Json]:
        rows, labels, predicted, images = (archive[key][:most] for key in ("rows", "labels", "predicted", "images"))
        names = {label: " ".join(str(name).split()) for label, name in enumerate(archive["names"])}
        classes = ([names[label] for label in column] for column in (labels, predicted))
        columns = zip(rows, *classes, pictures(images, rows, labels, predicted), strict=True)
        return [{"row": row, "true": true, "predicted": answer, "_image": image} for row, true, answer, image in columns]

    return read_archive(path, mistakes)


def _short(name: str) -> str:
    return clipped(name.replace("_", " "), LETTERS)
