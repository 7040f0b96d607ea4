"""The report as one HTML page, which carries all that it needs: style sheets, scripts and the drawing library.

Every word that comes from a study or a record is escaped here, and only here.
"""

import base64
import gzip
import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple, NewType

import plotly
import plotly.graph_objects as go
from plotly.io.json import to_json_plotly

from recstudy.report.figures.theme import DARK, PALETTE, channels

Html = NewType("Html", str)  # markup: all that it says is escaped
LIBRARY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
LEVEL = 5  # of nine: half the time of the last, for 1 % more
CSS, VIEWER_CSS, VIEWER, COPY, UNPACK, DRAW = (
    (files("recstudy.report") / "web" / name).read_text(encoding="utf-8")
    for name in ("page.css", "viewer.css", "viewer.js", "copy.js", "unpack.js", "page.js")
)
PAIRS = [(form(own), form(other)) for own, other in zip(PALETTE, DARK, strict=True) for form in (str, channels)]
SCRIPT = f"const COLORS = {json.dumps(PAIRS)};\n{DRAW}"
ICON = (  # three dots that go round: in the page itself, so that no browser asks for one
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='8' cy='8' r='5.5' fill='none' stroke='%230a5ea8' stroke-width='2'/%3E"
    "%3Ccircle cx='8' cy='2.5' r='2.5' fill='%23d55e00'/%3E%3C/svg%3E"
)
KINDS = ('class="figure"', 'class="thinking"', 'class="copy"')  # of elements that need a script


class Section(NamedTuple):
    """A part of a page: its title, its HTML, and what it found in a few words, which stands behind the title."""

    title: str
    content: str
    finding: str = ""


def escape(text: object) -> Html:
    return Html(html.escape(str(text)))


def page(title: str, head: Sequence[str], sections: Sequence[Section], picture: int | None = None) -> bytes:
    """Return a page of sections, with what draws figures and puzzles embedded once where any of them has some.

    The section `picture` stands beside the first two parts of the head, or, where there is no room beside them, between these.

    Encoded one by one: as one text, which one sign of another script makes twice as wide, 10,000 runs take 15 MB more.
    """
    names = safe_names([one.title.lower() for one in sections])
    links, body, first = "", list[str](), list(head)
    for at, (name, one) in enumerate(zip(names, sections, strict=True)):
        links += f'<li><a href="#{name}">{escape(one.title)}</a></li>'
        heading = f'<h2 id="{name}">{escape(titled(one.title, one.finding))}</h2>{anchor(name)}'
        kind = ' class="picture"' if at == picture else ""
        made = [f'<section aria-labelledby="{name}"{kind}>{heading}\n', one.content, "</section>\n"]
        if at == picture:
            asked, answered, *rest = head
            first = ['<div class="first"><div>', asked, "</div>", *made, "<div>", answered, "</div></div>", *rest]
        else:
            body += made
    drawn, thinking, copied = (any(kind in text for text in (*first, *body)) for kind in KINDS)
    scripts = [SCRIPT, UNPACK] * drawn + [VIEWER] * thinking + [COPY] * copied
    end = "".join(f"<script>{one}</script>\n" for one in scripts) + "</body>\n</html>\n"
    start = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="{ICON}">\n<style>{CSS}{VIEWER_CSS}</style>\n</head>\n'
        "<body>\n<main>\n"
        f'<header>\n{"".join(first)}\n</header>\n<nav aria-label="Sections"><ul>{links}</ul></nav>\n'
    )
    return b"".join([*map(str.encode, (start, *body, "</main>\n")), packed() * drawn, end.encode()])


def packed() -> bytes:
    """Return an element of a page that holds the drawing library for `UNPACK`: 4.8 MB in 2.0; the same bytes each time."""
    text = base64.b64encode(gzip.compress(LIBRARY.read_bytes(), LEVEL, mtime=0))
    return b'<script type="application/octet-stream" id="plotly">%b</script>\n' % text


def safe_names(names: Sequence[str]) -> list[str]:
    """Return names that are safe in any folder and address, in the order of the parts, each used once."""
    safe: list[str] = []
    for name in names:
        own = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "part"
        safe.append(next(one for one in (own, *(f"{own}-{at}" for at in range(2, len(names) + 2))) if one not in safe))
    return safe


def anchor(name: str) -> Html:
    """Return a link to a heading, beside it."""
    return Html(f'<a class="anchor" href="#{escape(name)}" aria-label="link to this section"></a>')


def titled(title: str, finding: str) -> str:
    """Return a heading that says the finding, where there is one."""
    return f"{title}: {finding}" if finding else title


def figure_box(figure: go.Figure, label: str, notes: Sequence[str] = (), caption: str = "") -> str:
    """Return a place for a figure and its data beside it; `to_json_plotly` writes `<` and `/` as escapes.

    What a reader zoomed into stays where new numbers come in.
    """
    figure.update_layout(uirevision="kept")
    words = '<noscript><p class="note">This figure needs JavaScript; its numbers are in the CSV file.</p></noscript>'
    data = f'<script type="application/json">{to_json_plotly(figure.to_plotly_json())}</script>'
    below = f'<p class="caption">{escape(caption)}</p>' if caption else ""
    box = f'<div class="figure" role="figure" aria-label="{escape(label)}"></div>{data}'
    return f"{warning_lines(notes)}{box}\n{words}{below}\n"


def warning_lines(notes: Iterable[object]) -> str:
    return "".join(f'<p class="warning">{escape(note)}</p>' for note in notes)


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    found = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs)
    return f'<dl class="facts">{found}</dl>'


def table(
    label: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[Html | tuple[Html, str]]],
    classes: Mapping[int, str] | None = None,
    kind: str = "",
) -> Html:
    """Return a table in a box that scrolls on its own. The first of a row is its head; where it is alone, of the rows below it.

    Args:
        label: what it shows, for screen readers.
        heads: of the columns.
        rows: markup, or markup and the words of a tooltip.
        classes: how a column is set: `prose` and `setting` stand on the left, numbers on the right.
        kind: how the whole is set: `words`, all on the left; `stack`, rows as lists where the screen is narrow; `pairs`.
    """
    sides = [f' class="{side}"' if (side := (classes or {}).get(at)) else "" for at in range(len(heads))]
    top = "".join(f'<th scope="col"{side}>{escape(head)}</th>' for head, side in zip(heads, sides, strict=True))
    if kind == "stack":
        sides = [f'{side} data-head="{escape(head)}"' for head, side in zip(heads, sides, strict=True)]
    body = "\n".join(f"<tr>{_entries(row, sides)}</tr>" for row in rows)
    box = f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">'
    start = f'<table class="{kind}">' if kind else "<table>"
    return Html(f"{box}{start}<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>\n")


def words_table(label: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> Html:
    """Return a table of words."""
    return table(label, heads, [[escape(value) for value in row] for row in rows], kind="words")


def _entries(row: Sequence[Html | tuple[Html, str]], sides: Sequence[str]) -> str:
    (head, _), *others = [(entry, "") if isinstance(entry, str) else entry for entry in row]
    if not others:
        return f'<th scope="rowgroup" colspan="{len(sides)}">{head}</th>'
    hints = [f' title="{escape(hint)}"' if hint else "" for _, hint in others]
    entries = zip(others, hints, sides[1:], strict=True)
    return f'<th scope="row">{head}</th>' + "".join(f"<td{hint}{side}>{words}</td>" for (words, _), hint, side in entries)


def links(folder: str, file: str, endings: Sequence[str]) -> str:
    """Return the files beside the page that hold a part on its own."""
    found = ", ".join(f'<a href="{folder}/{escape(file)}.{ending}">{ending}</a>' for ending in endings)
    return f'<p class="note">Files: {found}</p>\n'


def code(text: str) -> str:
    words = f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
    return f'<div class="code">{words}<button type="button" class="copy">Copy</button></div>\n'


def fold(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>\n"
