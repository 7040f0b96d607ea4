"""Test puzzles to step through: a box of a page, which `web/viewer.js` fills. Their files: a GIF and a strip of stills."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from plotly.io.json import to_json_plotly

from recstudy.analysis.figures.export import write_figure
from recstudy.analysis.figures.puzzles import animation, how_to_read, strip
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import escape, links, warning_lines
from recstudy.analysis.shown import Shown
from recstudy.analysis.thinking import Thinker, Thought, Thoughts, thinking_data
from recstudy.records import Json, write_whole
from recstudy.report import Thinking
from recstudy.report.venues import Paper

NOTHING = '<p class="note">No finished run has kept what it thought of puzzles yet.</p>'
WORDS = '<noscript><p class="note">Stepping through puzzles needs JavaScript; the GIF and the CSV file do without.</p></noscript>'
HOW = "The first finished seed of each variant. The arrow keys, Home and End step through the segments."
log = logging.getLogger(__name__)


@dataclass(frozen=True, repr=False)
class ThinkingShown(Shown):
    """Puzzles after every segment."""

    data: Thoughts
    spec: Thinking

    @property
    def frame(self) -> pd.DataFrame:
        return self.data.frame

    @property
    def html(self) -> str:
        if not self.data.runs:
            return warning_lines(self.data.notes) + NOTHING
        told = {"segments": self.data.segments, "runs": [_run(run) for run in self.data.runs]}
        box = f'<div class="thinking" role="group" aria-label="{escape(self.spec.heading)}"></div>'
        data = f'<script type="application/json">{to_json_plotly(told)}</script>'
        caption = escape(f"{how_to_read(self.data)} {HOW}")
        return f'{warning_lines(self.data.notes)}{box}{data}\n{WORDS}<p class="caption">{caption}</p>\n'

    def write(self, folder: Path, file: str, export: Sequence[str], paper: Paper) -> str:
        if not self.data.runs:
            return ""
        problem = write_figure(strip(self.data, self.spec), folder / "figures", file, export, paper)
        if problem:
            log.warning("%s: %s", self.spec.name, problem)
        write_whole(folder / "figures" / f"{file}.gif", animation(self.data))
        return links("figures", file, ("gif", "html", "csv", *(() if problem else export)))

    def __repr__(self) -> str:
        return repr(self.frame)


def shown(records: StudyRecords, part: Thinking) -> ThinkingShown:
    return ThinkingShown(thinking_data(records, part), part)


def _run(run: Thinker) -> Json:
    tall, wide = run.look.boxes
    return {
        "title": run.title,
        "symbols": run.look.symbols,
        "colours": run.look.colours,
        "box": [tall, wide],
        "puzzles": [_puzzle(thought, run.segments) for thought in run.thoughts],
    }


def _puzzle(thought: Thought, segments: int) -> Json:
    """Marks as one digit a cell."""
    rows, columns = thought.shape
    return {
        "row": thought.row,
        "rows": rows,
        "columns": columns,
        "cells": [cells.ravel().tolist() for cells in thought.cells],
        "marks": ["".join(map(str, marks.ravel())) for marks in thought.marks],
        "words": [thought.words(segment) for segment in range(segments + 1)],
    }
