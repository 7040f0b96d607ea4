"""Figures as files: HTML and numbers always, and for a paper as PDF, SVG and PNG.

Their texts are measured in a real Chromium: of a legible size, whole, and none over another.
"""

import os
import re
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro
from made_up import (
    TABLE1,
    as_result,
    base,
    result,
    run_id,
    search_specs,
    specs,
    variants,
    write_study,
)
from PIL import Image
from plotly.offline import get_plotlyjs
from scenarios import LOAD, inside, searched, swept

from recstudy.analysis import (
    Alignment,
    AttentionMaps,
    Curve,
    Effort,
    ExpertLoad,
    ExpertPath,
    HeatMap,
    Interactions,
    LearningCurves,
    LossTrace,
    Mistakes,
    Pareto,
    Residuals,
)
from recstudy.analysis.frame import StudyRecords, load_study
from recstudy.analysis.kinds import drawn, shown
from recstudy.analysis.report import write_report
from recstudy.analysis.shown import printed, write_figure
from recstudy.analysis.written import ReportFiles
from recstudy.cli import _report
from recstudy.command import main
from recstudy.errors import ConfigError
from recstudy.options import StudyOptions
from recstudy.records import Results
from recstudy.report import PARTS as KINDS
from recstudy.report import FigurePart, Replications, dump_report
from recstudy.report.venues import VENUES, Paper

CHROMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, CHROMES)), None)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chrome or Chromium is installed")
SPEC = specs()[2]
MODELS = ("ViTRM", "ViT-Small", "ResNet-50 pretrained", "TRM, two levels")
TOKENS = 30
PAGES = ("acl", "neurips", "article")  # the narrowest columns, a text between, the widest


def test_html_and_csv_are_always_written(records, tmp_path):
    assert write_figure(drawn(records, SPEC), ReportFiles(tmp_path), "c") is None

    page = (tmp_path / "figures/c.html").read_text()
    assert 'src="plotly.min.js"' in page
    assert "cdn" not in page
    assert (tmp_path / "figures/plotly.min.js").stat().st_size > 1e6
    assert (tmp_path / "figures/c.csv").read_text().startswith("line,x,value,low,high,n")


def test_without_a_browser_the_message_says_what_to_install(records, tmp_path, monkeypatch):
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "no-browser"))
    older = ReportFiles(tmp_path)
    older.write("figures/c.png", "of an older report")
    older.finish()

    out = ReportFiles(tmp_path)
    problem = write_figure(drawn(records, SPEC), out, "c", ["png"])
    out.finish()

    assert "apt-get install chromium" in problem
    assert "BROWSER_PATH" in problem
    assert sorted(path.name for path in tmp_path.glob("figures/c.*")) == ["c.csv", "c.html"]


def test_an_unknown_format_or_width_is_refused(records, results, tmp_path, capsys):
    with pytest.raises(ConfigError, match=r"no figure format 'pgn': there are pdf, svg, png\. Did you mean 'png'\?"):
        write_figure(drawn(records, SPEC), ReportFiles(tmp_path), "c", ["pgn"])
    for flags, said in (
        (["--venue", "iclm"], "no venue 'iclm': there are article, neurips, icml, cvpr, acl, ieee. Did you mean 'icml'?"),
        (["--width", "3"], "a width is a number of in, cm, mm or pt from 2.5in to 20in, such as 3.25in, but got '3'"),
        (["--width", "30in"], "a width is a number of in, cm, mm or pt from 2.5in to 20in, such as 3.25in, but got '30in'"),
        (["--venue", "acl", "--width", "3in"], "a venue or one of its own, but got --venue acl and --width 3in"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["report", str(results.root), *flags])
        assert said in capsys.readouterr().err
    assert not (results.study("made_up", "paper") / "report").exists()


@pytest.mark.whole
@needs_browser
def test_pages_ask_for_nothing_elsewhere_and_no_button_sends_a_figure_away(results, records, browser):
    page = write_report(results, "made_up", "paper")
    tab, asked = browser.context.browser.new_page(), list[str]()
    tab.on("request", lambda request: asked.append(request.url))

    buttons = set()
    for file in (page, page.parent / "figures" / "by_batch.html"):
        tab.goto(file.as_uri())
        tab.hover(".js-plotly-plot")
        buttons |= set(tab.locator(".modebar-btn").evaluate_all("found => found.map(button => button.dataset.title)"))
    tab.close()

    assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
    assert "Zoom" in buttons
    assert [words for words in buttons if re.search("(?i)share|cloud|edit", words)] == []
    assert "sendChartToCloud" in shown(records, SPEC).figure.layout.template.layout.modebar.remove


@pytest.mark.whole
@needs_browser
def test_printed_figures_are_whole_and_light(results, browser):
    """On a wide screen, which prefers dark: on paper they are as wide as it is, and then as before."""
    page, tab = (
        write_report(results, "made_up", "paper"),
        browser.context.browser.new_page(viewport={"width": 1440, "height": 900}),
    )
    tab.emulate_media(color_scheme="dark")
    complaints = list[str]()
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.goto(page.as_uri())
    seen = """() => [...document.querySelectorAll('.figure')].map(one => one.querySelector('.main-svg')).filter(svg => svg)
        .map(svg => [svg.clientWidth, svg.querySelector('text').style.fill])"""

    tab.wait_for_selector(".main-svg")
    screen = tab.evaluate(seen)
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    paper = tab.evaluate(seen)
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    again = tab.evaluate(seen)
    tab.close()

    assert complaints == []
    assert paper == [[680, "rgb(28, 33, 38)"]] * len(screen)  # the one beside the question too
    assert screen == again
    assert max(width for width, _ in screen) > 1000


@pytest.mark.whole
@needs_browser
@pytest.mark.parametrize("inches", [3.5, 7.0])
def test_files_are_as_wide_as_a_column_and_their_letters_legible(records, tmp_path, inches):
    """In inches of 72 points; axes in 8.4 and the legend in 7.2 points, whatever the format."""
    assert write_figure(drawn(records, SPEC), ReportFiles(tmp_path), "c", ["pdf", "svg", "png"], Paper(inches, inches)) is None

    svg = (tmp_path / "figures/c.svg").read_text()
    width, box = (float(re.search(pattern, svg)[1]) for pattern in (r'width="([\d.]+)"', r'viewBox="0 0 ([\d.]+)'))
    assert width / 96 == inches  # a pixel of an SVG is 1/96 inch
    assert {round(float(size) * width / box * 0.75, 2) for size in re.findall(r"font-size: ?([\d.]+)px", svg)} == {7.2, 8.4}
    pdf = (tmp_path / "figures/c.pdf").read_bytes()
    assert b"Kaleido" not in pdf
    assert SPEC.heading.encode() in pdf.replace(b"\\", b"")
    assert float(re.search(rb"/MediaBox \[0 0 ([\d.]+)", pdf)[1]) == 72 * inches
    assert {round(size, 1) for size in pdf_letters(pdf)} == {7.2, 8.4}
    with Image.open(tmp_path / "figures/c.png") as png:
        assert png.width == 300 * inches
        assert png.info["dpi"] == pytest.approx((300, 300), abs=0.1)


def pdf_letters(pdf: bytes) -> Iterator[float]:
    """The size in points of each letter's font, from the matrices that Chrome writes: the page's, then one of its own."""
    for found in re.finditer(rb"stream\r?\n(.*?)\r?\nendstream", pdf, re.DOTALL):
        try:
            drawing = zlib.decompress(found[1]).decode("latin-1")
        except zlib.error:
            continue
        steps = re.findall(r"^([\d.]+) 0 0 \S+ \S+ \S+ cm$|^/F\d+ ([\d.]+) Tf$", drawing, re.MULTILINE)
        page = own = float(steps[0][0]) if steps and steps[0][0] else 1.0
        for scale, size in steps[1:]:
            own = page * float(scale) if scale else own
            if size:
                yield own * float(size)


@pytest.mark.whole
@needs_browser
def test_commands_pass_the_width_on_and_pages_are_the_same_for_both(tmp_path):
    results = write_study(tmp_path / "r", report=dump_report([SPEC]))
    folder = results.study("made_up", "paper") / "report"

    def of_study(*flags: str) -> None:
        assert _report(results, "made_up", "paper", tyro.cli(StudyOptions, args=["--export", "pdf", "svg", *flags]))

    def of_command(*flags: str) -> None:
        with pytest.raises(SystemExit, match="0"):
            main(["report", str(results.root), "--export", "pdf", "svg", *flags])

    seen = []
    for draws, flags in ((of_study, "acl"), (of_study, ""), (of_command, "acl"), (of_command, "")):
        draws(*(["--venue", flags] if flags else []))
        width = re.search(r'width="(\d+)"', (folder / "figures" / "by_batch.svg").read_text())[1]
        seen.append((width, others(folder)))

    assert [width for width, _ in seen] == ["288", "624", "288", "624"]  # 7.7 cm, 6.5 in: whole pixels of 96 an inch
    assert all(files == seen[0][1] for _, files in seen)


@pytest.mark.whole
@needs_browser
def test_each_figure_that_is_exported_is_announced(tmp_path, capsys):
    """It takes seconds; what is drawn for the page alone does not."""
    results = write_study(tmp_path / "r", report=dump_report([SPEC, replace(SPEC, name="again")]))
    said = {}
    for flags in (["--export", "svg"], []):
        with pytest.raises(SystemExit, match="0"):
            main(["report", str(results.root), *flags])
        said[len(flags)] = [line for line in capsys.readouterr().out.splitlines() if "Exporting" in line]

    assert said == {2: ["Exporting figure 1 of 2 as svg: by_batch", "Exporting figure 2 of 2 as svg: again"], 0: []}


def others(folder: Path) -> dict[str, bytes]:
    """What a report has besides what is for paper, and the list of it all."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix not in {".svg", ".pdf", ".tex"})
    return {path.name: path.read_bytes() for path in files if path.name != "files.json"}


@pytest.mark.whole
@needs_browser
def test_a_figure_for_paper_has_its_float_with_a_caption_of_one_sentence(records, tmp_path):
    write_figure(replace(drawn(records, SPEC), finding="a, b: c"), ReportFiles(tmp_path), "c", ["pdf"], VENUES["icml"])

    lines = (tmp_path / "figures/c.tex").read_text().splitlines()
    assert lines[:3] == [r"\begin{figure}", r"\centering", r"\includegraphics{c.pdf}"]
    assert lines[3] == rf"\caption{{{SPEC.heading} (a, b: c).}}"
    assert lines[4] == r"\label{fig:c}"


def test_a_figure_that_a_column_would_make_high_goes_across_the_text(made):
    low, high = (drawn(made[swept], spec) for spec in (Pareto(x="gflops", y="top1_accuracy"), LearningCurves()))

    assert [printed(one, VENUES["icml"])[1] for one in (low, high)] == [False, True]
    assert printed(high, VENUES["icml"])[0].layout.width == 6.75 * 120
    assert printed(high, VENUES["neurips"])[1] is False


LOADED = LOAD | {"load": [[6, 2, 1, 1, 3, 4, 2, 9], [2, 2, 3, 1, 8, 8, 8, 8]]}
seen = partial(inside, load=LOADED, tokens=TOKENS, words=np.array([["cardiomegaly", "of"] * (TOKENS // 2) + ["[end]"]] * 2))


def solved(root: Path) -> Results:
    """Puzzles, with all that more thinking at test gives."""
    more = {f"{way}_exact_accuracy.{count}": 50.0 + count for way in ("noisy", "voted") for count in (1, 2, 4)}
    halted = {"halted_exact_accuracy": 20.0, "halted_steps": 1.5, "exact_accuracy": 40.0}
    depths = {
        "exact_accuracy": {str(at): 30.0 + at for at in range(1, 5)},
        "residual": {str(at): 0.1**at for at in range(1, 5)},
    }
    at_test = {"trajectories": 4, "copies": 4, "segments": 4}
    results = write_study(root, base=base(evaluation_steps=2, evaluation_depths=4, at_test=at_test), report=[])
    for at in range(len(variants())):
        found = {"metrics": more | halted, "cost": {"gflops": 0.5}, "depths": depths}
        results.run(run_id(at, 0)).finish(as_result(result(None) | found))
    return results


OF_SWEEP = [
    Curve("lines", x="batch_size", y="top1_accuracy", by="model", targets=TABLE1),
    Curve("categories", x="model", y="top1_accuracy", by="batch_size"),
    Curve("drops", x="batch_size", y="top1_accuracy", by="model", drop=True),
    HeatMap("wide", x="batch_size", y="model"),
    HeatMap("high", x="model", y="batch_size"),
    Interactions(),
    LearningCurves(),
    LossTrace(),
    Mistakes(),
    Alignment(),
    Pareto(x="gflops", y="top1_accuracy"),
    Replications(cell="trm_mlp_sudoku_extreme"),
]
PARTS = [
    *((swept, spec) for spec in OF_SWEEP),
    *((searched, spec) for spec in search_specs()[1:]),
    *((seen, spec) for spec in (ExpertLoad(), ExpertPath(), AttentionMaps())),
    *((solved, spec) for spec in (Residuals(), Effort())),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[Any, StudyRecords]:
    makers = (swept, searched, seen, solved)
    return {make: load_study(make(tmp_path_factory.mktemp("r")), "made_up", "paper") for make in makers}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A page that has Plotly."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install -e '.[dev]')")
    with playwright.sync_playwright() as started:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        page = started.chromium.launch(executable_path=BROWSER, args=sandbox).new_page()
        page.set_content("<style>body { margin: 0 }</style>")
        page.add_script_tag(content=get_plotlyjs())
        yield page
        page.context.browser.close()


TEXTS = """async text => {
  const figure = JSON.parse(text), box = document.createElement("div");
  document.body.replaceChildren(box);
  await Plotly.newPlot(box, figure.data, figure.layout, {staticPlot: true});
  const seen = element => element.textContent.trim() && element.getBoundingClientRect().width;
  const size = element => parseFloat(getComputedStyle([...element.querySelectorAll("tspan")].pop() ?? element).fontSize);
  return [...box.querySelectorAll("text")].filter(seen).map(element => {
    const {left, top, right, bottom} = element.getBoundingClientRect();
    return {words: element.textContent, size: size(element), left, top, right, bottom};
  });
}"""


def test_every_kind_of_figure_is_looked_at():
    assert {type(spec) for _, spec in PARTS} == {kind for kind in KINDS.values() if issubclass(kind, FigurePart)}


@needs_browser
@pytest.mark.parametrize("venue", PAGES)
@pytest.mark.parametrize(("make", "spec"), PARTS, ids=[spec.name for _, spec in PARTS])
def test_texts_are_legible_whole_and_apart(made, browser, make, spec, venue):
    whole = drawn(made[make], spec)
    figure, _ = printed(whole, VENUES[venue])

    texts = browser.evaluate(TEXTS, figure.to_json())

    assert not whole.data.empty
    assert {text["words"] for text in texts if not 6 <= 0.6 * text["size"] <= 8.4} == set()
    assert [text["words"] for text in texts if outside(text, figure.layout.width, figure.layout.height)] == []
    assert [(one["words"], other["words"]) for one, other in combinations(texts, 2) if overlap(one, other) > 0.2] == []


def outside(text: dict[str, Any], width: float, height: float) -> bool:
    return text["left"] < -1 or text["top"] < -1 or text["right"] > width + 1 or text["bottom"] > height + 1


def overlap(one: dict[str, Any], other: dict[str, Any]) -> float:
    """Of the smaller one, how much the other covers: lines of letters may touch each other's empty space."""
    wide, high = (
        min(one[end], other[end]) - max(one[start], other[start]) for start, end in (("left", "right"), ("top", "bottom"))
    )
    least = min((text["right"] - text["left"]) * (text["bottom"] - text["top"]) for text in (one, other))
    return max(0.0, wide) * max(0.0, high) / least
