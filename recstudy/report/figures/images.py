"""Small images as one picture: tiles of one size in rows, sharp, with room for words under each.

And what a model gets wrong, as in Figures 2 and 4 of 004: test images with their true (T) and predicted (P) class.

Images are (height, width, channels) of 0-255, with 1 or 3 channels; what is drawn has a fourth, opacity, so that the
spaces between tiles take the colour of any page.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from PIL import Image

from recstudy.errors import StorageError
from recstudy.report.figure_fields import Mistakes
from recstudy.report.figures.layout import Drawn, PanelGrid, arrange, axes_at, joined
from recstudy.report.figures.theme import SCREEN, Size, scatter, shown
from recstudy.report.kept import Pixels, finished, pictures, read_archive
from recstudy.report.names import plural
from recstudy.report.study_records import StudyRecords
from recstudy.report.variants import add_labels

TILE = 128  # about how many pixels a tile's side has: 4 for each of CIFAR's, 5 for MNIST's, 16 for the digits'
SMALL = 64  # pixels: up to here an image loses nothing in the page
MOST = 6  # variants: more do not fit on a page
COLUMNS = ["variant", "label", "seed", "row", "true", "predicted", "synthetic"]
ACROSS = 5  # tiles
GAP = 3 / 32  # between neighbours, as a share of a tile
LETTERS = 12  # in a line under a tile: what fits at any width, because the letters grow with the tiles
LINES = {1: 1 / 4, 2: 7 / 16}  # room for so many lines under a tile, as a share of it
NARROW = {False: 320, True: 390}  # pixels: the least of a panel; in print its letters have 6 points
CUT = "\N{HORIZONTAL ELLIPSIS}"


def side_of(image: Pixels) -> int:
    """Return the side of a tile that holds the image with every pixel enlarged alike, or of one that it is shrunk to."""
    longest = max(image.shape[:2])
    return longest * round(TILE / longest) if longest < TILE else TILE


def tile(image: Pixels, side: int) -> Pixels:
    """Return the image in the middle of a square of `side`, opaque: each pixel enlarged as often as fits, or the whole shrunk."""
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
    """Lay tiles row by row, each with `gap` on its right and `words` pixels under it."""
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
    """Return the picture as a PNG that stands in the page itself."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, format="PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def picture_uri(image: Pixels, most: int | None = None) -> str:
    """Return one image, its longest side `most` pixels at most: as it is in a PNG, or shrunk in a WebP of about 10 kB."""
    most = most or max(image.shape[:2])
    if max(image.shape[:2]) <= min(most, SMALL):
        return data_uri(_colour(image))
    file, picture = io.BytesIO(), Image.fromarray(_colour(image))
    picture.thumbnail((most, most), Image.Resampling.LANCZOS)
    picture.save(file, format="WebP", quality=85)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode("ascii")


def _colour(image: Pixels) -> Pixels:
    return np.broadcast_to(image, (*image.shape[:2], 3)) if image.shape[2] == 1 else image


# ------------------------------------------------------------------------------------------------------------ mistakes


def draw_mistakes(records: StudyRecords, spec: Mistakes) -> Drawn:
    """Draw the first misclassified images of the first finished seed of each of the best variants."""
    found, notes = finished(records, spec.where, "mistakes.npz", MOST)
    parts: list[tuple[pd.DataFrame, list[Pixels]]] = []
    for index, run in found.items():
        try:
            classes, pixels = _read(records.results.run(run.id).mistakes, spec.most)
        except StorageError as damage:
            notes.append(f"{run.label}: {damage}")
            continue
        if pixels:
            parts.append((add_labels(records, classes.assign(variant=index, seed=run.seed))[COLUMNS], pixels))
        else:
            notes.append(f"{run.label}: no test image is misclassified")
    data = pd.concat([part for part, _ in parts], ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)
    caption = ""
    if parts:
        many = plural(max(len(part) for part, _ in parts), "misclassified image")
        of = "in the order of the test set, of each variant's first finished seed"
        caption = f"T: true class, P: predicted class. The first {many} {of}."
    words = " ".join(f"{part['label'].iloc[0]}: {', '.join(_words(part))}." for part, _ in parts)
    return Drawn(partial(_figure, parts), data, spec.heading, notes, caption, words=words)


def _read(path: Path, most: int) -> tuple[pd.DataFrame, list[Pixels]]:
    """Read the first `most` images of `mistakes.npz` with their `row`, `true` and `predicted` class (StorageError)."""

    def mistakes(archive: Mapping[str, Any]) -> tuple[pd.DataFrame, list[Pixels]]:
        rows, true, predicted, images = (archive[key][:most] for key in ("rows", "labels", "predicted", "images"))
        kept, names = pictures(images, rows, true, predicted), [" ".join(str(name).split()) for name in archive["names"]]
        if any(not 0 <= label < len(names) for label in [*true, *predicted]):
            raise ValueError(f"a class is not one of {len(names)}")
        frame = {"row": rows, "true": [names[at] for at in true], "predicted": [names[at] for at in predicted]}
        return pd.DataFrame(frame), kept

    return read_archive(path, mistakes)


def _words(frame: pd.DataFrame) -> list[str]:
    return [f"T {true}, P {predicted}" for true, predicted in zip(frame["true"], frame["predicted"], strict=True)]


def tile_labels(part: pd.DataFrame) -> list[str]:
    """Return `T 9, P 4` where all classes are that short, else the two in a line each."""
    short = short_names([*part["true"], *part["predicted"]], LETTERS - 2)
    between = ", " if max(map(len, _words(part))) <= LETTERS else "<br>"
    pairs = zip(part["true"], part["predicted"], strict=True)
    return [f"T {shown(short[true])}{between}P {shown(short[predicted])}" for true, predicted in pairs]


def short_names(names: Sequence[str], most: int) -> dict[str, str]:
    """Return each class's name in `most` characters at most: its beginning, or where two begin alike its beginning and end.

    `aquarium fish` in ten characters is `aquarium…`: cut between two words, unless that leaves less than half.
    """
    spoken = {name: name.replace("_", " ") for name in dict.fromkeys(names)}

    def begin(words: str) -> str:
        space = words[:most].rfind(" ")
        return words[: space if space >= most // 2 else most - 1].rstrip() + CUT

    def ends(words: str) -> str:
        return words[: most // 2].rstrip() + CUT + words[-(most - most // 2 - 1) :].lstrip()

    short = {name: words if len(words) <= most else begin(words) for name, words in spoken.items()}
    taken = list(short.values())
    return {
        name: words if taken.count(words) == 1 or len(spoken[name]) <= most else ends(spoken[name])
        for name, words in short.items()
    }


def _figure(parts: Sequence[tuple[pd.DataFrame, list[Pixels]]], size: Size = SCREEN) -> go.Figure:
    """Draw one picture a variant, in its own pixels, its words as text over it, and each tile's full names under the pointer."""
    figure, labels = go.Figure(), [tile_labels(part) for part, _ in parts]
    words = LINES[2 if any("<br>" in label for panel in labels for label in panel) else 1]
    rows = max((-(-len(part) // ACROSS) for part, _ in parts), default=1)
    for panel, ((part, images), own) in enumerate(zip(parts, labels, strict=True)):
        named = zip(_words(part), part["row"], part["seed"], strict=True)
        hover = [f"{tile}, test image {row}, seed {seed}" for tile, row, seed in named]
        image_grid(figure, panel, data_uri, images, ACROSS, rows, side_of(images[0]), (GAP, words), hover, own)
        axes, lines = axes_at(panel), wrap(part["label"].iloc[0], 40, max_lines=2, placeholder=f" {CUT}")
        figure.add_annotation(
            text=f"<b>{'<br>'.join(map(shown, lines))}</b>", xref=axes["xaxis"], yref=axes["yaxis"], x=0, y=0,
            xanchor="left", yanchor="bottom", align="left", showarrow=False,
        )  # fmt: skip
    figure.update_xaxes(visible=False, fixedrange=True).update_yaxes(visible=False, fixedrange=True)
    ratio = rows * (1 + words) / (ACROSS * (1 + GAP))
    grid = PanelGrid(NARROW[size.printed], above=46, ratio=ratio, widest=640, columns=ACROSS)
    return arrange(figure, max(1, len(parts)), grid, size)
