"""What stands on the pages of three made-up studies, as words: in a browser from top to bottom, on paper page by page.

`python tests/analysis/golden_pages.py` writes golden/pages anew, where a page was changed on purpose; its diff shows what changed.
"""

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from asking import CLOSE, HELPS, HURTS, SAME, study
from made_up import SCORES, run_id, write_epochs, write_search, write_study
from pypdf import PdfReader

from recstudy.analysis.report import write_report

FOLDER = Path(__file__).parent / "golden" / "pages"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MARKS = {"h1": "# ", "h2": "## ", "h3": "### ", "li": "- ", "summary": "> ", "dt": "", "p": "", "pre": "    "}
SILENT = ("style", "button", "nav", "noscript", "title")


def with_epochs(root: Path) -> Any:
    results = write_study(root)
    for (variant, seed), score in SCORES.items():
        write_epochs(results, run_id(variant, seed), score, epochs=20)
    return results


STUDIES = {
    "scores": with_epochs,  # tables beside published values, a curve, learning curves; runs that failed, diverged, did not run
    "claims": lambda root: study(root, [HURTS, HELPS, SAME, CLOSE]),
    "search": write_search,
}


def page_of(name: str, root: Path) -> Path:
    return write_report(STUDIES[name](root), "made_up", "paper")


class Words(HTMLParser):
    """A line a heading, paragraph, item, row and figure; of a figure what stands at its axes and which lines it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        if tag not in ("meta", "link", "img", "br", "input"):
            self.open.append("json" if dict(attributes).get("type") == "application/json" else tag)
        if tag in (*MARKS, "tr"):
            self.close()
        elif tag in ("td", "th") and self.text:
            self.text += " | "

    def handle_endtag(self, tag: str) -> None:
        if self.open:
            self.open.pop()
        if tag == "tr":
            self.say("| " + self.text)
        elif tag in MARKS and tag != "dt":
            self.say(MARKS[tag] + self.text)
        elif tag == "dt":
            self.text += ": "
        elif tag == "dd":
            self.say(self.text)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "json":
            self.lines += figure_lines(json.loads(data))
        elif not {"script", *SILENT} & set(self.open) and data.strip():
            self.text += " ".join(data.split()) if "pre" in self.open else data

    def close(self) -> None:
        if self.text.strip():
            self.say(self.text)

    def say(self, line: str) -> None:
        if self.text.strip():
            self.lines.append(" ".join(line.split()))
        self.text = ""


def figure_lines(figure: dict[str, Any]) -> Iterator[str]:
    layout = figure["layout"]
    axes = [
        f"{name}: {axis['title']['text']}"
        for name, axis in layout.items()
        if "axis" in name and axis.get("title", {}).get("text")
    ]
    lines = [trace["name"] for trace in figure["data"] if trace.get("name") and trace.get("showlegend") is not False]
    yield f"[figure {layout['meta']['panels']:g} panels; {'; '.join(axes)}; {len(figure['data'])} traces: {', '.join(lines)}]"
    yield from (f"[  {' '.join(re.sub('<[^>]*>', ' ', one['text']).split())}]" for one in layout.get("annotations", ()))


def structure(page: Path) -> str:
    return "\n".join(Words(page.read_text()).lines) + "\n"


def printed(browser: Any, page: Path, pdf: Path) -> str:
    """A line a page of A4, with the headings on it, from the outline of the PDF."""
    tab = browser.new_page()
    tab.goto(page.as_uri())
    tab.pdf(path=pdf, format="A4", outline=True, tagged=True)
    tab.close()
    reader = PdfReader(pdf)
    found: dict[int, list[str]] = {at: [] for at in range(len(reader.pages))}
    for heading in flat(reader.outline):
        found[reader.get_destination_page_number(heading)].append(str(heading.title))
    return "\n".join(f"{at + 1}: {' | '.join(titles)}" for at, titles in found.items()) + "\n"


def flat(outline: list[Any]) -> Iterator[Any]:
    for one in outline:
        if isinstance(one, list):
            yield from flat(one)
        else:
            yield one


def main() -> None:
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"] if os.geteuid() == 0 else [])
        for name in STUDIES:
            page = page_of(name, Path(folder) / name)
            (FOLDER / f"{name}.txt").write_text(structure(page))
            (FOLDER / f"{name}.print.txt").write_text(printed(browser, page, Path(folder) / f"{name}.pdf"))
            sys.stdout.write(f"{FOLDER / name}.txt\n")
        browser.close()


if __name__ == "__main__":
    main()
