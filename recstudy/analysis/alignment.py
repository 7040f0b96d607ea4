"""How well an encoder's image and caption fall together: cosines before and after training (000, section III.D), as data; and
the tables under their figure: mean differences, and the first pairs of each variant with their image.

    alignment.json    {"pairs": [{"row": 3, "caption": "...", "before": -0.02, "after": 0.45}, ...]}; images in captions.npz

Differences are what is reported: the paper's "over a 1900% increase" divides one by a cosine near zero (contradiction 000-10).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from recstudy.analysis.examples import Examples, damaged, folded, kept_examples, picture, read_kept
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Html, escape, fold, table, words_table
from recstudy.evidence import Fit
from recstudy.papers import Target
from recstudy.records import Json
from recstudy.report import Alignment
from recstudy.report.names import DASH, plural

MOST = 6  # variants: more violins do not fit side by side
PAIRS = "alignment.json"
COLUMNS = ["data", "row", "variant", "label", "seed", "caption", "before", "after", "difference", "published", "source"]
COLUMNS += ["synthetic"]
RATIO = (
    'The paper\'s "over a 1900% increase" divides the difference 0.4813 by 0.0253, the size of a negative cosine: next to '
    "zero such a ratio can be any number, and it is shown nowhere here (contradiction ImageHRM/ImageTRM-10)"
)
MEANS = ("variant", "pairs that rose", "mean before", "mean after", "mean difference (95 % interval)")
INTERVALS = "Intervals are over the pairs of one seed: they say nothing of other seeds"
PAIR_HEADS = ("test image", "caption", "before", "after", "difference")


@dataclass(frozen=True)
class Aligned(Examples):
    """One row of `frame` a pair, the published ones last (`published`, with `source` and no row)."""

    @property
    def ours(self) -> pd.DataFrame:
        return self.frame[~self.frame["published"].astype(bool)]

    @property
    def published(self) -> pd.DataFrame:
        return self.frame[self.frame["published"].astype(bool)]


def alignment_data(records: StudyRecords, spec: Alignment, most: int = MOST) -> Aligned:
    """The pairs of the first finished seed of each of the `most` best variants, and those that the paper prints."""
    kept = kept_examples(records, spec.where, PAIRS, most, read_pairs, ("text", "image"))
    if kept.frame.empty:
        return Aligned(pd.DataFrame(columns=COLUMNS), {}, kept.notes, ())
    theirs = pd.DataFrame(printed_pairs(spec.targets), columns=COLUMNS)
    other = () if theirs.empty else ("the published pairs are of other images and other weights: not comparable",)
    frame = pd.concat([kept.frame.assign(published=False, source=""), theirs], ignore_index=True)[COLUMNS]
    frame = frame.astype(dict.fromkeys(("row", "variant", "seed"), "Int64"))  # the published have none
    return Aligned(frame, kept.images, (*kept.notes, *other), (RATIO, *kept.told))


def read_pairs(path: Path) -> list[Json]:
    """Each pair's `row`, `caption`, `before`, `after` and `difference`.

    Raises:
        StorageError: the file is damaged, or a cosine is none. The message names it.
    """
    kinds = {"row": int, "caption": str, "before": int | float, "after": int | float}
    pairs = read_kept(path, "pairs", kinds)
    for at, pair in enumerate(pairs):
        if not all(math.isfinite(pair[name]) and abs(pair[name]) < 1.001 for name in ("before", "after")):  # rounding
            raise damaged(path, f"pairs[{at}] has a cosine outside -1 to 1")
    return [{name: pair[name] for name in kinds} | {"difference": pair["after"] - pair["before"]} for pair in pairs]


def printed_pairs(targets: Sequence[Target]) -> list[Json]:
    """Return the published cosines, two of them a pair: the image's name is their only caption."""
    pairs: dict[str, dict[str, Target]] = {}
    for target in (target for target in targets if target.metric == "image_text_cosine"):
        when = "before" if target.note.startswith("before") else "after"
        pairs.setdefault(str(target.where["image"]), {})[when] = target
    rows = []
    for image, (before, after) in ((image, (pair["before"], pair["after"])) for image, pair in pairs.items() if len(pair) == 2):
        own = {"data": before.where["data.name"], "label": "published", "caption": image, "published": True, "synthetic": False}
        values = {"before": before.value, "after": after.value, "difference": after.value - before.value}
        rows.append({**own, **values, "source": f"{before.cited}; {after.cited}"})
    return rows


def summary(data: Aligned) -> list[tuple[str, str, str, str, str]]:
    """By variant: pairs, mean cosine before and after, and the mean difference with its 95 % interval over the pairs."""
    rows = []
    for _, part in data.ours.groupby("variant", sort=False):
        gain = Fit({0: part["difference"].tolist()}).estimate(0)
        rose = f"{int((part['difference'] > 0).sum())} of {len(part)}"
        change = f"{gain.value:+.4f}" + (f" [{gain.low:+.4f}, {gain.high:+.4f}]" if gain.low is not None else "")
        name = f"{part['label'].iloc[0]}, seed {part['seed'].iloc[0]}"
        rows.append((name, rose, f"{part['before'].mean():.4f}", f"{part['after'].mean():.4f}", change))
    for pair in data.published.to_dict("records"):
        name = f"published, {pair['data']} {pair['caption']}"
        rows.append((name, DASH, f"{pair['before']:.4f}", f"{pair['after']:.4f}", f"{pair['difference']:+.4f} (one pair)"))
    return rows


def alignment_caption(data: Aligned) -> str:
    """How to read the figure."""
    if data.ours.empty:
        return ""
    counts = sorted({f"{count:,}": count for count in data.ours.groupby("variant").size()}.items(), key=lambda item: item[1])
    pairs = " to ".join(dict.fromkeys((counts[0][0], counts[-1][0])))
    marks = " Diamonds: the pairs that the paper prints." * (not data.published.empty)
    return f"Each shape is the distribution over {pairs} test pairs of one seed, its box the quartiles, its line the mean.{marks}"


def alignment_html(data: Aligned, spec: Alignment) -> str:
    """Show the means, and each variant's first pairs in a box that opens; nothing where there are no pairs."""
    if data.ours.empty:
        return ""
    html: str = words_table("Mean differences, after less before", MEANS, summary(data))
    html += "".join(f'<p class="caption">{escape(line)}.</p>' for line in (INTERVALS, *data.told))
    for _, part in data.ours.groupby("variant", sort=False):
        rows = []
        for pair in part.head(spec.most).to_dict("records"):
            row = int(pair["row"])
            image = picture(data.images.get((pair["data"], row)), f"test image {row}")
            numbers = [f"{pair['before']:.4f}", f"{pair['after']:.4f}", f"{pair['difference']:+.4f}"]
            rows.append([Html(words) for words in (f"{image}<small>{row}</small>", folded(pair["caption"]), *numbers)])
        label = f"{part['label'].iloc[0]}: the first {plural(len(rows), 'test pair')}"
        html += fold(label, table(label, PAIR_HEADS, rows, {1: "prose"}, "pairs"))
    return html
