"""A figure's files: an HTML page that opens without a network, the numbers behind it, and PDF, SVG or PNG on request."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from recstudy.analysis.figures.theme import WIDTH
from recstudy.errors import ConfigError, choices, nearest
from recstudy.records import write_whole

FORMATS = ("pdf", "svg", "png")
NO_BROWSER = (
    "figures were not exported as {formats}: no Chrome or Chromium answers ({reason}). Install one (on Debian: "
    "apt-get install chromium) or set BROWSER_PATH to it. The HTML and CSV files are there."
)


def write_figure(figure: go.Figure, data: pd.DataFrame, folder: Path, name: str, formats: Sequence[str] = ()) -> str | None:
    """Write `NAME.html`, `NAME.csv` and `NAME.FORMAT`; about 2 seconds a format.

    Returns:
        None, or the message that says why the formats are missing (no browser) and what to do about it.

    Raises:
        ConfigError: an unknown format.
    """
    check_formats(formats)
    library = folder / "plotly.min.js"
    if not library.exists() or library.stat().st_size != len(get_plotlyjs().encode()):
        write_whole(library, get_plotlyjs())
    page = figure.to_html(include_plotlyjs="directory", div_id=name, config={"responsive": True, "displaylogo": False})
    write_whole(folder / f"{name}.html", page)
    write_whole(folder / f"{name}.csv", data.to_csv(index=False))
    for kind in FORMATS:
        (folder / f"{name}.{kind}").unlink(missing_ok=True)  # rather none than one that shows older numbers
    try:
        images = {kind: _image(figure, kind) for kind in formats}
    except (RuntimeError, OSError) as error:  # no browser, one that dies at once, one that never answers
        reason = str(error.args[0] if error.args else type(error).__name__).strip().partition("\n")[0]
        return NO_BROWSER.format(formats=", ".join(formats), reason=reason.rstrip("."))
    for kind, image in images.items():
        write_whole(folder / f"{name}.{kind}", image)
    return None


def check_formats(formats: Sequence[str]) -> None:
    for kind in formats:
        if kind not in FORMATS:
            raise ConfigError(f"no figure format {kind!r}: there are {choices(FORMATS)}.{nearest(kind, FORMATS)}")


def _image(figure: go.Figure, kind: str) -> bytes:
    """White paper 7 inches wide at 100 points; a PNG at twice that for sharp text."""
    printed = go.Figure(figure).update_layout(paper_bgcolor="white", plot_bgcolor="white")
    return printed.to_image(format=kind, width=WIDTH, height=printed.layout.height, scale=2 if kind == "png" else 1)
