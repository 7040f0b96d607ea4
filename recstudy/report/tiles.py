"""Images in figures, as tiles with words under each, and in pages."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from recstudy.lazy import go
from recstudy.report.kept import Pixels
from recstudy.report.look import folded

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 128  # pixels of a tile's image
WIDTH = 460  # pixels of all tiles in a row
# Parts of the width: a panel's title, a line of words (13 pixels on a screen 390 pixels wide), an image's part of its tile, and
# the space under it.
TITLE, LINE, FILLED, SPACE = 0.11, 0.039, 0.92, 0.012
LETTERS = 34  # of a line of a title
SMALL, LARGEST = 64, 256  # pixels: up to here an image is a PNG, which is exact; and of an image in a page
PICTURE = Markup('<img{} src="{}" width="{}" height="{}" alt="{}" loading="lazy">')


class Tiles(NamedTuple):
    """A panel of images, with markup above all, under each, and under the pointer."""

    title: str
    images: Sequence[Image]
    words: Sequence[str]
    hover: Sequence[str]
    across: int  # images in a row


def tile_figure(panels: Sequence[Tiles]) -> go.Figure:
    """Return a figure of panels under each other. The width of a row is the unit of both axes."""
    images, words, titles, top = [], [], [], 0.0
    for panel in panels:
        top += TITLE
        titles.append({"text": f"<b>{folded(panel.title, LETTERS)}</b>", "y": top})
        side, lines = 1 / panel.across, max(text.count("<br>") + 1 for text in panel.words)
        height = side + LINE * lines
        for position, (image, text, hover) in enumerate(zip(panel.images, panel.words, panel.hover, strict=True)):
            row, column = divmod(position, panel.across)
            x, y = column * side, top + row * height
            size = dict.fromkeys(("sizex", "sizey"), FILLED * side)
            images.append({"source": picture_uri(image), "x": x, "y": y, "xref": "x", "yref": "y", **size})
            words.append((x + FILLED * side / 2, y + FILLED * side + SPACE, text, hover))
        top = y + height
    figure = go.Figure(layout={"images": images, "height": WIDTH * top, "margin": dict.fromkeys("tlrb", 10), "hoverdistance": -1})
    x_values, y_values, texts, hovers = zip(*words, strict=True)
    look: dict[str, Any] = {"mode": "text", "textposition": "bottom center", "textfont": {"size": 10}, "cliponaxis": False}
    figure.add_scatter(x=x_values, y=y_values, text=texts, hovertext=hovers, hoverinfo="text", **look)
    for title in titles:
        figure.add_annotation(**title, x=0, xanchor="left", yanchor="bottom", align="left", showarrow=False, font_size=13)
    figure.update_xaxes(visible=False, range=[0, 1], constrain="domain", constraintoward="left")
    return figure.update_yaxes(visible=False, range=[top, 0], constrain="domain", constraintoward="top", scaleanchor="x")


def image_of(pixels: Pixels) -> Image:
    """Return pixels (height, width, channels) of 0-255, with 1 or 3 channels, as an image."""
    from PIL import Image

    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def tile(pixels: Pixels) -> Image:
    """Return an image for a tile; each pixel of a small one is a square."""
    from PIL import Image

    image, times = image_of(pixels), max(1, SIDE // max(pixels.shape))
    image = image.resize((times * image.width, times * image.height), Image.Resampling.NEAREST)
    image.thumbnail((SIDE, SIDE))
    return image


def picture_uri(image: Image) -> str:
    """Return an image as text for a page: a small one as PNG, another as WebP."""
    kind, file = "png" if max(image.size) <= SMALL else "webp", io.BytesIO()
    image.save(file, format=kind, quality=90)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"


def picture(pixels: Pixels | None, words: str) -> Markup:
    """Return an image of a page, or a line that says there is none."""
    if pixels is None:
        return Markup('<p class="note">no image kept</p>')
    image = image_of(pixels)
    sharp, size = Markup(' class="sharp"' if max(image.size) <= SMALL else ""), image.size
    image.thumbnail((LARGEST, LARGEST))
    return PICTURE.format(sharp, picture_uri(image), *size, words)
