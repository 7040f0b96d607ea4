"""Compute further metrics of finished runs from their answers or weights (`recstudy evaluate`). Nothing is
trained.

The values are written to a run's measured.json; its result never changes. New answers are saved if the run
had none. Only weights need torch.

The numerical floor is the share of test items that the same weights answer differently if only the rounding
changes: in bfloat16, as the first of two workers (with half a batch), or compiled. Runs on two machines
differ by this much for each item, whatever was trained.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from recstudy.base.errors import ConfigError, RecstudyError
from recstudy.base.lazy import LazyModule
from recstudy.base.opened import is_regular_file
from recstudy.base.terminal import say
from recstudy.programs.metric import METRICS, NotAvailable
from recstudy.programs.run_folder import locked_run_folder
from recstudy.records import (
    LateMetric,
    Measured,
    Result,
    Results,
    read_json,
    read_record,
    write_record,
    write_whole,
)
from recstudy.records.schema import current_time
from recstudy.recursive.config.answers import Answers
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.figures.examples import kept_answers
from recstudy.recursive.metrics.kept import pack_answers
from recstudy.recursive.metrics.registry import check_computed, measured, of_task
from recstudy.report.names import metric, number, plural
from recstudy.report.parts import missing_modules
from recstudy.report.study_records import load_study

saved_weights = LazyModule("recstudy.recursive.train.saved_weights")  # it loads torch

FLOOR = "numerical_floor"  # the one metric that needs weights, and is computed where it is asked for alone
MetricSource = Literal["answers", "weights"]  # what a metric was computed from


def evaluate(
    results: Results, study: str, preset: str, metrics: Sequence[str], data: Path, trust: bool = False
) -> bool:
    """Compute metrics that the results of a study's finished runs do not have, and print a line for each run.

    Args:
        results: The results folder.
        study: The name of the study.
        preset: The name of the preset's folder.
        metrics: The metrics, which are computed again if they exist. By default all missing metrics of each
            run's task.
        data: The folder with the data sets.
        trust: Import the modules of the study.

    Returns:
        Whether every metric was computed.

    Raises:
        ConfigError: There is no such study, or no such metric that is computed from answers.
    """
    records = load_study(results, study, preset, trust)
    if records.plan.imported:
        raise ConfigError(
            f"the runs of {study} were imported: they have their metrics alone, of which no other follows"
        )
    if records.is_own:
        raise ConfigError(
            f"the runs of {study} are of a program of your own, which keeps no answers to compute metrics"
            " from"
        )
    with records.study_modules():
        say(*missing_modules(records))
        for name in metrics:
            try:
                if name != FLOOR:
                    check_computed(name)
            except ConfigError as error:
                hint = " One of your own is found once the study knows its module"
                hint += f": {records.plan.command}" * bool(records.plan.command)
                raise ConfigError(f"{error}{'' if name in METRICS else hint}") from None
        rows = list({row.id: row for row in records.rows}.values())
        done = [row for row in rows if row.done]
        say(f"{study} ({preset}): {plural(len(done), 'finished run')} of {len(rows):,}")
        is_complete = True
        for count, row in enumerate(done, 1):
            try:
                new = _evaluate_run(results, row.id, metrics, data)
                is_complete &= not any(value.raised for value in new.values())
                words = ", ".join(
                    f"{metric(name).title} {_value(name, value)}" for name, value in new.items()
                )
                words += f" (from its {next(iter(new.values())).how})" if new else "nothing to compute"
            except Exception as error:  # of whatever kind: the other runs are evaluated all the same
                is_complete = False
                kind = "" if isinstance(error, RecstudyError | NotAvailable) else f"{type(error).__name__}: "
                words = f"cannot be evaluated: {kind}{' '.join(str(error).split())}"
            say(f"[{count}/{len(done)}] {row.label}, seed {row.seed}: {words}")
    return is_complete


def _evaluate_run(results: Results, run_id: str, metrics: Sequence[str], data: Path) -> dict[str, LateMetric]:
    """Compute the missing metrics of a run, write them into its folder, and return them."""
    folder = results.run(run_id)
    result = read_record(folder.result, Result)
    if result is None:
        raise NotAvailable("its result is gone")
    saved_answers, _ = kept_answers(results, run_id)
    task = saved_answers.answers.task if saved_answers else _config(folder.config).task
    requested_metrics = [name for name in metrics if name != FLOOR]
    names, new, file = [], {}, b""
    if requested_metrics or not metrics:
        earlier_metrics = read_record(folder.measured, Measured) or Measured()
        names = _metrics_to_compute(result, earlier_metrics, requested_metrics, task)
    if names and saved_answers is not None and not saved_answers.is_truncated:
        new = {name: _compute_metric(name, saved_answers.answers, "answers") for name in names}
    elif names:
        weights = _weights(results, run_id)
        answers = saved_weights.answers_again(_config(folder.config), result, weights, data)
        file = b"" if saved_answers else pack_answers(answers)[0]
        new = {name: _compute_metric(name, answers, "weights") for name in names}
    if FLOOR in metrics:
        weights = _weights(results, run_id)
        flipped = saved_weights.flips(_config(folder.config), result, weights, data)
        new[FLOOR] = LateMetric(
            value=max(flipped.values()), by_class={**flipped}, how="weights", date=current_time()
        )
    if new:
        with locked_run_folder(str(folder.path), results.store) as place:
            earlier_metrics = read_record(place.measured, Measured) or Measured()
            if file:
                write_whole(place.answers, file)
            write_record(place.measured, replace(earlier_metrics, metrics=earlier_metrics.metrics | new))
    return new


def _metrics_to_compute(
    result: Result, earlier_metrics: Measured, metrics: Sequence[str], task: str
) -> list[str]:
    """Return the metrics to compute: named ones in any case, others if they have no value.

    Raises:
        NotAvailable: A named metric does not belong to the task.
    """
    fits = of_task(task, levels=bool(metrics))
    for name in metrics:
        if name not in fits:
            raise NotAvailable(
                f"{metric(name).title} is for {' and '.join(METRICS[name].tasks)} data, not for {task}"
            )
    known_names = {
        name for name, known_metric in earlier_metrics.metrics.items() if known_metric.value is not None
    }
    names = metrics or [name for name in fits if name not in known_names]
    return [name for name in names if result.metrics.get(name) is None]


def _compute_metric(name: str, answers: Answers, source: MetricSource) -> LateMetric:
    values, undefined, unavailable, raised = measured(answers, [name])
    return LateMetric(
        value=values.get(name),
        by_class={part.removeprefix(f"{name}."): value for part, value in values.items() if part != name},
        undefined=undefined,
        unavailable=unavailable.get(name, ""),
        raised=bool(raised),
        how=source,
        date=current_time(),
        tokenizer=TASKS[answers.task].cut_by(name, answers) if name in values else "",
    )


def _weights(results: Results, run_id: str) -> Path:
    """Return the path of a run's weights.

    Raises:
        NotAvailable: It has none.
    """
    weights = results.fetched(results.run(run_id).weights)
    if not is_regular_file(weights):
        raise NotAvailable("it kept neither answers nor weights")
    return weights


def _config(file: Path) -> RunConfig:
    settings = read_json(file)
    if settings is None:
        raise NotAvailable("its settings are gone")
    return RunConfig.model_validate(settings)


def _value(name: str, computed_metric: LateMetric) -> str:
    if computed_metric.value is None:
        return f"is not available: {computed_metric.unavailable or 'no class can be judged'}"
    return f"{number(name, computed_metric.value)} {metric(name).unit}".strip()
