"""Images as labelled tiles in figures, and as elements of pages.

`Mistakes` shows misclassified test images, as in Figures 2 and 4 of 004.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from recstudy.base.lazy import go, pd
from recstudy.base.opened import arrays
from recstudy.records import Json
from recstudy.recursive.config.parts import Count
from recstudy.recursive.figures.examples import read_examples, to_images
from recstudy.report.look import clipped, folded
from recstudy.report.names import plural
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 128  # pixels of a tile's image
WIDTH = 460  # pixels of a row of tiles; page.js scales a figure down on narrower pages
# The height of a panel's title and of a line of words, as shares of the width; an image's share of its tile.
TITLE, LINE, FILLED = 0.11, 0.039, 0.92
LETTERS = 34  # characters of a line of a title
TITLE_LOOK = {"x": 0, "xanchor": "left", "yanchor": "bottom", "align": "left", "font_size": 13}
# Images of at most SMALL pixels are written as PNG, which is lossless. A page shows at most LARGEST pixels.
SMALL, LARGEST = 64, 256
PICTURE = Markup('<img{} src="{}" width="{}" height="{}" alt="{}" loading="lazy">')


class Tiles(NamedTuple):
    """A panel of images with a title, words below each image, and tooltips."""

    title: str
    images: Sequence[Image]
    words: Sequence[str]
    hover: Sequence[str]
    columns: int  # images in a row


def tile_figure(panels: Sequence[Tiles]) -> go.Figure:
    """Return a figure of panels below each other. The unit of both axes is the width of a row."""
    figure, y = go.Figure(layout={"margin": dict.fromkeys("tlrb", 10), "meta": {"width": WIDTH}}), 0.0
    for panel in panels:
        y += TITLE
        figure.add_annotation(
            text=f"<b>{folded(panel.title, LETTERS)}</b>", y=y, showarrow=False, **TITLE_LOOK
        )
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
    """Return an image in the size of a tile. The pixels of a small image become squares."""
    from PIL import Image

    times = max(1, SIDE // max(image.size))
    image = image.resize((times * image.width, times * image.height), Image.Resampling.NEAREST)
    image.thumbnail((SIDE, SIDE))
    return image


def picture_uri(image: Image) -> str:
    """Return an image as a data URI: PNG for a small image, else WebP."""
    kind, file = "png" if max(image.size) <= SMALL else "webp", io.BytesIO()
    image.save(file, format=kind, quality=90)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def picture(image: Image | None, words: str) -> Markup:
    """Return an image element for a page, or a note that no image was saved."""
    if image is None:
        return Markup('<p class="note">no image was saved</p>')
    sharp, small = Markup(' class="sharp"' if max(image.size) <= SMALL else ""), image.copy()
    small.thumbnail((LARGEST, LARGEST))
    return PICTURE.format(sharp, picture_uri(small), *image.size, words)


MISTAKES = ["variant", "label", "seed", "row", "true", "predicted", "synthetic", "_image"]
CLASS_LETTERS = 10  # characters of a class name below a tile
SHORT = 3  # if all class names are this short, a row has ten tiles


@PARTS.add("mistakes")
class Mistakes(FigurePart, OfVariants):
    """Misclassified test images of one seed per variant, with the true and the predicted class."""

    run_file = "mistakes.npz"
    name: str = "mistakes"
    most: Count = 25  # images of a variant; a run saves 36
    default_title = "Misclassified test images"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per image of the best variants' first finished seeds."""
        data, notes = read_examples(records, self, self._read)
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
        answers = "true " + data["true"] + ", predicted " + data["predicted"]
        hover = "test image " + data["row"].astype(str) + ": " + answers
        columns = 10 if classes.map(len).le(SHORT).all(axis=None) else 5
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
