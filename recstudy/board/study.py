"""`/study/NAME/PRESET`: the report's parts, what runs now, and the list of runs."""

from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd

from recstudy.board.markup import Address, Page, PagePart, href, make_part
from recstudy.board.overview import MOST, running_table
from recstudy.board.progress import RunUnderWay, StudyProgress, progress
from recstudy.board.runlist import format_ranges, run_list
from recstudy.board.sources import Sources
from recstudy.report import LearningCurves, Part
from recstudy.report.caveats import warnings
from recstudy.report.drawn import DrawnFigure
from recstudy.report.figures.learning_curves import COLUMNS
from recstudy.report.kinds import heading, problem, shown
from recstudy.report.markup import markup
from recstudy.report.page import figure_box
from recstudy.report.study_records import StudyRecords
from recstudy.report.summary import answer, overview, question
from recstudy.report.writers import html
from recstudy.report.writing import last_sections
from recstudy.terminal import duration

LINES = 12  # runs in the figure of those under way
Runs = Callable[[Sequence[str]], str]


def study_page(sources: Sources, address: Address) -> Page:
    """Return the page of the study that the address names.

    Raises:
        ConfigError: there is none.
    """
    _, name, preset = address.path
    records = sources.records((name, preset))
    planned = sources.poller.studies[name, preset]
    state = progress(sources.poller, planned)
    running = {run.run_id for run in state.running}

    def runs_of(run_ids: Sequence[str]) -> str:
        """Return the address of the runs of these runs' variants: also of those that gave no number."""
        variants = format_ranges(planned.named[run_id][0] for run_id in run_ids if run_id in planned.named)
        return href("runs", name, preset, variant=variants)

    report = [_made(records, part, f"part{number}", runs_of) for number, part in enumerate(records.parts, 1)]
    now = [make_part("now", "Now", lambda: _now(state))] if state.running or state.todo else []
    curves = [make_part("underway", "Runs under way", lambda: _curves(state))] if state.running else []
    runs = make_part("runs", "Runs", lambda: run_list(records, Address(("runs", name, preset)), running))
    last = [make_part(title.lower().replace(" ", "-"), title, partial(make, records)) for title, make in last_sections().items()]
    heads = {"head": question, "findings": answer, "facts": overview}
    head = [make_part(key, "", partial(make, records)) for key, make in heads.items()]
    parts = [*head, *now, *report[:1], *curves, *report[1:], runs, *last]
    return Page(f"{name} ({preset})", [part for part in parts if part.body])


def part_html(records: StudyRecords, part: Part) -> str:
    """Draw a part as the report shows it, or say why it cannot be drawn."""
    return _made(records, part).body


def _made(records: StudyRecords, part: Part, key: str = "", to: Runs | None = None) -> PagePart:
    """Make a part. `to` gives the address of the runs of a table's entry."""
    try:
        made = shown(records, part).without(warnings(records))
        content = made.above + html(made.printed, to) if to and made.printed else made.html
        return PagePart(key, heading(part), content, made.finding)
    except Exception as error:
        return PagePart(key, heading(part), markup("warnings", [problem(part, error)]))


def _now(state: StudyProgress) -> str:
    pairs = [
        ("Running", f"{len(state.running):,}"),
        ("Spent on runs under way", duration(state.spent) if state.running else ""),
        ("Time remaining", state.words),
    ]
    shown = markup("facts", [(name, value) for name, value in pairs if value])
    return shown + (running_table(state.running[:MOST], len(state.running), {}) if state.running else "")


def _curves(state: StudyProgress) -> str:
    """Draw the epochs so far of the first runs under way: their loss, and the score that selects."""
    runs = state.running[:LINES]
    own = any(run.metrics for run in runs)  # a user's own program, whose steps are drawn as they were reported
    data = run_curves(runs, ["train_loss", "loss", *(run.score[0] for run in runs if run.score)])
    if data.empty:
        return f"<p>None has {'reported a step' if own else 'finished an epoch'} yet.</p>"
    data = data.assign(step=data["epoch"] - 1).drop(columns="epoch") if own else data
    cut = (f"the first {LINES} of {len(state.running):,} runs",) if len(state.running) > LINES else ()
    spec = LearningCurves(title="Runs under way", metrics=tuple(dict.fromkeys(data["metric"])))
    drawn = DrawnFigure(spec, data)
    return figure_box(drawn.figure, drawn.label, cut)


def run_curves(runs: Sequence[RunUnderWay], names: Sequence[str]) -> pd.DataFrame:
    """Return these metrics of the runs by epoch, a line for each run, as `LearningCurves` draws them."""
    rows = [
        {"variant": position, "label": f"{run.label}, seed {run.seed}", "metric": name, "epoch": epoch + 1, "n": 1}
        | {"synthetic": False, "mean": value, "low": value, "high": value, "average": value}
        for position, run in enumerate(runs)
        for epoch, line in sorted(run.lines.items())
        for name, value in line.values.items()
        if name in names and value is not None
    ]
    return pd.DataFrame(rows, columns=COLUMNS)
