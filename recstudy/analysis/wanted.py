"""Which questions of a study are open, and about how many more seeds would settle each: what `--until decided` goes by.

A question is a claim, or a published value that is comparable and stands in a table of cells; a count of parameters, which
follows from the config, is none. What its verdicts are called is
known in this file, and by nobody who asks it.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from recstudy.analysis.cells import Cell
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.stats import MOST_SEEDS, more_seeds
from recstudy.analysis.tables.claims import SETTLED, Judged, claims_data, more
from recstudy.analysis.targets import Placed
from recstudy.errors import ConfigError
from recstudy.report import Claims
from recstudy.report.names import inline, metric, plural, quantity
from recstudy.report.parts import TablePart

FEW = 3  # seeds that may agree by chance: only then does the next one tell how they spread
UNENDING = f"would take over {MOST_SEEDS:,} more seeds"


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
    parts = records.parts
    judged = [claims_data(records, part) for part in parts if isinstance(part, Claims)]
    asked = [_of_claim(one, len(claims)) for claims in judged for one in claims]
    of_run = {row.id: row.variant for row in reversed(records.rows)}  # of runs under two labels, the first
    for part in parts:
        if isinstance(part, TablePart):
            with suppress(ConfigError):  # a table that no run has given anything for so far
                rows = part.cells_once(records).rows
                asked += [one for row in rows for cell in row.cells for one in _of_cell(records, cell, row.label, of_run)]
    return list({(one.text, one.variants): one for one in asked}.values())


def _of_claim(one: Judged, claims: int) -> Wanted:
    decided = one.verdict in ("supported", "contradicted")
    seeds: int | None = None
    if decided or one.left:
        seeds, why = 0, ""
    elif one.lost:
        why = "; ".join(one.lost)
    elif one.found is None:
        why = "a variant has no value"
    elif one.edge is None:
        seeds, why = _for_spread(min(len(term.values) for term in one.terms))
    else:
        seeds, why = more(one, claims), UNENDING
    variants = tuple(term.variant for term in one.terms)
    return Wanted(one.claim.text, variants, one.outcome, decided, seeds, why if seeds is None else "")


def _of_cell(records: StudyRecords, cell: Cell, label: str, of_run: dict[str, int]) -> Iterator[Wanted]:
    variants = tuple(sorted({of_run[run] for run in cell.planned}))
    left = any(row.status not in SETTLED for at in variants for row in records.by_variant[at] if row.id in cell.planned)
    label = records.variants[variants[0]].label if len(variants) == 1 else label  # as in any other table
    for one in (one for one in cell.placed if not one.reasons and not metric(cell.metric).computed):
        found = one.verdict(cell.values, cell.spread, cell.lost)
        decided = found in ("reproduced", "differs") and not left
        seeds: int | None = None
        if decided or left:
            seeds, why = 0, ""
        elif cell.lost:
            why = f"{plural(cell.lost, 'seed')} failed or diverged"
        elif found == "undecided":
            seeds, why = _for_spread(len(cell.values))
        elif found == "consistent":
            seeds, why = more_seeds(cell.values, one.value, one.margin, cell.spread), UNENDING
        else:
            why = "no run has a value"
        yield Wanted(_published(label, one), variants, found, decided, seeds, why if seeds is None else "")


def _published(label: str, one: Placed) -> str:
    return f"{label}: {inline(metric(one.target.metric).title)} {quantity(one.target.metric, one.value)}, {one.target.cited}"


def _for_spread(seeds: int) -> tuple[int | None, str]:
    """One seed more where too few are known to say how they spread."""
    return (1, "") if seeds < FEW else (None, "its runs agree, and no spread is known")
