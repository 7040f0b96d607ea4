"""What reports say of a user's own program, from its records alone."""

from pathlib import Path

import pytest
from golden_pages import Tags
from made_up import write_report
from own_study import run_study, silent, train
from processes import run_python
from refusals import refused
from rich.console import Console

import recstudy
from recstudy import Claim, Deviation, Function, Metric, RunContext, Study, published
from recstudy.base.errors import ConfigError
from recstudy.programs.metric import METRICS, scale_problem
from recstudy.records import Results
from recstudy.report import Curve, Differences, LearningCurves, Table
from recstudy.report.explain import find_number
from recstudy.report.findings import findings
from recstudy.report.kinds import render_part
from recstudy.report.loaded import load
from recstudy.report.names import metric
from recstudy.report.parts import parts_of
from recstudy.report.study_records import load_study
from recstudy.report.writing import show_report
from recstudy.study.design import grid
from recstudy.study.plan import make_plan

FOREIGN = (
    "epoch",
    "image",
    "supervision",
    "trained",
    "weights",
    "PFLOP",
    "settings.",
    "selection",
    "not imported",
)


def timed(run: RunContext) -> dict[str, float]:
    return {"accuracy": 80.0, "seconds": 1000.0 * run.settings["depth"]}


def words_of(root: Path, name: str) -> str:
    return Tags(write_report(run_study(root, name), name, "default").read_text()).words


def test_a_study_without_a_report_has_a_table_and_curves_in_the_words_of_its_program(tmp_path):
    words = words_of(tmp_path / "r", "depth")

    assert "Accuracy and latency of each variant" in words
    assert "Learning curves: loss ends at 0.3333" in words
    assert "depth = 4" in words
    assert [word for word in FOREIGN if word in words] == []
    assert load(tmp_path / "r").epochs["step"].tolist()[:3] == [0, 1, 2]


def test_a_program_that_reports_no_steps_has_no_learning_curves(tmp_path):
    assert list(load(run_study(tmp_path / "r", program=silent).root).parts) == ["results", "means"]


def test_each_study_is_read_with_its_own_metrics(tmp_path):
    """The same name, and another unit."""
    root = tmp_path / "r"
    run_study(root)
    results = run_study(root, "share", silent)
    frames = [load(results.study(name, "default"))["results"].frame for name in ("depth", "share")]
    percent, share = (frame[frame["metric"] == "accuracy"].iloc[0] for frame in frames)

    assert (percent["column"], share["column"]) == ("Accuracy (%)", "Accuracy")
    assert (percent["high"] > 1, share["high"] < 1) == (True, True)
    assert metric("accuracy").unit == ""  # nothing is left in the registry
    assert dict.get(METRICS, "accuracy") is None


@pytest.mark.parametrize(
    ("metric", "values", "problem"),
    [
        (Metric("%", items=100), [0.81, 0.79], "score looks like a share: its values are 0.79 to 0.81"),
        (Metric("%"), [1.0, 1.0], "score looks like a share: its values are 1, but its unit is %"),
        (Metric("%"), [130.0, 90.0], "score is not between 0 and 100 %: its values are 90 to 130"),
        (Metric(share=True), [81.0], "score is not between 0 and 1: its values are 81"),
        (Metric("ms", bounds=(0, 9)), [-1.0, 2.0], "score is not between 0 and 9 ms: its values are -1 to 2"),
        (Metric("%"), [0.0, 81.0], ""),
        (Metric("%"), [0.0, 0.0], ""),
        (Metric("%"), [-3.0, 130.0], ""),  # a change in percent
        (Metric("%", bounds=(0, 400)), [130.0], ""),
        (Metric(items=10), [0.81, float("nan")], ""),
        (Metric("s"), [0.81], ""),
    ],
)
def test_values_that_do_not_have_the_unit_of_their_metric_are_named(metric, values, problem):
    message = scale_problem("score", metric, values)
    assert message.startswith(problem)
    assert bool(message) == bool(problem)


def shares(run: RunContext) -> dict[str, float]:
    return {"accuracy": 0.8 + 0.001 * run.seed}


def test_a_share_in_percent_is_named_beside_every_number(tmp_path):
    claims = [Claim("deep", of={"depth": 4}, at_least=0.5)]
    results = run_study(tmp_path, program=shares, claims=claims, metrics={"accuracy": Metric("%", items=100)})

    line = "ccuracy looks like a share: its values are 0.8 to 0.802, but its unit is %"
    assert line in Tags(write_report(results, "depth", "default").read_text()).words
    assert line in load(results.root)["claims"].table.warnings[-1]


LOSSES = (3.2753, 3.2761, 3.2748, 3.2757, 3.2766, 3.2744)  # of six seeds


def speed_run(run: RunContext) -> dict[str, float]:
    """The validation loss of a record, and of an older optimizer that is 0.002 worse."""
    return {"val_loss": LOSSES[run.seed] + 0.002 * (run.settings["optimizer"] == "adam")}


def speed_records(folder, name: str, claims: list[Claim], **fields) -> tuple[list[str], str]:
    """Return the findings and the page of six runs of each optimizer."""
    study = Study(
        name,
        program=Function(speed_run, name=f"{name}.speed_run"),
        settings={"optimizer": "muon"},
        metrics={"val_loss": Metric(better="lower")},
        variants=grid({"optimizer": ["muon", "adam"]}),
        seeds=6,
        claims=claims,
        **fields,
    )
    recstudy.run(study, results=folder, ray=False)
    page = Tags(write_report(Results(folder), name, "default").read_text()).words
    records = load_study(Results(folder), name, "default")
    with records.study_modules():
        return list(map(str, findings(records))), page


def test_the_rule_of_public_speed_records_is_one_claim(tmp_path):
    """A mean loss of at most 3.28 with p below 0.01."""
    rule = Claim("The mean loss is at most 3.28", of={"optimizer": "muon"}, at_most=3.28, alpha=0.01)
    other_claims = [
        Claim("A loss of 3.2758", of={"optimizer": "muon"}, at_most=3.2758, alpha=0.01),
        Claim("A loss of 3.27", of={"optimizer": "muon"}, at_most=3.27),
    ]
    sentences, page = speed_records(tmp_path, "record", [rule, *other_claims])

    assert sentences[0] == (
        "Supported (at the level 0.01): The mean loss is at most 3.28: val loss 3.27548"
        ", 95 % CI 3.27467 to 3.27630, n=6."
    )
    assert sentences[1].startswith("Contradicted: A loss of 3.27: val loss 3.27548")
    assert sentences[1].endswith("; claimed: at most 3.27.")
    assert "undecided (at the level 0.01)" in page
    assert "optimizer muon: at most 3.28" in page
    assert "+3.27548" not in page  # it is no difference


def test_a_study_states_its_level_for_all_of_its_questions(tmp_path):
    """The difference of 0.002 has an adjusted p between 0.0001 and 0.01, so that the level decides."""
    claims = [Claim("muon is better", lower={"optimizer": "muon"}, higher={"optimizer": "adam"})]
    report = [Differences(metric="val_loss", base="optimizer=muon")]
    sentences, page = speed_records(tmp_path, "strict", claims, report=report, alpha=0.01)
    strictest, _ = speed_records(tmp_path, "strictest", claims, report=report, alpha=0.0001)

    assert sentences[0].startswith("Supported (at the level 0.01): muon is better: ")
    assert sentences[1].startswith(
        "Worse than optimizer muon (at the level 0.01): val loss of optimizer adam +0.0020 (95 % CI +0.0010 to +0.0030, n=6"
    )
    assert "worse (at the level 0.01)" in page
    assert "Supported, higher or lower: p below 0.01." in page
    assert "95 % CI" in page
    assert strictest[0].startswith("Undecided: muon is better: ")


def test_parts_and_claims_name_settings_as_the_program_does(tmp_path):
    report = [
        Table("cross", metrics=("accuracy",), rows="depth", columns="rate"),
        Table("side", settings=("rate",), where={"depth": [1, 4]}),
        Curve("curve", x="rate", y="accuracy", by="depth"),
        LearningCurves(metrics=("loss",)),
    ]
    claims = [Claim("deeper is better", lower={"depth": 1, "rate": 0.1}, higher={"depth": 4})]
    results = run_study(tmp_path / "r", report=report, claims=claims)
    records = load_study(results, "depth", "default")
    with records.study_modules():
        side = render_part(records, parts_of(records)[2]).table_below

    assert side is not None
    assert side.heads[:2] == ["variant", "Accuracy (%)"]
    assert "rate: 0.1" in side.caption  # the same in each row
    assert "Supported: deeper is better" in load(results.root).findings[0]
    assert (
        write_report(results, "depth", "default")
        .with_name("tables")
        .joinpath("side.csv")
        .read_text()
        .split("\n")[0][-5:]
        == ",rate"
    )


def test_part_with_a_name_that_the_program_lacks_is_refused():
    study = Study(
        "x", program=train, settings={"depth": 1, "rate": 0.1}, metrics={"accuracy": Metric("%")}, variants=grid({"depth": [1]}),
        report=[Table("t", rows="deph")],
    )  # fmt: skip
    message = "names 'deph', but the study has depth, variant, model, data, .* Did you mean 'depth'"
    with pytest.raises(ConfigError, match=message):
        make_plan(study)


# ------------------------------------------------------------------------------------------------------
# published values


def own_table(folder: Path, text: str) -> Table:
    (folder / "theirs.csv").write_text(text)
    return Table(
        "t", targets=published(folder / "theirs.csv", margin=0.5, why="a sixth of what a layer adds")
    )


def test_published_values_stand_beside_the_variants_of_their_settings(tmp_path):
    """Those whose source states all settings compare."""
    part = own_table(
        tmp_path,
        "metric,value,unit,depth,rate\naccuracy,83.0,,1,0.1\naccuracy,0.92,fraction,4,\nlatency,4.5,,2,0.2\n",
    )
    results = run_study(tmp_path / "r", report=[part])
    records = load_study(results, "depth", "default")
    with records.study_modules():
        cells = [
            find_number(records, name).fields
            for name in ("t:depth 1:accuracy", "t:depth 4:accuracy", "t:depth 2:latency")
        ]

    assert [cell["verdict"] for cell in cells] == ["agrees", "not comparable", "not comparable"]
    assert [cell["reasons"] for cell in cells[1:]] == ["its source does not state rate", "rate 0.1, not 0.2"]


def fine(run: RunContext) -> dict[str, float]:
    return {"score": 1.0755 - 0.0008 * (run.settings["rate"] > 0.5) + 0.0003 * (run.seed - 1)}


def test_values_that_differ_are_printed_with_the_digits_of_their_intervals(tmp_path):
    """Both scores are 1.08 in the format of the metric."""
    (tmp_path / "theirs.csv").write_text("metric,value,rate\nscore,1.0757,0.1\n")
    table = Table("t", targets=published(tmp_path / "theirs.csv"))
    claims = [Claim("less", lower={"rate": 0.9}, higher={"rate": 0.1})]
    metrics = {"score": Metric("", form=".2f")}
    fields = {"program": fine, "metrics": metrics, "settings": {"rate": 0.1}, "claims": claims}
    results = run_study(tmp_path / "r", report=[table], variants=grid({"rate": [0.1, 0.9]}), **fields)
    console = Console(width=200, record=True)
    page = Tags(show_report(results, "depth", "default", (), console).read_text()).words
    terminal = console.export_text()
    rendered = load(results.root)["t"]

    first, second = "1.07550 [1.07493, 1.07607]", "1.07470 [1.07413, 1.07527]"
    for text in (page, terminal, rendered.markdown.replace("\\", "")):
        assert first in text
        assert second in text
        assert "1.0757" in text
    assert r"1.07550 & {[}1.07493, 1.07607]" in rendered.latex
    sentence = "score 1.07550 with rate 0.1 against 1.07470 with rate 0.9 (difference 0.00080, 95 % CI "
    assert sentence in page
    assert sentence in " ".join(terminal.split())


@refused(globals(), "text", "a published table")
def test_a_published_table_is_checked_against_the_program(tmp_path, text, message):
    study = Study(
        "published", program=Function(train, name="published.train"), settings={"depth": 1, "rate": 0.1},
        metrics={"accuracy": Metric("%"), "latency": Metric("ms")}, variants=grid({"depth": [1]}),
        report=[own_table(tmp_path, text)],
    )  # fmt: skip
    with pytest.raises(ConfigError, match=message):
        make_plan(study)


READ = """
import sys
from recstudy import load
from rich.console import Console
from recstudy.board.server import make_app
from recstudy.records import Results
from recstudy.report.writing import show_report
from recstudy.report.parts import parts_of

results = Results(sys.argv[1])
show_report(results, "depth", "default", (), Console(quiet=True))
client = make_app(results).test_client()
run = load(results.root).runs["id"][0]
for path in ("/", "/study/depth/default", "/runs/depth/default", f"/run/{run}"):
    assert client.get(path).status_code == 200
foreign = ("recstudy.recursive.config", "recstudy.recursive.models", "recstudy.recursive.data", "recstudy.recursive.tasks", "recstudy.recursive.metrics", "torch", "ray", "optuna")
print([name for name in sys.modules if name.startswith(foreign)])
"""


def test_reading_imports_neither_the_program_nor_the_recursive_models(tmp_path):
    assert run_python("-c", READ, run_study(tmp_path / "r").root).stdout == "[]\n"


def test_a_setting_may_be_stated_as_a_deviation(tmp_path):
    """Of the preset `paper`, which need not state what the source leaves out."""
    part = own_table(tmp_path, "metric,value,depth,reference.rate\naccuracy,83.0,1,0.2\n")
    deviation = Deviation(field="rate", paper=0.2, ours=0.1, why="as we have it")
    results = run_study(tmp_path / "r", presets={"paper": {}}, report=[part], deviations=[deviation])
    records = load_study(results, "depth", "paper")
    with records.study_modules():
        cell = find_number(records, "t:1:accuracy").fields

    assert (cell["verdict"], cell["deviations"]) == ("agrees", "rate 0.1, not 0.2: as we have it")


def test_a_metric_of_a_costs_name_is_the_programs(tmp_path):
    metrics = {"accuracy": Metric("%"), "seconds": Metric("ms", better="lower", title="Latency")}
    results = run_study(tmp_path / "r", "timed", timed, metrics=metrics)
    loaded = load(results.root)

    assert loaded.runs["seconds"].tolist()[:3] == [1000.0, 2000.0, 4000.0]
    assert loaded["results"].frame["column"].tolist()[:2] == ["Accuracy (%)", "Latency (ms)"]
    assert all(row.wall_seconds < 100 for row in loaded.records.rows)
