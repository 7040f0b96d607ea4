"""Addresses, the parts of a page, and links and pages of rows as HTML.

Every word is escaped here or in `report.page`. What takes or gives `Html` is markup already; all other words are text.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode

from recstudy.errors import RecstudyError
from recstudy.report.markup import Html, escape, markup

ROWS = 50  # of a table on one page
FIELDS = 24  # of an address
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """Which page: the path below the board's root, and the query."""

    path: tuple[str, ...] = ()
    query: tuple[tuple[str, str], ...] = ()

    def get(self, name: str) -> str:
        return dict(self.query).get(name, "")

    def number(self, name: str) -> int:
        """Return a page's number, from 1."""
        text = self.get(name)
        return max(1, int(text)) if text.isascii() and text.isdigit() and len(text) < 9 else 1

    def changed(self, part: str = "", **changes: str) -> str:
        """Return the address with these changes of the query, at a part of the page."""
        query = {name: value for name, value in (dict(self.query) | changes).items() if value}
        return href(*self.path, **query) + (f"#{part}" if part else "")


def address_of(path: str, search: str = "") -> Address:
    """Read what a browser's address bar holds; more fields than any page has are passed over."""
    words = tuple(unquote(word) for word in path.split("/") if word)
    fields = "&".join(search.removeprefix("?").split("&", FIELDS)[:FIELDS])
    return Address(words, tuple(sorted(dict(parse_qsl(fields)).items())))


@dataclass(frozen=True)
class PagePart:
    """One part of a page: its key in the address, its heading (empty for the first), its HTML, and its finding in a few words."""

    key: str
    title: str
    body: str
    finding: str = ""


def make_part(key: str, title: str, make: Callable[[], str]) -> PagePart:
    """Make a part. If a damaged record or a study's own module raises an error, the part says so and the page has the others."""
    try:
        return PagePart(key, title, make())
    except (Exception, SystemExit) as error:
        return PagePart(key, title, describe_problem(error))


def describe_problem(error: BaseException) -> str:
    if isinstance(error, RecstudyError):
        return markup("warnings", [str(error)])
    log.error("cannot be shown", exc_info=error)
    return markup("warnings", [f"This cannot be shown: {type(error).__name__}: {error}"])


@dataclass(frozen=True)
class Page:
    """A page's title, and its parts in their order."""

    title: str
    parts: Sequence[PagePart]


def href(*path: str, **query: str) -> str:
    return "/" + "/".join(quote(word, safe="") for word in path) + (f"?{urlencode(query)}" if query else "")


def text(words: object) -> Html:
    return escape(words)


def link(target: str, words: object) -> Html:
    """Write a link; what leads to another program opens beside the board."""
    beside = ' target="_blank" rel="noopener noreferrer"' if target.startswith("http") else ""
    return Html(f'<a href="{escape(target)}"{beside}>{escape(words)}</a>')


def choice(target: str, words: object, now: bool) -> Html:
    """Write one of several links, of which the one that is shown is marked; it stays a link, so that the focus stays on it."""
    marked = ' aria-current="true"' if now else ""
    return Html(f'<a href="{escape(target)}"{marked}>{escape(words)}</a>')


def study_link(name: str, preset: str) -> Html:
    return link(href("study", name, preset), f"{name} ({preset})")


def run_link(run_id: str, words: object = "") -> Html:
    return link(href("run", run_id), words or run_id)


def state(word: str) -> Html:
    """Show how a run or a study is, with a mark of its own beside the colour."""
    return Html(f'<span class="state {escape(word.replace(" ", "-"))}">{escape(word)}</span>')


def bar(done: float, whole: float, words: str) -> Html:
    """Show progress as words, and as a bar."""
    share = f'<progress value="{min(done, whole):g}" max="{whole:g}" aria-hidden="true"></progress>' if whole else ""
    return Html(f'<span class="bar">{share}{escape(words)}</span>')


def page_of(address: Address, part: str, count: int, size: int = ROWS) -> tuple[slice, Html]:
    """Return which of `count` rows the address asks for, and the links to the others; the part's key names it in the query."""
    pages = max(1, -(-count // size))
    at = min(address.number(part), pages)
    shown = slice((at - 1) * size, min(at * size, count))
    if pages == 1:
        return shown, Html("")
    near = sorted({1, pages, *(page for page in (at - 1, at, at + 1) if 1 <= page <= pages)})
    links = " ".join(
        f'<b aria-current="page">{page}</b>' if page == at else link(address.changed(part, **{part: str(page)}), page)
        for page in near
    )
    words = f"rows {shown.start + 1:,} to {shown.stop:,} of {count:,}; page"
    return shown, Html(f'<nav class="pages" aria-label="Pages: {escape(part)}"><span>{words}</span> {links}</nav>')
