"""When a study stated what decides its verdicts, and whether runs had finished before that.

Statements are claims, margins of published values, deviations and the maximum number of seeds. Each has a
digest of the values that decide a verdict, and the plan keeps the date of its first statement in this folder.
A statement is post hoc if a run that it judges had finished before that date. The description of metrics,
success thresholds, `paired` and `blocks` decides verdicts, too. The plan keeps its first values and all
changes with their dates, and a verdict is post hoc if a run finished under another description. Plans of old
versions have no dates, so their statements do not count as post hoc.

Imported runs have no trusted dates. Claims on them are post hoc unless a git commit has them, which is older
than the start of the runs by a column of the table.
"""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from recstudy.base.values import digest
from recstudy.evidence import ALPHA, Reason
from recstudy.papers import Target
from recstudy.records import Json, PlanRecord, Result, read_record
from recstudy.records.plans import maximum_digest
from recstudy.records.reading import dumped
from recstudy.records.run_folder import ARCHIVE_PREFIX
from recstudy.records.runs import distinct
from recstudy.records.study_schema import DescriptionRecord, Deviation
from recstudy.report.claims import Claim, Claims, QuestionPart
from recstudy.report.names import plural, value_text
from recstudy.report.parts import BesidePublished, read_report

if TYPE_CHECKING:
    from recstudy.report.study_records import StudyRecords  # its import of pandas is slow

Statement: TypeAlias = Claim | Target | Deviation | int  # the int is the maximum number of seeds
DECISIVE = ("unit", "better", "items", "bounds", "share")  # fields of a metric that decide verdicts
COMPARISON = {"paired", "blocks", "alpha", "test_share"}  # statements that decide all verdicts


def description_of(statement: Statement) -> tuple[list[Any], str]:
    """Return the values of a statement that decide a verdict, and the statement in a few words."""
    match statement:
        case Claim():
            # The claim's text is no part of the digest, so a new wording is not a new statement.
            # A bound of one side is in the place of a margin, as in version 0.2.
            bound = statement.at_least or statement.margin
            values = ["claim", statement.selectors, bound, statement.within, statement.metric]
            values += ["each"] * statement.each + ["over blocks"] * (statement.over == "blocks")
            bounds = {"at most": statement.at_most, "alpha": statement.alpha}
            values += [[name, value] for name, value in bounds.items() if value is not None]
            return values, f"the claim {statement.text!r}"
        case Target():
            words = f"{statement.source}: {statement.metric}"
            return ["margin", statement.source, statement.metric, statement.margin], f"the margin {words!r}"
        case Deviation():
            values = ["deviation", statement.field, statement.paper, statement.ours]
            return values, f"the deviation {statement.field!r}"
        case int():
            return [statement], f"the maximum of {statement} seeds"


def digest_of(statement: Statement) -> str:
    if isinstance(statement, int):
        return maximum_digest(statement)
    return digest(description_of(statement)[0], 12)


def statements(plan: PlanRecord) -> list[Statement]:
    """Return all statements of a plan, each once."""
    claims, targets = list[Claim](), list[Target]()
    for part in read_report(plan.report):
        if isinstance(part, Claims):
            claims += part.claims
        elif isinstance(part, BesidePublished):
            targets += [target for target in part.targets if target.margin]
    maximum = [plan.max_seeds] if plan.max_seeds else []
    everything: list[Statement] = [*claims, *targets, *plan.deviations, *maximum]
    return list({digest_of(statement): statement for statement in everything}.values())


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


def published_keys(plan: PlanRecord) -> set[str]:
    """Return the digests of the published values of a plan's parts."""
    parts = [part for part in read_report(plan.report) if isinstance(part, BesidePublished)]
    return {published_key(target) for part in parts for target in part.targets}


def published_key(target: Target) -> str:
    """Return a digest of a published value and its settings. Its margin is a statement of its own."""
    return digest(["published", target.metric, target.value, target.unit, target.where], 12)


def dropped_questions(
    plan: PlanRecord,
    earlier_plan: PlanRecord,
    is_frozen: bool,
    published: Mapping[str, tuple[str, int]] = MappingProxyType({}),
) -> dict[str, tuple[str, int]]:
    """Return the questions that were dropped after the first run had finished.

    They still count in the adjustment for multiple tests.

    Args:
        plan: The new plan.
        earlier_plan: The plan before it.
        is_frozen: Whether a run had finished under the earlier plan.
        published: Digest -> words and the number of tests, for the published values of the earlier plan.
    """
    dropped = earlier_plan.dropped | ({**questions_of(earlier_plan), **published} if is_frozen else {})
    asked = questions_of(plan).keys() | published_keys(plan)
    return {key: words for key, words in dropped.items() if key not in asked}


def first_dates(plan: PlanRecord, earlier_plans: Iterable[PlanRecord], committed: str) -> dict[str, str]:
    """Return digest -> the date of its first statement, by this plan or an earlier one.

    The date is empty if the earlier plan has no dates.

    Args:
        plan: The plan.
        earlier_plans: The plans before it.
        committed: The date of the commit of the claims, if they are in a file of their own.
    """
    first: dict[str, str] = {}
    for earlier_plan in earlier_plans:
        dates = earlier_plan.stated or {digest_of(statement): "" for statement in statements(earlier_plan)}
        first |= {key: min(date, first.get(key, date)) for key, date in dates.items()}
    for statement in statements(plan):
        key, date = digest_of(statement), (isinstance(statement, Claim) and committed) or plan.created
        first[key] = min(date, first.get(key, date))
    return first


def description(plan: PlanRecord) -> Json:
    """Return the values of metrics, thresholds and comparisons, such as `accuracy.items` -> 2000."""
    alpha = None if plan.alpha == ALPHA else plan.alpha
    values: Json = {"paired": plan.paired, "blocks": [*plan.blocks], "alpha": alpha}
    values["test_share"] = plan.test_share
    for name, metric in plan.metrics.items():
        values |= {f"{name}.{field}": value for field, value in dumped(metric).items() if field in DECISIVE}
    thresholds = {f"{name}.success_threshold": value for name, value in plan.success_threshold.items()}
    return {name: value for name, value in values.items() if value} | thresholds


def descriptions(plan: PlanRecord) -> tuple[DescriptionRecord, ...]:
    """Return the first description of a plan and its changes. Old versions dated `paired` and thresholds."""
    if plan.described:
        return plan.described
    dated = [["paired seeds"], *(["learned", *threshold] for threshold in plan.success_threshold.items())]
    date = max(plan.stated.get(digest(values, 12), "") for values in dated)
    return (DescriptionRecord(date=date, values=description(plan)),)


def with_description(plan: PlanRecord, earlier_plan: PlanRecord | None) -> tuple[DescriptionRecord, ...]:
    """Return the descriptions of the plan before, up to that of this plan, which is new or was restored."""
    entries, values = descriptions(earlier_plan) if earlier_plan else (), description(plan)
    for position, entry in enumerate(entries, 1):
        if entry.values == values:
            return entries[:position]
    date = plan.created if entries or not plan.imported else ""
    return (*entries, DescriptionRecord(date=date, values=values))


def redescriptions(records: "StudyRecords", variants: Iterable[int]) -> dict[str, set[str]]:
    """Return each change of the description after runs of these variants had finished, with its metrics."""
    dates, changes = finish_dates(records, variants), {}
    for previous_entry, entry in pairwise((DescriptionRecord(), *descriptions(records.plan))):
        count = sum(date < _moment(entry.date) for date in dates)
        old_values, new_values = previous_entry.values, entry.values
        names = [name for name in old_values | new_values if old_values.get(name) != new_values.get(name)]
        if records.plan.imported:  # nobody knows when further metrics of a table were described
            subjects = {*map(_subject, old_values)} & {*map(_subject, new_values)} | COMPARISON
            names = [name for name in names if _subject(name) in subjects]
        words = [
            f"{name} {value_text(old_values.get(name))} -> {value_text(new_values.get(name))}"
            for name in names
        ]
        if count and names:
            date = f"changed on {entry.date[:10]} after {plural(count, 'run')} had finished"
            changes[f"{', '.join(words)}, {date}"] = {*map(_subject, names)}
    return changes


def _subject(name: str) -> str:
    """Return the metric of a value's name, or `paired` or `blocks`."""
    return re.split("[@.]", name)[0]


def post_hoc(records: "StudyRecords", statement: Statement, variants: Iterable[int]) -> bool:
    """Return whether a statement was first made after a run of the variants that it judges had finished."""
    date = records.plan.stated.get(digest_of(statement), "")  # empty if the plan is older than these dates
    return any(finished < _moment(date) for finished in finish_dates(records, variants))


def finish_dates(records: "StudyRecords", variants: Iterable[int]) -> list[datetime]:
    """Return when runs and their earlier attempts finished, or the start of imported runs, if known."""
    dates = []
    for row in distinct(records.rows_of(variants)):
        if row.provenance.source:
            dates.append(_moment(row.provenance.started or ""))
        elif row.result:
            archived = f"{ARCHIVE_PREFIX}-*/result.json"
            files = records.results.run(row.id).path.glob(archived) if row.provenance.earlier else ()
            attempts = [row.result, *(read_record(file, Result) for file in files)]
            finished = [attempt.provenance.finished for attempt in attempts if attempt]
            dates += [_moment(date) for date in finished if date]
    return dates


def _moment(date: str) -> datetime:
    return datetime.fromisoformat(date or "0001-01-01T00:00+00:00")


def marks_of(records: "StudyRecords", names: Iterable[str], variants: Iterable[int]) -> tuple[str, ...]:
    """Return the marks of a verdict on these metrics and variants."""
    late = [str(Reason.POST_HOC)] * is_redescribed(records, names, variants)
    return (*late, *dict.fromkeys(filter(None, (dropped_words(records, index) for index in variants))))


def is_redescribed(records: "StudyRecords", names: Iterable[str], variants: Iterable[int]) -> bool:
    """Return whether a run of these variants finished before these metrics were described as they are."""
    decisive = COMPARISON.union(map(_subject, names))
    return any(not decisive.isdisjoint(changed) for changed in redescriptions(records, variants).values())


def dropped_words(records: "StudyRecords", index: int) -> str:
    """Return `3 of 8 seeds` for a variant of which a later import lacks five seeds."""
    seed_count, label = len(records.by_variant[index]), records.plan.variants[index].label
    most_seeds = records.plan.most_seeds.get(label, 0)
    return f"{seed_count} of {most_seeds} seeds" if seed_count < most_seeds else ""


def late_changes(records: "StudyRecords") -> list[str]:
    """Return the changes of metrics, thresholds, `paired`, `blocks` and seeds after runs had finished."""
    lines = [*redescriptions(records, records.indices)]
    for index, variant in enumerate(records.variants):
        if words := dropped_words(records, index):
            lines.append(f"{variant.label}: {words} are left after verdicts were read")
    return lines
