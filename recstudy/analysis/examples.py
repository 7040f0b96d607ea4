"""What runs kept of single test images, read with every check: answers, captions, pictures; and captions as cards of a page.

captions.json    {"examples": [{"row": 12, "references": ["...", "..."], "hypothesis": "..."}, ...]}
captions.npz     `images` (n, C, H, W) of 0-255 and their `rows` in the test set

A word of a hypothesis that a reference has too is underlined and stands on a tint, so that it shows without colours.
"""

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from recstudy.analysis.caveats import made_notes, warnings
from recstudy.analysis.figures.learning import cut_note, labelled, shown_variants
from recstudy.analysis.figures.mosaic import SMALL, Pixels, picture_uri
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import escape
from recstudy.analysis.rows import Row
from recstudy.analysis.shown import Shown
from recstudy.errors import StorageError
from recstudy.metrics import Answers, kept
from recstudy.records import Json, Results, read_json
from recstudy.report import Captions
from recstudy.report.names import plural

MOST = 6  # variants: more do not fit on a page
SIDE = 256  # pixels of an image in the page, at most
FOLD = 240  # characters of a caption that are shown; the rest opens on a click or a key
TEXTS, IMAGES = "captions.json", "captions.npz"
COLUMNS = ["data", "row", "variant", "label", "seed", "references", "hypothesis", "words", "shared", "bleu_1", "synthetic"]
WORD = re.compile(r"\w+")
MARKED = (
    "Underlined: words of a hypothesis that a reference has too, whatever their order, and at most as often as it has them. "
    "BLEU-1: of the one image, by these words. The first finished seed of each variant, test images in the order of their rows"
)
NOTHING = '<p class="note">No finished run has kept captions yet.</p>'

Images = dict[tuple[str, int], Pixels]  # by the data set's title and the row in its test split
T = TypeVar("T")


def answers_of(records: StudyRecords, run: Row) -> tuple[Answers | None, str]:
    """Return what a run (a row of `records`) answered on the test split, and of how many images where not of all; None, and why,
    where it has none."""
    found, why = kept_answers(records.results, run.id)
    if found is None:
        return None, why
    return found.answers, f"of the first {len(found.answers):,} of {found.whole:,} test images" if found.cut else ""


def kept_answers(results: Results, run_id: str) -> tuple[kept.Kept | None, str]:
    """Return what a run's folder has; None, and why, where there is nothing to read."""
    path = results.fetched(results.run(run_id).answers)
    if not path.exists():
        since = "it kept no answers, which runs do since they can be evaluated later"
        return None, since if results.run(run_id).finished else "it has not finished"
    try:
        return kept.unpacked(path), ""
    except StorageError as damage:
        return None, str(damage)


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

    def read(path: Path) -> list[Json]:
        return list(map(_counted, read_captions(path)[: spec.most]))

    found = kept_examples(records, spec.where, TEXTS, most, read, ("decode", "text", "image"))
    return replace(found, frame=found.frame.reindex(columns=COLUMNS))


def kept_examples(
    records: StudyRecords, where: Json, file: str, most: int, read: Callable[[Path], Sequence[Json]], made: Sequence[str]
) -> Examples:
    """Return what `read` gives of this file of each of the runs that `finished` chooses, and how these were `made`."""
    found, notes = finished(records, where, file, most)
    rows: list[Json] = []
    images: Images = {}
    for index, run in found.items():
        data, folder = records.variants[index].data, records.results.run(run.id).path
        try:
            rows += [{"data": data, "variant": index, "seed": run.seed, **entry} for entry in read(folder / file)]
            images = {(data, row): image for row, image in read_images(folder / IMAGES).items()} | images
        except StorageError as damage:
            notes.append(f"{run.label}: {damage}")
    frame = labelled(records, pd.DataFrame(rows)) if rows else pd.DataFrame()
    return Examples(frame, images, tuple(notes), made_notes(records, list(found), made))


def finished(records: StudyRecords, where: Json, file: str, most: int) -> tuple[dict[int, Row], list[str]]:
    """The first finished run with this file of each of the `most` best variants, and what must be said before them."""
    runs = {index: records.first_run(index, file, ("done",)) for index in records.chosen(where)}
    found = {index: run for index, run in runs.items() if run is not None}
    chosen = {index: found[index] for index in shown_variants(records, most, found)}
    return chosen, [*warnings(records), *cut_note(records, len(found), most)]


def read_captions(path: Path) -> list[Json]:
    """Return each example's `row`, `references` and `hypothesis`.

    Raises:
        StorageError: the file is damaged. The message names it.
    """
    examples = read_kept(path, "examples", {"row": int, "references": list, "hypothesis": str})
    if not all(isinstance(text, str) for example in examples for text in example["references"]):
        raise damaged(path, "a reference is no text")
    return examples


def read_kept(path: Path, key: str, kinds: Mapping[str, Any]) -> list[Json]:
    """Return the list under `key` of a run's JSON file, whose entries have fields of these `kinds` (StorageError)."""
    content = read_json(path)
    entries = content.get(key) if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise damaged(path, f"it has no list of {key}")
    for at, entry in enumerate(entries):
        found = [(entry.get(name), kind) for name, kind in kinds.items()] if isinstance(entry, dict) else [(None, dict)]
        if any(isinstance(value, bool) or not isinstance(value, kind) for value, kind in found):
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
    return [word.lower() for word in WORD.findall(text)]


def known_words(references: Iterable[str]) -> Counter[str]:
    """Each word as often as the reference has it that has it most: what BLEU lets a hypothesis match."""
    known: Counter[str] = Counter()
    for text in references:
        known |= Counter(words_of(text))
    return known


def _counted(example: Json) -> Json:
    """The example with its counts and score, the references in one column."""
    said = words_of(example["hypothesis"])
    shared = (Counter(said) & known_words(example["references"])).total()
    lengths = [len(words_of(text)) for text in example["references"]]
    closest = min(lengths, key=lambda length: (abs(length - len(said)), length), default=0)
    score = shared / len(said) * min(1.0, exp(1 - closest / len(said))) if said else 0.0
    references = json.dumps(example["references"], ensure_ascii=False)
    counts = {"words": len(said), "shared": shared, "bleu_1": score}
    return {"row": example["row"], "references": references, "hypothesis": example["hypothesis"], **counts}


def captions_shown(records: StudyRecords, part: Captions) -> Shown:
    """Make all cards, what must be said before them, and how they were made."""
    data = captions_data(records, part)
    images: Any = data.frame.groupby(["data", "row"], sort=False) if len(data.frame) else ()
    cards = "\n".join(_card(data, str(name[0]), int(name[1]), own) for name, own in images)
    told = "".join(f'<p class="caption">{escape(line)}.</p>' for line in (MARKED, *data.told))
    body = f'<div class="cards">\n{cards}\n</div>\n{told}\n' if cards else NOTHING
    return Shown(part.name, csv=data.frame.to_csv(index=False), body=body, notes=data.notes)


def picture(image: Pixels | None, words: str) -> str:
    """The image in its own box, or a line that says there is none."""
    if image is None:
        return '<p class="note">no image kept</p>'
    sharp = ' class="sharp"' if max(image.shape[:2]) <= SMALL else ""
    height, width = image.shape[:2]
    return f'<img{sharp} src="{picture_uri(image, SIDE)}" width="{width}" height="{height}" alt="{escape(words)}" loading="lazy">'


def folded(text: str, known: Iterable[str] | Mapping[str, int] = ()) -> str:
    """A caption, escaped; words are marked as often as they are `known`, and what is longer than `FOLD` is folded after its
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
    """The text with its words marked of which some are `left`, and these taken from it."""
    parts, end = [], 0
    for word in WORD.finditer(text):
        if left[word.group().lower()] > 0:
            left[word.group().lower()] -= 1
            parts += [escape(text[end : word.start()]), f"<mark>{escape(word.group())}</mark>"]
            end = word.end()
    return "".join([*parts, escape(text[end:])])
