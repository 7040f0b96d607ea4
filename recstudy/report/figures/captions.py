"""Kept captions as cards of a page: an image, its references, and what each model wrote of it.

captions.json    {"examples": [{"row": 12, "references": ["...", "..."], "hypothesis": "..."}, ...]}; images in captions.npz

A word of a hypothesis that a reference has too is underlined and stands on a tint, so that it shows without colours.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any

import pandas as pd

from recstudy.errors import StorageError
from recstudy.records import Json
from recstudy.report.caveats import made_notes
from recstudy.report.kept import IMAGES, Pixels, damaged, finished, read_images, read_kept
from recstudy.report.markup import escape
from recstudy.report.names import plural
from recstudy.report.shown import Shown
from recstudy.report.study_records import StudyRecords
from recstudy.report.table_fields import Captions
from recstudy.report.tiles import SMALL, image_of, picture_uri
from recstudy.report.variants import add_labels

MOST = 6  # variants: more do not fit on a page
SIDE = 256  # pixels of an image in the page, at most
FOLD = 240  # characters of a caption that are shown; the rest opens on a click or a key
TEXTS = "captions.json"
COLUMNS = ["data", "row", "variant", "label", "seed", "references", "hypothesis", "words", "shared", "bleu_1", "synthetic"]
WORD = re.compile(r"\w+")
MARKED = (
    "Underlined: words of a hypothesis that a reference has too, whatever their order, and at most as often as it has them. "
    "BLEU-1: of the one image, by these words. The first finished seed of each variant, test images in the order of their rows"
)
NOTHING = '<p class="note">No finished run has kept captions yet.</p>'


@dataclass(frozen=True)
class Examples:
    """One row of `frame` an image and variant.

    `notes` say before the examples which variants are left out and why, `told` after them how the captions were made.
    """

    frame: pd.DataFrame
    images: dict[tuple[str, int], Pixels]  # by the data set's title and the row in its test split
    notes: tuple[str, ...]
    told: tuple[str, ...]


def kept_examples(
    records: StudyRecords, where: Json, file: str, most: int, read: Callable[[Path], Sequence[Json]], made: Sequence[str]
) -> Examples:
    """Return what `read` gives of this file of each of the runs that `finished` chooses, and how these were `made`."""
    found, notes = finished(records, where, file, most)
    rows: list[Json] = []
    images: dict[tuple[str, int], Pixels] = {}
    for index, run in found.items():
        data, folder = records.variants[index].data, records.results.run(run.id).path
        try:
            rows += [{"data": data, "variant": index, "seed": run.seed, **entry} for entry in read(folder / file)]
            images = {(data, row): image for row, image in read_images(folder / IMAGES).items()} | images
        except StorageError as damage:
            notes.append(f"{run.label}: {damage}")
    frame = add_labels(records, pd.DataFrame(rows)) if rows else pd.DataFrame()
    return Examples(frame, images, tuple(notes), made_notes(records, list(found), made))


def captions_shown(records: StudyRecords, part: Captions) -> Shown:
    """Make the cards of the first images of each data set, what must be said before them, and how the captions were made.

    In the numbers `references` is a JSON list, `shared` counts the hypothesis' `words` in them, each at most as often as one of
    them has it, and `bleu_1` is BLEU-1 of the image alone, of the same words.
    """

    def read(path: Path) -> list[Json]:
        examples = read_kept(path, "examples", {"row": int, "references": list, "hypothesis": str})
        if not all(isinstance(text, str) for example in examples for text in example["references"]):
            raise damaged(path, "a reference is no text")
        return list(map(_counted, examples[: part.most]))

    data = kept_examples(records, part.where, TEXTS, MOST, read, ("decode", "text", "image"))
    frame = data.frame.reindex(columns=COLUMNS)
    images: Any = frame.groupby(["data", "row"], sort=False) if len(frame) else ()
    cards = "\n".join(_card(data, str(name[0]), int(name[1]), own) for name, own in images)
    told = "".join(f'<p class="caption">{escape(line)}.</p>' for line in (MARKED, *data.told))
    body = f'<div class="cards">\n{cards}\n</div>\n{told}\n' if cards else NOTHING
    return Shown(part.name, csv=frame.to_csv(index=False), body=body, notes=data.notes)


def known_words(references: Iterable[str]) -> Counter[str]:
    """Count each word as often as the reference has it that has it most: what BLEU lets a hypothesis match."""
    known: Counter[str] = Counter()
    for text in references:
        known |= Counter(_words(text))
    return known


def _counted(example: Json) -> Json:
    """Return the example with its counts and score, the references in one column."""
    said = _words(example["hypothesis"])
    shared = (Counter(said) & known_words(example["references"])).total()
    lengths = [len(_words(text)) for text in example["references"]]
    closest = min(lengths, key=lambda length: (abs(length - len(said)), length), default=0)
    score = shared / len(said) * min(1.0, exp(1 - closest / len(said))) if said else 0.0
    references = json.dumps(example["references"], ensure_ascii=False)
    counts = {"words": len(said), "shared": shared, "bleu_1": score}
    return {"row": example["row"], "references": references, "hypothesis": example["hypothesis"], **counts}


def _words(text: str) -> list[str]:
    return [word.lower() for word in WORD.findall(text)]


def picture(image: Pixels | None, words: str) -> str:
    """Show the image in its own box, or a line that says there is none."""
    if image is None:
        return '<p class="note">no image kept</p>'
    sharp = ' class="sharp"' if max(image.shape[:2]) <= SMALL else ""
    height, width = image.shape[:2]
    shrunk = image_of(image)
    shrunk.thumbnail((SIDE, SIDE))
    return f'<img{sharp} src="{picture_uri(shrunk)}" width="{width}" height="{height}" alt="{escape(words)}" loading="lazy">'


def folded(text: str, known: Iterable[str] | Mapping[str, int] = ()) -> str:
    """Show a caption, escaped; words are marked as often as they are `known`, and what is longer than `FOLD` is folded after its
    beginning."""
    left = Counter(known)
    if not text.strip():
        return "<em>(empty)</em>"
    if len(text) <= FOLD:
        return _marked(text, left)
    cut = text.rfind(" ", FOLD // 2, FOLD)
    cut = cut if cut > 0 else FOLD
    head, rest = _marked(text[:cut], left), _marked(text[cut:], left)
    summary = f'{head}<span class="more">\N{HORIZONTAL ELLIPSIS} more</span>'
    return f'<details class="long"><summary>{summary}</summary>{rest}</details>'


def _card(data: Examples, title: str, row: int, part: Any) -> str:
    name = f"{title}, test image {row}"
    references = json.loads(part["references"].iloc[0])
    known = known_words(references)
    lines = "".join(f"<li>{folded(text)}</li>" for text in references)
    answers = ""
    for one in part.to_dict("records"):
        share = f"{one['shared']} of {plural(one['words'], 'word')} in a reference, BLEU-1 {one['bleu_1']:.2f}"
        answers += f"<div><dt>{escape(one['label'])} <small>seed {one['seed']}, {share}</small></dt>"
        answers += f"<dd>{folded(one['hypothesis'], known)}</dd></div>"
    return (
        f'<article class="card" aria-label="{escape(name)}">{picture(data.images.get((title, row)), name)}\n'
        f"<div><h3>{escape(name)}</h3><p>{'References' if references[1:] else 'Reference'}</p><ul>{lines}</ul>\n"
        f'<dl class="answers">{answers}</dl></div></article>'
    )


def _marked(text: str, left: Counter[str]) -> str:
    """Return the text with its words marked of which some are `left`, and these taken from it."""
    parts, end = [], 0
    for word in WORD.finditer(text):
        if left[word.group().lower()] > 0:
            left[word.group().lower()] -= 1
            parts += [escape(text[end : word.start()]), f"<mark>{escape(word.group())}</mark>"]
            end = word.end()
    return "".join([*parts, escape(text[end:])])
