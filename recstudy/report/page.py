"""The report as one HTML file, with style sheets, scripts and the plotting library embedded.

Jinja2 templates render its parts and escape every value that is not markup already. `writing.py` and the
board call this module.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from markupsafe import Markup

from recstudy.base.lazy import go
from recstudy.report.look import DARK, PALETTE, channels

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def templates(package: str = "recstudy.report") -> Environment:
    """Return the templates of a package, which may extend those of the report."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader(package), PackageLoader("recstudy.report")])
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


def render(template: str, /, package: str = "recstudy.report", **values: Any) -> str:
    """Return the text of a package's template with these values."""
    return templates(package).get_template(template).render(**values)


def markup(macro: str, *values: Any, template: str = "macros", package: str = "recstudy.report") -> Markup:
    """Return the markup of a template's macro: `markup("facts", [("Runs", "3 of 4")])`."""
    module = templates(package).get_template(f"{template}.html.jinja").module
    return Markup(getattr(module, macro)(*values))


def fold(summary: str, content: str) -> Markup:
    """Return content that a reader opens by its summary."""
    return markup("fold", summary, Markup(content))


def words_table(
    label: str, heads: Sequence[str], rows: Iterable[Sequence[object]], kind: str = "words"
) -> Markup:
    """Return a table of words in a scrollable box. The macro `table` describes the arguments."""
    return markup("table", label, heads, [list(map(str, row)) for row in rows], {}, kind)


LIBRARY = Path(str(getattr(find_spec("plotly"), "origin", ""))).parent / "package_data" / "plotly.min.js"
GZIP_LEVEL = 5  # half the time of level 9, for 1 % more bytes
CSS, VIEWER_CSS, VIEWER, COPY, SORT, UNPACK, DRAW = (
    (files("recstudy.report") / "web" / name).read_text(encoding="utf-8")
    for name in ("page.css", "viewer.css", "viewer.js", "copy.js", "sort.js", "unpack.js", "page.js")
)
COLORS = [
    (form(light), form(dark)) for light, dark in zip(PALETTE, DARK, strict=True) for form in (str, channels)
]
SCRIPT = f"const COLORS = {json.dumps(COLORS)};\n{DRAW}"
ICON = (  # two circles; embedded, so that a browser does not request a file
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='8' cy='8' r='5.5' fill='none' stroke='%230a5ea8' stroke-width='2'/%3E"
    "%3Ccircle cx='8' cy='2.5' r='2.5' fill='%23d55e00'/%3E%3C/svg%3E"
)
FIGURE = 'class="figure"'  # markup by which a page with a figure is recognized
SCRIPTS = {
    FIGURE: [SCRIPT, UNPACK],
    'class="thinking"': [VIEWER],
    'class="copy"': [COPY],
    'class="sort"': [SORT],
}


class Section(NamedTuple):
    """A section of a page.

    Args:
        title: The heading.
        content: HTML.
        finding: The result in a few words, for the heading.
        key: The anchor in the page's address.
    """

    title: str
    content: str
    finding: str = ""
    key: str = ""


class PageContent(NamedTuple):
    """The content of a page.

    Args:
        title: The page's title.
        head: HTML of the question, of the answer and of the rest of the head.
        sections: The sections in their order.
        picture: The index of the section that is shown next to question and answer.
    """

    title: str
    head: Sequence[str]
    sections: Sequence[Section]
    picture: int | None = None


def page(content: PageContent) -> bytes:
    """Return a page as one file.

    The scripts for figures and puzzles are embedded only if a section needs them.
    """
    values = page_values(content)
    text = [*content.head, *(section.content for section in content.sections)]
    scripts: list[str] = []
    for kind, scripts_of_kind in SCRIPTS.items():
        if any(kind in html for html in text):
            scripts += scripts_of_kind
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
    """Return the page element with the plotting library, which the script `UNPACK` unpacks."""
    # Compression turns 4.8 MB into 2.0 MB. Without a time stamp, equal reports are equal bytes.
    text = base64.b64encode(gzip.compress(LIBRARY.read_bytes(), GZIP_LEVEL, mtime=0))
    return b'<script type="application/octet-stream" id="plotly">%b</script>\n' % text


def safe_names(names: Sequence[str]) -> list[str]:
    """Return unique names that are safe in folders and addresses, in the order of the parts."""
    safe: list[str] = []
    for name in names:
        safe_name = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip(".-")[:80] or "part"
        numbered_names = (f"{safe_name}-{number}" for number in range(2, len(names) + 2))
        candidates = (safe_name, *numbered_names)
        safe.append(next(candidate for candidate in candidates if candidate not in safe))
    return safe


def figure_box(figure: go.Figure, label: str, caption: str = "") -> Markup:
    """Return the markup of a figure with its data."""
    from plotly.io.json import to_json_plotly

    # A constant `uirevision` keeps a reader's zoom when the board loads new numbers. Plotly's encoder escapes
    # `<` and `/`, so the data cannot end the script element.
    data = to_json_plotly(figure.update_layout(uirevision="kept").to_plotly_json())
    return markup("figure", data, label, caption)
