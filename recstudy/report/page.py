"""The report as one HTML page, which carries all that it needs: style sheets, scripts and the drawing library."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from recstudy.lazy import go
from recstudy.report.look import DARK, PALETTE, channels
from recstudy.report.markup import markup, render

LIBRARY = Path(str(getattr(find_spec("plotly"), "origin", ""))).parent / "package_data" / "plotly.min.js"
GZIP_LEVEL = 5  # half the time of level 9, for 1 % more bytes
CSS, VIEWER_CSS, VIEWER, COPY, UNPACK, DRAW = (
    (files("recstudy.report") / "web" / name).read_text(encoding="utf-8")
    for name in ("page.css", "viewer.css", "viewer.js", "copy.js", "unpack.js", "page.js")
)
COLORS = [(form(light), form(dark)) for light, dark in zip(PALETTE, DARK, strict=True) for form in (str, channels)]
SCRIPT = f"const COLORS = {json.dumps(COLORS)};\n{DRAW}"
ICON = (  # three dots that go round: in the page itself, so that no browser asks for one
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='8' cy='8' r='5.5' fill='none' stroke='%230a5ea8' stroke-width='2'/%3E"
    "%3Ccircle cx='8' cy='2.5' r='2.5' fill='%23d55e00'/%3E%3C/svg%3E"
)
FIGURE = 'class="figure"'  # what a page with a figure has
SCRIPTS = {FIGURE: [SCRIPT, UNPACK], 'class="thinking"': [VIEWER], 'class="copy"': [COPY]}


class Section(NamedTuple):
    """A part of a page: its title, its HTML, what it shows in a few words, and its name in the page's address."""

    title: str
    content: str
    finding: str = ""
    key: str = ""


def page(title: str, head: Sequence[str], sections: Sequence[Section], picture: int | None = None) -> bytes:
    """Return a page of sections. It embeds what draws figures and puzzles where a section has some.

    Args:
        title: Of the page.
        head: HTML of the question, the answer, and the rest of the page's head.
        sections: In their order.
        picture: The place of the section that stands beside question and answer.
    """
    keys = safe_names([section.title.lower() for section in sections])
    pairs = zip(sections, keys, strict=True)
    parts = [section._replace(key=key, content=Markup(section.content)) for section, key in pairs]
    content = [*map(Markup, head), *(part.content for part in parts)]
    scripts = [script for kind, needed in SCRIPTS.items() if any(kind in text for text in content) for script in needed]
    question, answer, rest = content[:3]
    html = render(
        "page.html.jinja", title=title, icon=ICON, styles=CSS + VIEWER_CSS, question=question, answer=answer, rest=rest,
        parts=parts, picture=None if picture is None else parts[picture],
    )  # fmt: skip
    library = packed() if SCRIPT in scripts else b""
    end = "".join(f"<script>{script}</script>\n" for script in scripts) + "</body>\n</html>\n"
    return html.encode() + library + end.encode()


def packed() -> bytes:
    """Return an element of a page that holds the drawing library for `UNPACK`: 4.8 MB in 2.0; the same bytes each time."""
    text = base64.b64encode(gzip.compress(LIBRARY.read_bytes(), GZIP_LEVEL, mtime=0))
    return b'<script type="application/octet-stream" id="plotly">%b</script>\n' % text


def safe_names(names: Sequence[str]) -> list[str]:
    """Return names that are safe in any folder and address, in the order of the parts, each used once."""
    safe: list[str] = []
    for name in names:
        own = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "part"
        safe.append(next(one for one in (own, *(f"{own}-{at}" for at in range(2, len(names) + 2))) if one not in safe))
    return safe


def figure_box(figure: go.Figure, label: str, notes: Sequence[str] = (), caption: str = "") -> str:
    """Return the place of a figure and its data; what a reader zoomed into stays where new numbers come in."""
    from plotly.io.json import to_json_plotly

    data = to_json_plotly(figure.update_layout(uirevision="kept").to_plotly_json())  # which writes `<` and `/` as escapes
    return markup("figure", data, label, notes, caption)
