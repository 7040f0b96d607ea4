import os
import shutil

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up import as_result, result, run_id, variants, write_mistakes, write_study
from PIL import Image

from recstudy.analysis import Mistakes
from recstudy.analysis.figures.mistakes import (
    draw_mistakes,
    in_words,
    mistakes_caption,
    mistakes_data,
    mistakes_figure,
    read_mistakes,
    short_names,
    tile_labels,
)
from recstudy.analysis.figures.theme import Size
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.analysis.shown import write_figure
from recstudy.errors import StorageError
from recstudy.report import dump_report

CHROMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = os.environ.get("BROWSER_PATH") or next(filter(None, map(shutil.which, CHROMES)), None)
GREY = np.arange(3 * 64).reshape(3, 1, 8, 8)  # three digits of 8 x 8
HOSTILE = '<b>"&'


def found(results, spec=Mistakes(), **arguments):  # noqa: B008
    return mistakes_data(load_study(results, "made_up", "paper"), spec, **arguments)


def test_the_first_finished_seed_of_each_variant(results):
    write_mistakes(results, run_id(0, 1), GREY)
    write_mistakes(results, run_id(0, 2), GREY[:1])
    write_mistakes(results, run_id(3, 2), GREY)  # still running: what it has got wrong may yet change

    data = found(results)

    assert data.frame.to_dict("list") == {
        "variant": [0, 0, 0],
        "label": ["ViTRM, batch_size=64"] * 3,
        "seed": [1, 1, 1],
        "row": [0, 3, 6],
        "true": ["cat", "dog", "cat"],
        "predicted": ["dog", "cat", "dog"],
        "synthetic": [False] * 3,
    }
    assert [image.tolist() for image in data.images] == [image.transpose(1, 2, 0).tolist() for image in GREY]
    assert data.notes == ()


def test_most_and_where(results):
    write_mistakes(results, run_id(0, 0), GREY)
    write_mistakes(results, run_id(1, 0), GREY)

    assert len(found(results, Mistakes(most=2)).images) == 4
    assert set(found(results, Mistakes(where={"batch_size": 128})).frame["variant"]) == {1}


def test_too_many_variants_are_cut_and_said(results):
    for variant in range(3):
        write_mistakes(results, run_id(variant, 0), GREY)

    data = found(results, most=2)

    assert set(data.frame["variant"]) == {0, 2}
    assert data.notes == ("the 2 best of 3 variants by top-1 accuracy",)


def test_a_model_without_mistakes_is_said(results):
    write_mistakes(results, run_id(0, 0), GREY[:0])

    data = found(results)

    assert data.frame.empty
    assert data.notes == ("ViTRM, batch_size=64: no test image is misclassified",)


@pytest.mark.parametrize(
    "changes",
    [
        {"images": GREY.astype(np.float32)},
        {"images": GREY[:2].astype(np.uint8)},
        {"images": GREY[:, 0].astype(np.uint8)},
        {"images": np.zeros((3, 2, 8, 8), np.uint8)},
        {"images": np.zeros((3, 1, 0, 8), np.uint8)},
        {"labels": np.array([0, 1, 2])},
        {"labels": np.array([0, 1, -1])},
        {"names": np.array([{"cat": 1}, "dog"], dtype=object)},  # needs pickle, which may run anything
    ],
)
def test_a_damaged_archive_is_named(results, changes):
    write_mistakes(results, run_id(0, 0), GREY, **changes)

    with pytest.raises(StorageError, match=rf"runs/{run_id(0, 0)}/mistakes\.npz is damaged \(ValueError: .* run the study again"):
        read_mistakes(results.run(run_id(0, 0)).mistakes, 25)


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_damage_is_an_error_of_ours_or_still_readable(results, data):
    write_mistakes(results, run_id(0, 0), GREY)
    path = results.run(run_id(0, 0)).mistakes
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    cut = data.draw(st.booleans())
    path.write_bytes(whole[:at] if cut else whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :])

    try:
        frame, images = read_mistakes(path, 25)
    except StorageError:
        return
    assert len(frame) == len(images) == 3


def test_a_damaged_archive_leaves_the_rest_of_the_report(results):
    report = dump_report([Mistakes()])
    results = write_study(results.root, report=report)
    write_mistakes(results, run_id(0, 0), GREY)
    results.run(run_id(1, 0)).mistakes.write_bytes(b"torn")

    page = write_report(results, "made_up", "paper").read_text()

    assert f"ViTRM, batch_size=128: runs/{run_id(1, 0)}/mistakes.npz is damaged" in page
    assert "T cat, P dog" in page


def test_without_any_file_there_is_nothing_to_draw(results):
    results = write_study(results.root, report=dump_report([Mistakes()]))

    assert "Nothing to draw yet" in write_report(results, "made_up", "paper").read_text()


def test_class_names_are_cut_between_words_or_where_they_differ():
    assert short_names(["cat", "aquarium_fish", "automobile", "strawberries"], 10) == {
        "cat": "cat",
        "aquarium_fish": "aquarium…",
        "automobile": "automobile",
        "strawberries": "strawberr…",
    }
    assert list(short_names(["Pleural_Thickening", "Pleural_Effusion"], 10).values()) == ["Pleur…ning", "Pleur…sion"]


def test_words_of_a_tile_stand_in_one_line_or_two(results):
    write_mistakes(results, run_id(0, 0), GREY, names=np.array(["9", "4"]))
    assert tile_labels(found(results).frame)[0] == "T 9, P 4"
    write_mistakes(results, run_id(0, 0), GREY)
    assert tile_labels(found(results).frame)[0] == "T cat, P dog"
    write_mistakes(results, run_id(0, 0), GREY, names=np.array(["airplane", "aquarium_fish"]))
    assert tile_labels(found(results).frame)[0] == "T airplane<br>P aquarium…"


def test_the_figure_has_a_picture_words_and_something_under_the_pointer(results):
    write_mistakes(results, run_id(0, 0), np.tile(GREY, (2, 1, 1, 1)), names=np.array(["cat", "aquarium_fish"]))
    data = found(results)

    figure = mistakes_figure(data)

    picture, pointer, words = figure.data
    assert picture.source.startswith("data:image/png;base64,")
    assert pointer.hovertext[0] == "T cat, P aquarium_fish, test image 0, seed 0"
    assert words.text[1] == "T aquarium…<br>P cat"
    assert (pointer.x[1], pointer.y[0]) == (128 + 12 + 64, 64)  # the middles of tiles of 128, 12 apart
    assert (pointer.x[5], pointer.y[5]) == (64, 128 + 56 + 64)  # the sixth begins a row, under two lines of words
    assert (figure.layout.xaxis.range, figure.layout.yaxis.range) == ((-0.5, 699.5), (367.5, -0.5))
    assert figure.layout.annotations[0].text == "<b>ViTRM, batch_size=64</b>"
    assert mistakes_caption(data).startswith("T: true class, P: predicted class. The first 6 misclassified images")
    assert in_words(data.frame).startswith("ViTRM, batch_size=64: T cat, P aquarium_fish, T aquarium_fish, P cat,")


def test_panels_stand_side_by_side_where_there_is_room(results):
    """Two panels of one row (3 tiles of 5): 1 / 5 of a panel's width high, times 1.25 for the words, less the gaps."""
    for variant in range(2):
        write_mistakes(results, run_id(variant, 0), GREY)
    figure = mistakes_figure(found(results))
    ratio = figure.layout.meta["grid"]["ratio"]

    assert ratio == pytest.approx(1.25 / (5 * (1 + 3 / 32)))
    assert figure.layout.xaxis2.domain == pytest.approx((338 / 676, (338 + 326) / 676))
    assert figure.layout.meta["grid"]["whole"] == pytest.approx(46 + 326 * ratio)
    narrow = mistakes_figure(found(results), Size(420, printed=False))
    assert narrow.layout.xaxis2.domain == pytest.approx((0, 384 / 396))
    assert narrow.layout.yaxis.domain[0] > narrow.layout.yaxis2.domain[1]
    assert narrow.layout.meta["grid"]["whole"] == pytest.approx(2 * (46 + 384 * ratio))


def test_hostile_class_names_are_text(tmp_path):
    named = variants()
    named[0]["label"] = HOSTILE
    results = write_study(tmp_path / "r", variants=named, report=dump_report([Mistakes()]))
    write_mistakes(results, run_id(0, 0), GREY, names=np.array([HOSTILE, "<script>"]))

    data = found(results)
    figure = mistakes_figure(data)
    page = write_report(results, "made_up", "paper").read_text()

    assert figure.data[2].text[0] == 'T &lt;b&gt;"&amp;<br>P &lt;script&gt;'
    assert figure.data[1].hovertext[0].startswith('T &lt;b&gt;"&amp;, P &lt;script&gt;')
    assert figure.layout.annotations[0].text == '<b>&lt;b&gt;"&amp;</b>'
    assert "T &lt;b&gt;&quot;&amp;, P &lt;script&gt;" in page
    assert page.count("<script>") == 3  # the drawing library, what draws with it, and the buttons that copy


def test_variants_may_have_images_of_other_sizes(results):
    write_mistakes(results, run_id(0, 0), GREY)
    write_mistakes(results, run_id(1, 0), np.zeros((2, 3, 28, 28)))

    figure = mistakes_figure(found(results))

    assert (figure.layout.xaxis.range[1], figure.layout.xaxis2.range[1]) == (5 * 140 - 0.5, 5 * 153 - 0.5)


@pytest.mark.whole
@pytest.mark.skipif(BROWSER is None, reason="no Chrome or Chromium is installed")
def test_export_for_real(results, tmp_path):
    """The picture is in the exported image: a white tile on white paper would not show, so all of it is black."""
    write_mistakes(results, run_id(0, 0), np.zeros((1, 1, 8, 8)))
    assert write_figure(draw_mistakes(load_study(results, "made_up", "paper"), Mistakes()), tmp_path, "m", ["pdf", "png"]) is None

    assert (tmp_path / "m.pdf").read_bytes().startswith(b"%PDF-")
    printed = np.asarray(Image.open(tmp_path / "m.png").convert("L"))
    side = 2.5 * 640 / (5 * (1 + 3 / 32))  # a tile's, at 300 pixels an inch, of which the figure has 120
    assert (printed < 20).sum() == pytest.approx(side**2, rel=0.05)


def test_a_finished_run_without_the_file_is_absent(results):
    results.run(run_id(3, 0)).finish(as_result(result(90.0)))

    assert found(results).frame.empty
