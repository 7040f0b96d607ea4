"""What a model gets wrong, as in Figures 2 and 4 of 004: test images with their true (T) and predicted (P) class.

A panel a variant, side by side where there is room, its label above it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.examples import finished, pictures, read_archive
from recstudy.analysis.figures.layout import Drawn, PanelGrid, arrange, axes_at
from recstudy.analysis.figures.learning import labelled
from recstudy.analysis.figures.mosaic import Pixels, data_uri, image_grid, side_of
from recstudy.analysis.figures.theme import SCREEN, Size, shown
from recstudy.analysis.frame import StudyRecords
from recstudy.errors import StorageError
from recstudy.report import Mistakes
from recstudy.report.names import plural

MOST = 6  # variants: more do not fit on a page
COLUMNS = ["variant", "label", "seed", "row", "true", "predicted", "synthetic"]
ACROSS = 5  # tiles
GAP = 3 / 32  # between neighbours, as a share of a tile
LETTERS = 12  # in a line under a tile: what fits at any width, because the letters grow with the tiles
LINES = {1: 1 / 4, 2: 7 / 16}  # room for so many lines under a tile, as a share of it
NARROW = {False: 320, True: 390}  # pixels: the least of a panel; in print its letters have 6 points
CUT = "\N{HORIZONTAL ELLIPSIS}"


@dataclass(frozen=True)
class MistakesData:
    """One row of `frame` an image: its row in the test set and the classes' names. `images` are in the same order.

    `notes` say which variants are left out and why.
    """

    frame: pd.DataFrame
    images: list[Pixels]
    notes: tuple[str, ...]


def draw_mistakes(records: StudyRecords, spec: Mistakes) -> Drawn:
    data = mistakes_data(records, spec)
    figure, caption = partial(mistakes_figure, data), mistakes_caption(data)
    return Drawn(figure, data.frame, spec.heading, data.notes, caption, words=in_words(data.frame))


def mistakes_data(records: StudyRecords, spec: Mistakes, most: int = MOST) -> MistakesData:
    """The first misclassified images of the first finished seed of each variant; of the `most` best variants."""
    found, notes = finished(records, spec.where, "mistakes.npz", most)
    parts: list[pd.DataFrame] = []
    images: list[Pixels] = []
    for index, run in found.items():
        label = records.variants[index].label
        try:
            classes, pixels = read_mistakes(records.results.run(run.id).mistakes, spec.most)
        except StorageError as damage:
            notes.append(f"{label}: {damage}")
            continue
        parts.append(classes.assign(variant=index, seed=run.seed))
        images += pixels
        notes += [] if pixels else [f"{label}: no test image is misclassified"]
    if not images:
        return MistakesData(pd.DataFrame(columns=COLUMNS), [], tuple(notes))
    frame = pd.concat([part for part in parts if len(part)], ignore_index=True)
    return MistakesData(labelled(records, frame)[COLUMNS], images, tuple(notes))


def read_mistakes(path: Path, most: int) -> tuple[pd.DataFrame, list[Pixels]]:
    """The first `most` images of `mistakes.npz` with their `row`, `true` and `predicted` class.

    Raises:
        StorageError: the file is damaged. The message names it.
    """

    def mistakes(archive: Mapping[str, Any]) -> tuple[pd.DataFrame, list[Pixels]]:
        rows, true, predicted, images = (archive[key][:most] for key in ("rows", "labels", "predicted", "images"))
        kept, names = pictures(images, rows, true, predicted), [" ".join(str(name).split()) for name in archive["names"]]
        if any(not 0 <= label < len(names) for label in [*true, *predicted]):
            raise ValueError(f"a class is not one of {len(names)}")
        frame = {"row": rows, "true": [names[at] for at in true], "predicted": [names[at] for at in predicted]}
        return pd.DataFrame(frame), kept

    return read_archive(path, mistakes)


def mistakes_caption(data: MistakesData) -> str:
    """How to read the tiles."""
    if data.frame.empty:
        return ""
    count = data.frame.groupby("variant").size().max()
    return (
        f"T: true class, P: predicted class. The first {plural(int(count), 'misclassified image')} in the order of the test set, "
        "of each variant's first finished seed."
    )


def in_words(frame: pd.DataFrame) -> str:
    """The labels of all tiles, for those who cannot see them."""
    parts = frame.groupby("variant", sort=False)
    return " ".join(f"{part['label'].iloc[0]}: {', '.join(_words(part))}." for _, part in parts)


def _words(frame: pd.DataFrame) -> list[str]:
    return [f"T {true}, P {predicted}" for true, predicted in zip(frame["true"], frame["predicted"], strict=True)]


def tile_labels(part: pd.DataFrame) -> list[str]:
    """`T 9, P 4` where all classes are that short, else the two in a line each."""
    short = short_names([*part["true"], *part["predicted"]], LETTERS - 2)
    between = ", " if max(map(len, _words(part))) <= LETTERS else "<br>"
    pairs = zip(part["true"], part["predicted"], strict=True)
    return [f"T {shown(short[true])}{between}P {shown(short[predicted])}" for true, predicted in pairs]


def short_names(names: Sequence[str], most: int) -> dict[str, str]:
    """Each class's name in `most` characters at most: its beginning, or where two begin alike its beginning and end.

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


def mistakes_figure(data: MistakesData, size: Size = SCREEN) -> go.Figure:
    """One picture a variant, in its own pixels, its words as text over it, and each tile's full names under the pointer."""
    figure = go.Figure()
    parts = [part for _, part in data.frame.groupby("variant", sort=False)]
    labels = [tile_labels(part) for part in parts]
    words = LINES[2 if any("<br>" in label for panel in labels for label in panel) else 1]
    rows = max((-(-len(part) // ACROSS) for part in parts), default=1)
    for panel, (part, own) in enumerate(zip(parts, labels, strict=True)):
        axes, images = axes_at(panel), [data.images[at] for at in part.index]
        named = zip(_words(part), part["row"], part["seed"], strict=True)
        hover = [f"{tile}, test image {row}, seed {seed}" for tile, row, seed in named]
        image_grid(figure, panel, data_uri, images, ACROSS, rows, side_of(images[0]), (GAP, words), hover, own)
        lines = wrap(part["label"].iloc[0], 40, max_lines=2, placeholder=f" {CUT}")
        figure.add_annotation(
            text=f"<b>{'<br>'.join(map(shown, lines))}</b>", xref=axes["xaxis"], yref=axes["yaxis"], x=0, y=0,
            xanchor="left", yanchor="bottom", align="left", showarrow=False,
        )  # fmt: skip
    figure.update_xaxes(visible=False, fixedrange=True).update_yaxes(visible=False, fixedrange=True)
    ratio = rows * (1 + words) / (ACROSS * (1 + GAP))
    grid = PanelGrid(NARROW[size.printed], above=46, ratio=ratio, widest=640, columns=ACROSS)
    return arrange(figure, max(1, len(parts)), grid, size)
