"""Each kind of part on made-up studies: what it says (golden), what damaged files cost, and what is refused."""

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pytest
from golden_pages import PARTS as GOLDEN
from golden_pages import part_file, part_text
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_up import (
    TRIALS,
    as_result,
    base,
    caption_plan,
    plan,
    read,
    result,
    run_id,
    variants,
    write_alignment,
    write_caption_study,
    write_captions,
    write_chest,
    write_losses,
    write_mistakes,
    write_search,
    write_study,
    write_thinking,
)
from made_up import thinking as puzzles
from PIL import Image
from pycocoevalcap.bleu.bleu import Bleu
from rich.console import Console
from scenarios import (
    COUNTED,
    GREY,
    LOAD,
    SCENARIOS,
    inside,
    leaky,
    records_of,
    routed,
    seven,
    swept,
    trace,
    written,
)

from recstudy.analysis.cells import cell
from recstudy.analysis.figures.layout import dress
from recstudy.analysis.figures.learning import cut_note, shown_variants
from recstudy.analysis.figures.theme import Size, style
from recstudy.analysis.kinds import drawn, shown
from recstudy.analysis.report import write_report
from recstudy.analysis.targets import Placement
from recstudy.errors import ConfigError
from recstudy.metrics import METRICS
from recstudy.records import Results, write_json
from recstudy.report import (
    PARTS,
    Alignment,
    Arithmetic,
    AttentionMaps,
    Best,
    Captions,
    Curve,
    ExpertLoad,
    ExpertPath,
    HeatMap,
    History,
    Importance,
    Interactions,
    LearningCurves,
    LossTrace,
    Mistakes,
    ParallelCoordinates,
    Pareto,
    Replications,
    Slices,
    Table,
    Thinking,
    dump_report,
)


@pytest.mark.parametrize("name", SCENARIOS)
def test_golden_parts(name, tmp_path):
    """`python tests/analysis/golden_pages.py parts` writes them anew."""
    assert part_text(name, tmp_path / "r") == part_file(name).read_text()


def test_every_kind_of_part_has_a_scenario_and_every_file_too():
    assert {type(part) for _, part in SCENARIOS.values()} == {one for one in PARTS.values() if one.__module__.startswith("rec")}
    assert {path.name for path in GOLDEN.iterdir()} == {part_file(name).name for name in SCENARIOS}


# ------------------------------------------------------------------------------------------------------ names are text


class Tags(HTMLParser):
    """The tags of some HTML with their attributes, its words, and those that are marked."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words, self.marked, self.open = "", list[str](), ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open = tag

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        self.words += data
        if self.open == "mark":
            self.marked.append(data)


@pytest.mark.parametrize("name", [name for name in SCENARIOS if "hostile" in name])
def test_hostile_names_are_text_in_every_form(name, tmp_path):
    build, part = SCENARIOS[name]
    records = records_of(build, tmp_path / "r")
    made, console = shown(records, part), Console(width=600, record=True, file=io.StringIO())
    page = Tags(made.html)

    assert {tag for tag, _ in page.tags if tag in ("b", "a", "i")} <= {"a"}
    assert [attrs.get("type") for tag, attrs in page.tags if tag == "script"] in ([], ["application/json"])
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert "<script" not in made.markdown
    assert "<img" not in made.markdown
    if made.drawn and not made.drawn.data.empty:
        traces = [{**trace, "legendgroup": ""} for trace in json.loads(made.drawn.figure.to_json())["data"]]  # nothing shows it
        assert "<script" not in json.dumps(traces)
    if made.page:
        console.print(made.in_terminal())
        assert "[1](http://x)" in console.export_text()
        assert r"\textbackslash{}evil" in made.latex


# ------------------------------------------------------------------------------------------------------ damaged files


def mistakes_of(results, **changes):
    write_mistakes(results, run_id(0, 0), changes.pop("of", GREY), **changes)


def puzzles_of(results, **changes):
    kept = {name: value for name, value in puzzles(**changes).items() if value is not None}
    results.run(run_id(0, 0)).path.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(results.run(run_id(0, 0)).path / "thinking.npz", **kept)


def trace_of(results, **changes):
    np.savez_compressed(results.run(run_id(0, 0)).path / "trace.npz", **trace(**changes))


def captions_of(results, content=None, images=None):
    write_captions(results, run_id(0, 0), [(["a"], "b")] * 2, images)
    if content is not None:
        write_json(results.run(run_id(0, 0)).path / "captions.json", content)


def pairs_of(results, content):
    write_alignment(results, run_id(0, 0), [(0.1, 0.2)])
    (results.run(run_id(0, 0)).path / "alignment.json").write_text(content)


def cosine(value: str) -> str:
    return f'{{"pairs": [{{"row": 1, "caption": "x", "before": 0.1, "after": {value}}}]}}'


U8, COLOUR = np.uint8, "colours are not one #RRGGBB a token"
DAMAGES = [
    *((Mistakes(), mistakes_of, own, "ValueError: ") for own in (
        {"images": GREY.astype(np.float32)}, {"images": GREY[:2].astype(U8)}, {"images": GREY[:, 0].astype(U8)},
        {"images": np.zeros((3, 2, 8, 8), U8)}, {"images": np.zeros((3, 1, 0, 8), U8)}, {"labels": np.array([0, 1, 2])},
        {"labels": np.array([0, 1, -1])}, {"names": np.array([{"cat": 1}, "dog"], dtype=object)},  # needs pickle: may run anything
    )),
    *((Thinking(), puzzles_of, own, said) for own, said in (
        ({"halt": None}, "KeyError: 'halt'"),
        ({"cells": np.zeros((2, 3, 5), U8)}, "cells of (2, 3, 5) for 2 puzzles of 2x2"),
        ({"cells": np.zeros((2, 0, 4), U8)}, "cells of (2, 0, 4)"),
        ({"rows": np.zeros(0, int)}, "for 0 puzzles"),
        ({"given": np.zeros((1, 4), U8)}, "given of (1, 4) for 2 puzzles of 2x2"),
        ({"answers": np.zeros((2, 3), U8)}, "answers of (2, 3)"),
        ({"cells": np.zeros((2, 3, 4))}, "cells of float64, but tokens are uint8"),
        ({"given": np.full((2, 4), -1)}, "given of int64"),
        ({"given": np.full((2, 4), 4, U8)}, "token 4, but 4 symbols"),
        ({"colours": np.array(["#000000"])}, COLOUR),
        ({"colours": np.array(["red", "#000000", "#000000", "#000000"])}, COLOUR),
        ({"boxes": np.array([2, 3])}, "boxes of (2, 3) in 2x2 cells"),
        ({"boxes": np.array([0, 2])}, "boxes of (0, 2) in 2x2 cells"),
        ({"halt": np.zeros((2, 2), np.float32)}, "halt of (2, 2) for 3 segments"),
        ({"halt": np.full((2, 3), np.nan)}, "halt"),
        ({"shape": np.array([4])}, "ValueError"),
    )),
    *((part, trace_of, own, said) for part in (ExpertPath(), AttentionMaps()) for own, said in (
        ({"cross_attention": None}, "it has no cross_attention"),
        ({"words": np.array([["a", "b"]] * 2)}, "2 words with the attention of 2 tokens"),
        ({"cross_attention": np.full((2, 2, 2, 2, 5), 0.2)}, "5 places are no square grid"),
        ({"self_attention": np.full((2, 2, 2, 2, 2), np.nan)}, "a row does not sum to 1"),
        ({"router": np.full((2, 2, 2, 2), 0.75)}, "a row does not sum to 1"),
        ({"chosen": np.full((2, 2, 2, 1), 2)}, "an expert that is none of 2"),
        ({"chosen": None}, "KeyError"),
        ({"rows": np.array([{}], dtype=object)}, "an array of object"),
    )),
    *((Captions(), captions_of, {"content": own}, said) for own, said in (
        ({"format": 1}, "it has no list of examples"),
        ({"examples": [{"row": 1}]}, "examples[0] lacks one of row, references, hypothesis"),
        ({"examples": [{"row": 1, "references": [2], "hypothesis": "x"}]}, "a reference is no text"),
    )),
    *((Captions(), captions_of, {"images": own}, "captions.npz is damaged (ValueError: ") for own in (
        np.zeros((2, 8, 8)), np.zeros((2, 2, 8, 8)), np.zeros((2, 3, 0, 8)), np.zeros((1, 3, 8, 8, 1)),
    )),
    *((Alignment(), pairs_of, {"content": cosine(own)}, "pairs[0]") for own in ("1.5", "NaN", '"0.3"', "null", "true")),
    (Alignment(), pairs_of, {"content": '{"pairs": 3}'}, "it has no list of pairs"),
    *((ExpertLoad(), lambda results, load: routed(results, run_id(0, 0), load), {"load": own}, "result.json is damaged (routing")
      for own in (None, {}, LOAD | {"entropy": [1.0]}, LOAD | {"load": [[0, 0], [1, 1]]}, LOAD | {"load": 3})),
]  # fmt: skip


@pytest.mark.parametrize(("part", "damage", "changes", "words"), DAMAGES)
def test_damage_is_one_line_that_names_the_file_and_the_fix(tmp_path, part, damage, changes, words):
    results = write_caption_study(tmp_path / "r")
    damage(results, **changes)

    made = shown(read(results), part)

    notes = (*made.notes, *(made.drawn.notes if made.drawn else ()))
    (said,) = [note for note in notes if "is damaged" in note]
    assert said.startswith(f"LSTM: runs/{run_id(0, 0)}/")
    assert words in said
    assert said.endswith("Remove that run's folder and run the study again.")
    assert "\n" not in said


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_any_damage_is_an_error_of_ours_or_still_readable(results, data):
    mistakes_of(results)
    path = results.run(run_id(0, 0)).mistakes
    whole = path.read_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    cut = data.draw(st.booleans())
    path.write_bytes(whole[:at] if cut else whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :])

    made = drawn(read(results), Mistakes())

    assert len(made.data) == (0 if any("is damaged" in note for note in made.notes) else 3)


def test_damage_of_one_run_leaves_the_others_in_the_report(tmp_path):
    parts = [Mistakes(), Thinking(), Captions(), Alignment(), ExpertPath()]
    results = inside(tmp_path / "r")
    write_json(results.study("made_up", "paper") / "plan.json", caption_plan(report=dump_report(parts)))
    for at, name in ((0, "torn"), (1, "")):
        write_mistakes(results, run_id(at, 0), GREY)
        write_thinking(results, run_id(at, 0))
        write_captions(results, run_id(at, 0), [(["a film"], "a film")])
        write_alignment(results, run_id(at, 0), [(0.1, 0.4)])
        for file in ("mistakes.npz", "thinking.npz", "captions.json", "alignment.json") if name else ():
            path = results.run(run_id(at, 0)).path / file
            path.write_bytes(path.read_bytes()[:30])

    page = write_report(results, "made_up", "paper").read_text()

    assert all(f"{file} is damaged" in page for file in ("mistakes.npz", "thinking.npz", "captions.json", "alignment.json"))
    for words in ("HRM, two loops: T cat, P dog", "HRM, two loops, seed 0", "HRM, two loops <small>", "of image and caption"):
        assert words in page


# ----------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("part", "message"),
    [
        *((spec, f"'{spec.name}' shows a search, but made_up is a study of given variants. Take it out")
          for spec in (Best(), History(), Importance(), ParallelCoordinates(), Slices())),
        (Pareto(), "'pareto' needs y: made_up is no search"),
        (HeatMap("h", x="batch_sise", y="model"), r"the report names 'batch_sise', but the study has .* Did you mean 'batch_size'"),
        (Interactions(where={"model": "ViTRM"}), "interactions 'interactions' needs two axes, but batch_size varies here"),
        (Table("t", rows="modle", columns="batch_size"), "the report names 'modle', but the study has model, batch_size"),
        (Table("t", settings=("model.wdith",)), r"the report names 'model\.wdith', .* Did you mean 'model\.width'"),
        (Table("t", group="dta"), "the report names 'dta', but the study has model, batch_size"),
        (Table("c", rows="model", columns="data", metrics=("ece*",)), r"table 'c' has nothing to show: no run has a metric ece\* yet"),
    ],
)  # fmt: skip
def test_what_a_study_does_not_have_is_refused(tmp_path, part, message):
    build = (lambda root: write_study(root, seeds=[])) if part.name == "c" else write_study

    with pytest.raises(ConfigError, match=message):
        shown(records_of(build, tmp_path / "r"), part)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Curve("c", x="batch_size", y="top1_accuracy", drop=True, log=True),
            "'c': drops are zero or less, which log cannot",
        ),
        (lambda: Replications(cell="trm_mlp_sudoku"), r"no cell 'trm_mlp_sudoku': there are .* Did you mean 'trm_mlp_sudoku_"),
        (
            lambda: Arithmetic(counted=COUNTED, given=("vocab_odl",)),
            r"given 'vocab_odl', but counted are .* Did you mean 'vocab_old'",
        ),
        (
            lambda: Arithmetic(counted={"embed_odl": 1.0}),
            r"counted 'embed_odl', but the targets have .* Did you mean 'embed_old'",
        ),
        (lambda: Table("t", across=True, rows="model"), "table 't': across puts metrics in rows"),
        (lambda: Table("t", rows="data", columns="model", group="data"), "table 't': group goes with one row a variant"),
        (lambda: Table("t", rows="model", columns="data", settings=("a",)), "table 't': settings goes with one row a variant"),
        (
            lambda: Table("t", metrics=("avg_bleu_delta",)),
            r"improvement=\{AXIS: LEVEL\} and a metric such as top1_accuracy_delta",
        ),
        (lambda: Table("t", improvement={"model": "MicarVLMoE"}), "but only one of them is given"),
        (
            lambda: Table("t", across=True, metrics=("avg_bleu_delta",), improvement={"model": "MicarVLMoE"}),
            "table 't': improvement goes with one row a variant",
        ),
    ],
)
def test_fields_that_do_not_go_together_are_refused(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


def test_a_layer_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="attention 'attention': head must be at most 2, but got 3"):
        drawn(read(inside(tmp_path / "r")), AttentionMaps(head=3))


# ------------------------------------------------------------------------------------------------- which runs are shown


def test_the_best_variants_are_shown_where_there_are_too_many(tmp_path, monkeypatch):
    """Of scores that rank: AUROC where there is no accuracy, and of a loss the least; what leaks is the worst."""
    records = read(write_study(tmp_path / "a"))
    assert (shown_variants(records, 2), cut_note(records, 4, 2)) == ([0, 2], ("the 2 best of 4 variants by top-1 accuracy",))
    assert shown_variants(read(leaky(tmp_path / "l")), 3) == [1, 2, 3]
    chest = read(write_chest(tmp_path / "c"))
    assert (shown_variants(chest, 1), cut_note(chest, 2, 1)) == ([1], ("the 1 best of 2 variants by AUROC",))
    monkeypatch.setitem(METRICS, "auroc", replace(METRICS["auroc"], better="lower"))
    assert shown_variants(chest, 1) == [0]


@pytest.mark.parametrize("part", [Mistakes(), Thinking(), Captions(), Alignment()])
def test_one_finished_seed_of_six_variants_at_most_is_shown(tmp_path, part):
    results = seven(tmp_path / "r")
    for at in range(7):
        for seed in (1, 2):
            write_mistakes(results, run_id(at, seed), GREY)
            write_thinking(results, run_id(at, seed))
            write_captions(results, run_id(at, seed), [(["a"], "b")])
            write_alignment(results, run_id(at, seed), [(0.1, 0.2)])
    for folder in (tmp_path / "r" / "runs").iterdir():
        if folder.name == run_id(0, 0):  # of the study that has one
            [path.unlink() for name in ("mistakes.npz", "alignment.json") if (path := folder / name).exists()]

    made = shown(read(results), part)

    frame = made.frame
    assert frame.groupby("label")["seed"].nunique().tolist()[:6] == [1] * 6
    assert set(frame["label"]) - {"published"} == {f"model={name}, batch_size=4" for name in "BCDEFG"}
    notes = (*made.notes, *(made.drawn.notes if made.drawn else ()))
    assert "the 6 best of 7 variants by top-1 accuracy" in notes


# --------------------------------------------------------------------------------------------------- curves and panels


def test_a_point_of_a_curve_is_a_tables_cell_and_two_treatments_are_not_two_seeds(tmp_path):
    """One fit for all that is shown of a metric. The mean of 60 and 90 % is known as well as each: to what their seeds differ by."""
    made = [
        {"label": f"copy {at}", "levels": {"copy": at}, "changes": {"seed": at}, "model": "TRM", "data": "X"} for at in range(2)
    ]
    results = Results(tmp_path / "r").create()
    told = plan(variants=made, axes={"copy": "seed"}, report=[], seeds=[0, 1])
    write_json(results.study("made_up", "paper") / "plan.json", told)
    for variant, first in enumerate((60.0, 90.0)):
        for seed in (0, 1):
            depths = {"top1_accuracy": {"1": first + 0.4 * seed, "2": first}}
            results.run(run_id(variant, seed)).finish(as_result(result(first + 0.4 * seed) | {"depths": depths}))
    records = read(results)
    pooled = drawn(records, Curve("c", x="eval.depth", y="top1_accuracy", by="model")).data.iloc[0]
    alone = drawn(records, Curve("c", x="copy", y="top1_accuracy")).data

    assert pooled["value"] == pytest.approx(75.2)
    assert 0 < pooled["high"] - pooled["low"] < 4
    for at, point in enumerate(alone.to_dict("records")):
        found = cell(records, [at], "top1_accuracy", Placement({}, ()))
        assert [point[end] for end in ("value", "low", "high", "n")] == [found.value, found.low, found.high, found.n]
    same = replace(records, rows=[*records.rows, *(replace(row, variant=1) for row in records.by_variant[0])])
    assert cell(same, [0, 1], "top1_accuracy", Placement({}, ())).n == 4  # a run under two labels counts once


def test_a_variant_looks_the_same_in_all_figures_where_others_have_not_finished(tmp_path):
    """The first variant has no run, so that neither curve has its line."""
    results = write_study(tmp_path / "r", seeds=[0, 1])
    for seed in range(2):
        results.run(run_id(0, seed)).result.unlink()
        results.run(run_id(0, seed)).epochs.unlink()
    by = {"by": "variant", "y": "top1_accuracy"}
    parts = [LearningCurves(), Curve("d", x="eval.depth", **by), Curve("b", x="batch_size", **by, where={"batch_size": 128})]

    for part in parts:
        lines = [line for line in drawn(read(results), part).figure.data if line.name in ("ViTRM, batch_size=128", "ViTRM")]
        assert {(line.line.color, line.line.dash) for line in lines} == {(style(1)["color"], style(1)["dash"])}


@pytest.mark.parametrize(
    ("models", "part", "panels"),
    [
        ("ABCDEF", LearningCurves(), 2),
        ("ABCDEFG", LearningCurves(), 14),
        ("ABCDEF", Curve("c", x="batch_size", y="top1_accuracy", by="model"), None),
        ("ABCDEFG", Curve("c", x="batch_size", y="top1_accuracy", by="model"), 7),
        ([f"M{at}" for at in range(31)], Curve("c", x="batch_size", y="top1_accuracy", by="model"), None),
    ],
)
def test_more_lines_than_colours_have_a_panel_each_while_a_reader_looks_at_them(tmp_path, models, part, panels):
    made = drawn(read(swept(tmp_path / "r", tuple(models), 1)), part)

    grid = panels is not None and panels > 2
    assert bool(made.figure.layout.meta.get("grid")) is grid
    assert panels is None or made.figure.layout.meta["panels"] == panels
    if grid and isinstance(part, LearningCurves):
        assert not made.printed(7).layout.meta.get("grid")  # paper has no room for so many


@pytest.mark.parametrize("inches", [3.0, 7.0])
@pytest.mark.parametrize(
    "name", ["curve", "learning curves", "heat map in print", "search slices", "thinking", "attention", "mistakes"]
)
def test_in_print_a_figure_is_as_wide_as_asked_and_its_title_goes_to_the_caption(tmp_path, name, inches):
    made = shown(records_of(SCENARIOS[name][0], tmp_path / "r"), SCENARIOS[name][1]).drawn

    figure = replace(made, notes=("synthetic data",)).printed(inches)

    assert figure.layout.width == inches * 120
    assert "synthetic data" in figure.layout.title.text
    assert made.label not in figure.layout.title.text
    assert made.label in made.figure.layout.title.text


def test_lines_are_named_where_they_end_or_in_a_legend_where_there_is_no_room(tmp_path):
    made = drawn(read(swept(tmp_path / "r", tuple("ABCD"), 3)), Curve("c", x="batch_size", y="top1_accuracy", by="model"))

    ends = [one for one in made.figure.layout.annotations if one.name == "end"]
    assert [one.text.rpartition("> ")[2] for one in ends] == list("ABCD")
    assert made.figure.layout.showlegend is False
    gap = 17 / 300 * (made.figure.layout.yaxis.range[1] - made.figure.layout.yaxis.range[0])
    high = sorted(one.y for one in ends)
    assert all(later - one > 0.999 * gap for one, later in pairwise(high))
    narrow = dress(made.draw(Size(80, printed=False)), "T", size=Size(80, printed=False))
    assert narrow.layout.showlegend
    assert {one.visible for one in narrow.layout.annotations} == {False}


def test_thirty_long_traces_stay_below_three_megabytes(tmp_path):
    """20,000 recorded updates each: about what 100 epochs leave."""
    named = [{"label": f"v{at}", "levels": {}, "changes": {"like": at}, "model": "ViTRM", "data": "CIFAR-10"} for at in range(30)]
    results = write_study(tmp_path / "r", variants=named, axes={})
    long = np.random.default_rng(0).gamma(2, 1, 20_000).round(5).tolist()
    for at in range(30):
        if not results.run(run_id(at, 0)).finished:
            results.run(run_id(at, 0)).finish(as_result(result(80.0)))
        write_losses(results, run_id(at, 0), long)

    made = shown(read(results), LossTrace())

    assert len(made.frame) == 600_000
    assert max(len(trace.x) for trace in made.figure.data) <= 40_000 // 30
    assert len(made.html) < 3e6
    assert "the CSV file has all" in made.html
    assert made.figure.data[0].line.color.endswith(",0.1)")  # so many light traces would hide the dark ones


# ------------------------------------------------------------------------------------------------------------ searches


def figures_of(page: str) -> list[object]:
    """The JSON of each figure, read as strictly as a browser does."""
    texts = re.findall(r'<script type="application/json">(.*?)</script>', page, re.DOTALL)
    return [json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON")) for text in texts]


@pytest.mark.parametrize(
    ("trials", "figures"),
    [({}, 0), ({0: TRIALS[0]}, 4), ({5: TRIALS[5], 2: TRIALS[2]}, 1), ({8: TRIALS[8]}, 1), ({3: TRIALS[3]}, 1), (TRIALS, 4)],
    ids=["none", "one", "all failed", "none finished", "all stopped", "nine"],
)
def test_every_part_survives_any_search(tmp_path, trials, figures):
    page = write_report(write_search(tmp_path / "r", trials), "made_up", "paper").read_text()

    assert len(figures_of(page)) == figures
    assert page.count("Nothing to draw yet.") == 5 - figures
    assert ("no trial has finished yet" in page) == (not any(trial[3] == "done" for trial in trials.values()))


def test_no_mark_of_a_trial_is_faded(tmp_path):
    """At 60 % of its opacity the palette's blue has a contrast of 2.5 to white."""
    records = read(write_search(tmp_path / "r"))
    figures = [drawn(records, spec).figure for spec in (ParallelCoordinates(), Pareto())]

    assert {trace.opacity for figure in figures for trace in figure.data} == {None}


# ------------------------------------------------------------------------------------------------- captions and puzzles


def test_a_word_counts_at_most_as_often_as_a_reference_has_it(tmp_path):
    """Two of five: a reference says `large` twice, another once. BLEU-1 is that of pycocoevalcap for the one image."""
    references = ["large and large", "a large mass of the lung"]
    results = write_caption_study(tmp_path / "r")
    write_captions(results, run_id(0, 0), [(references, "large large large large large"), (references, "Large mass")])
    made = shown(read(results), Captions())

    assert made.frame[["words", "shared"]].values.tolist() == [[5, 2], [2, 2]]
    assert Tags(made.html).marked == ["large", "large", "Large", "mass"]
    theirs = [Bleu(1).compute_score({0: references}, {0: [text.lower()]}, verbose=0)[0][0] for text in made.frame["hypothesis"]]
    assert made.frame["bleu_1"].tolist() == pytest.approx(theirs)


def test_a_card_shows_its_image_or_says_that_none_was_kept(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (1, 3, 900, 700))
    results = written(tmp_path / "r", (["a"], "b"), (["c"], "d"))
    small = Tags(shown(read(results), Captions()).html)
    write_captions(results, run_id(0, 0), [(["a"], "b"), (["c"], "d")], noise)
    (results.run(run_id(3, 1)).path / "captions.npz").write_bytes(b"torn")
    large = shown(read(results), Captions()).html

    assert [attrs["class"] for tag, attrs in small.tags if tag == "img"] == ["sharp"] * 2
    assert 'src="data:image/webp;base64,' in large
    assert len(large) < 100_000  # of 1.9 MB
    assert '<p class="note">no image kept</p>' in large


def test_a_folded_caption_says_every_character_once(tmp_path):
    text = "a mass & <b> " * 60
    results = written(tmp_path / "r", (["x"], text), (["y"], "short"))

    page = Tags(shown(read(results), Captions(where={"model": "LSTM"})).html)

    assert text in page.words.replace("\N{HORIZONTAL ELLIPSIS} more", "")
    assert [tag for tag, _ in page.tags].count("details") == 1


def test_the_animation_has_a_frame_a_segment_and_says_what_is_synthetic(tmp_path):
    """The middle of the upper right cell: white where it is to be filled in, orange while it is wrong, white when it is right."""
    plain = write_study(tmp_path / "a")
    noted = write_study(tmp_path / "b", variants=[one | {"synthetic": True} for one in variants()])
    pictures = []
    for results in (plain, noted):
        write_thinking(results, run_id(0, 1))
        content = shown(read(results), Thinking()).files["gif"]()
        pictures.append(Image.open(io.BytesIO(content)))
    picture, seen = pictures[0], []
    for segment in range(picture.n_frames):
        picture.seek(segment)
        seen.append(picture.convert("RGB").getpixel((14 + 28 + 5, 14 + 18 + 26 + 5)))

    assert picture.n_frames == 4
    assert seen[0] == seen[3] == (255, 255, 255)
    assert seen[1] == (255, 227, 199)
    assert pictures[1].height > picture.height


def test_runs_of_fewer_segments_stay_at_their_last(results):
    write_thinking(results, run_id(0, 0))
    write_thinking(results, run_id(1, 0), cells=puzzles()["cells"][:, :1], halt=np.empty((2, 0), np.float32))

    made = shown(read(results), Thinking())

    assert Image.open(io.BytesIO(made.files["gif"]())).n_frames == 4
    assert len(made.figure.layout.annotations) == 1 + 4 + 1 + 2


@pytest.mark.parametrize(("train_puzzles", "count"), [(1000, 6), (500, 0)])
def test_our_runs_stand_among_replications_where_they_compare(tmp_path, train_puzzles, count):
    model = {"family": "trm", "mixing": "mlp", "layers": 2, "cycles": 3, "latent_steps": 6, "networks": 1, "act": "halt only"}
    own = base(ema_decay=0.999, epochs=10, batch_size=768, supervision_steps=16)
    own |= {"data": {"name": "sudoku_extreme", "train_puzzles": train_puzzles, "limit": None}}
    own |= {"model": model | {"gradient": "last_cycle"}}
    made = [{"label": f"TRM {at}", "levels": {}, "changes": {}, "model": "TRM", "data": "Sudoku-Extreme"} for at in range(4)]
    records = read(write_study(tmp_path / "r", base=own, axes={}, variants=made))
    part = Replications(cell="trm_mlp_sudoku_extreme")

    assert drawn(records, part).data["kind"].eq("ours").sum() == 0  # of images: no exact accuracy
    for row in records.rows:
        object.__setattr__(row, "added", {"exact_accuracy": row.value("top1_accuracy")} if row.done else {})
    assert drawn(records, part).data["kind"].eq("ours").sum() == count
