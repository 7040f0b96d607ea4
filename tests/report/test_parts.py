"""Each kind of part on made-up studies: what it says (golden), what damaged files cost, and what is
refused.
"""

import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from golden_pages import PARTS as GOLDEN
from golden_pages import Tags, compare, part_file, part_text
from made_up import (
    base,
    finish,
    plan,
    read,
    result,
    run_id,
    variant,
    write_alignment,
    write_caption_study,
    write_captions,
    write_chest,
    write_mistakes,
    write_plan,
    write_study,
    write_thinking,
)
from made_up import thinking as puzzles
from PIL import Image
from pycocoevalcap.bleu.bleu import Bleu
from rich.console import Console
from scenarios import (
    GREY,
    LOAD,
    SCENARIOS,
    inside,
    leaky,
    records_of,
    routed,
    trace,
)

from recstudy.base.errors import ConfigError
from recstudy.records import write_json
from recstudy.recursive import (
    METRICS,
    Alignment,
    AttentionMaps,
    Captions,
    ExpertLoad,
    ExpertPath,
    FeatureMaps,
    Mistakes,
    Thinking,
)
from recstudy.report import (
    PARTS,
    Arithmetic,
    Best,
    Curve,
    HeatMap,
    LearningCurves,
    Pareto,
    Replications,
    Table,
)
from recstudy.report.cells import cell
from recstudy.report.figures.chosen import cut_note, shown_variants
from recstudy.report.kinds import draw_figure, render_part
from recstudy.report.targets import Placement
from recstudy.report.writers import TerminalTable


@pytest.mark.parametrize("name", SCENARIOS)
def test_golden_parts(name, tmp_path):
    compare(part_text(name, tmp_path / "r"), part_file(name))


def test_every_kind_of_part_has_a_scenario_and_every_file_too():
    assert {type(part) for _, part in SCENARIOS.values()} == {
        part_class for part_class in PARTS.values() if part_class.__module__.startswith("rec")
    }
    assert {path.name for path in GOLDEN.iterdir()} == {part_file(name).name for name in SCENARIOS}


# ------------------------------------------------------------------------------------------------------ names
# are text


@pytest.mark.parametrize("name", [name for name in SCENARIOS if "hostile" in name])
def test_hostile_names_are_text_in_every_form(name, tmp_path):
    build, part = SCENARIOS[name]
    records = records_of(build, tmp_path / "r")
    rendered, console = render_part(records, part), Console(width=600, record=True, file=io.StringIO())
    page = Tags(rendered.html)

    assert {tag for tag, _ in page.tags if tag in ("b", "a", "i")} <= {"a"}
    assert [attrs.get("type") for tag, attrs in page.tags if tag == "script"] in ([], ["application/json"])
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert "<script" not in rendered.markdown
    assert "<img" not in rendered.markdown
    if rendered.data is not None and not rendered.data.empty:
        # nothing shows it
        traces = [{**trace, "legendgroup": ""} for trace in json.loads(rendered.figure.to_json())["data"]]
        assert "<script" not in json.dumps(traces)
    if rendered.table:
        console.print(TerminalTable(rendered.table))
        assert "[1](http://x)" in console.export_text()
        assert r"\textbackslash{}evil" in rendered.latex


# ------------------------------------------------------------------------------------------------------
# damaged files


def mistakes_of(results, **changes):
    write_mistakes(results, run_id(0, 0), GREY, **changes)


def puzzles_of(results, **changes):
    write_thinking(results, run_id(0, 0), **changes)


def trace_of(results, **changes):
    np.savez_compressed(results.run(run_id(0, 0)).path / "trace.npz", **trace(**changes))


def captions_of(results, images=None, **content):
    write_captions(results, run_id(0, 0), [(["a"], "b")] * 2, images)
    if content:
        write_json(results.run(run_id(0, 0)).path / "captions.json", content)


def pairs_of(results, cosine_after):
    write_alignment(results, run_id(0, 0), [(0.1, cosine_after)])


def load_of(results, **changes):
    routed(results, run_id(0, 0), LOAD | changes)


DAMAGES = [
    (Mistakes(), mistakes_of, {"labels": np.array([0, 1, 2])}, "IndexError: "),
    # An array of objects needs pickle, which may run anything.
    (Mistakes(), mistakes_of, {"names": np.array([{"cat": 1}, "dog"], dtype=object)}, "ValueError: "),
    (Thinking(), puzzles_of, {"cells": np.zeros((2, 0, 4), np.uint8)}, "arrays do not fit together"),
    (Thinking(), puzzles_of, {"given": np.full((2, 4), 4, np.uint8)}, "arrays do not fit together"),
    (Thinking(), puzzles_of, {"colours": np.array(["#000000"])}, "arrays do not fit together"),
    (Thinking(), puzzles_of, {"boxes": np.array([2, 3])}, "arrays do not fit together"),
    (Thinking(), puzzles_of, {"halt": np.zeros((2, 2), np.float32)}, "arrays do not fit together"),
    (ExpertPath(), trace_of, {"router": np.full((2, 2, 2, 2), 0.75)}, "arrays do not fit together"),
    (ExpertPath(), trace_of, {"chosen": np.full((2, 2, 2, 1), 2)}, "out of bounds"),
    (
        AttentionMaps(),
        trace_of,
        {"cross_attention": np.full((2, 2, 2, 2, 5), 0.2)},
        "arrays do not fit together",
    ),
    (FeatureMaps(), trace_of, {"features": np.ones((2, 4, 4))}, "arrays do not fit together"),
    (FeatureMaps(), trace_of, {"features": np.full((2, 5, 4, 4), np.nan)}, "arrays do not fit together"),
    (AttentionMaps(), trace_of, {"rows": np.array([{}], dtype=object)}, "Object arrays cannot be loaded"),
    (Captions(), captions_of, {"examples": [{"row": 1}]}, "examples.0.references is missing"),
    (Captions(), captions_of, {"images": np.zeros((2, 2, 8, 8))}, "captions.npz is damaged (ValueError: "),
    (Alignment(), pairs_of, {"cosine_after": 1.5}, "pairs.0.after must be less than 1.001"),
    (ExpertLoad(), load_of, {"load": [[0, 0], [1, 1]]}, "result.json is damaged (ValueError: routing"),
]


@pytest.mark.parametrize(("part", "damage", "changes", "words"), DAMAGES)
def test_damage_is_one_line_that_names_the_file_and_the_fix(tmp_path, part, damage, changes, words):
    results = write_caption_study(tmp_path / "r")
    damage(results, **changes)

    rendered = render_part(read(results), part)

    (note,) = [note for note in rendered.notes if "is damaged" in note]
    assert note.startswith(f"LSTM: runs/{run_id(0, 0)}/")
    assert words in note
    assert note.endswith("Remove that run's folder and run the study again.")
    assert "\n" not in note


def test_damage_of_one_run_leaves_the_others(results):
    mistakes_of(results, labels=np.array([0, 1, 2]))
    write_mistakes(results, run_id(1, 0), GREY)

    assert len(draw_figure(read(results), Mistakes()).data) == 3


# -----------------------------------------------------------------------------------------------------------
# refusals


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (Best(), "'best' shows a search, but made_up is a study of given variants. Remove it"),
        (Pareto(), "'pareto' needs y, .*, and made_up is not a search"),
        (
            HeatMap("h", x="batch_sise", y="model"),
            r"the report names 'batch_sise', but the study has .* Did you mean 'batch_size'",
        ),
        (
            Table("c", rows="model", columns="data", metrics=("roc*",)),
            r"table 'c' has nothing to show: no run has a metric roc\*",
        ),
    ],
)
def test_parts_that_do_not_fit_the_study_are_refused(records, part, message):
    with pytest.raises(ConfigError, match=message):
        render_part(records, part)


@pytest.mark.parametrize(
    ("part", "fields", "message"),
    [
        (
            Curve,
            {"x": "batch_size", "y": "top1_accuracy", "drop": True, "log": True},
            "drop and log cannot be combined",
        ),
        (
            Replications,
            {"cell": "trm_mlp_sudoku"},
            r"unknown cell 'trm_mlp_sudoku'. Choose one of .* Did you mean 'trm_mlp_sudoku_",
        ),
        (
            Arithmetic,
            {"counted": {"embed_odl": 1.0}},
            r"counted has 'embed_odl', but the targets have .* Did you mean 'embed_old'",
        ),
        (Table, {"across": True, "rows": "model"}, "table 'p': across puts metrics in rows"),
        (
            Table,
            {"metrics": ("avg_bleu_delta",)},
            r"improvement=\{AXIS: LEVEL\} and a metric such as top1_accuracy_delta",
        ),
        (Table, {"improvement": {"model": "MicarVLMoE"}}, "but only one of them is given"),
    ],
)
def test_fields_that_do_not_go_together_are_refused(part, fields, message):
    with pytest.raises(ConfigError, match=message):
        part(name="p", **fields)


def test_a_layer_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="attention 'attention': head must be at most 2, but got 3"):
        draw_figure(read(inside(tmp_path / "r")), AttentionMaps(head=3))


# ------------------------------------------------------------------------------------------------- which runs
# are shown


def test_the_best_variants_are_shown_where_there_are_too_many(tmp_path, monkeypatch):
    """Of scores that rank: AUROC where there is no accuracy, and of a loss the least; what leaks is the
    worst.
    """
    records = read(write_study(tmp_path / "a"))
    assert (shown_variants(records, 2), cut_note(records, 4, 2)) == (
        [0, 2],
        ("the 2 best of 4 variants by top-1 accuracy",),
    )
    assert shown_variants(read(leaky(tmp_path / "l")), 3) == [1, 2, 3]
    chest = read(write_chest(tmp_path / "c"))
    assert (shown_variants(chest, 1), cut_note(chest, 2, 1)) == ([1], ("the 1 best of 2 variants by AUROC",))
    monkeypatch.setitem(METRICS, "auroc", replace(METRICS["auroc"], better="lower"))
    assert shown_variants(chest, 1) == [0]


# --------------------------------------------------------------------------------------------------- curves
# and panels


def test_a_point_of_a_curve_is_a_tables_cell_and_two_treatments_are_not_two_seeds(tmp_path):
    """One fit for all that is shown of a metric. The mean of 60 and 90 % is known as well as each: to what
    their seeds differ by.
    """
    chosen = [variant(f"copy {index}", {"copy": index}, {"seed": index}, "TRM", "X") for index in range(2)]
    results = write_plan(
        tmp_path / "r", plan(variants=chosen, axes={"copy": "seed"}, report=[], seeds=[0, 1])
    )
    for index, first in enumerate((60.0, 90.0)):
        for seed in (0, 1):
            depths = {"top1_accuracy": {"1": first + 0.4 * seed, "2": first}}
            finish(results, index, seed, result(first + 0.4 * seed) | {"depths": depths})
    records = read(results)
    pooled = draw_figure(records, Curve("c", x="eval.depth", y="top1_accuracy", by="model")).data.iloc[0]
    unpooled = draw_figure(records, Curve("c", x="copy", y="top1_accuracy")).data

    assert pooled["value"] == pytest.approx(75.2)
    assert 0 < pooled["high"] - pooled["low"] < 4
    for variant_index, point in enumerate(unpooled.to_dict("records")):
        pooled_cell = cell(records, [variant_index], "top1_accuracy", Placement({}, ()))
        assert [point[end] for end in ("value", "low", "high", "n")] == [
            pooled_cell.value,
            pooled_cell.low,
            pooled_cell.high,
            pooled_cell.n,
        ]
    duplicated = replace(
        records, rows=[*records.rows, *(replace(row, variant=1) for row in records.by_variant[0])]
    )
    assert (
        cell(duplicated, [0, 1], "top1_accuracy", Placement({}, ())).n == 4
    )  # a run under two labels counts once


def test_figure_without_values_states_the_reason(tmp_path):
    records = read(write_study(tmp_path / "r", seeds=[]))
    rendered = render_part(records, Curve("c", x="batch_size", y="top1_accuracy", by="batch_size"))

    assert set(rendered.frame["line"]) == {"batch size 64", "batch size 128"}
    assert "Nothing to draw yet." in rendered.html
    assert rendered.figure.data == ()


def test_two_variants_of_one_label_are_two_learning_curves(results):
    records = read(results)
    data = LearningCurves().data(records).assign(label="same")
    lines = [trace for trace in LearningCurves().draw(data).data if trace.name and trace.hoverinfo != "skip"]

    assert [(line.name, len(line.x)) for line in lines] == [("same", 5)] * 2 * data["variant"].nunique()


# ------------------------------------------------------------------------------------------------- captions
# and puzzles


def test_a_word_counts_at_most_as_often_as_a_reference_has_it(tmp_path):
    """Two of five: a reference says `large` twice, another once. BLEU-1 is that of pycocoevalcap for the one
    image.
    """
    references = ["large and large", "a large mass of the lung"]
    results = write_caption_study(tmp_path / "r")
    write_captions(
        results, run_id(0, 0), [(references, "large large large large large"), (references, "Large mass")]
    )
    rendered = render_part(read(results), Captions())

    assert rendered.frame[["words", "shared"]].values.tolist() == [[5, 2], [2, 2]]
    assert re.findall("<mark>(.*?)</mark>", rendered.html) == ["large", "large", "Large", "mass"]
    theirs = [
        Bleu(1).compute_score({0: references}, {0: [text.lower()]}, verbose=0)[0][0]
        for text in rendered.frame["hypothesis"]
    ]
    assert rendered.frame["bleu_1"].tolist() == pytest.approx(theirs)


def test_runs_of_fewer_segments_stay_at_their_last(results):
    write_thinking(results, run_id(0, 0))
    write_thinking(results, run_id(1, 0), cells=puzzles()["cells"][:, :1], halt=np.empty((2, 0), np.float32))

    rendered = render_part(read(results), Thinking())

    assert Image.open(io.BytesIO(rendered.files["gif"]())).n_frames == 4
    assert len(rendered.figure.layout.images) == 4 + 2


@pytest.mark.parametrize(("train_puzzles", "count"), [(1000, 6), (500, 0)])
def test_our_runs_stand_among_replications_where_they_compare(tmp_path, train_puzzles, count):
    model = {
        "family": "trm",
        "mixing": "mlp",
        "layers": 2,
        "cycles": 3,
        "latent_steps": 6,
        "networks": 1,
        "act": "halt only",
    }
    settings = base(selection="last", ema_decay=0.999, epochs=10, batch_size=768, supervision_steps=16)
    settings |= {"data": {"name": "sudoku_extreme", "train_puzzles": train_puzzles, "limit": None}}
    settings |= {"model": model | {"gradient": "last_cycle"}}
    chosen = [variant(f"TRM {index}", {}, {}, "TRM", "Sudoku-Extreme") for index in range(4)]
    records = read(write_study(tmp_path / "r", base=settings, axes={}, variants=chosen))
    part = Replications(cell="trm_mlp_sudoku_extreme")

    assert draw_figure(records, part).data["kind"].eq("ours").sum() == 0  # of images: no exact accuracy
    for row in records.rows:
        object.__setattr__(row, "added", {"exact_accuracy": row.value("top1_accuracy")} if row.done else {})
    assert draw_figure(records, part).data["kind"].eq("ours").sum() == count
