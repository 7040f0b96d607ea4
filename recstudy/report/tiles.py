"""Images in figures, as tiles with words under each, and in pages."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from markupsafe import Markup

from recstudy.lazy import go
from recstudy.report.look import folded

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 128  # pixels of a tile's image
WIDTH = 460  # pixels of all tiles in a row; page.js makes a figure lower where the page has less
TITLE, LINE, FILLED = 0.11, 0.039, 0.92  # parts of the width: a panel's title, a line of words; and an image's part of its tile
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
        title = {"text": f"<b>{folded(panel.title, LETTERS)}</b>", "xanchor": "left", "align": "left", "font_size": 13}
        figure.add_annotation(x=0, y=y, yanchor="bottom", showarrow=False, **title)
        side = 1 / panel.columns
        height = side + LINE * max(words.count("<br>") + 1 for words in panel.words)
        for position, (image, words, hover) in enumerate(zip(panel.images, panel.words, panel.hover, strict=True)):
            row, column = divmod(position, panel.columns)
            x, size = column * side, FILLED * side
            top = y + row * height
            figure.add_layout_image(source=picture_uri(image), x=x, y=top, sizex=size, sizey=size, xref="x", yref="y")
            label = {"text": words, "hovertext": hover, "font_size": 10, "yanchor": "top", "yshift": -2}
            figure.add_annotation(x=x + size / 2, y=top + size, showarrow=False, **label)
        y = top + height
    figure.update_layout(height=WIDTH * y)
    figure.update_xaxes(visible=False, range=[0, 1], constrain="domain", constraintoward="left")
    return figure.update_yaxes(visible=False, range=[y, 0], constrain="domain", constraintoward="top", scaleanchor="x")


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
