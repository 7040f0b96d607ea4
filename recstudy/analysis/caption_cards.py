"""Kept captions as HTML cards: the image, its references, and the hypothesis of each variant side by side; and aligned pairs
under their figure: the mean differences, and the first pairs of each variant with their image.

A word of a hypothesis that a reference has too is underlined and stands on a tint, so that it shows without colours.
"""

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from recstudy.analysis.alignment import Aligned, summary
from recstudy.analysis.examples import WORD, Examples, captions_data, known_words
from recstudy.analysis.figures.mosaic import SMALL, Pixels, picture_uri
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Html, escape, fold, links, table, warning_lines, words_table
from recstudy.analysis.shown import Shown
from recstudy.records import write_whole
from recstudy.report import Alignment, Captions
from recstudy.report.names import plural
from recstudy.report.venues import Paper

SIDE = 256  # pixels of an image in the page, at most
FOLD = 240  # characters of a caption that are shown; the rest opens on a click or a key
MARKED = (
    "Underlined: words of a hypothesis that a reference has too, whatever their order, and at most as often as it has them. "
    "BLEU-1: of the one image, by these words"
)
NOTHING = '<p class="note">No finished run has kept captions yet.</p>'
MEANS = ("variant", "pairs that rose", "mean before", "mean after", "mean difference (95 % interval)")
INTERVALS = "Intervals are over the pairs of one seed: they say nothing of other seeds"
PAIR_HEADS = ("test image", "caption", "before", "after", "difference")


@dataclass(frozen=True, repr=False)
class CardsShown(Shown):
    """Kept captions, a card an image."""

    data: Examples

    @property
    def frame(self) -> pd.DataFrame:
        return self.data.frame

    @property
    def html(self) -> str:
        return captions_html(self.data)

    def write(self, folder: Path, file: str, export: Sequence[str], paper: Paper) -> str:
        write_whole(folder / "tables" / f"{file}.csv", self.frame.to_csv(index=False))
        return links("tables", file, ("csv",))

    def __repr__(self) -> str:
        return repr(self.frame)


def shown(records: StudyRecords, part: Captions) -> CardsShown:
    return CardsShown(captions_data(records, part))


def captions_html(data: Examples) -> str:
    """All cards, what must be said before them, and how they were made."""
    if data.frame.empty:
        return warning_lines(data.notes) + NOTHING
    cards = "\n".join(_card(data, str(name[0]), int(name[1]), part) for name, part in _by_image(data))
    seeds = "The first finished seed of each variant, test images in the order of their rows"
    told = "".join(f'<p class="caption">{escape(line)}.</p>' for line in (f"{MARKED}. {seeds}", *data.told))
    return f'{warning_lines(data.notes)}<div class="cards">\n{cards}\n</div>\n{told}\n'


def alignment_html(data: Aligned, spec: Alignment) -> str:
    """Empty where there are no pairs."""
    if data.ours.empty:
        return ""
    told = "".join(f'<p class="caption">{escape(line)}.</p>' for line in (INTERVALS, *data.told))
    lists = "".join(_pairs(data, part.head(spec.most)) for _, part in data.ours.groupby("variant", sort=False))
    return words_table("Mean differences, after less before", MEANS, summary(data)) + told + lists


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
    return (
        f'<details class="long"><summary>{head}<span class="more">\N{HORIZONTAL ELLIPSIS} more</span></summary>{rest}</details>'
    )


def _by_image(data: Examples) -> Any:
    return data.frame.groupby(["data", "row"], sort=False)


def _card(data: Examples, title: str, row: int, part: Any) -> str:
    name = f"{title}, test image {row}"
    references = json.loads(part["references"].iloc[0])
    known = known_words(references)
    lines = "".join(f"<li>{folded(text)}</li>" for text in references)
    answers = "".join(_answer(one, known) for one in part.to_dict("records"))
    return (
        f'<article class="card" aria-label="{escape(name)}">{picture(data.images.get((title, row)), name)}\n'
        f"<div><h3>{escape(name)}</h3><p>{'References' if references[1:] else 'Reference'}</p><ul>{lines}</ul>\n"
        f'<dl class="answers">{answers}</dl></div></article>'
    )


def _answer(one: dict[Hashable, Any], known: Mapping[str, int]) -> str:
    share = f"{one['shared']} of {plural(one['words'], 'word')} in a reference, BLEU-1 {one['bleu_1']:.2f}"
    return (
        f"<div><dt>{escape(one['label'])} <small>seed {one['seed']}, {share}</small></dt>"
        f"<dd>{folded(one['hypothesis'], known)}</dd></div>"
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


def _pairs(data: Aligned, part: pd.DataFrame) -> str:
    """One variant's first pairs in a box that opens and scrolls."""
    label = f"{part['label'].iloc[0]}: the first {plural(len(part), 'test pair')}"
    rows = [_pair(data, pair) for pair in part.to_dict("records")]
    return fold(label, table(label, PAIR_HEADS, rows, {1: "prose"}, "pairs"))


def _pair(data: Aligned, pair: dict[Hashable, Any]) -> list[Html]:
    row = int(pair["row"])
    image = picture(data.images.get((pair["data"], row)), f"test image {row}")
    numbers = [f"{pair['before']:.4f}", f"{pair['after']:.4f}", f"{pair['difference']:+.4f}"]
    return [Html(words) for words in (f"{image}<small>{row}</small>", folded(pair["caption"]), *numbers)]
