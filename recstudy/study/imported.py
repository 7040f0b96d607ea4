"""The plan of a study whose runs were imported from a table of finished runs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import prod
from typing import Any

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.base.values import canonical, is_number
from recstudy.papers import Target
from recstudy.programs.columns import BLOCKS, FOLDS, SIZES, name_of
from recstudy.programs.table import TableProgram
from recstudy.programs.table_options import TableOptions
from recstudy.records import Run
from recstudy.records.study_schema import Imported, ImportedFile, ImportedRun
from recstudy.report.contrasts import depends
from recstudy.report.names import plural
from recstudy.study.claims_file import ClaimsFile
from recstudy.study.design import MOST_RUNS, Variant
from recstudy.study.imported_report import FEW_VARIANTS, base_levels, report_of
from recstudy.study.plan import Plan, make_plan
from recstudy.study.study import Study

PRESET = "imported"
GRID_COLUMNS = 12  # columns among which a grid is sought
VALUES = ("metrics", "item_scores", "errors")  # fields of an imported run with values by metric


def merge_imports(earlier_imports: Imported, file: ImportedFile, runs: Mapping[str, ImportedRun]) -> Imported:
    """Return the imported runs with those of a file. A run that failed before may have finished in the file.

    Raises:
        ConfigError: A finished run has other values in the file.
    """
    files = (*earlier_imports.files, file)
    settings = {name for run in runs.values() for name in run.settings}
    earlier_settings = {name for run in earlier_imports.runs.values() for name in run.settings}
    if settings and earlier_settings and settings.isdisjoint(earlier_settings):
        raise ConfigError(
            f"{file.name} has the settings {choices(settings)}, but runs that were imported before under this"
            f" name have {choices(earlier_settings)}. Give another --name, or replace them with --replace"
        )
    _refuse_repeated_runs(earlier_imports, file, runs)
    file_index = [imported_file.sha256 for imported_file in files].index(file.sha256)
    known_runs = dict(earlier_imports.runs)
    conflicts = []
    for run_id, run in runs.items():
        earlier_run = known_runs.get(run_id)
        if earlier_run is None or earlier_run.status == "failed" != run.status:
            known_runs[run_id] = replace(run, file=file_index) if file_index else run
            continue
        earlier_values, values = (
            {field: getattr(source, field) or {} for field in VALUES} for source in (earlier_run, run)
        )
        union: Any = {field: earlier_values[field] | values[field] for field in VALUES}
        differences = [field for field in VALUES if union[field] != values[field] | earlier_values[field]]
        if run.status != earlier_run.status or differences:
            conflicts.append(
                f"line {run.line}: this run is {run.status} with {run.metrics}, but it was imported as "
                f"{earlier_run.status} with {earlier_run.metrics} from"
                f" {earlier_imports.files[earlier_run.file].words}"
                f" (different: {choices(differences) or 'status'})"
            )
        elif union != earlier_values:
            union = {field: by_metric for field, by_metric in union.items() if by_metric}
            known_runs[run_id] = replace(run, file=file_index, **union)
    if conflicts:
        raise ConfigError(
            f"{file.name}, {'; '.join(conflicts[:FEW_VARIANTS])}. {plural(len(conflicts), 'imported run')} "
            "would change, and nothing was. --replace takes this file in place of all that was imported"
        )
    if known_runs == earlier_imports.runs:
        return earlier_imports
    return Imported(
        files=earlier_imports.files if file_index < len(earlier_imports.files) else files, runs=known_runs
    )


def _refuse_repeated_runs(
    earlier_imports: Imported, file: ImportedFile, runs: Mapping[str, ImportedRun]
) -> None:
    """Refuse runs that were imported before without one of their settings, because they would count twice."""
    earlier_runs = {}
    for run_id, run in earlier_imports.runs.items():
        if run_id not in runs:
            earlier_runs[run.seed, canonical(run.metrics)] = run
    for run_id, run in runs.items():
        earlier_run = earlier_runs.get((run.seed, canonical(run.metrics)))
        if earlier_run is None or run_id in earlier_imports.runs or run.status != "done":
            continue
        shared = run.settings.items() & earlier_run.settings.items()
        if len(shared) == min(len(run.settings), len(earlier_run.settings)):
            other_settings = choices(sorted(run.settings.keys() ^ earlier_run.settings.keys()))
            raise ConfigError(
                f"{file.name}, line {run.line}: this run differs from one that was imported before only in"
                f" that one has no {other_settings}. Give another --name, or replace the runs with --replace"
            )


def import_changes(
    earlier_imports: Imported, current_imports: Imported, runs: Mapping[str, ImportedRun]
) -> list[str]:
    """Return a line about the new, changed and missing runs of a file; empty if it has the same runs."""
    earlier_runs, current_runs = earlier_imports.runs, current_imports.runs
    added, missing_ids = current_runs.keys() - earlier_runs, earlier_runs.keys() - runs
    changed = [
        run_id
        for run_id, run in earlier_runs.items()
        if (new := current_runs.get(run_id)) and replace(new, file=run.file, line=run.line) != run
    ]
    if not earlier_runs or not (added or changed or missing_ids):
        return []
    line = (
        f"{plural(len(earlier_runs), 'run')} imported before: this file adds {len(added)} and changes"
        f" {len(changed)}; it lacks {len(missing_ids)}"
    )
    is_dropped = missing_ids.isdisjoint(current_runs)
    fate = "are dropped" if is_dropped else "stay in the study (--replace drops them)"
    return [f"{line}, which {fate}" if missing_ids else line]


def finished_plan(
    name: str,
    program: TableProgram,
    runs: Mapping[str, ImportedRun],
    claims_file: ClaimsFile,
    targets: tuple[Target, ...],
    options: TableOptions,
) -> tuple[Plan, str]:
    """Return the plan of these runs, with one variant for each combination of settings.

    The text is about the blocks, or about why nothing is compared.
    """
    if len(runs) > MOST_RUNS:
        raise ConfigError(
            f"{name} would have {len(runs):,} runs, but a study has {MOST_RUNS:,} at most: split the file"
        )
    settings = {canonical(run.settings): run.settings for run in runs.values()}
    levels = _levels(list(settings.values()))
    axes = {axis: axis for axis, values in levels.items() if len(values) > 1}
    blocks = _blocks(options.blocks, levels, axes, list(settings.values()))
    methods = {canonical([run.get(axis) for axis in axes if axis not in blocks]) for run in settings.values()}
    words = f"; blocks (compared within): {choices(blocks)}" if blocks else ""
    if blocks and len(methods) == 1:
        words = f"; only {choices(blocks)} varies, so nothing is compared (to compare it: --blocks none)"
    folds = [name for name in blocks if FOLDS.fullmatch(name.lower())]
    if folds and len(settings) == len(runs):
        folds_as_seeds = f"--seed {folds[0]} --test-share {1 / len(levels[folds[0]]):.2g}"
        words += f" with single runs; to judge over the folds of a cross-validation: {folds_as_seeds}"
    labelled = _grid_axes(list(axes), levels, list(settings.values()), blocks)
    variants = {}
    for key in sorted(settings, key=lambda key: [levels[axis][settings[key].get(axis)] for axis in axes]):
        values = {axis: settings[key].get(axis) for axis in axes}
        changes = {axis: value for axis, value in values.items() if value is not None}
        label = ", ".join(f"{axis}={changes.get(axis, 'none')}" for axis in labelled)
        variants[key] = Variant(label or program.title, changes, values, axes)
    grid = {axis: list(levels[axis]) for axis in labelled}
    base = base_levels({axis: grid[axis] for axis in labelled if axis not in blocks}, options.base)
    study = Study(
        name,
        {PRESET: {setting: next(iter(values)) for setting, values in levels.items() if setting not in axes}},
        list(variants.values()),
        program=program,
        report=report_of(program, runs.values(), variants, grid, blocks, base, targets),
        blocks=tuple(blocks) if len(methods) > 1 else (),
        paired=options.paired or options.test_share > 0,
        test_share=options.test_share,
        claims=claims_file.claims,
        alpha=claims_file.alpha,
        question=claims_file.question or f"What do the runs of {program.imported[-1].name} show?",
    )
    plan = make_plan(study)
    positions = {key: position for position, key in enumerate(variants)}
    planned = []
    for run_id, run in runs.items():
        position = positions[canonical(run.settings)]
        planned.append(Run(position, run.seed, run_id, plan.variants[position].label, plan.configs[position]))
    planned.sort(key=lambda run: (run.seed, run.variant))
    return replace(plan, finished=planned), words


def _blocks(
    stated_names: Sequence[str],
    levels: Mapping[str, Collection[Any]],
    axes: Iterable[str],
    settings: Sequence[Mapping[str, Any]],
) -> list[str]:
    """Return the blocks: those that are stated, else axes with such a name.

    An axis that follows from blocks, such as the number of classes, is one of them.
    """
    names = list(map(name_of, stated_names)) or [axis for axis in axes if BLOCKS.fullmatch(axis.lower())]
    names = [] if names == ["none"] else names
    for block in names:
        if block not in levels:
            near = nearest(block, levels)
            raise ConfigError(f"--blocks {block!r} is no setting: there are {choices(levels)}.{near}")
    return list(dict.fromkeys([*names, *(axis for axis in axes if depends(axis, names, settings))]))


def _levels(settings: Sequence[Mapping[str, Any]]) -> dict[str, dict[Any, int]]:
    """Return the levels of each setting with their order: numbers sorted, other values as they occur."""
    positions = {}
    for name in dict.fromkeys(name for values in settings for name in values):
        levels = list(dict.fromkeys(values.get(name) for values in settings))
        if all(map(is_number, set(levels) - {None})):
            levels.sort(key=lambda level: (level is not None, level or 0))
        positions[name] = {level: position for position, level in enumerate(levels)}
    return positions


def _grid_axes(
    axes: Sequence[str],
    levels: Mapping[str, Mapping[Any, int]],
    settings: Sequence[Mapping[str, Any]],
    blocks: Iterable[str],
) -> list[str]:
    """Return the axes that decide all others: those of a complete grid, else all that follow from no name.

    Within a block, a further axis must follow from one axis of the grid, or else be a size or a name of each
    combination. Otherwise the effects of the grid would contain its effect.
    """
    labels = [axis for axis, values in levels.items() if len(values) == len(settings)]
    labels = [axis for axis in labels if not all(map(is_number, levels[axis]))]
    other_axes = [axis for axis in axes if axis not in labels and not SIZES.fullmatch(axis)]
    for size in range(2, len(axes)):
        for names in combinations(axes[:GRID_COLUMNS], size):
            if (
                len(settings)
                == prod(len(levels[name]) for name in names)
                == len({canonical([values.get(name) for name in names]) for values in settings})
            ) and all(any(depends(axis, [name, *blocks], settings) for name in names) for axis in other_axes):
                return list(names)
    # labels omit a number that follows from a name, such as a model's size
    texts = [axis for axis, values in levels.items() if any(isinstance(value, str) for value in values)]
    return [
        axis for axis in axes if axis in texts or not any(depends(axis, [name], settings) for name in texts)
    ]
