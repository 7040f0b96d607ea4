"""Claims in words: a table with the contrast, interval, p and verdict of each, and the seeds that it needs."""

from collections import Counter
from collections.abc import Sequence

from recstudy.analysis.caveats import caption, text_notes, warnings
from recstudy.analysis.cells import commit
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.spreads import spread_notes
from recstudy.analysis.stats import MOST_SEEDS
from recstudy.analysis.tables.claims import Judged, more
from recstudy.analysis.tables.difference_table import p_text, signed, signed_interval
from recstudy.analysis.tables.markup import Entry, Printed, csv_lines
from recstudy.report import Claims
from recstudy.report.names import metric, plural

HEADS = ("claim", "contrast", "difference", "interval", "p (Holm)", "verdict", "seeds needed")
CSV_HEADS = ["claim", "contrast", "metric", "unit", "by", "within", "difference", "low", "high", "level", "p", "p_holm"]
CSV_HEADS += ["verdict", "more_seeds", "runs_left", "lost", "run_ids"]
LOST = {"failed": "that failed", "diverged": "that diverged", "done": "without a value"}
PROSE = frozenset({1, 5, 6})
HOW = "Difference: of means over seeds; their spread is pooled over all variants on the same data"
TESTS = "p: two-sided t test that the true difference is just the margin, adjusted for {} (Holm); intervals at their steps"
VERDICTS = "Supported and contradicted: the interval lies wholly inside, or wholly outside, of what is claimed"


def printed(records: StudyRecords, part: Claims, judged: Sequence[Judged]) -> Printed:
    """One line a claim."""
    variants = sorted({term.variant for one in judged for term in one.terms})
    metrics = list(dict.fromkeys(one.claim.metric for one in judged))
    return Printed(
        name=part.name,
        title=part.heading,
        heads=HEADS,
        lines=[_line(one, len(judged)) for one in judged],
        caption=caption(records, variants),
        warnings=warnings(records),
        notes=[*_notes(judged), *spread_notes(records, variants, _pooled(judged)), *text_notes(records, variants, metrics)],
        prose=PROSE,
    )


def csv_text(judged: Sequence[Judged]) -> str:
    """One line a claim, in full precision."""
    rows = []
    for one in judged:
        claim = one.claim
        stated = [claim.text, claim.contrast, claim.metric, metric(claim.metric).unit, claim.by, claim.within]
        found = [one.found.value if one.found else None, *(one.interval or (None, None)), 1 - one.alpha, one.p, one.adjusted]
        runs = " ".join(run.id for term in one.terms for run in term.runs)
        rows.append([*stated, *found, one.verdict, more(one, len(judged)), one.left, "; ".join(one.lost), runs])
    return csv_lines(CSV_HEADS, rows)


def would_take(one: Judged, claims: int) -> str:
    """What an open claim lacks; empty where there is a verdict."""
    if one.left:
        return plural(one.left, "run")
    if one.verdict != "undecided":
        return ""
    if one.lost:
        return " and ".join(f"{plural(count, 'run')} {LOST[status]}" for status, count in Counter(one.ends).items())
    if one.p is None:
        return "a second seed"
    seeds = more(one, claims)
    return f"over {MOST_SEEDS:,} seeds" if seeds is None else f"about {plural(seeds, 'more seed')}" if seeds else "a little more"


def _line(one: Judged, claims: int) -> list[Entry]:
    name, value, behind = one.claim.metric, one.found.value if one.found else None, _origin(one)
    runs = tuple(run.id for term in one.terms for run in term.runs)
    return [
        Entry(one.claim.text),
        Entry(f"{metric(name).heading}: {one.claim.contrast}"),
        Entry(signed(name, value), origin=behind, runs=runs),
        Entry(signed_interval(name, *(one.interval or (None, None))), hint=f"at {1 - one.alpha:.1%}", origin=behind, runs=runs),
        Entry(p_text(one.adjusted), hint=f"alone {p_text(one.p)}" if one.p is not None else "", origin=behind, runs=runs),
        Entry(one.outcome, runs=runs),
        Entry(would_take(one, claims)),
    ]


def _origin(one: Judged) -> str:
    """The runs with their weights, and the code that made them."""
    parts = [f"{term.weight:+.4g} * mean of runs {' '.join(run.id for run in term.runs)}" for term in one.terms if term.runs]
    commits = dict.fromkeys(commit(run) for term in one.terms for run in term.runs)
    return "; ".join([*parts, *commits])


def _pooled(judged: Sequence[Judged]) -> list[str]:
    """The metrics whose spread is a claim's; of a sum over depths it is that of the sum."""
    return list(dict.fromkeys(term.of[0][0] for one in judged for term in one.terms if len(term.of) == 1))


def _notes(judged: Sequence[Judged]) -> list[str]:
    """How to read the table, and which runs leave it undecided."""
    lost = "; ".join(dict.fromkeys(why for one in judged for why in one.lost))
    tests = TESTS.format(plural(len(judged), "claim"))
    lucky = f"Undecided, because the runs that have a value may be the lucky ones: {lost}"
    return [f"{HOW}. {tests}", VERDICTS, *([lucky] if lost else [])]
