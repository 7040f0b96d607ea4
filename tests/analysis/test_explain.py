"""`recstudy explain TABLE:ROW:COLUMN`: the cell that is meant, and everything behind its number."""

import re
import subprocess
import sys

import pytest
from made_up import TABLE1, plan, run_id, variants, write_search, write_study
from test_differences import ablation
from test_effects import factors, study

from recstudy import factorial
from recstudy.analysis import Differences, Effects
from recstudy.analysis.frame import load_study
from recstudy.analysis.tables.cell_names import find
from recstudy.analysis.tables.differences import differences_data
from recstudy.analysis.tables.explain import runs_behind
from recstudy.errors import ConfigError
from recstudy.records import write_json
from recstudy.report import dump_report

HOSTILE = "[bold]a:b</td>: \\ & c"


def place(records, name):
    found = find(records, name)
    return found.table, found.row, found.column


@pytest.mark.parametrize(
    ("name", "row", "column"),
    [
        ("table1:ViTRM:64", "ViTRM", "64"),
        ("table1:1:1", "ViTRM", "64"),
        ("table1:2:128", "ViT-Small", "128"),  # a label before a number
        ("table1:vitr:12", "ViTRM", "128"),  # the beginning of one, in any case
        ("table1:ViT-:Parameters", "ViT-Small", "Parameters"),
        ("table1: ViTRM : Forward", "ViTRM", "Forward (GFLOP/image)"),
        ("t:ViTRM:64", "ViTRM", "64"),
        ("scores:ViTRM, batch_size=64:Top-1 accuracy", "ViTRM, batch_size=64", "Top-1 accuracy (%)"),
    ],
)
def test_a_cell_is_named_by_labels_their_beginnings_or_numbers(records, name, row, column):
    assert place(records, name)[1:] == (row, column)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("table1", "a cell is named TABLE:ROW:COLUMN, but got 'table1'. Tables of made_up: scores, table1."),
        ("table1:", "a cell is named TABLE:ROW:COLUMN, but got 'table1:'."),
        ("tabel1:ViTRM:64", "no table 'tabel1': there are 'scores', 'table1'. Did you mean 'table1'?"),
        (":1:1", "no table '': there are 'scores', 'table1'."),
        ("table1:ViTMR:64", "no row 'ViTMR': there are 1 'ViTRM', 2 'ViT-Small'. Did you mean 'ViTRM'?"),
        ("table1:ViT:64", "'ViT' matches 2 rows; be more specific, or give a number: 1 'ViTRM', 2 'ViT-Small'"),
        ("table1:ViTRM:9", "no column '9': there are 1 '64', 2 '128', 3 'Parameters', 4 'Forward (GFLOP/image)'."),
        ("table1:ViTRM", "no column '': there are 1 '64'"),
        ("table1:3:1", "no row '3': there are 1 'ViTRM', 2 'ViT-Small'."),
        ("table1:0:1", "no row '0'"),
    ],
)
def test_a_name_that_means_none_or_several_is_refused_with_the_choices(records, name, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        find(records, name)


def test_a_study_without_tables_says_so(tmp_path):
    records = load_study(write_study(tmp_path, report=[]), "made_up", "paper")

    with pytest.raises(ConfigError, match=re.escape("but got 'a:1:1'. Tables of made_up: none.")):
        find(records, "a:1:1")


def test_the_number_follows_from_its_runs_by_hand(records):
    """93.0 93.1 93.2 and 92.9 93.3 on logits: s = 0.02824 with three degrees of freedom, half-width 3.182 * s / sqrt(3)."""
    told = find(records, "table1:ViTRM:64").behind(records)

    assert told.number == "Top-1 accuracy (%) 93.1 ±0.3 (n=3)"
    runs = runs_behind(records, told)
    assert [row[:4] for row in runs] == [
        (run_id(0, seed), str(seed), "ViTRM, batch_size=64", value) for seed, value in enumerate(("93", "93.1", "93.2"))
    ]
    assert runs[0][4:] == ("0123abc", "feedbeef", "node-1, a processor", "2025-01-01T00:01:30Z")
    assert [*told.lines] == [
        "Mean: (93 + 93.1 + 93.2) / 3 = 93.1",
        "Standard deviation s over seeds, pooled over 2 variants, 3 degrees of freedom: 0.02824"
        " on the scale ln(share / (1 - share)), with half an answer of 1,000 added to both",
        "95 % interval: 92.7569 to 93.4281, the mean ± t(0.975; 3) * s / sqrt(n) = 3.182 * 0.02824 / sqrt(3) = 0.05188"
        " on that scale",
        "Published: 92.6 % (reported), ViTRM Table 1 (002_table1_cifar10#2)."
        " Note: best test-set checkpoint (test set used for early stopping).",
        "    of data.name cifar10, model ViTRM, train.selection test, train.epochs 1000, train.batch_size 64",
        "Verdict: consistent: it lies within the 95 % prediction interval of one more run, 92.3982 to 93.7418,"
        " and the mean was not shown to be within the margin of 0.5 %",
    ]


def test_what_is_not_in_the_mean_is_named_with_its_reason(records):
    found = find(records, "table1:ViTRM:128")

    lines = found.behind(records).lines

    assert f"Not in it: run {run_id(1, 2)}, seed 2, ViTRM, batch_size=128: failed: code" in lines
    assert any(line == "Verdict: undecided: 1 seed failed or diverged, so that the rest may be the lucky ones" for line in lines)


def test_one_run_a_count_and_nothing(records):
    one = find(records, "scores:3:1").behind(records).lines
    count = find(records, "scores:1:2").behind(records).lines
    nothing = find(records, "scores:4:1").behind(records)

    assert one[0] == "Mean: (94.1) / 1 = 94.1"
    assert one[1].startswith("Standard deviation s over seeds, pooled over 2 variants, 3 degrees of freedom: 0.02824")
    assert f"Not in it: run {run_id(2, 1)}, seed 1, ViT-Small, batch_size=64: diverged" in one
    assert f"Not in it: run {run_id(2, 2)}, seed 2, ViT-Small, batch_size=64: not run" in one
    assert "Verdict: not comparable: epochs 1000, not 300" in one
    assert count[1] == "It follows from the config, so that seeds do not matter and it has no interval."
    assert "Verdict: reproduced: the count rounds to the published digits (within 5e+04)" in count
    assert nothing.runs == ()
    assert nothing.lines[0] == "No number: \N{EN DASH} not run"


def test_a_trial_is_explained_by_its_fresh_seeds(tmp_path):
    records = load_study(write_search(tmp_path), "made_up", "paper")

    found = find(records, "best:1:Top-1 accuracy").behind(records)
    seen = find(records, "best:1:1").behind(records)

    assert [row[:2] for row in runs_behind(records, found)] == [(run_id(4, 1), "1"), (run_id(4, 2), "2")]
    assert any(line.startswith(f"Not in it: run {run_id(4, 0)}, seed 0") for line in found.lines)
    assert runs_behind(records, seen)[0][3] == "90"  # what the search saw, and no score of the test set


def test_a_difference_follows_from_its_pairs_by_hand(tmp_path):
    """-0.9 -0.8 -1.1 -0.7 -1.0, by the spread of all pairs: t = -0.9 / 0.08856 = -10.16; five rows have a p."""
    records = load_study(ablation(tmp_path / "r", report=[Differences("components")]), "made_up", "paper")

    told = find(records, "components:without MoE:difference").behind(records)

    assert told.number == "Top-1 accuracy (%) -0.90, without MoE minus full: worse"
    assert [row[:4] for row in runs_behind(records, told)][:3] == [
        (run_id(1, 0), "0", "without MoE", "92.1"), (run_id(1, 1), "1", "without MoE", "92.4"), (run_id(1, 2), "2", "without MoE", "92"),
    ]  # fmt: skip
    assert told.lines == (
        "Seed 0: 92.1 - 93 = -0.9",
        "Seed 1: 92.4 - 93.2 = -0.8",
        "Seed 2: 92 - 93.1 = -1.1",
        "Seed 3: 92.2 - 92.9 = -0.7",
        "Seed 4: 92.3 - 93.3 = -1",
        "Mean: (-0.9 + -0.8 + -1.1 + -0.7 + -1) / 5 = -0.9",
        "Standard deviation s over seeds, pooled over 5 variants, beside an effect of each seed, 14 degrees of freedom: 0.02041"
        " on logits, turned into the metric's unit at each mean",
        "Standard error: the root of the sum of (weight * s)^2 / n over the variants: 0.08856",
        "95 % interval: -1.08993 to -0.710066, -0.9 ± t(0.975; 14) * standard error = 2.145 * 0.08856",
        "p: 7.643e-08, two-sided, of t = -0.9 / 0.08856 = -10.16 with 14 degrees of freedom",
        "Holm, over 5 tests from the least p on: the largest of 'two experts' 6.256e-08 * 5; 'without MoE' 7.643e-08 * 4,"
        " at most 1: 3.128e-07",
        "Verdict: worse: the adjusted p, <0.001, is below 0.05",
        "Detectable: 0.34, 0.25 to 0.54 by the uncertainty of s: a true difference of so much is shown in 80% of repetitions"
        " at the level of Holm's first step",
        "Published: no difference belongs here.",
    )


def test_a_difference_with_gaps_or_nothing_to_test_says_so(tmp_path):
    records = load_study(ablation(tmp_path / "r", report=[Differences("components")]), "made_up", "paper")

    def lines(name):
        return find(records, f"components:{name}").behind(records).lines

    assert "Not in it: seed 1: failed: code" in lines("two experts:p")
    assert lines("one seed:n")[:2] == ("Seed 0: 92 - 93 = -1", "Mean: (-1) / 1 = -1")
    assert lines("no seed:difference")[:2] == ("Verdict: no pair", "Not in it: seeds 0, 1: not run")
    assert lines("full:1")[0] == "Mean: (93 + 93.2 + 93.1 + 92.9 + 93.3) / 5 = 93.1"  # the base's own score
    alike = ablation(tmp_path / "s", {"full": [93.0, 93.0], "b": [92.0]}, [Differences("components")])
    told = find(load_study(alike, "made_up", "paper"), "components:b:p").behind(load_study(alike, "made_up", "paper")).lines
    assert told[:3] == ("b: Mean: (92) / 1 = 92", "full: Mean: (93 + 93) / 2 = 93", "Neither interval nor p: no spread is known.")


def test_a_published_difference_is_shown_with_both_numbers(tmp_path):
    spec = Differences("d", base="ViTRM, batch_size=128", targets=TABLE1)
    records = load_study(write_study(tmp_path / "r", report=dump_report([spec])), "made_up", "paper")

    same = find(records, "d:ViTRM, batch_size=64:difference").behind(records).lines
    other = find(records, "d:ViT-Small, batch_size=64:published").behind(records).lines
    base = find(records, "d:ViTRM, batch_size=128:1").behind(records).lines

    sources = "ViTRM Table 1 (002_table1_cifar10#2) minus ViTRM Table 1 (002_table1_cifar10#3)"
    assert same[-1] == f"Published: 92.6 - 93.1 = -0.5 %, of two numbers without seeds: {sources}"
    assert other[-1] == "    not comparable: epochs 1000, not 300"
    assert any(line.startswith("Published: 93.1 % (reported)") for line in base)


def test_an_effect_follows_from_its_halves_by_hand(tmp_path):
    """a adds 4 + the seed, b takes 2: seed 0 has 80, 78 without a, and 84, 82 with it."""
    made = study(
        tmp_path / "r", factorial(factors(2)), lambda levels, seed: 80.0 + (4 + seed) * levels["a"] - 2 * levels["b"],
        report=[Effects()],
    )  # fmt: skip
    records = load_study(made, "made_up", "paper")

    told = find(records, "effects:a:size").behind(records)
    product = find(records, "effects:3:size").behind(records)

    assert told.number == "Top-1 accuracy (%) +5.00 (a 0 to 1)"
    assert [run for run, _ in told.runs] == [run_id(at, seed) for half in ((2, 3), (0, 1)) for seed in range(3) for at in half]
    assert told.lines == (
        "Counted up: a=1, b=0; a=1, b=1",
        "Counted down: a=0, b=0; a=0, b=1",
        "Seed 0: (84 + 82) / 2 - (80 + 78) / 2 = 4",
        "Seed 1: (85 + 83) / 2 - (80 + 78) / 2 = 5",
        "Seed 2: (86 + 84) / 2 - (80 + 78) / 2 = 6",
        "Standard deviation s over seeds, pooled over 4 variants, 8 degrees of freedom: 0.05277"
        " on logits, turned into the metric's unit at each mean",
        "Standard error: the root of the sum of (weight * s)^2 / n over the variants: 0.4612",
        "95 % interval: 3.93656 to 6.06344, 5 ± t(0.975; 8) * standard error = 2.306 * 0.4612",
        "p: 4.627e-06, two-sided, of t = 5 / 0.4612 = 10.84 with 8 degrees of freedom",
        "Holm, over 3 tests from the least p on: the largest of 'a' 4.627e-06 * 3, at most 1: 1.388e-05",
    )
    assert product.lines[:3] == (
        "Counted up: a=0, b=0; a=1, b=1", "Counted down: a=0, b=1; a=1, b=0", "Seed 0: (80 + 82) / 2 - (78 + 84) / 2 = 0",
    )  # fmt: skip


def test_the_holm_steps_are_those_of_the_table(tmp_path):
    """For every row that has a p, the last number of its line is the p that the table prints."""
    records = load_study(ablation(tmp_path / "r", report=[Differences("components")]), "made_up", "paper")
    adjusted = {row.label: row.adjusted for row in differences_data(records, Differences()).rows if row.found.p is not None}

    for label, p in adjusted.items():
        (holm,) = (line for line in find(records, f"components:{label}:p").behind(records).lines if line.startswith("Holm"))
        assert float(holm.rpartition(": ")[2]) == pytest.approx(p, rel=1e-3)
    assert len(adjusted) == 5


def test_rows_of_one_label_are_told_apart_by_their_group(tmp_path):
    changed = [
        variant | {"label": variant["levels"]["model"], "data": name, "levels": variant["levels"] | {"data": name}}
        for name, variant in zip(("A", "B", "A", "B"), [variants()[at] for at in (0, 0, 2, 2)], strict=True)
    ]
    report = [{"kind": "table", "name": "grouped", "group": "data"}]
    records = load_study(write_study(tmp_path / "r", variants=changed, report=report), "made_up", "paper")

    assert place(records, "grouped:B, ViTRM:Parameters")[1:] == ("B, ViTRM", "Parameters")
    with pytest.raises(ConfigError, match=re.escape("no row 'ViTRM': there are 1 'A, ViTRM', 2 'A, ViT-Small', 3 'B, ViTRM'")):
        find(records, "grouped:ViTRM:Parameters")


def test_labels_with_colons_and_markup_are_found_and_shown_as_they_are(tmp_path):
    changed = variants()
    changed[0]["label"] = HOSTILE
    results = write_study(tmp_path / "results", variants=changed)
    found = find(load_study(results, "made_up", "paper"), f"scores:{HOSTILE}:Top-1 accuracy")

    done = run_command(f"scores:{HOSTILE}:Top-1 accuracy", str(results.root))

    assert found.row == HOSTILE
    assert (done.returncode, done.stderr) == (0, "")
    assert f"scores, row {HOSTILE!r}, column 'Top-1 accuracy (%)'" in done.stdout


def run_command(*arguments):
    code = "import sys; from recstudy.command import main\ntry: main(['explain', *sys.argv[1:]])\n"
    code += "finally: assert not {'torch', 'ray', 'optuna'} & set(sys.modules)"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=120)


def test_the_command_prints_all_of_it(results):
    done = run_command("table1:ViTRM:64", str(results.root))

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("table1, row 'ViTRM', column '64': Top-1 accuracy (%) 93.1 ±0.3 (n=3)\n")
    for words in (run_id(0, 2), "0123abc", "feedbeef", "node-1, a processor", "Verdict: consistent", "Records: "):
        assert words in done.stdout


def test_the_command_explains_a_difference(tmp_path):
    done = run_command("components:without MoE:p", str(ablation(tmp_path / "r", report=[Differences("components")]).root))

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("components, row 'without MoE', column 'p (Holm)': Top-1 accuracy (%) -0.90, without MoE minus")
    for words in (run_id(1, 4), run_id(0, 4), "0123abc", "feedbeef", "node-1, a processor", "Holm, over 5 tests", "Records: "):
        assert words in done.stdout


def test_the_command_asks_for_one_study(results):
    write_json(results.study("another", "quick") / "plan.json", plan(study="another", preset="quick"))

    several = run_command("table1:ViTRM:64", str(results.root))
    one = run_command("table1:ViTRM:64", str(results.study("made_up", "paper")))

    assert several.returncode == 2
    assert several.stderr.startswith("ConfigError: 2 studies here have a table 'table1': give one study's folder. There are ")
    assert "studies/made_up/paper (scores, table1)" in several.stderr
    assert one.returncode == 0
