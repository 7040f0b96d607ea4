"""What README and docs tell people to type: Python runs, and commands are understood; nothing is trained."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from recstudy import Search, cli, command
from recstudy.errors import FAILURES, failure_code
from recstudy.options import changes_of
from recstudy.study.study import make_plan, select

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/how-to").glob("*.md")]
)
OTHERS = {  # programs that are not ours; files of this repository that they are given must be there
    "cp", "git", "grafana-server", "optuna-dashboard", "prometheus", "ray", "sbatch", "scancel", "source", "tensorboard",
}  # fmt: skip
SHOWN = " { .python }"  # a file of this repository as it is, which `make docs` must find
NOTEBOOK = "notebook.md"  # tests/analysis/test_loaded.py runs it in a kernel
README_STUDY, README_MODEL = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def commands(page: Path) -> list[str]:
    lines = "".join(blocks(page, "bash")).replace("\\\n", "").splitlines()
    return [line for line in lines if line.strip()]


def own_study() -> str:
    """README's study with its model, put together as it says."""
    head, rest = README_STUDY.split("study = Study(")
    rest = re.sub(r"model=ViTRM\(.*\)", "model=Looped()", rest).replace("latent_steps", "loops")
    return f"{head}{README_MODEL}\n\nstudy = Study({rest}"


def dry_run(folder: Path, text: str) -> str:
    (folder / "my_study.py").write_text(text)
    run = subprocess.run(
        [sys.executable, "my_study.py", "--dry-run"], cwd=folder, capture_output=True, text=True, check=False, timeout=120
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_every_block_says_what_it_is():
    """One without a language is output, or a folder; a line that is typed would go untested there."""
    for page in PAGES:
        fences = re.findall(r"^```(.*?)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        assert {language for language, _ in fences} <= {"", "bash", "python", SHOWN}, page
        assert not [text for language, text in fences if not language and re.search(r"^(\$|python|recstudy|make) ", text, re.M)]


def test_python_runs(tmp_path):
    """Each block by itself, in one process of its own, whose registries it fills."""
    texts = [text for page in PAGES if page.name not in (NOTEBOOK, "README.md") for text in blocks(page, "python")]
    code = "".join(f"exec({text!r}, {{'__name__': 'block_{number}'}})\n" for number, text in enumerate(texts))

    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, timeout=120)

    assert len(texts) >= 5


def test_readme_s_study_and_model_are_planned(tmp_path):
    assert len(README_STUDY.splitlines()) <= 30
    assert "latent_steps=6" in dry_run(tmp_path, README_STUDY)
    assert "loops=6" in dry_run(tmp_path, own_study())


@pytest.mark.smoke
def test_readme_s_model_trains(tmp_path):
    (tmp_path / "my_study.py").write_text(own_study())

    subprocess.run([sys.executable, "my_study.py", "--smoke"], check=True, cwd=tmp_path, timeout=280)

    assert list(tmp_path.glob("results/studies/my_study/quick-smoke/report/report.html"))


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.fixture
def typed(monkeypatch, capsys):
    """A line as it is typed -> exit code and what it said, without doing anything."""
    monkeypatch.setattr(cli, "_study", planned)
    monkeypatch.setattr(cli, "_search", lambda study, options: 0 if isinstance(study, Search) else 1)
    monkeypatch.setattr(command, "_done", lambda *_: 0)
    monkeypatch.chdir(ROOT)

    def run(line: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            understood(shlex.split(line, comments=True))
        return end.value.code, capsys.readouterr().err.strip()

    return run


def planned(study, options) -> int:
    plan = make_plan(study, options.preset, changes_of(options), options.seeds, options.smoke)
    return 0 if select(plan, options.only) else 1


def understood(words: list[str]) -> None:
    """Exit as the command would, once it knows what is asked."""
    program, arguments = words[0].removeprefix(".venv/bin/"), words[1:]
    if program == "python" and arguments[0] != "my_study.py":
        cli.main(runpy.run_path(str(ROOT / arguments[0]))["study"], arguments[1:])
    elif program == "recstudy":
        command.main(arguments)
    elif program == "make":
        targets = [word for word in arguments if "=" not in word]
        sys.exit(not all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M) for target in targets))
    elif "--" in arguments:
        understood(arguments[arguments.index("--") + 1 :])
    elif program == "sbatch":
        understood(["python", *arguments[1:]])
    named = [word.partition("=")[2] or word for word in arguments]
    missing = [word for word in named if word.startswith(("studies/", "dashboards/")) and not (ROOT / word).exists()]
    sys.exit(1 if missing or program not in {*OTHERS, "python"} else 0)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_commands_are_understood(page, typed):
    for line in commands(page):
        code, said = typed(line)
        if "# refused" in line:
            assert code == 2
            start, _, end = next(shown for shown in page.read_text().splitlines() if shown[:40] == said[:40]).partition("...")
            assert said.startswith(start)
            assert said.endswith(end)
        else:
            assert code == 0, f"{line}: {said}"


def test_every_exit_code_is_documented():
    rows = re.findall(r"^\| (\d+) \| ([^|]*)", (ROOT / "docs/errors.md").read_text(), re.M)

    assert [int(code) for code, _ in rows] == [0, 1, 2, *map(failure_code, FAILURES), 130]
    for reason in FAILURES:
        text = dict(rows)[str(failure_code(reason))]
        assert reason.split()[0] in text or reason == "storage", reason
