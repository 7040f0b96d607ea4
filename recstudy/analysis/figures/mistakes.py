"""What a model gets wrong, as in Figures 2 and 4 of 004: test images with their true (T) and predicted (P) class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from recstudy.analysis.examples import finished, pictures, read_archive
from recstudy.analysis.figures.learning import labelled
from recstudy.analysis.figures.mosaic import Pixels
from recstudy.analysis.frame import StudyRecords
from recstudy.errors import StorageError
from recstudy.report import Mistakes
from recstudy.report.names import plural

MOST = 6  # variants: more do not fit on a page
COLUMNS = ["variant", "label", "seed", "row", "true", "predicted", "synthetic"]


@dataclass(frozen=True)
class MistakesData:
    """One row of `frame` an image: its row in the test set and the classes' names. `images` are in the same order.

    `notes` say which variants are left out and why.
    """

    frame: pd.DataFrame
    images: list[Pixels]
    notes: tuple[str, ...]


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
        shown, names = pictures(images, rows, true, predicted), [" ".join(str(name).split()) for name in archive["names"]]
        if any(not 0 <= label < len(names) for label in [*true, *predicted]):
            raise ValueError(f"a class is not one of {len(names)}")
        frame = {"row": rows, "true": [names[at] for at in true], "predicted": [names[at] for at in predicted]}
        return pd.DataFrame(frame), shown

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
    return " ".join(f"{part['label'].iloc[0]}: {', '.join(tile_words(part))}." for _, part in parts)


def tile_words(frame: pd.DataFrame) -> list[str]:
    return [f"T {true}, P {predicted}" for true, predicted in zip(frame["true"], frame["predicted"], strict=True)]


def short_names(names: Sequence[str], most: int) -> dict[str, str]:
    """Each class's name in `most` characters at most: its beginning, or where two begin alike its beginning and end."""
    spoken = {name: name.replace("_", " ") for name in dict.fromkeys(names)}
    short = {name: _cut(words, most) for name, words in spoken.items()}
    taken = list(short.values())
    return {name: words if taken.count(words) == 1 else _middle(spoken[name], most) for name, words in short.items()}


def _cut(words: str, most: int) -> str:
    """`aquarium fish` in ten characters is `aquarium…`: cut between two words, unless that leaves less than half."""
    if len(words) <= most:
        return words
    head = words[: most - 1]
    space = words[:most].rfind(" ")
    return (head[:space] if space >= most // 2 else head).rstrip() + "\N{HORIZONTAL ELLIPSIS}"


def _middle(words: str, most: int) -> str:
    if len(words) <= most:
        return words
    return words[: most // 2].rstrip() + "\N{HORIZONTAL ELLIPSIS}" + words[-(most - most // 2 - 1) :].lstrip()
