"""The plans of a study in two results folders as those of one: definitions beside each other, seeds, dates and looks of both."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from recstudy.opened import contents, there
from recstudy.records.files import whole_lines
from recstudy.records.plans import kept_plans
from recstudy.records.reading import adapter, read_record, read_trials
from recstudy.records.study_schema import ClockLine, ConfirmLine, PlanRecord, TrialLine

SETTLED = {  # what one of two plans of a definition must give way in, and how a conflict calls it
    "seeds_at_most": "the most seeds",
    "learned": "the value above which a seed has learned",
    "deviations": "the deviations",
    "report": "the claims and the report",
}


def merged_study(ours: Path, theirs: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the files of a study's folder that another's folder changes or adds, by name, and what conflicts, a line each.

    Args:
        ours: the folder that receives; it may be missing. What it shows, it shows still.
        theirs: the other's, of the same study and preset.

    Raises:
        StorageError: a plan or a log is damaged. The message names it.
    """
    (own, shown), (other, first) = _plans(ours), _plans(theirs)
    said, files = _dates_differ(own, other), dict[str, bytes]()
    for name in [*own, *other]:
        if name in own and name in other:
            merged, lines = _one_plan(own[name], other[name])
            said += lines
        else:
            merged = own.get(name) or other[name]
        merged = replace(merged, stated=_first_stated([*own.values(), *other.values()])) if merged.stated else merged
        if merged != own.get(name):
            files[f"plan-{name}.json"] = adapter(PlanRecord).dump_json(merged, indent=1, by_alias=True, exclude_none=True) + b"\n"
    if own and (added := [name for name in other if name not in own]):
        said.append(f"studies/{ours.parent.name}/{ours.name}: definition {', '.join(added)} stands beside {shown}, which is ours")
    if (file := f"plan-{shown if own else first}.json") in files:
        files["plan.json"] = files[file]
    for log in sorted(path for path in theirs.glob("*.json*") if there(path)):
        if log.match("looks-*.jsonl"):
            united = unite(ours / log.name, log)
        elif log.match("trials-*.jsonl"):
            united = _followed(ours / log.name, _new_trials(ours / log.name, log))
        else:  # what follows from a log is computed again, where it is; texts are named by their digest
            lacking = log.match("importance-*.json")
            united = contents(log) if lacking and not (ours / log.name).exists() else None
        if united is not None:
            files[log.name] = united
    return files, said


def _plans(folder: Path) -> tuple[dict[str, PlanRecord], str]:
    """Return a study's plans by their definitions, and which of them is shown; the copy of the one that is shown may be older."""
    shown = read_record(folder / "plan.json", PlanRecord)
    kept = {
        name: plan for name, plan in kept_plans(folder) if plan is not None and not (folder / f"plan-{name}.json").is_symlink()
    }
    return ({**kept, shown.definition: shown}, shown.definition) if shown else (kept, next(iter(kept), ""))


def _first_stated(plans: list[PlanRecord]) -> dict[str, str]:
    """Return digest of a claim, margin or deviation -> when any of these plans first stated it."""
    known: dict[str, str] = {}
    for plan in plans:
        known |= {one: min(date, known.get(one, date)) for one, date in plan.stated.items()}
    return known


def _dates_differ(own: Mapping[str, PlanRecord], other: Mapping[str, PlanRecord]) -> list[str]:
    ours, theirs = _first_stated([*own.values()]), _first_stated([*other.values()])
    apart = [(ours[one], theirs[one]) for one in ours.keys() & theirs.keys() if ours[one] != theirs[one]]
    if not apart:
        return []
    plan, (here, there) = next(iter(own.values())), min(apart)
    count = f"{len(apart)} claims or margins were" if len(apart) > 1 else "a claim or margin was"
    return [f"studies/{plan.study}/{plan.folder}: {count} first stated on {here} here, on {there} there: the earlier date holds"]


def _one_plan(own: PlanRecord, other: PlanRecord) -> tuple[PlanRecord, list[str]]:
    """Return a definition's plan with the seeds of both, and in what the two do not agree: there `own` stays."""
    where = f"studies/{own.study}/{own.folder}, definition {own.definition}"
    if [one.label for one in own.variants] != [one.label for one in other.variants]:
        return own, [f"{where}: other variants under the same name; theirs are left out"]
    said = [
        f"{where}: {words} differ; ours stay" for field, words in SETTLED.items() if getattr(own, field) != getattr(other, field)
    ]
    if own.registered and other.registered and own.registered != other.registered:
        said.append(f"{where}: registered twice, on {own.registered.date} and on {other.registered.date}; ours stays")
    cells = {(run.variant, run.seed): run.id for run in own.runs}
    new = [run for run in other.runs if (run.variant, run.seed) not in cells]
    renamed = sum(cells.get((run.variant, run.seed), run.id) != run.id for run in other.runs)
    said += [f"{where}: {renamed} runs have other ids there, as of another recstudy; theirs are left out"] if renamed else []
    merged = replace(
        own,
        seeds=tuple(sorted({*own.seeds, *other.seeds})),
        runs=(*own.runs, *new),
        created=min(filter(None, (own.created, other.created)), default=""),
        registered=own.registered or other.registered,
        command=other.command if len(other.seeds) > len(own.seeds) else own.command,  # which finishes the further seeds too
    )
    return merged, said


def _new_trials(ours: Path, theirs: Path) -> list[bytes]:
    """Return the lines that another's log of a search adds: numbers go on from ours, and of one run there is one trial."""
    lines = read_trials(ours)
    at = {line.id: line.number for line in lines if isinstance(line, TrialLine)}
    fresh = {line.id for line in lines if isinstance(line, ConfirmLine)}
    clocks = {line.clock for line in lines if isinstance(line, ClockLine)}
    proposed, new = dict[int, str](), list[TrialLine | ConfirmLine | ClockLine]()
    for line in read_trials(theirs):
        if isinstance(line, TrialLine):
            proposed[line.number] = line.id
            if line.id not in at:
                at[line.id] = len(at)
                new.append(replace(line, number=at[line.id]))
        elif isinstance(line, ConfirmLine):
            if line.id not in fresh and line.confirms in proposed:
                fresh.add(line.id)
                new.append(replace(line, confirms=at[proposed[line.confirms]]))
        elif line.clock not in clocks:
            new.append(line)
    return [adapter(type(line)).dump_json(line, by_alias=True, exclude_none=True) for line in new]


def unite(ours: Path, theirs: Path) -> bytes | None:
    """Return a log with the lines of another that it lacks, behind its own; None where it lacks none."""
    own = set(whole_lines(ours))
    return _followed(ours, [line for line in whole_lines(theirs) if line not in own])


def _followed(log: Path, new: list[bytes]) -> bytes | None:
    return b"".join(line + b"\n" for line in [*whole_lines(log), *new]) if new else None
