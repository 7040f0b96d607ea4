"""What networks thought of test puzzles: a viewer on a page, a strip of stills for a paper, and a GIF."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from recstudy.lazy import go, pd
from recstudy.records import Json
from recstudy.report.caveats import warnings
from recstudy.report.examples import read_examples
from recstudy.report.markup import render
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.puzzles import INK, PAPER, THINKING, Thought, read_thoughts
from recstudy.report.study_records import StudyRecords
from recstudy.report.tiles import Tiles, tile_figure

if TYPE_CHECKING:
    from recstudy.report.shown import Shown

COLUMNS = ["data", "row", "variant", "label", "seed", "segment", "wrong", "changed", "halt", "halts", "cells", "synthetic"]
COLUMNS += ["_thought"]
SLOT, EDGE, LINE, LETTER = 168, 16, 18, 13  # pixels of the animation: a puzzle, around puzzles, a line, and its letters
STILL = 360  # pixels of a puzzle in the strip
ROW = SLOT + 6 * LINE  # pixels of a row of puzzles, with its words
COLORS = 64
TIMES = 1200, 450, 2500  # milliseconds of the first, of a middle and of the last frame


@PARTS.add("thinking")
class Thinking(OfVariants):
    """Test puzzles with what stands in their cells after each segment, to step through: one seed of a variant.

    Beside its page an animated GIF of all of them, and a strip of stills for a paper, of the first puzzle where there are several
    variants.
    """

    name: str = "thinking"
    most: int = Field(default=4, ge=1)  # puzzles of a variant; a run keeps 12
    default_title: ClassVar[str] = "Test puzzles, segment by segment"

    def shown(self, records: StudyRecords) -> Shown:
        """Return the viewer, and as files the strip, the animation and a row per puzzle and segment."""
        from recstudy.report.shown import DrawnFigure, Shown

        data, notes = read_examples(records, self.where, THINKING, partial(_read_segments, count=self.most))
        data = data.reindex(columns=COLUMNS)
        notes = [*warnings(records), *notes]
        drawn = DrawnFigure(ThinkingStrip(self.name, title=self.heading), data, notes)
        puzzles = data.drop_duplicates(["variant", "row"]).groupby(["variant", "label", "seed"], sort=False)["_thought"]
        runs = {f"{label}, seed {seed}": thoughts.tolist() for (_, label, seed), thoughts in puzzles}
        body = render("thinking.html.jinja", heading=self.heading, caption=drawn.caption, runs=runs)
        files = {"gif": partial(animation, runs, notes)} if runs else {}
        return Shown(self.name, drawn=drawn if runs else None, body=body, notes=tuple(notes), files=files)


class ThinkingStrip(FigurePart):
    """Stills of the first puzzle of each variant, or of all puzzles of one variant."""

    def caption(self, data: pd.DataFrame) -> str:
        has_symbols = any(not thought.colours for thought in data["_thought"])
        sentences = ["Gray: given. Blue: right. Orange, struck through: wrong." if has_symbols else "Struck through: wrong."]
        sentences.append("Outlined: changed since the segment before.")
        if data["halt"].notna().any():
            sentences.append("Halting: the model's own probability that it is right; it would halt above 0.5.")
        return " ".join(sentences)

    def draw(self, data: pd.DataFrame) -> go.Figure:
        panels = []
        for puzzle in data.drop_duplicates("variant" if data["variant"].nunique() > 1 else "row").to_dict("records"):
            thought, title = puzzle["_thought"], f"{puzzle['label']}, seed {puzzle['seed']}, test puzzle {puzzle['row']}"
            last = thought.segments
            segments = sorted({0, *(2**power for power in range(last.bit_length())), last})
            images = [thought.picture(segment, STILL) for segment in segments]
            words = ["<br>".join([f"after {segment}"] * (segment > 0) + thought.words(segment)) for segment in segments]
            panels.append(Tiles(title, images, words, words, len(segments) if len(segments) <= 4 else 3))
        return tile_figure(panels)


def animation(runs: Mapping[str, Sequence[Thought]], notes: Sequence[str]) -> bytes:
    """Return a GIF of all puzzles, a row for each run. A run of fewer segments stays at its last.

    All frames have the same colours, so that the file keeps of each only what has changed: less than half the bytes.
    """
    from PIL import Image, ImageDraw, ImageFont

    segments = max(thought.segments for thoughts in runs.values() for thought in thoughts)
    width = EDGE + max(map(len, runs.values())) * (SLOT + EDGE)
    head = [line for note in notes for line in wrap(note, width // 7)]
    height = EDGE + LINE * (1 + len(head)) + ROW * len(runs)
    film = Image.new("RGB", (width, height * (segments + 1)), PAPER)  # the frames under each other
    write = partial(ImageDraw.Draw(film).multiline_text, fill=INK, font=ImageFont.load_default(LETTER))
    for segment in range(segments + 1):
        bottom = (segment + 1) * height
        write((EDGE, bottom - height + EDGE), "\n".join([f"segment {segment} of {segments}", *head]))
        for row, (title, thoughts) in enumerate(runs.items()):
            top = bottom - ROW * (len(runs) - row)
            write((EDGE, top + LINE / 2), title)
            for column, thought in enumerate(thoughts):
                left, shown_segment = EDGE + column * (SLOT + EDGE), min(segment, thought.segments)
                grid = thought.picture(shown_segment, SLOT)
                film.paste(grid, (left, top + 2 * LINE))
                write((left, top + 2 * LINE + grid.height), "\n".join(thought.words(shown_segment)))
    film = film.quantize(COLORS, dither=Image.Dither.NONE)
    frames = [film.crop((0, top, width, top + height)) for top in range(0, film.height, height)]
    first, middle, last = TIMES
    file, times = io.BytesIO(), [first, *[middle] * (segments - 1), last]
    frames[0].save(file, format="GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)
    return file.getvalue()


def _read_segments(path: Path, count: int) -> list[Json]:
    return [{**row, "_thought": thought} for thought in read_thoughts(path, count) for row in thought.numbers]
