"""Bundles of a user's own program: verified without its file, and without the recursive models."""

import re
import shutil
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from bundles import changed, edited, sealed
from own_study import run_study
from processes import RECSTUDY, run_python

from recstudy import Claim, Function, Metric, Range, RunContext, Search, main
from recstudy.base.errors import ConfigError
from recstudy.cli.judge import JudgeCommand
from recstudy.publishing.bundle import Bundle
from recstudy.publishing.compared import compare, show_compared
from recstudy.publishing.publish import publish
from recstudy.publishing.verify import verify
from recstudy.records import Results
from recstudy.report.study_records import StudyRecords, load_study
from recstudy.study.design import grid


@dataclass
class Settings:
    depth: int = 2
    rate: float = 0.1


def typed(run: RunContext) -> dict[str, float]:
    return {"accuracy": 80 + 3 * run.settings.depth + run.settings.rate + 0.1 * run.seed, "latency": 1.0}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose levels are whole numbers where the program takes real ones: the ids are of the latter."""
    folder = tmp_path_factory.mktemp("own")
    claims = [Claim("deeper is better", lower={"depth": 1}, higher={"depth": 4})]
    variants = grid({"depth": [1, 4], "rate": [1, 0.5]})
    results = run_study(
        folder / "results", "typed", typed, settings=Settings, variants=variants, claims=claims
    )
    publish(results, "typed", "default", folder / "bundle")
    return folder / "bundle"


def test_a_bundle_verifies(published):
    verified = verify(Bundle(published))

    assert verified.differences == []
    assert "the ids of 12 runs by the settings in the plan and in their records" in verified.checked
    why = "its program saves no answers, so its metrics cannot be recomputed"
    assert f"accuracy, latency (12 runs): {why}" in verified.unchecked
    readme = (published / "README.md").read_text()
    assert "**Supported:** deeper is better" in readme
    assert "images" not in readme


@pytest.mark.parametrize(
    ("pattern", "expression", "to", "message"),
    [
        (
            "results/runs/*/config.json",
            r'"depth": \d',
            '"depth": 3',
            r"config.json: the settings of run \w+ give the id \w+",
        ),
        (
            "results/runs/*/result.json",
            r'"accuracy": [\d.]+',
            '"accuracy": 99.0',
            r"tables/results.csv, line \d+, column",
        ),
    ],
)
def test_change_in_a_bundle_is_found(published, tmp_path, pattern, expression, to, message):
    bundle = Path(shutil.copytree(published, tmp_path / "bundle"))
    changed(bundle, pattern, expression, to)
    differences = verify(Bundle(sealed(bundle))).differences

    assert any(re.search(message, line) for line in differences)


def test_a_search_without_one_of_its_trials_or_fresh_seeds_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("recstudy.plugins.loading.outsiders", list)
    search = Search(
        "search",
        program=Function(typed, name="search.typed"),
        settings=Settings,
        metrics={"accuracy": Metric("%"), "latency": Metric("ms")},
        ranges={"depth": Range(1, 6), "rate": Range(0.01, 0.5)},
        budget="8 runs",
        sampler="random",
        confirm=1,
        seeds=2,
        question="?",
    )
    with pytest.raises(SystemExit, match=r"^0$"):
        main(search, ["--no-ray", "--results", str(tmp_path / "results")])
    publish(Results(tmp_path / "results"), "search", "default", tmp_path / "bundle")
    assert verify(Bundle(tmp_path / "bundle")).differences == []

    changed(tmp_path / "bundle", "results/studies/*/*/trials-*.jsonl", r'\{"number": 2, .*\n', "")
    changed(tmp_path / "bundle", "results/studies/*/*/trials-*.jsonl", r'\{"confirms": \d, "seed": 1.*\n', "")
    differences = "\n".join(verify(Bundle(sealed(tmp_path / "bundle"))).differences)
    assert "the trials of the search have a gap: [0, 1, 3" in differences
    assert "have a gap: [0, 2]" in differences


def test_imported_runs_have_the_settings_and_seeds_of_their_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{rate},{seed},{80 + rate + seed / 10}\n" for rate in (0.1, 0.2) for seed in (3, 7, 42)]
    Path("runs.csv").write_text("".join(["lr,seed,accuracy\n", *rows]))
    JudgeCommand(Path("runs.csv")).run()
    publish(Results(Path("results")), "runs", "imported", tmp_path / "bundle")
    assert "recstudy reproduce" not in (tmp_path / "bundle/README.md").read_text()  # it refuses them
    assert verify(Bundle(tmp_path / "bundle")).differences == []

    plan, imported = (f"results/studies/runs/imported/{name}.json" for name in ("plan", "imported"))
    edited(tmp_path / "bundle", plan, lambda values: values["runs"].pop())
    changed(tmp_path / "bundle", imported, '"seed": 3', '"seed": 5')
    differences = "\n".join(verify(Bundle(sealed(tmp_path / "bundle"))).differences)
    assert re.search(r"runs/\w+: the plan has no such run", differences)
    assert re.search(r"imported.json: the settings of run \w+ give the id", differences)


def test_another_value_of_a_program_that_ignores_the_seed_is_different(tmp_path, capsys):
    points = 82.0

    def constant(run: RunContext) -> dict[str, float]:
        return {"accuracy": points, "latency": 1.0}

    def score() -> StudyRecords:
        return load_study(run_study(tmp_path / f"{points}", program=constant), "depth", "default")

    theirs, points = score(), 52.0
    compared = compare(theirs, score(), "")
    assert {number.verdict for number in compared.numbers} == {"different"}
    show_compared(compared)
    assert "minus theirs -30; all runs of each side have the same value." in capsys.readouterr().out
    points = 82 + 1e-12
    near = compare(theirs, score(), "").numbers
    assert {number.verdict for number in near} == {"within run-to-run spread"}


def test_empty_cells_and_levels_with_colons_and_spaces_are_published(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    levels = (["", "8"], ["mean: all", "token=cls"], ["/scratch/my set/x.pt", "/scratch/my set/y.pt"], "12")
    rows = [f"{','.join(cells)},{80 + index}\n" for index, cells in enumerate(product(*levels))]
    Path("runs.csv").write_text("".join(["width,source,weights,seed,accuracy\n", *rows]))
    JudgeCommand(Path("runs.csv")).run()
    publish(Results(Path("results")), "runs", "imported", tmp_path / "bundle")
    labels = [variant.label for variant in Bundle(tmp_path / "bundle").plan.variants]
    assert labels[0] == "source=mean: all, weights=.../x.pt, width=none"
    assert labels[-1] == "source=token=cls, weights=.../y.pt, width=8"


def test_variants_that_differ_only_in_folders_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"/data/models/{name}/final,{seed},{80 + seed}\n" for name in "ab" for seed in (1, 2)]
    Path("runs.csv").write_text("".join(["weights,seed,accuracy\n", *rows]))
    JudgeCommand(Path("runs.csv")).run()

    with pytest.raises(
        ConfigError, match=r"runs has 2 variants that a bundle would call 'weights=\.\.\./final'"
    ):
        publish(Results(Path("results")), "runs", "imported", tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


COMMAND = r"""from pathlib import Path
from recstudy import Command, LastLine, Metric, Study, grid, main
script = Path(__file__).parent / "train.py"
program = Command(f"python {script} patients.csv {{depth}} {{seed}}", metrics=LastLine(r"accuracy: (\S+)"))
study = Study("ours", program=program, settings={"depth": 1}, metrics={"accuracy": Metric("%")}, variants=grid({"depth": [1, 2]}), seeds=1)
if __name__ == "__main__":
    main(study)
"""


def test_a_bundle_of_a_command_has_its_code_and_no_other_inputs(tmp_path):
    """Its absolute path stays out of the bundle, which cannot recompute the ids then."""
    (tmp_path / "study.py").write_text(COMMAND)
    (tmp_path / "train.py").write_text("import sys\nprint('accuracy:', 50 + int(sys.argv[2]))\n")
    for name in ("patients.csv", "kaggle.json", "conf.yaml"):
        (tmp_path / name).write_text("{}")
    for words in (
        ["study.py", "--no-ray"],
        [*RECSTUDY, "publish", "results/studies/ours/default", "out"],
        [*RECSTUDY, "publish", "results/studies/ours/default", "whole", "--with-data"],
    ):
        run_python(*words, folder=tmp_path)

    code, whole = ({file.name for file in (tmp_path / name / "code").iterdir()} for name in ("out", "whole"))
    assert code == {"study.py", "train.py", "conf.yaml"}
    assert whole == code | {"patients.csv", "kaggle.json"}
    unchecked = verify(Bundle(tmp_path / "out")).unchecked
    assert any("a path was removed from them" in line for line in unchecked)


STUDY = """from recstudy import Metric, Study, grid, main

def train(run):
    return {"accuracy": 80 + 3 * run.settings["depth"] + 0.1 * run.seed}

study = Study("mine", program=train, settings={"depth": 1}, metrics={"accuracy": Metric("%")}, variants=grid({"depth": [1, 2]}), seeds=2)
if __name__ == "__main__":
    main(study)
"""


@pytest.mark.whole
def test_the_runs_of_a_bundle_are_made_again_by_the_program_in_it(tmp_path):
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "mine.py").write_text(STUDY)
    run_python("study/mine.py", "--no-ray", folder=tmp_path)
    run_python(*RECSTUDY, "publish", "results/studies/mine/default", "out", folder=tmp_path)
    reproduce = *RECSTUDY, "reproduce", "../out.zip", "--no-ray"
    refused = run_python(*reproduce, folder=tmp_path / "study", code=2)
    lines = (tmp_path / "out/README.md").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("recstudy reproduce DIR "))
    _, *words = line.partition("#")[0].replace("DIR", "../out.zip --no-ray").split()
    reproduced = run_python(*RECSTUDY, *words, folder=tmp_path / "study")

    assert "its runs need modules of the bundle: mine" in refused.stderr
    assert "Bit-equal: every metric of 4 runs" in reproduced.stdout
