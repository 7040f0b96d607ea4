"""Published claims that counting alone can check, such as how many parameters a new vocabulary costs."""

from dataclasses import dataclass
from typing import ClassVar

from pydantic import Field

from recstudy.errors import ConfigError, choices, nearest
from recstudy.evidence import Verdict
from recstudy.papers import Target, published
from recstudy.report.names import in_own_unit, metric
from recstudy.report.parts import PARTS, BesidePublished
from recstudy.report.shown import Shown
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import Number, Piece, PrintedTable, TableEntry
from recstudy.report.writers import csv_file

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
}
HEADS = ("statement", "published", "counted", "verdict", "note")
CSV_HEADS = ("statement", "metric", "published", "unit", "counted", "verdict", "note", "source")


@PARTS.add("arithmetic")
class Arithmetic(BesidePublished):
    """Published claims that can be checked by counting, beside our own counts and a verdict.

    `counted` gives our number by the targets' metric: in single parameters where the paper prints millions, in percent
    where it prints a fraction or percent. Targets that are not in it are named under the table. `given`: those of them that the
    study itself has put in, which counting does not reproduce.
    """

    name: str = "arithmetic"
    counted: dict[str, float] = Field(default_factory=dict)
    given: tuple[str, ...] = ()
    targets: tuple[Target, ...] = Field(default_factory=lambda: published("001_parameter_arithmetic"), kw_only=True)
    default_title: ClassVar[str] = "Published parameter arithmetic, counted again"

    def __post_init__(self) -> None:
        known = list(dict.fromkeys(target.metric for target in self.targets))
        for name in self.counted:
            if name not in known:
                raise ConfigError(f"counted {name!r}, but the targets have {choices(known)}.{nearest(name, known)}")
        for name in self.given:
            if name not in self.counted:
                raise ConfigError(f"given {name!r}, but counted are {choices(self.counted)}.{nearest(name, self.counted)}")

    def shown(self, records: StudyRecords) -> Shown:
        """Return a row per published claim."""
        return Shown(self.name, page=printed(self), csv=csv_text(self))


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
        return Verdict.GIVEN if self.given or self.target.kind == "derived" else Verdict.REPRODUCED

    @property
    def note(self) -> str:
        """The target's own, and that the number does not stand in the paper itself where it does not."""
        return "; ".join(filter(None, ["" if self.target.kind == "reported" else self.target.kind, self.target.note]))


def counted_claims(part: Arithmetic) -> list[CountedClaim]:
    """Put every target that the study counts beside our count, in the order of the targets."""
    return [
        CountedClaim(
            target, part.counted[target.metric] / in_own_unit(target.metric, 1.0, target.unit), target.metric in part.given
        )
        for target in part.targets
        if target.metric in part.counted
    ]


def statement(target: Target) -> str:
    """Say what a target counts: `HRM vocabulary, before`."""
    words = STATEMENTS.get(target.metric, metric(target.metric).title)
    return f"{target.where.get('model') or ''} {words}".strip()


def printed(part: Arithmetic) -> PrintedTable:
    """Return the claims as a table of words, and under it the statements that nothing was counted for."""
    claims, lines = counted_claims(part), []
    for claim in claims:
        target = claim.target
        published = ("about ",) * target.approximate + _count(target.value, target.unit)
        counted = TableEntry(_count(claim.counted, target.unit), hint=f"{claim.counted!r} {target.unit}".strip())
        verdict = TableEntry(claim.verdict, bold=claim.verdict is Verdict.DIFFERS)
        known = [TableEntry(statement(target), hint=target.cited), TableEntry(published, hint=target.cited)]
        lines.append([*known, counted, verdict, TableEntry(claim.note)])
    sources = ", ".join(dict.fromkeys(claim.target.cited.partition(" (")[0] for claim in claims))
    verdicts = [claim.verdict for claim in claims]
    given, reproduced = verdicts.count(Verdict.GIVEN), verdicts.count(Verdict.REPRODUCED)
    held = f"{reproduced} of {len(verdicts) - given} reproduced by counting" + f", {given} given" * bool(given)
    caption = f"{sources or 'Nothing counted'}: {held}; nothing was trained for this"
    uncounted = dict.fromkeys(statement(target) for target in part.targets if target.metric not in part.counted)
    notes = [f"not counted here: {'; '.join(uncounted)}"] if uncounted else []
    return PrintedTable(part.name, part.heading, HEADS, lines, caption, notes=notes, prose=frozenset({4}))


def csv_text(part: Arithmetic) -> str:
    """Write one line a claim, in full precision and in the published unit."""
    rows = []
    for claim in counted_claims(part):
        target = claim.target
        known = [statement(target), target.metric, target.value, target.unit, claim.counted]
        rows.append([*known, claim.verdict, claim.note, target.cited])
    return csv_file(CSV_HEADS, rows)


def _count(value: float, unit: str) -> tuple[Piece, ...]:
    form = ",.0f" if value.is_integer() or abs(value) >= 1e5 else ",.4g"
    return Number(value, form), *([f" {UNITS.get(unit, unit)}"] if unit else [])


def arithmetic_shown(_: StudyRecords, part: Arithmetic) -> Shown:
    """Make a row a published claim."""
    return Shown(part.name, page=printed(part), csv=csv_text(part))
