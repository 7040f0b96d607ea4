"""A part of a report that was made: what a page, a folder of files, the terminal and a notebook take from it.

Of a figure an HTML page that opens without a network, the numbers behind it, and PDF, SVG or PNG on request;
of a table Markdown, LaTeX and CSV, and what is behind each of its numbers. `files.json` in the report's
folder names the files that the report wrote itself, with their SHA-256. What somebody else put there, or
changed since, stays. So does a link, because nothing is written or removed through one.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from markupsafe import escape

from recstudy.errors import ConfigError, StorageError, choices, nearest
from recstudy.lazy import go, pd
from recstudy.opened import ARCHIVE, contents, refuse_link
from recstudy.records import read_json, write_json, write_whole
from recstudy.report.look import escape_text, on_paper, on_screen, titled
from recstudy.report.page import LIBRARY, figure_box, markup, render
from recstudy.report.table import PrintedTable
from recstudy.report.venues import ARTICLE, Paper
from recstudy.report.writers import html, label, latex, markdown, note_lines, sentence, tex

if TYPE_CHECKING:
    from recstudy.report.parts import FigurePart


@dataclass(frozen=True)
class DrawnFigure:
    """A part's figure.

    Args:
        part: draws it.
        data: the numbers behind it, a row per point; columns that begin with an underscore are for drawing
            only.
        notes: what a reader must know before the numbers.
        html_below: HTML that a page shows under the figure.
    """

    part: FigurePart
    data: pd.DataFrame
    notes: Sequence[str] = ()
    html_below: str = ""

    @property
    def is_empty(self) -> bool:
        """Whether no point of the figure has a value yet."""
        values = self.data.filter(["value", "reached"])  # the second by a trial that was stopped early
        return self.data.empty or bool(values.size and values.isna().to_numpy().all())

    @cached_property
    def figure(self) -> go.Figure:
        """The figure for a page."""
        return on_screen(go.Figure() if self.is_empty else self.part.draw(escape_text(self.data)))

    def printed(self, inches: float) -> go.Figure:
        """Return the figure for a paper, `inches` wide."""
        paper = on_paper(self.figure, inches)
        return titled(paper, "", self.notes) if self.notes else paper

    @property
    def label(self) -> str:
        """The title."""
        return self.part.heading

    @cached_property
    def caption(self) -> str:
        """How to read the figure."""
        return "" if self.is_empty else self.part.caption(self.data)

    @cached_property
    def finding(self) -> str:
        """What the figure shows, in a few words."""
        return "" if self.is_empty else self.part.finding(self.data)

    @property
    def alternative(self) -> str:
        """Title, finding and words, for a screen reader."""
        title = f"{self.label}: {self.finding}" if self.finding else self.label
        words = self.part.describe(self.data)
        return f"{title}. {words}" if words else title

    @property
    def csv(self) -> str:
        """The numbers in full precision."""
        return self.data[[name for name in self.data if not str(name).startswith("_")]].to_csv(index=False)


MANIFEST = "files.json"
REPORT_FILES = re.compile(r"(tables|figures)/[^/\0]+")  # what a manifest may name, whoever wrote it
log = logging.getLogger(__name__)


class ReportFiles:
    """The files of one report while it is written.

    Args:
        folder: The report's folder.

    Raises:
        StorageError: The folder, or one in it, is a link, or its manifest is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for path in (folder, folder / "tables", folder / "figures"):
            refuse_link(path)
        manifest = read_json(folder / MANIFEST) or {}
        self.earlier_checksums = {
            name: checksum for name, checksum in manifest.items() if REPORT_FILES.fullmatch(name)
        }
        self.checksums: dict[str, str] = {}

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file, named relative to the report's folder, unless it has this content already."""
        values = content.encode() if isinstance(content, str) else content
        self.checksums[name] = hashlib.sha256(values).hexdigest()
        if self._checksum(name) != self.checksums[name]:
            write_whole(self.folder / name, values)

    def finish(self) -> None:
        """Remove what earlier reports wrote and this one did not, so that no file has older numbers; write
        the manifest.
        """
        for name in self.earlier_checksums.keys() - self.checksums.keys():
            checksum = self._checksum(name)
            if checksum == self.earlier_checksums[name]:
                (self.folder / name).unlink()
            elif checksum:
                log.warning(
                    "%s is of an earlier report and was changed since, so it stays", self.folder / name
                )
        write_json(self.folder / MANIFEST, dict(sorted(self.checksums.items())))

    def _checksum(self, name: str) -> str:
        """Return the SHA-256 of a file; empty if it cannot be read or is not there."""
        with suppress(FileNotFoundError, StorageError):
            return hashlib.sha256(contents(self.folder / name, ARCHIVE)).hexdigest()
        return ""


EMPTY_NOTE = '<p class="note">Nothing to draw yet.</p>'


@dataclass(frozen=True, repr=False)
class RenderedPart:
    """A figure, a table, a table under its figure, or what a page alone shows.

    Args:
        name: of the part.
        finding: what it shows in a few words, which its heading says; empty where nothing can be told.
        drawn_figure: the figure; over a table it has the warnings.
        printed_table: the words of a table, which a long one shows a page at a time.
        csv: numbers in full precision, of what is no figure.
        body: HTML that a page shows in place of figure and table, after the warnings `notes`.
        files: ending -> more files beside those of the figure.
    """

    name: str
    finding: str = ""
    drawn_figure: DrawnFigure | None = None
    printed_table: PrintedTable | None = None
    csv: str = ""
    body: str | None = None
    notes: tuple[str, ...] = ()
    files: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)

    @property
    def html(self) -> str:
        """Its place in a page."""
        return self.linked_html(None)

    def linked_html(self, link: Callable[[Sequence[str]], str] | None) -> str:
        """Return its place in a page, where the numbers of a table link to the address that `link` returns
        for their runs.
        """
        if self.body is not None:
            return (markup("warnings", self.notes)) + self.body
        return self.html_above + (html(self.table_below, link) if self.table_below else "")

    @property
    def html_above(self) -> str:
        """What stands in a page above a table; the whole of a figure."""
        if (drawn := self.drawn_figure) is None:
            return ""
        if drawn.is_empty:
            return (markup("warnings", drawn.notes)) + EMPTY_NOTE + drawn.html_below
        return figure_box(drawn.figure, drawn.alternative, drawn.notes, drawn.caption) + drawn.html_below

    @property
    def table_below(self) -> PrintedTable | None:
        """The words of a table as they stand under what is `above` it."""
        return (
            replace(self.printed_table, warnings=())
            if self.printed_table and self.drawn_figure
            else self.printed_table
        )

    @property
    def table(self) -> Self | None:
        """What a notebook shows of it; None of a figure."""
        return None if self.drawn_figure and not self.printed_table and self.body is None else self

    @property
    def figure(self) -> go.Figure | None:
        """Its figure, as Plotly's own; None where it has none."""
        return self.drawn_figure.figure if self.drawn_figure else None

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers in full precision."""
        return (
            pd.read_csv(io.StringIO(self.csv))
            if self.csv or not self.drawn_figure
            else self.drawn_figure.data
        )

    @property
    def markdown(self) -> str:
        return markdown(self.printed_table) if self.printed_table else ""

    @property
    def latex(self) -> str:
        return self.latex_for(ARTICLE)

    def latex_for(self, paper: Paper) -> str:
        """Write it as wide as its columns or its text, in parts where that is not enough."""
        return latex(self.printed_table, paper, self.finding) if self.printed_table else ""

    def without_notes(self, stated_notes: Collection[str]) -> Self:
        """Leave out warnings and facts of the study that are stated once for all parts."""

        def left(notes: Sequence[str]) -> tuple[str, ...]:
            return tuple(note for note in notes if note not in stated_notes)

        drawn, page = self.drawn_figure, self.printed_table
        if drawn:
            figure = drawn.figure
            drawn = replace(drawn, notes=left(drawn.notes))
            # the file and the place in the page share a figure, which takes long to draw
            vars(drawn)["figure"] = figure
        page = (
            replace(page, warnings=left(page.warnings), study_notes=left(page.study_notes)) if page else None
        )
        return replace(self, drawn_figure=drawn, printed_table=page, notes=left(self.notes))

    def write(self, out: ReportFiles, file: str, export: Sequence[str], paper: Paper) -> str:
        """Write its files into a report; return HTML that links to them."""
        words = {"md": self.markdown, "tex": self.latex_for(paper)} if self.printed_table else {}
        words |= {"csv": self.csv} if self.csv else {}
        for ending, text in words.items():
            out.write(f"tables/{file}.{ending}", text)
        linked = (markup("links", "tables", file, list(words))) if words else ""
        if self.drawn_figure is None:
            return linked
        if problem := write_figure(self.drawn_figure, out, file, export, paper):
            log.warning("%s: %s", self.name, problem)
        for ending, content in self.files.items():
            out.write(f"figures/{file}.{ending}", content())
        endings = (*self.files, "html", "csv", *(() if problem else export))
        return linked if self.drawn_figure.is_empty else linked + (markup("links", "figures", file, endings))

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.markdown or repr(self.frame)


FORMATS = ("pdf", "svg", "png")
# of a figure's pixels to Chrome's, of which there are 96 an inch: 0.6 points each, `theme.INCH` an inch
SCALE = 0.8
HIGHEST = 1.25  # times its width: a figure that a column would make higher goes across the text
DENSITY = 300  # pixels an inch of a PNG
# A PDF without the margins of 0.1 inches that Kaleido asks Chrome for, which then shrinks the figure by 5 %.
FLUSH = "<style>@page { margin: 0 } body { margin: 0 } img { display: block }</style>"
NO_BROWSER = (
    "figures were not exported as {formats}: no Chrome or Chromium answers ({reason}). Install one (on"
    " Debian: apt-get install chromium) or set BROWSER_PATH to it. The HTML and CSV files are there."
)


def write_figure(
    drawn: DrawnFigure, out: ReportFiles, name: str, formats: Sequence[str] = (), paper: Paper = ARTICLE
) -> str | None:
    """Write `figures/NAME.html`, `.csv` and `.FORMAT`, as wide as a column of the paper or its text; about 2
    seconds a format.

    Beside a PDF stands `NAME.tex`, the float with its caption.

    Returns:
        None, or the message that says why the formats are missing (no browser) and what to do about it.

    Raises:
        ConfigError: an unknown format.
    """
    check_export(formats)
    out.write(f"figures/{LIBRARY.name}", LIBRARY.read_bytes())
    page = titled(drawn.figure, drawn.label, drawn.notes)
    config = {"responsive": True, "displaylogo": False}
    out.write(f"figures/{name}.html", page.to_html(include_plotlyjs="directory", div_id=name, config=config))
    out.write(f"figures/{name}.csv", drawn.csv)
    if not formats or drawn.is_empty:
        return None
    figure, wide = printed(drawn, paper)
    try:
        images = {kind: _image(figure, kind, drawn.label) for kind in formats}
    except (RuntimeError, OSError) as error:  # no browser, one that dies at once, one that never answers
        reason = str(error.args[0] if error.args else type(error).__name__).strip().partition("\n")[0]
        return NO_BROWSER.format(formats=", ".join(formats), reason=reason.rstrip("."))
    for kind, image in images.items():
        out.write(f"figures/{name}.{kind}", image)
    # beside it the figure in LaTeX: what it shows in one sentence, and under it how to read it
    if "pdf" in images:
        text = render(
            "figure.tex.jinja",
            kind="figure*" if wide else "figure",
            name=name,
            caption=tex(sentence(drawn.label.partition(". ")[0], drawn.finding)),
            label=label(name),
            notes=note_lines([drawn.caption]),
        )
        out.write(f"figures/{name}.tex", text)
    return None


def check_export(formats: Sequence[str]) -> None:
    for kind in formats:
        if kind not in FORMATS:
            raise ConfigError(
                f"no figure format {kind!r}: there are {choices(FORMATS)}.{nearest(kind, FORMATS)}"
            )


def printed(drawn: DrawnFigure, paper: Paper) -> tuple[go.Figure, bool]:
    """Return the figure at its size on paper, and whether it goes across both columns."""
    figure = drawn.printed(paper.column)
    if paper.columns == 1 or figure.layout.height <= HIGHEST * figure.layout.width:
        return figure, False
    return drawn.printed(paper.text), True


def _image(figure: go.Figure, kind: str, title: str) -> bytes:
    """Render at the size that it has on paper; a PNG says how dense it is, a PDF what its title is."""
    from kaleido import PageGenerator, calc_fig_sync  # here, because it takes a while to load
    from PIL import Image

    page = PageGenerator(mathjax=False)  # which it would fetch from a network
    page.header = page.header.replace("Kaleido-fier", str(escape(title))) + FLUSH
    size = {
        "width": figure.layout.width,
        "height": figure.layout.height,
        "scale": SCALE * (DENSITY / 96 if kind == "png" else 1),
    }
    made = calc_fig_sync(figure.to_dict(), opts={"format": kind, **size}, kopts={"page_generator": page})
    if kind != "png":
        return bytes(made)
    file = io.BytesIO()
    Image.open(io.BytesIO(made)).save(file, format="PNG", dpi=(DENSITY, DENSITY))
    return file.getvalue()
