"""Damaged records of one study: every command says so in one line, and the other studies are as before."""

import json
import re

import pytest
from made_up import read, run_id, write_losses, write_search, write_study

from recstudy.base.errors import StorageError
from recstudy.cli import main
from recstudy.records import Results, write_json, write_whole
from recstudy.report import LearningCurves, LossTrace, dump_report

# The file's content or what changes in it, and the message; tests/test_schema.py has what a record alone gets
# wrong.
PLANS = [
    pytest.param("[" * 100_000, "is damaged: it is not JSON", id="nested too deep"),
    ({"base": {"train": "fast"}}, r"is damaged: base\.train must be an object, but it is 'fast'"),
    (
        {"base": {"train": {"ema_decay": "much"}}},
        r"is damaged: train\.ema_decay must be a number, but it is 'much'",
    ),
]


@pytest.fixture
def results(tmp_path) -> Results:
    """The study that will be damaged, and another one beside it that shares a run."""
    results = write_study(tmp_path / "results")
    write_losses(results, run_id(0, 0), [1.0, 0.5])
    other_plan = json.loads(plan_file(results).read_text()) | {
        "study": "other",
        "seeds": [0],
        "runs": [[0, 0, run_id(0, 0)]],
    }
    write_json(results.study("other", "paper") / "plan.json", other_plan)
    return results


def plan_file(results: Results):
    return results.study("made_up", "paper") / "plan.json"


def damage_plan(results: Results, content) -> None:
    file = plan_file(results)
    write_whole(
        file, content if isinstance(content, str) else json.dumps(json.loads(file.read_text()) | content)
    )


def run_command(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code and what was printed, by a command in this process; nothing ends with a traceback."""
    with pytest.raises(SystemExit, match=r"^\d+$") as end:
        main([*arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return end.value.code, captured.out, captured.err


@pytest.mark.parametrize(("content", "words"), PLANS)
def test_a_damaged_plan_is_named(results, content, words):
    damage_plan(results, content)

    with pytest.raises(StorageError, match=rf"/made_up/paper/plan\.json {words}"):
        read(results)


def test_a_damaged_plan_is_one_line_for_every_command(results, capsys):
    damage_plan(results, "{}")
    root, words = str(results.root), r"plan\.json is damaged: study is missing"

    for command in ("report", "audit", "evaluate"):
        code, output, err = run_command(capsys, command, root)
        assert code == 2
        assert re.fullmatch(rf"StorageError: \S+/made_up/paper/{words}.*\n", err)
        assert "other" in output
    assert (results.study("other", "paper") / "report/report.html").exists()
    code, output, err = run_command(capsys, "status", root)
    assert (code, err) == (0, "")
    assert re.search(rf"made_up \(paper\): \S+{words}", output)
    assert re.search(r"other +│ paper +│ 1 ", output)
    code, output, err = run_command(capsys, "clean", root, "--orphans")
    assert code == 2
    assert re.fullmatch(rf"StorageError: \S+{words}.*\n", err)


def test_a_damaged_result_is_a_failed_row_that_names_the_file(results):
    write_whole(results.run(run_id(0, 1)).result, "{torn")

    (row,) = [row for row in read(results).rows if row.id == run_id(0, 1)]

    assert (row.status, row.error_class) == ("failed", "damaged record")
    assert "result.json is damaged: it is not JSON" in row.error


@pytest.mark.parametrize(
    ("run", "file", "content", "words"),
    [
        (run_id(1, 2), "failure.json", "[]", "failure.json is damaged: it must be an object"),
        (
            run_id(2, 2),
            "stopped.json",
            '{"epoch": "3"}',
            "stopped.json is damaged: epoch must be a whole number",
        ),
        (
            run_id(0, 1),
            "measured.json",
            '{"metrics": {"nll": 3}}',
            "measured.json is damaged: metrics.nll must be an object",
        ),
    ],
)
def test_a_damaged_record_of_a_run_is_on_the_page(results, capsys, run, file, content, words):
    write_whole(results.run(run).path / file, content)

    for command in ("report", "audit", "status", "clean"):
        assert run_command(capsys, command, str(results.root))[::2] == (0, "")

    assert words in (results.study("made_up", "paper") / "report/report.html").read_text()


def test_a_damaged_line_costs_the_figure_that_needs_it(results, capsys):
    parts = dump_report([LearningCurves(), LossTrace()])
    damage_plan(results, {"report": json.loads(plan_file(results).read_text())["report"][:1] + parts})
    run, line = results.run(run_id(0, 0)), '{"epoch": 0, "first": 1, "every": 1, "losses": 3}'
    for log, damage in ((run.epochs, "{torn"), (run.losses, line)):
        write_whole(log, f"{damage}\n".encode() + log.read_bytes())

    for command in ("audit", "status", "clean"):
        assert run_command(capsys, command, str(results.root))[::2] == (0, "")
    code, _, errors = run_command(capsys, "report", str(results.root))
    assert (code, errors.count("\n")) == (8, 1)
    assert re.match("PartError: The report of made_up .* 'learning_curves': .*; 'loss_trace': ", errors)

    page = (results.study("made_up", "paper") / "report/report.html").read_text()
    assert f"line 1 of {run.epochs} is damaged: it is not JSON" in page
    assert f"line 1 of {run.losses} is damaged: losses must be" in page
    assert "Accuracy and cost" in page


def test_a_damaged_log_of_a_search_is_named(tmp_path):
    results = write_search(tmp_path / "results")
    log = results.study("made_up", "paper") / "trials-3f2a9c0d1e4b.jsonl"
    write_whole(log, b'{"number": 0}\n' + log.read_bytes())

    with pytest.raises(StorageError, match=f"line 1 of {log} is damaged: params is missing"):
        read(results)
