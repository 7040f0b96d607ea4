"""`/study/NAME/PRESET`: the report's own parts, made again as runs end, and under them every run.

A table that is too large for one page is shown a page at a time, its best values marked over all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd

from recstudy.analysis.audit import TITLE, audit, audit_html
from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.layout import dress
from recstudy.analysis.figures.learning import COLUMNS as COLUMNS_OF_CURVES
from recstudy.analysis.figures.learning import learning_figure
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.kinds import heading, problem, shown
from recstudy.analysis.page import Section, facts, figure_box, warning_lines
from recstudy.analysis.summary import again, asked, failures, found, provenance, ran, settings
from recstudy.analysis.tables.entries import Printed, html_table
from recstudy.board.markup import Address, Page, Recipe, Same, href, page_of
from recstudy.board.overview import MOST, running_table
from recstudy.board.progress import RunUnderWay, StudyProgress, progress
from recstudy.board.runlist import format_ranges, run_list
from recstudy.board.sources import Sources, some_variants
from recstudy.report import LearningCurves, Part
from recstudy.terminal import duration

COLUMNS = 30  # of a table on one page
LINES = 12  # runs in the figure of those under way
LISTED = 200  # failed runs that the page names under their errors, and variants that it lists
Runs = Callable[[Sequence[str]], str]


def study_page(sources: Sources, address: Address) -> Page:
    """Return the page of the study that the address names.

    Raises:
        ConfigError: there is none.
    """
    _, name, preset = address.path
    records = sources.records((name, preset))
    planned = sources.poller.studies[name, preset]
    live, now = sources.poller.live(planned), progress(sources.poller, planned)
    needs = Same(records)
    lost = [row for row in records.rows if row.status in ("failed", "diverged")]

    def runs_of(run_ids: Sequence[str]) -> str:
        """Return the list of the runs of these runs' variants: also of those that gave no number."""
        variants = format_ranges(planned.named[run_id][0] for run_id in run_ids if run_id in planned.named)
        return href("runs", name, preset, variant=variants)

    def reported(key: str, part: Part) -> Recipe:
        parts = (needs, address, live if part.live else ())
        return Recipe(key, heading(part), parts, lambda: _made(records, part, key, address, runs_of))

    def failed() -> str:
        return failures(replace(records, rows=lost[:LISTED])) + _cut(len(lost))

    def changed() -> str:
        count = len(records.variants)
        return settings(some_variants(records, list(range(count))[:LISTED])) + _cut(count, " variants")

    report = [reported(f"part{at}", part) for at, part in enumerate(records.parts, 1)]
    body = [
        Recipe("head", "", needs, lambda: asked(records)),
        Recipe("findings", "", needs, lambda: found(records)),
        Recipe("facts", "", needs, lambda: ran(records)),
        Recipe("now", "Now", (needs, live), lambda: _now(now)),
        *report[:1],
        Recipe("underway", "Runs under way", live, lambda: _curves(now)),
        *report[1:],
        Recipe("failures", "What failed", needs, failed),
        Recipe("runs", "Runs", (needs, live), lambda: run_list(records, Address(("runs", name, preset)), set(dict(live)))),
        Recipe("audit", TITLE, needs, lambda: audit_html(audit(records))),
        Recipe("settings", "Settings", Same(planned), changed),
        Recipe("provenance", "Provenance", needs, lambda: provenance(records)),
        Recipe("again", "Finish or repeat", needs, lambda: again(records)),
    ]
    there = {
        "now": bool(now.running or now.todo),
        "failures": bool(lost),
        "underway": bool(now.running),
    }
    return Page(f"{name} ({preset})", [one for one in body if there.get(one.key, True)])


def part_html(records: StudyRecords, part: Part) -> str:
    """Draw a part as the report shows it, or say why it cannot be drawn."""
    return _made(records, part).content


def _made(records: StudyRecords, part: Part, key: str = "", address: Address | None = None, to: Runs | None = None) -> Section:
    """Make a part; of a long table, the page that the address asks for. `to` gives the address of the runs of an entry."""
    try:
        made = shown(records, part).without(warnings(records))
        content = made.above + _table_page(made.printed, address, key, to) if address and made.printed else made.html
        return Section(heading(part), content, made.finding)
    except Exception as error:
        return Section(heading(part), warning_lines([problem(part, error)]))


def _table_page(whole: Printed, address: Address, key: str, to: Runs | None) -> str:
    """Write one page of a table, as the report prints it, each number a link to its runs."""
    shown, pages = page_of(address, key, len(whole.lines))
    cut = [f"The first {COLUMNS} of {len(whole.heads):,} columns; the report has all"] if len(whole.heads) > COLUMNS else []
    lines = [line[:COLUMNS] for line in whole.lines[shown]]
    return html_table(replace(whole, heads=whole.heads[:COLUMNS], lines=lines, notes=(*whole.notes, *cut)), to) + pages


def _now(now: StudyProgress) -> str:
    pairs = [
        ("Running", f"{len(now.running):,}"),
        ("Spent on runs under way", duration(now.spent) if now.running else ""),
        ("Time remaining", now.words),
    ]
    shown = facts([(name, value) for name, value in pairs if value])
    return shown + (running_table(now.running[:MOST], len(now.running), {}) if now.running else "")


def _curves(now: StudyProgress) -> str:
    """Draw the epochs so far of the first runs under way: their loss, and the score that selects."""
    few = now.running[:LINES]
    names = ["train_loss", *(run.score[0] for run in few if run.score)]
    data = run_curves(few, names)
    if data.empty:
        return "<p>None has finished an epoch yet.</p>"
    cut = (f"the first {LINES} of {len(now.running):,} runs",) if len(now.running) > LINES else ()
    spec = LearningCurves(title="Runs under way", metrics=tuple(dict.fromkeys(data["metric"])))
    return figure_box(dress(learning_figure(data, spec), "Runs under way", cut), "Runs under way", cut)


def run_curves(runs: Sequence[RunUnderWay], names: Sequence[str]) -> pd.DataFrame:
    """Return these metrics of the runs by epoch, a line for each run, as `learning_figure` draws them."""
    rows = [
        {"variant": position, "label": f"{run.label}, seed {run.seed}", "metric": name, "epoch": epoch + 1, "n": 1}
        | {"synthetic": False, "mean": value, "low": value, "high": value}
        for position, run in enumerate(runs)
        for epoch, line in sorted(run.lines.items())
        for name, value in line.values.items()
        if name in names and value is not None
    ]
    return pd.DataFrame(rows, columns=COLUMNS_OF_CURVES)


def _cut(count: int, of: str = "") -> str:
    return f'<p class="note">The first {LISTED} of {count:,}{of}.</p>' if count > LISTED else ""
