"""The pages `/runs/NAME/PRESET` (a table of runs) and `/compare/NAME/PRESET` (several runs together).

The query of the table sets its initial filter: `status=failed`, `variant=0,2`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from flask import url_for
from markupsafe import Markup, escape

from recstudy.base.errors import ConfigError
from recstudy.board.folder import BoardStudy
from recstudy.board.frame import fill, framed
from recstudy.records.runs import varied_fields
from recstudy.records.schema import Values
from recstudy.records.study_schema import Run
from recstudy.report import LearningCurves
from recstudy.report.figures.learning_curves import NO_METRICS
from recstudy.report.names import (
    DASH,
    axis_title,
    formatted,
    inline,
    metric,
    number,
    page_title,
    quantity,
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
        has_figures=False,
        **run_table(study),
    )


def run_table(study: BoardStudy) -> dict[str, list[Any]]:
    """Return the `columns` of the table of runs (name, title, visible) and its `rows` of texts."""
    records = study.records
    frame = records.runs.drop_duplicates("id")
    frame = frame.assign(status=frame["status"].mask(frame["id"].isin(study.logs), "running"))
    metrics = records.measured(range(len(records.variants)))
    table_metrics = [
        name for part in parts_of(records) for name in part.shown_metrics if name in metrics
    ] or metrics
    titles = {"id": "run id", "label": "run", "status": "status"}
    titles |= {name: metric(name).heading for name in dict.fromkeys(table_metrics[:METRICS])}
    titles |= {f"levels.{axis}": axis_title(axis) for axis in records.plan.axes} | {
        "seed": "seed",
        "seconds": "wall time (s)",
    }
    visible = {*titles} - {"id"}
    titles |= {name: metric(name).heading for name in metrics if name not in titles}
    titles |= {
        "provenance.finished": "finished",
        "provenance.host": "host",
        "attempts": "attempts",
        "variant": "variant",
    }
    names = [name for name in titles if name in frame]
    formats = {name: metric(name).form for name in metrics}
    columns = [[_text(value, formats.get(name)) for value in frame[name].tolist()] for name in names]
    heads = [{"name": name, "title": escape(titles[name]), "visible": name in visible} for name in names]
    return {"columns": heads, "rows": list(zip(*columns, strict=True))}


def _text(value: Any, form: str | None) -> str:
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
        "",
        *(
            Markup('<a href="{}">{}</a>').format(url_for("run", run_id=row.id), row.label)
            for row in records.rows
        ),
    ]
    values = [
        (metric(name).heading, [row.value(name) for row in records.rows], name)
        for name in records.measured(range(count))
    ]
    rows = [
        [heading, *(DASH if value is None else number(name, value) for value in row)]
        for heading, row, name in values
    ]
    title = f"{count} runs of {page_title(records.plan)}"
    head = [Markup("<h1>{}</h1>").format(title), "", ""]
    sections = [
        curves(records),
        Section("Settings that differ", settings_table(heads, records.configs)),
        Section("Metrics", words_table("Metrics", heads, rows, kind="")),
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


def curves(records: StudyRecords, title: str = "") -> Section:
    """Draw the learning curves of runs: loss and scores first, then other values that change."""
    try:
        frame = records.epochs(range(len(records.variants)))
    except Exception:  # the section reports the damaged log
        return section(records, LearningCurves(title=title))
    names = list(map(str, frame))
    scores = [name for name in names if name == "train_loss" or name.startswith("selection_")]
    other_names = [
        name for name in names if name not in scores and name not in NO_CURVES and frame[name].nunique() > 1
    ]
    metrics = (*sorted(scores, reverse=True), *other_names)[:PANELS]
    return section(records, LearningCurves(title=title, metrics=metrics))


def epoch_words(epochs: Sequence[Values]) -> str:
    """Return the values of the last epoch in words; empty before the first epoch ends."""
    values = epochs[-1] if epochs else {}
    numbers = {name: value for name, value in values.items() if value is not None and name not in NO_CURVES}
    return ", ".join(f"{inline(name)} {quantity(name, value)}" for name, value in numbers.items())
