"""The report as one HTML page, which carries all that it needs: style sheets, scripts and the drawing
library.

Its parts are made by jinja2 templates, which escape every value that is not markup already.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NewType

import markupsafe
from markupsafe import Markup

from recstudy.lazy import go
from recstudy.report.look import DARK, PALETTE, channels

if TYPE_CHECKING:
    from jinja2 import Environment

Html = NewType("Html", str)  # a page takes it as it is: all text in it is escaped


@cache
def templates() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    loader = PackageLoader("recstudy.report")
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


@cache
def macros(name: str = "macros") -> Any:
    """Return the macros of a template, which give markup: `macros().facts([("Runs", "3 of 4")])`."""
    return templates().get_template(f"{name}.html.jinja").module


def render(template: str, **values: Any) -> Html:
    """Return a template's markup with these values."""
    return Html(templates().get_template(template).render(**values))


def markup(macro: str, *values: Any, template: str = "macros") -> Html:
    """Return what a macro of a template gives: `markup("facts", [("Runs", "3 of 4")])`."""
    return Html(str(getattr(macros(template), macro)(*values)))


def escape(words: object) -> Html:
    return Html(str(markupsafe.escape(words)))


def fold(summary: str, content: str) -> Html:
    """Return content that opens below its summary."""
    return markup("fold", summary, Markup(content))


def table(
    label: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Html | tuple[Html, str]]],
    classes: Mapping[int, str] | None = None,
    kind: str = "",
) -> Html:
    """Return a table in a box that scrolls on its own, as the macro `table` describes it, with entries that
    are HTML.
    """

    def entry_markup(entry: Html | tuple[Html, str]) -> Markup | tuple[Markup, str]:
        return (Markup(entry[0]), entry[1]) if isinstance(entry, tuple) else Markup(entry)

    return markup("table", label, heads, [list(map(entry_markup, row)) for row in rows], classes or {}, kind)


def words_table(label: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table of words."""
    return markup("table", label, heads, [list(map(str, row)) for row in rows], {}, "words")


LIBRARY = Path(str(getattr(find_spec("plotly"), "origin", ""))).parent / "package_data" / "plotly.min.js"
GZIP_LEVEL = 5  # half the time of level 9, for 1 % more bytes
CSS, VIEWER_CSS, VIEWER, COPY, UNPACK, DRAW = (
    (files("recstudy.report") / "web" / name).read_text(encoding="utf-8")
    for name in ("page.css", "viewer.css", "viewer.js", "copy.js", "unpack.js", "page.js")
)
COLORS = [
    (form(light), form(dark)) for light, dark in zip(PALETTE, DARK, strict=True) for form in (str, channels)
]
SCRIPT = f"const COLORS = {json.dumps(COLORS)};\n{DRAW}"
ICON = (  # three dots that go round: in the page itself, so that no browser asks for one
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='8' cy='8' r='5.5' fill='none' stroke='%230a5ea8' stroke-width='2'/%3E"
    "%3Ccircle cx='8' cy='2.5' r='2.5' fill='%23d55e00'/%3E%3C/svg%3E"
)
FIGURE = 'class="figure"'  # what a page with a figure has
SCRIPTS = {FIGURE: [SCRIPT, UNPACK], 'class="thinking"': [VIEWER], 'class="copy"': [COPY]}


class Section(NamedTuple):
    """A part of a page: its title, its HTML, what it shows in a few words, and its name in the page's
    address.
    """

    title: str
    content: str
    finding: str = ""
    key: str = ""


class PageContent(NamedTuple):
    """What a page shows.

    Args:
        title: Of the page.
        head: HTML of the question, the answer, and the rest of the page's head.
        sections: In their order.
        picture: The index of the section that stands beside question and answer.
    """

    title: str
    head: Sequence[str]
    sections: Sequence[Section]
    picture: int | None = None


def page(content: PageContent) -> bytes:
    """Return a page as one file. It embeds the scripts that draw figures and puzzles if a section has
    some.
    """
    values = page_values(content)
    text = [*content.head, *(section.content for section in content.sections)]
    scripts = [
        script for kind, needed in SCRIPTS.items() if any(kind in html for html in text) for script in needed
    ]
    html = render("page.html.jinja", styles=CSS + VIEWER_CSS, **values)
    library = packed() if SCRIPT in scripts else b""
    end = "".join(f"<script>{script}</script>\n" for script in scripts) + "</body>\n</html>\n"
    return html.encode() + library + end.encode()


def page_values(content: PageContent) -> dict[str, Any]:
    """Return the values of the template `page.html.jinja`, without the style sheet."""
    keys = safe_names([section.title.lower() for section in content.sections])
    pairs = zip(content.sections, keys, strict=True)
    parts = [section._replace(key=key, content=Markup(section.content)) for section, key in pairs]
    question, answer, rest = map(Markup, content.head)
    return {
        "title": content.title,
        "icon": ICON,
        "question": question,
        "answer": answer,
        "rest": rest,
        "parts": parts,
        "picture": None if content.picture is None else parts[content.picture],
    }


def packed() -> bytes:
    """Return an element of a page that holds the drawing library for `UNPACK`: 4.8 MB in 2.0; the same bytes
    each time.
    """
    text = base64.b64encode(gzip.compress(LIBRARY.read_bytes(), GZIP_LEVEL, mtime=0))
    return b'<script type="application/octet-stream" id="plotly">%b</script>\n' % text


def safe_names(names: Sequence[str]) -> list[str]:
    """Return names that are safe in any folder and address, in the order of the parts, each used once."""
    safe: list[str] = []
    for name in names:
        own = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "part"
        safe.append(
            next(one for one in (own, *(f"{own}-{at}" for at in range(2, len(names) + 2))) if one not in safe)
        )
    return safe


def figure_box(figure: go.Figure, label: str, notes: Sequence[str] = (), caption: str = "") -> str:
    """Return the place of a figure and its data; what a reader zoomed into stays where new numbers come
    in.
    """
    from plotly.io.json import to_json_plotly

    # which writes `<` and `/` as escapes
    data = to_json_plotly(figure.update_layout(uirevision="kept").to_plotly_json())
    return markup("figure", data, label, notes, caption)
