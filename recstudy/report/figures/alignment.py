"""How well an encoder's image and caption fall together: cosines before and after training (000, section III.D).

Two halves of a violin a variant, and the published pairs as diamonds beside them; below, mean differences, and the first pairs
of each variant with their image.

    alignment.json    {"pairs": [{"row": 3, "caption": "...", "before": -0.02, "after": 0.45}, ...]}; images in captions.npz

Differences are what is reported: the paper's "over a 1900% increase" divides one by a cosine near zero (contradiction 000-10).
"""

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap

import pandas as pd
import plotly.graph_objects as go

from recstudy.evidence import Fit
from recstudy.papers import Target
from recstudy.records import Json
from recstudy.report.figure_fields import Alignment
from recstudy.report.figures.captions import Examples, folded, kept_examples, picture
from recstudy.report.figures.layout import Drawn
from recstudy.report.figures.theme import PALETTE, SCREEN, Size, scatter, shown, tint
from recstudy.report.kept import damaged, read_kept
from recstudy.report.markup import Html, escape, fold, table, words_table
from recstudy.report.names import DASH, plural
from recstudy.report.study_records import StudyRecords

COLORS = {"before": PALETTE[1], "after": PALETTE[0]}  # orange and blue
# Of the violin's middle: left and right; where the points stand; and as what.
SIDES = {"before": ("negative", -0.5, "circle-open"), "after": ("positive", 0.5, "circle")}
FEW = 60  # pairs that are drawn as points too
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


def read_pairs(path: Path) -> list[Json]:
    """Read each pair's `row`, `caption`, `before`, `after` and `difference`.

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


def draw_alignment(records: StudyRecords, spec: Alignment) -> Drawn:
    """Draw the pairs of the first finished seed of each of the best variants, and those that the paper prints.

    In the data a row a pair, the published ones last (`published`, with `source` and no row).
    """
    kept = kept_examples(records, spec.where, PAIRS, MOST, read_pairs, ("text", "image"))
    if kept.frame.empty:
        none = pd.DataFrame(columns=COLUMNS)
        return Drawn(partial(_figure, [], none), none, spec.heading, kept.notes)
    theirs = pd.DataFrame(printed_pairs(spec.targets), columns=COLUMNS)
    other = () if theirs.empty else ("the published pairs are of other images and other weights: not comparable",)
    data = pd.concat([kept.frame.assign(published=False, source=""), theirs], ignore_index=True)[COLUMNS]
    data = data.astype(dict.fromkeys(("row", "variant", "seed"), "Int64"))  # the published have none
    ours, pairs = data[~data["published"].astype(bool)], data[data["published"].astype(bool)]
    parts = [part for _, part in ours.groupby("variant", sort=False)]
    means = [[part[when].mean() for part in parts] for when in COLORS]
    ends = [" to ".join(dict.fromkeys(f"{one:.2f}" for one in (min(own), max(own)))) for own in means]
    counts = sorted({len(part) for part in parts})
    of = " to ".join(dict.fromkeys((f"{counts[0]:,}", f"{counts[-1]:,}")))
    marks = " Diamonds: the pairs that the paper prints." * (not pairs.empty)
    caption = f"Each shape is the distribution over {of} test pairs of one seed, its box the quartiles, its line the mean.{marks}"
    below, finding = _html(kept, parts, pairs, spec), f"mean {ends[0]} before, {ends[1]} after"
    return Drawn(partial(_figure, parts, pairs), data, spec.heading, (*kept.notes, *other), caption, below, finding)


def _html(kept: Examples, parts: Sequence[pd.DataFrame], pairs: pd.DataFrame, spec: Alignment) -> str:
    """Show by variant mean cosines and the mean difference with its 95 % interval over pairs, and its first pairs in a box."""
    rows = []
    for part in parts:
        gain = Fit({0: part["difference"].tolist()}).estimate(0)
        rose = f"{int((part['difference'] > 0).sum())} of {len(part)}"
        change = f"{gain.value:+.4f}" + (f" [{gain.low:+.4f}, {gain.high:+.4f}]" if gain.low is not None else "")
        name = f"{part['label'].iloc[0]}, seed {part['seed'].iloc[0]}"
        rows.append((name, rose, f"{part['before'].mean():.4f}", f"{part['after'].mean():.4f}", change))
    for pair in pairs.to_dict("records"):
        name = f"published, {pair['data']} {pair['caption']}"
        rows.append((name, DASH, f"{pair['before']:.4f}", f"{pair['after']:.4f}", f"{pair['difference']:+.4f} (one pair)"))
    html: str = words_table("Mean differences, after less before", MEANS, rows)
    html += "".join(f'<p class="caption">{escape(line)}.</p>' for line in (INTERVALS, RATIO, *kept.told))
    for part in parts:
        shown_pairs = []
        for pair in part.head(spec.most).to_dict("records"):
            row = int(pair["row"])
            image = picture(kept.images.get((pair["data"], row)), f"test image {row}")
            numbers = [f"{pair['before']:.4f}", f"{pair['after']:.4f}", f"{pair['difference']:+.4f}"]
            shown_pairs.append([Html(words) for words in (f"{image}<small>{row}</small>", folded(pair["caption"]), *numbers)])
        label = f"{part['label'].iloc[0]}: the first {plural(len(shown_pairs), 'test pair')}"
        html += fold(label, table(label, PAIR_HEADS, shown_pairs, {1: "prose"}, "pairs"))
    return html


def _figure(parts: Sequence[pd.DataFrame], published: pd.DataFrame, size: Size = SCREEN) -> go.Figure:
    """Draw the two distributions of each variant, with its name on the axis; the published pairs each at a place of its own."""

    def place(label: str) -> str:
        """Put a label on the axis, in four short lines at most; in print it is folded again."""
        return "<br>".join(map(shown, wrap(label, 16, max_lines=4, placeholder=" \N{HORIZONTAL ELLIPSIS}")))

    figure = go.Figure()
    for when, color in COLORS.items():
        for at, part in enumerate(parts):
            side, apart, symbol = SIDES[when]
            look = {"side": side, "line": {"color": color}, "fillcolor": tint(color, 0.3), "hoverinfo": "y"}
            look |= {"spanmode": "hard", "meanline": {"visible": True}, "box": {"visible": True}}  # hard: up to the last pair
            dots = {"points": "all" if len(part) <= FEW else False, "pointpos": apart, "jitter": 0.2}
            marker = {"size": 5, "color": color, "symbol": symbol}
            half = scatter([place(part["label"].iloc[0])] * len(part), part[when], name=when, legendgroup=when)
            figure.add_violin(**{**half, **look, **dots, "marker": marker, "showlegend": at == 0})
        pairs = published.to_dict("records")
        if pairs:
            said = [f"published, {pair['caption']}, {when}: {pair[when]:.4f}; {pair['source']}" for pair in pairs]
            x, y = [place(f"published, {pair['caption'].replace('_', ' ')}") for pair in pairs], [pair[when] for pair in pairs]
            symbol = "diamond-open" if when == "before" else "diamond"
            marker = {"symbol": symbol, "size": 12, "color": color, "line": {"width": 2}}
            figure.add_scatter(**scatter(x, y, said, f"{when}, paper", legendgroup=when, mode="markers", marker=marker))
    figure.update_layout(violinmode="overlay", violingap=0.2)
    places = len(dict.fromkeys(place for trace in figure.data for place in trace.x))
    figure.update_xaxes(type="category", range=[-0.6, places - 0.4])  # room for the halves at both ends
    return figure.update_yaxes(title="cosine of image and caption")
