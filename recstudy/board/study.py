"""`/study/NAME/PRESET`: the report's own parts, made again as runs end, and under them every run.

A table that is too large for one page is shown a page at a time, its best values marked over all of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from recstudy.analysis.audit import TITLE, audit, audit_html
from recstudy.analysis.caveats import warnings
from recstudy.analysis.figures.layout import dress
from recstudy.analysis.figures.learning import learning_figure
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Section, facts, figure_box, warning_lines
from recstudy.analysis.shown import heading, problem
from recstudy.analysis.summary import again, asked, failures, found, provenance, ran, settings
from recstudy.analysis.tables.entries import Printed, html_table
from recstudy.board.columns import ranges
from recstudy.board.markup import Address, Page, Recipe, Same, href, page_of
from recstudy.board.overview import MOST, compare_form, running_table
from recstudy.board.plans import Planned
from recstudy.board.progress import LINES, Progress, curves, progress
from recstudy.board.rows import some_variants
from recstudy.board.runlist import run_list
from recstudy.board.sources import Sources
from recstudy.report import LearningCurves, Part
from recstudy.terminal import duration

COLUMNS = 30  # of a table on one page
Runs = Callable[[Sequence[str]], str]
FAILED = 200  # failed runs that the page names under their errors


def study_page(sources: Sources, address: Address) -> Page:
    """The page of the study that the address names.

    Raises:
        ConfigError: there is none.
    """
    _, name, preset = address.path
    records = sources.kept.records((name, preset))
    planned = sources.watch.studies[name, preset]
    live, now = sources.live(planned), progress(sources.watch, planned)
    needs = Same(records)
    to = partial(_runs_of, planned, ("runs", name, preset))
    report = [_part(records, part, f"part{at}", address, live, to) for at, part in enumerate(records.parts, 1)]
    body = [
        Recipe("head", "", needs, lambda: asked(records)),
        Recipe("findings", "", needs, lambda: found(records)),
        Recipe("facts", "", needs, lambda: ran(records)),
        Recipe("now", "Now", (needs, live), lambda: _now(now)),
        *report[:1],
        Recipe("underway", "Runs under way", live, lambda: _curves(now)),
        *report[1:],
        Recipe("failures", "What failed", needs, lambda: _failures(records)),
        Recipe("runs", "Runs", (needs, live), lambda: run_list(records, Address(("runs", name, preset)), set(dict(live)))),
        Recipe("audit", TITLE, needs, lambda: audit_html(audit(records))),
        Recipe("settings", "Settings", Same(planned), lambda: _settings(records)),
        Recipe("provenance", "Provenance", needs, lambda: provenance(records)),
        Recipe("again", "Finish or repeat", needs, lambda: again(records)),
        Recipe("compare", "Compare", tuple(sources.watch.studies), lambda: compare_form(sources, f"{name}/{preset}")),
    ]
    there = {"now": bool(now.running or now.todo), "failures": _any_failed(records), "underway": bool(now.running)}
    return Page(f"{name} ({preset})", [one for one in body if there.get(one.key, True)])


def part_html(records: StudyRecords, part: Part) -> str:
    """A part as the report shows it, or why it cannot be drawn."""
    return _made(records, part).content


def _made(records: StudyRecords, part: Part, key: str = "", address: Address | None = None, to: Runs | None = None) -> Section:
    """Of a long table, the page that the address asks for; `to` gives the address of the runs of an entry."""
    try:
        shown = part.shown(records).without(warnings(records))
        content = shown.above + table_html(shown.printed, address, key, to) if address and shown.printed else shown.html
        return Section(heading(part), content, shown.finding)
    except Exception as error:
        return Section(heading(part), warning_lines([problem(part, error)]))


def _runs_of(planned: Planned, path: Sequence[str], run_ids: Sequence[str]) -> str:
    """The list of the runs of these runs' variants: also of those that gave no number."""
    return href(*path, variant=ranges(planned.named[run_id][0] for run_id in run_ids if run_id in planned.named))


def table_html(whole: Printed, address: Address, key: str, to: Runs | None = None) -> str:
    """One page of a table, as the report prints it, each number a link to its runs."""
    shown, pages = page_of(address, key, len(whole.lines))
    cut = [f"The first {COLUMNS} of {len(whole.heads):,} columns; the report has all"] if len(whole.heads) > COLUMNS else []
    page = replace(
        whole,
        heads=whole.heads[:COLUMNS],
        lines=[line[:COLUMNS] for line in whole.lines[shown]],
        notes=(*whole.notes, *cut),
    )
    return html_table(page, to) + pages


def _part(records: StudyRecords, part: Part, key: str, address: Address, live: object, to: Runs) -> Recipe:
    needs = (Same(records), address, live if part.live else ())
    return Recipe(key, heading(part), needs, lambda: _made(records, part, key, address, to))


def _now(now: Progress) -> str:
    pairs = [
        ("Running", f"{len(now.running):,}"),
        ("Spent on runs under way", duration(now.spent) if now.running else ""),
        ("Time remaining", now.words),
    ]
    shown = facts([(name, value) for name, value in pairs if value])
    return shown + (running_table(now.running[:MOST], len(now.running), {}) if now.running else "")


def _curves(now: Progress) -> str:
    data = curves(now.running)
    cut = (f"the first {LINES} of {len(now.running):,} runs",) if len(now.running) > LINES else ()
    spec = LearningCurves(title="Runs under way", metrics=tuple(dict.fromkeys(data["metric"])))
    if data.empty:
        return "<p>None has finished an epoch yet.</p>"
    return figure_box(dress(learning_figure(data, spec), "Runs under way", cut), "Runs under way", cut)


def _any_failed(records: StudyRecords) -> bool:
    return any(row.status in ("failed", "diverged") for row in records.rows)


def _failures(records: StudyRecords) -> str:
    lost = [row for row in records.rows if row.status in ("failed", "diverged")]
    more = f'<p class="note">The first {FAILED} of {len(lost):,}.</p>' if len(lost) > FAILED else ""
    return failures(replace(records, rows=lost[:FAILED])) + more


def _settings(records: StudyRecords) -> str:
    count = len(records.variants)
    more = f'<p class="note">The first {FAILED} of {count:,} variants.</p>' if count > FAILED else ""
    return settings(some_variants(records, list(range(count))[:FAILED])) + more
