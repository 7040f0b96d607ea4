"""Every run of a study, a page at a time: all, those of one status, or those with some words in their label."""

from collections.abc import Sequence

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import Html, table
from recstudy.analysis.rows import STATUSES, Row
from recstudy.board.markup import Address, form, link, page_of, run_link, state, text
from recstudy.report import TablePart
from recstudy.report.names import metric, number, plain
from recstudy.terminal import duration

RUNS = ("run", "status", "seed", "attempts", "wall time")


def run_list(records: StudyRecords, address: Address, live: set[str]) -> str:
    """The runs that the address asks for; `live` are those under way."""
    asked, words = address.get("state"), address.get("find").strip()
    chosen = [row for row in records.rows if _asked(row, asked, words.lower(), live)]
    shown, pages = page_of(address, "runs", len(chosen))
    search = form(address.but("runs"), "Find", {"find": ("find by label or run id", words)}, {"state": asked} if asked else {})
    score = first_metric(records)
    heads = (*RUNS[:2], metric(score).heading, *RUNS[2:])
    rows = [_run(row, live, score) for row in chosen[shown]]
    told = table("Runs", heads, rows, {1: "prose"}, "stack") if chosen else "<p>No run is like this.</p>"
    return _states(records, address, live) + search + told + pages


def _asked(row: Row, asked: str, words: str, live: set[str]) -> bool:
    status = "running" if row.id in live else row.status
    return (not asked or status == asked) and (not words or words in row.label.lower() or words in row.id)


def _states(records: StudyRecords, address: Address, live: set[str]) -> Html:
    """A link a status, with its count; the one that is shown is marked."""
    found = ["running" if row.id in live else row.status for row in records.rows]
    asked = address.get("state")
    links = [("all", "", len(found)), *((word, word, found.count(word)) for word in ("running", *STATUSES) if word in found)]
    items = [
        f'<b aria-current="true">{text(words)}</b>' if value == asked else link(address.but("runs", state=value, runs=""), words)
        for words, value in [(f"{name} {count:,}", value) for name, value, count in links]
    ]
    return Html(f'<nav class="pages" aria-label="Runs by status">{" ".join(items)}</nav>')


def first_metric(records: StudyRecords) -> str:
    """By which the study is judged: the first metric of its first table."""
    return next((part.shows[0] for part in records.parts if isinstance(part, TablePart) and part.shows), "top1_accuracy")


def _run(row: Row, live: set[str], score: str) -> Sequence[Html]:
    seconds, reached = row.value("seconds"), row.value(score)
    return [
        run_link(row.id, row.label),
        state("running" if row.id in live else row.status),
        text(number(score, reached) if reached is not None else ""),
        text(row.seed),
        text(plain(row.attempts) if row.attempts else ""),
        text(duration(seconds) if seconds is not None else ""),
    ]
