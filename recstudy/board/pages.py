"""The pages `/` (all studies) and `/study/NAME/PRESET` (the report, and its runs by status)."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from flask import url_for

from recstudy.base.terminal import duration
from recstudy.board.folder import BoardStudy, ResultsFolder
from recstudy.board.frame import fill, framed, piece
from recstudy.board.progress import progress_words, seconds_spent, time_left
from recstudy.papers import by_name
from recstudy.records.runs import STATUSES, distinct
from recstudy.report.findings import findings
from recstudy.report.page import Section
from recstudy.report.parts import parts_of
from recstudy.report.writing import page_content, section

MAX_NAMED_RUNS = 3  # at most so many runs in progress are listed on the index
PROGRAMS = {
    "Ray dashboard": "jobs, workers and nodes, while a study runs",
    "TensorBoard": "curves of runs with --log tensorboard: tensorboard --logdir RESULTS/logs/tensorboard",
    "Optuna dashboard": "trials of a search with --optuna-storage FILE: optuna-dashboard FILE",
}
# At most so many variants are listed in an address, so that it does not get too long.
VARIANTS = 50


def index_page(folder: ResultsFolder, place: str, links: Mapping[str, str]) -> str:
    """Return the index page.

    Args:
        folder: The results folder.
        place: The path or URI of the folder, as printed.
        links: Name of another program -> its address.
    """
    damaged = [f"{name} ({preset}): {problem}" for (name, preset), problem in folder.problems.items()]
    studies = list(map(study_summary, folder.studies.values()))
    return fill(
        "index",
        title="recstudy board",
        study=None,
        has_figures=False,
        place=place,
        links=links,
        programs=PROGRAMS,
        damaged=damaged,
        studies=studies,
    )


def study_summary(study: BoardStudy) -> dict[str, Any]:
    """Return the values for the row of a study on the index."""
    plan, counts, running = study.records.plan, run_counts(study), running_runs(study)
    return {
        "plan": plan,
        "question": by_name(plan.question),
        "counts": counts,
        "planned": counts.total() - (counts["stopped"] if plan.search else 0),
        "running": [
            f"{row.label}, seed {row.seed}: {progress_words(study, row)}" for row in running[:MAX_NAMED_RUNS]
        ],
        "more": len(running) - MAX_NAMED_RUNS,
        "compute": duration(
            sum(row.wall_seconds for row in distinct(study.records.rows))
            + sum(seconds_spent(study, row) for row in running)
        ),
        "left": time_left(study),
        "finding": first_finding(study),
    }


def run_counts(study: BoardStudy) -> Counter[str]:
    """Return the number of runs by status."""
    return Counter("running" if row.id in study.logs else row.status for row in distinct(study.records.rows))


def running_runs(study: BoardStudy) -> list[Any]:
    return [row for row in distinct(study.records.rows) if row.id in study.logs]


def first_finding(study: BoardStudy) -> str:
    """Return the first finding of a study, or the reason why there is none."""
    try:
        with study.records.study_modules():
            study.records.record_look()
            return str(findings(study.records)[0])
    # Code of a study's modules may raise any exception, and the other studies must be shown.
    except (Exception, SystemExit) as error:
        return f"The finding cannot be computed: {type(error).__name__}: {error}"


def study_page(study: BoardStudy) -> str:
    """Return the report of a study, with links from its numbers to their runs."""
    records = study.records
    records.record_look()
    # as in the table of runs, a run of several variants belongs to the first
    variants = {row.id: row.variant for row in reversed(records.rows)}

    def address(run_ids: Sequence[str]) -> str:
        numbers = sorted({variants[run_id] for run_id in run_ids if run_id in variants})
        variant_list = ",".join(map(str, numbers)) if len(numbers) <= VARIANTS else None
        return url_for("runs", name=records.plan.study, preset=records.plan.folder, variant=variant_list)

    content = page_content(records, [section(records, part, link=address) for part in parts_of(records)])
    counts = run_counts(study)
    links = [(status, counts[status]) for status in ("running", *STATUSES) if counts[status]]
    runs = Section("Runs", piece("runs", records.plan, links), time_left(study))
    picture = None if content.picture is None else content.picture + 1
    return framed(content._replace(sections=[runs, *content.sections], picture=picture), study)
