"""Tables: labels, marks of the best, settings, a setting tuned in each cell, counted claims; what they say is
golden.
"""

import csv
import re
from dataclasses import replace

import pytest
from made_up import finish, plan, read, result, run_id, specs, variant, variants, write_plan, write_study
from scenarios import ranked

from recstudy.papers import Target, published
from recstudy.report import Arithmetic, Differences, Table, dump_report
from recstudy.report.findings import _best_variant
from recstudy.report.kinds import make_table
from recstudy.report.table import TableData, TableEntry, TableRow
from recstudy.report.tables.arithmetic import counted_claims
from recstudy.report.tables.render import csv_text, finding, table_shown


def of_levels(*levels: dict[str, object]) -> list[dict[str, object]]:
    labels = (", ".join(f"{axis}={value}" for axis, value in level_set.items()) for level_set in levels)
    return [variant(label, level_set, {}, "A", "B") for label, level_set in zip(labels, levels, strict=True)]


@pytest.mark.parametrize(
    ("levels", "corner", "labels"),
    [
        ([{"layers": 1, "width": 8}, {"layers": 4, "width": 8}], "variant", ["1 layer", "4 layers"]),
        ([{"model": "ViTRM"}, {"model": "TRM"}], "model", ["ViTRM", "TRM"]),
        ([{"model": "ViTRM"}, {"batch_size": 8}], "variant", ["ViTRM", "batch size 8"]),
        ([{"rate": 0.1, "ema": True}, {"rate": 0.1, "ema": False}], "variant", ["with ema", "without ema"]),
        ([{"rate": "a b"}, {"rate": "a b"}], "variant", ["rate=a b", "rate=a b"]),
    ],
)
def test_labels_are_words_for_the_levels_that_vary(tmp_path, levels, corner, labels):
    records = read(write_plan(tmp_path / "r", plan(variants=of_levels(*levels))))

    table = Table("t").cells(records)

    assert (table.corner, [row.label for row in table.rows]) == (corner, labels)
    assert list(Table("t", across=True).cells(records).columns) == labels


def test_csv_has_full_precision_and_one_line_a_cell(records):
    lines = list(csv.DictReader(csv_text(specs()[0].cells(records)).splitlines()))

    assert len(lines) == 12
    assert float(lines[0]["high"]) == pytest.approx(93.38996062597575, rel=1e-12)
    assert lines[0]["run_ids"].split() == [run_id(0, seed) for seed in range(3)]
    assert lines[6]["reasons"] == "epochs 1000, not 300"


@pytest.mark.parametrize("planned", [True, False])
def test_synthetic_data_is_known_from_the_plan_or_from_a_run(tmp_path, planned):
    """From the plan, before any run is finished; or from a run that was made before plans stated it."""
    chosen = [record | {"synthetic": planned} for record in variants()]
    results = write_study(tmp_path / "r", variants=chosen, **({"seeds": []} if planned else {}))
    if not planned:
        finish(results, 0, 0, result(93.0, synthetic=True))
    table = specs()[0].cells(read(results))

    assert table.study_notes[0] == "CIFAR-10 (synthetic data)"
    flags = [line["synthetic"] for line in csv.DictReader(csv_text(table).splitlines())]
    assert flags == (["True"] * 12 if planned else ["True"] * 3 + ["False"] * 9)


# ------------------------------------------------------------------------------------------------------------
# the best


@pytest.mark.parametrize(
    ("scores", "leaky", "expected"),
    [
        ([80.0, 92.0, 86.0, 75.0], (), ["", "*", "", ""]),
        ([99.0, 92.0, 86.0, 80.0], (0,), ["", "*", "", ""]),  # what leaks is never the best
        # a tenth of a point is no difference at this spread
        ([92.0, 92.1, 86.0, 80.0], (), ["*", "*", "", ""]),
        ([91.0, 91.0, 91.1], (), ["", "", ""]),
        ([90.0, None, None, None], (), ["", "", "", ""]),
        ([None, 92.0, None, 80.0], (), ["", "*", "", ""]),
    ],
)
def test_best_is_what_cannot_be_told_from_it_where_something_can(tmp_path, scores, leaky, expected):
    records = read(ranked(tmp_path / "r", {"CIFAR-10": scores}, leaky=leaky))

    rows = Table("t", metrics=("top1_accuracy",)).cells(records).rows
    assert ["*" * row.cells[0].best for row in rows if row.cells] == expected


def test_lower_is_better_where_it_is(tmp_path):
    records = read(ranked(tmp_path / "r", {"CIFAR-10": [80.0, 92.0, 86.0]}))
    rows = Table("t", metrics=("nll", "params", "macro_f1")).cells(records).rows

    # all NLL alike; parameters are no score
    assert not any(row.cells[0].best or row.cells[1].best for row in rows)
    assert [row.cells[2].best for row in rows] == [False, True, False]


# ------------------------------------------------------------------------------------------------------------
# settings


# ----------------------------------------------------------------------------------------------------------
# arithmetic


def claim(value, counted, unit="params", kind="reported", metric="total_increase", **fields):
    target = Target(
        source="001 x (1)", metric=metric, value=value, unit=unit, kind=kind, where={}, margin=0.5, **fields
    )
    (judged_claim,) = counted_claims(Arithmetic(counted={metric: counted}, targets=(target,)))
    return judged_claim


def test_a_note_names_the_papers():
    assert (
        claim(84.0, 83.4, unit="x", note="of rounded numbers (002-16)").note
        == "of rounded numbers (ViTRM-16)"
    )


def test_a_count_is_of_one_model_where_several_have_the_metric():
    targets = published("002_table1_cifar10", only=("params",))
    claims = counted_claims(
        Arithmetic(counted={"ViT-Small params": 16_876_138, "ViTRM params": 3_524_971}, targets=targets)
    )

    assert [(claim_row.target.model, claim_row.target.value, claim_row.verdict) for claim_row in claims] == [
        ("ViTRM", 3.6, "differs"),
        ("ViT-Small", 16.9, "agrees"),
    ]


@pytest.mark.parametrize(
    ("value", "counted", "words", "verdict"),
    [
        (5120.0, 5120.0, {}, "agrees"),
        (5120.0, 5121.0, {}, "differs"),
        (5120.0, 5120.4, {}, "agrees"),  # it rounds to 5,120
        (0.93, 0.9349, {"unit": "percent"}, "agrees"),
        (0.93, 0.9351, {"unit": "percent"}, "differs"),
        (27.0, 27_600_000.0, {"unit": "million"}, "differs"),
        (252_000.0, 251_904.0, {}, "differs"),
        (252_000.0, 249_480.0, {"approximate": True}, "agrees"),  # 1 % off
        (252_000.0, 249_479.0, {"approximate": True}, "differs"),
        (252_000.0, 251_904.0, {"note": "no approximation"}, "differs"),  # words do not widen the margin
    ],
)
def test_counted_number_has_a_verdict(value, counted, words, verdict):
    assert claim(value, counted, **words).verdict == verdict


def test_derived_number_is_marked():
    derived = claim(0.93, 0.93, unit="percent", kind="derived", note="251904/27e6")

    assert (derived.note, derived.verdict) == ("derived; 251904/27e6", "given")
    assert claim(0.93, 0.94, unit="percent", kind="derived").verdict == "differs"


def test_the_best_variants_come_in_the_order_of_their_scores_and_tie(tmp_path):
    records = read(ranked(tmp_path / "r", {"CIFAR-10": [80.0, 92.0, 92.1]}))
    part = Table("t", metrics=("top1_accuracy",))

    sentence = _best_variant(replace(records, plan=replace(records.plan, report=tuple(dump_report([part])))))[
        0
    ]

    assert re.sub(r" \[.*?\] \(n=3\)", "", str(sentence)) == (
        "Best: by top-1 accuracy, C 92.1, B 92.0 tie without a significant difference, 95 % CIs over seeds."
    )
    assert finding(make_table(records, part)) == "best by top-1 accuracy: C and B (tie)"


def test_the_best_of_a_group_is_named_with_its_group(tmp_path):
    records = read(ranked(tmp_path / "r", {"COVCTR": [60.0, 72.0], "ROCO": [33.0, 21.0]}))

    words = finding(make_table(records, Table("t", metrics=("top1_accuracy",), group="data")))

    assert words == "best by top-1 accuracy: B (COVCTR) and A (ROCO)"


def test_a_narrow_table_repeats_the_settings_that_take_the_place_of_labels():
    cells = [(TableEntry(setting), TableEntry("90.1"), TableEntry("0.31")) for setting in ("1", "2")]
    table = TableData(
        "t",
        "T",
        ("depth", "accuracy", "loss"),
        tuple(TableRow("0.1", row) for row in cells),
        "lr",
        kinds={"depth": "setting"},
        has_labels=False,
    )
    assert [block.heads for block in table.blocks(30, 3, 26)] == [
        ["lr", "depth", "accuracy"],
        ["lr", "depth", "loss"],
    ]


def test_a_table_has_a_column_for_each_factor_and_the_common_ones_in_its_caption(tmp_path):
    levels = [
        {"rate": rate, "depth": depth, "width": 12_800, "optimizer": "adam"}
        for rate in (0.1, 0.2)
        for depth in (1, 10_000)
    ]
    results = write_study(tmp_path / "r", variants=of_levels(*levels), report=dump_report([Table("t")]))
    shown = table_shown(Table("t").cells(read(results)))
    table = shown.table

    assert table.heads[:3] == ["rate", "depth", "Top-1 accuracy (%)"]
    assert "\n| --- | ---: | ---: |" in shown.markdown
    # the best first
    assert [[entry.text for entry in line[:2]] for line in table.lines] == [
        ["0.2", "1"],
        ["0.1", "1"],
        ["0.1", "10,000"],
        ["0.2", "10,000"],
    ]
    assert table.caption.startswith("width 12800, optimizer adam")
    csv_lines = csv.DictReader(csv_text(Table("t").cells(read(results))).splitlines())
    assert next(csv_lines)["row"] == "rate 0.1, depth 1"


@pytest.mark.parametrize(
    ("part", "report", "order"),
    [
        (Table("t"), [], "BCA"),
        (Table("t", ranked=False), [], "ABC"),
        (Table("t"), [Differences("d", base="A")], "ABC"),
        (Table("t", metrics=("params", "top1_accuracy")), [], "ABC"),  # no number of parameters is the best
    ],
)
def test_rows_are_ranked_unless_questions_order_them(tmp_path, part, report, order):
    results = write_plan(
        tmp_path / "r",
        plan(variants=of_levels(*({"kind": kind} for kind in "ABC")), report=dump_report([part, *report])),
    )
    for index, score in enumerate((91.0, 93.0, 92.0)):
        finish(results, index, 0, result(score))

    table = table_shown(part.cells(read(results))).table

    assert [row.label.removeprefix("kind ") for row in table.rows] == list(order)


@pytest.mark.parametrize(
    ("levels", "kind"),
    [
        ((1, 32_000), "number"),
        ((1e-5, 0.5), "number"),
        (("adam", "sgd"), "setting"),
        ((1, "auto"), "setting"),
    ],
)
def test_settings_that_are_numbers_are_aligned_on_the_right(tmp_path, levels, kind):
    results = write_plan(tmp_path / "r", plan(variants=of_levels(*({"x": level} for level in levels))))
    for index in range(2):
        finish(results, index, 0, result(90.0 + index))

    shown = table_shown(Table("t", settings=("x",)).cells(read(results)))

    assert f'<td class="{kind}">{shown.table.rows[0].cells[0].text}</td>' in str(shown.html)
    assert shown.table.is_text(1) == (kind == "setting")


@pytest.mark.parametrize(
    ("size", "head", "text"),
    [(7.55e-7, "FLOP/image", "755"), (7.55e-4, "kFLOP/image", "755"), (2.0, "GFLOP/image", "2")],
)
def test_flops_have_a_unit_that_can_be_read(tmp_path, size, head, text):
    results = write_plan(tmp_path / "r", plan(variants=of_levels({"kind": "A"}, {"kind": "B"})))
    for index in range(2):
        metrics = {"top1_accuracy": 90.0, "gflops": size * (index + 1) / 2}
        finish(results, index, 0, result(90.0) | {"metrics": metrics})

    table = table_shown(Table("t", metrics=("gflops",)).cells(read(results))).table

    assert table.heads[1] == f"Forward ({head})"
    assert table.rows[1].cells[0].text == text
