"""The board in a real Chromium: pages render, new results come in by themselves, the keyboard will do."""

import json
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from boards import HOSTILE, serving
from made_up import (
    as_failure,
    as_result,
    failure,
    finish,
    plan,
    result,
    run_id,
    variant,
    write_epochs,
    write_mistakes,
    write_plan,
    write_thinking,
)

from recstudy.records import Results

pytestmark = pytest.mark.whole

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("no Chromium here (Debian: apt-get install chromium)", allow_module_level=True)
playwright = pytest.importorskip(
    "playwright.sync_api", reason="playwright is not installed (pip install -e '.[dev]')"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = started.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        yield browser
        browser.close()


class Tab:
    """A page of the board, with what the browser complained of."""

    def __init__(self, browser: Any, url: str) -> None:
        self.page, self.url, self.complaints = browser.new_page(), url, list[str]()
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console",
            lambda message: self.complaints.append(message.text) if message.type == "error" else None,
        )
        self.page.on(
            "request",
            lambda request: (
                None if request.url.startswith((url, "data:")) else self.complaints.append(request.url)
            ),
        )
        self.page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))

    def open(self, path: str) -> Any:
        """The page once it is whole."""
        self.page.goto(self.url + path)
        self.page.wait_for_selector("h1")
        self.until("!/Being drawn|Reading the records/.test(document.body.innerText)")
        return self.page

    def has(self, words: str) -> None:
        self.until(f"document.body.innerText.includes({json.dumps(words)})")

    def until(self, condition: str) -> None:
        """Wait until an expression is true; by asking, because the page's own policy forbids
        `wait_for_function`.
        """
        end = time.monotonic() + 60
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, f"{condition} is never true of {self.page.inner_text('body')}"
            self.page.wait_for_timeout(50)


@pytest.fixture
def tab(browser: Any, results: Results) -> Iterator[Tab]:
    """A tab in which nothing may go wrong."""
    with serving(results.root) as url:
        tab = Tab(browser, url)
        yield tab
        tab.page.close()
    assert tab.complaints == []


def test_the_way_from_the_studies_to_a_run(tab, results):
    write_mistakes(results, run_id(0, 0), np.zeros((3, 1, 8, 8)))
    page = tab.open("/")
    page.click("text=Made up (paper preset)")
    tab.has("Table 1: models by batch size")
    page.locator(".figure").first.scroll_into_view_if_needed()
    page.wait_for_selector(".figure .main-svg", timeout=60_000)
    title = page.title()
    page.click("text=All runs")
    page.click("#runs >> text=ViTRM, batch size 64 >> nth=0")
    tab.has("Misclassified test images")

    assert title.startswith("Made up (paper preset)")
    assert page.url.endswith(f"/run/{run_id(0, 0)}")
    page.go_back()
    tab.has("Runs of Made up (paper preset)")


def test_an_update_leaves_a_reader_where_they_were(tab, results):
    """The focus, unfolded parts and the part in sight stay; also where a part of the page comes or goes."""
    page, top = (
        tab.open("/study/made_up/paper"),
        "document.querySelector('#reproducibility').getBoundingClientRect().top",
    )
    page.evaluate("window.loaded = 'once'")
    page.locator("summary", has_text="Base settings").click()
    page.evaluate("document.querySelector('#reproducibility').scrollIntoView()")
    top_before = page.evaluate(top)
    page.evaluate("document.querySelector('#reproducibility ~ details summary').focus({preventScroll: true})")
    focused = page.evaluate("document.activeElement.textContent")
    finish(results, 3, 2, result(97.77, "ViT-Small"))

    tab.has("4 runs of")
    tab.has("97.8 [")
    assert page.evaluate(top) == pytest.approx(top_before, abs=2)
    assert page.evaluate("window.loaded") == "once"
    assert page.evaluate("document.activeElement.textContent").split()[0] == focused.split()[0]
    assert page.locator("details[open] >> text=train.batch_size").count() == 1


def test_puzzles_are_stepped_through_by_the_keyboard(tab, results):
    write_thinking(results, run_id(0, 0), symbols=np.array([" ", HOSTILE, "1", "2"]))
    page = tab.open(f"/run/{run_id(0, 0)}")
    box = page.locator(".thinking")
    first, slider, slider_texts = box.locator(".now svg").first, box.locator("input"), []
    slider.focus()
    for key in ("Home", "ArrowRight", "End", "ArrowLeft"):
        page.keyboard.press(key)
        slider_texts.append(
            (
                slider.get_attribute("aria-valuetext"),
                first.locator("text.wrong").count(),
                first.text_content(),
            )
        )

    assert slider_texts == [
        ("as given", 0, f"1{HOSTILE}{HOSTILE}1"),
        ("segment 1 of 3", 2, "1111"),
        ("segment 3 of 3", 0, "1221"),
        ("segment 2 of 3", 1, "1211"),
    ]
    assert (
        first.get_attribute("aria-label")
        == "test puzzle 0, after segment 2, 1 wrong, halting 0.73, halts here"
    )


def test_page_reports_a_stopped_board_and_recovers_with_it(browser, results):
    with serving(results.root) as url:
        tab = Tab(browser, url)
        tab.open("/study/made_up/paper")
    tab.has("The board does not answer. This page shows the state at")
    page_text = tab.page.inner_text("main")
    finish(results, 3, 0, result(97.77, "ViT-Small"))
    with serving(results.root, port=int(url.rpartition(":")[2])):
        tab.has("97.8 [")
        tab.until("!document.body.innerText.includes('does not answer')")
    tab.page.close()

    assert "Table 1" in page_text


def test_runs_are_searched_and_overlaid(tab):
    page = tab.open("/runs/made_up/paper")
    rows = page.locator("#runs tbody tr")
    rows.first.wait_for()
    page.get_by_label("Search:").fill("diverged")
    tab.until("document.querySelectorAll('#runs tbody tr').length === 1")
    page.get_by_label("Search:").fill("done")
    tab.until("document.querySelectorAll('#runs tbody tr').length === 6")
    overlay = page.get_by_role("button", name="Compare")
    assert overlay.is_disabled()
    for number in range(2):
        rows.nth(number).locator("input").focus()
        page.keyboard.press("Space")
    overlay.click()
    tab.has("Settings that differ")
    page.wait_for_selector(".figure .main-svg")
    assert page.url.count("run=") == 2


RUNS = "/runs/made_up/paper"


def test_a_row_keeps_the_focus_when_the_table_is_updated(tab, results):
    page = tab.open(RUNS)
    name = run_id(3, 2)
    page.locator(f"[id='{name}'] input").focus()
    results.run(name).finish(as_result(result(97.75, "ViT-Small")))
    tab.until(f"document.getElementById('{name}').innerText.includes('done')")

    assert page.evaluate("document.activeElement.closest('tr')?.id") == name
    page.keyboard.press("Space")
    tab.until("document.querySelectorAll('#runs tr.selected').length === 1")


def test_running_runs_are_first_with_step_score_and_sparkline(tab, results):
    """They are updated in place, and a failure shows its reason."""
    page = tab.open(RUNS)
    first = page.locator("#runs tbody tr").first
    first.locator(".spark").wait_for()
    texts = [first.locator(f"td.{name}").inner_text() for name in ("seed", "status", "top1_accuracy")]
    spark = first.locator(".spark svg").get_attribute("aria-label")
    write_epochs(results, run_id(3, 2), 81.0, epochs=5)
    tab.has("epoch 5 of 1000")
    tab.until("/to epoch 5: 77.0/.test(document.querySelector('.spark svg').getAttribute('aria-label'))")
    results.run(run_id(3, 2)).fail(as_failure(failure()))
    tab.has("code: ValueError: heads must divide width")
    tab.until("!document.querySelector('.state.running')")

    assert texts == ["2", "running epoch 3 of 1000, 5.0 h left", "63.3"]
    assert spark == "Top-1 accuracy, selection (%) to epoch 3: 63.3"


def test_at_most_eight_curves_of_the_filter_are_in_colour(browser, tmp_path):
    variants = [variant(f"width {n}", {"width": n}, {"model.width": n}) for n in range(60)]
    study = plan(variants=variants, axes={"width": "model.width"}, seeds=[0])
    results = write_plan(tmp_path / "results", study)
    for number in range(60):
        finish(results, number, 0, result(40.0 + number))
        write_epochs(results, run_id(number, 0), 40.0 + number)
    colors = "[...document.querySelectorAll('#curve-figure .scatterlayer .js-line')].map(line => line.style.stroke)"
    with serving(results.root) as url:
        tab = Tab(browser, url)
        page = tab.open(RUNS)
        tab.until(f"{colors}.length === 60")  # the table has 50 of them on its first page
        strokes = page.evaluate(colors)
        page.get_by_label("Curves of").select_option("train_loss")
        tab.until("document.querySelector('#curve-figure .ytitle').textContent === 'Training loss (nats)'")
        page.get_by_label("Search:").fill('"width 7"')
        tab.until(f"{colors}.length === 1")
        assert page.locator("#panel summary").inner_text() == "Learning curves of 1 run"
        tab.page.close()

    assert [stroke.startswith("rgb(128, 128, 128)") for stroke in strokes] == [True] * 52 + [False] * 8
    assert len(set(strokes)) == 7  # six colours, two of them twice, and grey
    assert tab.complaints == []


def test_the_table_of_runs_is_operated_by_the_keyboard(tab):
    page = tab.open(RUNS)
    page.locator("#runs .spark").first.wait_for()
    page.locator("#panel summary").focus()
    page.keyboard.press("Enter")
    was_open = page.locator("#panel details").get_attribute("open")
    page.locator("th.top1_accuracy button").first.focus()
    page.keyboard.press("Enter")  # in ascending order
    page.keyboard.press("Enter")
    tab.until("document.querySelector('#runs tbody td.top1_accuracy').innerText === '94.1'")
    box = page.get_by_role("region", name="Table of runs")
    box.focus()

    assert was_open is None  # it was open, and Enter has closed it
    assert page.evaluate("document.activeElement.tabIndex") == 0


def test_the_table_of_runs_is_a_list_on_a_phone(tab):
    tab.page.set_viewport_size({"width": 390, "height": 800})
    page = tab.open(RUNS)
    page.locator("#runs .spark").first.wait_for()
    first = page.locator("#runs tbody tr").first
    head = page.locator("th.status button").first

    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert first.bounding_box()["width"] <= 390
    assert first.locator("td.top1_accuracy").get_attribute("data-head") == "Top-1 accuracy (%)"
    assert head.is_visible()
    assert page.locator("#panel details").get_attribute("open") is None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_table_of_runs_has_the_colours_of_the_report(tab, scheme):
    tab.page.emulate_media(color_scheme=scheme)
    page = tab.open(RUNS)
    page.locator("#runs .spark").first.wait_for()
    color = "getComputedStyle(document.querySelector('{}')).{}"
    head, panel = (
        page.evaluate(color.format(part, "backgroundColor")) for part in ("#runs th.status", ".top")
    )
    row, body = (page.evaluate(color.format(part, "color")) for part in ("#runs td.seed", "body"))

    assert (head, row) == (panel, body)
