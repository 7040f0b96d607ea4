"""What figures are made of, by hand: axes, names and labels that fit, tiles of images, pieces of puzzles, fronts and averages."""

import base64
import io

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from recstudy.analysis.figures.attention import ORANGE, tinted
from recstudy.analysis.figures.captions import FOLD, folded, known_words
from recstudy.analysis.figures.images import data_uri, mosaic, short_names, side_of, tile
from recstudy.analysis.figures.layout import apart, dress, shade
from recstudy.analysis.figures.learning import moving_average, thin
from recstudy.analysis.figures.puzzles import CHANGED, GIVEN, WRONG, Piece, PuzzleLook, pieces, placed, stills
from recstudy.analysis.figures.search import field_heights, running_best
from recstudy.analysis.figures.theme import brief, clipped, log_ticks, powers_of_two, style, y_range
from recstudy.analysis.search import front
from recstudy.records.reading import record_of
from recstudy.records.study_schema import Range


@pytest.mark.parametrize(
    ("levels", "log"),
    [([1, 2, 4, 8, 16], True), ([64, 128], False), ([1, 2, 3, 6], False), ([0, 1, 8], False), ([1, 2, 4], True)],
)
def test_powers_of_two_ask_for_a_log_axis(levels, log):
    assert powers_of_two(levels) is log


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (16, 256, [16, 32, 64, 128, 256]),
        (1e-5, 1e-3, [1e-5, 1e-4, 1e-3]),
        (0.02, 0.3, [0.02, 0.05, 0.1, 0.2]),
        (3, 40, [5, 10, 20]),
        (0.6, 1.2, [0.6, 1.2]),
        (0.3, 0.3, [0.3]),
    ],
)
def test_ticks_of_a_log_axis(low, high, ticks):
    assert log_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("stated", "values", "heights", "labels"),
    [
        ({"low": 1, "high": 4, "log": False}, [1, 3, 4], [0, 2 / 3, 1], ["1", "4"]),
        ({"low": 0.01, "high": 1, "log": True}, [0.1], [0.5], ["0.01", "1"]),
        ({"low": 2, "high": 2, "log": True}, [2], [0], ["2", "2"]),
        ({"choices": [True, 1, None]}, [None, 1], [1, 0.5], ["true", "1", "none"]),
    ],
)
def test_heights_of_a_fields_values(stated, values, heights, labels):
    found, said = field_heights(record_of(Range, stated), values)
    assert found == pytest.approx(heights)
    assert list(said.values()) == labels


def test_no_interval_is_cut_off_by_the_y_axis():
    data = pd.DataFrame({"value": [90.0, 94.0, None], "low": [60.0, 93.0, None], "high": [120.0, 95.0, None]})

    assert y_range(data["value"], data["low"], data["high"]) == pytest.approx([60 - 3, 120 + 3])
    assert y_range(data["value"][2:]) is None
    assert y_range([100.0, 99.0])[1] < 100.2


def test_names_are_short_apart_and_different():
    assert len({tuple(style(index).values()) for index in range(210)}) == 210
    assert clipped("one two three", 7, 2) == "one two<br>three"
    assert clipped("one two three <four>", 7, 2) == "one two<br>three …"
    assert brief(["a=1, b=2", "a=1, b=3", "a=1"]) == (["b=2", "b=3", "a=1"], "a=1")
    assert brief(["a=1"]) == (["a=1"], "")
    assert brief(["model=TRM, b=2", "model=a, b, b=2"]) == (["TRM", "a, b"], "b=2")
    assert brief(["data=x, steps=1", "data=x, steps=2"]) == (["steps=1", "steps=2"], "data=x")
    assert apart([1.0, 0.9, 1.0], [0.5] * 3, 1.2) == pytest.approx([0.45, -0.05, 0.95])
    assert short_names(["cat", "aquarium_fish", "automobile", "strawberries"], 10) == {
        "cat": "cat", "aquarium_fish": "aquarium…", "automobile": "automobile", "strawberries": "strawberr…",
    }  # fmt: skip
    assert list(short_names(["Pleural_Thickening", "Pleural_Effusion"], 10).values()) == ["Pleur…ning", "Pleur…sion"]


def test_headings_and_scales_have_room():
    figure = dress(go.Figure(), "T", ["word " * 40], caption="how to read it")

    assert figure.layout.title.text.count("<br>") == 3
    assert figure.layout.title.text.endswith('<span style="font-size:12px;color:#57606A">how to read it</span>')
    assert figure.layout.margin.t == 30 + 20 * 4
    assert shade(13, "%", [12.5])["colorbar"]["ticktext"] == ["0", "12.5 even"]
    assert shade(10, "%", [12.5])["colorbar"]["ticktext"] == ["0", "10"]


# --------------------------------------------------------------------------------------------------------------- tiles


def test_the_mosaic_pixel_by_pixel():
    """Three 1 x 1 images, each enlarged to 2 x 2; two a row, with 1 pixel beside and 1 under each. Opacity is the last number."""
    red, grey, black = np.array([[[9, 1, 2]]]), np.array([[[5]]]), np.array([[[0]]])

    picture = mosaic([image.astype(np.uint8) for image in (red, grey, black)], columns=2, side=2, gap=1, words=1)

    r, g, b, _ = [9, 1, 2, 255], [5, 5, 5, 255], [0, 0, 0, 255], [0, 0, 0, 0]
    rows = [[r, r, _, g, g, _]] * 2 + [[_] * 6] + [[b, b, _, _, _, _]] * 2 + [[_] * 6]
    assert picture.tolist() == rows
    uri = data_uri(picture)
    assert (np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))) == picture).all()


def test_an_image_that_is_not_square_stands_in_the_middle():
    square = tile(np.full((1, 2, 1), 7, np.uint8), side=4)

    assert square[..., 0].tolist() == [[0] * 4, [7] * 4, [7] * 4, [0] * 4]
    assert square[..., 3].tolist() == [[0] * 4, [255] * 4, [255] * 4, [0] * 4]


@pytest.mark.parametrize(("size", "side"), [(8, 128), (28, 140), (32, 128), (64, 128), (100, 100), (224, 128)])
def test_small_images_are_enlarged_by_a_whole_number_and_large_ones_shrunk(size, side):
    image = np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)

    assert side_of(image) == side
    square = tile(image, side)
    assert square.shape == (side, side, 4)
    if side % size == 0:
        step = side // size
        assert (square[::step, ::step, :3] == image).all()
        assert (square[step - 1 :: step, step - 1 :: step, :3] == image).all()


def test_the_tint_is_deepest_where_most_is_attended_to():
    """Blocks of a 2x2 grid on 4x4 pixels, even at a quarter; the gray is dimmed by a quarter."""
    image, orange = np.full((4, 4, 3), 100, dtype=np.uint8), np.array(ORANGE)

    picture = tinted(image, np.array([[0.5, 0.125], [0.375, 0.0]]), 0.25, 0.5)

    assert picture[0, 2].tolist() == picture[3, 3].tolist() == [75, 75, 75]
    assert picture[1, 1].tolist() == (0.15 * 75 + 0.85 * orange).astype(int).tolist()
    assert picture[2, 0].tolist() == (0.575 * 75 + 0.425 * orange).astype(int).tolist()


def drawn(look=PuzzleLook((" ", ".", "1", "2"), (), (1, 2)), marks=((GIVEN, WRONG), (CHANGED, 0))):  # noqa: B008
    return list(pieces(look, np.array([[2, 3], [3, 2]]), np.array(marks)))


def test_wrong_cells_differ_by_shape_and_colour_and_boxes_have_thicker_lines():
    """Boxes of one row and two columns in 2x2 cells: lines between the rows, and around all."""
    parts = drawn()

    fills = [piece.colour for piece in parts if piece.kind == "box"]
    letters = [piece for piece in parts if piece.kind == "letter"]
    struck = [piece.ends for piece in parts if piece.kind == "line" and piece.colour == letters[1].colour]
    thick = [piece.ends for piece in parts if piece.kind == "line" and piece.width > 0.05]
    assert len(set(fills)) == 3
    assert fills[2] == fills[3]  # a change is an outline, no colour
    assert len({piece.colour for piece in letters}) == 3
    assert [piece.bold for piece in letters] == [True, False, False, False]
    assert struck == [pytest.approx((1.14, 0.86, 1.86, 0.14))]
    assert [piece.ends for piece in parts if piece.kind == "outline"] == [(0.1, 1.1, 0.9, 1.9)]
    assert thick == [(0, 0, 2, 0), (0, 1, 2, 1), (0, 2, 2, 2), (0, 0, 0, 2), (2, 0, 2, 2)]


def test_colours_stand_for_symbols_and_pieces_are_placed():
    parts = drawn(PuzzleLook(("a", "b", "c", "d"), ("#000000", "#111111", "#222222", "#333333"), (0, 0)))

    assert [piece.colour for piece in parts if piece.kind == "box"] == ["#222222", "#333333", "#333333", "#222222"]
    assert not [piece for piece in parts if piece.kind == "letter"]
    assert len([piece for piece in parts if piece.kind == "outline"]) == 2  # black on white
    assert placed(Piece("line", "red", (0, 1, 2, 3), 0.5), 10, 20, 4) == Piece("line", "red", (10, 24, 18, 32), 2.0)
    assert [stills(segments) for segments in (1, 3, 8, 12)] == [[0, 1], [0, 1, 2, 3], [0, 1, 2, 4, 8], [0, 1, 2, 4, 8, 12]]


# ------------------------------------------------------------------------------------------------------------- numbers


def test_the_front_by_hand():
    """More is better upwards, less to the right: (3, 3) is beaten by (4, 3), and of two alike both stay."""
    points = np.array([[4.0, 3.0], [3.0, 3.0], [2.0, 1.0], [2.0, 1.0], [5.0, 9.0], [1.0, 2.0]])

    assert front(points, ["max", "min"]).tolist() == [True, False, True, True, True, False]
    assert front(np.empty((0, 2)), ["max", "min"]).tolist() == []


def test_the_running_best_skips_what_has_no_value():
    assert running_best([None, 2, 1, None, 3], "max").tolist()[1:] == [2, 2, 2, 3]
    assert running_best([4, 5, None, 3], "min").tolist() == [4, 4, 4, 3]
    assert np.isnan(running_best([None, 2], "max")[0])


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        (1, [1, 2, 6, 4, 5]),
        (2, [1, 1.5, 4, 5, 4.5]),  # itself and the one before
        (3, [1.5, 3, 4, 5, 4.5]),  # one on either side; at the ends one is missing
        (99, [3.6] * 5),
    ],
)
def test_moving_average_by_hand(window, expected):
    assert moving_average([1, 2, 6, 4, 5], window).tolist() == pytest.approx(expected)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=200), st.integers(2, 50))
def test_a_thinned_trace_is_short_in_order_and_as_wide_as_before(losses, most):
    values = np.array(losses)
    kept = thin(values, most)

    assert len(kept) <= most
    assert (np.diff(kept) > 0).all()
    assert (values[kept].min(), values[kept].max()) == (values.min(), values.max())


@given(st.text(alphabet=st.sampled_from(" <>&\"'ab\n\N{GREEK SMALL LETTER ALPHA}"), max_size=600))
def test_a_folded_text_is_folded_where_it_is_long(text):
    assert ("<details" in folded(text, {"a", "ab"})) == (len(text) > FOLD and bool(text.strip()))


def test_words_are_compared_without_case_and_punctuation():
    assert known_words(["CT: a Mass,", "mass-like"]) == {"ct": 1, "a": 1, "mass": 1, "like": 1}
    assert folded("Mass; massive", {"mass"}) == "<mark>Mass</mark>; massive"
