"""Images in figures, as tiles with words under each, and in pages.

`Mistakes` shows the test images that a model gets wrong, as in Figures 2 and 4 of 004.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup
from pydantic import Field

from recstudy.lazy import go, pd
from recstudy.opened import arrays
from recstudy.records import Json
from recstudy.report.examples import read_examples, to_images
from recstudy.report.look import clipped, folded
from recstudy.report.names import plural
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 128  # pixels of a tile's image
WIDTH = 460  # pixels of all tiles in a row; page.js makes a figure lower where the page has less
# parts of the width: a panel's title, a line of words; and an image's part of its tile
TITLE, LINE, FILLED = 0.11, 0.039, 0.92
LETTERS = 34  # of a line of a title
SMALL, LARGEST = 64, 256  # pixels: up to here an image is a PNG, which is exact; and of an image in a page
PICTURE = Markup('<img{} src="{}" width="{}" height="{}" alt="{}" loading="lazy">')


class Tiles(NamedTuple):
    """A panel of images, with markup above all, under each, and under the pointer."""

    title: str
    images: Sequence[Image]
    words: Sequence[str]
    hover: Sequence[str]
    columns: int  # images in a row


def tile_figure(panels: Sequence[Tiles]) -> go.Figure:
    """Return a figure of panels under each other. The width of a row is the unit of both axes."""
    figure, y = go.Figure(layout={"margin": dict.fromkeys("tlrb", 10), "meta": {"width": WIDTH}}), 0.0
    for panel in panels:
        y += TITLE
        title = {
            "text": f"<b>{folded(panel.title, LETTERS)}</b>",
            "xanchor": "left",
            "align": "left",
            "font_size": 13,
        }
        figure.add_annotation(x=0, y=y, yanchor="bottom", showarrow=False, **title)
        side = 1 / panel.columns
        height = side + LINE * max(words.count("<br>") + 1 for words in panel.words)
        for position, (image, words, hover) in enumerate(
            zip(panel.images, panel.words, panel.hover, strict=True)
        ):
            row, column = divmod(position, panel.columns)
            x, size = column * side, FILLED * side
            top = y + row * height
            figure.add_layout_image(
                source=picture_uri(image), x=x, y=top, sizex=size, sizey=size, xref="x", yref="y"
            )
            label = {"text": words, "hovertext": hover, "font_size": 10, "yanchor": "top", "yshift": -2}
            figure.add_annotation(x=x + size / 2, y=top + size, showarrow=False, **label)
        y = top + height
    figure.update_layout(height=WIDTH * y)
    figure.update_xaxes(visible=False, range=[0, 1], constrain="domain", constraintoward="left")
    return figure.update_yaxes(
        visible=False, range=[y, 0], constrain="domain", constraintoward="top", scaleanchor="x"
    )


def tile(image: Image) -> Image:
    """Return an image for a tile; each pixel of a small one is a square."""
    from PIL import Image

    times = max(1, SIDE // max(image.size))
    image = image.resize((times * image.width, times * image.height), Image.Resampling.NEAREST)
    image.thumbnail((SIDE, SIDE))
    return image


def picture_uri(image: Image) -> str:
    """Return an image as text for a page: a small one as PNG, another as WebP."""
    kind, file = "png" if max(image.size) <= SMALL else "webp", io.BytesIO()
    image.save(file, format=kind, quality=90)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def picture(image: Image | None, words: str) -> Markup:
    """Return an image of a page, or a line that says there is none."""
    if image is None:
        return Markup('<p class="note">no image kept</p>')
    sharp, small = Markup(' class="sharp"' if max(image.size) <= SMALL else ""), image.copy()
    small.thumbnail((LARGEST, LARGEST))
    return PICTURE.format(sharp, picture_uri(small), *image.size, words)


MISTAKES = ["variant", "label", "seed", "row", "true", "predicted", "synthetic", "_image"]
CLASS_LETTERS = 10  # of a class under a tile
SHORT = 3  # letters of classes of which ten have room side by side


@PARTS.add("mistakes")
class Mistakes(FigurePart, OfVariants):
    """Test images that a model misclassified, with their true and their predicted class: one seed of a
    variant.
    """

    name: str = "mistakes"
    most: int = Field(default=25, ge=1)  # images of a variant; a run keeps 36
    default_title = "Misclassified test images"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per image, of the first finished seed of each of the best variants."""
        data, notes = read_examples(records, self.where, "mistakes.npz", self._read)
        data = data.reindex(columns=MISTAKES)
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        images = plural(int(data["variant"].value_counts().max()), "misclassified image")
        order = "in the order of the test set, of each variant's first finished seed"
        return f"T: true class, P: predicted class. The first {images} {order}."

    def describe(self, data: pd.DataFrame) -> str:
        answers = "T " + data["true"] + ", P " + data["predicted"]
        return " ".join(
            f"{label}: {', '.join(part)}." for label, part in answers.groupby(data["label"], sort=False)
        )

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw a panel for each variant."""
        classes = data[["true", "predicted"]]
        short = classes.map(lambda name: clipped(name.replace("_", " "), CLASS_LETTERS))
        words = "T " + short["true"] + "<br>P " + short["predicted"]
        hover = (
            "test image "
            + data["row"].astype(str)
            + ": true "
            + data["true"]
            + ", predicted "
            + data["predicted"]
        )
        columns = 10 if bool(classes.map(len).le(SHORT).all(axis=None)) else 5
        tiles = pd.DataFrame({"image": data["_image"].map(tile), "words": words, "hover": hover})
        groups = tiles.groupby([data["variant"], data["label"]], sort=False)
        return tile_figure(
            [
                Tiles(str(label), [*group["image"]], [*group["words"]], [*group["hover"]], columns)
                for (_, label), group in groups
            ]
        )

    def _read(self, path: Path) -> list[Json]:
        archive = arrays(path)
        rows, labels, predicted, images = (
            archive[key][: self.most] for key in ("rows", "labels", "predicted", "images")
        )
        names = [" ".join(str(name).split()) for name in archive["names"]]
        mistakes = zip(rows.tolist(), labels, predicted, to_images(images, rows), strict=True)
        return [
            {"row": row, "true": names[label], "predicted": names[answer], "_image": image}
            for row, label, answer, image in mistakes
        ]
