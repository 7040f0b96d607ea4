"""What stands on the pages of three made-up studies and in each scenario's part of a report, as words: from
top to bottom.

`RECSTUDY_GOLDEN=write pytest tests/report -k golden` writes golden/pages, golden/parts and golden/audits
anew, where something was changed on purpose; its diff shows what changed.
"""

import json
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from asking import CLOSE, EQUAL_CLAIM, HELPS, HURTS, study
from made_up import write_report, write_search, write_study
from scenarios import SCENARIOS, records_of

from recstudy.report.kinds import render_part
from recstudy.report.shown import RenderedPart

FOLDER = Path(__file__).parent / "golden" / "pages"
PARTS = FOLDER.with_name("parts")
SHOWN_VALUES = 6  # values of a long list that are told
CSV_LINES = 12
MARKS = {"h1": "# ", "h2": "## ", "h3": "### ", "li": "- ", "summary": "> ", "dt": "", "p": "", "pre": "    "}
SILENT = ("style", "button", "nav", "noscript", "title")


STUDIES = {
    # tables beside published values, a curve, learning curves; runs that failed, diverged, did not run
    "scores": write_study,
    "claims": lambda root: study(root, [HURTS, HELPS, EQUAL_CLAIM, CLOSE]),
    "search": write_search,
}


def page_of(name: str, root: Path) -> Path:
    return write_report(STUDIES[name](root), "made_up", "paper")


class Tags(HTMLParser):
    """The tags of a page, with their attributes, and its visible words."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] not in ("script", "style"):
            self.words += data


class Words(HTMLParser):
    """A line a heading, paragraph, item, row and figure; of a figure what stands at its axes and which lines
    it has.
    """

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
        elif ("th" in self.open or not {"script", *SILENT} & set(self.open)) and data.strip():
            self.text += " ".join(data.split()) if "pre" in self.open else data

    def close(self) -> None:
        if self.text.strip():
            self.say(self.text)

    def say(self, line: str) -> None:
        if self.text.strip():
            self.lines.append(" ".join(line.split()))
        self.text = ""


def figure_lines(figure: dict[str, Any]) -> Iterator[str]:
    if (layout := figure.get("layout")) is None:  # of the viewer of puzzles
        yield f"[data {short(figure)}]"
        return
    axes = [
        f"{name}: {axis['title']['text']}"
        for name, axis in layout.items()
        if "axis" in name and axis.get("title", {}).get("text")
    ]
    lines = [
        trace["name"]
        for trace in figure["data"]
        if trace.get("name") and trace.get("showlegend") is not False
    ]
    yield f"[figure; {'; '.join(axes)}; {len(figure['data'])} traces: {', '.join(lines)}]"
    yield from (
        f"[  {' '.join(re.sub('<[^>]*>', ' ', annotation['text']).split())}]"
        for annotation in layout.get("annotations", ())
    )


def structure(page: Path) -> str:
    return "\n".join(Words(page.read_text()).lines) + "\n"


def part_file(name: str) -> Path:
    return PARTS / f"{re.sub(r'[^a-z0-9]+', '_', name)}.txt"


def part_text(name: str, root: Path) -> str:
    """All that a scenario's part says: on the page, in its figure, as Markdown, LaTeX and numbers, and behind
    its first row.
    """
    build, part = SCENARIOS[name]
    records = records_of(build, root)
    rendered = render_part(records, part)
    output = [f"finding: {rendered.marked_finding}", *Words(rendered.html).lines]
    output += figure_text(rendered) if rendered.data is not None and not rendered.data.empty else []
    if rendered.table:
        output += ["", rendered.markdown, rendered.latex]
    numbers = rendered.csv or rendered.figure_csv
    lines = re.sub(r"\d\.\d{6,}(e-?\d+)?", lambda number: f"{float(number[0]):.6g}", numbers).splitlines()
    remainder = [f"... {len(lines):,} lines"] if lines[CSV_LINES:] else []
    text = "\n".join([*output, "", *lines[:CSV_LINES], *remainder]) + "\n"
    return re.sub(r"\b[0-9a-f]{20}\b", short_id, text)


def short_id(identity: re.Match[str]) -> str:
    """Return the variant and the seed of a made-up run, which its id has in ten digits each."""
    return f"{int(identity[0][:10], 16)}.{int(identity[0][10:], 16)}"


def figure_text(rendered: RenderedPart) -> list[str]:
    """The traces and the layout, long lists cut; pictures as how long they are."""
    figure = json.loads(rendered.figure.to_json())
    layout = {
        name: value for name, value in figure["layout"].items() if name not in ("template", "legend", "font")
    }
    output = [
        f"words: {rendered.description}",
        *(f"trace {short(trace)}" for trace in figure["data"]),
    ]
    return [*output, *(f"layout {name} {short(value)}" for name, value in sorted(layout.items()))]


def short(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {short(entry)}" for name, entry in sorted(value.items())) + "}"
    if isinstance(value, list):
        remainder = [f"... {len(value)}"] if value[SHOWN_VALUES:] else []
        return f"[{', '.join([*map(short, value[:SHOWN_VALUES]), *remainder])}]"
    if isinstance(value, str) and value.startswith("data:"):
        return f"{value.partition(',')[0]} of {len(value)}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def compare(text: str, file: Path) -> None:
    """Compare a text with its golden file, or write the file where RECSTUDY_GOLDEN=write."""
    if os.environ.get("RECSTUDY_GOLDEN") == "write":
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()
