"""`recstudy judge`: a CSV of finished runs becomes a study, which every reading command takes like any
other.
"""

import json
import os
from itertools import product
from pathlib import Path

import pytest
from processes import run_python
from repositories import git
from rich.console import Console

import recstudy
from recstudy.base.errors import ConfigError, StorageError
from recstudy.board.folder import ResultsFolder
from recstudy.cli.judge import JudgeCommand
from recstudy.cli.reproduce import ReproduceCommand
from recstudy.publishing.bundle import Bundle
from recstudy.publishing.publish import publish
from recstudy.publishing.verify import verify
from recstudy.records import Results
from recstudy.recursive.reevaluate import evaluate
from recstudy.report.audit import audit, show_audits
from recstudy.report.explain import explain_cell, show_cell
from recstudy.report.family import family
from recstudy.report.parts import parts_of
from recstudy.report.status import status, studies_at
from recstudy.report.summary import facts, origins
from recstudy.report.tables import question_table
from recstudy.report.writing import show_report
from recstudy.study.claims_file import read_claims

HEAD = "lr,depth,seed,accuracy,val/loss,state\n"
ROWS = [
    f"{lr},{depth},{seed},{80 + 5 * depth + seed / 100 - lr:.2f},{2 - depth / 4 + seed / 1000},finished"
    for lr in (0.1, 0.01)
    for depth in (1, 2)
    for seed in (3, 7, 42)
]
CLAIMS = """question: Does depth help?
metrics:
  accuracy: {unit: "%", items: 1000}
  val/loss:
claims:
- text: depth 2 is better
  higher: {depth: 2}
  lower: {depth: 1}
  margin: 2
- text: the loss at a small rate is higher
  higher: {lr: 1e-2, metric: val/loss}
  lower: {lr: 0.1, metric: val/loss}
"""


@pytest.fixture
def judge(tmp_path):
    """Rows of a CSV file, and options -> the study's folder."""

    def run(rows: list[str], **options) -> Path:
        Path("runs.csv").write_text(HEAD + "".join(f"{row}\n" for row in rows))
        claims = Path("claims.yaml") if Path("claims.yaml").exists() else None
        assert JudgeCommand(Path("runs.csv"), claims=claims, **options).run() == 0
        return tmp_path / "results/studies/runs/imported"

    return run


def values(folder: Path) -> dict[str, float]:
    frame = recstudy.load(folder).runs
    return {f"{row.label}, {row.seed}": row.accuracy for row in frame.itertuples()}


def test_judge_gives_estimates_figures_and_verdicts(judge, capsys):
    Path("claims.yaml").write_text(CLAIMS)
    loaded = recstudy.load(judge(ROWS))
    first, *output_lines = capsys.readouterr().out.splitlines()
    assert first == (
        "runs.csv: 12 runs; settings: lr, depth; seed: seed; metrics: accuracy (%, higher is better, 1,000 test items), "
        "val/loss (lower is better); left out: none. Other columns or directions: --settings A,B --metrics C,D:lower --seed S"
    )
    frame = loaded.table("results").frame
    assert frame[frame.metric == "accuracy"]["mean"].round(2).tolist() == [90.16, 90.07, 85.16, 85.07]
    assert output_lines[0].startswith("Supported (post hoc): depth 2 is better: ")
    assert list(loaded.table("claims").frame.verdict) == ["supported (post hoc)", "undecided (post hoc)"]
    assert set(loaded.parts) == {"claims", "results", "by_factor", "differences"}


def test_a_pair_is_of_the_seeds_that_both_have(judge, capsys):
    """The difference was 2 points, but the sides were the means over all seeds: 60 lowers one, 99 the other."""
    Path("claims.yaml").write_text(CLAIMS.partition("- text: the loss")[0])
    accuracies = {1: {0: 60.0, 1: 80.0, 2: 81.0, 3: 82.0}, 2: {1: 82.0, 2: 83.1, 3: 83.9, 4: 99.0, 5: 99.0}}
    rows = [
        f"0.1,{depth},{seed},{accuracy},1,finished"
        for depth, of_seed in accuracies.items()
        for seed, accuracy in of_seed.items()
    ]
    records = recstudy.load(judge(rows, paired=True)).records
    (row,) = family(records, parts_of(records)[0]).rows
    table = question_table.table_of(records, part := parts_of(records)[-1], family(records, part))

    assert (row.estimate.value, row.estimate.n, len(row.run_ids)) == (2.0, 3, 6)
    assert [side.value for side in row.sides] == [83.0, 81.0]
    assert any("differences over the seeds that both variants have" in note for note in table.notes)
    assert ("Plan", "2 variants, 4 to 5 seeds") in facts(records)
    number = explain_cell([(records.results, "runs", "imported")], "claims:1")
    assert sorted(run.value for run in number.runs) == [80.0, 81.0, 82.0, 82.0, 83.1, 83.9]


def test_every_run_is_marked_with_the_file_that_it_is_from(judge):
    records = recstudy.load(judge(ROWS)).records
    (file,) = records.plan.imported
    assert {row.provenance.origin for row in records.rows} == {"imported"}
    assert {row.provenance.source for row in records.rows} == {file.words}
    page = (records.results.study("runs", "imported") / "report/report.html").read_text()
    assert f"finished runs, imported from {file.words}: recstudy did not run them" in page
    assert not any(str(Path.cwd()) in path.read_text() for path in Path("results").rglob("*.json"))


def test_the_same_file_changes_nothing_and_a_longer_one_adds_runs(judge, capsys):
    folder = judge(ROWS[:6])
    old_import = (folder / "imported.json").read_bytes()
    judge(ROWS[:6])
    assert (folder / "imported.json").read_bytes() == old_import
    assert "imported before" not in capsys.readouterr().out
    judge(ROWS)
    assert "6 runs imported before: this file adds 6 and changes 0; it lacks 0" in capsys.readouterr().out
    new_import = json.loads((folder / "imported.json").read_text())
    assert new_import["runs"].items() >= json.loads(old_import)["runs"].items()
    assert len(new_import["runs"]) == 12
    judge(ROWS[6:])  # what was imported stays in the report
    assert len(values(folder)) == 12


def test_a_changed_value_is_refused_unless_the_file_replaces_what_was_imported(judge):
    folder = judge(ROWS)
    changed = [ROWS[0].replace("84.93", "84.8"), *ROWS[1:11]]
    with pytest.raises(
        ConfigError,
        match=r"runs.csv, line 2: .*'accuracy': 84.8.* imported as done with .*'accuracy': 84.93.* --replace",
    ):
        judge(changed)
    assert len(values(folder)) == 12
    judge(changed, replace=True)
    assert len(values(folder)) == 11
    assert values(folder)["lr 0.1, depth 1, 3"] == 84.8


def claim_verdicts(folder: Path) -> list[str]:
    return list(recstudy.load(folder).table("claims").frame.verdict)


def test_claims_on_imported_runs_stay_post_hoc(judge):
    """The date of the file was evidence, so `touch` made the claims older than the runs."""
    Path("claims.yaml").write_text(CLAIMS)
    before = claim_verdicts(judge(ROWS))
    os.utime("runs.csv", (4e9, 4e9))
    rows = [row.replace("finished", "done") for row in ROWS]

    assert claim_verdicts(judge(rows, replace=True)) == before
    assert all("post hoc" in verdict for verdict in before)


@pytest.mark.parametrize(
    ("start", "is_early"),
    [
        ("2026-01-02T00:00:00Z", True),
        ("2026-01-02 15:00:00", True),
        ("2026-01-01T23:30:00+01:00", False),
        ("2026-01-01 13:00:00", False),  # 11 hours before the commit in the earliest zone
        ("yesterday", False),
        ("", False),
        ("2099-01-01T00:00:00Z", False),
    ],
)
@pytest.mark.parametrize("is_changed", [False, True])
def test_claims_of_a_commit_before_the_runs_are_not_post_hoc(judge, monkeypatch, start, is_early, is_changed):
    Path("claims.yaml").write_text(CLAIMS)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@b")
        monkeypatch.setenv(f"GIT_{name}_DATE", "2026-01-01T23:00:00+00:00")
    for words in (["init", "-q"], ["add", "claims.yaml"], ["commit", "-qm", "claims"]):
        git(Path(), *words)
    if is_changed:
        Path("claims.yaml").write_text(CLAIMS + "\n")
    Path("runs.csv").write_text(f"{HEAD.strip()},start_time\n" + "".join(f"{row},{start}\n" for row in ROWS))
    JudgeCommand(Path("runs.csv"), claims=Path("claims.yaml")).run()

    verdicts = claim_verdicts(Path("results/studies/runs/imported"))
    assert ["post hoc" in verdict for verdict in verdicts] == [is_changed or not is_early] * 2


def test_looks_belong_to_the_imported_runs_whatever_the_name_and_the_metrics(judge):
    Path("claims.yaml").write_text(CLAIMS)
    for seeds in (2, 3):
        judge([row for position, row in enumerate(ROWS) if position % 3 < seeds])
    first = recstudy.load(Path("results/studies/runs/imported")).records
    judge(ROWS, name="other")
    more = [f"{row},{position}" for position, row in enumerate(ROWS)]
    Path("more.csv").write_text(f"{HEAD.strip()},f1\n" + "".join(f"{row}\n" for row in more))
    JudgeCommand(
        Path("more.csv"), claims=Path("claims.yaml"), name="third", metrics="f1,accuracy,val/loss"
    ).run()
    for name in ("other", "third"):
        records = recstudy.load(Path(f"results/studies/{name}/imported")).records
        assert records.looks.at([0, 1]).seed_counts == first.looks.at([0, 1]).seed_counts == (2, 3)


def test_seeds_that_a_later_table_lacks_are_counted(judge, tmp_path):
    """The page shows both numbers, audit asks, and the mark is in the bundle, too."""
    Path("claims.yaml").write_text(CLAIMS)
    judge(ROWS)
    folder = judge([row for row in ROWS if ",42," not in row], replace=True)
    records = recstudy.load(folder).records

    assert claim_verdicts(folder)[0] == "supported (post hoc, 2 of 3 seeds)"
    assert (
        audit(records).findings[0].what == "lr 0.01, depth 1: 2 of 3 seeds are left after verdicts were read"
    )
    assert records.looks.at_study().seed_counts == (2, 3)
    publish(*studies_at(folder)[0], tmp_path / "bundle")
    assert not verify(Bundle(tmp_path / "bundle")).differences
    assert claim_verdicts(tmp_path / "bundle/results/studies/runs/imported")[0].endswith("2 of 3 seeds)")
    assert "seeds)" not in claim_verdicts(judge(ROWS))[0]  # they are back


def test_a_metric_that_is_described_anew_for_imported_runs_marks_its_differences(judge):
    options = {"settings": "depth,lr", "name": "runs"}
    judge(ROWS, metrics="accuracy:%", **options)
    more = judge(
        ROWS, metrics="accuracy:%,val/loss", **options
    )  # a further metric is not another description
    assert "Changed after runs had finished" not in dict(filter(all, origins(recstudy.load(more).records)))
    folder = judge(ROWS, metrics="accuracy:%:2000", **options)

    verdicts = list(recstudy.load(folder).table("differences").frame.verdict)
    assert len(verdicts) == sum("post hoc" in verdict for verdict in verdicts) == 2
    changes = dict(origins(recstudy.load(folder).records))["Changed after runs had finished"]
    assert changes.startswith("accuracy.items none -> 2000, ")


def test_questions_of_other_studies_on_the_same_runs_are_counted(judge):
    Path("claims.yaml").write_text(CLAIMS)
    folder = judge(ROWS)
    assert dict(origins(recstudy.load(folder).records))["Questions of other studies"] == ""
    for name in ("second", "third"):
        judge(ROWS, name=name)
    Path("claims.yaml").unlink()
    judge(ROWS, name="without_claims")
    Path("claims.yaml").write_text(CLAIMS)
    others = [
        f"{lr},{depth},{seed},{10 * depth + seed},{depth},finished"
        for lr in (0.1, 0.01)
        for depth in (1, 2)
        for seed in (3, 7)
    ]
    judge(others, name="other_values")

    words = dict(origins(recstudy.load(folder).records))["Questions of other studies"]
    assert words == "2 other studies ask 4 questions of these runs"


def test_a_failed_run_is_replaced_by_its_repetition(judge):
    folder = judge([ROWS[0].replace("finished", "crashed"), *ROWS[1:]])
    assert recstudy.load(folder).runs.status.tolist().count("failed") == 1
    judge(ROWS)
    assert set(recstudy.load(folder).runs.status) == {"done"}


def test_every_reading_command_takes_it(judge, tmp_path):
    folder = judge([*ROWS, "0.01,4,3,,,killed"])
    terminal = Console(record=True, width=200)
    show_report(*studies_at(folder)[0], (), terminal)
    show_cell(explain_cell(studies_at(folder), "results:1:1"), terminal)
    show_audits(studies_at(folder), False, terminal)
    output = terminal.export_text()
    assert "Imported from runs.csv (sha256 " in output
    assert "imported/imported.json" in output
    (counts,) = status(Results(tmp_path / "results"))
    assert (counts.done, counts.failed, counts.planned) == (12, 1, 13)
    board = ResultsFolder(Results(tmp_path / "results"))
    board.poll()
    (study,) = board.studies.values()
    assert sorted(row.status for row in study.records.rows) == ["done"] * 12 + ["failed"]
    board.poll()
    assert [*board.studies.values()] == [study]
    bundle = tmp_path / "bundle"
    publish(*studies_at(folder)[0], bundle)
    verified = verify(Bundle(bundle))
    assert not verified.differences
    assert any("the ids of 13 runs" in line for line in verified.checked)
    with pytest.raises(ConfigError, match="the runs of runs were imported"):
        evaluate(*studies_at(folder)[0], (), tmp_path)
    with pytest.raises(ConfigError, match="finished elsewhere and imported: recstudy cannot run them"):
        ReproduceCommand(bundle, "results:1:1").run()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "- text: a\n  higher: {lr: 0.1}\n- text: b\n  highr: {lr: 0.1}\n",
            "claims.yaml, line 3: .*'highr'.* Did you mean 'higher'",
        ),
        ("claims:\n- just words\n", "claims.yaml, line 2: a claim has fields, such as text"),
        (
            "claim:\n- text: a\n",
            "claims.yaml: Unknown field 'claim'. Did you mean 'claims'. ClaimsFile has claims, ",
        ),
        ("- text: 'a\n", "claims.yaml: .*line 2"),
        ("metrics: [f1]\n", "claims.yaml: 'metrics' must be a dictionary, but got \\['f1'\\]"),
        ("", "claims.yaml states nothing"),
    ],
)
def test_a_mistake_in_a_file_of_claims_is_named_with_its_line(tmp_path, text, problem):
    (tmp_path / "claims.yaml").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_claims(tmp_path / "claims.yaml")


def test_published_values_stand_beside_the_variants_that_they_are_of(judge):
    Path("paper.csv").write_text(
        "metric,value,unit,depth,lr\naccuracy,90.2,percent,2,0.01\naccuracy,20,percent,1,0.1\n"
    )
    loaded = recstudy.load(judge(ROWS, published=Path("paper.csv")))
    verdicts = loaded.table("results").frame.dropna(subset="verdict").set_index("row").verdict
    assert verdicts.to_dict() == {"lr 0.01, depth 2": "undecided", "lr 0.1, depth 1": "differs"}


def test_damaged_imports_are_one_line(judge, tmp_path):
    folder = judge(ROWS)
    (folder / "imported.json").write_text('{"runs": {"a": {"settings": {}, "seed": "b"}}}')
    with pytest.raises(StorageError, match=r"imported.json is damaged: runs.a.seed must be a whole number"):
        recstudy.load(folder)
    assert "imported.json is damaged" in status(Results(tmp_path / "results"))[0].problem
    board = ResultsFolder(Results(tmp_path / "results"))
    board.poll()
    assert "imported.json is damaged" in next(iter(board.problems.values()))


def test_a_refused_file_leaves_nothing_behind(judge):
    Path("claims.yaml").write_text("- text: a\n  of: {lr: 0.5}\n  at_least: 1\n")
    with pytest.raises(
        ConfigError, match=r"the claim 'a' names lr=0.5, which no variant has: there are lr=0.01, lr=0.1"
    ):
        judge(ROWS)
    assert not Path("results").exists()


MULTI = [
    f"{data},{classes},{method},{seed},{start + bonus + seed / 10}"
    for data, classes, start in (("MNIST", 10, 90), ("CIFAR", 100, 60))
    for method, bonus in (("CNN", 0), ("ours", 3))
    for seed in (0, 1)
]


@pytest.fixture
def judge_multi(tmp_path):
    """Options, and rows -> the plan of runs on two data sets."""

    def run(rows=MULTI, **options):
        Path("multi.csv").write_text(
            "dataset,classes,method,seed,acc\n" + "".join(f"{row}\n" for row in rows)
        )
        assert JudgeCommand(Path("multi.csv"), **options).run() == 0
        return recstudy.load(tmp_path / "results/studies/multi/imported").records.plan

    return run


def test_data_sets_are_blocks(judge_multi, capsys):
    plan = judge_multi()
    assert plan.blocks == ("dataset", "classes")  # the number of classes follows from the data set
    assert "method; blocks (compared within): dataset, classes; seed: seed" in capsys.readouterr().out
    assert "differences" in [part["kind"] for part in plan.report]
    assert judge_multi(blocks="none").blocks == ()
    assert judge_multi(blocks="method").blocks == ("method",)


@pytest.mark.parametrize("count", [5, 6])
def test_methods_are_ranked_over_six_data_sets(judge_multi, count):
    rows = [row.replace("MNIST", f"D{number}") for number in range(count) for row in MULTI if "MNIST" in row]

    assert ("ranks" in [part["kind"] for part in judge_multi(rows).report]) is (count == 6)


def test_a_setting_that_follows_from_a_method_is_no_other_factor(judge_table):
    rows = [
        f"{name},{params},{data},{seed},{80 + seed}"
        for name, params in (("a", 7), ("b", 11))
        for data in "XY"
        for seed in range(3)
    ]
    loaded = judge_table(["method,parameters,dataset,seed,accuracy", *rows])
    data = loaded.parts["by_factor"].data(loaded.records)

    assert sorted(zip(data["block"], data["level"], strict=True)) == [
        ("X", "a"),
        ("X", "b"),
        ("Y", "a"),
        ("Y", "b"),
    ]


def test_data_sets_alone_are_not_compared_unless_that_is_stated(judge_multi, capsys):
    rows = [row for row in MULTI if "ours" in row]
    plan = judge_multi(rows)
    assert plan.blocks == ()
    assert "differences" not in [part["kind"] for part in plan.report]
    assert "; only dataset, classes varies, so nothing is compared (to compare it: --blocks none);" in (
        capsys.readouterr().out
    )
    assert "differences" in [part["name"] for part in judge_multi(rows, blocks="none").report]


def test_claims_name_levels_that_are_texts(judge_multi):
    Path("claims.yaml").write_text('- text: a\n  higher: {method: "1.10"}\n  lower: {method: "1.1"}\n')
    rows = [row.replace("ours", "1.10").replace("CNN", "1.1") for row in MULTI]
    plan = judge_multi(rows, texts="method", claims=Path("claims.yaml"))
    assert {variant.levels["method"] for variant in plan.variants} == {"1.1", "1.10"}


def test_a_metric_is_described_by_words(judge, capsys):
    judge(ROWS, metrics="val/loss:nats,accuracy:lower:%:500", settings="depth,lr")
    assert (
        "metrics: val/loss (nats, lower is better), accuracy (%, lower is better, 500 test items);"
        in capsys.readouterr().out
    )


def test_a_misspelt_direction_of_a_metric_is_refused_and_is_no_unit(judge):
    with pytest.raises(ConfigError, match=r"'lowr' would be a unit. Did you mean 'lower'"):
        judge(ROWS, metrics="accuracy:%:1000,val/loss:lowr")


def test_a_rule_of_speed_records_is_one_claim_in_a_file(judge, capsys):
    claim = "- text: low loss\n  of: {lr: 0.1, depth: 2}\n  at_most: 1.65\n"
    for text in (f"{claim}  alpha: 0.01", f"alpha: 0.01\nclaims:\n{claim}"):
        Path("claims.yaml").write_text(text)
        loaded = recstudy.load(judge(ROWS, metrics="val/loss:lower"))

        assert list(loaded.table("claims").frame.verdict) == ["supported (post hoc, at the level 0.01)"]
        assert "low loss: val/loss 1.51" in capsys.readouterr().out


def test_judge_loads_neither_torch_nor_ray_nor_optuna(judge):
    judge(ROWS)
    code = (
        "import sys; from recstudy.cli import main\n"
        "try: main(['judge', 'runs.csv'])\nexcept SystemExit as end: assert not end.code\n"
        "print({'torch', 'ray', 'optuna'} & set(sys.modules))"
    )
    assert run_python("-c", code).stdout.splitlines()[-1] == "set()"


# ------------------------------------------------------------------------------------------ the page of a table


@pytest.fixture
def judge_table(tmp_path):
    """The lines of a CSV file, and options -> the study with its page."""

    def run(lines: list[str], **options):
        Path("t.csv").write_text("\n".join(lines) + "\n")
        assert JudgeCommand(Path("t.csv"), **options).run() == 0
        return recstudy.load(tmp_path / "results/studies/t/imported")

    return run


def grid_lines(score, names=("opt", "depth", "seed"), levels=(("sgd", "adam", "muon"), (1, 2, 4), (0, 1, 2))):
    rows = ((levels, score(*levels)) for levels in product(*levels))
    return [
        f"{','.join(names)},accuracy",
        *(f"{','.join(map(str, levels))},{value:.3f}" for levels, value in rows if value),
    ]


GAIN = {"sgd": 0, "adam": 1, "muon": 5}


def additive(opt, depth, seed):
    return 70 + GAIN[opt] + 0.5 * depth + (0.1, -0.1, 0.3)[(seed + depth) % 3]


def shown_parts(study):
    return [part["kind"] for part in study.records.plan.report]


def test_a_grid_has_a_column_per_setting_and_the_effect_of_each(judge_table, capsys):
    study = judge_table(grid_lines(additive))

    assert shown_parts(study) == ["table", "curve", "effects"]
    table = study.table("results").table
    assert table.heads == ["opt", "depth", "Accuracy (%)"]
    lines = [[entry.text for entry in line[:2]] for line in table.lines]
    assert (lines[0], lines[-1]) == (["muon", "4"], ["sgd", "1"])  # sorted by the score
    frame = study.table("differences").frame
    assert frame.question.tolist() == [
        "opt sgd",
        "opt adam",
        "depth 1",
        "depth 2",
    ]  # the largest effect first
    assert frame.estimate.round(6).tolist() == [-5, -4, -1.5, -1]
    assert frame.base[0] == "opt muon, on average over 3 settings of depth"
    assert not frame.verdict.str.contains("differs").any()
    assert "adjusted for all 6 questions" in capsys.readouterr().out  # all pairs of levels
    sentences = [sentence.partition(":")[0] for sentence in map(str, study.findings)]
    assert sentences[:2] == ["Worse than opt muon, on average over 3 settings of depth", "Best"]
    page = Path("results/studies/t/imported/report/report.html").read_text()
    assert "Costs</h2>" not in page


def crossed_score(opt, depth, seed):
    sign = 1 if (opt == "sgd") == (depth == 1) else -1
    return 70 + 2 * sign + (0.1, -0.1, 0.3)[(seed + depth) % 3]


def without_one(opt, depth, seed):
    return 0 if (opt, depth) == ("muon", 4) else additive(opt, depth, seed)


@pytest.mark.parametrize(
    ("lines", "base", "verdict"),
    [
        (grid_lines(without_one), "opt muon, on average over 2 of 3 settings of depth", "worse"),
        (
            grid_lines(crossed_score, levels=(("sgd", "adam"), (1, 2), (0, 1, 2))),
            "on average over 2 settings of",
            "(differs between settings: -4.00 to +4.00)",
        ),
        (
            grid_lines(additive, levels=(("sgd", "adam", "muon"), (1, 2, 4), (0,))),
            "opt muon, on average over 3 settings of depth",
            "undecided: no spread over seeds is known",
        ),
    ],
)
def test_effects_of_incomplete_crossed_and_single_runs_say_so(judge_table, lines, base, verdict):
    row = judge_table(lines).table("differences").frame.iloc[0]
    assert base in row.base
    assert verdict in row.verdict


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("sgd", {"opt": "sgd"}),
        ("opt=sgd,depth=2", {"opt": "sgd", "depth": 2}),
        ("4", {"depth": 4}),
        ("", {}),
        ("sdg", "--base 'sdg' must be one of opt=sgd, .*"),
        ("opt=mun", r"Did you mean 'opt=muon'"),
    ],
)
def test_the_base_is_a_level_of_one_setting(judge_table, base, expected):
    if isinstance(expected, str):
        with pytest.raises(ConfigError, match=expected):
            judge_table(grid_lines(additive), base=base)
    else:
        study = judge_table(grid_lines(additive), base=base)
        assert study.records.plan.report[-1]["base"] == expected


def test_a_base_that_no_variant_has_is_refused(judge_table):
    lines = [
        "opt,aug,seed,accuracy",
        *(f"{pair},{seed},8{seed}" for pair in ("a,x", "b,y") for seed in (0, 1)),
    ]
    with pytest.raises(ConfigError, match="--base must be levels of one variant, but none has opt=a, aug=y"):
        judge_table(lines, base="a,y")


def test_a_baseline_is_the_base_and_else_the_best(judge_table):
    methods = (("baseline", "ours", "theirs"), (0, 1, 2))
    score = {"baseline": 70, "ours": 80, "theirs": 75}
    lines = grid_lines(lambda method, seed: score[method] + seed / 10, ("method", "seed"), methods)
    assert set(judge_table(lines).table("differences").frame.base) == {"method baseline"}
    lines = [line.replace("baseline", "plain") for line in lines]
    assert set(judge_table(lines, replace=True).table("differences").frame.base) == {"method ours"}


def test_of_many_variants_the_best_one_is_named(judge_table):
    names = tuple(f"v{number:02}" for number in range(30))
    lines = grid_lines(
        lambda name, seed: 70 + int(name[1:]) / 10 + (0, 1, 3)[seed], ("variant", "seed"), (names, (0, 1, 2))
    )
    study = judge_table(lines)
    assert shown_parts(study) == ["table", "means"]
    assert str(study.findings[0]).startswith("Best: by accuracy, v29 with 74.2 [")
    assert str(study.findings[0]).endswith(", of 30 variants; no difference is significant (n=3).")


def test_of_very_many_variants_the_table_has_the_best(judge_table):
    rows = [f"{number % 26 / 10},{number // 26 / 10},{70 + number / 100}" for number in range(520)]
    table = judge_table(["lr,wd,accuracy", *rows]).table("results").table
    assert len(table.lines) == 50
    assert [entry.text for entry in table.lines[0]] == ["2.5", "1.9", "75.2"]


def test_columns_that_follow_from_a_grid_are_columns_and_no_effects(judge_table):
    head, *rows = grid_lines(additive)
    lines = [f"name,flops,{head}"]
    for row in rows:
        opt, depth, _ = row.split(",", 2)
        lines.append(f"{opt}-{depth},{len(opt) * int(depth) * 100},{row}")
    study = judge_table(lines, settings="name,flops,opt,depth")
    assert study.table("results").table.heads == ["name", "flops", "opt", "depth", "Accuracy (%)"]
    assert study.records.plan.report[-1]["axes"] == ["opt", "depth"]


def test_an_effect_does_not_contain_one_of_another_axis(judge_table):
    variants = ["A,0.1,0", "A,0.2,0", "B,0.1,0", "B,0.2,0.1"]
    rows = [f"{variant},{seed},{8 + seed / 10}" for variant in variants for seed in range(3)]
    frame = judge_table(["method,lr,wd,seed,score", *rows]).table("differences").frame
    assert frame.base.tolist() == ["method A, only with lr 0.1, wd 0", "lr 0.1, only with method A, wd 0"]


def test_a_rate_that_is_tuned_for_each_data_set_belongs_to_the_method(judge_table):
    rows = [
        f"{method},D{data},{(rate + data) % 3 + 1},{seed},{80 + rate + data + seed / 10}"
        for rate, method in enumerate("AB")
        for data in range(6)
        for seed in range(2)
    ]
    assert "ranks" in shown_parts(judge_table(["method,dataset,lr,seed,accuracy", *rows]))


def test_a_random_search_has_a_sorted_table(judge_table):
    lines = [
        "lr,wd,accuracy",
        *(f"{0.1 / (i + 1):.4f},{(i * 7) % 11},{60 + (i * 5) % 13}" for i in range(13)),
    ]
    study = judge_table(lines)
    assert shown_parts(study) == ["table", "means"]
    assert "one run of each, so the variance is unknown" in str(study.findings[0])


def test_single_runs_on_two_data_sets_have_no_p(judge_table, capsys):
    judge_table(["method,dataset,accuracy", "a,x,0.80", "b,x,0.82", "a,y,0.70", "b,y,0.75"])

    assert "method b: x +0.02; y +0.05\n" in capsys.readouterr().out
