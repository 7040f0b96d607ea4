"""When a study stated what it is judged by, and whether the runs had finished by then.

A claim, the margin of a published value, a deviation, the value above which a seed has learned and the most seeds each have a
digest of what decides a verdict. The plan keeps the date at which each digest was first stated, in this folder, by any definition
of the study. What was first stated after a run that it is judged by had finished is post hoc. Plans of before have no dates:
theirs are unknown, and not post hoc.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias

from recstudy.papers import Target
from recstudy.programs.settings import digest
from recstudy.records import PlanRecord, Result, read_record
from recstudy.records.run_folder import EARLIER
from recstudy.records.study_schema import Deviation, Registered
from recstudy.report.claims import Claim, Claims, weights
from recstudy.report.parts import BesidePublished, read_report

if TYPE_CHECKING:
    from recstudy.report.study_records import StudyRecords  # brings pandas, which a plan does without

Statement: TypeAlias = Claim | Target | Deviation | tuple[str, float] | int  # a metric's threshold of learning; the most seeds
POST_HOC = "post hoc"


def digest_of(one: Statement) -> str:
    """Return a digest of what decides a verdict, and not of the words around it; a claim has its metric."""
    if isinstance(one, Claim):
        return digest(["claim", one.selectors, one.by, one.within, one.metric, *(["each"] if one.each else [])], 12)
    if isinstance(one, Target):
        return digest(["margin", one.source, one.metric, one.margin], 12)
    if isinstance(one, Deviation):
        return digest(["deviation", one.field, one.paper, one.ours], 12)
    return digest(["learned", one[0], float(one[1])] if isinstance(one, tuple) else ["seeds at most", one], 12)


def statements(plan: PlanRecord) -> list[Statement]:
    """Return all that a plan states, each once."""
    parts = read_report(plan.report)
    found: list[Statement] = [claim for part in parts if isinstance(part, Claims) for claim in part.claims]
    found += [one for part in parts if isinstance(part, BesidePublished) for one in part.targets if one.margin]
    found += [*plan.deviations, *plan.learned.items(), *([plan.seeds_at_most] if plan.seeds_at_most else [])]
    return list({digest_of(one): one for one in found}.values())


def first_dates(now: PlanRecord, before: Iterable[PlanRecord]) -> dict[str, str]:
    """Return digest -> when it was first stated, by this plan or one `before` it; empty where that plan kept no dates."""
    known: dict[str, str] = {}
    for plan in before:
        dates = plan.stated or {digest_of(one): "" for one in statements(plan)}
        known |= {one: min(date, known.get(one, date)) for one, date in dates.items()}
    return {digest_of(one): now.created for one in statements(now)} | known


def post_hoc(records: "StudyRecords", one: Statement, variants: Iterable[int] | None = None) -> bool:
    """Tell whether it was first stated after a run had finished that is judged by it.

    Args:
        records: of the study.
        one: a claim with its metric, a target for its margin, a deviation, a metric and the value above which a seed has
            learned, or how many seeds there are at most.
        variants: those that are judged by it; by default those of a claim's contrast, those that deviate,
            and else all.
    """
    stated = records.plan.stated.get(digest_of(one), "")  # empty where it was stated before this was kept
    if not stated:
        return False
    if variants is None:
        variants = range(len(records.variants))
        if isinstance(one, Claim):
            variants = weights(one, records.variants, records.configs)
        elif isinstance(one, Deviation) and one.of_config:
            variants = [at for at in variants if records.configs[at].get(one.field) == one.ours]
    return finished_before(records, variants, stated)


def finished_before(records: "StudyRecords", variants: Iterable[int], date: str) -> bool:
    """Tell whether any run of these variants had finished by then, whatever was run again since."""
    dates: list[str] = []
    for row in (row for at in variants for row in records.by_variant[at] if row.result):
        dates.append(row.provenance.finished)
        if row.provenance.earlier:
            kept = (read_record(file, Result) for file in records.results.run(row.id).path.glob(f"{EARLIER}-*/result.json"))
            dates += [one.provenance.finished for one in kept if one]
    return any(datetime.fromisoformat(one) < datetime.fromisoformat(date) for one in dates if one)


def words_of(one: Statement) -> str:
    """Return a statement in a few words."""
    if isinstance(one, Claim):
        return f"the claim {one.text!r}"
    if isinstance(one, Target):
        return f"the margin {f'{one.source}: {one.metric}'!r}"
    if isinstance(one, Deviation):
        return f"the deviation {one.field!r}"
    return f"when {one[0]} counts as learned" if isinstance(one, tuple) else f"{one} seeds at most"


def registrable(plan: PlanRecord, date: str, recstudy: str) -> Registered:
    """Return the digests of what the plan states and of its settings, on this date by this version of recstudy."""
    return Registered(
        study=plan.study,
        preset=plan.folder,
        date=date,
        recstudy=recstudy,
        definition=plan.definition,
        seeds=len(plan.seeds),
        seeds_at_most=plan.seeds_at_most,
        stated={digest_of(one): words_of(one) for one in statements(plan) if not isinstance(one, int)},
    )


def differences(plan: PlanRecord, registered: Registered) -> list[str]:
    """Say in what the plan is not as it was registered, each in a few words; fewer seeds are the beginning of what was."""
    now, most, found = registrable(plan, "", ""), registered.seeds_at_most or registered.seeds, []
    if now.definition != registered.definition:
        found.append(f"other settings are compared ({now.definition}, not {registered.definition})")
    if now.seeds > most:
        found.append(f"{now.seeds} seeds, not {most} at most")
    if now.seeds_at_most != registered.seeds_at_most:
        found.append(f"seeds_at_most {now.seeds_at_most}, not {registered.seeds_at_most}")
    gone = [words for digest, words in registered.stated.items() if digest not in now.stated]
    new = [words for digest, words in now.stated.items() if digest not in registered.stated]
    for words in dict.fromkeys([*gone, *new]):
        found.append(f"{words} {'changed' if words in gone and words in new else 'is gone' if words in gone else 'is new'}")
    return found


def registration_words(records: "StudyRecords") -> str:
    """Say when the study was registered, and what has changed since; empty where it was not."""
    registered = records.plan.registered
    if registered is None:
        return ""
    late = finished_before(records, range(len(records.variants)), registered.date)
    after = f", after the first run had finished ({POST_HOC})" * late
    return f"{registered.date[:10]}{after}, {'; '.join(differences(records.plan, registered)) or 'unchanged'}"
