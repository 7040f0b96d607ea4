"""Which questions of a study are open, and about how many more seeds would decide each: what `--until decided` goes by.

A question is a claim, or a published value that is comparable and stands in a table of cells.
"""

from contextlib import suppress
from dataclasses import dataclass

from recstudy.analysis.cells import Cell
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.questions import Asked, family
from recstudy.analysis.tables.question_table import verdict_words
from recstudy.analysis.tables.render import outcome_words
from recstudy.analysis.targets import Placed
from recstudy.errors import ConfigError
from recstudy.evidence import MOST_SEEDS, Answer, Reason, Verdict
from recstudy.report import Claims
from recstudy.report.names import inline, metric, quantity
from recstudy.report.parts import TablePart

UNENDING = f"would take over {MOST_SEEDS:,} more seeds"
SPREAD = (Reason.NO_SPREAD, Reason.TOO_FEW_SEEDS)  # what one more seed may mend
FEW = 3  # seeds that may agree by chance: only then does the next one tell how they spread


@dataclass(frozen=True)
class Wanted:
    """A question, how it stands, and what would settle it.

    Args:
        text: the sentence that is claimed, or the published value with its place.
        variants: whose runs answer it, by their place in the plan.
        verdict: as the page says it.
        decided: no more seeds are wanted.
        more: about how many more seeds of each of its variants settle it; 0 where it is decided, or while runs that are planned
            have not ended; None where seeds do not settle it.
        why: then, the reason.
    """

    text: str
    variants: tuple[int, ...]
    verdict: str
    decided: bool
    more: int | None
    why: str = ""


def wanted(records: StudyRecords) -> list[Wanted]:
    """Every claim, then every comparable published value, each once.

    Raises:
        ConfigError: a claim names what the study has not, or what cannot be compared.
    """
    asked = [_of_claim(row) for part in records.parts if isinstance(part, Claims) for row in family(records, part).rows]
    of_run = {row.id: row.variant for row in reversed(records.rows)}  # of runs under two labels, the first
    for part in (part for part in records.parts if isinstance(part, TablePart)):
        with suppress(ConfigError):  # a table that no run has given anything for so far
            for label, cell in ((line.label, cell) for line in part.cells_once(records).rows for cell in line.cells):
                variants = tuple(sorted({of_run[run] for run in cell.planned}))
                label = records.variants[variants[0]].label if len(variants) == 1 else label  # as in any other table
                asked += [
                    _of_published(label, variants, cell, placed, answer)
                    for placed, answer in cell.answers
                    if not placed.reasons and not metric(cell.metric).computed
                ]
    return list({(one.text, one.variants): one for one in asked}.values())


def _of_claim(row: Asked) -> Wanted:
    more, why = _further(row.answer, row.left, min((len(term.values) for term in row.terms), default=0))
    variants = tuple(term.variant for term in row.terms)
    return Wanted(row.label, variants, verdict_words(row), row.verdict.decided, more, "; ".join(row.lost) if row.lost else why)


def _of_published(label: str, variants: tuple[int, ...], cell: Cell, placed: Placed, answer: Answer[str]) -> Wanted:
    more, why = _further(answer, cell.left, cell.n)
    text = f"{label}: {inline(placed.target.metric)} {quantity(placed.target.metric, placed.value)}, {placed.target.cited}"
    return Wanted(text, variants, outcome_words(placed, answer), answer.verdict.decided, more, why)


def _further(answer: Answer[int] | Answer[str], left: int, seeds: int) -> tuple[int | None, str]:
    """How many more seeds of each variant, or why no number of them decides it."""
    if answer.verdict.decided or left:
        return 0, ""
    if answer.seeds_needed is not None:
        return answer.seeds_needed, ""
    lacks = next((reason for reason in answer.reasons if reason in SPREAD), None)
    if lacks and seeds < FEW:
        return 1, ""
    if answer.verdict is Verdict.NOT_RUN:
        return None, "no run has a value"
    return None, next((str(reason) for reason in answer.reasons if reason is not Reason.WIDE), UNENDING)
