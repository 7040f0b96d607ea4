"""Puzzles segment by segment: what a run kept, read with every check; marks and pictures of hand-made grids."""

import io
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from made_up import run_id, thinking, write_study, write_thinking
from PIL import Image

from recstudy.analysis import Thinking
from recstudy.analysis.figures.puzzles import Piece, ThinkingShown, animation, how_to_read, pieces, placed, stills, strip
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.analysis.thinking import CHANGED, GIVEN, WRONG, PuzzleLook, read_thinking, thinking_data
from recstudy.errors import StorageError
from recstudy.report import dump_report

HOSTILE = '<b>"&'
ARC = {
    "colours": np.array(["#000000", "#111111", "#222222", "#333333"]),
    "given": np.array([[2, 0, 0, 0], [2, 2, 0, 0]], dtype=np.uint8),
    "answers": np.array([[3, 3, 0, 0], [3, 0, 0, 0]], dtype=np.uint8),
    "boxes": np.array([0, 0]),
}


def found(results, spec=Thinking(), **arguments):  # noqa: B008
    return thinking_data(load_study(results, "made_up", "paper"), spec, **arguments)


@pytest.fixture
def thoughts(results):
    """Of one variant."""
    write_thinking(results, run_id(0, 1))
    return found(results)


def test_marks_of_every_segment(thoughts):
    """Of the cells 1 . / . 1: given are the two ends; the middle ones are wrong until they change."""
    (run,) = thoughts.runs
    first, second = run.thoughts

    assert run.title == "ViTRM, batch_size=64, seed 1"
    assert first.cells.reshape(4, 4).tolist() == [[2, 1, 1, 2], [2, 2, 2, 2], [2, 3, 2, 2], [2, 3, 3, 2]]
    assert first.marks.reshape(4, 4).tolist() == [
        [GIVEN, 0, 0, GIVEN],
        [GIVEN, WRONG, WRONG, GIVEN],
        [GIVEN, CHANGED, WRONG, GIVEN],
        [GIVEN, 0, CHANGED, GIVEN],
    ]
    assert second.marks[1].tolist() == [[WRONG, 0], [GIVEN, GIVEN]]
    assert [first.words(segment) for segment in range(4)] == [
        ["as given"],
        ["2 wrong", "halting 0.12"],
        ["1 wrong", "halting 0.73", "halts here"],
        ["solved", "halting 0.95", "halts at 2"],
    ]
    assert (second.halts, second.words(3)) == (None, ["1 wrong", "halting 0.27"])


def test_the_numbers_have_a_row_a_segment(thoughts):
    frame = thoughts.frame

    assert frame["segment"].tolist() == [1, 2, 3, 1, 2, 3]
    assert frame["row"].tolist() == [0, 0, 0, 3, 3, 3]
    assert (frame["wrong"].tolist(), frame["changed"].tolist()) == ([2, 1, 0, 1, 1, 1], [0, 1, 1, 0, 0, 0])
    assert frame["halts"].tolist() == [False, True, False, False, False, False]
    assert frame["halt"][1] == pytest.approx(1 / (1 + math.exp(-1)))
    assert frame["cells"][0] == "1 1 1 1"
    assert set(frame["label"]) == {"ViTRM, batch_size=64"}


def test_a_cell_that_is_not_asked_for_is_never_wrong(results):
    """It shows what is given; where cells have colours nothing, and padding below and on the right is cut off."""
    write_thinking(results, run_id(0, 0), answers=np.array([[2, 3, 0, 2], [3, 2, 2, 3]], dtype=np.uint8))
    write_thinking(results, run_id(1, 0), **ARC)

    symbols, colours = found(results).runs

    assert symbols.thoughts[0].cells[1].tolist() == [[2, 2], [1, 2]]
    assert symbols.thoughts[0].marks[1].tolist() == [[GIVEN, WRONG], [GIVEN, GIVEN]]
    assert [thought.shape for thought in colours.thoughts] == [(1, 2), (1, 2)]
    assert colours.thoughts[0].cells.tolist() == [[[2, 0]], [[2, 2]], [[2, 3]], [[2, 3]]]
    assert colours.thoughts[1].cells[1].tolist() == [[2, 0]]


def test_a_network_that_never_halts(results):
    write_thinking(results, run_id(0, 0), halt=np.empty((2, 0), np.float32))

    data = found(results)

    assert data.runs[0].thoughts[0].words(2) == ["1 wrong"]
    assert data.frame["halt"].isna().all()
    assert "Halting" not in how_to_read(data)


def test_most_where_and_too_many_variants(results):
    for variant in range(3):
        write_thinking(results, run_id(variant, 0))
    write_thinking(results, run_id(3, 2))  # still running

    assert [len(run.thoughts) for run in found(results, Thinking(most=1)).runs] == [1, 1, 1]
    assert len(found(results, Thinking(where={"batch_size": 128})).runs) == 1
    assert found(results, most=2).notes == ("the 2 best of 3 variants by top-1 accuracy",)


DAMAGES = {
    "lacks": ({"halt": None}, "KeyError: 'halt'"),
    "cells": ({"cells": np.zeros((2, 3, 5), np.uint8)}, "cells of (2, 3, 5) for 2 puzzles of 2x2"),
    "no segment": ({"cells": np.zeros((2, 0, 4), np.uint8)}, "cells of (2, 0, 4)"),
    "no puzzle": ({"rows": np.zeros(0, int)}, "for 0 puzzles"),
    "given": ({"given": np.zeros((1, 4), np.uint8)}, "given of (1, 4) for 2 puzzles of 2x2"),
    "answers": ({"answers": np.zeros((2, 3), np.uint8)}, "answers of (2, 3)"),
    "dtype": ({"cells": np.zeros((2, 3, 4))}, "cells of float64, but tokens are uint8"),
    "negative": ({"given": np.full((2, 4), -1)}, "given of int64"),
    "token": ({"given": np.full((2, 4), 4, np.uint8)}, "token 4, but 4 symbols"),
    "colours": ({"colours": np.array(["#000000"])}, "colours are not one #RRGGBB a token"),
    "colour": ({"colours": np.array(["red", "#000000", "#000000", "#000000"])}, "colours are not one #RRGGBB a token"),
    "boxes": ({"boxes": np.array([2, 3])}, "boxes of (2, 3) in 2x2 cells"),
    "half boxes": ({"boxes": np.array([0, 2])}, "boxes of (0, 2) in 2x2 cells"),
    "halt": ({"halt": np.zeros((2, 2), np.float32)}, "halt of (2, 2) for 3 segments"),
    "not finite": ({"halt": np.full((2, 3), np.nan)}, "halt"),
    "shape": ({"shape": np.array([4])}, "ValueError"),
}


@pytest.mark.parametrize(("changes", "words"), DAMAGES.values(), ids=DAMAGES)
def test_damage_is_one_line_and_spoils_no_other_variant(results, changes, words):
    write_thinking(results, run_id(0, 0))
    write_thinking(results, run_id(1, 0))
    path = results.run(run_id(1, 0)).path / "thinking.npz"
    kept = {name: value for name, value in thinking(**changes).items() if value is not None}
    np.savez_compressed(path, **kept)

    with pytest.raises(StorageError, match=rf"{re.escape(words)}.*Remove that run's folder"):
        read_thinking(path, 4)
    data = found(results)

    assert [run.label for run in data.runs] == ["ViTRM, batch_size=64"]
    assert len(data.notes) == 1
    assert data.notes[0].startswith("ViTRM, batch_size=128: runs/")
    assert "\n" not in data.notes[0]


def test_a_file_cut_in_half(results):
    write_thinking(results, run_id(0, 0))
    path = results.run(run_id(0, 0)).path / "thinking.npz"
    path.write_bytes(path.read_bytes()[:400])

    assert "is damaged" in found(results).notes[0]


# ------------------------------------------------------------------------------------------------------------- pictures


def drawn(look=PuzzleLook((" ", ".", "1", "2"), (), (1, 2)), marks=((GIVEN, WRONG), (CHANGED, 0))):  # noqa: B008
    return list(pieces(look, np.array([[2, 3], [3, 2]]), np.array(marks)))


def test_wrong_cells_differ_by_shape_and_colour():
    parts = drawn()

    fills = [piece.colour for piece in parts if piece.kind == "box"]
    letters = [piece for piece in parts if piece.kind == "letter"]
    struck = [piece.ends for piece in parts if piece.kind == "line" and piece.colour == letters[1].colour]
    assert len(set(fills)) == 3
    assert fills[2] == fills[3]  # a change is an outline, no colour
    assert len({piece.colour for piece in letters}) == 3
    assert [piece.bold for piece in letters] == [True, False, False, False]
    assert struck == [pytest.approx((1.14, 0.86, 1.86, 0.14))]
    assert [piece.ends for piece in parts if piece.kind == "outline"] == [(0.1, 1.1, 0.9, 1.9)]


def test_boxes_have_thicker_lines():
    """Boxes of one row and two columns in 2x2 cells: lines between the rows, and around all."""
    thick = [piece for piece in drawn() if piece.kind == "line" and piece.width > 0.05]

    assert [piece.ends for piece in thick] == [(0, 0, 2, 0), (0, 1, 2, 1), (0, 2, 2, 2), (0, 0, 0, 2), (2, 0, 2, 2)]


def test_colours_stand_for_symbols():
    parts = drawn(PuzzleLook(("a", "b", "c", "d"), ("#000000", "#111111", "#222222", "#333333"), (0, 0)))

    assert [piece.colour for piece in parts if piece.kind == "box"] == ["#222222", "#333333", "#333333", "#222222"]
    assert not [piece for piece in parts if piece.kind == "letter"]
    assert len([piece for piece in parts if piece.kind == "outline"]) == 2  # black on white


def test_a_piece_is_placed():
    assert placed(Piece("line", "red", (0, 1, 2, 3), 0.5), 10, 20, 4) == Piece("line", "red", (10, 24, 18, 32), 2.0)


def test_stills_double():
    assert [stills(segments) for segments in (1, 2, 3, 8, 12)] == [
        [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 4, 8], [0, 1, 2, 4, 8, 12]
    ]  # fmt: skip


@pytest.mark.parametrize("inches", [3.0, 7.0])
def test_the_strip_of_one_variant_has_all_its_puzzles(thoughts, inches):
    figure = strip(thoughts, Thinking()).printed(inches)

    words = [note.text for note in figure.layout.annotations]
    assert [text for text in words if "test puzzle" in text.replace("<br>", " ")] == words[::5]
    assert words[3].replace("<br>", " ") == "after 2 1 wrong halting 0.73 halts here"
    assert len(figure.data[0].text) == 2 * 4 * 4
    assert figure.data[0].text[0] == "<b>1</b>"
    ends = [float(end) for shape in figure.layout.shapes for end in re.findall(r"[\d.]+", shape.path)]
    assert max(ends) <= max(figure.layout.width, figure.layout.height)


def test_the_strip_of_several_variants_has_one_puzzle_of_each(results):
    write_thinking(results, run_id(0, 0))
    write_thinking(results, run_id(1, 0), **ARC)

    figure = strip(found(results), Thinking()).figure

    titles = [note.text for note in figure.layout.annotations if "test puzzle" in note.text]
    assert titles == ["ViTRM, batch_size=64, seed 0, test puzzle 0", "ViTRM, batch_size=128, seed 0, test puzzle 0"]


def test_the_animation_has_a_frame_a_segment(thoughts):
    """The middle of the upper right cell: white where it is to be filled in, orange while it is wrong, white when it is right."""
    picture = Image.open(io.BytesIO(animation(thoughts)))
    seen = []
    for segment in range(picture.n_frames):
        picture.seek(segment)
        seen.append(picture.convert("RGB").getpixel((14 + 28 + 5, 14 + 18 + 26 + 5)))

    assert picture.n_frames == 4
    assert seen[0] == seen[3] == (255, 255, 255)
    assert seen[1] == (255, 227, 199)


def test_the_animation_says_what_is_synthetic(thoughts):
    plain, noted = (
        Image.open(io.BytesIO(animation(replace(thoughts, notes=notes))))
        for notes in ((), ("synthetic data: generated by a program",))
    )

    assert noted.height > plain.height
    assert noted.crop((0, 0, noted.width, 14)).getcolors() != noted.crop((0, 20, noted.width, 46)).getcolors()


def test_runs_of_fewer_segments_stay_at_their_last(results):
    write_thinking(results, run_id(0, 0))
    write_thinking(results, run_id(1, 0), cells=thinking()["cells"][:, :1], halt=np.empty((2, 0), np.float32))

    data = found(results)

    assert Image.open(io.BytesIO(animation(data))).n_frames == 4
    assert len(strip(data, Thinking()).figure.layout.annotations) == 1 + 4 + 1 + 2


# ------------------------------------------------------------------------------------------------------------------ page


def test_the_page_has_a_box_its_data_and_its_files(tmp_path):
    results = write_study(tmp_path / "results", report=dump_report([Thinking("seen", most=1)]))
    write_thinking(results, run_id(0, 0), symbols=np.array([" ", HOSTILE, "1", "2"]))

    text = write_report(results, "made_up", "paper").read_text()
    data = json.loads(re.search(r'class="thinking".*?<script type="application/json">(.*?)</script>', text, re.DOTALL)[1])

    (run,) = data["runs"]
    assert (data["segments"], run["box"], run["symbols"][1]) == (3, [1, 2], HOSTILE)
    assert run["puzzles"] == [
        {
            "row": 0,
            "rows": 2,
            "columns": 2,
            "cells": [[2, 1, 1, 2], [2, 2, 2, 2], [2, 3, 2, 2], [2, 3, 3, 2]],
            "marks": ["1001", "1221", "1421", "1041"],
            "words": [["as given"], ["2 wrong", "halting 0.12"], ["1 wrong", "halting 0.73", "halts here"],
                      ["solved", "halting 0.95", "halts at 2"]],
        }
    ]  # fmt: skip
    assert HOSTILE not in text
    assert "lookForThinking" in text
    assert "Plotly" not in text  # nothing else is drawn
    folder = results.study("made_up", "paper") / "report" / "figures"
    assert {file.name for file in folder.iterdir()} == {"plotly.min.js", "seen.gif", "seen.html", "seen.csv"}


def test_a_study_without_puzzles_says_so(records, tmp_path):
    part = ThinkingShown(thinking_data(records, Thinking()), Thinking())

    assert "No finished run has kept" in part.html
    assert part.write(tmp_path, "thinking", (), 2) == ""
    assert list(tmp_path.glob("figures")) == []
