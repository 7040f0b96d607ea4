"""Captions that a run kept: the first test images, their references and what the model wrote, read with every check.

captions.json    {"examples": [{"row": 12, "references": ["...", "..."], "hypothesis": "..."}, ...]}
captions.npz     `images` (n, C, H, W) of 0-255 and their `rows` in the test set
"""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from recstudy.analysis.caveats import made_notes, warnings
from recstudy.analysis.figures.learning import cut_note, labelled, shown_variants
from recstudy.analysis.figures.mosaic import Pixels
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.errors import StorageError
from recstudy.records import Json, read_json
from recstudy.report import Captions

MOST = 6  # variants: more do not fit on a page
TEXTS, IMAGES = "captions.json", "captions.npz"
COLUMNS = ["data", "row", "variant", "label", "seed", "references", "hypothesis", "words", "shared", "bleu_1", "synthetic"]
WORD = re.compile(r"\w+")

Images = dict[tuple[str, int], Pixels]  # by the data set's title and the row in its test split
T = TypeVar("T")


class Kept(NamedTuple):
    """What runs kept of captions: entries with their `data`, `variant` and `seed`, images, what to say first, the variants."""

    rows: list[Json]
    images: Images
    notes: tuple[str, ...]
    variants: list[int]


@dataclass(frozen=True)
class Examples:
    """One row of `frame` an image and variant; `references` is a JSON list, `shared` counts the hypothesis' `words` in them, each
    at most as often as one of them has it, and `bleu_1` is BLEU-1 of the image alone, of the same words.

    `notes` say before the examples which variants are left out and why, `told` after them how the captions were made.
    """

    frame: pd.DataFrame
    images: Images
    notes: tuple[str, ...]
    told: tuple[str, ...]


def captions_data(records: StudyRecords, spec: Captions, most: int = MOST) -> Examples:
    """The first `spec.most` images of each data set, by the first finished seed of each of the `most` best variants."""
    kept = kept_entries(records, spec.where, TEXTS, most, lambda path: list(map(_counted, read_captions(path)[: spec.most])))
    frame = labelled(records, pd.DataFrame(kept.rows))[COLUMNS] if kept.rows else pd.DataFrame(columns=COLUMNS)
    return Examples(frame, kept.images, kept.notes, made_notes(records, kept.variants, ("decode", "text", "image")))


def kept_entries(records: StudyRecords, where: Json, file: str, most: int, read: Callable[[Path], Sequence[Json]]) -> Kept:
    """What `read` gives of this file of each of the runs that `finished` chooses, with the runs' images."""
    found, notes = finished(records, where, file, most)
    rows: list[Json] = []
    images: Images = {}
    for index, run in found.items():
        data, folder = records.variants[index].data, records.results.run(run.id).path
        try:
            rows += [{"data": data, "variant": index, "seed": run.seed, **entry} for entry in read(folder / file)]
        except StorageError as damage:
            notes.append(f"{run.label}: {damage}")
            continue
        notes += _gather(images, data, folder / IMAGES, run.label)
    return Kept(rows, images, tuple(notes), list(found))


def finished(records: StudyRecords, where: Json, file: str, most: int) -> tuple[dict[int, Row], list[str]]:
    """The first finished run with this file of each of the `most` best variants, and what must be said before them."""
    runs = {index: records.first_run(index, file, ("done",)) for index in records.chosen(where)}
    found = {index: run for index, run in runs.items() if run is not None}
    chosen = {index: found[index] for index in shown_variants(records, most, found)}
    return chosen, [*warnings(records), *cut_note(records, len(found), most)]


def _gather(images: Images, data: str, path: Path, label: str) -> list[str]:
    """Add a run's images; a note where they cannot be read."""
    try:
        images |= {(data, row): image for row, image in read_images(path).items() if (data, row) not in images}
    except StorageError as damage:
        return [f"{label}: {damage}"]
    return []


def read_captions(path: Path) -> list[Json]:
    """Each example's `row`, `references` and `hypothesis`.

    Raises:
        StorageError: the file is damaged. The message names it.
    """
    kinds = {"row": int, "references": list, "hypothesis": str}
    examples = read_kept(path, "examples", kinds)
    if not all(isinstance(text, str) for example in examples for text in example["references"]):
        raise damaged(path, "a reference is no text")
    return examples


def read_kept(path: Path, key: str, kinds: Mapping[str, Any]) -> list[Json]:
    """The list under `key` of a run's JSON file, whose entries have fields of these `kinds` (StorageError)."""
    content = read_json(path)
    entries = content.get(key) if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise damaged(path, f"it has no list of {key}")
    for at, entry in enumerate(entries):
        if not isinstance(entry, dict) or not all(_is(entry.get(name), kind) for name, kind in kinds.items()):
            raise damaged(path, f"{key}[{at}] lacks one of {', '.join(kinds)}")
    return entries


def read_images(path: Path) -> dict[int, Pixels]:
    """Images (height, width, channels) by their row in the test set.

    Raises:
        StorageError: the file is damaged. The message names it.
    """

    def images(archive: Mapping[str, Any]) -> dict[int, Pixels]:
        return dict(zip(map(int, archive["rows"]), pictures(archive["images"], archive["rows"]), strict=True))

    return read_archive(path, images)


def read_archive(path: Path, take: Callable[[Mapping[str, Any]], T]) -> T:
    """What `take` gives of a run's arrays; where it cannot, they are damaged (StorageError)."""
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:  # of a path it may leave the file open
            return take(archive)
    except Exception as error:  # a damaged archive raises nearly anything, and the rest of the report is still good
        raise damaged(path, f"{type(error).__name__}: {error}".partition("\n")[0]) from None


def pictures(images: Any, *beside: Any) -> list[Pixels]:
    """Kept images (n, C, H, W) as (H, W, C) each; ValueError where they are none, or not as many as what is `beside` them."""
    fit = images.ndim == 4 and images.shape[1] in (1, 3) and images.dtype == np.uint8 and 0 not in images.shape[1:]
    if not fit or any(len(one) != len(images) for one in beside):
        raise ValueError(f"{len(beside[0])} rows with images {images.dtype} {images.shape}")
    return [image.transpose(1, 2, 0) for image in images]


def damaged(path: Path, reason: str) -> StorageError:
    return StorageError(
        f"runs/{path.parent.name}/{path.name} is damaged ({reason}). Remove that run's folder and run the study again."
    )


def words_of(text: str) -> list[str]:
    return [word.group().lower() for word in WORD.finditer(text)]


def known_words(references: Iterable[str]) -> Counter[str]:
    """Each word as often as the reference has it that has it most: what BLEU lets a hypothesis match."""
    known: Counter[str] = Counter()
    for text in references:
        known |= Counter(words_of(text))
    return known


def _is(value: Any, kind: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _counted(example: Json) -> Json:
    """The example with its counts and score, the references in one column."""
    said = words_of(example["hypothesis"])
    shared = (Counter(said) & known_words(example["references"])).total()
    lengths = [len(words_of(text)) for text in example["references"]]
    closest = min(lengths, key=lambda length: (abs(length - len(said)), length), default=0)
    score = shared / len(said) * min(1.0, exp(1 - closest / len(said))) if said else 0.0
    counts = {"words": len(said), "shared": shared, "bleu_1": score}
    references = json.dumps(example["references"], ensure_ascii=False)
    return {"row": example["row"], "references": references, "hypothesis": example["hypothesis"], **counts}
