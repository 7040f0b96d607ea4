"""When a study stated what it is judged by, and whether runs had finished by then.

Claims, margins of published values, deviations, thresholds of success and the maximum number of seeds each
have a digest of what decides a verdict. The plan keeps the date on which each digest was first stated in this
folder. What was first stated after a run that it judges had finished is post hoc. Older plans have no dates:
theirs are unknown, and not post hoc.

`recstudy register` writes the digests and those of the settings to a file. The git commit of that file
registers them.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from recstudy.papers import Target
from recstudy.programs.settings import digest
from recstudy.records import PlanRecord, Result, read_record
from recstudy.records.run_folder import EARLIER
from recstudy.records.study_schema import Deviation, Registered
from recstudy.report.claims import Claim, Claims, QuestionPart, weights
from recstudy.report.parts import BesidePublished, read_report

if TYPE_CHECKING:
    from recstudy.report.study_records import StudyRecords  # brings pandas, which a plan does without

# a metric's threshold; the maximum of seeds
Statement: TypeAlias = Claim | Target | Deviation | tuple[str, float] | int | str
POST_HOC = "post hoc"
PAIRED = "paired seeds"


def description_of(statement: Statement) -> tuple[list[Any], str]:
    """Return what decides a verdict, without the words around it, and the statement in a few words. A claim
    has its metric.
    """
    match statement:
        case Claim():
            values = ["claim", statement.selectors, statement.margin, statement.within, statement.metric]
            return values + ["each"] * statement.each, f"the claim {statement.text!r}"
        case Target():
            words = f"{statement.source}: {statement.metric}"
            return ["margin", statement.source, statement.metric, statement.margin], f"the margin {words!r}"
        case Deviation():
            return [
                "deviation",
                statement.field,
                statement.paper,
                statement.ours,
            ], f"the deviation {statement.field!r}"
        case int():
            return ["seeds at most", statement], f"{statement} seeds at most"
        case str():
            return [statement], statement
        case name, value:
            return ["learned", name, float(value)], f"when {name} counts as learned"


def digest_of(statement: Statement) -> str:
    return digest(description_of(statement)[0], 12)


def statements(plan: PlanRecord) -> list[Statement]:
    """Return all that a plan states, each once."""
    parts = read_report(plan.report)
    stated: list[Statement] = [claim for part in parts if isinstance(part, Claims) for claim in part.claims]
    stated += [
        target
        for part in parts
        if isinstance(part, BesidePublished)
        for target in part.targets
        if target.margin
    ]
    stated += [
        *plan.deviations,
        *plan.success_threshold.items(),
        *([plan.max_seeds] if plan.max_seeds else []),
    ]
    stated += [PAIRED] * plan.paired
    return list({digest_of(statement): statement for statement in stated}.values())


def questions_of(plan: PlanRecord) -> dict[str, tuple[str, int]]:
    """Return the questions of a plan's parts by digest: their words, and how many there are at most."""
    questions: dict[str, tuple[str, int]] = {}
    for part, entry in zip(read_report(plan.report), plan.report, strict=True):
        if isinstance(part, Claims):
            questions |= {digest_of(claim): (description_of(claim)[1], 1) for claim in part.claims}
        elif isinstance(part, QuestionPart):  # differences from a base, or the effects of a factorial
            asked = {name: value for name, value in entry.items() if name not in ("name", "title", "targets")}
            questions[digest(asked, 12)] = f"the {entry['kind']} {part.name!r}", len(plan.variants) - 1
    return questions


def dropped_questions(now: PlanRecord, before: PlanRecord, is_frozen: bool) -> dict[str, tuple[str, int]]:
    """Return the questions that were dropped since the first run finished. They stay tests of the study's
    family.

    Args:
        now: The plan.
        before: The plan before it.
        is_frozen: Whether a run had finished under that plan.
    """
    dropped = before.dropped | (questions_of(before) if is_frozen else {})
    return {stated: words for stated, words in dropped.items() if stated not in questions_of(now)}


def first_dates(now: PlanRecord, before: Iterable[PlanRecord]) -> dict[str, str]:
    """Return digest -> when it was first stated, by this plan or one `before` it; empty if that plan kept no
    dates.
    """
    first: dict[str, str] = {}
    for plan in before:
        dates = plan.stated or {digest_of(statement): "" for statement in statements(plan)}
        first |= {stated: min(date, first.get(stated, date)) for stated, date in dates.items()}
    return {digest_of(statement): now.created for statement in statements(now)} | first


def post_hoc(records: "StudyRecords", statement: Statement, variants: Iterable[int] | None = None) -> bool:
    """Return whether a statement was first made after a run that it judges had finished.

    Args:
        records: Of the study.
        statement: Of the study, a claim with its metric.
        variants: The variants that it judges. By default those of a claim's contrast, those that deviate, or
            else all.
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
    """Return whether any run of these variants, or an earlier attempt of one, had finished by then."""
    limit = datetime.fromisoformat(date)
    for row in (row for index in variants for row in records.by_variant[index] if row.result):
        earlier = (
            records.results.run(row.id).path.glob(f"{EARLIER}-*/result.json")
            if row.provenance.earlier
            else ()
        )
        attempts = [row.result, *(read_record(file, Result) for file in earlier)]
        dates = [attempt.provenance.finished for attempt in attempts if attempt]
        if any(datetime.fromisoformat(finished) < limit for finished in dates if finished):
            return True
    return False


def registrable(plan: PlanRecord, date: str, recstudy: str) -> Registered:
    """Return the digests of what the plan states and of its settings, on this date by this version of
    recstudy.
    """
    stated = {digest_of(one): description_of(one)[1] for one in statements(plan) if not isinstance(one, int)}
    return Registered(
        study=plan.study,
        preset=plan.folder,
        date=date,
        recstudy=recstudy,
        definition=plan.definition,
        seeds=len(plan.seeds),
        max_seeds=plan.max_seeds,
        stated=stated,
    )


def differences(plan: PlanRecord, registered: Registered) -> list[str]:
    """Return how the plan differs from what was registered, each in a few words. Fewer seeds are no
    difference.
    """
    now, most, changes = registrable(plan, "", ""), registered.max_seeds or registered.seeds, []
    if now.definition != registered.definition:
        changes.append(f"other settings are compared ({now.definition}, not {registered.definition})")
    if now.seeds > most:
        changes.append(f"{now.seeds} seeds, not {most} at most")
    if now.max_seeds != registered.max_seeds:
        changes.append(f"max_seeds {now.max_seeds}, not {registered.max_seeds}")
    gone = [registered.stated[stated] for stated in registered.stated if stated not in now.stated]
    new = [now.stated[stated] for stated in now.stated if stated not in registered.stated]
    changes += [f"{words} {'changed' if words in new else 'is gone'}" for words in gone]
    return changes + [f"{words} is new" for words in new if words not in gone]


def registration_words(records: "StudyRecords") -> str:
    """Return when the study was registered, and what has changed since; empty if it was not."""
    registered = records.plan.registered
    if registered is None:
        return ""
    late = finished_before(records, range(len(records.variants)), registered.date)
    after = f", after the first run had finished ({POST_HOC})" * late
    return f"{registered.date[:10]}{after}, {'; '.join(differences(records.plan, registered)) or 'unchanged'}"
