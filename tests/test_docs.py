"""What README and docs tell people to type: Python runs, and commands are understood; nothing is trained. And
the container.
"""

import re
import runpy
import shlex
import sys
from pathlib import Path

import pytest
from processes import RECSTUDY, run_python

from recstudy import Search, cli
from recstudy.base.errors import EXIT_CODES, FAILURES
from recstudy.cli import study as study_command
from recstudy.cli.options import axes, changes_of
from recstudy.study.plan import make_plan
from recstudy.study.variants import select

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "AGENTS.md",
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs/how-to").glob("*.md"),
    ]
)
OTHER_PROGRAMS = {  # programs that are not ours; files of this repository that they are given must be there
    "cp", "export", "git", "grafana-server", "hf", "kubectl", "optuna-dashboard", "pip", "prometheus", "ray", "sbatch", "scancel", "sky", "source", "ssh",
    "tensorboard", "wget",
}  # fmt: skip
WRITTEN_FILES = (
    "my_study.py",
    "own_model.py",
    "my_function.py",
    "my_script.py",
    "degree.py",
    "is_it_real.py",
)  # by a reader, or by `recstudy new`
NOTEBOOK = "notebook.md"  # tests/report/test_loaded.py runs it in a kernel
README_FUNCTION, README_COMMAND = re.findall(
    r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
)


def fences(page: Path) -> list[tuple[str, str]]:
    """Each block with its language."""
    return re.findall(r"^```(.*?)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    return [text for fence_language, text in fences(page) if fence_language == language]


def commands(page: Path) -> list[str]:
    lines = "".join(blocks(page, "bash")).replace("\\\n", "").splitlines()
    return [line for line in lines if line.strip()]


def typed_in(folder: Path, line: str, *options: str) -> str:
    """What a line of README says in that folder."""
    program, *words = shlex.split(line, comments=True)
    start = {"python": (), "recstudy": RECSTUDY}[program]
    return run_python(*start, *words, *options, folder=folder).stdout


def test_python_runs(tmp_path):
    """Each block by itself, in one process of its own, whose registries it fills."""
    texts = [
        text for page in PAGES if page.name not in (NOTEBOOK, "README.md") for text in blocks(page, "python")
    ]
    (tmp_path / "theirs.zip").write_bytes((ROOT / "studies/evidence/hrm_small_images.paper.zip").read_bytes())
    (tmp_path / "my_paper.csv").write_text(blocks(ROOT / "docs/how-to/published.md", "")[0])
    code = "".join(f"exec({text!r}, {{'__name__': 'block_{number}'}})\n" for number, text in enumerate(texts))

    run_python("-c", code, folder=tmp_path)

    assert len(texts) >= 5


@pytest.mark.whole
def test_the_first_result_of_readme_is_what_its_commands_print(tmp_path):
    new, run = [line for line in commands(ROOT / "README.md") if "my_function" in line]
    typed_in(tmp_path, new)
    output = typed_in(tmp_path, run)
    (expected,) = [text for text in blocks(ROOT / "README.md", "") if "Report:" in text]

    lines = [line for line in expected.splitlines() if line != "..."]
    assert len(lines) == 4
    for line in lines:
        assert line in output


@pytest.mark.whole
def test_the_function_of_readme_is_a_study_with_a_verdict(tmp_path):
    (tmp_path / "depth.py").write_text(README_FUNCTION)
    assert "Supported: 4 layers beat 1 by two points" in typed_in(tmp_path, "python depth.py", "--no-ray")


@pytest.mark.whole
def test_the_command_of_readme_takes_the_place_of_the_function(tmp_path):
    (tmp_path / "train.py").write_text(
        "import json, sys\n"
        "_, _, depth, _, seed, folder = sys.argv\n"
        "json.dump({'accuracy': 80 + 2 * int(depth) + int(seed) / 10}, open(folder + '/metrics.json', 'w'))\n"
    )
    study = README_COMMAND + README_FUNCTION.replace("program=train", "program=program")
    (tmp_path / "depth.py").write_text(study)
    assert "Supported: 4 layers beat 1 by two points" in typed_in(tmp_path, "python depth.py", "--no-ray")


@pytest.mark.whole
def test_the_starter_of_a_model_trains(tmp_path):
    new, run, _ = [line for line in commands(ROOT / "docs/how-to/model.md") if "own_model" in line]
    typed_in(tmp_path, new)
    typed_in(tmp_path, run, "--smoke", "--no-ray")
    assert list(tmp_path.glob("results/studies/own_model/quick-smoke/report/report.html"))


def test_readme_begins_with_two_commands_and_a_table_that_is_judged_and_stays_short():
    lines = (ROOT / "README.md").read_text().splitlines()
    starts = [
        "make demo ",
        "make test ",
        "recstudy judge ",
        '<img src="docs/pictures/judge.png"',
        "```python",
    ]
    places = [
        next(number for number, line in enumerate(lines, 1) if line.startswith(start)) for start in starts
    ]

    assert places == sorted(places)
    assert places[-1] < 30
    assert len(lines) <= 130


@pytest.fixture
def typed(monkeypatch, capsys):
    """A line as it is typed -> exit code and what it said, without doing anything."""
    for commands in cli.COMMANDS.values():
        for name in commands:  # imports modules that import `carry_out`, so before that is replaced
            monkeypatch.setattr(cli.command_class(name), "run", lambda *_: 0)
    monkeypatch.setattr(study_command, "carry_out", planned)
    monkeypatch.chdir(ROOT)

    def run(line: str) -> tuple[int, str]:
        with pytest.raises(SystemExit, match=r"^(False|\d*)$") as end:
            understood(shlex.split(line, comments=True))
        return end.value.code or 0, capsys.readouterr().err.strip()

    return run


def planned(study, options, **_) -> int:
    if isinstance(study, Search):
        return 0
    changes = changes_of(options) | ({"train.init_from": "0" * 20} if options.init_from else {})
    plan = make_plan(study, options.preset, changes, options.seeds, options.smoke, vary=axes(options.vary))
    return 0 if select(plan.runs, options.only) else 1


def understood(words: list[str]) -> None:
    """Exit as the command would, once it knows what is asked."""
    words = words[: words.index("||")] if "||" in words else words  # what is said where it fails
    while re.match(r"[A-Z_]+=", words[0]) or words[:1] == ["timeout"]:
        words = words[1 + (words[0] == "timeout") :]
    program, arguments = words[0].removeprefix(".venv/bin/"), words[1:]
    if program == "python" and arguments[0] not in WRITTEN_FILES:
        study_command.main(runpy.run_path(str(ROOT / arguments[0]))["study"], arguments[1:])
    elif program == "recstudy":
        cli.main(arguments)
    elif program == "make":
        targets = [word for word in arguments if "=" not in word]
        sys.exit(
            not all(re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M) for target in targets)
        )
    elif "--" in arguments:
        understood(arguments[arguments.index("--") + 1 :])
    elif program == "sbatch":
        understood(["python", *arguments[1:]])
    paths = [word.partition("=")[2] or word for word in arguments]
    missing_files = [
        word for word in paths if word.startswith(("studies/", "dashboards/")) and not (ROOT / word).exists()
    ]
    sys.exit(1 if missing_files or program not in {*OTHER_PROGRAMS, "python"} else 0)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.stem)
def test_commands_are_understood(page, typed):
    for line in commands(page):
        code, output = typed(line)
        if "# refused" in line:
            assert code == 2
            start, _, end = next(
                page_line for page_line in page.read_text().splitlines() if page_line[:40] == output[:40]
            ).partition("...")
            assert output.startswith(start)
            assert output.endswith(end)
        else:
            assert code == 0, f"{line}: {output}"


def test_every_exit_code_is_documented():
    rows = re.findall(r"^\| (\d+) \| ([^|]*) \| ([^|]+) \|", (ROOT / "docs/errors.md").read_text(), re.M)

    assert [int(code) for code, *_ in rows] == [0, 1, 2, *EXIT_CODES.values(), 10, 11, 130]
    assert all(example.strip() for *_, example in rows)
    for reason in FAILURES:
        text = {code: meaning for code, meaning, _ in rows}[str(EXIT_CODES[reason])]
        assert reason.split()[0] in text or reason == "storage", reason


def test_llms_txt_links_to_pages_of_the_site():
    links = re.findall(r"^- \[[^]]+\]\(([^)]+)\)$", (ROOT / "docs/llms.txt").read_text(), re.M)

    assert len(links) > 40
    assert [link for link in links if not (ROOT / "docs" / link).with_suffix(".md").exists()] == []


SITE = sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "studies")


def test_names_and_headings_of_the_site_begin_with_a_capital():
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1].split("\nnot_in_nav:")[0]
    names = re.findall(r"^ *- (.*?):", nav, re.MULTILINE)
    texts = [re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE) for page in SITE]
    heads = [head for text in texts for head in re.findall(r"^#+ (.*)", text, re.MULTILINE)]

    assert len(names) > 40
    assert len(heads) > 200
    assert [name for name in [*names, *heads] if name[0].islower() and name != "recstudy"] == []


def test_no_page_of_the_site_shows_a_backtick():
    assert [page.name for page in (ROOT / "docs").rglob("*.md") if r"\`" in page.read_text()] == []


def test_the_first_page_of_the_site_has_a_result_a_picture_and_then_the_tasks():
    text = (ROOT / "docs/index.md").read_text()
    marks = ["95 % CI", "](pictures/my_function.report.png)", "| You want to | Read |"]
    tasks = (
        "judge a CSV|study your function or script|run on a cluster|make the paper's tables|check a bundle"
    )

    assert [text.index(mark) for mark in marks] == sorted(text.index(mark) for mark in marks)
    assert re.findall(r"^\| \*\*(.*?)\*\*", text, re.MULTILINE)[:5] == tasks.split("|")
