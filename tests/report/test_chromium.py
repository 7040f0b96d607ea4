"""The report's page in a real Chromium: it fits a phone, a screen and paper."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from golden_pages import page_of
from made_up import specs, write_report, write_study

from recstudy.report import dump_report

pytestmark = pytest.mark.whole

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no Chromium here (Debian: apt-get install chromium)", allow_module_level=True)
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed (pip install -e '.[dev]')"
)
PAPER = 680  # pixels of paper between its margins, as page.css has them
WIDEST = "() => Math.max(...[...document.querySelectorAll('.figure .main-svg')].map(svg => svg.getBoundingClientRect().width))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_figures_fit_the_window_and_the_paper(browser, tmp_path, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(
        write_report(write_study(tmp_path / "r", report=dump_report(specs())), "made_up", "paper").as_uri()
    )
    page.wait_for_selector(".main-svg")

    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(WIDEST) <= PAPER
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.close()


# the plot, the labels to its left and the words to its right, in pixels of the window
EDGES = """() => {
  const forest = [...document.querySelectorAll(".figure")].find(box => box.querySelector(".y2tick"));
  const sides = (kind, edge) => [...forest.querySelectorAll(kind)].map(text => text.getBoundingClientRect()[edge]);
  const plot = forest.querySelector(".bglayer, .plot").getBoundingClientRect();
  return {left: Math.max(...sides(".ytick text", "right")), start: Math.min(...sides(".ytick text", "left")),
          right: Math.min(...sides(".y2tick text", "left")), end: Math.max(...sides(".y2tick text", "right")),
          zero: Math.min(...sides(".zl", "left"), Infinity), lines: forest.querySelectorAll(".y2tick tspan").length};
}"""


@pytest.mark.parametrize(("width", "paper"), [(390, False), (1280, False), (1280, True)])
def test_labels_of_claims_are_beside_the_plot(browser, tmp_path, width, paper):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(page_of("claims", tmp_path / "r").as_uri())
    page.wait_for_selector(".main-svg")
    if paper:
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
    edges = page.evaluate(EDGES)

    assert 0 <= edges["start"] < edges["left"] <= edges["zero"] < edges["right"] < edges["end"] <= width
    page.close()


def page_of_scores(browser, root, width):
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(write_report(write_study(root, report=dump_report(specs())), "made_up", "paper").as_uri())
    return page


def test_the_answer_comes_before_the_figure_and_opens_by_keyboard(browser, tmp_path):
    page = page_of_scores(browser, tmp_path / "r", 390)
    tops = [page.locator(name).first.bounding_box()["y"] for name in (".findings", ".first .figure")]
    fold = page.locator(".findings details").first

    assert tops == sorted(tops)
    assert "not comparable (epochs 1000, not 300)" not in page.locator(".findings").inner_text()
    fold.locator("summary").focus()
    page.keyboard.press("Enter")
    assert "not comparable (epochs 1000, not 300)" in page.locator(".findings").inner_text()
    page.close()


def test_a_heading_sorts_its_table_by_keyboard(browser, tmp_path):
    page = page_of_scores(browser, tmp_path / "r", 1280)
    sections = {
        # published values in columns, and in lines that stay below their row
        "scores": ("batch size", ["64", "128", "64", "128"], ["128", "128", "64", "64"]),
        "table1": ("Parameters", ["ViTRM", "published", "ViT-Small", "published"],
                   ["ViT-Small", "published", "ViTRM", "published"]),
    }  # fmt: skip
    for position, (head, in_order, falling) in enumerate(sections.values()):
        table = page.locator("section table").nth(position)
        column = 1 if position == 0 else 0

        def cells(table=table, column=column):
            rows = table.locator("tbody tr")
            return [rows.nth(row).locator("th, td").nth(column).inner_text() for row in range(rows.count())]

        assert cells() == in_order
        table.locator(".sort", has_text=head).last.focus()
        for order, expected in (("descending", falling), ("ascending", None), ("none", in_order)):
            page.keyboard.press("Enter")
            assert table.locator("th[aria-sort]", has_text=head).last.get_attribute("aria-sort") == order
            assert expected in (None, cells())
    page.close()
