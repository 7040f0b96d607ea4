"""How well an encoder's image and caption fall together: cosines before and after training (000, section III.D).

alignment.json    {"pairs": [{"row": 3, "caption": "...", "before": -0.02, "after": 0.45}, ...]}; images in captions.npz

Differences are what is reported: the paper's "over a 1900% increase" divides one by a cosine near zero (contradiction 000-10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from recstudy.evidence import Fit
from recstudy.lazy import go, pd, px
from recstudy.papers import Target, published
from recstudy.records import Json
from recstudy.report.caveats import made_notes
from recstudy.report.examples import folded as folded_caption
from recstudy.report.examples import picture, test_images
from recstudy.report.kept import damaged, read_kept, read_runs
from recstudy.report.look import PALETTE, SCREEN, folded
from recstudy.report.markup import render
from recstudy.report.parts import PARTS, BesidePublished, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.variants import run_columns

COLORS = {"before": PALETTE[1], "after": PALETTE[0]}
FEW = 60  # pairs that are drawn as points too
LETTERS = 20  # of a line beside a violin
ROW, AROUND = 70, 150  # pixels of a violin, and above and below all
COLUMNS = ["data", "row", "variant", "label", "seed", "caption", "before", "after", "difference", "published", "source"]
COLUMNS += ["synthetic"]


@PARTS.add("alignment")
class Alignment(FigurePart, OfVariants, BesidePublished):
    """Cosines of test images and their captions before and after training, and the differences: one seed of a variant."""

    name: str = "alignment"
    most: int = Field(default=12, ge=1)  # pairs of a variant that are shown with their image
    targets: tuple[Target, ...] = Field(default_factory=lambda: published("000_alignment_cosines"), kw_only=True)
    default_title: ClassVar[str] = "Cosine of image and caption, before and after training"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per pair of the first finished seed of the best variants, then the published pairs (without a row)."""
        runs, notes = read_runs(records, self.where, "alignment.json", read_pairs)
        images, image_notes = test_images(records, self.where)
        rows: list[Json] = []
        for run, pairs in runs:
            columns = {**run_columns(records, run), "published": False, "source": ""}
            rows += [{**columns, **pair, "_image": images.get((columns["data"], pair["row"]))} for pair in pairs]
        theirs = published_pairs(self.targets) if rows else []
        data = pd.DataFrame([*rows, *theirs], columns=[*COLUMNS, "_image"])
        data = data.astype(dict.fromkeys(("row", "variant", "seed"), "Int64"))  # the published pairs have none
        other = ["the published pairs are of other images and other weights: not comparable"] * bool(theirs)
        data.attrs["notes"] = list(dict.fromkeys([*notes, *image_notes, *other]))
        return data

    def caption(self, data: pd.DataFrame) -> str:
        counts = data.groupby("variant").size()
        caption = f"Each shape is the distribution over {_ends(counts, ',')} test pairs of one seed, its box the quartiles"
        return f"{caption}, its line the mean." + " Diamonds: the pairs that the paper prints." * bool(data["published"].any())

    def finding(self, data: pd.DataFrame) -> str:
        means = data.groupby("variant")[["before", "after"]].mean()
        return f"mean {_ends(means['before'], '.2f')} before, {_ends(means['after'], '.2f')} after"

    def below(self, records: StudyRecords, data: pd.DataFrame) -> str:
        """Return mean differences with their intervals over pairs, and the first pairs of each variant."""
        if data.empty:
            return ""
        groups = [part for _, part in data.groupby("variant", sort=False)]
        gains = [Fit({0: part["difference"].tolist()}).estimate(0) for part in groups]
        parts = list(zip([part.to_dict("records") for part in groups], gains, strict=True))
        facts = made_notes(records, data["variant"].dropna().unique().tolist(), ("text", "image"))
        values = {"theirs": data[data["published"]].to_dict("records"), "picture": picture, "folded": folded_caption}
        return render("alignment.html.jinja", parts=parts, most=self.most, facts=facts, **values)

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw the two distributions of each variant as halves of a violin, and each published pair beside them."""
        names = data["label"].where(~data["published"], "published, " + data["caption"].str.replace("_", " "))
        long = data.assign(place=[folded(name, LETTERS) for name in names])
        long = long.melt(["place", "published", "source"], list(COLORS), "when", "cosine")
        look: dict[str, Any] = {"x": "cosine", "y": "place", "color": "when", "color_discrete_map": COLORS, "template": SCREEN}
        look["labels"] = {"place": "", "cosine": "cosine of image and caption", "when": ""}
        points = "all" if data["variant"].value_counts().max() <= FEW else False
        figure = px.violin(long[~long["published"]], violinmode="overlay", box=True, points=points, **look)
        figure.update_traces(spanmode="hard", meanline_visible=True, jitter=0.2, hovertemplate="%{x:.4f}")
        for when, side, place in (("before", "negative", -0.5), ("after", "positive", 0.5)):
            figure.update_traces(side=side, pointpos=place, selector={"name": when})
        if data["published"].any():
            look |= {"symbol": "when", "symbol_sequence": ["diamond-open", "diamond"], "hover_data": ["source"]}
            diamonds = px.scatter(long[long["published"]], **look).update_traces(marker_size=12)
            figure.add_traces([trace.update(name=f"{trace.name}, paper") for trace in diamonds.data])
        rows = long["place"].nunique()
        return figure.update_layout(height=AROUND + ROW * rows, meta={"rows": True}).update_yaxes(autorange="reversed")


def read_pairs(path: Path) -> list[Json]:
    """Read each pair's `row`, `caption`, `before`, `after` and `difference`.

    Raises:
        StorageError: The file is damaged, or a cosine is none. The message names it.
    """
    pairs = read_kept(path, "pairs", {"row": int, "caption": str, "before": int | float, "after": int | float})
    for index, pair in enumerate(pairs):
        if not all(math.isfinite(pair[when]) and abs(pair[when]) < 1.001 for when in COLORS):  # rounding
            raise damaged(path, f"pairs[{index}] has a cosine outside -1 to 1")
    return [{**pair, "difference": pair["after"] - pair["before"]} for pair in pairs]


def published_pairs(targets: Sequence[Target]) -> list[Json]:
    """Return the published cosines, two of them a pair: the image's name is their only caption."""
    cosines = [target for target in targets if target.metric == "image_text_cosine"]
    last = {target.where["image"]: target for target in cosines if not target.note.startswith("before")}
    pairs = [(target, last[target.where["image"]]) for target in cosines if target.note.startswith("before")]
    return [
        {
            "data": before.where["data.name"],
            "label": "published",
            "caption": before.where["image"],
            "before": before.value,
            "after": after.value,
            "difference": after.value - before.value,
            "published": True,
            "source": f"{before.cited}; {after.cited}",
            "synthetic": False,
        }
        for before, after in pairs
    ]


def _ends(values: pd.Series, form: str) -> str:
    return " to ".join(dict.fromkeys(format(value, form) for value in (values.min(), values.max())))
