"""Aligned pairs as HTML, under their figure: the mean differences, and the first pairs of each variant with their image."""

from collections.abc import Hashable
from typing import Any

import pandas as pd

from recstudy.analysis.alignment import Aligned, summary
from recstudy.analysis.cards import folded, picture
from recstudy.analysis.names import plural
from recstudy.analysis.page import escape, fold, words_table
from recstudy.analysis.spec import Alignment

MEANS = ("variant", "pairs that rose", "mean before", "mean after", "mean difference (95 % interval)")
INTERVALS = "Intervals are over the pairs of one seed: they say nothing of other seeds"
HEADS = ("test image", "caption", "before", "after", "difference")


def alignment_html(data: Aligned, spec: Alignment) -> str:
    """Empty where there are no pairs."""
    if data.ours.empty:
        return ""
    told = "".join(f'<p class="caption">{escape(line)}.</p>' for line in (INTERVALS, *data.told))
    lists = "".join(_list(data, part.head(spec.most)) for _, part in data.ours.groupby("variant", sort=False))
    return words_table("Mean differences, after less before", MEANS, summary(data)) + told + lists


def _list(data: Aligned, part: pd.DataFrame) -> str:
    """One variant's first pairs in a box that opens and scrolls."""
    label = f"{part['label'].iloc[0]}: the first {plural(len(part), 'test pair')}"
    heads = "".join(f'<th scope="col"{" class=prose" if head == "caption" else ""}>{head}</th>' for head in HEADS)
    rows = "\n".join(_row(data, pair) for pair in part.to_dict("records"))
    table = f'<table class="pairs"><thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
    return fold(label, f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{table}</div>')


def _row(data: Aligned, pair: dict[Hashable, Any]) -> str:
    row = int(pair["row"])
    image = picture(data.images.get((pair["data"], row)), f"test image {row}")
    numbers = f"<td>{pair['before']:.4f}</td><td>{pair['after']:.4f}</td><td>{pair['difference']:+.4f}</td>"
    return f'<tr><th scope="row">{image}<small>{row}</small></th><td class="prose">{folded(pair["caption"])}</td>{numbers}</tr>'
