"""`recstudy explain TABLE:ROW:COLUMN`: the cell that is meant, and everything behind its number."""

import re
import subprocess
import sys

import pytest
from made_up import plan, run_id, variants, write_search, write_study

from recstudy.analysis.frame import load_study
from recstudy.analysis.tables.cell_names import find_cell
from recstudy.analysis.tables.explain import explain, heading, runs_behind
from recstudy.errors import ConfigError
from recstudy.records import write_json

HOSTILE = "[bold]a:b</td>: \\ & c"


def place(records, name):
    found = find_cell(records, name)
    return found.table.name, found.row, found.column


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
        ("table1:ViT:64", "'ViT' is the beginning of 2 rows: give more of it, or a number: 1 'ViTRM', 2 'ViT-Small'"),
        ("table1:ViTRM:9", "no column '9': there are 1 '64', 2 '128', 3 'Parameters', 4 'Forward (GFLOP/image)'."),
        ("table1:ViTRM", "no column '': there are 1 '64'"),
        ("table1:3:1", "no row '3': there are 1 'ViTRM', 2 'ViT-Small'."),
        ("table1:0:1", "no row '0'"),
    ],
)
def test_a_name_that_means_none_or_several_is_refused_with_the_choices(records, name, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        find_cell(records, name)


def test_a_study_without_tables_says_so(tmp_path):
    records = load_study(write_study(tmp_path, report=[]), "made_up", "paper")

    with pytest.raises(ConfigError, match=re.escape("but got 'a:1:1'. Tables of made_up: none.")):
        find_cell(records, "a:1:1")


def test_the_number_follows_from_its_runs_by_hand(records):
    """93.0, 93.1 and 93.2: mean 93.1, deviation 0.1, half-width 4.303 * 0.1 / sqrt(3) = 0.2484."""
    found = find_cell(records, "table1:ViTRM:64")

    assert heading(found) == "table1, row 'ViTRM', column '64': Top-1 accuracy (%) 93.1 ±0.2 (n=3)"
    runs = runs_behind(records, found.cell)
    assert [row[:4] for row in runs] == [
        (run_id(0, seed), str(seed), "ViTRM, batch_size=64", value) for seed, value in enumerate(("93", "93.1", "93.2"))
    ]
    assert runs[0][4:] == ("0123abc", "feedbeef", "node-1, a processor", "2025-01-01T00:01:30Z")
    assert [*explain(records, found)] == [
        "Mean: (93 + 93.1 + 93.2) / 3 = 93.1",
        "Standard deviation (n - 1): 0.1",
        "95 % interval: 92.8516 to 93.3484, the mean ± t(0.975; 2) * s / sqrt(n) = 4.303 * 0.1 / sqrt(3) = 0.2484",
        "Published: 92.6 % (reported), 002 Table 1 (002_table1_cifar10#2)."
        " Note: best test-set checkpoint (test set used for early stopping).",
        "    of data.name cifar10, model ViTRM, train.selection test, train.epochs 1000, train.batch_size 64",
        "Verdict: differs: the 95 % interval excludes it, and the mean was not shown to be within the margin of 0.5 %",
    ]


def test_what_is_not_in_the_mean_is_named_with_its_reason(records):
    found = find_cell(records, "table1:ViTRM:128")

    lines = [*explain(records, found)]

    assert f"Not in it: run {run_id(1, 2)}, seed 2, ViTRM, batch_size=128: failed: code" in lines
    assert any(line.startswith("Verdict: undecided: the 95 % interval holds it") for line in lines)


def test_one_run_a_count_and_nothing(records):
    one = [*explain(records, find_cell(records, "scores:3:1"))]
    count = [*explain(records, find_cell(records, "scores:1:2"))]
    nothing = find_cell(records, "scores:4:1")

    assert one[:2] == ["Mean: (94.1) / 1 = 94.1", "95 % interval: none, of one run."]
    assert f"Not in it: run {run_id(2, 1)}, seed 1, ViT-Small, batch_size=64: diverged" in one
    assert f"Not in it: run {run_id(2, 2)}, seed 2, ViT-Small, batch_size=64: not run" in one
    assert "Verdict: not comparable: epochs 1000, not 300" in one
    assert count[1] == "It follows from the config, so that seeds do not matter and it has no interval."
    assert "Verdict: reproduced: the count rounds to the published digits (within 5e+04)" in count
    assert runs_behind(records, nothing.cell) == []
    assert next(iter(explain(records, nothing))) == "No number: \N{EN DASH} not run"


def test_a_trial_is_explained_by_its_fresh_seeds(tmp_path):
    records = load_study(write_search(tmp_path), "made_up", "paper")

    found = find_cell(records, "best:1:Top-1 accuracy")
    seen = find_cell(records, "best:1:1")

    assert [row[:2] for row in runs_behind(records, found.cell)] == [(run_id(4, 1), "1"), (run_id(4, 2), "2")]
    assert any(line.startswith(f"Not in it: run {run_id(4, 0)}, seed 0") for line in explain(records, found))
    assert runs_behind(records, seen.cell)[0][3] == "90"  # what the search saw, and no score of the test set


def test_labels_with_colons_and_markup_are_found_and_shown_as_they_are(tmp_path):
    changed = variants()
    changed[0]["label"] = HOSTILE
    results = write_study(tmp_path / "results", variants=changed)
    found = find_cell(load_study(results, "made_up", "paper"), f"scores:{HOSTILE}:Top-1 accuracy")

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
    assert done.stdout.startswith("table1, row 'ViTRM', column '64': Top-1 accuracy (%) 93.1 ±0.2 (n=3)\n")
    for words in (run_id(0, 2), "0123abc", "feedbeef", "node-1, a processor", "Verdict: differs", "Records: "):
        assert words in done.stdout


def test_the_command_asks_for_one_study(results):
    write_json(results.study("another", "quick") / "plan.json", plan(study="another", preset="quick"))

    several = run_command("table1:ViTRM:64", str(results.root))
    one = run_command("table1:ViTRM:64", str(results.study("made_up", "paper")))

    assert several.returncode == 2
    assert several.stderr.startswith("ConfigError: 2 studies here have a table 'table1': give one study's folder. There are ")
    assert "studies/made_up/paper (scores, table1)" in several.stderr
    assert one.returncode == 0
