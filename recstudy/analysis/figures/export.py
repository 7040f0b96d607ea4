"""A figure's files: an HTML page that opens without a network, the numbers behind it, and PDF, SVG or PNG on request."""

import io
from collections.abc import Sequence
from pathlib import Path

import plotly.graph_objects as go
from PIL import Image
from plotly.offline import get_plotlyjs

from recstudy.analysis.figures.drawn import Drawn
from recstudy.analysis.figures.theme import COLUMNS
from recstudy.errors import ConfigError, choices, nearest
from recstudy.records import write_whole

FORMATS = ("pdf", "svg", "png")
SCALE = 0.8  # of a figure's pixels to Chrome's, of which there are 96 an inch: 0.6 points each, so 420 are 3.5 inches
DENSITY = 300  # pixels an inch of a PNG
# A PDF without the margins of 0.1 inches that Kaleido asks Chrome for, which then shrinks the figure by 5 %.
FLUSH = "<style>@page { margin: 0 } body { margin: 0 } img { display: block }</style>"
NO_BROWSER = (
    "figures were not exported as {formats}: no Chrome or Chromium answers ({reason}). Install one (on Debian: "
    "apt-get install chromium) or set BROWSER_PATH to it. The HTML and CSV files are there."
)


def write_figure(drawn: Drawn, folder: Path, name: str, formats: Sequence[str] = (), columns: int = 2) -> str | None:
    """Write `NAME.html`, `NAME.csv` and `NAME.FORMAT`, as wide as one or two `columns` of a paper; about 2 seconds a format.

    Returns:
        None, or the message that says why the formats are missing (no browser) and what to do about it.

    Raises:
        ConfigError: an unknown format, or a width that is neither 1 nor 2 columns.
    """
    check_export(formats, columns)
    library = folder / "plotly.min.js"
    if not library.exists() or library.stat().st_size != len(get_plotlyjs().encode()):
        write_whole(library, get_plotlyjs())
    page = drawn.figure.to_html(include_plotlyjs="directory", div_id=name, config={"responsive": True, "displaylogo": False})
    write_whole(folder / f"{name}.html", page)
    write_whole(folder / f"{name}.csv", drawn.data.to_csv(index=False))
    for kind in FORMATS:
        (folder / f"{name}.{kind}").unlink(missing_ok=True)  # rather none than one that shows older numbers
    try:
        images = {kind: _image(drawn.printed(columns), kind) for kind in formats}
    except (RuntimeError, OSError) as error:  # no browser, one that dies at once, one that never answers
        reason = str(error.args[0] if error.args else type(error).__name__).strip().partition("\n")[0]
        return NO_BROWSER.format(formats=", ".join(formats), reason=reason.rstrip("."))
    for kind, image in images.items():
        write_whole(folder / f"{name}.{kind}", image)
    return None


def check_export(formats: Sequence[str], columns: int = 2) -> None:
    for kind in formats:
        if kind not in FORMATS:
            raise ConfigError(f"no figure format {kind!r}: there are {choices(FORMATS)}.{nearest(kind, FORMATS)}")
    if columns not in COLUMNS:
        raise ConfigError(f"columns must be 1 or 2, but got {columns}")


def _image(figure: go.Figure, kind: str) -> bytes:
    """At the size that it has on paper; a PNG says how dense it is."""
    from kaleido import PageGenerator, calc_fig_sync  # here, because it takes a while to load

    page = PageGenerator(mathjax=False)  # which it would fetch from a network
    page.header += FLUSH
    size = {"width": figure.layout.width, "height": figure.layout.height, "scale": SCALE * (DENSITY / 96 if kind == "png" else 1)}
    made = calc_fig_sync(figure.to_dict(), opts={"format": kind, **size}, kopts={"page_generator": page})
    if kind != "png":
        return bytes(made)
    file = io.BytesIO()
    Image.open(io.BytesIO(made)).save(file, format="PNG", dpi=(DENSITY, DENSITY))
    return file.getvalue()
