"""A LaTeX run over a table, with siunitx where it is installed, and with a plain column in its place."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

PDFLATEX = shutil.which("pdflatex")
FOUND = PDFLATEX and subprocess.run(["kpsewhich", "siunitx.sty"], capture_output=True, check=False).returncode == 0
needs_latex = pytest.mark.skipif(PDFLATEX is None, reason="pdflatex is not installed")
packages = pytest.mark.parametrize(
    "siunitx",
    [False, pytest.param(True, marks=pytest.mark.skipif(not FOUND, reason="siunitx is not installed (Debian: texlive-science)"))],
)


def compiled(text: str, folder: Path, siunitx: bool) -> Path:
    """The PDF of a document with this table; fails with the words of LaTeX."""
    if not siunitx:
        text = re.sub(r"S\[[^]]*\]", "r", re.sub(r"^\\sisetup.*\n", "", text, flags=re.MULTILINE))
    head = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs,graphicx" + (",siunitx}" if siunitx else "}")
    (folder / "t.tex").write_text(head + "\n\\begin{document}\n" + text + "\\end{document}\n")
    done = subprocess.run(["pdflatex", "-halt-on-error", "t.tex"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return folder / "t.pdf"
