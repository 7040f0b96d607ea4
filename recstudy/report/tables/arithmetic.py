"""Published claims that counting alone can check, such as how many parameters a new vocabulary costs."""

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from recstudy.errors import ConfigError, choices, nearest
from recstudy.evidence import Verdict
from recstudy.lazy import pd
from recstudy.papers import Target, by_name, published
from recstudy.report.names import in_own_unit, metric
from recstudy.report.parts import PARTS, BesidePublished
from recstudy.report.shown import RenderedPart
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import Number, Piece, PrintedTable, TableEntry

APPROXIMATE = 0.01  # how far off a number that its paper gives as about so much may be, as a share of it
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
    "total_increase": "increase in all",
    "total_increase_exact": "increase in all, exactly",
    "growth_percent": "growth of the model",
    "params_model": "parameters of the model",
    "train_images": "training images",
    "params_ratio_vs_vit_small": "times fewer parameters than ViT-Small",
    "params_ratio_vs_vit_base": "times fewer parameters than ViT-Base",
    "params_ratio_vs_resnet50": "times fewer parameters than ResNet-50",
    "params_ratio_max_vs_vit": "times fewer parameters than a ViT, at most",
    "params_ratio_max_vs_cnn": "times fewer parameters than a CNN, at most",
    "epoch_speedup_vs_hrm": "times faster an epoch than HRM",
}
HEADS = ("statement", "published", "counted", "verdict", "note")


@PARTS.add("arithmetic")
class Arithmetic(BesidePublished):
    """Published claims that can be checked by counting, beside our own counts and a verdict.

    `counted` gives our number by the targets' metric, or by model and metric ("ViT-Base params") if several
    models have it: in single parameters where the paper prints millions, in percent where it prints a
        fraction or percent.
    Targets that are not in it are named under the table. `given`: those of them that the study itself has put
    in, which counting does not reproduce.
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
                    f"counted {name!r}, but the targets have {choices(metrics)}.{nearest(name, names)}"
                )
        for name in self.given:
            if name not in self.counted:
                raise ConfigError(
                    f"given {name!r}, but counted are {choices(self.counted)}.{nearest(name, self.counted)}"
                )

    def render(self, records: StudyRecords) -> RenderedPart:
        """Return a row per published claim."""
        claims = counted_claims(self)
        verdicts = [claim.verdict for claim in claims]
        given, equal = verdicts.count(Verdict.GIVEN), verdicts.count(Verdict.AGREES)
        words = f"{equal} of {len(verdicts) - given} agree with our count" + f", {given} given" * bool(given)
        sources = ", ".join(dict.fromkeys(claim.target.cited.partition(" (")[0] for claim in claims))
        caption = f"{sources or 'Nothing counted'}: {words}; nothing was trained for this"
        missing = dict.fromkeys(
            statement(target) for target in self.targets if _count_of(self, target) is None
        )
        notes = [f"not counted here: {'; '.join(missing)}"] if missing else []
        lines = [claim.line for claim in claims]
        page = PrintedTable(self.name, self.heading, HEADS, lines, caption, notes=notes, prose=frozenset({4}))
        return RenderedPart(
            self.name,
            printed_table=page,
            csv=pd.DataFrame([claim.fields for claim in claims], dtype=object).to_csv(index=False),
        )


@dataclass(frozen=True)
class CountedClaim:
    """A published number and ours, both in the published unit."""

    target: Target
    counted: float
    given: bool = False  # put in by the study, and not counted by it

    @property
    def verdict(self) -> Verdict:
        """Ours must round to the published digits; where the paper says "about", be within 1 %.

        GIVEN: the study put it in, or it does not stand in the paper but was derived from it.
        """
        value = self.target.value
        decimals = 0 if value.is_integer() else len(repr(value).partition(".")[2])
        margin = APPROXIMATE * abs(value) if self.target.approximate else 0.5 * 10**-decimals
        if abs(self.counted - value) > margin * (1 + 1e-9):
            return Verdict.DIFFERS
        return Verdict.GIVEN if self.given or self.target.kind == "derived" else Verdict.AGREES

    @property
    def note(self) -> str:
        """The target's own, and that the number does not stand in the paper itself where it does not."""
        kind = "" if self.target.kind == "reported" else self.target.kind
        return by_name("; ".join(filter(None, [kind, self.target.note])))

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
    def line(self) -> list[TableEntry]:
        target = self.target
        published = ("about ",) * target.approximate + _count(target.value, target.unit)
        return [
            TableEntry(statement(target), hint=target.cited),
            TableEntry(published, hint=target.cited),
            TableEntry(_count(self.counted, target.unit), hint=f"{self.counted!r} {target.unit}".strip()),
            TableEntry(self.verdict, bold=self.verdict is Verdict.DIFFERS),
            TableEntry(self.note),
        ]


def counted_claims(part: Arithmetic) -> list[CountedClaim]:
    """Return our count of every target that the study counts, in the order of the targets."""
    return [
        CountedClaim(
            target, count / in_own_unit(target.metric, 1.0, target.unit), target.metric in part.given
        )
        for target in part.targets
        if (count := _count_of(part, target)) is not None
    ]


def _count_of(part: Arithmetic, target: Target) -> float | None:
    return part.counted.get(_of_model(target), part.counted.get(target.metric))


def _of_model(target: Target) -> str:
    return f"{target.model} {target.metric}"


def statement(target: Target) -> str:
    """Return what a target counts: `HRM vocabulary, before`."""
    return f"{target.where.get('model') or ''} {STATEMENTS.get(target.metric, metric(target.metric).title)}".strip()


def _count(value: float, unit: str) -> tuple[Piece, ...]:
    form = ",.0f" if value.is_integer() or abs(value) >= 1e5 else ",.4g"
    return Number(value, form), *([f" {UNITS.get(unit, unit)}"] if unit else [])
