"""Small images as one picture: tiles of one size in rows, sharp, with room for words under each.

Images are (height, width, channels) of 0-255, with 1 or 3 channels; what is drawn has a fourth, opacity, so that the
spaces between tiles take the colour of any page.
"""

import base64
import io
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
from PIL import Image

from recstudy.analysis.figures.layout import axes_at, joined
from recstudy.analysis.figures.theme import scatter

Pixels = npt.NDArray[np.uint8]
TILE = 128  # about how many pixels a tile's side has: 4 for each of CIFAR's, 5 for MNIST's, 16 for the digits'
SMALL = 64  # pixels: up to here an image loses nothing in the page


def side_of(image: Pixels) -> int:
    """The side of a tile that holds the image with every pixel enlarged alike, or of one that it is shrunk to."""
    longest = max(image.shape[:2])
    return longest * round(TILE / longest) if longest < TILE else TILE


def tile(image: Pixels, side: int) -> Pixels:
    """The image in the middle of a square of `side`, opaque: every pixel enlarged as often as fits, or the whole shrunk."""
    height, width = image.shape[:2]
    times = side // max(height, width)
    if times:
        image = image.repeat(times, axis=0).repeat(times, axis=1)
    else:
        scale = side / max(height, width)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        image = np.asarray(Image.fromarray(_colour(image)).resize(size, Image.Resampling.LANCZOS))
    height, width = image.shape[:2]
    square = np.zeros((side, side, 4), dtype=np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    square[top : top + height, left : left + width, :3] = _colour(image)
    square[top : top + height, left : left + width, 3] = 255
    return square


def mosaic(images: Sequence[Pixels], columns: int, side: int, gap: int, words: int) -> Pixels:
    """Tiles row by row, each with `gap` on its right and `words` pixels under it."""
    rows = -(-len(images) // columns)
    picture = np.zeros((rows * (side + words), columns * (side + gap), 4), dtype=np.uint8)
    for at, image in enumerate(images):
        top, left = at // columns * (side + words), at % columns * (side + gap)
        picture[top : top + side, left : left + side] = tile(image, side)
    return picture


def image_grid(
    figure: go.Figure, panel: int, picture: Callable[[Pixels], str], images: Sequence[Pixels], columns: int, rows: int,
    side: int, spaces: tuple[float, float], hover: Sequence[str], words: Sequence[str],
) -> tuple[int, int]:  # fmt: skip
    """Draw tiles as one picture into the panel at this place, `words` under each, which is named under the pointer by `hover`.

    `spaces` are beside and under a tile, as shares of its side. Returns the width and the height of the picture's pixels.
    """
    gap, under = (round(share * side) for share in spaces)
    wide, high, axes = columns * (side + gap), rows * (side + under), axes_at(panel)
    joined(figure, panel, {"range": [-0.5, wide - 0.5]}, {"range": [high - 0.5, -0.5]})
    figure.add_image(source=picture(mosaic(images, columns, side, gap, under)), hoverinfo="skip", **axes)
    x = [at % columns * (side + gap) + side / 2 for at in range(len(images))]
    top = [at // columns * (side + under) for at in range(len(images))]
    middles, below = [y + side / 2 for y in top], [y + side + under / 2 for y in top]
    figure.add_scatter(**scatter(x, middles, hover, mode="markers", marker={"opacity": 0, "size": 40}), **axes)
    text = scatter(x, below, hover, mode="text", text=words, textfont={"size": 11}, cliponaxis=False)
    figure.add_scatter(**text, **axes)
    return wide, high


def data_uri(picture: Pixels) -> str:
    """The picture as a PNG that stands in the page itself."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def picture_uri(image: Pixels, most: int | None = None) -> str:
    """One image, its longest side `most` pixels at most: as it is in a PNG, or shrunk in a WebP of about 10 kB."""
    most = most or max(image.shape[:2])
    if max(image.shape[:2]) <= min(most, SMALL):
        return data_uri(_colour(image))
    file, picture = io.BytesIO(), Image.fromarray(_colour(image))
    picture.thumbnail((most, most), Image.Resampling.LANCZOS)
    picture.save(file, format="WebP", quality=85)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _colour(image: Pixels) -> Pixels:
    return np.broadcast_to(image, (*image.shape[:2], 3)) if image.shape[2] == 1 else image
