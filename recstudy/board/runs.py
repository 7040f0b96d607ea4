"""The pages `/runs/NAME/PRESET` (a table of runs) and `/compare/NAME/PRESET` (several runs together).

The query of the table sets its initial filter: `status=failed`, `variant=0,2`. The table requests the
sparklines of the rows in sight, and the learning curves of the filtered runs.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from flask import url_for
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape
from werkzeug.datastructures import MultiDict

from recstudy.base.errors import ConfigError, StorageError
from recstudy.base.lazy import np, pd
from recstudy.board.folder import BoardStudy
from recstudy.board.frame import fill, framed
from recstudy.board.progress import planned_epochs, progress_words, run_time_left, seconds_spent
from recstudy.records import EpochLine, read_log
from recstudy.records.runs import Row, varied_fields
from recstudy.records.schema import Values
from recstudy.records.study_schema import Run
from recstudy.report import LearningCurves
from recstudy.report.figures.learning_curves import NO_METRICS, SELECTION, thin
from recstudy.report.names import (
    DASH,
    axis_title,
    formatted,
    metric,
    number,
    page_title,
    setting_name,
    value_text,
)
from recstudy.report.page import PageContent, Section, words_table
from recstudy.report.parts import parts_of
from recstudy.report.study_records import StudyRecords
from recstudy.report.writing import section

METRICS = 3  # at most so many columns of metrics are visible at first
PANELS = 6  # at most so many panels of learning curves
MAX_RUNS = 12  # at most so many runs can be compared
MAX_CURVES = 200  # at most so many runs have their curves drawn at once
MAX_REASON = 300  # characters of a failure in the table
POINTS = 100  # at most about so many points of a curve
Curves = dict[str, tuple[list[int], list[float]]]  # metric -> epochs and values
# values of an epoch that are not worth a curve
NO_CURVES = (*NO_METRICS, "learning_rate", "images_per_second")


def runs_page(study: BoardStudy, query: Mapping[str, str]) -> str:
    """Return the page with the table of runs. A script in the browser draws the table.

    Args:
        study: The study.
        query: The query of the address, with the initial filter.
    """
    plan = study.records.plan
    title = f"Runs of {page_title(plan)}"
    return fill(
        "runs",
        title=title,
        study=study,
        query=query,
        max_runs=MAX_RUNS,
        max_curves=MAX_CURVES,
        has_figures=False,
        **run_table(study),
    )


def run_table(study: BoardStudy) -> dict[str, list[Any]]:
    """Return the `columns` of the table of runs and its `rows` of texts.

    A column has a `name`, a `title`, whether it is `visible`, and whether it is `live`: the last logged
    values stand in for the results of running runs.
    """
    records = study.records
    by_id = {row.id: row for row in records.rows}
    live = {run_id: live_values(study, by_id[run_id]) for run_id in study.logs}
    frame = records.runs.drop_duplicates("id")
    frame = frame.assign(
        status=frame["status"].mask(frame["id"].isin(study.logs), "running"),
        detail=[status_detail(study, by_id[run_id]) for run_id in frame["id"]],
        curve="",
    )
    shown_metrics = [name for part in parts_of(records) for name in part.shown_metrics]
    logged = (name for values in live.values() for name in values if name in shown_metrics)
    metrics = list(dict.fromkeys([*records.measured(records.indices), *logged]))
    table_metrics = [name for name in shown_metrics if name in metrics] or metrics
    titles = {"id": "run id", "label": "run", "seed": "seed", "status": "status"}
    scores = [(name, metric(name).heading) for name in dict.fromkeys(table_metrics[:METRICS])]
    titles |= {**dict(scores[:1]), "curve": "curve", "seconds": "wall time (s)", **dict(scores[1:])}
    titles |= {f"levels.{axis}": axis_title(axis) for axis in records.plan.axes}
    visible = {*titles} - {"id"}
    titles |= {name: metric(name).heading for name in metrics if name not in titles}
    titles |= {
        "detail": "step or reason",
        "provenance.finished": "finished",
        "provenance.host": "host",
        "attempts": "attempts",
        "variant": "variant",
    }
    names = [name for name in titles if name in frame or name in metrics]
    frame = frame.reindex(columns=names)
    heads, columns = [], []
    for name in names:
        heads.append(
            {
                "name": name,
                "title": escape(titles[name]),
                "visible": name in visible,
                "live": name in metrics,
            }
        )
        form = metric(name).form if name in metrics else None
        pairs = zip(frame["id"], frame[name], strict=True)
        columns.append([_text(live.get(run_id, {}).get(name, value), form) for run_id, value in pairs])
    return {"columns": heads, "rows": list(zip(*columns, strict=True))}


def live_values(study: BoardStudy, row: Row) -> Values:
    """Return the last logged value of each metric of a running run, and its seconds so far.

    A value on the selection split stands in for the test metric.
    """
    log = study.logs[row.id]
    values = log[max(log)] if log else {}
    names = sorted(values, key=lambda name: SELECTION in name)
    return {name.removeprefix(SELECTION): values[name] for name in names} | {
        "seconds": seconds_spent(study, row)
    }


def status_detail(study: BoardStudy, row: Row) -> str:
    """Return the step and the time left of a running run, or the reason why a run has no result."""
    if row.id in study.logs:
        time_left = run_time_left(study, row)
        return progress_words(study, row) + f", {time_left} left" * bool(time_left)
    if row.failure:
        return f"{row.error_class}: {row.error}"[:MAX_REASON]
    return f"after epoch {row.stopped.epoch + 1}" if row.stopped else row.result_or_empty.error


def logged_curves(study: BoardStudy, query: MultiDict[str, str]) -> str:
    """Return one logged `metric` of each `run` of the query as JSON, for sparklines and the panel of curves.

    The default metric is the first one of the report, on the selection split if there is one.
    """
    records, run_ids = study.records, query.getlist("run")[:MAX_CURVES]
    rows = {row.id: row for row in records.rows if row.id in run_ids}
    logs: dict[str, Curves] = {}
    for run_id in rows:
        file = records.results.run(run_id).epochs
        with suppress(OSError, StorageError):  # the page of the run reports the damage
            status = file.lstat()
            logs[run_id] = read_curves(file, status.st_size, status.st_mtime_ns)
    shown_metrics = [name for part in parts_of(records) for name in part.shown_metrics]
    names = sorted(
        {name for log in logs.values() for name in log},
        key=lambda name: (name.removeprefix(SELECTION) not in shown_metrics, SELECTION not in name, name),
    )
    chosen = next((name for name in (query.get("metric"), *names) if name in names), "")
    runs = {
        run_id: {
            "curve": log[chosen],
            "last": number(chosen, log[chosen][1][-1]),
            "planned": planned_epochs(study, rows[run_id]) * (run_id in study.logs),
        }
        for run_id, log in logs.items()
        if chosen in log
    }
    metrics = {name: metric(name).heading for name in names}
    axis = records.program.step_name
    return htmlsafe_json_dumps({"metric": chosen, "metrics": metrics, "axis": axis, "runs": runs})


@lru_cache(maxsize=2_000)
def read_curves(file: Path, size: int, changed: int) -> Curves:
    """Return the curves of a log. It is read again if its size or time of change is another."""
    lines = {line.epoch: line.values for line in read_log(file, EpochLine)}
    frame = pd.DataFrame.from_dict(lines, "index", float).replace([np.inf, -np.inf], np.nan)
    columns = {str(name): frame[name].dropna() for name in frame if name not in NO_CURVES}
    curves = {name: column.iloc[thin(column.to_numpy(), POINTS)] for name, column in columns.items()}
    return {name: (curve.index.tolist(), curve.tolist()) for name, curve in curves.items() if len(curve)}


def _text(value: Any, form: str | None) -> str:
    """Return a value as a table shows it, a metric in its format; empty if there is no value."""
    if value is None or value != value:  # NaN
        return ""
    return value_text(value) if form is None else formatted(value, form)


def compare_page(study: BoardStudy, run_ids: Sequence[str]) -> str:
    """Return the page that compares runs: learning curves, different settings, and metrics.

    Args:
        study: The study.
        run_ids: The runs.

    Raises:
        ConfigError: The study has fewer than two of these runs, or there are too many.
    """
    records = select_runs(study.records, run_ids)
    count = len(records.rows)
    if not 2 <= count <= MAX_RUNS:
        raise ConfigError(f"Select 2 to {MAX_RUNS} runs of the study to compare, but got {count}")
    heads = [
        Markup('<a href="{}">{}</a>').format(url_for("run", run_id=row.id), row.label) for row in records.rows
    ]
    rows = [
        [metric(name).heading, *(_text(row.value(name), metric(name).form) or DASH for row in records.rows)]
        for name in records.measured(records.indices)
    ]
    title = f"{count} runs of {page_title(records.plan)}"
    head = [Markup("<h1>{}</h1>").format(title), "", ""]
    sections = [
        curves(records),
        Section("Settings that differ", settings_table(["setting", *heads], records.configs)),
        Section("Metrics", words_table("Metrics", ["metric", *heads], rows)),
    ]
    return framed(PageContent(title, head, sections), study)


def settings_table(heads: Sequence[str], configs: Sequence[Mapping[str, Any]]) -> Markup:
    """Return the table of settings that differ between configs.

    Args:
        heads: The column titles: one for the setting, and one for each config.
        configs: Field -> value.
    """
    # The resources of a run do not change its results.
    paths = [path for path in varied_fields(list(map(dict, configs))) if not path.startswith("resources.")]
    rows = [
        (setting_name(path), *(value_text(config[path]) if path in config else DASH for config in configs))
        for path in paths
    ]
    return words_table("Settings that differ", heads, rows) if rows else Markup("<p>No setting differs.</p>")


def select_runs(records: StudyRecords, run_ids: Sequence[str]) -> StudyRecords:
    """Return the records of some runs, with each run as its own variant, so that figures show single runs."""
    by_id = {row.id: row for row in records.rows}
    chosen = [by_id[run_id] for run_id in dict.fromkeys(run_ids) if run_id in by_id]
    variants = [
        replace(records.variants[row.variant], label=f"{row.label}, seed {row.seed}", levels={})
        for row in chosen
    ]
    rows = [replace(row, variant=index, label=variants[index].label) for index, row in enumerate(chosen)]
    plan = replace(
        records.plan,
        variants=tuple(variants),
        seeds=tuple(dict.fromkeys(row.seed for row in rows)),
        runs=tuple(Run(row.variant, row.seed, row.id) for row in rows),
    )
    return StudyRecords(records.results, plan, rows, trust=records.trust)


def curves(records: StudyRecords) -> Section:
    """Draw the learning curves of runs: loss and scores first, then other values that change."""
    try:
        frame = records.epochs(records.indices)
    except Exception:  # the section reports the damaged log
        return section(records, LearningCurves())
    names = list(map(str, frame))
    scores = [name for name in names if name == "train_loss" or name.startswith(SELECTION)]
    other_names = [
        name for name in names if name not in scores and name not in NO_CURVES and frame[name].nunique() > 1
    ]
    metrics = (*sorted(scores, reverse=True), *other_names)[:PANELS]
    return section(records, LearningCurves(metrics=metrics))
