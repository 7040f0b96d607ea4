"""Registration: when a study stated its claims and margins, and whether runs had finished before that.

Statements are claims, margins of published values, deviations, success thresholds and the maximum number of
seeds. Each has a digest of the values that decide a verdict, and the plan keeps the date of its first
statement in this folder. A statement is post hoc if a run that it judges had finished before that date. Plans
of old versions have no dates, so their statements do not count as post hoc.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from recstudy.papers import Target
from recstudy.programs.settings import digest
from recstudy.records import PlanRecord, Result, read_record
from recstudy.records.run_folder import ARCHIVE_PREFIX
from recstudy.records.study_schema import Deviation
from recstudy.report.claims import Claim, Claims, QuestionPart, weights
from recstudy.report.parts import BesidePublished, read_report

if TYPE_CHECKING:
    from recstudy.report.study_records import (
        StudyRecords,
    )  # its import of pandas is slow, and planning needs none

# The tuple is a metric with its success threshold, the int the maximum number of seeds, the str `PAIRED`.
Statement: TypeAlias = Claim | Target | Deviation | tuple[str, float] | int | str
POST_HOC = "post hoc"
PAIRED = "paired seeds"


def description_of(statement: Statement) -> tuple[list[Any], str]:
    """Return the values of a statement that decide a verdict, and the statement in a few words."""
    match statement:
        case Claim():
            # The claim's text is no part of the digest, so a new wording is not a new statement.
            values = ["claim", statement.selectors, statement.margin, statement.within, statement.metric]
            return values + ["each"] * statement.each, f"the claim {statement.text!r}"
        case Target():
            words = f"{statement.source}: {statement.metric}"
            return ["margin", statement.source, statement.metric, statement.margin], f"the margin {words!r}"
        case Deviation():
            values = ["deviation", statement.field, statement.paper, statement.ours]
            return values, f"the deviation {statement.field!r}"
        case int():
            return ["seeds at most", statement], f"the maximum of {statement} seeds"
        case str():
            return [statement], statement
        case name, value:
            # Registered files have these words, and `differences` compares them.
            return ["learned", name, float(value)], f"when {name} counts as learned"


def digest_of(statement: Statement) -> str:
    return digest(description_of(statement)[0], 12)


def statements(plan: PlanRecord) -> list[Statement]:
    """Return all statements of a plan, each once."""
    parts = read_report(plan.report)
    all_statements: list[Statement] = [
        claim for part in parts if isinstance(part, Claims) for claim in part.claims
    ]
    all_statements += [
        target
        for part in parts
        if isinstance(part, BesidePublished)
        for target in part.targets
        if target.margin
    ]
    all_statements += [
        *plan.deviations,
        *plan.success_threshold.items(),
        *([plan.max_seeds] if plan.max_seeds else []),
    ]
    all_statements += [PAIRED] * plan.paired
    return list({digest_of(statement): statement for statement in all_statements}.values())


def questions_of(plan: PlanRecord) -> dict[str, tuple[str, int]]:
    """Return digest -> words and the maximum number of tests, for the questions of a plan's parts."""
    questions: dict[str, tuple[str, int]] = {}
    for part, entry in zip(read_report(plan.report), plan.report, strict=True):
        if isinstance(part, Claims):
            questions |= {digest_of(claim): (description_of(claim)[1], 1) for claim in part.claims}
        elif isinstance(part, QuestionPart):  # differences from a base, or the effects of a factorial
            question_fields = {
                name: value for name, value in entry.items() if name not in ("name", "title", "targets")
            }
            questions[digest(question_fields, 12)] = (
                f"the {entry['kind']} {part.name!r}",
                len(plan.variants) - 1,
            )
    return questions


def dropped_questions(
    plan: PlanRecord, earlier_plan: PlanRecord, is_frozen: bool
) -> dict[str, tuple[str, int]]:
    """Return the questions that were dropped after the first run had finished.

    They still count in the adjustment for multiple tests.

    Args:
        plan: The new plan.
        earlier_plan: The plan before it.
        is_frozen: Whether a run had finished under the earlier plan.
    """
    dropped = earlier_plan.dropped | (questions_of(earlier_plan) if is_frozen else {})
    return {key: words for key, words in dropped.items() if key not in questions_of(plan)}


def first_dates(plan: PlanRecord, earlier_plans: Iterable[PlanRecord]) -> dict[str, str]:
    """Return digest -> the date of its first statement, by this plan or an earlier one.

    The date is empty if the earlier plan has no dates.
    """
    first: dict[str, str] = {}
    for earlier_plan in earlier_plans:
        dates = earlier_plan.stated or {digest_of(statement): "" for statement in statements(earlier_plan)}
        first |= {key: min(date, first.get(key, date)) for key, date in dates.items()}
    return {digest_of(statement): plan.created for statement in statements(plan)} | first


def post_hoc(records: "StudyRecords", statement: Statement, variants: Iterable[int] | None = None) -> bool:
    """Return whether a statement was first made after a run that it judges had finished.

    Args:
        records: The study's records.
        statement: A statement of the study. A claim must have its metric.
        variants: The variants that it judges. The default is the variants of a claim's contrast, the variants
            with a deviation, or all variants.
    """
    date = records.plan.stated.get(digest_of(statement), "")  # empty if the plan is older than these dates
    if variants is None:
        variants = range(len(records.variants))
        if isinstance(statement, Claim):
            variants = weights(statement, records.variants, records.configs)
        elif isinstance(statement, Deviation) and statement.of_config:
            variants = [
                index for index in variants if records.configs[index].get(statement.field) == statement.ours
            ]
    return bool(date) and finished_before(records, variants, date)


def finished_before(records: "StudyRecords", variants: Iterable[int], date: str) -> bool:
    """Return whether a run of these variants, or an earlier attempt of one, had finished by this date."""
    limit = datetime.fromisoformat(date)
    for row in (row for index in variants for row in records.by_variant[index] if row.result):
        earlier_results = (
            records.results.run(row.id).path.glob(f"{ARCHIVE_PREFIX}-*/result.json")
            if row.provenance.earlier
            else ()
        )
        attempts = [row.result, *(read_record(file, Result) for file in earlier_results)]
        dates = [attempt.provenance.finished for attempt in attempts if attempt]
        if any(datetime.fromisoformat(finished) < limit for finished in dates if finished):
            return True
    return False
