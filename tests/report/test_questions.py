"""What a report asks, on made-up studies whose answers are known: claims, differences from a base, effects of
a factorial.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from asking import (
    ABLATION,
    AROUND,
    CLOSE,
    EQUAL_CLAIM,
    FULL,
    HELPS,
    HURTS,
    LINEAR_METRIC,
    ablation,
    by,
    claimed,
    crossed,
    read,
    rows_of,
    study,
    write_scored_plan,
)  # fmt: skip
from made_up import finish, plan, result, run_id, write_study
from scipy import stats

from recstudy import Claim, Interaction, Study, factorial, grid
from recstudy.base.errors import ConfigError
from recstudy.evidence import Fit, Reason, Verdict, contrast
from recstudy.records.reading import dumped
from recstudy.records.study_schema import VariantRecord
from recstudy.recursive import Digits, RunConfig, TrainConfig, ViTRM
from recstudy.report import Differences, Effects
from recstudy.report.cells import cell
from recstudy.report.contrasts import Comparison
from recstudy.report.family import family
from recstudy.report.findings import claim_text
from recstudy.report.study_records import load_study
from recstudy.report.tables.question_table import questions_shown, verdict_words
from recstudy.report.targets import Placement
from recstudy.study.plan import make_plan
from recstudy.study.record import plan_record

# --------------------------------------------------------------------------------------------------------------- claims


def test_p_and_interval_by_hand(tmp_path):
    """s = 0.1 of two degrees of freedom everywhere, so that the prior is 0.01 e^0.5772 (its logarithms vary
    by chance alone), of which two count: s~^2 = (0.01781 + 0.01) / 2, with four a side and eight in the
    difference."""
    (row,) = claimed(tmp_path, *by(LINEAR_METRIC, HURTS))
    error = ((0.01 * np.exp(np.euler_gamma) + 0.01) / 2 * 2 / 3) ** 0.5
    half = stats.t.ppf(0.975, 8) * error

    assert (row.estimate.value, row.estimate.error, row.estimate.df) == pytest.approx((3.0, error, 8.0))
    assert row.estimate.interval == pytest.approx((3.0 - half, 3.0 + half))
    assert row.answer.p == pytest.approx(2 * stats.t.sf(2.5 / error, 8))
    assert row.run_ids == tuple(run_id(variant, seed) for variant in (0, 3) for seed in range(3))


def test_a_mean_has_bounds_and_a_level_of_its_own(tmp_path):
    """The mean at one step is 93. Its distance to 94 is significant at 0.05 and not at 0.0001."""
    claims = [
        Claim("a", of={"steps": 1}, at_most=94.0),
        Claim("b", of={"steps": 1}, at_most=92.0),
        Claim("c", of={"steps": 1}, at_least=92.0, at_most=94.0),
        Claim("d", of={"steps": 1}, at_most=94.0, alpha=0.0001),
        Claim("e", of={"steps": [1, 2]}, at_most=94.0, each=True),
        Claim("f", of={"steps": [1, 2]}, at_most=94.0),
    ]
    rows = claimed(tmp_path, *by(LINEAR_METRIC, *claims))
    fit = rows[0].terms[0].fit.weighted(0)
    p = 2 * stats.t.sf(1.0 / fit.variance**0.5, fit.df)

    assert [row.answer.p for row in rows[:4]] == pytest.approx([p] * 4)
    assert [verdict_words(row) for row in rows] == [
        "supported",
        "contradicted",
        "supported",
        "undecided (at the level 0.0001)",
        "supported",
        "supported",
    ]
    assert all(row.is_mean for row in rows)
    assert "f: " in (text := claim_text(rows[5]))
    assert "difference" not in text
    assert [row.margin for row in rows[1:3]] == ["at most 92", "at least 92 and at most 94"]
    assert rows[3].interval == rows[0].interval  # of 95 %
    assert rows[4].words == "each of steps 1 or 2: at most 94"


def test_a_claim_of_version_0_2_without_lower_is_of_the_metric_itself(tmp_path):
    """Accuracy at one step is 93 in the middle: at least 92, and not at least 94."""
    enough, short = claimed(
        tmp_path,
        *by(LINEAR_METRIC, *(Claim("solved", higher={"steps": 1}, margin=margin) for margin in (92.0, 94.0))),
    )

    assert [row.verdict for row in (enough, short)] == [Verdict.SUPPORTED, Verdict.CONTRADICTED]
    assert (enough.estimate.value, enough.sides, enough.words) == (
        pytest.approx(93.0),
        (),
        "1 step: at least 92",
    )


def test_holm_counts_every_claim_and_intervals_agree_with_it(tmp_path):
    claim_rows = claimed(tmp_path, *by(LINEAR_METRIC, HURTS, EQUAL_CLAIM, CLOSE), losses={(4, 0): "failed"})
    hurts, equal, close = claim_rows

    assert hurts.answer.adjusted == pytest.approx(3 * hurts.answer.p)
    assert equal.answer.adjusted == pytest.approx(2 * equal.answer.p)
    assert [row.answer.alpha for row in claim_rows] == pytest.approx([0.05 / 3, 0.05 / 2, 0.05])
    assert [row.estimate.level for row in claim_rows] == [0.95] * 3
    assert close.estimate.low < 0 < close.estimate.high


def test_runs_that_are_left_or_lost_leave_a_claim_open(tmp_path):
    losses = {(2, 1): "not run", (2, 2): "not run", (4, 1): "failed", (4, 0): "diverged"}
    lost_claim = Claim("four are worse", lower={"steps": 4}, higher={"steps": 1})
    hurts, equal, failed_row = claimed(
        tmp_path, *by(LINEAR_METRIC, HURTS, EQUAL_CLAIM, lost_claim), losses=losses
    )

    assert (hurts.verdict, hurts.answer.alpha) == (Verdict.SUPPORTED, pytest.approx(0.05 / 3))
    assert (equal.verdict, equal.runs_left, equal.answer.p) == (Verdict.INTERIM, 2, None)
    assert (failed_row.verdict, failed_row.answer.reasons, failed_row.answer.p) == (
        Verdict.UNDECIDED,
        (Reason.RUNS_LOST,),
        None,
    )
    assert failed_row.loss_reasons == ["4 steps, seed 0: diverged", "4 steps, seed 1: failed: code"]


def test_no_run_and_one_seed_decide_nothing(tmp_path):
    (single_seed,) = claimed(tmp_path / "one", *by(LINEAR_METRIC, HURTS), seeds=1)
    (none,) = claimed(tmp_path / "none", HURTS, losses={(16, seed): "not run" for seed in range(3)})

    assert (single_seed.verdict, single_seed.answer.reasons, single_seed.estimate.interval) == (
        Verdict.UNDECIDED,
        (Reason.NO_SPREAD,),
        None,
    )
    assert (none.verdict, none.runs_left, none.estimate.value) == (Verdict.NOT_RUN, 3, None)


def test_one_lost_variant_leaves_a_claim_about_each_undecided(tmp_path):
    """One step is far above both others. Two of three seeds of sixteen diverged, and the claim was supported
    by p 2e-9.
    """
    each = Claim("one is above each", lower={"steps": [4, 16]}, higher={"steps": 1}, each=True)
    losses = {(16, 1): "diverged", (16, 2): "diverged"}
    (row,) = claimed(tmp_path / "r", *by(LINEAR_METRIC, each), losses=losses)

    assert (row.verdict, row.answer.reasons) == (Verdict.UNDECIDED, (Reason.RUNS_LOST,))


def test_a_selector_that_fits_several_variants_means_their_mean(tmp_path):
    (row,) = claimed(
        tmp_path, Claim("sixteen is worse than the rest", lower={"steps": 16}, higher={}, margin=1.0)
    )

    assert row.estimate.value == pytest.approx((93.0 + 92.9 + 92.0 + 90.0) / 4 - 90.0)
    assert {term.variant: term.weight for term in row.terms} == pytest.approx(
        {0: 0.25, 1: 0.25, 2: 0.25, 3: -0.75}
    )


def test_claim_of_several_contrasts_is_judged_by_the_weakest(tmp_path):
    """One step is above each of the others, by 0.1 the least: its p is the claim's. That sixteen are above
    each is worst of one step, whose p is that of the worst of three."""
    best = Claim("one is the best", lower={"steps": [2, 4, 16]}, higher={"steps": 1}, each=True)
    last = Claim("sixteen is the best", lower={"steps": [1, 2, 4]}, higher={"steps": 16}, each=True)
    other_claims = [CLOSE, HELPS]
    first, worst, close, helps = claimed(tmp_path, *by(LINEAR_METRIC, best, last, *other_claims))

    assert [row.estimate.value for row in (first, worst)] == pytest.approx([0.1, -3.0])
    assert first.answer.p == pytest.approx(close.answer.p)
    assert worst.answer.p == pytest.approx(3 * helps.answer.p)
    assert (first.verdict, worst.verdict) == (Verdict.UNDECIDED, Verdict.CONTRADICTED)


def test_a_tuned_selector_means_the_variant_that_the_selection_split_prefers(tmp_path):
    """Sixteen steps have the best selection score (as made_up copies the test score, of four steps 99 is
    written there).
    """
    claim = Claim("tuned", lower={"steps": [4, 16], "tuned": "steps"}, higher={"steps": 1})
    results = study(tmp_path / "r", [claim])
    for seed in range(3):
        record = result(92.0 + AROUND[seed]) | {
            "selected": {"epoch": 4, "split": "validation", "top1_accuracy": 40.0}
        }
        finish(results, 2, seed, record)
    records = read(results)
    (row,) = rows_of(records)

    assert [term.label for term in row.terms] == ["1 step", "16 steps"]  # 90.0 selected, before 40.0


def test_a_gain_is_a_difference_of_differences(tmp_path):
    doubling = [
        Interaction(of={"steps": 1}, over={"steps": 2}),
        Interaction(of={"steps": 2}, over={"steps": 4}),
    ]
    claim = Claim(
        "the second doubling costs more",
        lower=doubling[0],
        higher=doubling[1],
        margin=0.5,
        metric=LINEAR_METRIC,
    )
    (row,) = claimed(tmp_path, claim)
    (two,) = claimed(tmp_path / "two", *by(LINEAR_METRIC, HURTS))

    assert (row.estimate.value, row.sides) == (pytest.approx(0.9 - 0.1), ())
    assert row.estimate.error == pytest.approx(two.estimate.error * 3**0.5)  # weights 1, -2, 1 against 1, -1
    assert row.contrast == "(steps=2 minus steps=4) minus (steps=1 minus steps=2): at least 0.5"


def test_depths_at_test_are_compared_run_by_run(tmp_path):
    """Runs that are five points apart gain two points each, give or take a tenth: what they share is in no
    interval.
    """
    claim = Claim(
        "a second step helps",
        lower={"steps": 1, "eval.depth": 1},
        higher={"steps": 1, "eval.depth": 2},
        margin=1.0,
    )
    results = study(tmp_path / "r", [claim], means={1: 93.0})
    for seed, gain in enumerate((1.9, 2.0, 2.1)):
        record = result(80.0 + 5 * seed) | {
            "depths": {"top1_accuracy": {"1": 80.0 + 5 * seed - gain, "2": 80.0 + 5 * seed}}
        }
        finish(results, 0, seed, record)
    records = read(results)
    (row,) = rows_of(records)

    assert (row.verdict, row.terms[0].values, [side.value for side in row.sides]) == (
        "supported",
        pytest.approx((1.9, 2.0, 2.1)),
        pytest.approx([85, 83]),
    )
    assert (row.estimate.error, row.estimate.df) == pytest.approx((0.1 / 3**0.5, 2))


def test_two_metrics_of_the_same_runs_are_compared_run_by_run(tmp_path):
    """A made-up run's macro F1 is 0.2 below its accuracy, in every one: no spread is known."""
    (row,) = claimed(
        tmp_path, Claim("macro F1 is lower", lower={"metric": "macro_f1"}, higher={}, within=0.3)
    )

    assert row.estimate.value == pytest.approx(0.2)
    assert (row.verdict, row.answer.reasons) == (Verdict.UNDECIDED, (Reason.EQUAL_SEEDS,))


# ----------------------------------------------------------------------------------------------------------
# differences


def differences(root, spec=None, scores=ABLATION, **changes):
    records = read(ablation(root / "r", scores, **changes))
    return {row.label: row for row in family(records, spec or Differences()).rows}


def test_differences_are_variant_minus_base_by_one_fit_and_adjusted_over_all(tmp_path):
    rows = differences(tmp_path, Differences(metric=LINEAR_METRIC))
    fit = Fit(
        {
            name: [score for score in scores if isinstance(score, float)]
            for name, scores in ABLATION.items()
            if scores[0] is not None
        }
    )
    theirs = contrast([(1.0, fit.weighted("without MoE")), (-1.0, fit.weighted("full"))])
    estimate = rows["without MoE"].estimate

    assert (estimate.value, estimate.error, estimate.df) == pytest.approx((-0.9, theirs.error, theirs.df))
    assert rows["without MoE"].answer.p == pytest.approx(2 * stats.t.sf(0.9 / theirs.error, theirs.df))
    assert rows["without MoE"].group == "full"
    assert [row.outcome for row in rows.values()] == [""] * 6  # a cosine is neither good nor bad

    tested = [row for row in rows.values() if row.answer.p is not None]
    steps = sorted((row.answer.p, row.answer.adjusted) for row in tested)
    # six questions: one has lost runs, one a variant of a single run, one no run
    assert [adjusted for _, adjusted in steps] == pytest.approx([6 * steps[0][0], 5 * steps[1][0], 1])


def test_seeds_by_chance_alone_show_nothing_and_say_what_they_could_have_shown(tmp_path):
    row = differences(
        tmp_path,
        scores={"full": FULL, "b": [93.1, 93.1, 93.4, 92.7, 93.4]},
        spec=Differences(metric=LINEAR_METRIC),
    )["b"]
    estimate = row.estimate
    power = stats.nct.sf(stats.t.ppf(0.975, estimate.df), estimate.df, row.detectable / estimate.error)

    assert (row.verdict, row.answer.alpha) == (Verdict.NO_DIFFERENCE, 0.05)
    assert power == pytest.approx(0.8, abs=1e-3)
    assert row.answer.seeds_needed[1] > 100


def test_a_lower_loss_is_better(tmp_path):
    results = ablation(tmp_path / "r", {"full": FULL, "b": FULL})
    for index, first in enumerate((0.5, 0.3)):
        for seed in range(5):
            finish(results, index, seed, result(90.0) | {"metrics": {"nll": first + 0.01 * seed}})

    (row,) = family(read(results), Differences(metric="nll")).rows
    assert (row.verdict, row.outcome) == (Verdict.LOWER, "better")


@pytest.mark.parametrize(
    ("position", "changes", "message"),
    [
        (1, {"leaks": True}, "not compared: is given the caption that it must write"),
        (0, {"leaks": True}, "not compared: the base is given the caption that it must write"),
        (1, {"data": "MNIST"}, "not compared: the base is in CIFAR-10"),
    ],
)
def test_incomparable_variants_are_refused(tmp_path, position, changes, message):
    records = read(ablation(tmp_path / "r", {"full": FULL, "b": ABLATION["without MoE"]}))
    variants = [
        replace(variant, **(changes if index == position else {}))
        for index, variant in enumerate(records.variants)
    ]
    (row,) = family(
        replace(records, plan=replace(records.plan, variants=tuple(variants))), Differences()
    ).rows

    assert (row.answer.reasons[-1], row.verdict, row.terms, row.answer.p) == (
        message,
        Verdict.NOT_COMPARABLE,
        (),
        None,
    )
    assert row.estimate.value is None


def test_the_same_runs_as_the_base_are_no_comparison(tmp_path):
    variants = [
        dumped(variant) for variant in read(ablation(tmp_path / "a", {"full": FULL, "b": FULL})).variants
    ]
    study_plan = plan(variants=variants, axes={}, seeds=[], report=[])
    study_plan["runs"] = [[variant, seed, run_id(0, seed)] for variant in (0, 1) for seed in range(5)]
    (row,) = family(read(write_scored_plan(tmp_path / "r", study_plan, [FULL])), Differences()).rows

    assert (row.answer.reasons[-1], row.terms) == ("the base itself: it changes nothing", ())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, r"no variant has a base\. Name one with base=LABEL, or use leave_one_out\."),
        (
            {"base": "ViTRM, batch_size=46"},
            r"no variant 'ViTRM, batch_size=46': .* Did you mean 'ViTRM, batch size 64'\?",
        ),
        ({"metric": "params", "base": "ViTRM, batch_size=64"}, "params follows from the config"),
    ],
)
def test_differences_without_a_base_or_a_spread_are_refused(records, fields, message):
    with pytest.raises(ConfigError, match=message):
        family(records, Differences(**fields))


# -------------------------------------------------------------------------------------------------------------- effects


def axes(count):
    return {f"model.{letter}": [0, 1] for letter in "abcdefg"[:count]}


def effects(root, variants, score, **kwargs):
    return family(read(crossed(root / "r", variants, score, **kwargs)), Effects())


def test_effects_of_three_factors_are_the_regression(tmp_path):
    """An effect is twice the coefficient of its product of signs in the least squares."""
    table = dict(zip(product((0, 1), repeat=3), np.random.default_rng(1).normal(80, 3, 8), strict=True))
    effect_table = effects(
        tmp_path, factorial(axes(3)), lambda on, seed: table[tuple(on.values())] + seed / 10
    )

    signs = 2 * np.array([*table]) - 1
    terms = [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    design = np.column_stack([signs[:, list(term)].prod(axis=1) for term in terms])
    effects_by_regression = 2 * np.linalg.lstsq(design, np.array([*table.values()]), rcond=None)[0][1:]
    assert [row.estimate.value for row in effect_table.rows] == pytest.approx(
        list(effects_by_regression), abs=1e-8
    )
    assert [row.label for row in effect_table.rows][2:4] == ["c", "a \N{MULTIPLICATION SIGN} b"]
    assert (effect_table.levels["a"], effect_table.adjusted_for) == ([0, 1], 7)


def test_an_effect_with_a_lost_run_is_undecided(tmp_path):
    effect_table = effects(
        tmp_path,
        factorial(axes(2)),
        lambda on, seed: "failed" if seed == 1 and on["a"] else 80.0 + seed + on["b"],
    )

    assert {row.verdict for row in effect_table.rows} == {Verdict.UNDECIDED}
    assert effect_table.rows[0].loss_reasons == [
        "a 1, b 0, seed 1: failed: code",
        "a 1, b 1, seed 1: failed: code",
    ]


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        (grid({"model.a": [0]}), "effects 'effects': no axis has two levels among its variants"),
        (factorial(axes(2))[:3], "the variants are not a complete two-level factorial"),
    ],
)
def test_incomplete_factorial_is_refused(tmp_path, variants, message):
    with pytest.raises(ConfigError, match=message):
        effects(tmp_path, variants, lambda on, seed: 80.0)


GRID = grid({"model.a": [0, 1, 2], "model.b": [0, 1]})


def read_grid(root, part, seeds=3):
    """Runs of a grid: 3 points for each level of `a`, 1 for `b`, and one run less of the second variant."""
    noise = (0.2, -0.1, 0.5)

    def score(on, seed):
        return None if (on["a"], on["b"], seed) == (0, 1, 2) else 80 + 3 * on["a"] + on["b"] + noise[seed]

    return read(crossed(root / "r", GRID, score, seeds, [part]))


def test_a_grid_of_a_users_study_has_the_effects_of_its_levels(tmp_path):
    asked_family = family(read_grid(tmp_path, part := Effects(base={"a": 0})), part)

    rows = [(row.label, row.group, round(row.estimate.value, 3)) for row in asked_family.rows]
    # the two seeds of a 0, b 1 are lower by 0.15
    assert rows[0] == ("a 1", "a 0, on average over 2 settings of b", 3.075)
    assert [label for label, _, _ in rows] == ["a 1", "a 2", "b 0"]
    assert asked_family.adjusted_for == 3  # b has two levels, so that its best level is no further test
    best = Effects()
    assert family(read_grid(tmp_path / "best", best), best).adjusted_for == 4


def test_scores_of_levels_have_the_weights_of_their_difference(tmp_path):
    records = read_grid(tmp_path, part := Effects(base={"a": 0}))
    base, *_ = questions_shown(records, part).table.lines

    assert base[1].text.startswith("80.6 ")  # the mean of 80.2 and 81.05: 80.625, and not 80.54 of five runs


def test_an_unknown_base_of_effects_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"'a' has no level 7: there are 0, 1, 2"):
        family(read_grid(tmp_path, part := Effects(base={"a": 7})), part)


# ----------------------------------------------------------------------------------------------------------
# at planning

BASE = RunConfig(data=Digits(), model=ViTRM(patch=2, width=16, heads=2), train=TrainConfig(epochs=4))
STATED_CLAIM = Claim(
    "002 4.4.1: more supervision hurts",
    lower={"supervision_steps": 4},
    higher={"supervision_steps": 1},
    margin=0.5,
)


def planned(*claims):
    variants = grid({"train.supervision_steps": [1, 2, 4]})
    return make_plan(Study("s", {"quick": BASE, "paper": BASE}, variants, claims=claims, seeds=3))


def test_claims_stand_at_the_head_of_the_report_with_the_score_of_the_preset():
    first = plan_record(planned(STATED_CLAIM)).report[0]

    assert (first["kind"], first["claims"][0]["metric"]) == ("claims", "top1_accuracy")


def test_a_claim_rests_on_no_leak_and_counts_a_run_under_two_labels_once():
    claim = Claim("x", lower={"variant": "c"}, higher={}, metric="rouge_l")
    variants = [VariantRecord(label=label) for label in "abc"]

    assert Comparison(claim, variants, [{"at": 0}, {"at": 0}, {"at": 2}]).contrasts() == [
        ((), {0: {"rouge_l": 0.5}, 2: {"rouge_l": -0.5}})
    ]
    with pytest.raises(ConfigError, match="is about 'c', which leaks: choose other variants"):
        Comparison(
            claim,
            [*variants[:2], replace(variants[2], leaks=True)],
            [{"at": position} for position in range(3)],
        ).contrasts()


def test_a_stated_threshold_tells_the_seeds_that_learned(tmp_path):
    """Two of 93.0, 93.1 and 93.2 are above 93.05."""
    records = load_study(
        write_study(tmp_path / "r", success_threshold={"top1_accuracy": 93.05}), "made_up", "paper"
    )

    estimate = cell(records, [0], "top1_accuracy", Placement({}, ())).estimate

    assert (estimate.split.learned, estimate.split.total, estimate.split.success_mean) == (
        2,
        3,
        pytest.approx(93.15),
    )
    assert (estimate.low, estimate.high) == (None, None)
