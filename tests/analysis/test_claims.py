"""Claims on made-up studies whose differences are known: a variant for each number of steps, three seeds around a mean."""

import csv
import io
from dataclasses import replace

import pytest
from made_up import VITRM, as_result, base, failure, plan, result, run_id
from scipy import stats as scipy_stats

from recstudy import Claim, Gain, RunConfig, Study, TrainConfig, grid
from recstudy.analysis import Claims
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.analysis.tables.claim_table import csv_text, printed, would_take
from recstudy.analysis.tables.claims import claims_data, more, needed
from recstudy.analysis.tables.explain import find
from recstudy.data import Digits
from recstudy.errors import ConfigError
from recstudy.models import ViTRM
from recstudy.records import Results, write_json
from recstudy.records.study_schema import VariantRecord
from recstudy.report import dump_report, read_report
from recstudy.report.claims import weights
from recstudy.study.dry_run import _margins
from recstudy.study.plan import plan_record
from recstudy.study.study import make_plan

PLAIN = "cosine_after"  # a metric that does not go by logits: the same numbers, worked out by hand
AROUND = (-0.1, 0.0, 0.1)  # a seed's distance from its mean: the spread is 0.1
MEANS = {1: 93.0, 2: 92.9, 4: 92.0, 16: 90.0}
HURTS = Claim("more supervision hurts", less={"steps": 16}, than={"steps": 1}, by=0.5)
HELPS = Claim("more supervision helps", less={"steps": 1}, than={"steps": 16})
SAME = Claim("two steps are as good as one", less={"steps": 1}, than={"steps": 2}, within=0.6)
CLOSE = Claim("two steps are worse", less={"steps": 2}, than={"steps": 1})


def study(root, claims, means=MEANS, seeds=3, losses=None, **changes):
    """`losses`: (steps, seed) -> how that run ended, `failed` or `not run`."""
    variants = [
        {"label": f"steps={steps}", "levels": {"steps": steps}, "changes": {"train.supervision_steps": steps}, "model": "ViTRM"}
        for steps in means
    ]
    part = Claims(claims=tuple(claims)).scored_by("top1_accuracy")
    made = plan(
        variants=variants,
        axes={"steps": "train.supervision_steps"},
        seeds=list(range(seeds)),
        report=dump_report([part]),
        **changes,
    )
    results = Results(root).create()
    write_json(results.study("made_up", "paper") / "plan.json", made)
    for at, (steps, mean) in enumerate(means.items()):
        for seed in range(seeds):
            finish(results, run_id(at, seed), mean + AROUND[seed], (losses or {}).get((steps, seed), "done"))
    return results


def finish(results, identity, score, how):
    if how == "failed":
        write_json(results.run(identity).failure, failure())
    elif how == "done":
        made = result(score)
        results.run(identity).finish(as_result(made | {"metrics": made["metrics"] | {PLAIN: score}}))


def judged(tmp_path, *claims, **changes):
    records = load_study(study(tmp_path / "r", claims, **changes), "made_up", "paper")
    return claims_data(records, records.parts[0])


def test_a_claim_is_supported_beyond_its_margin_and_contradicted_on_the_other_side(tmp_path):
    verdicts = {one.claim.text: one.verdict for one in judged(tmp_path, HURTS, HELPS, SAME, CLOSE)}

    assert verdicts == {
        "more supervision hurts": "supported",
        "more supervision helps": "contradicted",
        "two steps are as good as one": "supported",
        "two steps are worse": "undecided",
    }


def test_the_interval_is_that_of_the_pooled_spread(tmp_path):
    """Four variants of three seeds, each with a standard deviation of 0.1: 8 degrees of freedom, error 0.1 sqrt(2 / 3)."""
    (one,) = judged(tmp_path, replace(HURTS, metric=PLAIN))
    half = scipy_stats.t.ppf(0.975, 8) * 0.1 * (2 / 3) ** 0.5

    assert one.found.value == pytest.approx(3.0)
    assert one.interval == pytest.approx((3.0 - half, 3.0 + half))
    assert one.p == pytest.approx(2 * scipy_stats.t.sf(2.5 / (0.1 * (2 / 3) ** 0.5), 8))


def test_an_effect_below_the_margin_contradicts_the_claim(tmp_path):
    """One step is better than four by 1.0: less than the two points that are claimed."""
    (one,) = judged(tmp_path, Claim("much worse", less={"steps": 4}, than={"steps": 1}, by=2.0))

    assert (one.verdict, one.room) == ("contradicted", pytest.approx(-1.0))
    assert one.outcome == "contradicted: smaller than claimed"


def test_no_difference_is_contradicted_by_one_that_is_wholly_outside(tmp_path):
    apart, between = judged(
        tmp_path,
        Claim("as good", less={"steps": 16}, than={"steps": 1}, within=0.5),
        Claim("about as good", less={"steps": 4}, than={"steps": 1}, within=1.0),
    )

    assert (apart.verdict, between.verdict) == ("contradicted", "undecided")


def test_p_is_adjusted_by_holm_over_all_claims_and_its_interval_agrees_with_it(tmp_path):
    found = judged(tmp_path, HURTS, SAME, CLOSE)
    hurts, same, close = found

    assert hurts.adjusted == pytest.approx(3 * hurts.p)
    assert same.adjusted == pytest.approx(2 * same.p)
    assert close.adjusted == pytest.approx(close.p)
    assert [one.alpha for one in found] == pytest.approx([0.05 / 3, 0.05 / 2, 0.05])
    assert close.interval[0] < 0 < close.interval[1]
    assert -0.6 < same.interval[0] < same.interval[1] < 0.6


def test_claims_that_are_not_run_count_for_holm_and_say_how_many_runs_are_left(tmp_path):
    hurts, same = judged(tmp_path, HURTS, SAME, losses={(2, 1): "not run", (2, 2): "not run"})

    assert (hurts.verdict, hurts.alpha) == ("supported", 0.05 / 2)
    assert (same.verdict, same.p, would_take(same, 2)) == ("not run", None, "2 runs")
    assert same.found is not None


def test_a_failed_run_leaves_its_claim_undecided(tmp_path):
    (one,) = judged(tmp_path, HURTS, losses={(16, 1): "failed"})

    assert (one.verdict, one.lost) == ("undecided", ("steps=16, seed 1: failed: code",))


def test_one_seed_decides_nothing(tmp_path):
    (one,) = judged(tmp_path, HURTS, seeds=1)

    assert (one.verdict, one.interval, would_take(one, 1)) == ("undecided", None, "a second seed")


def test_a_selector_that_fits_several_variants_means_their_mean(tmp_path):
    (one,) = judged(tmp_path, Claim("sixteen is worse than the rest", less={"steps": 16}, than={}, by=1.0))

    assert one.found.value == pytest.approx((93.0 + 92.9 + 92.0 + 90.0) / 4 - 90.0)
    assert {term.variant: term.weight for term in one.terms} == pytest.approx({0: 0.25, 1: 0.25, 2: 0.25, 3: -0.75})


def test_a_gain_is_a_difference_of_differences(tmp_path):
    claim = Claim(
        "the second doubling costs more",
        less=Gain(of={"steps": 1}, over={"steps": 2}),
        than=Gain(of={"steps": 2}, over={"steps": 4}),
        by=0.5,
        metric=PLAIN,
    )
    (one,) = judged(tmp_path, claim)

    assert one.found.value == pytest.approx(0.9 - 0.1)
    assert one.found.error == pytest.approx(0.1 * (6 / 3) ** 0.5)  # weights 1, -2, 1
    assert claim.contrast == "(steps=2 minus steps=4) minus (steps=1 minus steps=2): at least 0.5"


def test_depths_at_test_are_compared_run_by_run(tmp_path):
    """Runs that are points apart gain two points each, spread by 0.1 in one variant and not at all in the three others."""
    claim = Claim("a second step helps", less={"steps": 1, "eval.depth": 1}, than={"steps": 1, "eval.depth": 2}, by=1.0)
    results = study(tmp_path / "r", [claim])
    for seed, gain in enumerate((1.9, 2.0, 2.1)):
        made = result(93.0 + 5 * seed)
        made["depths"] = {"top1_accuracy": {"1": 93.0 + 5 * seed - gain, "2": 93.0 + 5 * seed}}
        results.run(run_id(0, seed)).finish(as_result(made))
    records = load_study(results, "made_up", "paper")

    (one,) = claims_data(records, records.parts[0])

    assert (one.verdict, one.found.value) == ("supported", pytest.approx(2.0))
    assert one.found.error == pytest.approx((0.02 / 8 / 3) ** 0.5)


def test_two_metrics_of_the_same_runs_are_compared_run_by_run(tmp_path):
    """A made-up run's macro F1 is 0.2 below its accuracy."""
    claim = Claim("macro F1 is lower", less={"metric": "macro_f1"}, than={}, within=0.3)
    (one,) = judged(tmp_path, claim)

    assert one.found.value == pytest.approx(0.2)
    assert one.verdict == "undecided"  # not one run differs from another: no spread is known


def test_the_table_says_what_is_claimed_found_and_lacking(tmp_path):
    results = study(tmp_path / "r", [HURTS, CLOSE])
    records = load_study(results, "made_up", "paper")
    part = records.parts[0]
    found = claims_data(records, part)

    page = printed(records, part, found)
    rows = list(csv.DictReader(io.StringIO(csv_text(found))))

    assert [entry.text for entry in page.lines[0]] == [
        "more supervision hurts",
        "Top-1 accuracy (%): steps=1 minus steps=16: at least 0.5",
        "+3.00",
        "+2.75 to +3.25",
        "<0.001",
        "supported",
        "",
    ]
    assert page.lines[1][-1].text == f"about {more(found[1], 2)} more seeds"
    assert [row["verdict"] for row in rows] == ["supported", "undecided"]
    assert "adjusted for 2 claims (Holm)" in page.notes[0]


def test_the_table_says_what_the_spread_is_pooled_from_and_what_all_seeds_share(tmp_path):
    """A tokenizer that is trained once for all of them has no part in any interval."""
    model = VITRM | {"tokenizer_epochs": 20, "files": ""}
    results = study(tmp_path / "r", [HURTS], base=base() | {"model": model})
    records = load_study(results, "made_up", "paper")
    page = printed(records, records.parts[0], claims_data(records, records.parts[0]))

    assert "spread over seeds, pooled from 4 variants (8 degrees of freedom): Top-1 accuracy" in page.notes
    assert "the seeds share one image tokenizer, so intervals leave out what it adds: steps=1; steps=16" in page.notes


def test_of_a_sum_over_depths_no_metrics_spread_is_named(tmp_path):
    claim = Claim("a second step helps", less={"steps": 1, "eval.depth": 1}, than={"steps": 1, "eval.depth": 2})
    records = load_study(study(tmp_path / "r", [claim]), "made_up", "paper")
    page = printed(records, records.parts[0], claims_data(records, records.parts[0]))

    assert not any("pooled from" in note for note in page.notes)


def test_the_claims_stand_in_the_page_in_files_and_in_explain(tmp_path):
    results = study(tmp_path / "r", [HURTS])
    page = write_report(results, "made_up", "paper")
    records = load_study(results, "made_up", "paper")

    told = find(records, "claims:1:verdict").behind(records)

    assert "more supervision hurts" in page.read_text()
    assert {path.name for path in (page.parent / "tables").iterdir()} == {"claims.md", "claims.tex", "claims.csv"}
    assert told.number == "Top-1 accuracy (%) +3.00: supported"
    assert told.lines[0] == "Claimed: steps=1 minus steps=16: at least 0.5"
    assert told.lines[3] == "Standard deviation over seeds: 0.01383 in logits, 8 degrees of freedom, pooled over 4 variants"
    assert len(told.runs) == 6


def test_a_plan_gives_back_what_was_claimed():
    gain = Claim("x", less=Gain(of={"steps": 1}, over={"steps": 2}), than={"steps": 4}, within=0.5, metric="nll")
    parts = [Claims(claims=(HURTS, gain))]

    assert read_report(dump_report(parts)) == parts


# ------------------------------------------------------------------------------------------------------------ at planning

BASE = RunConfig(data=Digits(), model=ViTRM(patch=2, width=16, heads=2), train=TrainConfig(epochs=4))
STATED = Claim("002 4.4.1: more supervision hurts", less={"supervision_steps": 4}, than={"supervision_steps": 1}, by=0.5)


def planned(*claims, by_preset=None, **fields):
    variants = grid({"train.supervision_steps": [1, 2, 4]})
    return make_plan(
        Study("s", {"quick": BASE, "paper": BASE}, variants, claims=claims if by_preset is None else by_preset, seeds=3, **fields)
    )


def test_they_stand_at_the_head_of_the_report_with_the_score_of_the_preset():
    record = plan_record(planned(STATED))

    assert record.report[0]["kind"] == "claims"
    assert record.report[0]["claims"][0]["metric"] == "top1_accuracy"
    assert not plan_record(planned(by_preset={"paper": [STATED]})).report


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"less": {"supervision_steps": 16}},
            "names supervision steps=16, which no variant has: there are supervision_steps=1, ",
        ),
        ({"less": {"supervison_steps": 1}}, "names 'supervison_steps', but the study has .*Did you mean 'supervision_steps'"),
        ({"less": {"supervision_steps": 1}}, "compares runs with themselves: supervision steps=1 minus supervision steps=1"),
        (
            {"less": {"eval.depth": 9}},
            "names eval.depth=9, but 'supervision_steps=1' is tested after 1 to 4 steps: set train.eval",
        ),
        ({"metric": "params"}, "is of 'params', which follows from the config and needs no test"),
        ({"metric": "acuracy"}, "shows 'acuracy', which no metric is called"),
    ],
)
def test_a_claim_that_cannot_be_tested_is_refused_before_it_runs(changes, message):
    fields = {"less": STATED.less, "than": STATED.than} | changes

    with pytest.raises(ConfigError, match=message):
        planned(Claim("002 4.4.1", **fields))


def test_a_claim_cannot_rest_on_a_variant_that_leaks():
    variants = [VariantRecord(label="a"), VariantRecord(label="b, LEAKY", leaks=True)]

    with pytest.raises(ConfigError, match="rests on 'b, LEAKY', which leaks: choose other variants"):
        weights(Claim("x", less={"variant": "a"}, than={}, metric="rouge_l"), variants, [{"at": 0}, {"at": 1}])


def test_a_run_under_two_labels_counts_once():
    claim = Claim("x", less={"variant": "c"}, than={}, metric="rouge_l")
    variants, configs = [VariantRecord(label=label) for label in "abc"], [{"at": 0}, {"at": 0}, {"at": 2}]

    assert weights(claim, variants, configs) == {0: {"rouge_l": 0.5}, 2: {"rouge_l": -0.5}}


def test_a_claim_has_one_kind_of_margin():
    with pytest.raises(ConfigError, match="the claim 'x': by is a direction's margin and within that of no difference: give one"):
        Claim("x", less={}, than={}, by=0.5, within=0.5)


def test_a_dry_run_says_how_many_seeds_a_margin_needs_where_runs_show_a_spread(tmp_path):
    plan, results = planned(STATED, SAME_STEPS), Results(tmp_path / "r").create()
    none = list(_margins(plan, results))
    for run in plan.runs:
        results.run(run.id).finish(as_result(result(93.0 + 5 * AROUND[run.seed])))
    (one, two) = _margins(plan, results)

    assert none == []
    assert one == "Claim: ViTRM 4.4.1: more supervision hurts. Its margin needs 9 to 94 seeds, by the runs so far."
    assert two.startswith("Claim: as good. ")


SAME_STEPS = Claim("as good", less={"supervision_steps": 1}, than={"supervision_steps": 2}, within=0.5)


def test_so_many_seeds_show_the_margin_four_times_in_five(tmp_path):
    """At twice the margin the true difference lies a margin inside; checked against the noncentral t distribution."""
    (one,) = judged(tmp_path, Claim("x", less={"steps": 2}, than={"steps": 1}, by=0.2, metric=PLAIN))
    least, most = needed(one, 1)

    def power(n, sd):
        df = 4 * (n - 1)
        return scipy_stats.nct.sf(scipy_stats.t.ppf(0.975, df), df, 0.2 / (sd * (2 / n) ** 0.5))

    low, high = (0.1 * (8 / scipy_stats.chi2.ppf(share, 8)) ** 0.5 for share in (0.975, 0.025))
    assert power(least, low) >= 0.8 > (power(least - 1, low) if least > 2 else 0)
    assert power(most, high) >= 0.8 > power(most - 1, high)
