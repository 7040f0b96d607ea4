"""The report parts `Captions` and `Alignment`: generated captions, and cosines of images and captions.

`Captions` shows cards with test images, references and generated captions. `Alignment` shows how close an
encoder places an image and its caption before and after training (000, section III.D). They read these files
of a run:

    captions.json    {"examples": [{"row": 12, "references": ["...", "..."], "hypothesis": "..."}, ...]}
    captions.npz     the images
    alignment.json   {"pairs": [{"row": 3, "caption": "...", "before": -0.02, "after": 0.45, "image": "FILE"},
                                ...]}
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import exp
from pathlib import Path, PurePath
from typing import Annotated, Any, Self

from markupsafe import Markup, escape
from pydantic import Field

from recstudy.base.lazy import go, pd, px
from recstudy.evidence import Fit
from recstudy.papers import Target, published
from recstudy.records import Json, read_json
from recstudy.records.reading import record_of
from recstudy.records.schema import Integer, record
from recstudy.recursive.config.parts import Count
from recstudy.recursive.figures.examples import add_images, read_examples
from recstudy.recursive.figures.tiles import picture
from recstudy.report.caveats import method_notes, warnings
from recstudy.report.figures.learning_curves import span
from recstudy.report.look import PALETTE, SCREEN, folded
from recstudy.report.page import render
from recstudy.report.parts import PARTS, BesidePublished, FigurePart, OfVariants
from recstudy.report.shown import RenderedPart
from recstudy.report.study_records import StudyRecords

Cosine = Annotated[float, Field(gt=-1.001, lt=1.001)]  # with a tolerance for rounding
CARDS = [
    "data",
    "row",
    "variant",
    "label",
    "seed",
    "references",
    "hypothesis",
    "words",
    "shared",
    "bleu_1",
    "synthetic",
]


@record
class KeptCaption:
    """A test image with its reference captions and the generated caption."""

    row: Integer
    references: tuple[str, ...]
    hypothesis: str


@record
class KeptCaptions:
    """`captions.json` of a run."""

    examples: tuple[KeptCaption, ...]


@record
class CosinePair:
    """The cosine similarity of a test image and its caption, before and after training."""

    row: Integer
    caption: str
    before: Cosine
    after: Cosine
    image: str = ""  # its file; empty if unknown


@record
class CosinePairs:
    """`alignment.json` of a run."""

    pairs: tuple[CosinePair, ...]


@PARTS.add("captions")
class Captions(OfVariants):
    """Test images with their reference captions and the caption that each variant generates.

    The part is a section of the page and a CSV file. It shows one seed of each variant.

    Args:
        name: The name of the part and of its files.
        most: Maximum number of images; a run keeps 36.
    """

    run_file = "captions.json"
    name: str = "captions"
    most: Count = 12
    default_title = "Reference captions and generated captions"

    def render(self, records: StudyRecords) -> RenderedPart:
        """Return a card for each of the first images, and a CSV with a row per image and variant.

        In the CSV, `references` is a JSON list and `words` the length of the hypothesis. `shared` counts its
        words that a reference contains, each at most as often as a reference does. `bleu_1` is BLEU-1 of this
        image alone.
        """
        data, notes = read_examples(records, self, self._read)
        cards: list[list[Any]] = []
        facts: Sequence[str] = ()
        if not data.empty:
            data, damage = add_images(records, self.where, data)
            notes += damage
            cards = [answers.to_dict("records") for _, answers in data.groupby(["data", "row"], sort=False)]
            facts = method_notes(records, data["variant"].unique().tolist(), ("decode", "text", "image"))
        body = render(
            "captions.html.jinja",
            "recstudy.recursive.figures",
            cards=cards,
            facts=facts,
            reference_words=reference_words,
            mark_words=mark_words,
            picture=picture,
        )
        csv = data.reindex(columns=CARDS).to_csv(index=False)
        return RenderedPart(self.name, csv=csv, body=body, notes=(*warnings(records), *notes))

    def _read(self, path: Path) -> list[Json]:
        rows: list[Json] = []
        for example in record_of(KeptCaptions, read_json(path) or {}).examples[: self.most]:
            words, references = _words(example.hypothesis), example.references
            shared, length = (words & reference_words(references)).total(), words.total()
            # BLEU's brevity penalty uses the closest length, the shorter of two equally close ones
            lengths = sorted(_words(text).total() for text in references)
            closest = min(lengths, key=lambda count: abs(count - length), default=0)
            rows.append(
                {
                    "row": example.row,
                    "references": json.dumps(references, ensure_ascii=False),
                    "_references": references,
                    "hypothesis": example.hypothesis,
                    "words": length,
                    "shared": shared,
                    "bleu_1": shared / length * min(1.0, exp(1 - closest / length)) if length else 0.0,
                }
            )
        return rows


def reference_words(references: Iterable[str]) -> Counter[str]:
    """Count each word as often as in the reference that has it most often."""
    # these are the clipped counts of BLEU: a hypothesis may match a word at most so often
    counts: Counter[str] = Counter()
    for reference in references:
        counts |= _words(reference)
    return counts


def _words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def mark_words(text: str, rest: dict[str, int]) -> Markup:
    """Return the text with its words marked that `rest` still counts, and reduce these counts.

    Args:
        text: A caption.
        rest: How often each word may still be marked; changed in place.
    """
    marked = Markup()
    for part in re.split(r"(\w+)", text):
        word, markup = part.lower(), escape(part)
        if rest.get(word, 0) > 0:
            rest[word] -= 1
            markup = Markup("<mark>{}</mark>").format(part)
        marked += markup
    return marked


COLORS = {"before": PALETTE[1], "after": PALETTE[0]}
MAX_DOTS = 60  # up to so many pairs, each is drawn as a point too
LETTERS = 20  # characters in a line of a violin's label
VIOLIN_HEIGHT, MARGINS = 70, 150  # pixels per violin, and above and below all violins
PAIRS = [
    "data",
    "row",
    "image",
    "variant",
    "label",
    "seed",
    "caption",
    "before",
    "after",
    "difference",
    "published",
    "printed",
    "source",
    "synthetic",
    "_image",
]
OTHER_PAIRS = "the published pairs belong to other images and other weights: not comparable"
SAME_PAIRS = "the published pairs belong to the same images, and to weights that the paper's authors trained"


@PARTS.add("alignment")
class Alignment(FigurePart, OfVariants, BesidePublished):
    """Cosines of test images and their captions before and after training, for one seed of each variant.

    It reports differences and no ratios. The paper's "over a 1900% increase" divides a difference by a cosine
    near zero (contradiction 000-10).

    Args:
        name: The name of the part and of its files.
        most: Maximum number of pairs of a variant that are shown with their image.
        targets: The published cosines.
    """

    run_file = "alignment.json"
    name: str = "alignment"
    most: Count = 12
    targets: tuple[Target, ...] = Field(
        default_factory=lambda: published("000_alignment_cosines"), kw_only=True
    )
    default_title = "Cosine of image and caption, before and after training"

    @classmethod
    def of_run(cls, config: Json) -> Self:
        return cls(targets=())

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per pair of the first finished seed of the best variants, then the published pairs.

        Published pairs have no row in a data set. `printed` marks them, and pairs of the same images.
        """
        data, notes = read_examples(records, self, read_pairs)
        if not data.empty:
            data, damage = add_images(records, self.where, data.assign(published=False, source=""))
            notes += damage
            theirs = _published_pairs(self.targets)
            stems = tuple(PurePath(name).stem for name in theirs["caption"])
            is_printed = data["image"].map(lambda file: PurePath(file).stem.endswith(stems))
            names = [records.configs[index].get("data.name") for index in data["variant"]]
            data["printed"] = is_printed & pd.Series(names, data.index).isin(theirs["data"])
            if not theirs.empty:
                # the published pairs have no row, variant or seed, and only Int64 allows missing values
                integers = dict.fromkeys(("row", "variant", "seed"), "Int64")
                data = pd.concat([data.astype(integers), theirs], ignore_index=True)
                notes.append(SAME_PAIRS if data["printed"].sum() > len(theirs) else OTHER_PAIRS)
        data = data.reindex(columns=PAIRS)
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        counts = data.groupby("variant").size()
        caption = (
            f"Each shape is the distribution over {span(counts, ',')} test pairs of one seed. Boxes show"
            " quartiles, and lines inside them means."
        )
        return f"{caption} Diamonds: pairs printed in the paper." if data["published"].any() else caption

    def finding(self, data: pd.DataFrame) -> str:
        means = data.groupby("variant")[["before", "after"]].mean()
        return f"mean {span(means['before'], '.2f')} before, {span(means['after'], '.2f')} after"

    def html_below(self, records: StudyRecords, data: pd.DataFrame) -> str:
        """Return a table of mean differences with intervals, and the first pairs of each variant."""
        if data.empty:
            return ""
        parts = [
            (rows.to_dict("records"), Fit({0: [*rows["difference"]]}).estimate(0))
            for _, rows in data.groupby("variant")
        ]
        facts = method_notes(records, data["variant"].dropna().unique().tolist(), ("text", "image"))
        theirs = data[data["printed"].astype(bool)].to_dict("records")
        return render(
            "alignment.html.jinja",
            "recstudy.recursive.figures",
            parts=parts,
            theirs=theirs,
            facts=facts,
            most=self.most,
            picture=picture,
        )

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw the two distributions of each variant as halves of a violin, and the published pairs below."""
        names = data["label"].where(~data["published"], "published, " + data["caption"].str.replace("_", " "))
        data = data.assign(place=[folded(name, LETTERS) for name in names])
        cosines = data.melt(
            ["place", "published", "variant", "source"], ["before", "after"], "when", "cosine"
        )
        look = {
            "x": "cosine",
            "y": "place",
            "color": "when",
            "color_discrete_map": COLORS,
            "template": SCREEN,
        }
        ours = cosines[~cosines["published"]]
        points = "all" if data["variant"].value_counts().max() <= MAX_DOTS else False
        figure = px.violin(ours, orientation="h", box=True, points=points, violinmode="overlay", **look)
        figure.update_traces(width=1, spanmode="hard", meanline_visible=True, jitter=0.2)
        figure.update_traces(side="negative", pointpos=-0.5, selector={"name": "before"})
        figure.update_traces(side="positive", pointpos=0.5, selector={"name": "after"})
        theirs = cosines[cosines["published"]]
        diamonds = px.scatter(
            theirs, symbol="when", symbol_sequence=["diamond-open", "diamond"], hover_data=["source"], **look
        )
        diamonds.for_each_trace(lambda trace: trace.update(name=f"{trace.name}, paper", marker_size=12))
        figure.add_traces(diamonds.data)
        # the first and the last half need room at both ends of the axis
        figure.update_yaxes(title="", range=[data["place"].nunique() - 0.4, -0.6])
        return figure.update_layout(
            height=MARGINS + VIOLIN_HEIGHT * data["place"].nunique(), legend_title="", meta={"rows": True}
        )


def read_pairs(path: Path) -> list[Json]:
    pairs = record_of(CosinePairs, read_json(path) or {}).pairs
    return [{**asdict(pair), "difference": pair.after - pair.before} for pair in pairs]


def _published_pairs(targets: Sequence[Target]) -> pd.DataFrame:
    """Return the published cosines in pairs, before and after training.

    The paper prints no captions of these images, so that the name of the image serves as the caption.
    """
    rows = [
        (target.where["data.name"], str(target.where["image"]), target.value, target.cited, target.note)
        for target in targets
        if target.metric == "image_text_cosine"
    ]
    cosines = pd.DataFrame(rows, columns=["data", "caption", "value", "source", "note"])
    is_before = cosines.pop("note").str.startswith("before")
    pairs = cosines[is_before].merge(cosines[~is_before], on=["data", "caption"])
    pairs = pairs.rename(columns={"value_x": "before", "value_y": "after"})
    return pairs.assign(
        label="published",
        difference=pairs["after"] - pairs["before"],
        published=True,
        printed=True,
        source=pairs["source_x"] + "; " + pairs["source_y"],
        synthetic=False,
    )
