"""How well an encoder's image and caption fall together: cosines before and after training (000, section III.D).

alignment.json    {"pairs": [{"row": 3, "caption": "...", "before": -0.02, "after": 0.45}, ...]}; images in captions.npz

Differences are what is reported: the paper's "over a 1900% increase" divides one by a cosine near zero (contradiction 000-10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from recstudy.evidence import Fit
from recstudy.lazy import go, pd
from recstudy.papers import Target, published
from recstudy.records import Json
from recstudy.records.schema import CosinePairs
from recstudy.report.caveats import made_notes
from recstudy.report.kept import kept_images, read_kept, read_runs
from recstudy.report.look import PALETTE, folded
from recstudy.report.markup import render
from recstudy.report.parts import PARTS, BesidePublished, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import picture
from recstudy.report.variants import run_columns

HALVES = (  # of a violin: cosine, color, side, where its points are, and the symbol of published cosines
    ("before", PALETTE[1], "negative", -0.5, "diamond-open"),
    ("after", PALETTE[0], "positive", 0.5, "diamond"),
)
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
        images = kept_images(records, self.where, notes)
        rows: list[Json] = []
        for run, pairs in runs:
            columns = {**run_columns(records, run), "published": False, "source": "", "_place": run.label}
            rows += [{**columns, **pair, "_image": images.get((columns["data"], pair["row"]))} for pair in pairs]
        theirs = published_pairs(self.targets) if rows else []
        data = pd.DataFrame([*rows, *theirs], columns=[*COLUMNS, "_image", "_place"])
        data = data.astype(dict.fromkeys(("row", "variant", "seed"), "Int64"))  # the published pairs have none
        other = "the published pairs are of other images and other weights: not comparable"
        data.attrs["notes"] = [*notes, other] if theirs else notes
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
        parts = [part.to_dict("records") for _, part in data.groupby("variant", sort=False)]
        gains = [Fit({0: [pair["difference"] for pair in pairs]}).estimate(0) for pairs in parts]
        facts = made_notes(records, [pairs[0]["variant"] for pairs in parts], ("text", "image"))
        theirs = data[data["published"]].to_dict("records")
        values = {"parts": list(zip(parts, gains, strict=True)), "theirs": theirs, "facts": facts}
        return render("alignment.html.jinja", most=self.most, picture=picture, **values)

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw the two distributions of each variant as halves of a violin, and each published pair beside them."""
        data = data.assign(place=[folded(place, LETTERS) for place in data["_place"]])
        ours, theirs = data[~data["published"]], data[data["published"]]
        points = "all" if ours["variant"].value_counts().max() <= FEW else False
        rows = data["place"].nunique()
        figure = go.Figure(layout={"violinmode": "overlay", "height": AROUND + ROW * rows, "meta": {"rows": True}})
        for when, color, side, place, symbol in HALVES:
            shape: dict[str, Any] = {"side": side, "width": 1, "spanmode": "hard", "meanline_visible": True, "box_visible": True}
            dots: dict[str, Any] = {"points": points, "pointpos": place, "jitter": 0.2, "hoverinfo": "x"}
            figure.add_violin(x=ours[when], y=ours["place"], name=when, orientation="h", line_color=color, **shape, **dots)
            if len(theirs):
                marker = {"symbol": symbol, "size": 12, "color": color}
                named = {"name": f"{when}, paper", "hovertext": theirs["source"]}
                figure.add_scatter(x=theirs[when], y=theirs["place"], mode="markers", marker=marker, **named)
        figure.update_yaxes(range=[rows - 0.4, -0.6])  # room for the halves at both ends
        return figure.update_xaxes(title="cosine")


def read_pairs(path: Path) -> list[Json]:
    """Read each pair's `row`, `caption`, `before`, `after` and `difference`.

    Raises:
        StorageError: The file is damaged. The message names it.
    """
    pairs = read_kept(path, CosinePairs).pairs
    return [{**asdict(pair), "difference": pair.after - pair.before} for pair in pairs]


def published_pairs(targets: Sequence[Target]) -> list[Json]:
    """Return the published cosines, two of them a pair: the image's name is their only caption."""
    cosines = [target for target in targets if target.metric == "image_text_cosine"]
    first, last = (
        {str(target.where["image"]): target for target in cosines if target.note.startswith("before") is is_first}
        for is_first in (True, False)
    )
    return [
        {
            "data": before.where["data.name"],
            "label": "published",
            "caption": image,
            "before": before.value,
            "after": last[image].value,
            "difference": last[image].value - before.value,
            "published": True,
            "source": f"{before.cited}; {last[image].cited}",
            "synthetic": False,
            "_place": f"published, {image.replace('_', ' ')}",
        }
        for image, before in first.items()
        if image in last
    ]


def _ends(values: pd.Series, form: str) -> str:
    return " to ".join(dict.fromkeys(format(value, form) for value in (values.min(), values.max())))
