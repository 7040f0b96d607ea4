"""A LaTeX run over tables, and what is in the PDF."""

import re
import shutil
import subprocess
from math import hypot
from pathlib import Path

import pytest
from pypdf import PdfReader

from recstudy.report.page import render
from recstudy.report.venues import ARTICLE, Paper
from recstudy.report.writers import PACKAGES

PDFLATEX = shutil.which("pdflatex")
HAS_LATEX = (
    PDFLATEX
    and subprocess.run(["kpsewhich", "siunitx.sty"], capture_output=True, check=False).returncode == 0
)
needs_siunitx = pytest.mark.skipif(
    not HAS_LATEX, reason="pdflatex with siunitx is not installed (Debian: texlive-science)"
)


def compiled(text: str, folder: Path, paper: Paper = ARTICLE) -> Path:
    """The PDF of a document with these floats; fails with the words of LaTeX, and where a line is wider than
    its place.
    """
    words = {"title": "", "question": "", "warnings": (), "findings": (), "inputs": (), "tex": str}
    document = render("paper.tex.jinja", paper=paper, packages=PACKAGES, **words)
    head, _, _ = document.partition("\n\\begin{document}")
    (folder / "t.tex").write_text(f"{head}\n\\begin{{document}}\n{text}\\end{{document}}\n")
    return run(folder / "t.tex")


def run(document: Path) -> Path:
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", document.name]
    done = subprocess.run(command, cwd=document.parent, capture_output=True, check=False)
    log = document.with_suffix(".log").read_text(errors="replace")
    assert done.returncode == 0, done.stdout.decode(errors="replace")
    assert re.findall(r"Overfull \\hbox.*|.*Float too large.*", log) == []
    return document.with_suffix(".pdf")


def letters(pdf: Path) -> dict[float, str]:
    """Each size of letters in points, as scaled on the page, with the words that are set in it."""
    sizes: dict[float, str] = {}

    def collect(text, page, line, _font, size):
        if text.strip():
            points = round(size * hypot(*line[2:4]) * hypot(*page[2:4]) * 72.27 / 72, 1)
            sizes[points] = sizes.get(points, "") + text

    for page in PdfReader(pdf).pages:
        page.extract_text(visitor_text=collect)
    return sizes
