"""The checks of a bundle's records: ids from settings, metrics from answers, one record against another, dates against runs."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from recstudy.errors import RecstudyError
from recstudy.programs.metric import METRICS, Metric, NotAvailable
from recstudy.programs.settings import digest, flatten, run_ids
from recstudy.publishing.bundle import Bundle
from recstudy.publishing.scrub import AWAY
from recstudy.records import Attempt, EpochLine, Json, read_json, read_log
from recstudy.report.names import plural
from recstudy.report.registration import digest_of, statements
from recstudy.report.rows import Row, distinct

ROUNDED = 2e-3  # as a share: by which a metric of answers in half precision is off, where it is no count of right ones
EDGE = 3  # items that such a metric may count otherwise
EXACT = 1e-9  # where it is
OWN = "what a study defines itself is not imported"


@dataclass
class Check:
    """What one check looked at, in words; what it could not look at; and what differs."""

    name: str
    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)


# ------------------------------------------------------------------------------------------------------------- settings


def check_settings(bundle: Bundle, check: Check) -> None:
    """Compute each run's id again, from the plan's settings of its variant and seed, and from the settings in its own record."""
    plan = bundle.plan
    base = {**plan.base, "seed": 0}
    unchecked: dict[str, None] = {}  # each reason once
    known: dict[str, Json | None] = {}  # digest of settings without their seed -> what decides their run ids

    def deciding(settings: Json, changes: Json, source: str) -> Json | None:
        key = digest([settings, changes], 20)
        if key not in known:
            known[key] = None
            texts = [value for part in (settings, changes) for value in flatten(part).values() if isinstance(value, str)]
            if any(text.startswith(AWAY) for text in texts):
                unchecked.setdefault("ids of settings that had a path, which was taken out of them")
            else:
                try:
                    known[key] = bundle.records.program.deciding(settings, changes)
                except RecstudyError as error:  # most often because the study defines a part of them itself
                    why = re.split(r"[.:] [Tt]here are", str(error))[0]
                    unchecked.setdefault(f"{source}: {why} ({OWN})")
        return known[key]

    count = 0
    for run in plan.runs:
        variant = plan.variants[run.variant]
        if planned := deciding(base, dict(variant.changes), "the plan's settings"):
            count += 1
            found = run_ids(planned, [run.seed])[0]
            if found != run.id:
                settings = f"the plan's settings of {variant.label!r} with seed {run.seed}"
                check.differs.append(f"run {run.id}: {settings} are those of run {found}")
        values = read_json(bundle.results.run(run.id).config)
        if values is None:
            continue
        if own := deciding({**values, "seed": 0}, {}, "the settings in runs' records"):
            count += 1
            found = run_ids(own, [values.get("seed", 0)])[0]
            if found != run.id:
                check.differs.append(f"run {run.id}: its config.json is that of run {found}")
        planned_values, stated = {**bundle.records.configs[run.variant], "seed": run.seed}, flatten(values)
        check.differs += [
            f"run {run.id}: {path} is {stated[path]!r} in its config.json, and {planned_values[path]!r} in the plan"
            for path in stated  # places decide nothing
            if path in planned_values and not path.startswith("place.") and stated[path] != planned_values[path]
        ]
    strange = sorted(set(bundle.results.run_ids()) - {run.id for run in plan.runs})
    check.differs += [f"runs/{name} is no run of the plan" for name in strange]
    check.unchecked += unchecked
    if count:
        check.checked.append(f"the ids of {plural(len(plan.runs), 'run')}, by the plan's settings and by those in their records")


def check_answers(bundle: Bundle, check: Check) -> None:
    """Compute each run's metrics again, from the answers that it kept."""
    values = runs = 0
    unknown: Counter[str] = Counter()
    for row in (row for row in distinct(bundle.records.rows) if row.result is not None):
        stated = {name: float(value) for name, value in row.found.metrics.items() if value is not None}
        try:
            again, items = bundle.records.program.recompute(bundle.results.run(row.id).answers, [*stated])
        except NotAvailable as why:
            unknown[str(why)] += 1
            continue
        runs, values = runs + 1, values + len(again.values)
        for name, value in again.values.items():
            metric = METRICS[name if name in METRICS else name.partition(".")[0]]
            if name in stated and not _near(stated[name], value, metric, items):
                check.differs.append(f"run {row.id}: {name} is {stated[name]!r} in its result, and {value!r} by its answers")
        unknown.update(f"{name}: {why}" for name, why in again.unavailable.items())
        unknown.update(f"{name}: it does not follow from the test set's answers" for name in stated.keys() - again.values.keys())
    if values:
        check.checked.append(f"{plural(values, 'value')} of metrics, by the answers of {plural(runs, 'run')}")
    check.unchecked += [f"{said} ({plural(count, 'run')})" for said, count in sorted(unknown.items())]


def _near(stated: float, again: float, metric: Metric, items: int) -> bool:
    """Return whether two values agree: shares of right answers fully, others as far as half precision tells, in which some items
    come to lie beyond an edge, such as that of a bin of the calibration error."""
    if metric.share:
        return abs(stated - again) <= EXACT * max(1.0, abs(stated))
    low, high = metric.bounds or (0.0, 0.0)
    wide = high - low if high < float("inf") else abs(stated)
    return abs(stated - again) <= (ROUNDED + EDGE / max(1, items)) * max(1.0, wide)


# -------------------------------------------------------------------------------------------------------------- records


def check_records(bundle: Bundle, check: Check) -> None:
    """Hold what the records of one run say of it against each other, and those of one variant's runs."""
    done = 0
    sizes: dict[tuple[int, str], dict[Any, str]] = {}
    for row in distinct(bundle.records.rows):
        check.differs += _contradictions(bundle, row)
        for name in ("params", "gflops") if row.result is not None else ():
            sizes.setdefault((row.variant, name), {}).setdefault(row.value(name), row.id)
        done += row.result is not None
    for (variant, name), found in sizes.items():
        if len(found) > 1:
            label, runs = bundle.plan.variants[variant].label, " and ".join(found.values())
            check.differs.append(f"{label!r}: runs {runs} differ in {name}, which follows from their settings")
    check.checked.append(f"that result, epochs, attempts and cost of {plural(done, 'run')} agree")


def _contradictions(bundle: Bundle, row: Row) -> Iterator[str]:
    if row.result is None:
        return
    folder, made, selected = bundle.results.run(row.id), row.provenance, row.found.selected
    attempts = [line.started for line in read_log(folder.attempts, Attempt) if line.started]
    lines = {line.epoch: line for line in read_log(folder.epochs, EpochLine)}
    for what, began in (("it started", made.started), *(("an attempt began", one) for one in attempts)):
        if began and made.finished and began > made.finished:
            yield f"run {row.id}: {what} {began}, after it had finished {made.finished}"
    if selected.epoch is None or not lines or made.lost_epochs:
        return
    if selected.epoch not in lines:
        yield f"run {row.id}: it selected epoch {selected.epoch}, of which there is no line"
        return
    for name, value in selected.scores.items():
        known = lines[selected.epoch].values.get(f"selection_{name}")
        if known is not None and known != value:
            yield f"run {row.id}: {name} of the selected epoch is {value!r} in its result, and {known!r} among its epochs"


# ---------------------------------------------------------------------------------------------------------------- dates


def check_dates(bundle: Bundle, check: Check) -> None:
    """Hold the dates of what the study stated against its runs."""
    plan = bundle.plan
    finished = sorted(row.provenance.finished for row in bundle.records.rows if row.provenance.finished)
    known = [digest_of(one) for one in statements(plan)]
    dates = [plan.stated[one] for one in known if plan.stated.get(one)]
    if plan.stated and (others := len([one for one in known if one not in plan.stated])):
        check.differs.append(
            f"{plural(others, 'statement')} (claims, margins, deviations) of the plan are not those that were dated"
        )
    if dates:
        before = sum(not finished or date <= finished[0] for date in dates)
        first = f" ({finished[0]})" if finished else ""
        check.checked.append(
            f"{plural(len(dates), 'dated statement')} (claims, margins, deviations): {before} are from before the first run had "
            f"finished{first}. Which verdicts are post hoc is part of the report, which is drawn again"
        )
    if undated := len(known) - len(dates):
        check.unchecked.append(f"when {plural(undated, 'statement')} were made: the records have no date of them")
    check.unchecked.append("whether these dates are true: nobody but the records says so, unless they were deposited somewhere")
