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
from strangers import FOLDERS, RUN, SECRET, WHOLE, good, outside, plan_file, plan_of

from recstudy.board.folder import ResultsFolder
from recstudy.board.server import make_app
from recstudy.command import main
from recstudy.errors import RecstudyError
from recstudy.records import Results
from recstudy.report.loaded import load
from recstudy.terminal import printable

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
    before, most = resource.getrlimit(resource.RLIMIT_AS), pages * resource.getpagesize() + MEMORY
    earlier = signal.signal(signal.SIGALRM, hung)
    resource.setrlimit(resource.RLIMIT_AS, (most, before[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, earlier)
        resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return good(tmp_path_factory.mktemp("good") / "results").root


def copied(template, tmp_path):
    shutil.copytree(template, tmp_path / "results")
    outside(tmp_path / "outside")
    return Results(tmp_path / "results")


def said(capsys, *words):
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
    told = ""
    for study in ("made_up", "other"):
        with suppress(RecstudyError):
            found = load(root / "studies" / study / "paper")
            told += f"{found!r} {found.runs} {found.findings}"
            for name in found.parts:
                with suppress(RecstudyError):
                    told += repr(found[name])
            with suppress(RecstudyError):
                told += str(found.epochs)
    return told


def everything(results, capsys):
    """What all readers say, and the exit codes of commands."""
    told, codes, root = "", {}, str(results.root)
    for command, allowed in COMMANDS.items():
        codes[command], words = said(capsys, command, root)
        assert codes[command] in allowed, (command, words)
        told += words
    codes["explain"], words = said(capsys, "explain", "scores:1:1", f"{root}/studies/made_up/paper")
    assert codes["explain"] in (0, 2)
    told += words + loaded(results.root) + pages(results.root)
    for file in results.root.glob("studies/*/paper/report/*.html"):
        told += "" if file.is_symlink() or file.parent.is_symlink() else file.read_text()
    return told, codes


def test_the_good_folder_is_read_by_all(template, tmp_path, capsys):
    told, codes = everything(copied(template, tmp_path), capsys)

    assert {code for command, code in codes.items() if command != "evaluate"} == {0}
    assert "damaged" not in told


@pytest.mark.parametrize("name", FOLDERS)
def test_a_strangers_folder_does_no_harm(template, tmp_path, capsys, name):
    results = copied(template, tmp_path)
    FOLDERS[name](results, tmp_path / "outside")
    before = {file: file.read_bytes() for file in (tmp_path / "outside").rglob("*") if file.is_file()}

    with bounded():
        told, codes = everything(results, capsys)

    assert SECRET not in told
    assert "12.34567" not in told
    assert before == {file: file.read_bytes() for file in (tmp_path / "outside").rglob("*") if file.is_file()}
    if name in WHOLE:
        assert codes["report"] == 2
        assert len(re.findall(r"StorageError: \S+ is a link", told)) >= 2
    else:
        assert (results.study("other", "paper") / "report/report.html").exists()
        assert "the other" in told


def table(results):
    return (results.study("made_up", "paper") / "report/tables/scores.md").read_text()


def test_damaged_answers_cost_a_mark_and_no_table(template, tmp_path, capsys):
    """The value is that of the record."""
    results = copied(template, tmp_path)
    said(capsys, "report", str(results.root))
    mean = re.findall(r"\| ([\d.]+)", table(results))
    content = bytearray(results.run(RUN).answers.read_bytes())
    content[len(content) // 2] ^= 0xFF
    results.run(RUN).answers.write_bytes(content)

    assert said(capsys, "report", str(results.root))[0] == 0

    assert re.findall(r"\| ([\d.]+)", table(results))[: len(mean)] == mean
    assert "1 with damaged answers" in table(results)
    assert f"values as recorded, without intervals over items: runs/{RUN}/answers.npz is damaged" in table(
        results
    )


def test_a_part_that_cannot_be_drawn_leaves_no_older_file(template, tmp_path, capsys):
    results = copied(template, tmp_path)
    said(capsys, "report", str(results.root))
    assert table(results)
    made = plan_of(results)
    broken = [
        one | {"rows": "no such axis", "columns": "nor this"} if one["name"] == "scores" else one
        for one in made["report"]
    ]
    plan_file(results).write_text(json.dumps(made | {"report": broken}))

    assert said(capsys, "report", str(results.root))[0] == 0

    assert not (results.study("made_up", "paper") / "report/tables/scores.md").exists()
