"""The JSON document of every command: it is alone on standard output, fits the schema, and has the numbers of the
page; and exit codes by verdict.
"""

import contextlib
import csv
import json
import subprocess
from pathlib import Path

import pytest
from processes import run_python
from repositories import git

from recstudy import cli
from recstudy.report import documents

STUDY = """
from recstudy import Claim, Metric, Study, grid, main


def train(run):
    print("the program prints, too")
    return {"accuracy": 80 + 3 * run.settings["depth"] + 0.1 * run.seed, "loss": 1 / run.settings["depth"] + 0.01 * run.seed}


def claim(text, margin, higher=4, lower=1):
    return Claim(text, lower={"depth": lower}, higher={"depth": higher}, margin=margin)


study = Study(
    "depth",
    program=train,
    settings={"depth": 2},
    metrics={"accuracy": Metric("%"), "loss": Metric(better="lower")},
    variants=grid({"depth": [1, 2, 4]}),
    seeds=3,
    max_seeds=5,
    claims=[CLAIMS],
)

if __name__ == "__main__":
    main(study)
"""
DEEPER, MUCH, SHALLOW = 'claim("deeper is better", 5)', 'claim("by 20 points", 20)', 'claim("worse", 0, 1, 4)'
ROWS = "depth,seed,accuracy\n" + "".join(
    f"{depth},{seed},{80 + 3 * depth + seed / 10}\n" for depth in (1, 4) for seed in range(4)
)
CLAIMS = "- {text: deeper is better, lower: {depth: 1}, higher: {depth: 4}, margin: 5}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study that has run, its bundle, and a table of finished runs with claims."""
    folder = tmp_path_factory.mktemp("json")
    (folder / "depth.py").write_text(STUDY.replace("CLAIMS", DEEPER))
    (folder / "runs.csv").write_text(ROWS)
    (folder / "claims.yaml").write_text(CLAIMS)
    completed = run_python("depth.py", "--no-ray", "--json", "--exit-by-verdict", folder=folder)
    (folder / "run.json").write_text(completed.stdout)
    assert "the program prints, too" in completed.stderr
    return folder


def typed(folder: Path, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """Type a command of recstudy in the folder, and return its standard output."""
    with contextlib.chdir(folder), pytest.raises(SystemExit, match=f"^{code}$"):
        cli.main(words)
    return capsys.readouterr().out


COMMANDS = {
    "judge runs.csv --claims claims.yaml --json": documents.StudiesDocument,
    "report results/studies/depth --json": documents.StudiesDocument,
    "status --json": documents.StatusDocument,
    "explain claims:1 results/studies/depth --json": documents.ExplainDocument,
    "explain results:1:1 results/studies/depth --json": documents.ExplainDocument,
    "audit results/studies/depth --json": documents.AuditDocument,
    "fields --json": documents.FieldsDocument,
    "fields train --json": documents.FieldsDocument,
    "verify depth_default --json": documents.VerifyDocument,
    "reproduce depth_default --trust --dry-run --no-ray --json": documents.DryRunDocument,
    "reproduce depth_default --trust --no-ray --json": documents.ReproduceDocument,
}


@pytest.mark.parametrize("command", COMMANDS)
def test_standard_output_is_one_document_of_the_schema(command, folder, capsys):
    if "depth_default" in command and not (folder / "depth_default").exists():
        typed(folder, capsys, "publish", "results/studies/depth/default", "depth_default")

    document = COMMANDS[command].model_validate_json(typed(folder, capsys, *command.split()))

    assert document.schema_version == 1
    assert document.command == ("dry-run" if "--dry-run" in command else command.split()[0])


def study_words(
    folder: Path, *words: object, claims: str = DEEPER, code: int = 0
) -> subprocess.CompletedProcess[str]:
    (folder / "depth.py").write_text(STUDY.replace("CLAIMS", claims))
    return run_python("depth.py", "--no-ray", *words, folder=folder, code=code)


def test_a_run_and_its_dry_run_are_documents(folder, tmp_path):
    study = documents.StudiesDocument.model_validate_json((folder / "run.json").read_text()).studies[0]
    planned = documents.DryRunDocument.model_validate_json(
        study_words(tmp_path, "--dry-run", "--json").stdout
    )

    assert (study.study, study.runs, study.verdict, study.max_seeds) == ("depth", {"done": 9}, "supported", 5)
    assert (study.next_command, study.next_step) == ("", "Every claim is decided.")
    assert [(run.label, run.seed, run.cached) for run in planned.runs[:2]] == [
        ("depth=1", 0, False),
        ("depth=2", 0, False),
    ]
    assert not (tmp_path / "results").exists()


def lines(file: Path) -> list[dict[str, str]]:
    return [*csv.DictReader(file.read_text().splitlines())]


def test_the_numbers_are_those_of_the_page(folder):
    """The CSV files beside the tables have the numbers of the page in full precision."""
    (study,) = documents.StudiesDocument.model_validate_json((folder / "run.json").read_text()).studies
    tables = folder / study.folder / "report/tables"
    (row,) = lines(tables / "claims.csv")
    entry = study.questions[0].model_dump()
    names = (
        "estimate",
        "low",
        "high",
        "low_adjusted",
        "high_adjusted",
        "n",
        "df",
        "p",
        "p_holm",
        "region_low",
    )
    assert {name: float(row[name]) for name in names} == {name: entry[name] for name in names}
    assert (row["verdict"], row["contrast"], row["metric"]) == (
        entry["verdict_words"],
        entry["contrast"],
        entry["metric"],
    )
    # by hand: depth 4 minus depth 1 is 9 points for each seed
    assert [(side["label"], side["weight"]) for side in entry["sides"]] == [("depth 4", 1), ("depth 1", -1)]
    assert entry["sides"][0]["values"] == {0: 92, 1: 92.1, 2: 92.2}
    assert (entry["estimate"], entry["verdict"], entry["ending"]) == (9, "supported", "decided")

    for line in lines(tables / "results.csv"):
        if line["column"].startswith(("Accuracy", "Loss")):
            (estimate,) = (
                estimate
                for estimate in study.estimates
                if (estimate.label, estimate.metric) == (line["row"], line["metric"])
            )
            assert (estimate.value, estimate.low) == (float(line["mean"]), float(line["low"]))
    page = (tables.parent / "report.html").read_text()
    assert all(finding.partition(": ")[2] in page for finding in study.findings)


@pytest.mark.parametrize(
    ("claims", "seeds", "code", "verdict", "command"),
    [
        (DEEPER, 3, 0, "supported", ""),
        (MUCH, 3, 11, "contradicted", ""),  # smaller than claimed
        (SHALLOW, 3, 11, "contradicted", ""),
        (DEEPER, 1, 10, "undecided", "python depth.py --no-ray --seeds 1 --until decided"),
        (f"{DEEPER}, {MUCH}", 3, 11, "contradicted", ""),
        (f"{MUCH.replace('20)', '8.9)')}, {DEEPER}", 3, 10, "undecided", "python depth.py --no-ray --seeds 3 --until decided"),
        ("", 3, 2, None, None),  # nothing is claimed
    ],
)  # fmt: skip
def test_the_exit_code_is_that_of_the_verdict(claims, seeds, code, verdict, command, tmp_path, capsys):
    options = "--seeds", seeds, "--exit-by-verdict", "--json"
    completed = study_words(tmp_path, *options, claims=claims, code=code)

    if verdict is None:
        assert completed.stdout == ""
        assert completed.stderr.startswith("ConfigError: --exit-by-verdict needs a claim")
        assert not (tmp_path / "results").exists()
        return
    document = json.loads(completed.stdout)
    assert document["verdict"] == document["studies"][0]["verdict"] == verdict
    next_command = document["studies"][0]["next_command"]
    assert next_command.replace(" --exit-by-verdict --json", "") == command
    report = "report", "results", "--exit-by-verdict"
    assert "Report: " in typed(tmp_path, capsys, *report, code=code)


def test_a_smoke_run_says_why_it_has_no_claims(tmp_path):
    for option in ("--smoke", "--vary=depth=1,2"):
        errors = study_words(tmp_path, option, "--exit-by-verdict", code=2).stderr
        assert "needs a claim, but --smoke, --vary or this preset leaves out the study's claims" in errors


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("judge runs.csv --json --exit-by-verdict", "ConfigError: --exit-by-verdict needs a claim"),
        ("judge none.csv --json", "ConfigError: "),
        ("explain claims:9 results/studies/depth --json", "ConfigError: no row '9': there are "),
        ("report nowhere --json", "ConfigError: no study in "),
    ],
)
def test_an_error_is_one_line_on_standard_error_and_no_document(command, message, folder, capsys):
    with contextlib.chdir(folder), pytest.raises(SystemExit, match="2"):
        cli.main(command.split())

    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(message)
    assert len(output.err.splitlines()) == 1


TRAIN = """
import argparse
import random

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int)
random.seed(parser.parse_args().seed)
print("accuracy:", 80 + random.random() + GAIN)
"""


def test_the_study_of_the_skill_decides_about_two_branches(tmp_path, capsys, monkeypatch):
    """The block of the skill is run as it is, in a repository whose idea gains three points."""
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "project"
    folder.mkdir()
    for branch, gain in (("main", 0), ("idea", 3)):
        (folder / "train.py").write_text(TRAIN.replace("GAIN", str(gain)))
        for words in ("init -q -b main", f"checkout -q -B {branch}", "add train.py", "commit -q -m change"):
            git(folder, *words.split())

    skill = typed(folder, capsys, "skill")

    assert skill.startswith("---\nname: recstudy\ndescription: ")
    (folder / "is_it_real.py").write_text(skill.partition("```python\n")[2].partition("```")[0])
    words = "is_it_real.py --no-ray --until decided --json --exit-by-verdict"
    assert words in skill
    completed = run_python(*words.split(), folder=folder)
    (question,) = json.loads(completed.stdout)["studies"][0]["questions"]
    assert question["verdict"] == "supported"
    assert question["estimate"] == pytest.approx(3, abs=0.7)
