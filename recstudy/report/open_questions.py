"""The claims and published values of a study, and which of them need more seeds, for `--until decided`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from recstudy.evidence import Reason
from recstudy.evidence.questions import MIN_SEEDS_IF_SPLIT
from recstudy.report.claims import Claims
from recstudy.report.family import PublishedValue, family, published_values
from recstudy.report.names import (
    inline,
    metric,
    quantity,
)
from recstudy.report.parts import parts_of
from recstudy.report.question_rows import QuestionRow
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.question_table import verdict_words
from recstudy.report.tables.render import outcome_words

UNLIKELY = "unlikely to be decided"
# reasons that more seeds remove
NEED_SEEDS = (Reason.NO_SPREAD, Reason.TOO_FEW_SEEDS, Reason.ONE_SEED, Reason.MAY_SPLIT, Reason.ONE_AT_BOUND)


@dataclass(frozen=True)
class OpenQuestion:
    """A claim or a published value with its verdict, for the decision to add seeds.

    Args:
        text: The claim, or the published value with its source.
        variants: The positions of the variants whose runs answer it.
        verdict: The verdict, as the page prints it.
        is_decided: Whether the verdict is final.
        waits: Whether planned runs are unfinished.
        more_seeds: About how many more seeds of each variant decide it; None if no number is known.
        chance: The chance of a decision at the maximum number of seeds if the true effect is the estimate
            plus one standard error; 1 if the variance is unknown.
        why: The reason why more seeds do not decide it.
    """

    text: str
    variants: Sequence[int]
    verdict: str
    is_decided: bool
    waits: bool = False
    more_seeds: int | None = None
    chance: float = 0.0
    why: str = ""


def open_questions(records: StudyRecords) -> list[OpenQuestion]:
    """Return every claim, then every comparable published value of the report, each once.

    Raises:
        ConfigError: A claim names a variant or metric that the study does not have, or compares incomparable
            variants.
    """
    rows = list[QuestionRow | PublishedValue]()
    for part in parts_of(records):
        if isinstance(part, Claims):
            rows += family(records, part).rows
    for value in published_values(records):
        if not (value.match.reasons or metric(value.cell.metric).computed):
            rows.append(value)
    questions = [(row.contrast_key, open_question(row)) for row in rows]
    return list({(key, question.text): question for key, question in questions}.values())


def open_question(row: QuestionRow | PublishedValue) -> OpenQuestion:
    """Return a question, if it is open with the number of seeds that decides it or why seeds do not."""
    if isinstance(row, PublishedValue):
        target, seeds, lost_runs = row.match.target, row.cell.n, ""
        text = (
            f"{row.label}: {inline(target.metric)} {quantity(target.metric, row.match.value)}, {target.cited}"
        )
        verdict = outcome_words(row.match, row.answer)
    else:
        seeds = min((len(term.values) for term in row.terms), default=0)
        text, verdict, lost_runs = row.label, verdict_words(row), "; ".join(row.loss_reasons)
    answer = row.answer
    question = OpenQuestion(text, row.variants, verdict, answer.verdict.is_decided, row.runs_left > 0)
    if question.is_decided or question.waits:
        return question
    if answer.p is not None:
        more_seeds = answer.seeds_needed[1] if answer.seeds_needed else None
        return replace(question, more_seeds=more_seeds, chance=answer.chance, why=lost_runs or UNLIKELY)
    # with fewer seeds no variance is known, or all may be of one kind
    may_need_seeds = seeds < MIN_SEEDS_IF_SPLIT and any(reason in NEED_SEEDS for reason in answer.reasons)
    if may_need_seeds and not lost_runs:
        return replace(question, chance=1.0)
    reasons = [str(reason) for reason in answer.reasons if reason is not Reason.WIDE]
    return replace(question, why=lost_runs or (reasons[0] if reasons else "no run has a value"))
