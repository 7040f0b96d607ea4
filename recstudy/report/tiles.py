"""Images as tiles of one picture, sharp, with words under each; and pictures that are part of a page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from recstudy.lazy import go
from recstudy.report.kept import Pixels
from recstudy.report.look import folded

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE = 128  # pixels of a tile in the picture
GAP = 0.09  # of a tile, beside it
LINE = 0.043  # of a tile, times the tiles in a row: a line of words, at least 13 pixels on a screen 390 pixels wide
WIDTH = 460  # pixels of the picture in a figure
TITLE, LETTERS = 40, 34  # pixels above a panel, and letters of its title in a line
SMALL = 64  # pixels: up to here an image is a PNG, which is exact


class Tiles(NamedTuple):
    """A panel of images, with markup above all, under each, and under the pointer."""

    title: str
    images: Sequence[Image]
    words: Sequence[str]
    hover: Sequence[str]
    across: int  # images in a row
    side: int = SIDE  # pixels of a tile in the picture

    def places(self) -> list[tuple[int, int]]:
        """Return the left and the upper end of each tile in the picture, and of one in the row after the last."""
        lines, rows = max(text.count("<br>") + 1 for text in self.words), -(-len(self.images) // self.across)
        wide, high = (round(self.side * (1 + GAP + under)) for under in (0, LINE * self.across * lines))
        positions = [*range(len(self.images)), rows * self.across]
        return [(position % self.across * wide, position // self.across * high) for position in positions]

    def picture(self) -> Image:
        """Return all tiles as one picture, transparent between them; small images stay sharp."""
        from PIL import Image, ImageOps

        *places, (_, height) = self.places()
        picture = Image.new("RGBA", (self.across * round(self.side * (1 + GAP)), height))
        for image, place in zip(self.images, places, strict=True):
            method = Image.Resampling.NEAREST if max(image.size) <= self.side else Image.Resampling.LANCZOS
            picture.paste(ImageOps.pad(image.convert("RGBA"), (self.side, self.side), method, color=(0, 0, 0, 0)), place)
        return picture


def tile_figure(panels: Sequence[Tiles], *rows: tuple[str, float]) -> go.Figure:
    """Return a figure of panels under each other, each below its title, and empty rows below them, of this title and height."""
    from plotly.subplots import make_subplots

    pictures = [panel.picture() for panel in panels]
    heights = [WIDTH * picture.height / picture.width for picture in pictures] + [height for _, height in rows]
    titles = [f"<b>{folded(title, LETTERS)}</b>" for title in [*(panel.title for panel in panels), *dict(rows)]]
    height = sum(heights) + TITLE * (len(heights) - 1)
    layout: dict[str, Any] = {"rows": len(heights), "row_heights": heights, "vertical_spacing": TITLE / height}
    figure = make_subplots(**layout, subplot_titles=titles)
    figure.update_annotations(x=0, xanchor="left", align="left", font_size=13)
    figure.update_layout(height=height + TITLE + 20, margin={"t": TITLE, "l": 10, "r": 10, "b": 20}, hoverdistance=-1)
    look: dict[str, Any] = {"mode": "text", "textposition": "bottom center", "textfont": {"size": 10}, "cliponaxis": False}
    for row, (panel, picture) in enumerate(zip(panels, pictures, strict=True), 1):
        figure.add_image(source=picture_uri(picture), zsmooth="fast", hoverinfo="skip", row=row, col=1)
        middle, under = 0.5 * panel.side, (1 + GAP / 2) * panel.side
        x, y = zip(*((left + middle, top + under) for left, top in panel.places()[:-1]), strict=True)
        words = {"text": panel.words, "hovertext": panel.hover, "hoverinfo": "text", "showlegend": False}
        figure.add_scatter(x=x, y=y, **words, **look, row=row, col=1)
        figure.update_xaxes(visible=False, range=[0, picture.width], constraintoward="left", row=row)
        figure.update_yaxes(visible=False, range=[picture.height, 0], constraintoward="top", row=row)
    return figure


def image_of(pixels: Pixels) -> Image:
    """Return pixels (height, width, channels) of 0-255, with 1 or 3 channels, as an image."""
    from PIL import Image

    return Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)


def picture_uri(picture: Image) -> str:
    """Return the picture as text for a page: a small one as PNG, another as WebP."""
    kind, file = "png" if max(picture.size) <= SMALL else "webp", io.BytesIO()
    picture.save(file, format=kind, quality=90)
    return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode('ascii')}"
