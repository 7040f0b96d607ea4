"""The report part `Arithmetic`: published numbers that counting alone can check.

An example is how many parameters a new vocabulary adds. Nothing is trained for this table. `counted_claims`
compares our counts with the published numbers, and tests call it too.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.lazy import pd
from recstudy.evidence import Verdict
from recstudy.papers import Target, by_name, published
from recstudy.report.names import in_own_unit, join_texts, metric
from recstudy.report.parts import PARTS, BesidePublished
from recstudy.report.shown import RenderedPart
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import Number, Piece, TableData, TableEntry, TableRow

APPROXIMATE = 0.01  # relative tolerance for a number that its paper calls approximate
UNITS = {"percent": "%", "params": "parameters"}
STATEMENTS = {
    "vocab_old": "vocabulary, before",
    "vocab_new": "vocabulary, after",
    "seq_len_old": "sequence length, before",
    "seq_len_new": "sequence length, after",
    "seq_len_patch": "sequence length, one of two patches",
    "embed_old": "token embedding, before",
    "embed_new": "token embedding, after",
    "lm_head_old": "output head, before",
    "lm_head_new": "output head, after",
    "total_increase": "total increase",
    "total_increase_exact": "total increase, exact",
    "growth_percent": "growth of the model",
    "params_model": "parameters of the model",
    "train_images": "training images",
    "params_ratio_vs_vit_small": "times fewer parameters than ViT-Small",
    "params_ratio_vs_vit_base": "times fewer parameters than ViT-Base",
    "params_ratio_vs_resnet50": "times fewer parameters than ResNet-50",
    "params_ratio_max_vs_vit": "times fewer parameters than a ViT, at most",
    "params_ratio_max_vs_cnn": "times fewer parameters than a CNN, at most",
    "epoch_speedup_vs_hrm": "times faster per epoch than HRM",
}
COLUMNS = ("published", "counted", "verdict", "note")


@PARTS.add("arithmetic")
class Arithmetic(BesidePublished):
    """Compare published numbers with our own counts, and give a verdict on each.

    Args:
        counted: Our count for each target metric, or for model and metric ("ViT-Base params") if several
            models have the metric. Parameters are counted singly where the paper prints millions; shares are
            in percent where the paper prints a fraction or percent. A note lists targets without a count.
        given: Metrics in `counted` that the study put in itself, so that counting does not reproduce them.
        targets: The published numbers.
    """

    name: str = "arithmetic"
    counted: dict[str, float] = Field(default_factory=dict)
    given: tuple[str, ...] = ()
    targets: tuple[Target, ...] = Field(
        default_factory=lambda: published("001_parameter_arithmetic"), kw_only=True
    )
    default_title = "Published parameter arithmetic, counted again"

    def __post_init__(self) -> None:
        names = dict.fromkeys(name for target in self.targets for name in (target.metric, _of_model(target)))
        for name in self.counted:
            if name not in names:
                metrics = list(dict.fromkeys(target.metric for target in self.targets))
                raise ConfigError(
                    f"arithmetic {self.name!r}: counted has {name!r}, but the targets have"
                    f" {choices(metrics)}.{nearest(name, names)}"
                )
        for name in self.given:
            if name not in self.counted:
                raise ConfigError(
                    f"arithmetic {self.name!r}: given has {name!r}, but counted has"
                    f" {choices(self.counted)}.{nearest(name, self.counted)}"
                )

    def render(self, records: StudyRecords) -> RenderedPart:
        """Return the table with a row per published number, and its CSV."""
        claims = counted_claims(self)
        verdicts = [claim.verdict for claim in claims]
        agreeing = verdicts.count(Verdict.AGREES)
        # a number that the study put in, or of another quantity, can neither agree nor differ
        words = f"{agreeing} of {agreeing + verdicts.count(Verdict.DIFFERS)} agree with our count"
        if given_count := verdicts.count(Verdict.GIVEN_VALUE):
            words += f", {given_count} given"
        sources = ", ".join(dict.fromkeys(by_name(claim.target.table) for claim in claims))
        caption = f"{sources or 'Nothing counted'}: {words}; nothing was trained for this"
        uncounted = dict.fromkeys(
            statement(target) for target in self.targets if _count_of(self, target) is None
        )
        notes = [f"not counted in this study: {'; '.join(uncounted)}"] if uncounted else []
        table = TableData(
            self.name,
            self.heading,
            COLUMNS,
            [claim.row for claim in claims],
            corner="statement",
            caption=caption,
            notes=notes,
            kinds={"note": "prose"},
        )
        return RenderedPart(
            self.name,
            table=table,
            csv=pd.DataFrame([claim.fields for claim in claims], dtype=object).to_csv(index=False),
        )


@dataclass(frozen=True)
class CountedClaim:
    """A published number and our count, both in the published unit."""

    target: Target
    counted: float
    is_given: bool = False  # the study put the number in and did not count it

    @property
    def verdict(self) -> Verdict:
        """Whether our count agrees with the published number.

        NOT_COMPARABLE means that the published number is of another quantity (`settings.yaml`).
        GIVEN means that the study put the number in, or that the number was derived from the paper and is not
        printed there.
        """
        if self.target.against:
            return Verdict.NOT_COMPARABLE
        value = self.target.value
        decimals = 0 if value.is_integer() else len(repr(value).partition(".")[2])
        # our count must round to the published digits; if the paper says "about", be within 1 %
        margin = APPROXIMATE * abs(value) if self.target.approximate else 0.5 * 10**-decimals
        # the factor forgives the rounding of floats at the end of the margin
        if abs(self.counted - value) > margin * (1 + 1e-9):
            return Verdict.DIFFERS
        return Verdict.GIVEN_VALUE if self.is_given or self.target.kind == "derived" else Verdict.AGREES

    @property
    def note(self) -> str:
        """The target's note, after its kind if the paper does not print the number, and what bars it."""
        kind = "" if self.target.kind == "reported" else self.target.kind
        return by_name(join_texts(kind, *self.target.against, self.target.note))

    @property
    def fields(self) -> dict[str, Any]:
        """The claim in full precision and in the published unit."""
        target = self.target
        return {
            "statement": statement(target),
            "metric": target.metric,
            "published": target.value,
            "unit": target.unit,
            "counted": self.counted,
            "verdict": self.verdict,
            "note": self.note,
            "source": target.cited,
        }

    @property
    def row(self) -> TableRow:
        target = self.target
        published = ("about ",) * target.approximate + _count(target.value, target.unit)
        cells = (
            TableEntry(published, hint=target.cited),
            TableEntry(_count(self.counted, target.unit), hint=f"{self.counted!r} {target.unit}".strip()),
            TableEntry(self.verdict, bold=self.verdict is Verdict.DIFFERS),
            TableEntry(self.note),
        )
        return TableRow(statement(target), cells)


def counted_claims(part: Arithmetic) -> list[CountedClaim]:
    """Return our count of each target that the study counts, in the order of the targets."""
    claims = []
    for target in part.targets:
        count = _count_of(part, target)
        if count is not None:
            # one published unit, such as a million, in the unit of our counts
            unit_size = in_own_unit(target.metric, 1.0, target.unit)
            claims.append(CountedClaim(target, count / unit_size, target.metric in part.given))
    return claims


def _count_of(part: Arithmetic, target: Target) -> float | None:
    return part.counted.get(_of_model(target), part.counted.get(target.metric))


def _of_model(target: Target) -> str:
    return f"{target.model} {target.metric}"


def statement(target: Target) -> str:
    """Return in words what a target counts: `HRM vocabulary, before`."""
    model = target.where.get("model") or ""
    words = STATEMENTS.get(target.metric, metric(target.metric).title)
    return f"{model} {words}".strip()


def _count(value: float, unit: str) -> tuple[Piece, ...]:
    form = ",.0f" if value.is_integer() or abs(value) >= 1e5 else ",.4g"
    return Number(value, form), *([f" {UNITS.get(unit, unit)}"] if unit else [])
