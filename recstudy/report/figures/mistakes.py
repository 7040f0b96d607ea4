"""What a model gets wrong, as in Figures 2 and 4 of 004: test images with their true (T) and predicted (P) class."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from recstudy.lazy import go, pd
from recstudy.opened import arrays
from recstudy.records import Json
from recstudy.report.examples import read_examples, to_images
from recstudy.report.look import clipped
from recstudy.report.names import plural
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import Tiles, tile, tile_figure

COLUMNS = ["variant", "label", "seed", "row", "true", "predicted", "synthetic", "_image"]
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
        data, notes = read_examples(records, self.where, "mistakes.npz", partial(_read_mistakes, most=self.most))
        data = data.reindex(columns=COLUMNS)
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        images = plural(int(data["variant"].value_counts().max()), "misclassified image")
        order = "in the order of the test set, of each variant's first finished seed"
        return f"T: true class, P: predicted class. The first {images} {order}."

    def describe(self, data: pd.DataFrame) -> str:
        answers = "T " + data["true"] + ", P " + data["predicted"]
        return " ".join(f"{label}: {', '.join(part)}." for label, part in answers.groupby(data["label"], sort=False))

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw a panel for each variant."""
        classes = data[["true", "predicted"]]
        short = classes.map(lambda name: clipped(name.replace("_", " "), LETTERS))
        words = "T " + short["true"] + "<br>P " + short["predicted"]
        hover = "test image " + data["row"].astype(str) + ": true " + data["true"] + ", predicted " + data["predicted"]
        columns = 10 if bool(classes.map(len).le(SHORT).all(axis=None)) else 5
        tiles = pd.DataFrame({"image": data["_image"].map(tile), "words": words, "hover": hover})
        groups = tiles.groupby([data["variant"], data["label"]], sort=False)
        return tile_figure(
            [Tiles(str(label), [*group["image"]], [*group["words"]], [*group["hover"]], columns) for (_, label), group in groups]
        )


def _read_mistakes(path: Path, most: int) -> list[Json]:
    archive = arrays(path)
    rows, labels, predicted, images = (archive[key][:most] for key in ("rows", "labels", "predicted", "images"))
    names = [" ".join(str(name).split()) for name in archive["names"]]
    mistakes = zip(rows.tolist(), labels, predicted, to_images(images, rows), strict=True)
    return [
        {"row": row, "true": names[label], "predicted": names[answer], "_image": image} for row, label, answer, image in mistakes
    ]
