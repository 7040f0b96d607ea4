"""When a study stated what it is judged by, and whether the runs had finished by then.

A claim, the margin of a published value, a deviation and the most seeds each have a digest of what decides a verdict. The plan
keeps the date at which each digest was first stated, in this folder, by any definition of the study. What was first stated
after a run that it is judged by had finished is post hoc. Plans of before have no dates: theirs are unknown, and not post hoc.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from recstudy.config import digest
from recstudy.papers import Target
from recstudy.records import PlanRecord, Result, read_record
from recstudy.records.study_schema import Deviation, Registered, Stated
from recstudy.report import BesidePublished, Claim, Claims, read_report
from recstudy.report.claims import weights

if TYPE_CHECKING:
    from recstudy.analysis.frame import StudyRecords

Statement = Claim | Target | Deviation | int  # an int is the most seeds
POST_HOC = "post hoc"


def digest_of(one: Statement) -> str:
    """A digest of what decides a verdict, and not of the words around it; a claim has its metric."""
    if isinstance(one, Claim):
        return digest(["claim", one.selectors, one.by, one.within, one.metric], 12)
    if isinstance(one, Target):
        return digest(["margin", one.source, one.metric, one.margin], 12)
    if isinstance(one, Deviation):
        return digest(["deviation", one.field, one.paper, one.ours], 12)
    return digest(["seeds at most", one], 12)


def statements(plan: PlanRecord) -> list[Statement]:
    """All that a plan states, each once."""
    parts = read_report(plan.report)
    found: list[Statement] = [claim for part in parts if isinstance(part, Claims) for claim in part.claims]
    found += [one for part in parts if isinstance(part, BesidePublished) for one in part.targets if one.margin]
    found += [*plan.deviations, *([plan.seeds_at_most] if plan.seeds_at_most else [])]
    return list({digest_of(one): one for one in found}.values())


def first_dates(now: PlanRecord, before: Iterable[PlanRecord]) -> dict[str, str]:
    """Digest -> when it was first stated, by this plan or one `before` it; empty where that plan kept no dates."""
    known: dict[str, str] = {}
    for plan in before:
        dates = plan.stated or {digest_of(one): "" for one in statements(plan)}
        known |= {one: min(date, known.get(one, date)) for one, date in dates.items()}
    return {digest_of(one): now.created for one in statements(now)} | known


def first_stated(records: "StudyRecords", one: Statement) -> str:
    """The date at which it was first stated; empty where that was before this was kept."""
    return records.plan.stated.get(digest_of(one), "")


def post_hoc(records: "StudyRecords", one: Statement, variants: Iterable[int] | None = None) -> bool:
    """Whether it was first stated after a run had finished that is judged by it.

    Args:
        records: of the study.
        one: a claim with its metric, a target for its margin, a deviation, or how many seeds there are at most.
        variants: those that are judged by it; by default those of a claim's contrast, those that deviate,
            and else all.
    """
    stated = first_stated(records, one)
    if not stated:
        return False
    if variants is None:
        variants = range(len(records.variants))
        if isinstance(one, Claim):
            variants = weights(one, records.variants, records.configs)
        elif isinstance(one, Deviation) and one.of_config:
            variants = [at for at in variants if records.configs[at].get(one.field) == one.ours]
    finished = first_finished(records, variants)
    return bool(finished) and datetime.fromisoformat(stated) > datetime.fromisoformat(finished)


def first_finished(records: "StudyRecords", variants: Iterable[int]) -> str:
    """When the first run of these variants finished, whatever was run again since; empty where none has."""
    dates = []
    for row in (row for at in variants for row in records.by_variant[at] if row.result):
        dates.append(row.provenance.finished)
        if row.provenance.earlier:
            kept = (read_record(file, Result) for file in records.results.run(row.id).path.glob("attempt-*/result.json"))
            dates += [one.provenance.finished for one in kept if one]
    return min(filter(None, dates), key=datetime.fromisoformat, default="")


def registrable(plan: PlanRecord, date: str, recstudy: str) -> Registered:
    """All that the plan states, as it is registered on this date by this version of recstudy."""
    kinds: dict[type, list[Stated]] = {Claim: [], Target: [], Deviation: []}
    for one in statements(plan):
        if not isinstance(one, int):
            kinds[type(one)].append(_in_words(one))
    claims, margins, deviations = (tuple(kinds[kind]) for kind in (Claim, Target, Deviation))
    code = {name: one.digest for name, one in sorted(plan.code.items())}
    stated = [one.digest for one in (*claims, *margins, *deviations)]
    return Registered(
        study=plan.study, preset=plan.folder, date=date, recstudy=recstudy, definition=plan.definition, seeds=len(plan.seeds),
        seeds_at_most=plan.seeds_at_most, claims=claims, margins=margins, deviations=deviations, code=code,
        digest=digest([plan.definition, len(plan.seeds), plan.seeds_at_most, stated, code], 16),
    )  # fmt: skip


def _in_words(one: Claim | Target | Deviation) -> Stated:
    if isinstance(one, Claim):
        return Stated(digest=digest_of(one), what=one.text, says=f"{one.metric}: {one.contrast}")
    if isinstance(one, Target):
        says, why = f"within {one.margin:g} of {one.value:g} {one.unit}", getattr(one, "margin_reason", "")
        return Stated(digest=digest_of(one), what=f"{one.source}: {one.metric}", says=says, why=why)
    return Stated(digest=digest_of(one), what=one.field, says=f"{one.ours!r}, where the paper has {one.paper!r}", why=one.why)


def differences(plan: PlanRecord, registered: Registered) -> list[str]:
    """In what the plan is not as it was registered, each in a few words. Fewer seeds are the begin of what was registered."""
    now = registrable(plan, "", "")
    found = [f"other settings are compared ({now.definition}, not {registered.definition})"] * (
        now.definition != registered.definition
    )
    most = registered.seeds_at_most or registered.seeds
    found += [f"{now.seeds} seeds, not {most} at most"] * (now.seeds > most)
    found += [f"seeds_at_most {now.seeds_at_most}, not {registered.seeds_at_most}"] * (
        now.seeds_at_most != registered.seeds_at_most
    )
    for kind, ours, theirs in (
        ("claim", now.claims, registered.claims),
        ("margin", now.margins, registered.margins),
        ("deviation", now.deviations, registered.deviations),
    ):
        new = {one.what: one for one in ours if one.digest not in {other.digest for other in theirs}}
        for gone in (one for one in theirs if one.digest not in {other.digest for other in ours}):
            changed = new.pop(gone.what, None)
            said = f"is {changed.says}, not {gone.says}" if changed else "is gone"
            found.append(f"the {kind} {gone.what!r} {said}")
        found += [f"the {kind} {one.what!r} is new" for one in new.values()]
    code = [name for name in {**registered.code, **now.code} if registered.code.get(name) != now.code.get(name)]
    return [*found, *([f"other code of {', '.join(code)}"] if code else [])]


def registration_words(records: "StudyRecords") -> str:
    """When the study was registered, and what has changed since; empty where it was not."""
    registered = records.plan.registered
    if registered is None:
        return ""
    finished = first_finished(records, range(len(records.variants)))
    late = bool(finished) and datetime.fromisoformat(registered.date) > datetime.fromisoformat(finished)
    after = f", after the first run had finished ({POST_HOC})" * late
    return f"{registered.date[:10]}{after}, {'; '.join(differences(records.plan, registered)) or 'unchanged'}"
