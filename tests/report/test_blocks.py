"""Blocks: comparisons within data sets and other settings that are blocks, their average, and other blocks."""

import numpy as np
import pytest
from asking import rows_of
from own_study import run_study
from scipy.stats import f_oneway, ttest_1samp

from recstudy import Claim, Interaction, RunContext, grid
from recstudy.base.errors import ConfigError
from recstudy.evidence import Estimate, Fit, Reason, Verdict, contrast, interaction_p
from recstudy.report import Differences, Effects, Ranks
from recstudy.report.family import family
from recstudy.report.findings import findings
from recstudy.report.fits import fits_of
from recstudy.report.parts import parts_of
from recstudy.report.study_records import load_study
from recstudy.report.tables import question_table

LEVELS = {"MNIST": 97.0, "CIFAR-10": 76.0, "SVHN": 90.0}
NOISE = (0.1, -0.12, 0.03)
EQUAL = {"MNIST": 1.0, "CIFAR-10": 1.1, "SVHN": 0.9}  # how much better a method is
OPPOSITE = {"MNIST": 1.0, "CIFAR-10": -2.0, "SVHN": 1.5}
CLAIM = Claim("ours is better", lower={"method": "CNN"}, higher={"method": "ours"})


def trainer(effects):
    def train(run: RunContext) -> dict[str, float]:
        dataset, method = run.settings["dataset"], run.settings["method"]
        position = run.seed + list(LEVELS).index(dataset) + (method == "ours")
        better = effects[dataset] if method == "ours" else 0.0
        return {"accuracy": LEVELS[dataset] + better + NOISE[position % 3], "latency": 1.0 + run.seed}

    return train


def read(folder, effects, blocks=("dataset",), datasets=LEVELS, **fields):
    name = "equal" if effects is EQUAL else "opposite"
    results = run_study(
        folder,
        name,
        trainer(effects),
        settings={"dataset": "MNIST", "method": "CNN"},
        variants=grid({"dataset": list(datasets), "method": ["CNN", "ours"]}),
        blocks=list(blocks),
        **fields,
    )
    return load_study(results, name, "default")


def claimed(folder, effects, *claims, **fields):
    records = read(folder, effects, claims=claims, **fields)
    return rows_of(records)


def test_the_interaction_of_equal_variances_is_welchs():
    """Welch's test of k means, here of differences whose errors are known by their degrees of freedom."""
    rng = np.random.default_rng(3)
    groups = [rng.normal(mean, 1.0, 400) for mean in (0.0, 0.05, 0.2)]
    estimates = [contrast([(1.0, Fit({0: list(group)}).weighted(0))]) for group in groups]

    assert interaction_p(estimates) == pytest.approx(f_oneway(*groups).pvalue, rel=0.05)
    assert interaction_p([*estimates, Estimate(1.0)]) is None


def test_a_claim_over_blocks_is_about_their_average_and_says_so(tmp_path):
    """`Worse than dataset MNIST, method CNN: dataset CIFAR-10, method CNN -22.91` was said across data sets."""
    (row,) = claimed(tmp_path / "r", EQUAL, CLAIM)

    assert (row.verdict, row.marks) == (Verdict.SUPPORTED, ["these 3 data sets"])
    assert row.estimate.value == pytest.approx(1.0, abs=0.1)
    assert [words for words, _ in row.in_blocks] == list(LEVELS)
    assert [answer.estimate.value for _, answer in row.in_blocks] == pytest.approx([1.0, 1.1, 0.9], abs=0.3)


def test_blocks_of_opposite_signs_have_no_average(tmp_path):
    (row,) = claimed(tmp_path / "r", OPPOSITE, CLAIM)

    assert row.verdict is Verdict.CONTRADICTED
    assert row.marks[0].startswith("differs between these 3 data sets, from -2")
    assert "(CIFAR-10) to +1." in row.marks[0]


def test_a_claim_about_each_compares_within_blocks_only(tmp_path):
    each = Claim("each", lower={"method": "CNN"}, higher={"method": "ours"}, each=True)
    (within,) = claimed(tmp_path / "blocks", EQUAL, each)
    (across,) = claimed(tmp_path / "none", EQUAL, each, blocks=())

    assert (within.verdict, across.verdict) == (Verdict.SUPPORTED, Verdict.CONTRADICTED)


def test_other_blocks_are_a_t_test_over_the_differences(tmp_path):
    claim = Claim("elsewhere", lower={"method": "CNN"}, higher={"method": "ours"}, over="blocks")
    (row,) = claimed(tmp_path / "r", EQUAL, claim)
    differences = [answer.estimate.value for _, answer in row.in_blocks]

    assert row.answer.p == pytest.approx(ttest_1samp(differences, 0.0).pvalue)
    assert (row.estimate.df, row.estimate.n, row.answer.seeds_needed) == (2.0, 3, None)


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (
            Claim("across", lower={"dataset": "CIFAR-10"}, higher={"dataset": "MNIST"}),
            "compares MNIST with CIFAR-10: a comparison never crosses blocks",
        ),
        (
            Claim(
                "two",
                lower={"method": "CNN", "dataset": ["MNIST", "SVHN"]},
                higher={"method": "ours"},
                over="blocks",
            ),
            "needs at least 3 blocks and no each, but there are 2",
        ),
    ],
)
def test_comparisons_across_blocks_are_refused(tmp_path, claim, message):
    with pytest.raises(ConfigError, match=message):
        read(tmp_path / "r", EQUAL, claims=[claim])


def test_an_interaction_may_compare_the_effects_in_two_blocks(tmp_path):
    def effect(dataset):
        sides = [{"dataset": dataset, "method": method} for method in ("ours", "CNN")]
        return Interaction(of=sides[0], over=sides[1])

    claim = Claim("ours helps SVHN more", lower=effect("CIFAR-10"), higher=effect("SVHN"))
    (row,) = claimed(tmp_path / "r", OPPOSITE, claim)
    assert (row.verdict, row.in_blocks) == (Verdict.SUPPORTED, ())


def test_differences_take_the_base_of_each_block(tmp_path):
    part = Differences(metric="accuracy", base="dataset=MNIST, method=CNN")
    records = read(tmp_path / "r", EQUAL, report=[part])
    mean, *within = rows_of(records)

    assert (mean.group, mean.label) == ("method CNN, on average over these 3 data sets", "method ours")
    assert [(row.group, row.label) for row in within] == [
        (f"dataset {name}, method CNN", f"dataset {name}, method ours") for name in LEVELS
    ]
    assert {row.verdict for row in (mean, *within)} == {Verdict.HIGHER}
    assert "CIFAR-10, method CNN -" not in " ".join(map(str, findings(records)))


def test_differences_of_opposite_signs_need_no_seeds(tmp_path):
    """`No significant difference, ... of this size need about 1 more seed` was said of three significant ones."""
    records = read(
        tmp_path / "r", OPPOSITE, report=[Differences(metric="accuracy", base="dataset=MNIST, method=CNN")]
    )
    part = parts_of(records)[0]
    row = family(records, part).rows[0]
    said = " ".join(map(str, findings(records)))

    assert (row.verdict, row.answer.seeds_needed) == (Verdict.UNDECIDED, None)
    assert Reason.SIGNS_DIFFER in row.answer.reasons
    assert "Undecided: accuracy of method ours; differs between these 3 data sets, from -2" in said
    # one block decides the row, and its scores would stand beside the base of another block
    base, ours, *_ = question_table.table_of(records, part, family(records, part)).rows
    assert (base.cells[0].content, ours.cells[0].content) == ("", "")
    assert "No significant difference" not in said


def test_single_runs_of_many_blocks_are_a_t_test_over_blocks(tmp_path):
    claim = Claim("elsewhere", lower={"method": "CNN"}, higher={"method": "ours"}, over="blocks")
    (row,) = claimed(tmp_path / "r", EQUAL, claim, seeds=1)
    (early,) = claimed(tmp_path / "early", EQUAL, claim, seeds=1, max_seeds=10)

    assert (row.verdict, row.estimate.df) == (Verdict.SUPPORTED, 2.0)
    # the first look has no level yet
    assert (early.verdict, early.answer.reasons) == (Verdict.UNDECIDED, (Reason.ONE_SEED,))


def test_effects_are_averaged_over_blocks_and_blocks_have_no_effect(tmp_path):
    records = read(tmp_path / "r", EQUAL, report=[Effects(metric="accuracy")])
    (row,) = rows_of(records)

    assert (row.label, row.marks) == ("method", ["these 3 data sets"])
    assert row.estimate.value == pytest.approx(1.0, abs=0.1)


def test_variances_are_shared_within_blocks_only(tmp_path):
    records = read(tmp_path / "r", EQUAL, claims=[CLAIM])
    fits = fits_of(records, "accuracy")
    assert len({id(fit) for fit, _ in fits.values()}) == len(LEVELS)


def test_ranks_over_six_blocks_name_the_methods_that_tie(tmp_path):
    """Two methods over six data sets, of which one is better in each: the least p of Wilcoxon's test is 1/32."""
    levels = {f"D{number}": 60.0 + number for number in range(6)}
    part = Ranks(metric="accuracy")

    def train(run: RunContext) -> dict[str, float]:
        level = levels[run.settings["dataset"]]
        better = {"CNN": 0.0, "ours": 2.0 + level / 100}[run.settings["method"]]
        return {"accuracy": level + better + NOISE[run.seed], "latency": 1.0}

    variants = grid({"dataset": list(levels), "method": ["CNN", "ours"]})
    settings = {"dataset": "D0", "method": "CNN"}
    results = run_study(
        tmp_path, "ranks", train, settings=settings, variants=variants, blocks=["dataset"], report=[part]
    )
    records = load_study(results, "ranks", "default")
    data = parts_of(records)[0].data(records)
    tied = data.assign(method=["A &amp; B; C", "CNN"], ties=["CNN", "A &amp; B; C"], _worst=2.0)

    assert [list(line.x) for line in part.draw(tied).data[1:]] == [[1.0, 2.0]]
    assert list(data["method"]) == ["method ours", "method CNN"]
    assert list(data["mean_rank"]) == [1.0, 2.0]
    assert list(data["ties"]) == ["", ""]
    with pytest.raises(ConfigError, match="need two methods in at least 6 blocks"):
        read(tmp_path / "few", EQUAL, report=[part])
