"""By how much one model is better than the others: 003's Table I, of the means over seeds."""

from math import hypot

import pytest
from made_up import as_result, base, captioned, failure, plan, published_beside, read, run_id, write_plan

from recstudy.evidence import Why
from recstudy.papers import published
from recstudy.records import write_json
from recstudy.records.reading import dumped
from recstudy.report import Table
from recstudy.report.cell_text import cell_text
from recstudy.report.tables.render import table_shown
from recstudy.report.targets import MatchedTarget

SOTA = tuple(  # as if one code had scored all rows, and none were copied
    target.model_copy(update={"metric": target.metric.replace("_jury", ""), "against": ()})
    for target in published("003_table1_sota")
)
MODEL = {"weights": "pretrained", "tuned": True}
ATTEND = {
    "train.batch_size": 32,
    "train.learning_rate": 4e-4,
    "train.backbone_learning_rate": 1e-4,
    "train.gradient_clip": 5.0,
}
MODELS = {
    "SAT": {"model": {"family": "show_attend_tell", **MODEL}, **ATTEND},
    "R2Gen": {"model": {"family": "r2gen", **MODEL}},
    "MicarVLMoE": {"model": {"family": "micar", **MODEL}},
}
COVCTR = {"name": "cov_ctr", "size": 224, "length": 80, "tokenizer": "word", "clean": "report", "limit": None}
# seed 0 as the paper prints it: 100 (0.638 - 0.600) / 0.600 is its 6.33, 100 (0.638 - 0.631) / 0.631 its 1.11
CAPTION_SCORES = {
    "SAT": [0.600, 0.500, 0.640],  # mean 0.58
    "R2Gen": [0.631, 0.640, 0.640],  # mean 0.637
    "MicarVLMoE": [0.638, 0.600, 0.640],  # mean 0.626
}
DELTA = {"metrics": ("avg_bleu", "avg_bleu_delta"), "improvement": {"model": "MicarVLMoE"}}


def study(root, scores=CAPTION_SCORES, **changes):
    """Each model on each data set; a score of None: not run, "failed": failed, otherwise its Avg-BLEU."""
    train = {"epochs": 100, "batch_size": 16, "selection": "validation"}
    chosen = [
        {
            "label": f"data=COVCTR, model={model}",
            "levels": {"data": "COVCTR", "model": model},
            "model": model,
            "data": "COVCTR",
        }
        | {"changes": {"data": COVCTR, **changed}}
        for model, changed in MODELS.items()
    ]
    axes, first = (
        {"data": "data", "model": "model"},
        base() | {"data": COVCTR, "train": train, **MODELS["MicarVLMoE"]},
    )
    study_plan = plan(**{"variants": chosen, "axes": axes, "base": first, "report": [], **changes})
    results = write_plan(root, study_plan)
    for index, variant in enumerate(chosen):
        for seed, score in enumerate(scores[variant["model"]]):
            folder = results.run(run_id(index, seed))
            if score == "failed":
                write_json(folder.failure, failure())
            elif score is not None:
                folder.finish(as_result(captioned(0.4, metrics={"avg_bleu": score, "nll": 2 * score})))
    return results


def table(results, **spec):
    return Table("table1", **{**DELTA, **spec}).cells(read(results))


def test_a_delta_is_of_the_means_over_all_seeds_of_both(tmp_path):
    """100 (0.626 - 0.58) / 0.58; by the delta method the error is 100 / 0.58 times the root of s_o^2 / 3 +
    1.0793^2 s_r^2 / 3.
    """
    data = table(study(tmp_path / "r"))
    sat, r2gen, ours = (row.cells[1] for row in data.rows)

    assert sat.values == (0.6, 0.5, 0.64)  # of the row itself
    row, better = (data.rows[row_index].cells[0].estimate.error for row_index in (0, 2))
    assert sat.value == pytest.approx(100 * 0.046 / 0.58)
    assert sat.estimate.error == pytest.approx(100 / 0.58 * hypot(better, 0.626 / 0.58 * row))
    assert cell_text(sat) == "7.93 [-22.43, 38.29] (n=3)"
    assert r2gen.value == pytest.approx(-100 * 0.011 / 0.637)
    assert (ours.value, cell_text(ours), ours.ours) == (None, "\N{EN DASH}", None)
    assert not any(cell.best for cell in (sat, r2gen, ours))
    assert sat.prediction.value == sat.value
    assert sat.prediction.error == pytest.approx(2 * sat.estimate.error)  # sqrt(1 + 1/3) for sqrt(1/3)
    assert [list(ids) for ids in (sat.run_ids, sat.ours.run_ids)] == [
        [run_id(variant_index, seed) for seed in range(3)] for variant_index in (0, 2)
    ]
    # NLL 1.16 beside 1.252: ours is worse
    (lower, *_) = table(study(tmp_path / "s"), metrics=("nll_delta",)).rows[0].cells
    assert lower.value == pytest.approx(-100 * 0.046 / 0.58)


def test_a_ratio_to_what_is_not_told_from_0_has_no_interval(tmp_path):
    """Of 0.003 and 0.006 the mean's own interval reaches below 0, where a ratio has no bound; by the delta
    method it would be of thousands of percent."""
    results = study(
        tmp_path / "r", scores={"SAT": [0.003, 0.006], "R2Gen": [0.50, 0.52], "MicarVLMoE": [0.031, 0.050]}
    )
    data = table(results)
    sat, r2gen, _ = (row.cells[1] for row in data.rows)

    assert sat.value == pytest.approx(800)
    assert cell_text(sat) == "800.00 (n=2 of 3)"
    assert sat.estimate.why is Why.NEAR_ZERO
    assert r2gen.estimate.interval is not None
    assert "in percent of the row's score; no interval if that score may be 0" in str(table_shown(data))


def test_published_deltas_have_their_place_and_a_verdict(tmp_path):
    """SAT stands so far apart from itself that the paper's delta is one of those to be expected."""
    scores = CAPTION_SCORES | {"R2Gen": [0.631] * 3, "MicarVLMoE": [0.638] * 3}

    data = table(study(tmp_path / "r", scores), targets=SOTA)

    sat, r2gen, ours = (row.cells[1] for row in data.rows)
    assert [published_beside(cell) for cell in (sat, r2gen)] == [("6.33", "undecided"), ("1.11", "undecided")]
    assert published_beside(ours) == ("", "")
    assert "1.11, undecided |" in table_shown(data).markdown


def test_reason_against_either_number_counts_against_their_delta(tmp_path):
    """SAT as the paper trains it, MicarVLMoE for half its epochs; then both, which is said once."""
    results = study(tmp_path / "r")
    study_plan = plan(**dumped(read(results).plan))
    shorter = [
        *study_plan["variants"][:2],
        study_plan["variants"][2] | {"changes": study_plan["variants"][2]["changes"] | {"train.epochs": 50}},
    ]
    reasons = []
    for changes in (
        {"variants": shorter},
        {"base": study_plan["base"] | {"train": study_plan["base"]["train"] | {"epochs": 50}}},
    ):
        write_json(results.study("made_up", "paper") / "plan.json", study_plan | changes)
        reasons.append([cell.reasons for cell in table(results, targets=SOTA).rows[0].cells])

    assert reasons == [
        [(), ("no published Avg-BLEU has the settings of MicarVLMoE",)],
        [("epochs 50, not 100",), ("epochs 50, not 100",)],
    ]


def test_runs_that_either_side_lost_are_said(tmp_path):
    scores = {"SAT": [0.6, 0.5, 0.4], "R2Gen": ["failed", None, 0.6], "MicarVLMoE": [0.66, "failed", 0.66]}

    sat, r2gen, _ = (row.cells[1] for row in table(study(tmp_path / "r", scores)).rows)

    assert (sat.value, sat.n, sat.runs_left, sat.count("failed")) == (pytest.approx(32.0), 2, 0, 1)
    assert cell_text(sat).endswith("(n=2 of 3; 1 failed: code)")
    assert (r2gen.value, r2gen.n, r2gen.runs_left, r2gen.count("failed")) == (pytest.approx(10.0), 1, 1, 2)
    assert cell_text(r2gen).endswith("(n=1 of 3; 2 failed: code)")


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"MicarVLMoE": ["failed"] * 3}, "not available (MicarVLMoE has no value)"),
        ({"SAT": [0.0] * 3}, "not available (no percentage of a score of 0 or less)"),
        ({"SAT": [None] * 3}, "\N{EN DASH} not run"),
    ],
)
def test_without_a_number_a_delta_says_why(tmp_path, scores, message):
    assert cell_text(table(study(tmp_path / "a", CAPTION_SCORES | scores)).rows[0].cells[1]) == message


def test_leaking_variant_is_not_compared_and_a_missing_level_is_named(tmp_path):
    results = study(tmp_path / "r")
    study_plan = plan(**dumped(read(results).plan))
    study_plan["variants"][0]["leaks"] = True
    write_json(results.study("made_up", "paper") / "plan.json", study_plan)

    leaky = table(results).rows[0].cells[1]
    missing_cell = table(results, improvement={"model": "Micar"}, targets=SOTA).rows[1].cells[1]

    assert (leaky.value, cell_text(leaky)) == (
        None,
        "not available (it is given the caption that it must write)",
    )
    assert (published_beside(missing_cell)[0], missing_cell.reasons) == (
        "1.11",
        ("no variant to compare it with",),
    )


def test_a_published_standard_deviation_over_reports_is_printed():
    """003 Table II: 0.729 and 0.107 of SAT on COVCTR."""
    target = published("003_table2_ratescore")[0]

    assert (target.std, target.note) == (0.107, "std over test reports")
    assert MatchedTarget(target, ()).text == "0.729 ± 0.107"
