"""What a run kept of its inside, as figures: loads, experts along a caption, attention; and what is missing or damaged."""

import json
import re
from itertools import pairwise

import numpy as np
import pytest
from made_up import as_result, captioned, run_id, write_caption_study, write_captions

from recstudy.analysis import AttentionMaps, ExpertLoad, ExpertPath
from recstudy.analysis.figures.attention_and_experts import (
    LINE,
    ORANGE,
    attention_caption,
    attention_data,
    attention_figure,
    loads_caption,
    loads_data,
    loads_figure,
    path_caption,
    path_data,
    path_figure,
    tinted,
)
from recstudy.analysis.figures.layout import shade
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.analysis.traces import read_trace
from recstudy.errors import ConfigError, StorageError
from recstudy.records import Results
from recstudy.report import dump_report

HOSTILE = "</script><b>"
WORDS = ["[start]", HOSTILE, "[end]"]
LOAD = {"load": [[6, 2, 0, 0], [2, 2, 3, 1]], "entropy": [0.5, 1.25], "dropped": [0, 0], "tokens": 4}
PARTS = [ExpertLoad(), ExpertPath(), AttentionMaps()]


def arrays(tokens: int = 2, **changes):
    """Two captions of two tokens in two layers: the second image is looked at in its first place by one head alone."""
    cross = np.full((2, 2, 2, tokens, 4), 0.25)
    cross[1, 1, 1] = [1, 0, 0, 0]
    own = np.tril(np.ones((tokens, tokens)))
    own = np.broadcast_to(own / own.sum(-1, keepdims=True), (2, 2, 2, tokens, tokens))
    router = np.broadcast_to([[[0.75, 0.25], [0.5, 0.5]], [[0.125, 0.875], [1.0, 0.0]]], (2, 2, 2, 2))
    router = np.pad(router, ((0, 0), (0, 0), (0, tokens - 2), (0, 0)), mode="edge")
    made = {
        "rows": np.array([0, 3]),
        "lengths": np.array([tokens, tokens]),
        "words": np.array([[*WORDS[:2], *["w"] * (tokens - 2), WORDS[2]]] * 2),
        "cross_attention": cross.astype(np.float16),
        "self_attention": own.astype(np.float16),
        "router": router.astype(np.float16),
        "chosen": (-router).argsort(-1, kind="stable")[..., :1].astype(np.int16),
    }
    return {name: value for name, value in (made | changes).items() if value is not None}


def keep(results: Results, identity: str, **changes):
    np.savez_compressed(results.run(identity).path / "trace.npz", **arrays(**changes))


@pytest.fixture
def study(tmp_path):
    """The second seed of "HRM, three loops" has a trace and a load, the TRM's first seed a load on two experts."""
    results = write_caption_study(tmp_path / "r", report=dump_report(PARTS))
    routed(results, run_id(2, 1), LOAD)
    routed(results, run_id(3, 0), LOAD | {"load": [[1, 3], [2, 2]]})
    keep(results, run_id(2, 1))
    write_captions(results, run_id(2, 1), [(["a"], "b")] * 2, np.full((2, 3, 8, 8), 80))
    return results


def routed(results, identity, routing):
    made = captioned(0.4)
    made["metrics"] |= {"router_entropy": 0.875, "expert_load_peak": 75.0, "dropped_tokens": 0.0}
    results.run(identity).finish(as_result(made | {"routing": routing}))


def records(results):
    return load_study(results, "made_up", "paper")


def test_shares_of_a_layer_by_hand(study):
    data = loads_data(records(study), ExpertLoad())

    first = data.frame[data.frame["variant"] == 2]
    assert first["share"].tolist() == [75, 25, 0, 0, 25, 25, 37.5, 12.5]
    assert first[["seed", "layer", "expert", "tokens", "even", "entropy"]].values.tolist()[4] == [1, 2, 1, 2, 25, 1.25]
    assert data.frame[data.frame["variant"] == 3]["even"].tolist() == [50] * 4
    assert any(note.endswith("no finished run: LSTM / HRM, two loops") for note in data.notes)
    assert "no token was dropped" in loads_caption(data)
    assert "0.69 of 2, 1.39 of 4 experts" in loads_caption(data)


def test_a_panel_a_variant_and_numbers_in_the_cells(study):
    figure = loads_figure(loads_data(records(study), ExpertLoad()))

    assert [list(trace.z) for trace in figure.data] == [[[75, 25, 0, 0], [25, 25, 37.5, 12.5]], [[25, 75], [50, 50]]]
    assert list(figure.data[0].text[1]) == ["25.0", "25.0", "37.5", "12.5"]
    assert figure.layout.coloraxis.colorbar.ticktext == ("0", "25 even", "50 even", "75")
    assert figure.layout.yaxis.ticktext == ("layer 1: 0.50 nats", "layer 2: 1.25 nats")
    assert figure.layout.yaxis.domain[0] > figure.layout.yaxis2.domain[1]


def test_a_scale_has_room_for_its_marks():
    assert shade(13, "%", [12.5])["colorbar"]["ticktext"] == ["0", "12.5 even"]
    assert shade(10, "%", [12.5])["colorbar"]["ticktext"] == ["0", "10"]


@pytest.mark.parametrize("routing", [None, {}, LOAD | {"entropy": [1.0]}, LOAD | {"load": [[0, 0], [1, 1]]}, LOAD | {"load": 3}])
def test_a_load_that_is_damaged_is_said(study, routing):
    routed(study, run_id(2, 1), routing)

    data = loads_data(records(study), ExpertLoad())

    assert set(data.frame["variant"]) == {3}
    assert any(f"HRM, three loops: runs/{run_id(2, 1)}/result.json is damaged (routing" in note for note in data.notes)


def test_each_tokens_experts(study):
    data = path_data(records(study), ExpertPath())

    assert data.frame[["place", "token", "layer", "expert", "probability", "choice"]].fillna(0).values.tolist() == [
        [1, "[start]", 1, 1, 0.75, 1],
        [1, "[start]", 1, 2, 0.25, 0],
        [2, HOSTILE, 1, 1, 0.5, 1],
        [2, HOSTILE, 1, 2, 0.5, 0],
        [1, "[start]", 2, 1, 0.125, 0],
        [1, "[start]", 2, 2, 0.875, 1],
        [2, HOSTILE, 2, 1, 1.0, 1],
        [2, HOSTILE, 2, 2, 0.0, 0],
    ]
    assert path_caption(data).startswith("HRM, three loops, seed 1, Phantoms test image 0. ")
    assert path_caption(data).endswith("1 marks the expert that ran on it.")


def test_a_panel_a_layer_and_the_choice_in_its_cell(study):
    figure = path_figure(path_data(records(study), ExpertPath()))

    assert [list(trace.z) for trace in figure.data] == [[[75, 50], [25, 50]], [[12.5, 100], [87.5, 0]]]
    assert [list(trace.text) for trace in figure.data] == [[["1", "1"], ["", ""]], [["", "1"], ["1", ""]]]
    assert figure.layout.xaxis2.ticktext == ("[start]", "&lt;/script&gt;&lt;b&gt;")
    assert not figure.layout.xaxis.showticklabels


def test_a_long_caption_goes_on_below(study):
    keep(study, run_id(2, 1), tokens=LINE + 3)

    figure = path_figure(path_data(records(study), ExpertPath()))

    assert [len(trace.x) for trace in figure.data] == [LINE, LINE, 3, 3]
    assert figure.layout.xaxis3.range == (LINE + 0.5, 2 * LINE + 0.5)  # cells of one width
    domains = [figure.layout[f"yaxis{number}"].domain for number in ("", 2, 3, 4)]
    assert all(upper[0] > lower[1] for upper, lower in pairwise(domains))


def test_attention_is_the_mean_or_one_head(study):
    mean, one = (
        attention_data(records(study), spec) for spec in (AttentionMaps(example=1), AttentionMaps(example=1, layer=2, head=2))
    )

    assert mean.cross[0].tolist() == [0.4375, 0.1875, 0.1875, 0.1875]
    assert one.cross[0].tolist() == [1, 0, 0, 0]
    looked = mean.frame[mean.frame["of"] == "image"]
    assert looked[["row", "place", "word", "at", "seen", "share"]].values.tolist()[:2] == [
        [3, 1, HOSTILE, 1, "row 1, column 1", 43.75],
        [3, 1, HOSTILE, 2, "row 1, column 2", 18.75],
    ]
    read = mean.frame[mean.frame["of"] == "caption"]
    assert read[["place", "word", "at", "seen", "share"]].values.tolist() == [
        [1, "[start]", 1, "[start]", 100],
        [2, HOSTILE, 1, "[start]", 50],
        [2, HOSTILE, 2, HOSTILE, 50],
    ]
    assert "the mean of all 2 layers and the mean of all 2 heads" in attention_caption(mean)
    assert "layer 2 of 2 and head 2 of 2" in attention_caption(one)
    assert "even attention, which is 25 %, and full at 50 %" in attention_caption(mean)  # twice the even: 44 % is the most
    assert "full at 100 %" in attention_caption(one)


def test_a_layer_that_is_not_there_is_named(study):
    with pytest.raises(ConfigError, match=r"attention 'attention': head must be at most 2, but got 3"):
        attention_data(records(study), AttentionMaps(head=3))


def test_a_tile_a_word_and_a_grid_below(study):
    figure = attention_figure(attention_data(records(study), AttentionMaps()))

    picture, unseen, words, grid = figure.data
    assert words.text == ("<i>the image</i>", "&lt;/script&gt;&lt;b&gt;", "[end]")
    assert unseen.hovertext[2] == "[end]: most at row 1, column 1, 25 %"
    np.testing.assert_array_equal(np.array(grid.z, dtype=float), [[100, np.nan], [50, 50]])
    assert figure.layout.coloraxis.cmax == 50  # the first token has nothing but itself
    assert picture.source.startswith("data:image/")


def test_the_tint_is_deepest_where_most_is_attended_to():
    """Blocks of a 2x2 grid on 4x4 pixels, even at a quarter; the gray is dimmed by a quarter."""
    image = np.full((4, 4, 3), 100, dtype=np.uint8)

    tile = tinted(image, np.array([[0.5, 0.125], [0.375, 0.0]]), 0.25, 0.5)

    orange = np.array(ORANGE)
    assert tile[0, 2].tolist() == tile[3, 3].tolist() == [75, 75, 75]
    assert tile[1, 1].tolist() == (0.15 * 75 + 0.85 * orange).astype(int).tolist()
    assert tile[2, 0].tolist() == (0.575 * 75 + 0.425 * orange).astype(int).tolist()


def test_attention_without_experts_self_attention_or_image(study):
    """As of Show, Attend and Tell, whose one map is no mean."""
    none = {"self_attention": None, "router": None, "chosen": None}
    keep(study, run_id(2, 1), **none, cross_attention=np.full((2, 1, 1, 2, 4), 0.25, dtype=np.float16))
    (study.run(run_id(2, 1)).path / "captions.npz").unlink()

    seen, route = attention_data(records(study), AttentionMaps()), path_data(records(study), ExpertPath())

    assert "mean" not in attention_caption(seen)
    assert [trace.type for trace in attention_figure(seen).data] == ["image", "scatter", "scatter"]
    assert "HRM, three loops: the image of test row 0 was not kept" in seen.notes
    assert route.frame.empty
    assert route.notes[-1].endswith("the experts of a caption: LSTM / HRM, two loops / HRM, three loops / 1 more")


def test_a_variant_without_files_is_said_and_no_error(study):
    seen = attention_data(records(study), AttentionMaps(where={"model": "LSTM"}))
    absent = path_data(records(study), ExpertPath(example=4))

    assert seen.frame.empty
    assert seen.notes[-1] == "no finished run has kept the attention of a caption: LSTM"
    assert "(example 4): LSTM" in absent.notes[-1]
    for part in PARTS:
        page = write_report(empty(study, part), "made_up", "paper").read_text()
        assert "Nothing to draw yet" in page


def empty(study, part):
    return write_caption_study(study.root.parent / part.name, report=dump_report([part]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cross_attention": None}, "it has no cross_attention"),
        ({"words": np.array([["a", "b"]] * 2)}, "2 words with the attention of 2 tokens"),
        ({"cross_attention": np.full((2, 2, 2, 2, 5), 0.2)}, "5 places are no square grid"),
        ({"self_attention": np.full((2, 2, 2, 2, 2), np.nan)}, "a row does not sum to 1"),
        ({"router": np.full((2, 2, 2, 2), 0.75)}, "a row does not sum to 1"),
        ({"chosen": np.full((2, 2, 2, 1), 2)}, "an expert that is none of 2"),
        ({"chosen": None}, "KeyError"),
        ({"rows": np.array([{}], dtype=object)}, "allow_pickle"),
    ],
)
def test_a_damaged_trace_is_named(study, change, words):
    keep(study, run_id(2, 1), **change)

    with pytest.raises(StorageError, match=rf"runs/{run_id(2, 1)}/trace\.npz is damaged \(.*{words}"):
        read_trace(study.run(run_id(2, 1)).path / "trace.npz", 0)
    assert any("trace.npz is damaged" in note for note in path_data(records(study), ExpertPath()).notes)


def test_the_page_has_all_three_and_no_word_of_a_caption_as_markup(study):
    page = write_report(study, "made_up", "paper")

    text = page.read_text()
    assert text.count('class="figure"') == 3
    assert HOSTILE not in text
    assert "[start] &lt;/script&gt;&lt;b&gt; [end]" in text  # for screen readers
    figures = page.parent / "figures"
    assert {path.name for path in figures.glob("*.csv")} == {"load.csv", "experts.csv", "attention.csv"}
    for file in figures.glob("*.html"):
        assert HOSTILE not in file.read_text()
    shown = [json.loads(part) for part in re.findall(r'<script type="application/json">(.*?)</script>', text)]
    assert [figure["layout"]["meta"]["panels"] > 0 for figure in shown] == [True] * 3
