"""The checks of a bundle except for its report. `CHECKS` lists those that read the records.

Each check yields a line for each difference, and adds lines to `Verified`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import astuple, replace
from datetime import datetime, timedelta
from math import isclose, prod
from typing import Any, NamedTuple

import pandas as pd

from recstudy.base.errors import ConfigError, RecstudyError, choices
from recstudy.programs.settings import run_ids
from recstudy.publishing.about import AS_PLANNED, CHANGED, last_day
from recstudy.publishing.bundle import (
    ABOUT,
    CODE,
    KINDS,
    LAYOUT,
    MANIFEST,
    PLAN,
    REPORT,
    RESULTS,
    Bundle,
    digest_of_records,
)
from recstudy.publishing.scrub import PATH_PREFIX
from recstudy.records import Attempt, EpochLine, read_json, read_log
from recstudy.records.plans import IMPORTED, LOOKS, read_imported, read_looks
from recstudy.records.reading import find_strict_faults
from recstudy.records.runs import FINAL_STATUSES, Row, distinct
from recstudy.report.names import plural, same_value
from recstudy.report.registration import description_of, digest_of, statements

OWN_CODE = "the study's own code is not imported"
# Relative tolerance for computed numbers, because another processor may sum in another order.
CLOSE = 1e-9
TITLES = ("model", "data")  # axes whose levels are titles
# Costs that follow from the settings, and measured ones whose product is the steps of all images.
COUNTED = ("params", "trained_params", "gflops", "train_gflops", "train_pflop")
IMAGE_STEPS = ("seconds", "images_per_second", "supervision_steps_used")
ONE_DEPTH = "answers are only kept after the last step"
COST = "it can only be measured during the run"
# Tolerance for different clocks of two machines.
CLOCKS = timedelta(minutes=1)


class Verified(NamedTuple):
    """The lines of a verification, apart from differences.

    Attributes:
        checked: A line for each passed check.
        unchecked: A line for each fact that could not be checked.
    """

    checked: list[str]
    unchecked: list[str]


def check_files(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Compare files with the manifest, the records with their digest in bundle.json, and code with the
    plan."""
    manifest, digests, about = bundle.manifest, bundle.digests, bundle.about
    for name in sorted(manifest.keys() | digests.keys()):
        if name not in digests:
            yield f"{name}: is missing"
        elif manifest.get(name) != digests[name]:
            difference = "changed since it was published" if name in manifest else f"is not in {MANIFEST}"
            yield f"{name}: {difference}"
    layout = LAYOUT % (re.escape(about.study), re.escape(about.preset))
    for name, path in bundle.files.items():
        if not re.fullmatch(layout, name):
            yield f"{name}: a bundle has no such file"
        elif path.suffix in (".json", ".jsonl") and not name.startswith((REPORT, CODE)):
            yield from find_strict_faults(path, KINDS.get(path.stem.partition("-")[0], Any))
    if about.records != (computed := digest_of_records(digests)):
        yield f"{ABOUT}: its SHA-256 of the records is not {computed}"
    verified.checked.append(f"{plural(len(digests), 'file')}: SHA-256, and no other file is present")
    planned = bundle.plan.files
    copied = {name.removeprefix(f"{CODE}/") for name in digests if name.startswith(f"{CODE}/")}
    for name in sorted({*planned, *about.code, *copied}):
        file, words = f"{CODE}/{name}", about.code.get(name, f"{ABOUT} does not name it")
        digest = digests.get(file)
        recorded = " ".join(row.provenance.files.get(name, "") for row in bundle.records.rows)
        if digest is None and name in about.code:
            yield f"{file}: is missing"
        elif digest is None:
            verified.unchecked.append(f"{file}: only its SHA-256 in {PLAN} is here")
        elif words == CHANGED or (name not in planned and words != AS_PLANNED):
            verified.unchecked.append(f"{file}: {words}")
        elif planned.get(name) != digest:
            yield f"{file}: its SHA-256 is not the one in {PLAN}"
        elif digest in recorded or not recorded.strip():
            verified.checked.append(f"{file} by its SHA-256 in {PLAN}")
        else:
            verified.unchecked.append(f"{file}: its SHA-256 is in {PLAN}, but no run has recorded it")


def check_settings(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Compute the id of each run from the plan and from the settings in its own record."""
    plan, imported = bundle.plan, read_imported(bundle.study).runs
    reasons: Counter[str] = Counter()
    if (plan.study, plan.folder) != (bundle.about.study, bundle.about.preset):
        yield f"{bundle.study / PLAN}: it is of {plan.study} ({plan.folder}), but {ABOUT} is not"
    for run in plan.runs:
        sources = {bundle.study / PLAN: (plan.base | {"seed": run.seed}, plan.variants[run.variant].changes)}
        folder = bundle.results.run(run.id)
        if run_config := read_json(folder.config):
            sources[folder.config] = run_config, {}
        elif folder.result.exists():
            yield f"{folder.config}: is missing"
        if record := imported.get(run.id):
            settings = {"program": plan.base.get("program"), "settings": record.settings, "seed": record.seed}
            sources[bundle.study / IMPORTED] = settings, {}
        for source, (settings, changes) in sources.items():
            try:
                if PATH_PREFIX in repr((settings, changes)):
                    raise ConfigError("a path was removed from them")
                decided = bundle.records.program.deciding(settings, changes)
            # Usually the study defines a part of the settings itself, and its code is not imported.
            except RecstudyError as error:
                reasons[re.split(r"[.:] [Tt]here are", str(error))[0]] += 1
                continue
            (actual,) = run_ids(decided, [settings.get("seed", 0)])
            if actual != run.id:
                yield f"{source}: the settings of run {run.id} give the id {actual}"
    for name in sorted({*bundle.results.run_ids(), *imported} - {run.id for run in plan.runs}):
        yield f"{RESULTS}/runs/{name}: the plan has no such run"
    verified.unchecked.extend(
        f"settings of runs ({count}): {reason} ({OWN_CODE})" for reason, count in reasons.items()
    )
    if not reasons:
        verified.checked.append(
            f"the ids of {plural(len(plan.runs), 'run')} by the settings in the plan and in their records"
        )


def check_variants(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Check the seeds of each variant, and compute its label, levels, titles, parameters and FLOPs."""
    plan, records, place = bundle.plan, bundle.records, bundle.study / PLAN
    reasons: Counter[str] = Counter()
    most_seeds = max(map(len, records.by_variant), default=0)
    trials = [trial.number for trial in plan.search.trials] if plan.search else []
    if trials != [*range(len(trials))]:
        yield f"{place}: the trials of the search have a gap: {trials}"
    for axis, field in plan.axes.items():
        values = [
            getattr(variant, field) if field in TITLES else config.get(field, variant.levels.get(axis))
            for variant, config in zip(plan.variants, records.configs, strict=True)
        ]
        for variant, value in zip(plan.variants, values, strict=True):
            level = variant.levels.get(axis, value)
            # A level of another name is the author's word, unless it is the value of another variant.
            if not same_value(level, value) and (level in values or not isinstance(level, str)):
                yield f"{place}: {variant.label!r} has the level {axis}={level}, but its setting is {value!r}"
    for variant, rows in zip(plan.variants, records.by_variant, strict=True):
        seeds = sorted(row.seed for row in rows)
        if not plan.imported and seeds != [*range(len(seeds) or 1)]:
            yield f"{place}: the seeds of {variant.label!r} have a gap: {seeds}"
        if len(seeds) < most_seeds and not plan.search:
            verified.unchecked.append(f"why {variant.label!r} has only {len(seeds)} of {most_seeds} seeds")
        label = f", {variant.label}, ".replace(": ", ", ")
        for axis, level in variant.levels.items():
            _, statement, text = label.partition(f", {axis}=")
            words = f"{'none' if level is None else level}, ".replace(": ", ", ")
            is_level = isinstance(level, list) or text.startswith((words, f"{level}, "))
            # An author may write 0.0001 as 1e-4.
            if statement and not is_level and pd.to_numeric(text.partition(",")[0], errors="coerce") != level:
                yield f"{place}: the label {variant.label!r} does not follow from its level {axis}={level}"
        try:
            settings = records.program.read(plan.base).with_changes(variant.changes)
            description, results = astuple(settings.description), [row.result for row in rows if row.result]
            # Counting a large network takes seconds.
            cost = {**vars(records.program.cost(settings))} if results else {}
        except (RecstudyError, ImportError, RuntimeError) as error:
            reasons[str(error)] += 1
            continue
        recorded = variant.model, variant.data, variant.synthetic, variant.leaks, variant.batch_norm
        # A row could get the label of another one, so titles are compared whatever version published them.
        if recorded != (computed := description[: len(recorded)]):
            yield f"{place}: {variant.label!r} is described as {recorded}, but its settings give {computed}"
        for result in results:
            image_steps = prod(result.cost.get(name) or 0 for name in IMAGE_STEPS)
            cost["train_pflop"] = records.program.train_pflop(settings, image_steps)
            for name, value in cost.items():
                if not isclose(recorded_cost := result.cost.get(name, value) or 0, value, rel_tol=CLOSE):
                    yield f"{variant.label!r}: {name} is {recorded_cost}, but its settings give {value}"
    verified.unchecked.extend(
        f"titles, parameters and FLOPs of variants ({count}): {reason}" for reason, count in reasons.items()
    )
    count, counted = plural(len(plan.variants), "variant"), ", titles, parameters and FLOPs" * (not reasons)
    verified.checked.append(f"seeds, levels and labels{counted} of {count}")


def check_answers(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Compute the metrics of each run from its saved answers, and report metrics that differ."""
    # Number of metrics by run, and number of runs by reason and metric.
    compared, unchecked = Counter[str](), Counter[tuple[str, str]]()
    tolerances: dict[str, float] = {}
    rows = finished_rows(bundle)
    # a run that lacks a metric of the other runs has it as None, so that its answers give its value
    names = dict.fromkeys(name for row in rows for name in row.result_or_empty.metrics)
    for row in rows:
        folder, result = bundle.results.run(row.id), row.result_or_empty
        metrics = {**dict.fromkeys(names), **result.metrics}
        outcomes = bundle.records.program.recompute(folder.answers, replace(result, metrics=metrics))
        for name, outcome in outcomes.items():
            recorded_value = metrics[name]
            if isinstance(outcome, str):
                if name in result.metrics:
                    unchecked[outcome, name] += 1
            elif recorded_value is None and name.partition(".")[0] not in result.unavailable:
                yield f"{folder.result}: it has no {name}, but its answers give {outcome[0]!r}"
            elif recorded_value is not None:
                value, tolerance = outcome
                compared[row.id] += 1
                if not isclose(recorded_value, value, rel_tol=CLOSE, abs_tol=tolerance):
                    yield (
                        f"{folder.result}: {name} is {float(recorded_value)!r}, but its answers give"
                        f" {value!r}"
                    )
                # For a metric over classes, use the largest tolerance of the mean and the classes.
                metric = name.partition(".")[0]
                tolerances[metric] = max(tolerance, tolerances.get(metric, 0))
        unchecked.update((ONE_DEPTH, f"{name} by steps") for name, values in result.depths.items() if values)
        unchecked.update((COST, name) for name in result.cost if name not in COUNTED)
    if compared:
        verified.checked.append(
            f"{compared.total():,} metrics of {plural(len(compared), 'run')} by the answers on the test set"
        )
    lines: dict[tuple[str, str], list[str]] = {}
    for (reason, name), count in sorted(unchecked.items()):
        lines.setdefault((plural(count, "run"), reason), []).append(name)
    verified.unchecked.extend(
        f"{', '.join(names)} ({runs}): {reason}" for (runs, reason), names in lines.items()
    )
    if listed := ", ".join(f"{name} ({error:.1g})" for name, error in sorted(tolerances.items()) if error):
        verified.unchecked.append(f"smaller differences of {listed}: answers are saved in half precision")


def finished_rows(bundle: Bundle) -> list[Row]:
    """Return one row per run that has a result."""
    return [row for row in distinct(bundle.records.rows) if row.result]


def check_records(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Compare the result of each run with its attempts and epochs."""
    records = bundle.records
    yield from (row.error for row in records.rows if row.error_class == "damaged record")
    if open_runs := [row for row in records.rows if row.status not in FINAL_STATUSES]:
        names = choices((f"{row.label}, seed {row.seed}" for row in open_runs), limit=6)
        verified.unchecked.append(f"why planned runs have no result: {names}")
    rows = finished_rows(bundle)
    verified.checked.append(f"that attempts, epochs and results of {plural(len(rows), 'run')} agree")
    for row in rows:
        folder, provenance, selected = bundle.results.run(row.id), row.provenance, row.selected
        config, attempts = records.configs[row.variant], read_log(folder.attempts, Attempt)
        lines = {line.epoch: line.values for line in read_log(folder.epochs, EpochLine)}
        last_start = max([provenance.started, *(line.started or "" for line in attempts)])
        if provenance.finished and last_start > provenance.finished:
            yield f"{folder.result}: finished on {provenance.finished}, before it was started"
        if provenance.files != folder.user_files:
            yield f"{folder.files}: its digests differ from those in result.json"
        if attempts and row.attempts not in (None, folder.tries):
            yield f"{folder.attempts}: has {folder.tries} attempts, but result.json has {row.attempts}"
        commits = {*provenance.commits, provenance.commit} - {None}
        logged_commits = {line.commit for line in attempts} - {None}
        if (commits, provenance.dirty) != (logged_commits, any(line.dirty for line in attempts)):
            yield f"{folder.result}: its commits and changes differ from attempts.jsonl"
        if selected.epoch is None or not lines or provenance.lost_epochs:
            continue
        last, epochs = max(lines), config.get("train.epochs")
        if row.done and not config.get("train.patience") and last + 1 != epochs:
            yield f"{folder.epochs}: its last epoch is {last + 1} of {epochs}"
        if not selected.scores and selected.epoch != last:
            yield f"{folder.result}: it selects epoch {selected.number}, but the last one is {last + 1}"
        for name, value in selected.scores.items():
            score = lines.get(selected.epoch, {}).get(f"selection_{name}")
            if score != value:
                yield (
                    f"{folder.epochs}: {name} of epoch {selected.number} is {score}, but {value} in"
                    " result.json"
                )


def check_dates(bundle: Bundle, verified: Verified) -> Iterator[str]:
    """Compare claims with their dated digests, and looks with the dates of the runs."""
    plan, rows = bundle.plan, bundle.records.rows
    dated_statements = statements(plan)
    for statement in dated_statements:
        words, date = description_of(statement)[1], plan.stated.get(digest_of(statement))
        if date is None and plan.stated:
            yield f"{bundle.study / PLAN}: {words} changed after it was dated"
        elif not date:
            verified.unchecked.append(f"the date of {words}: the records have none")
    verified.checked.append(
        f"{plural(len(dated_statements), 'statement')} (claims, margins, deviations) against the runs, if"
        " dated"
    )
    log, looks = bundle.results.root / "studies" / LOOKS, read_looks(bundle.results, plan)
    ended_rows = [row for row in rows if row.status in FINAL_STATUSES]
    # A rerun finishes after the looks at its earlier result, so it is left out.
    finished = {row.id: row.provenance.finished for row in ended_rows if not row.provenance.earlier}
    for look in looks:
        latest = datetime.fromisoformat(look.date) + CLOCKS
        dates = [finished.get(run_id) for run_id in look.runs]
        if late_count := sum(datetime.fromisoformat(date) > latest for date in dates if date):
            yield f"{log}: a look on {look.date} has {plural(late_count, 'run')} that finished later"
    seen_ids = {run_id for look in looks for run_id in look.runs}
    if lost_ids := sorted(seen_ids - {row.id for row in rows if row.status != "not run"}):
        yield f"{log}: its looks name runs without records: {choices(lost_ids, limit=6)}"
    if bundle.about.date != (day := last_day(rows, plan)):
        yield f"{ABOUT}: its date is {bundle.about.date!r}, but the last run finished on {day}"
    waiting = {row.variant for row in rows if row.status not in FINAL_STATUSES}
    unseen = {row.id for row in ended_rows if row.variant not in waiting} - seen_ids
    if plan.search is None:
        verified.checked.append(f"{plural(len(looks), 'look')} by the dates of the runs")
        # Older logs have numbers of seeds instead of runs.
        if unseen and not any(look.seeds for look in looks):
            yield f"{log}: has no look at {plural(len(unseen), 'run')}, though publishing is one"


CHECKS = (check_settings, check_variants, check_answers, check_records, check_dates)
