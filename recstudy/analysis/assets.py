"""What a page carries with it, as text, so that it stands alone: style sheets, scripts and the drawing library."""

import base64
import gzip
import json
from importlib.resources import files
from pathlib import Path

import plotly

from recstudy.analysis.figures.theme import DARK, PALETTE, channels

LIBRARY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
LEVEL = 5  # of nine: half the time of the last, for 1 % more


def _web(name: str) -> str:
    return (files("recstudy.analysis") / "web" / name).read_text(encoding="utf-8")


CSS, VIEWER_CSS, VIEWER, COPY, UNPACK = map(_web, ("page.css", "viewer.css", "viewer.js", "copy.js", "unpack.js"))
PAIRS = [(form(own), form(other)) for own, other in zip(PALETTE, DARK, strict=True) for form in (str, channels)]
SCRIPT = f"const COLORS = {json.dumps(PAIRS)};\n{_web('page.js')}"
ICON = (  # three dots that go round: in the page itself, so that no browser asks for one
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Ccircle cx='8' cy='8' r='5.5' fill='none' stroke='%230a5ea8' stroke-width='2'/%3E"
    "%3Ccircle cx='8' cy='2.5' r='2.5' fill='%23d55e00'/%3E%3C/svg%3E"
)


def packed() -> bytes:
    """An element of a page that holds the drawing library for `UNPACK`: 4.8 MB in 2.0; the same bytes each time."""
    text = base64.b64encode(gzip.compress(LIBRARY.read_bytes(), LEVEL, mtime=0))
    return b'<script type="application/octet-stream" id="plotly">%b</script>\n' % text
