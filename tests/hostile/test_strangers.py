"""A stranger's results folder is read by every reader: one clear line, nothing outside read or written, other
studies as before.
"""

import json
import re
import resource
import shutil
import signal
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from strangers import FOLDERS, RUN, SECRET, UNREADABLE_FOLDERS, good, outside, plan_file, plan_of

from recstudy.base.errors import RecstudyError
from recstudy.base.terminal import printable
from recstudy.board.folder import ResultsFolder
from recstudy.board.server import make_app
from recstudy.cli import main
from recstudy.records import Results
from recstudy.report.loaded import load

# of all readers of one folder, on a busy machine; bytes beside those that the process has
SECONDS, MEMORY = 60, 2 * 10**9
COMMANDS = {
    "status": (0, 2),
    "report": (0, 2),
    "audit": (0, 2),
    "evaluate": (0, 1, 2),  # 1: a run cannot be evaluated
    "clean": (0, 2),
}


@contextmanager
def bounded():
    """End what hangs, and what asks for memory without bounds."""

    def hung(*_: object) -> None:
        raise AssertionError(f"it takes more than {SECONDS} s")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    old_limits, memory_limit = resource.getrlimit(resource.RLIMIT_AS), pages * resource.getpagesize() + MEMORY
    old_handler = signal.signal(signal.SIGALRM, hung)
    resource.setrlimit(resource.RLIMIT_AS, (memory_limit, old_limits[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old_handler)
        resource.setrlimit(resource.RLIMIT_AS, old_limits)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return good(tmp_path_factory.mktemp("good") / "results").root


def copied(template, tmp_path):
    shutil.copytree(template, tmp_path / "results")
    outside(tmp_path / "outside")
    return Results(tmp_path / "results")


def run_command(capsys, *words):
    """Exit code and what was printed, without the ends of lines."""
    with pytest.raises(SystemExit, match=r"^\d+$") as end:
        main([*words])
    captured = capsys.readouterr()
    for text in (captured.out, captured.err):
        assert "Traceback" not in text
        assert printable(text) == text
    return int(end.value.code), captured.out + captured.err


def pages(root):
    """All that the board says."""
    client = make_app(Results(root)).test_client()
    folder = ResultsFolder(Results(root))
    with suppress(RecstudyError):
        folder.poll()
    places = [f"/{kind}/{name}/{preset}" for name, preset in folder.studies for kind in ("study", "runs")]
    answers = [client.get(place) for place in ("/", *places, f"/run/{RUN}")]
    assert {answer.status_code for answer in answers} <= {200, 404}
    return "".join(answer.text for answer in answers)


def loaded(root):
    text = ""
    for study in ("made_up", "other"):
        with suppress(RecstudyError):
            study_results = load(root / "studies" / study / "paper")
            text += f"{study_results!r} {study_results.runs} {study_results.findings}"
            for name in study_results.parts:
                with suppress(RecstudyError):
                    text += repr(study_results[name])
            with suppress(RecstudyError):
                text += str(study_results.epochs)
    return text


def read_everything(results, capsys):
    """What all readers say, and the exit codes of commands."""
    text, codes, root = "", {}, str(results.root)
    for command, allowed in COMMANDS.items():
        codes[command], words = run_command(capsys, command, root)
        assert codes[command] in allowed, (command, words)
        text += words
    codes["explain"], words = run_command(capsys, "explain", "scores:1:1", f"{root}/studies/made_up/paper")
    assert codes["explain"] in (0, 2)
    text += words + loaded(results.root) + pages(results.root)
    for file in results.root.glob("studies/*/paper/report/*.html"):
        text += "" if file.is_symlink() or file.parent.is_symlink() else file.read_text()
    return text, codes


def test_the_good_folder_is_read_by_all(template, tmp_path, capsys):
    text, codes = read_everything(copied(template, tmp_path), capsys)

    assert {code for command, code in codes.items() if command != "evaluate"} == {0}
    assert "damaged" not in text


@pytest.mark.parametrize("name", FOLDERS)
def test_a_strangers_folder_does_no_harm(template, tmp_path, capsys, name):
    results = copied(template, tmp_path)
    FOLDERS[name](results, tmp_path / "outside")
    outside_files = {file: file.read_bytes() for file in (tmp_path / "outside").rglob("*") if file.is_file()}

    with bounded():
        text, codes = read_everything(results, capsys)

    assert SECRET not in text
    assert "12.34567" not in text
    assert outside_files == {
        file: file.read_bytes() for file in (tmp_path / "outside").rglob("*") if file.is_file()
    }
    if name in UNREADABLE_FOLDERS:
        assert codes["report"] == 2
        assert len(re.findall(r"StorageError: \S+ is a link", text)) >= 2
    else:
        assert (results.study("other", "paper") / "report/report.html").exists()
        assert "the other" in text


def table(results):
    return (results.study("made_up", "paper") / "report/tables/scores.md").read_text()


def test_damaged_answers_cost_a_mark_and_no_table(template, tmp_path, capsys):
    """The value is that of the record."""
    results = copied(template, tmp_path)
    run_command(capsys, "report", str(results.root))
    mean = re.findall(r"\| ([\d.]+)", table(results))
    content = bytearray(results.run(RUN).answers.read_bytes())
    content[len(content) // 2] ^= 0xFF
    results.run(RUN).answers.write_bytes(content)

    assert run_command(capsys, "report", str(results.root))[0] == 0

    assert re.findall(r"\| ([\d.]+)", table(results))[: len(mean)] == mean
    assert "1 with damaged answers" in table(results)
    assert f"values as recorded, without intervals over items: runs/{RUN}/answers.npz is damaged" in table(
        results
    )


def test_a_part_that_cannot_be_drawn_leaves_no_older_file(template, tmp_path, capsys):
    results = copied(template, tmp_path)
    run_command(capsys, "report", str(results.root))
    assert table(results)
    plan = plan_of(results)
    broken = [
        part | {"rows": "no such axis", "columns": "nor this"} if part["name"] == "scores" else part
        for part in plan["report"]
    ]
    plan_file(results).write_text(json.dumps(plan | {"report": broken}))

    assert run_command(capsys, "report", str(results.root))[0] == 8

    assert not (results.study("made_up", "paper") / "report/tables/scores.md").exists()
