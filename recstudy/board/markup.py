"""Addresses, a page as parts, each made again only when what it shows has changed, and links, pages of rows and forms as HTML.

Every word is escaped here or in `analysis.page`. What takes or gives `Html` is markup already; all other words are text.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlencode

from recstudy.analysis.page import Html, Section, escape

ROWS = 50  # of a table on one page
FIELDS = 24  # of an address


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


@dataclass(frozen=True, eq=False)
class Same:
    """What a part is made from, told from others by which object it is: records are too large to compare."""

    what: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.what is self.what

    def __hash__(self) -> int:
        return id(self.what)


@dataclass(frozen=True)
class PagePart:
    """One part of a page: its place in it, its heading (none for the first), its content, and what it found in a few words."""

    key: str
    title: str
    body: str
    finding: str = ""


@dataclass(frozen=True)
class Recipe:
    """How a part is made, and what it is made from: where `needs` is as before, so is the part."""

    key: str
    title: str
    needs: object
    make: Callable[[], str | Section]

    def part(self) -> PagePart:
        """Make it, from its content alone or with what it found."""
        made = self.make()
        body, finding = (made.content, made.finding) if isinstance(made, Section) else (made, "")
        return PagePart(self.key, self.title, body, finding)


@dataclass(frozen=True)
class Page:
    """A page's title, and its parts in their order."""

    title: str
    recipes: Sequence[Recipe]


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
