"""A LaTeX document of all of a study's tables and figures, on a page as wide as a venue's, without the venue's style files."""

from collections.abc import Sequence
from pathlib import Path

from recstudy.analysis.findings import findings
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.shown import no_figure
from recstudy.analysis.tables.entries import named
from recstudy.analysis.tables.latex import PACKAGES, breakable, sentence
from recstudy.papers import by_name
from recstudy.report.venues import Paper

HOW = """% Compile it here: pdflatex paper.tex, or tectonic paper.tex.
% A paper of your own may \\input each part as well, with the packages below and \\graphicspath{{figures/}}."""


def document(records: StudyRecords, folder: Path, files: Sequence[str], paper: Paper) -> str:
    """Question and findings, then what `folder` has in LaTeX of these parts: tables, and figures that were exported as PDF."""
    plan = records.plan
    parts = [part for file in files for part in (f"tables/{file}.tex", f"figures/{file}.tex") if (folder / part).exists()]
    found = [rf"\item \textbf{{{breakable(one.word)}:}} {breakable(sentence(one.said))}" for one in findings(records)]
    return "\n".join(
        [
            HOW,
            *preamble(paper),
            r"\begin{document}",
            r"\suppressfloats[t]",
            rf"\section*{{\raggedright {breakable(f'{plan.study} ({plan.folder})')}}}",
            breakable(by_name(plan.question)),
            *([r"\begin{itemize}", *found, r"\end{itemize}"] if found else []),
            *(rf"\input{{{part}}}" for part in parts),
            r"\end{document}",
        ]
    ) + "\n"  # fmt: skip


def unknown_columns(records: StudyRecords, without: Sequence[str]) -> list[str]:
    """Those that no table has, such as a misspelt one."""
    pages = [one.printed for part in records.parts if (one := no_figure(records, part)) and one.printed]
    return [one for one in without if not any(named(head, [one]) for page in pages for head in page.heads[1:])]


def preamble(paper: Paper) -> list[str]:
    """A page of this size, and the packages that tables and figures need."""
    return [
        rf"\documentclass[{paper.letters}pt{',twocolumn' if paper.columns == 2 else ''}]{{article}}",
        rf"\usepackage[{_geometry(paper)}]{{geometry}}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage{lmodern}",
        rf"\usepackage{{{PACKAGES}}}",
        r"\graphicspath{{figures/}}",
        r"\sloppy",
        r"\renewcommand{\topfraction}{0.9}\renewcommand{\textfraction}{0.05}\renewcommand{\floatpagefraction}{0.7}",
        r"\renewcommand{\dbltopfraction}{0.9}\renewcommand{\dblfloatpagefraction}{0.7}",
    ]


def _geometry(paper: Paper) -> str:
    """A page with margins of an inch around a text that is wider than paper is."""
    room = {"letter": 8.5, "a4": 21 / 2.54}[paper.paper]
    page = (
        f"{paper.paper}paper"
        if paper.text <= room - 1
        else f"paperwidth={paper.text + 2:.3f}in,paperheight={paper.height + 2:g}in"
    )
    sizes = f"textwidth={paper.text:.4f}in,textheight={paper.height:.4f}in"
    return ",".join([page, sizes, f"columnsep={paper.text - 2 * paper.column:.4f}in"] if paper.columns == 2 else [page, sizes])
