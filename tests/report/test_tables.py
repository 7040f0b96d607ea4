"""Tables: labels, marks of the best, settings, a setting tuned in each cell, counted claims; what they say is
golden.
"""

import csv
import re
from dataclasses import replace

import pytest
from made_up import (
    base,
    finish,
    plan,
    read,
    result,
    run_id,
    specs,
    variant,
    variants,
    write_plan,
    write_study,
)
from scenarios import ranked

from recstudy.papers import Target, published
from recstudy.report import Arithmetic, Table, Tuned, dump_report
from recstudy.report.findings import _best_variant
from recstudy.report.kinds import make_table
from recstudy.report.study_records import load_study
from recstudy.report.tables.arithmetic import counted_claims
from recstudy.report.tables.render import csv_text, finding
from recstudy.report.tables.table import table_data


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
    records = load_study(write_plan(tmp_path / "r", plan(variants=of_levels(*levels))), "made_up", "paper")

    table = table_data(records, Table("t"))

    assert (table.corner, [row.label for row in table.rows]) == (corner, labels)
    assert list(table_data(records, Table("t", across=True)).columns) == labels


def test_csv_has_full_precision_and_one_line_a_cell(records):
    lines = list(csv.DictReader(csv_text(table_data(records, specs()[0])).splitlines()))

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
    table = table_data(read(results), specs()[0])

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

    rows = table_data(records, Table("t", metrics=("top1_accuracy",))).rows
    assert ["*" * row.cells[0].best for row in rows if row.cells] == expected


def test_lower_is_better_where_it_is(tmp_path):
    records = read(ranked(tmp_path / "r", {"CIFAR-10": [80.0, 92.0, 86.0]}))
    rows = table_data(records, Table("t", metrics=("nll", "params", "macro_f1"))).rows

    # all NLL alike; parameters are no score
    assert not any(row.cells[0].best or row.cells[1].best for row in rows)
    assert [row.cells[2].best for row in rows] == [False, True, False]


# ------------------------------------------------------------------------------------------------------------
# settings


# --------------------------------------------------------------------------------------------------------------- tuned

AXES = {"model": "model", "batch_size": "train.batch_size", "learning_rate": "train.learning_rate"}
# model, batch size, rate -> scores on the selection split and on the test set, the same for both seeds but
# 0.2 on the latter
TUNED = {
    ("A", 64, 0.001): (80.0, 95.0),  # the best on the test set, which must not decide
    ("A", 64, 0.01): (90.0, 85.0),
    ("A", 256, 0.001): (70.0, 71.0),
    ("A", 256, 0.01): (60.0, 61.0),
    ("B", 64, 0.001): (50.0, 51.0),
    ("B", 64, 0.01): (50.0, 52.0),  # as good: the first is taken
}


def tunable(root, leaks=(), status="done"):
    chosen = [
        variant(
            f"model={model}, batch_size={batch}, learning_rate={rate}",
            {"model": model, "batch_size": batch, "learning_rate": rate},
            {"train.batch_size": batch, "train.learning_rate": rate},
            model,
        )
        | {"leaks": model in leaks}
        for model, batch, rate in [*TUNED, ("B", 256, 0.001)]
    ]
    report = dump_report([Tuned(title="Tuned")])
    results = write_plan(
        root, plan(variants=chosen, axes=AXES, seeds=[0, 1], report=report, base=base(selection="validation"))
    )
    for index, (selected, test) in enumerate(TUNED.values()):
        for seed in (0, 1):
            record = result(test + 0.2 * seed, status=status)
            record["selected"] = {"epoch": 4, "split": "validation", "top1_accuracy": selected}
            finish(results, index, seed, record)
    return results


def test_each_cell_has_the_rate_that_the_selection_split_likes_best(tmp_path):
    table = make_table(read(tunable(tmp_path)), Tuned())

    assert table.columns == ("64", "256")
    assert [[cell.value and round(cell.value, 6) for cell in row.cells] for row in table.rows] == [
        [85.1, 71.1],
        [51.1, None],
    ]
    assert table.rows[0].cells[0].run_ids == (run_id(1, 0), run_id(1, 1))
    assert table.notes[-2:] == (
        "learning rate of each cell: A, 64: 0.01; A, 256: 0.001; B, 64: 0.001",
        "no run has finished yet: B, 256",
    )
    assert table.notes[0] == "each cell shows the learning rate with the best Top-1 accuracy, selection"
    assert not any("pools" in warning for warning in table.warnings)


def test_a_loss_is_best_where_it_is_lowest(tmp_path):
    results = tunable(tmp_path)
    for index, loss in ((0, 0.5), (1, 0.9)):
        record = result(90.0)
        record["selected"] = {"epoch": 4, "split": "validation", "loss": loss}
        finish(results, index, 0, record)

    table = make_table(read(results), Tuned(by="selection_loss"))

    assert table.notes[1] == "learning rate of each cell: A, 64: 0.001"


def test_leaking_variant_is_left_out_and_an_empty_table_is_none(tmp_path):
    leaky = make_table(read(tunable(tmp_path / "a", leaks=("A",))), Tuned())
    empty_table = make_table(read(tunable(tmp_path / "b", status="diverged")), Tuned())

    assert [row.label for row in leaky.rows] == ["B"]
    assert (empty_table.rows, empty_table.columns) == ((), ())
    assert empty_table.notes[1] == "no run has finished yet: A, 64; A, 256; B, 64; B, 256"


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

    sentence = _best_variant(
        replace(records, plan=replace(records.plan, report=tuple(dump_report([part]))))
    ).decided[0]

    assert re.sub(r" \[.*?\] \(n=3\)", "", str(sentence)) == (
        "Best: by top-1 accuracy, C 92.1, B 92.0 tie without a significant difference, 95 % CIs over seeds."
    )
    assert finding(make_table(records, part)) == "best by top-1 accuracy: C and B (tie)"


def test_the_best_of_a_group_is_named_with_its_group(tmp_path):
    records = read(ranked(tmp_path / "r", {"COVCTR": [60.0, 72.0], "ROCO": [33.0, 21.0]}))

    words = finding(make_table(records, Table("t", metrics=("top1_accuracy",), group="data")))

    assert words == "best by top-1 accuracy: B (COVCTR) and A (ROCO)"
