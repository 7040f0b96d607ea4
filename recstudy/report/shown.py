"""Rendered parts of a report, and the files that they write.

A figure is written as CSV and as an HTML page that needs no network, on request also as PDF, SVG or PNG. A
table is written as Markdown, LaTeX and CSV. `writing.py` calls `RenderedPart.write` for each part and adds
the page. Pages, the terminal and notebooks show rendered parts.
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

from markupsafe import Markup, escape

from recstudy.base.errors import ConfigError, StorageError, choices, nearest
from recstudy.base.lazy import go, pd
from recstudy.base.opened import ARCHIVE, contents, refuse_link
from recstudy.records import read_json, write_json, write_whole
from recstudy.report.look import escape_text, on_paper, on_screen, titled
from recstudy.report.names import plural
from recstudy.report.page import LIBRARY, figure_box, markup, render
from recstudy.report.table import TableData
from recstudy.report.venues import ARTICLE, Paper
from recstudy.report.writers import html, label, latex, markdown, note_lines, sentence, tex

MANIFEST = "files.json"
FORMATS = ("pdf", "svg", "png")
# A manifest may come from elsewhere, so it may only name files of these two folders.
REPORT_FILES = re.compile(r"(tables|figures)/[^/\0]+")
log = logging.getLogger(__name__)


class ReportFiles:
    """The files of one report while it is written.

    `files.json` in the folder is the manifest: the files that reports wrote, with their SHA-256. `write`
    replaces a changed file. `finish` removes outdated files of earlier reports unless they were changed.
    Nothing is written or removed through a link.

    Args:
        folder: The report's folder.
        formats: Further formats of each figure, of `FORMATS`. Each takes about 2 seconds.
        paper: The page, which sets the widths of LaTeX tables and exported figures.
        stated_notes: Notes that `paper.tex` states once for all figures.

    Raises:
        ConfigError: A format is unknown.
        StorageError: The folder, or one in it, is a link, or its manifest is damaged.
    """

    def __init__(
        self,
        folder: Path,
        formats: Sequence[str] = (),
        paper: Paper = ARTICLE,
        stated_notes: Collection[str] = (),
    ) -> None:
        for kind in formats:
            if kind not in FORMATS:
                raise ConfigError(
                    f"unknown figure format {kind!r}: there are {choices(FORMATS)}.{nearest(kind, FORMATS)}"
                )
        self.folder, self.formats, self.paper, self.stated_notes = folder, formats, paper, stated_notes
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
        """Remove outdated files of earlier reports and write the manifest."""
        outdated_names = self.earlier_checksums.keys() - self.checksums.keys()
        exports = sorted(name for name in outdated_names if name.endswith((".pdf", ".svg", ".png")))
        if exports:
            words = "%s of an earlier report will be removed, such as %s. --export writes them again"
            log.warning(words, plural(len(exports), "exported figure"), exports[0])
        for name in outdated_names:
            checksum, path = self._checksum(name), self.folder / name
            if checksum == self.earlier_checksums[name]:
                path.unlink()
            elif checksum:
                log.warning("%s is from an earlier report. It was changed since and is not removed", path)
        write_json(self.folder / MANIFEST, dict(sorted(self.checksums.items())))

    def _checksum(self, name: str) -> str:
        """Return the SHA-256 of a file; empty if the file is missing or unreadable."""
        with suppress(FileNotFoundError, StorageError):
            return hashlib.sha256(contents(self.folder / name, ARCHIVE)).hexdigest()
        return ""


EMPTY_NOTE = Markup('<p class="note">Nothing to draw yet.</p>')


@dataclass(frozen=True, repr=False)
class RenderedPart:
    """A rendered figure, a table, a table below its figure, or HTML that only a page shows.

    Args:
        name: The name of the part.
        finding: The main result in a few words; empty if there is none.
        interim: The finished runs in words while runs are left, which mark the finding.
        data: The data of the figure, a row per point; None if there is no figure. Columns whose names begin
            with an underscore are for drawing only.
        draw: Draws the figure of these data.
        title: The title of the figure.
        caption: How to read the figure.
        description: The figure in words, for readers who cannot see it.
        html_below: HTML that a page shows below the figure.
        table: The table.
        csv: The numbers of a table in full precision.
        body: HTML that a page shows in place of figure and table.
        notes: Warnings about the numbers of the figure or body. A table above which there is a figure has the
            same warnings, which a page states once.
        files: File ending -> the content of a further file of the figure.
    """

    name: str
    finding: str = ""
    interim: str = ""
    data: pd.DataFrame | None = None
    draw: Callable[[pd.DataFrame], go.Figure] | None = None
    title: str = ""
    caption: str = ""
    description: str = ""
    html_below: str = ""
    table: TableData | None = None
    csv: str = ""
    body: str | None = None
    notes: Sequence[str] = ()
    files: Mapping[str, Callable[[], bytes]] = field(default_factory=dict)

    @property
    def marked_finding(self) -> str:
        """The finding for a heading, marked while runs are left."""
        return f"{self.finding} ({self.interim})" if self.finding and self.interim else self.finding

    @property
    def is_empty(self) -> bool:
        """Whether no point of the figure has a value yet."""
        if self.data is None or self.data.empty:
            return True
        # A trial that was stopped early has a value in `reached` only.
        values = self.data.filter(["value", "reached"])
        return bool(values.size and values.isna().to_numpy().all())

    @property
    def is_figure(self) -> bool:
        """Whether a notebook shows the part as a figure, and not as a table or a text."""
        return self.data is not None and self.table is None and self.body is None

    @cached_property
    def figure(self) -> go.Figure | None:
        """The Plotly figure; None if the part has none."""
        if self.data is None or self.draw is None:
            return None
        return on_screen(go.Figure() if self.is_empty else self.draw(escape_text(self.data)))

    @property
    def html(self) -> str:
        """The part as HTML for a page."""
        return str(self.linked_html())

    def linked_html(
        self, link: Callable[[Sequence[str]], str] | None = None, stated_notes: Collection[str] = ()
    ) -> Markup:
        """Return the part as HTML for a page.

        Args:
            link: Returns the address of the page of some runs, to which the numbers of a table link.
            stated_notes: Notes that the page states once for all parts.
        """
        warnings = markup("warnings", [note for note in self.notes if note not in stated_notes])
        if self.body is not None:
            return warnings + Markup(self.body)
        content = Markup()
        if self.data is not None:
            words = f"{self.title}: {self.finding}" if self.finding else self.title
            words += f". {self.description}" if self.description else ""
            figure = EMPTY_NOTE if self.is_empty else figure_box(self.figure, words, self.caption)
            content = warnings + figure + Markup(self.html_below)
        return content + (
            html(self.table_below.without_notes(stated_notes), link) if self.table_below else ""
        )

    @property
    def table_below(self) -> TableData | None:
        """The table without the warnings that the figure above it already has."""
        return replace(self.table, warnings=()) if self.table and self.data is not None else self.table

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers in full precision, as a data frame."""
        if self.data is not None and self.is_figure:
            return self.data
        return pd.read_csv(io.StringIO(self.csv))

    @property
    def figure_csv(self) -> str:
        """The data of the figure in full precision, without the columns for drawing."""
        if self.data is None:
            return ""
        return self.data[[name for name in self.data if not str(name).startswith("_")]].to_csv(index=False)

    @property
    def markdown(self) -> str:
        return markdown(self.table) if self.table else ""

    @property
    def latex(self) -> str:
        return self.latex_for(ARTICLE)

    def latex_for(self, paper: Paper) -> str:
        """Return the LaTeX of the table. If the page is too narrow, the table is split into parts."""
        return latex(self.table, paper, self.marked_finding or self.interim) if self.table else ""

    def write(self, report_files: ReportFiles, file: str) -> str:
        """Write the files of the part under this name, and return HTML that links to them."""
        words = {"md": self.markdown, "tex": self.latex_for(report_files.paper)} if self.table else {}
        words |= {"csv": self.csv} if self.csv else {}
        for ending, text in words.items():
            report_files.write(f"tables/{file}.{ending}", text)
        linked = markup("links", "table", "tables", file, list(words)) if words else ""
        if self.data is None:
            return linked
        if problem := write_figure(self, report_files, file):
            log.warning("%s: %s", self.name, problem)
        for ending, content in self.files.items():
            report_files.write(f"figures/{file}.{ending}", content())
        endings = (*self.files, "html", "csv", *(() if problem else report_files.formats))
        return linked if self.is_empty else linked + markup("links", "figure", "figures", file, endings)

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.markdown or repr(self.frame)


# Chrome has 96 pixels per inch, and a figure has 120 (0.6 points per pixel).
SCALE = 0.8
# A figure that is higher than this multiple of its width in one column is set across both columns.
MAX_ASPECT_RATIO = 1.25
DENSITY = 300  # pixels per inch of a PNG
# Kaleido asks Chrome for PDF margins of 0.1 inches, which would shrink the figure by 5 %.
FLUSH = "<style>@page { margin: 0 } body { margin: 0 } img { display: block }</style>"
NO_BROWSER = (
    "figures were not exported as {formats}: no Chrome or Chromium answers ({reason}). Install one (on"
    " Debian: apt-get install chromium) or set BROWSER_PATH to its path. The HTML and CSV files were written."
)


def write_figure(rendered: RenderedPart, report_files: ReportFiles, name: str) -> str | None:
    """Write `figures/NAME.html`, `.csv` and the formats of the report.

    With a PDF, `NAME.tex` is written too: the float with its caption.

    Args:
        rendered: The figure.
        report_files: The files of the report.
        name: The name of the files.

    Returns:
        None, or a message if the formats cannot be exported because there is no browser.
    """
    formats = report_files.formats
    report_files.write(f"figures/{LIBRARY.name}", LIBRARY.read_bytes())
    page = titled(rendered.figure, rendered.title, rendered.notes)
    config = {"responsive": True, "displaylogo": False}
    report_files.write(
        f"figures/{name}.html", page.to_html(include_plotlyjs="directory", div_id=name, config=config)
    )
    report_files.write(f"figures/{name}.csv", rendered.figure_csv)
    if not formats or rendered.is_empty:
        return None
    figure, wide = printed(rendered, report_files.paper)
    try:
        images = {kind: _image(figure, kind, rendered.title) for kind in formats}
    # There is no browser, or it dies at once, or it never answers.
    except (RuntimeError, OSError) as error:
        reason = str(error.args[0] if error.args else type(error).__name__).strip().partition("\n")[0]
        return NO_BROWSER.format(formats=", ".join(formats), reason=reason.rstrip("."))
    for kind, image in images.items():
        report_files.write(f"figures/{name}.{kind}", image)
    # In LaTeX, the caption is the finding in one sentence, and the notes below say how to read the figure.
    if "pdf" in images:
        text = render(
            "figure.tex.jinja",
            kind="figure*" if wide else "figure",
            name=name,
            caption=tex(sentence(rendered.title, rendered.finding)),
            label=label(name),
            notes=note_lines(
                [rendered.caption],
                [note for note in rendered.notes if note not in report_files.stated_notes],
            ),
        )
        report_files.write(f"figures/{name}.tex", text)
    return None


def printed(rendered: RenderedPart, paper: Paper) -> tuple[go.Figure, bool]:
    """Return the figure at its size on paper, and whether it is set across both columns."""

    figure = on_paper(rendered.figure, paper.column, paper.font)
    if paper.columns == 1 or figure.layout.height <= MAX_ASPECT_RATIO * figure.layout.width:
        return figure, False
    return on_paper(rendered.figure, paper.text, paper.font), True


def _image(figure: go.Figure, kind: str, title: str) -> bytes:
    """Return a figure as an image file of its size on paper. A PNG states its density, a PDF its title."""
    from kaleido import PageGenerator, calc_fig_sync  # slow to import
    from PIL import Image

    page = PageGenerator(mathjax=False)  # Kaleido would fetch MathJax from the network
    page.header = page.header.replace("Kaleido-fier", str(escape(title))) + FLUSH
    size = {
        "width": figure.layout.width,
        "height": figure.layout.height,
        "scale": SCALE * (DENSITY / 96 if kind == "png" else 1),
    }
    image = calc_fig_sync(figure.to_dict(), opts={"format": kind, **size}, kopts={"page_generator": page})
    if kind != "png":
        return bytes(image)
    file = io.BytesIO()
    Image.open(io.BytesIO(image)).save(file, format="PNG", dpi=(DENSITY, DENSITY))
    return file.getvalue()
