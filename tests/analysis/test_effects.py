"""Effects and interactions of factorials on functions whose effects are known."""

import csv
import io
from itertools import product

import numpy as np
import pytest
from made_up import VITRM, as_result, base, failure, plan, result, run_id
from rich.console import Console

from recstudy import factorial, grid
from recstudy.analysis import Effects, Interactions
from recstudy.analysis.contrasts import contrast
from recstudy.analysis.figures.two_way import interactions_data, interactions_figure, interactions_notes
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import show_report, write_report
from recstudy.analysis.tables import markup
from recstudy.analysis.tables.effect_table import csv_text, printed
from recstudy.analysis.tables.effects import effects_data
from recstudy.analysis.tables.latex import latex
from recstudy.errors import ConfigError
from recstudy.records import Results, write_json
from recstudy.report import dump_report

HOSTILE = "<script>alert(1)</script>"
NOISE = np.random.default_rng(0).normal(0, 0.1, 5)  # of a seed, the same in all of its cells


def study(root, variants, score, seeds=3, report=(), **changes):
    """A study whose run of a variant and a seed scores `score(levels, seed)`; None: it failed."""
    made_variants = [
        {"label": one.label, "levels": dict(one.levels), "changes": dict(one.changes), "model": "ViTRM", "data": "CIFAR-10"}
        for one in variants
    ]
    made = plan(
        **{
            "variants": made_variants,
            "axes": dict(variants[0].axes),
            "seeds": list(range(seeds)),
            "report": dump_report(list(report)),
            **changes,
        }
    )
    results = Results(root).create()
    write_json(results.study("made_up", "paper") / "plan.json", made)
    for index, seed, identity in made["runs"]:
        value = score(variants[index].levels, seed)
        if value is None:
            write_json(results.run(identity).failure, failure())
        else:
            results.run(identity).finish(as_result(result(value)))
    return results


def read(root, *args, **kwargs):
    return load_study(study(root, *args, **kwargs), "made_up", "paper")


def factors(count):
    return {f"model.{letter}": [0, 1] for letter in "abcdefg"[:count]}


def known(levels, seed):
    """80, plus 4 for a, minus 2 for b, plus 6 where both are on; the seed's own luck is in every cell."""
    a, b = levels["a"], levels["b"]
    return float(80 + 4 * a - 2 * b + 6 * a * b + NOISE[seed])


def in_ascii(text):
    return text.replace("\N{MULTIPLICATION SIGN}", "x")


def sizes(data):
    return {in_ascii(effect.title): effect.test.value for effect in data.effects}


def aliases(data):
    return {in_ascii(effect.title): in_ascii(effect.aliased) for effect in data.effects}


def test_effects_by_hand(tmp_path):
    """a: ((84 + 88) - (80 + 78)) / 2 = 7; b: ((78 + 88) - (80 + 84)) / 2 = 1; a x b: ((80 + 88) - (78 + 84)) / 2 = 3."""
    data = effects_data(read(tmp_path, factorial(factors(2)), known), Effects())

    assert sizes(data) == {"a": pytest.approx(7), "b": pytest.approx(1), "a x b": pytest.approx(3)}
    assert data.levels == {"a": (0, 1), "b": (0, 1)}
    assert data.seeds == (0, 1, 2)


def test_effects_of_three_factors_are_the_regression(tmp_path):
    """Against least squares on the signs: an effect is twice its coefficient."""
    table = dict(zip(product((0, 1), repeat=3), np.random.default_rng(1).normal(80, 3, 8), strict=True))
    variants = factorial(factors(3))

    data = effects_data(read(tmp_path, variants, lambda levels, seed: float(table[tuple(levels.values())])), Effects())

    signs = np.array([[2 * level - 1 for level in cell] for cell in table])
    terms = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    design = np.column_stack([np.ones(8), *(signs[:, list(term)].prod(axis=1) for term in terms)])
    coefficients = np.linalg.lstsq(design, np.array(list(table.values())), rcond=None)[0]
    assert list(sizes(data).values()) == pytest.approx(list(2 * coefficients[1:]))
    assert not any(effect.aliases for effect in data.effects)


def test_an_interval_is_over_the_seeds(tmp_path):
    """a's effect is 4 + the seed: 4, 5, 6. Half of the cells have the spread of these, which is pooled over all four."""
    data = effects_data(read(tmp_path, factorial(factors(2)), lambda levels, seed: 80.0 + (4 + seed) * levels["a"]), Effects())

    assert data.effects[0].values == (4.0, 5.0, 6.0)
    cells = [(80.0, 80.0, 80.0), (80.0, 80.0, 80.0), (84.0, 85.0, 86.0), (84.0, 85.0, 86.0)]
    assert data.effects[0].found == contrast(cells, (-0.5, -0.5, 0.5, 0.5), data.spreads)
    assert (data.effects[0].found.value, data.effects[0].found.df, data.pairing.helps) == (5.0, 8, False)
    assert data.effects[1].values == (0.0, 0.0, 0.0)


def test_half_of_four_factors_names_its_aliases(tmp_path):
    """I = ABCD: pairs of interactions cannot be told apart, and a main effect hides one of three factors."""
    data = effects_data(
        read(tmp_path, factorial(factors(4), fraction=1 / 2), lambda levels, seed: 80.0 + levels["a"] * levels["b"]), Effects()
    )

    assert aliases(data) == {
        "a": "b x c x d", "b": "a x c x d", "c": "a x b x d", "d": "a x b x c",
        "a x b": "c x d", "a x c": "b x d", "a x d": "b x c",
    }  # fmt: skip
    assert sizes(data)["a x b"] == pytest.approx(0.5)
    assert sizes(data)["c"] == pytest.approx(0)


def test_a_sign_of_an_alias_is_said(tmp_path):
    """Half of three factors with its all-low cell has c on where a and b differ, so c is minus a x b: half of -10 is seen."""
    variants = factorial(factors(3), fraction=1 / 2)

    data = effects_data(read(tmp_path, variants, lambda levels, seed: 80.0 + 10 * levels["a"] * levels["b"]), Effects())

    assert aliases(data) == {
        "a": "minus b x c", "b": "minus a x c", "c": "minus a x b",
    }  # fmt: skip
    assert sizes(data)["c"] == pytest.approx(-5)


def test_many_aliases_are_counted(tmp_path):
    data = effects_data(read(tmp_path, factorial(factors(7), fraction=1 / 16), lambda levels, seed: 80.0), Effects())

    assert len(data.effects) == 7
    assert aliases(data)["a"].count("x") == 3
    assert data.effects[0].aliased.endswith("12 of higher order")


def test_a_seed_with_a_failed_cell_is_left_out_and_said(tmp_path):
    records = read(
        tmp_path, factorial(factors(2)), lambda levels, seed: None if seed == 1 and levels["a"] else known(levels, seed)
    )

    data = effects_data(records, Effects())

    assert data.seeds == (0, 2)
    assert data.missing == ("seed 1 left out: a=1, b=0 failed: code; a=1, b=1 failed: code",)
    assert sizes(data)["a"] == pytest.approx(7)


def test_one_seed_has_sizes_and_no_intervals(tmp_path):
    records = read(tmp_path, factorial(factors(2)), known, seeds=1)

    shown = markup.markdown(printed(records, Effects(), effects_data(records, Effects())))

    assert "| a | +7.00 | - | 1 | - | - |" in shown.replace("\N{EN DASH}", "-")


def test_no_seed_is_no_size(tmp_path):
    data = effects_data(read(tmp_path, factorial(factors(2)), lambda levels, seed: None), Effects())

    assert [effect.test.value for effect in data.effects] == [None] * 3
    assert len(data.missing) == 3


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        (grid({"model.a": [0, 1], "model.b": [0, 1, 2]}), "needs two levels an axis, but 'b' has 0, 1, 2; narrow it by where"),
        (grid({"model.a": [0]}), "no axis has two levels here"),
        (factorial(factors(2))[:3], "neither a whole two-level factorial nor a regular fraction of one"),
    ],
)
def test_what_is_no_two_level_design_is_refused(tmp_path, variants, message):
    records = read(tmp_path, variants, lambda levels, seed: 80.0)

    with pytest.raises(ConfigError, match=message):
        effects_data(records, Effects())


def test_where_makes_a_design_of_two_levels(tmp_path):
    variants = grid({"model.c": [7, 8, 9], **factors(2)})
    records = read(tmp_path, variants, known)

    assert list(sizes(effects_data(records, Effects(where={"c": 8})))) == ["a", "b", "a x b"]


def test_the_words_of_a_fraction(tmp_path):
    records = read(tmp_path, factorial(factors(4), fraction=1 / 2), known)
    page = printed(records, Effects(), effects_data(records, Effects()))

    assert page.notes[0] == (
        "Size: mean at the second level minus mean at the first, in % (a 0 to 1; b 0 to 1; c 0 to 1; d 0 to 1); "
        "of an interaction, half of what one axis adds to the other's effect"
    )
    assert page.notes[2] == "1/2 of the 16 combinations was planned: a row's size is the sum of all that it cannot be told from"
    lines = list(csv.DictReader(csv_text(effects_data(records, Effects()), "top1_accuracy").splitlines()))
    assert (in_ascii(lines[4]["effect"]), lines[4]["order"], in_ascii(lines[4]["aliases"])) == ("a x b", "2", "c x d")


def test_the_words_say_what_the_spread_is_pooled_from_and_what_all_seeds_share(tmp_path):
    model = VITRM | {"fuselip": {"mode": "prefix_causal"}}
    records = read(
        tmp_path,
        factorial(factors(2)),
        lambda levels, seed: known(levels, seed) + seed * levels["a"] / 9,
        base=base() | {"model": model},
    )
    notes = printed(records, Effects(), effects_data(records, Effects())).notes

    assert any(note.startswith("spread over seeds, pooled from 4 variants (8 degrees of freedom)") for note in notes)
    assert any(note.startswith("the seeds share one FuseLIP encoder on one image tokenizer") for note in notes)


def test_hostile_levels_are_text(tmp_path):
    variants = grid({HOSTILE: [0, HOSTILE], "model.b": [0, 1]})
    records = read(tmp_path, variants, lambda levels, seed: 80.0 + seed)
    page = printed(records, Effects(), effects_data(records, Effects()))

    assert "<script" not in markup.html_table(page) + markup.markdown(page)
    assert "&lt;script&gt;" in markup.html_table(page)
    data = interactions_data(records, Interactions())
    assert "<script" not in interactions_figure(data, Interactions()).to_json()


def test_cell_means_of_two_axes(tmp_path):
    """80 84 without b, 78 88 with it: the lines are 4 and 10 steep, so they are not parallel."""
    records = read(tmp_path, factorial(factors(2)), lambda levels, seed: known(levels, seed) - float(NOISE[seed]))

    data = interactions_data(records, Interactions(x="a", by="b"))

    assert [(row.by, row.x, row.value, row.n) for row in data.itertuples()] == [
        (0, 0, 80.0, 3), (0, 1, 84.0, 3), (1, 0, 78.0, 3), (1, 1, 88.0, 3),
    ]  # fmt: skip


def test_a_two_way_sweep_keeps_its_levels_in_order(tmp_path):
    records = read(tmp_path, grid({"model.a": [16, 2, 4], "model.b": ["on", "off"]}), lambda levels, seed: 80.0 + levels["a"])

    data = interactions_data(records, Interactions(x="a", by="b"))

    assert list(data["x"]) == [2, 4, 16, 2, 4, 16]
    assert list(dict.fromkeys(data["by"])) == ["on", "off"]


def test_a_panel_for_every_pair_averages_over_the_other_axes(tmp_path):
    variants = factorial(factors(3))
    records = read(tmp_path, variants, lambda levels, seed: 80.0 + levels["a"] + 10 * levels["c"])

    data = interactions_data(records, Interactions())

    assert list(dict.fromkeys(zip(data["x_axis"], data["by_axis"], strict=True))) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert list(data["value"][:4]) == [85.0, 86.0, 85.0, 86.0]
    figure = interactions_figure(data, Interactions())
    assert [trace.name for trace in figure.data if trace.showlegend] == ["b 0", "b 1", "c 0", "c 1"]
    looks = {(trace.name, trace.line.color) for trace in figure.data}
    assert len(looks) == 4


def test_a_point_counts_the_seeds_that_have_all_its_cells(tmp_path):
    variants = factorial(factors(3))
    lost = {(0, 0, 1): 1}  # one cell of (a=0, b=0) at seed 1
    records = read(tmp_path, variants, lambda levels, seed: None if lost.get(tuple(levels.values())) == seed else 80.0 + seed)

    data = interactions_data(records, Interactions(x="a", by="b"))

    first = data.iloc[0]
    assert (first["n"], first["expected"], first["value"]) == (2, 3, 81.0)
    assert first["missing"] == "seed 1: a=0, b=0, c=1 failed: code"
    assert interactions_notes(records, Interactions(), data) == ("1 of 4 points lack some seed",)


def test_a_point_without_a_run_is_said(tmp_path):
    records = read(tmp_path, factorial(factors(2)), lambda levels, seed: None if levels["a"] else 80.0)
    data = interactions_data(records, Interactions(x="a", by="b"))

    assert interactions_notes(records, Interactions(), data) == ("2 of 4 points have no finished seed",)
    assert all(len(trace.x) == 1 for trace in interactions_figure(data, Interactions()).data)


def test_interactions_need_two_axes(tmp_path):
    records = read(tmp_path, grid({"model.a": [0, 1]}), lambda levels, seed: 80.0)

    with pytest.raises(ConfigError, match="'interactions' needs two axes, but a varies here"):
        interactions_data(records, Interactions())
    with pytest.raises(ConfigError, match="x and by go together, but only one of them is given"):
        Interactions(x="a")


def test_they_stand_in_the_report_and_in_the_terminal(tmp_path):
    results = study(
        tmp_path / "r", factorial(factors(3)), known, report=[Effects(), Interactions(), Interactions("ab", x="a", by="b")]
    )

    page = write_report(results, "made_up", "paper")

    assert sorted(path.name for path in page.parent.glob("*/*") if path.suffix == ".csv") == [
        "ab.csv",
        "effects.csv",
        "interactions.csv",
    ]
    assert "main effects and interactions" in page.read_text()
    console = Console(width=250, record=True, file=io.StringIO())
    show_report(results, "made_up", "paper", (), console)
    assert "a x b" in in_ascii(console.export_text())


def test_every_effect_names_the_runs_of_its_halves(tmp_path):
    """Cells a=0, b=0; a=0, b=1; a=1, b=0; a=1, b=1: the interaction counts the first and the last up. Seed 1 is not whole."""
    lost = {(1, 1): 1}
    records = read(
        tmp_path,
        factorial(factors(2)),
        lambda levels, seed: None if lost.get(tuple(levels.values())) == seed else known(levels, seed),
        seeds=2,
    )
    data = effects_data(records, Effects())

    ids = [run_id(index, 0) for index in range(4)]
    halves = {
        in_ascii(effect.title): [[run.id for run in data.half(effect, sign)] for sign in (1, -1)] for effect in data.effects
    }
    assert halves == {"a": [ids[2:], ids[:2]], "b": [ids[1::2], ids[::2]], "a x b": [[ids[0], ids[3]], ids[1:3]]}
    text = latex(printed(records, Effects(), data))
    shared = f"mean of runs {ids[2]} {ids[3]} minus mean of {ids[0]} {ids[1]}; seed 0; commit 0123abc"
    assert f"% size; 95 % interval; p (Holm): {shared}" in text
    lines = list(csv.DictReader(csv_text(data, "top1_accuracy").splitlines()))
    assert (lines[1]["plus_run_ids"], lines[1]["minus_run_ids"]) == (f"{ids[1]} {ids[3]}", f"{ids[0]} {ids[2]}")
