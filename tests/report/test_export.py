"""Figures as files: HTML and numbers always, and for a paper as PDF, SVG and PNG."""

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import read, specs
from PIL import Image
from scenarios import swept

from recstudy.base.errors import ConfigError
from recstudy.cli.options import ForPaper
from recstudy.report import (
    Means,
    Pareto,
)
from recstudy.report.kinds import draw_figure
from recstudy.report.shown import ReportFiles, printed, write_figure
from recstudy.report.venues import VENUES, Paper, paper_of

CHROMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, CHROMES)), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chrome or Chromium is installed")
SPEC = specs()[2]


def test_html_and_csv_are_always_written(records, tmp_path):
    assert write_figure(draw_figure(records, SPEC), ReportFiles(tmp_path), "c") is None

    page = (tmp_path / "figures/c.html").read_text()
    assert 'src="plotly.min.js"' in page
    assert "cdn" not in page
    assert (tmp_path / "figures/plotly.min.js").stat().st_size > 1e6
    assert (tmp_path / "figures/c.csv").read_text().startswith("line,x,value,low,high,n")
    assert "sendChartToCloud" in draw_figure(records, SPEC).figure.layout.template.layout.modebar.remove


def test_without_a_browser_the_message_says_what_to_install(records, tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "no-browser"))
    older = ReportFiles(tmp_path)
    older.write("figures/c.png", "of an older report")
    older.finish()

    report_files = ReportFiles(tmp_path, ["png"])
    problem = write_figure(draw_figure(records, SPEC), report_files, "c")
    report_files.finish()

    assert "apt-get install chromium" in problem
    assert "BROWSER_PATH" in problem
    assert sorted(path.name for path in tmp_path.glob("figures/c.*")) == ["c.csv", "c.html"]


def test_an_unknown_format_or_width_is_refused(records, results, tmp_path, typed):
    with pytest.raises(
        ConfigError, match=r"unknown figure format 'pgn': there are pdf, svg, png\. Did you mean 'png'\?"
    ):
        ReportFiles(tmp_path, ["pgn"])
    for flags, message in (
        (
            ["--venue", "iclm"],
            "unknown venue 'iclm': there are article, neurips, icml, cvpr, acl, ieee. Did you mean 'icml'?",
        ),
        (
            ["--width", "3"],
            "--width must be from 2.5in to 20in, in in, cm, mm or pt, such as 3.25in, but got '3'",
        ),
        (
            ["--width", "30in"],
            "--width must be from 2.5in to 20in, in in, cm, mm or pt, such as 3.25in, but got '30in'",
        ),
        (
            ["--venue", "acl", "--width", "3in"],
            "--venue and --width exclude each other, but got --venue acl and --width 3in",
        ),
    ):
        assert message in typed("report", results.root, *flags, code=2)
    assert not (results.study("made_up", "paper") / "report").exists()


@pytest.mark.parametrize(
    ("options", "formats"),
    [
        ({"export": ("md",)}, ["png"]),
        ({"export": ("md", "svg")}, ["svg"]),
        ({"export": ("pdf", "md"), "venue": "icml"}, ["pdf", "png"]),
        ({"width": "3in"}, ["pdf"]),
        ({}, []),
    ],
)
def test_markdown_needs_pictures_and_a_venue_pdf(options, formats):
    assert ForPaper(**options).formats == formats


@pytest.mark.whole
@needs_browser
def test_markdown_shows_verdicts_tables_and_exported_figures_by_relative_links(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    rows = [f"{depth},{seed},{70 + depth + seed / 10}" for depth in (1, 2, 4) for seed in range(3)]
    (tmp_path / "runs.csv").write_text("\n".join(["depth,seed,accuracy", *rows]))
    output = typed("judge", "runs.csv", "--export", "md")
    report = Path("results/studies/runs/imported/report")
    text = (report / "report.md").read_text()

    assert f"Markdown with figures: {report / 'report.md'}" in output
    links = re.findall(r"^!\[.+\]\((.+)\)$", text, re.MULTILINE)
    assert links
    assert sorted(report / link for link in links) == sorted(report.glob("figures/*.png"))
    assert text.count("\n### ") == len({*re.findall(r"\n### .*", text)})  # no heading twice
    assert re.search(r"^\| (depth|variant|4) \|", text, re.MULTILINE)


@pytest.mark.whole
@needs_browser
@pytest.mark.parametrize("inches", [3.5, 7.0])
def test_files_are_as_wide_as_a_column(records, tmp_path, inches):
    report_files = ReportFiles(tmp_path, ["pdf", "svg", "png"], Paper(inches, inches))

    assert write_figure(draw_figure(records, SPEC), report_files, "c") is None

    svg = (tmp_path / "figures/c.svg").read_text()
    assert float(re.search(r'width="([\d.]+)"', svg)[1]) / 96 == inches  # a pixel of an SVG is 1/96 inch
    pdf = (tmp_path / "figures/c.pdf").read_bytes()
    assert b"Kaleido" not in pdf
    assert SPEC.heading.encode() in pdf.replace(b"\\", b"")
    assert float(re.search(rb"/MediaBox \[0 0 ([\d.]+)", pdf)[1]) == 72 * inches
    with Image.open(tmp_path / "figures/c.png") as png:
        assert png.width == 300 * inches
        assert png.info["dpi"] == pytest.approx((300, 300), abs=0.1)


def test_a_figure_that_a_column_would_make_high_goes_across_the_text(tmp_path):
    records = read(swept(tmp_path / "r"))
    low, high = (draw_figure(records, spec) for spec in (Pareto(x="gflops", y="top1_accuracy"), Means()))

    assert [printed(figure, VENUES["icml"])[1] for figure in (low, high)] == [False, True]
    assert printed(high, VENUES["icml"])[0].layout.width == 6.75 * 120
    assert printed(high, VENUES["neurips"])[1] is False


def test_a_printed_figure_has_the_font_and_no_stamp(records):
    figure = draw_figure(records, SPEC)

    sans, serif = (printed(figure, paper_of("neurips", font=font))[0] for font in ("sans", "serif"))

    assert figure.notes
    assert serif.layout.title.text is None
    assert "Arial" in sans.layout.template.layout.font.family
    assert "Times" in serif.layout.template.layout.font.family


@needs_browser
def test_the_float_of_a_figure_has_its_own_warnings_and_the_whole_title(records, tmp_path):
    figure = replace(draw_figure(records, SPEC), title="HRM vs. CNN", notes=("synthetic data", "2 points"))

    report_files = ReportFiles(tmp_path, ["pdf"], stated_notes=["synthetic data"])

    assert write_figure(figure, report_files, "c") is None

    text = (tmp_path / "figures/c.tex").read_text()
    assert r"\caption{HRM vs. CNN" in text
    assert r"\textbf{2 points.}" in text
    assert "ynthetic" not in text
