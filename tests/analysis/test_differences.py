"""Differences from a base: made-up ablations whose differences are known."""

import csv
import io
from pathlib import Path

import pytest
from made_up import TABLE1, VIT, VITRM, as_result, base, failure, plan, result, run_id
from rich.console import Console
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from tex import compiled, needs_siunitx

from recstudy import RunConfig, Study, TrainConfig, leave_one_out
from recstudy.analysis import Differences
from recstudy.analysis.contrasts import Contrast, contrast, factors
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import show_report, write_report
from recstudy.analysis.stats import Scale, pool
from recstudy.analysis.tables import markup
from recstudy.analysis.tables.difference_table import csv_text, p_text, printed, signed
from recstudy.analysis.tables.differences import differences_data
from recstudy.analysis.tables.latex import latex
from recstudy.data import Digits
from recstudy.errors import ConfigError
from recstudy.models import ViTRM
from recstudy.records import Results, write_json
from recstudy.records.reading import dumped
from recstudy.report import dump_report
from recstudy.report.venues import Paper
from recstudy.study.plan import record_plan
from recstudy.study.study import make_plan

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = '<script>alert("x")</script> & \\evil{} $a_b^c$ 100% | *b* [1](http://x) #~ =1+1'
FULL = [93.0, 93.2, 93.1, 92.9, 93.3]
ABLATION = {
    "full": FULL,
    "without MoE": [92.1, 92.4, 92.0, 92.2, 92.3],  # -0.9 -0.8 -1.1 -0.7 -1.0: worse
    "without EMA": [93.1, 93.1, 93.4, 92.7, 93.4],  # +0.1 -0.1 +0.3 -0.2 +0.1: not shown
    "two experts": [94.0, "failed", 94.2, None, 94.3],  # three pairs of five
    "one seed": [92.0],
    "no seed": [None, None],
    "the same": [score + 0.5 for score in FULL],
}


def ablation(root, scores=ABLATION, report=(), **changes):
    """A leave-one-out study: the first label is the base of all others; None: not run, "failed": failed, "diverged": diverged."""
    labels = list(scores)
    variants = [
        {"label": label, "levels": {}, "changes": {"train.ema_decay": at}, "model": "ViTRM", "data": "CIFAR-10"}
        | ({"base": 0} if at else {})
        for at, label in enumerate(labels)
    ]
    made = plan(**{"variants": variants, "axes": {}, "seeds": [], "report": dump_report(list(report)), **changes})
    made["runs"] = [[at, seed, run_id(at, seed)] for at, label in enumerate(labels) for seed in range(len(scores[label]))]
    results = Results(root).create()
    write_json(results.study("made_up", "paper") / "plan.json", made)
    for at, label in enumerate(labels):
        for seed, score in enumerate(scores[label]):
            finish(results, run_id(at, seed), score)
    return results


def finish(results, identity, score):
    if score == "failed":
        write_json(results.run(identity).failure, failure())
    elif score == "diverged":
        results.run(identity).finish(as_result(result(None, status="diverged")))
    elif score is not None:
        results.run(identity).finish(as_result(result(score)))


def rows_of(tmp_path, spec=None, **changes):
    records = load_study(ablation(tmp_path / "r", **changes), "made_up", "paper")
    return {row.label: row for row in differences_data(records, spec or Differences()).rows}


@pytest.fixture
def rows(tmp_path):
    return rows_of(tmp_path)


def test_a_difference_is_variant_minus_base_by_the_spread_of_all(tmp_path):
    """The seeds go together (each has an effect of its own), so they are compared in pairs."""
    data = differences_data(load_study(ablation(tmp_path / "r"), "made_up", "paper"), Differences())
    moe = data.rows[0]

    assert (moe.seeds, moe.values) == ((0, 1, 2, 3, 4), (-0.9, -0.8, -1.1, -0.7, -1.0))
    assert (moe.paired, data.pairing.helps, data.pairing.spread.df) == (True, True, 14)  # 23 scores of 5 variants on 5 seeds
    assert moe.found == contrast([ABLATION["without MoE"], FULL], (1, -1), [data.pairing.spread] * 2)
    assert (moe.run_ids, moe.base_ids) == tuple(tuple(run_id(variant, seed) for seed in range(5)) for variant in (1, 0))


UNRELATED = {"full": [93.0, 93.4, 92.9, 93.3], "b": [92.9, 92.2, 92.6, 92.5], "c": [93.1, 93.2, "failed", 92.8], "d": [92.0]}


def test_seeds_that_do_not_go_together_are_not_paired(tmp_path):
    """All scores of both count then, also of a variant with one seed, and of the base where the variant's failed."""
    data = differences_data(load_study(ablation(tmp_path / "r", UNRELATED), "made_up", "paper"), Differences())
    _, failed, lone = data.rows

    assert not data.pairing.helps
    assert (failed.n, failed.values, failed.missing) == ((3, 4), (), ("seed 2: failed: code",))
    spread = pool({0: UNRELATED["full"], 1: UNRELATED["b"], 2: [93.1, 93.2, 92.8]}, Scale(0, 100, 1000))[0]
    assert failed.found == contrast([[93.1, 93.2, 92.8], UNRELATED["full"]], (1, -1), [spread, spread])
    assert (lone.n, lone.missing, lone.found.df) == ((1, 4), (), 8)


def test_p_is_adjusted_over_the_rows_that_have_one(rows):
    tested = [row for row in rows.values() if row.found.p is not None]

    adjusted = multipletests([row.found.p for row in tested], method="holm")[1]

    assert [row.adjusted for row in tested] == pytest.approx(list(adjusted))
    assert [row.label for row in rows.values() if row.adjusted is None] == ["no seed"]


def test_a_failed_seed_gives_no_pair_and_is_said(rows):
    experts = rows["two experts"]

    assert (experts.seeds, experts.values) == ((0, 2, 4), (1.0, 1.1, 1.0))
    assert experts.missing == ("seed 1: failed: code", "seed 3: not run")


def test_unequal_seeds_are_said_on_both_sides(tmp_path):
    found = rows_of(tmp_path, scores={"full": [93.0, None, "diverged", 93.0], "b": [92.0, 92.5, 92.5, 91.0, 90.0]})

    assert (found["b"].n, found["b"].seeds) == ((5, 2), (0, 1, 2, 3, 4))
    assert found["b"].missing == ("seed 1: base not run", "seed 2: base diverged")


def test_what_is_detectable_is_at_the_level_of_holms_first_step(rows):
    """Five rows are tested: of a true difference of so much, 4 of 5 repetitions have p < 0.05 / 5."""
    found, least = rows["without EMA"].found, rows["without EMA"].detectable

    assert TTestPower().power(least.value / found.error / 15**0.5, 15, 0.05 / 5) == pytest.approx(0.8, abs=1e-4)
    low, high = factors(14)
    assert (least.low, least.high) == pytest.approx((low * least.value, high * least.value))
    assert rows["no seed"].detectable is None


def test_verdicts_in_words(rows):
    assert {label: row.verdict for label, row in rows.items()} == {
        "without MoE": "worse",
        "without EMA": "no difference shown",
        "two experts": "better",
        "one seed": "worse",  # by the spread of the others
        "no seed": "no pair",
        "the same": "better",
    }


def test_without_a_spread_nothing_is_decided(tmp_path):
    found = rows_of(tmp_path, scores={"full": [93.0, 93.0], "b": [92.0], "c": [None]})

    assert [row.verdict for row in found.values()] == ["undecided: no spread is known", "no run"]
    assert found["b"].found == Contrast(-1.0)


def test_a_lower_loss_is_better_and_a_metric_without_direction_is_neither(tmp_path):
    results = ablation(tmp_path / "r", scores={"full": FULL, "b": ABLATION["without MoE"]})
    for at, scores in enumerate((FULL, ABLATION["without MoE"])):
        for seed, score in enumerate(scores):
            made = result(score)
            results.run(run_id(at, seed)).finish(as_result(made | {"metrics": {"nll": score, "halting_depth": score}}))
    records = load_study(results, "made_up", "paper")

    verdicts = [differences_data(records, Differences(metric=name)).rows[0].verdict for name in ("nll", "halting_depth")]

    assert verdicts == ["better", "lower"]


def test_the_same_runs_as_the_base_are_no_comparison(tmp_path):
    """An ablation that changes nothing shares its run ids with the base."""
    results = ablation(tmp_path / "r", scores={"full": FULL, "b": FULL})
    file = results.study("made_up", "paper") / "plan.json"
    made = plan(variants=[dumped(one) for one in load_study(results, "made_up", "paper").variants], axes={}, seeds=[], report=[])
    write_json(file, made | {"runs": [[variant, seed, run_id(0, seed)] for variant in (0, 1) for seed in range(5)]})

    (row,) = differences_data(load_study(results, "made_up", "paper"), Differences()).rows

    assert (row.verdict, row.values, row.found.p) == ("the base itself: it changes nothing", (), None)


@pytest.mark.parametrize(
    ("at", "changes", "said"),
    [
        (1, {"leaks": True}, "not compared: is told the caption it is to write"),
        (0, {"leaks": True}, "not compared: the base is told the caption it is to write"),
        (1, {"data": "MNIST"}, "not compared: other data"),
    ],
)
def test_what_cannot_be_compared_is_not(tmp_path, at, changes, said):
    scores = {"full": FULL, "b": ABLATION["without MoE"]}
    variants = [dumped(variant) for variant in load_study(ablation(tmp_path / "a", scores=scores), "made_up", "paper").variants]
    variants[at] |= changes

    (row,) = rows_of(tmp_path, scores=scores, variants=variants).values()

    assert (row.verdict, row.values, row.missing) == (said, (), ())


def test_any_variant_may_be_named_as_the_base(tmp_path):
    found = rows_of(tmp_path, Differences(base="without MoE"))

    assert list(found) == ["full", "without EMA", "two experts", "one seed", "no seed", "the same"]
    assert found["full"].found.value == pytest.approx(0.9)


def test_a_plan_of_before_there_were_bases_asks_for_one(records):
    with pytest.raises(ConfigError, match=r"no variant has a base\. Name one with base=LABEL, or use leave_one_out\."):
        differences_data(records, Differences())
    with pytest.raises(ConfigError, match=r"no variant 'ViTRM, batch_size=46': .* Did you mean 'ViTRM, batch_size=64'\?"):
        differences_data(records, Differences(base="ViTRM, batch_size=46"))


def test_what_follows_from_the_config_is_not_tested(records):
    with pytest.raises(ConfigError, match="params follows from the config"):
        differences_data(records, Differences(metric="params", base="ViTRM, batch_size=64"))


def test_published_differences_stand_beside_where_both_numbers_are_known(records):
    """Table 1 of 002: ViTRM at batch 128 has 93.1 %, at 64 92.6 %, ViT-Small 94.0 and 93.9 %."""
    data = differences_data(records, Differences(base="ViTRM, batch_size=128", targets=TABLE1))

    found = {row.label: [difference.value for difference in row.published] for row in data.rows}
    published = {
        (row.where["model"], row.where["train.batch_size"]): row.value for row in TABLE1 if row.metric == "top1_accuracy"
    }
    assert found == {
        f"{model}, batch_size={batch}": [pytest.approx(published[model, batch] - published["ViTRM", 128])]
        for model, batch in (("ViTRM", 64), ("ViT-Small", 64), ("ViT-Small", 128))
    }
    assert data.rows[0].published[0].sources.startswith("ViTRM Table 1 (002_table1_cifar10#")
    assert data.rows[0].published[0].reasons == ()
    assert data.rows[1].published[0].reasons == ("epochs 1000, not 300",)


def specs():
    return [Differences("components", title="Components")]


def page_of(tmp_path, spec=None, **changes):
    records = load_study(ablation(tmp_path / "r", **changes), "made_up", "paper")
    spec = spec or specs()[0]
    return printed(records, spec, differences_data(records, spec))


def test_golden(tmp_path):
    assert markup.markdown(page_of(tmp_path)) == (GOLDEN / "components.md").read_text()


def test_published_differences_are_marked_as_of_two_numbers(records):
    spec = Differences(base="ViTRM, batch_size=128", targets=TABLE1)

    shown = markup.markdown(printed(records, spec, differences_data(records, spec)))

    assert "| detectable | published difference |" in shown
    assert "-0.5 (of two numbers) |" in shown
    assert "+0.9 (of two numbers) \\[1\\] |" in shown
    assert "\\[1\\] not comparable: epochs 1000, not 300" in shown


def test_csv_has_a_line_a_variant_in_full_precision(tmp_path):
    records = load_study(ablation(tmp_path / "r"), "made_up", "paper")

    lines = {line["row"]: line for line in csv.DictReader(csv_text(differences_data(records, Differences())).splitlines())}

    assert len(lines) == 6
    assert float(lines["without MoE"]["low"]) == pytest.approx(-1.0899, abs=1e-4)
    assert lines["two experts"]["missing"] == "seed 1: failed: code; seed 3: not run"
    assert lines["two experts"]["seeds"] == "0 2 4"
    assert int(lines["without EMA"]["more_seeds"]) > 100  # a spread of 0.19 around 0.04
    assert lines["without MoE"]["more_seeds"] == ""


def test_latex_names_both_runs_of_every_pair(tmp_path):
    """Three of the five seeds of `two experts` have a pair; the base's own score rests on all of its runs."""
    lines = latex(page_of(tmp_path), Paper(9, 9)).splitlines()
    ours, base = ([run_id(at, seed) for seed in (0, 2, 4)] for at in (3, 0))

    behind = f"runs {' '.join(ours)} minus {' '.join(base)}; seeds 0, 2, 4; commit 0123abc"
    assert f"% difference; 95 % interval; p (Holm); detectable: {behind}" in lines
    assert f"% Top-1 accuracy (%): runs {' '.join(ours)}; seeds 0, 2, 4; commit 0123abc" in lines
    whole = " ".join(run_id(0, seed) for seed in range(5))
    assert f"% Top-1 accuracy (%): runs {whole}; seeds 0, 1, 2, 3, 4; commit 0123abc" in lines
    row = next(at for at, line in enumerate(lines) if line.startswith("no seed &"))
    assert not lines[row + 1].startswith("%")


def hostile(tmp_path):
    scores = {HOSTILE: FULL, f"without {HOSTILE}": ["failed", *ABLATION["without MoE"][1:]]}
    return page_of(tmp_path, Differences("h", title=HOSTILE), scores=scores, command=HOSTILE)


def test_hostile_labels_are_text_everywhere(tmp_path):
    page = hostile(tmp_path)

    assert "<script" not in markup.html_table(page)
    assert "&lt;script&gt;alert(&quot;x&quot;)" in markup.html_table(page)
    assert "<script" not in markup.markdown(page)
    console = Console(width=400, record=True, file=io.StringIO())
    console.print(markup.Terminal(page))
    assert "[1](http://x)" in console.export_text()


@needs_siunitx
def test_latex_compiles(tmp_path):
    assert compiled(latex(hostile(tmp_path)), tmp_path).exists()


def test_it_stands_in_the_report_and_in_the_terminal(tmp_path):
    results = ablation(tmp_path / "r", report=specs())

    page = write_report(results, "made_up", "paper")

    assert sorted(path.name for path in page.parent.glob("tables/*")) == ["components.csv", "components.md", "components.tex"]
    assert "two experts: no pair at seed 1: failed: code; seed 3: not run" in page.read_text()
    console = Console(width=250, record=True, file=io.StringIO())
    show_report(results, "made_up", "paper", (), console)
    assert "no difference shown" in console.export_text()


def test_from_the_study_file_to_the_page(tmp_path):
    """A study as a user writes it; its runs' results are written by hand."""
    model = ViTRM(patch=2, width=16, heads=2)
    study = Study(
        name="parts",
        presets={"quick": RunConfig(data=Digits(), model=model, train=TrainConfig(epochs=2))},
        variants=leave_one_out({"without EMA": {"train.ema_decay": 0.0}, "one cycle": {"model.cycles": model.cycles}}),
        seeds=2,
        report=[Differences("components")],
        question="Which part helps?",
    )
    made, results = make_plan(study), Results(tmp_path / "r").create()
    record_plan(made, results)
    for run in made.runs:
        results.run(run.id).finish(as_result(result(88.0 + 2 * run.seed if run.label == "without EMA" else 90.0 + run.seed)))

    page = write_report(results, "parts", "quick")

    lines = (page.parent / "tables/components.md").read_text().splitlines()
    assert [line.partition(" |")[0] for line in lines[4:7]] == ["| full", "| without EMA", "| one cycle"]
    assert "| -1.50 | -6.17 to +3.17 | 0.301 | no difference shown | 2, 2 |" in lines[5]
    assert "the base itself: it changes nothing" in lines[6]


def test_how_numbers_are_printed():
    assert [signed("top1_accuracy", value) for value in (0.25, -1.0, None)] == ["+0.25", "-1.00", "\N{EN DASH}"]
    assert [signed("bleu_1", 0.0071), signed("unheard_of", 0.2)] == ["+0.0071", "+0.2"]
    assert [p_text(p) for p in (None, 0.0004, 0.049)] == ["\N{EN DASH}", "<0.001", "0.049"]


def test_the_protocol_is_said_to_be_synthetic_or_smoke(tmp_path):
    page = page_of(tmp_path, smoke=True, base=base(epochs=2), scores={"full": FULL, "b": FULL})

    assert page.warnings[0].startswith("smoke run: 2 epochs")


def test_variants_may_replace_the_whole_model(tmp_path):
    """A baseline as the base: the paper's own comparison."""
    variants = [
        {"label": label, "levels": {}, "changes": {"model": model}, "model": label, "data": "CIFAR-10", "base": at or None}
        for at, (label, model) in enumerate((("ViTRM", VITRM), ("ViT-Small", VIT)))
    ]
    variants[1]["base"] = 0

    found = rows_of(tmp_path, scores={"ViTRM": FULL, "ViT-Small": ABLATION["two experts"]}, variants=variants)

    assert found["ViT-Small"].verdict == "better"
