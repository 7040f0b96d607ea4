"""Studies of commits: real repositories, whose script differs between two branches."""

import os
import re
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from processes import run_python
from repositories import git

from recstudy import Commits, grid
from recstudy.base.errors import ConfigError
from recstudy.base.files import cache_folder
from recstudy.records import Results
from recstudy.records.clean import show_clean

SCRIPT = """
import random, subprocess, sys
from rate import RATE

commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
print("commit", commit)
print("accuracy:", 80 + RATE + random.Random(int(sys.argv[1])).random())
"""
STUDY = '''
"""Is my change real?"""
from recstudy import Claim, Command, Commits, LastLine, Metric, Study, grid, main

study = Study(
    "idea",
    program=Command("python train.py {{seed}}", folder="{folder}", metrics=LastLine(r"accuracy: (\\S+)")),
    metrics={{"accuracy": Metric("%", items=1000)}},
    variants={variants},
    seeds=3,
    claims=[Claim("the idea helps", higher={{"commit": "idea"}}, lower={{"commit": "main"}})],
)

if __name__ == "__main__":
    main(study)
'''


@pytest.fixture
def project(tmp_path, monkeypatch) -> Path:
    """A script in a folder of a repository, which is better on the branch `idea`. `main` is checked out, and
    its package is installed in place.
    """
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "project/experiment"
    folder.mkdir(parents=True)
    source = folder.parent / "src"
    source.mkdir()
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(source), *filter(None, sys.path)]))
    git(folder.parent, "init", "--initial-branch=main")
    (folder / "train.py").write_text(SCRIPT)
    for branch, rate in (("main", 0), ("idea", 3)):
        git(folder, "checkout", "-B", branch)
        (source / "rate.py").write_text(f"RATE = {rate}\n")
        git(folder.parent, "add", ".")
        git(folder, "commit", "--message", branch)
    git(folder, "checkout", "main")
    return folder


def write_study(
    project: Path, variants: str = 'Commits("main", "idea")', folder: str = "project/experiment"
) -> Path:
    file = project.parents[1] / "study.py"
    file.write_text(STUDY.format(variants=variants, folder=folder))
    return file


def run(file: Path, *words: str, code: int = 0) -> str:
    process = run_python(file.name, "--no-ray", *words, code=code, folder=file.parent, COLUMNS="200")
    return process.stderr if code == 2 else process.stdout


def test_two_branches_are_compared_until_it_is_decided_and_the_checkout_stays(project):
    (project.parent / "src/rate.py").write_text("RATE = 50\n")  # not committed, so that no run uses it
    file = write_study(project)

    first = run(file, "--until", "decided")

    assert first.splitlines()[1] == (
        f"{project.parent} has uncommitted changes, which no run uses: src/rate.py."
    )
    assert (
        "Supported: the idea helps: accuracy 83.6 % with commit idea against 80.6 % with commit main" in first
    )
    logs = [log.read_text() for log in file.parent.glob("results/runs/*/output.log")]
    assert {*re.findall(r"^commit (\w+)", "\n".join(logs), re.MULTILINE)} == {
        git(project, "rev-parse", branch) for branch in ("main", "idea")
    }
    assert (git(project, "status", "--porcelain"), git(project, "branch", "--show-current")) == (
        "M src/rate.py",
        "main",
    )

    git(project, "stash")
    git(project, "commit", "--allow-empty", "--message", "the same files")
    assert "6 runs: all finished before" in run(file)
    (project.parent / "src/rate.py").write_text("RATE = 1\n")
    git(project, "commit", "--all", "--message", "another tree")
    moved = run(file)
    assert "3 finished runs of variants or settings that the study no longer has" in moved
    assert "6 runs: 3 finished before, 3 to run" in moved


def test_commits_of_the_same_files_share_runs_and_are_an_axis_of_a_grid(project):
    git(project, "tag", "copy", "idea")
    variants = 'grid({"commit": Commits("main", "idea", "copy")})'
    output = run(write_study(project, variants))

    idea = git(project, "rev-parse", "idea")[:10]
    assert f"idea {idea}, copy {idea}." in output
    assert "6 of 6 runs done" in output
    assert len(Results(project.parents[1] / "results").run_ids()) == 6


def test_processes_that_start_at_once_share_one_worktree_and_clean_removes_it(project, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(project))
    file = write_study(project)
    outputs = list[str]()
    threads = [threading.Thread(target=lambda: outputs.append(run(file))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(outputs) == 3
    assert len(git(project, "worktree", "list").splitlines()) == 3

    (worktree, *_) = cache_folder().glob("worktrees/*/worktree")
    (worktree / "src/rate.py").write_text("RATE = 9\n")  # by a script
    run(file, "--seeds", "4")
    assert (worktree / "src/rate.py").read_text() != "RATE = 9\n"

    show_clean(file.parent / "results", orphans=False, remove=True)
    assert not list(cache_folder().glob("worktrees/*"))
    assert "8 finished before, 2 to run" in run(file, "--seeds", "5")


CONFIGURED = """
from recstudy import Command, Commits, LastLine, Metric, Study, Yaml, main

program = Command(
    "python train.py {config}", folder="project/experiment", config=Yaml("config.yaml"),
    metrics=LastLine(r"accuracy: (\\S+)"),
)
study = Study("configured", program=program, settings={"rate": 7}, metrics={"accuracy": Metric("%")},
              variants=Commits("main"), seeds=2)

if __name__ == "__main__":
    main(study)
"""


def test_a_run_depends_on_the_metrics_pattern_and_a_config_of_its_commit(project):
    (project / "config.yaml").write_text("rate: 1\nseed: 0\n")
    (project / "train.py").write_text("import sys; print('accuracy: 80', *open(sys.argv[1]))")
    git(project, "add", ".")
    git(project, "commit", "--message", "a config")
    file = project.parents[1] / "study.py"
    file.write_text(CONFIGURED)

    run(file)
    (log, _) = (log.read_text() for log in file.parent.glob("results/runs/*/output.log"))
    assert "accuracy: 80 rate: 7" in log
    (project / "train.py").write_text("raise SystemExit(1)")  # not committed
    assert "all finished before" in run(file)
    file.write_text(CONFIGURED.replace("accuracy: (", "accuracy: ?("))

    assert "metrics of train.py changed since 2 finished runs were made" in run(file, code=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"variants": 'Commits("main", "idae")'}, "Unknown commit 'idae' in {top}. Did you mean 'idea'?"),
        ({"variants": 'Commits("main", "main")'}, "line 9: Commits are different branches, tags or hashes"),
        ({"folder": "."}, "Commits needs a git repository, but {home} is in none"),
        (
            {"variants": '[*Commits("main", "idea"), *grid({"commit": [""]})]'},
            "Every variant of train.py needs a commit",
        ),
    ],
)
def test_commits_that_cannot_run_are_refused_in_one_line(project, changes, message):
    (error,) = run(write_study(project, **changes), code=2).splitlines()

    assert message.format(top=project.parent, home=project.parents[1]) in error


def test_a_script_that_is_not_committed_is_refused(project):
    git(project, "rm", "--cached", "train.py")
    git(project, "commit", "--message", "without the script")

    error = run(write_study(project), code=2)

    assert (
        f"train.py is not in main of {project.parent}: a worktree has the files of its commit only" in error
    )
    assert not list(project.parents[1].glob("results/runs/*"))


def test_a_function_cannot_run_at_commits():
    from recstudy import Metric, Study

    with pytest.raises(ConfigError, match="Commits need a Command as the program of the study, with"):
        Study("x", program=git, metrics={"a": Metric()}, variants=Commits("main", "idea"))


def test_the_labels_of_commits():
    labels = [variant.label for variant in grid({"version": Commits("v1", "v2"), "lr": [0.1]})]

    assert labels == ["version=v1, lr=0.1", "version=v2, lr=0.1"]
