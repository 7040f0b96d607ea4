"""Kept captions as cards of a page: an image, its references, and what each model wrote of it.

captions.json    {"examples": [{"row": 12, "references": ["...", "..."], "hypothesis": "..."}, ...]}; images in captions.npz
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from markupsafe import Markup, escape
from pydantic import Field

from recstudy.records import Json, read_json
from recstudy.records.reading import record_of
from recstudy.records.schema import KeptCaptions
from recstudy.report.caveats import made_notes, warnings
from recstudy.report.examples import add_images, read_examples
from recstudy.report.markup import render
from recstudy.report.parts import PARTS, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import picture

if TYPE_CHECKING:
    from recstudy.report.shown import Shown

COLUMNS = ["data", "row", "variant", "label", "seed", "references", "hypothesis", "words", "shared", "bleu_1", "synthetic"]


@PARTS.add("captions")
class Captions(OfVariants):
    """Test images with their reference captions and what each variant writes: one seed of a variant. A page and its CSV."""

    name: str = "captions"
    most: int = Field(default=12, ge=1)  # images; a run keeps 36
    default_title: ClassVar[str] = "Captions: references and what each model writes"

    def shown(self, records: StudyRecords) -> Shown:
        """Return a card for each of the first images, and the numbers: a row per image and variant.

        In the numbers `references` is a JSON list, `shared` counts the `words` of the hypothesis that a reference has, each at
        most as often as one of them has it, and `bleu_1` is BLEU-1 of the image alone, of the same words.
        """
        from recstudy.report.shown import Shown

        data, notes = read_examples(records, self.where, "captions.json", partial(_read_captions, most=self.most))
        cards: list[list[Any]] = []
        facts: Sequence[str] = ()
        if not data.empty:
            data, damage = add_images(records, self.where, data)
            notes += damage
            cards = [answers.to_dict("records") for _, answers in data.groupby(["data", "row"], sort=False)]
            facts = made_notes(records, data["variant"].unique().tolist(), ("decode", "text", "image"))
        functions = {"reference_words": reference_words, "marked": marked, "picture": picture}
        body = render("captions.html.jinja", cards=cards, facts=facts, **functions)
        csv = data.reindex(columns=COLUMNS).to_csv(index=False)
        return Shown(self.name, csv=csv, body=body, notes=(*warnings(records), *notes))


def _read_captions(path: Path, most: int) -> list[Json]:
    return [
        {
            "row": example.row,
            "references": json.dumps(example.references, ensure_ascii=False),
            "_references": example.references,
            "hypothesis": example.hypothesis,
            **_scores(example.hypothesis, example.references),
        }
        for example in record_of(KeptCaptions, read_json(path) or {}).examples[:most]
    ]


def reference_words(references: Iterable[str]) -> Counter[str]:
    """Count each word as often as the reference that has it most: what BLEU lets a hypothesis match."""
    counts: Counter[str] = Counter()
    for reference in references:
        counts |= _words(reference)
    return counts


def _scores(hypothesis: str, references: Sequence[str]) -> Json:
    words = _words(hypothesis)
    shared, length = (words & reference_words(references)).total(), words.total()
    closest = min((_words(text).total() for text in references), key=lambda other: (abs(other - length), other), default=0)
    precision = shared / length if length else 0.0
    penalty = min(1.0, exp(1 - closest / length)) if length else 1.0
    return {"words": length, "shared": shared, "bleu_1": precision * penalty}


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def marked(text: str, rest: dict[str, int]) -> Markup:
    """Return the text with those of its words marked that `rest` counts, and take them from it."""
    parts = []
    for part in re.split(r"(\w+)", text):
        word = part.lower()
        if is_shared := rest.get(word, 0) > 0:
            rest[word] -= 1
        parts.append(Markup("<mark>{}</mark>").format(part) if is_shared else escape(part))
    return Markup().join(parts)
