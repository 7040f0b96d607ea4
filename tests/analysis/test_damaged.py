"""Damaged records of one study: every command says so in one line, and the other studies are as before."""

import json
import re

import pytest
from made_up import run_id, write_losses, write_search, write_study

from recstudy.command import main
from recstudy.records import Results, write_json, write_whole
from recstudy.report import LearningCurves, LossTrace, dump_report

OTHER = "a" * 20  # a run of the study that is not damaged
CELL = "scores:ViTRM, batch_size=128:1"
NOT_JSON = ["{torn", "", "\x00\x00\x00"]
WRONG = ["[]", "3", '"words"', "null"]

# The file, what stands there, and what is said of it.
PLANS = [
    *((content, r"plan\.json is damaged: it is not JSON") for content in NOT_JSON),
    *((content, r"plan\.json is damaged: it must be an object") for content in WRONG),
    ("{}", r"plan\.json is damaged: study is missing"),
    pytest.param("[" * 100_000, r"plan\.json is damaged: it is not JSON", id="nested too deep"),
    ({"runs": None}, r"plan\.json is damaged: runs must be"),
    ({"runs": [[99, 0, "x"]]}, r"plan\.json is damaged: run 'x' names variant 99 of 4"),
    ({"runs": [["0", 0, "x"]]}, r"plan\.json is damaged: runs\.0\.0 must be a whole number, but it is '0'"),
    ({"variants": [{"levels": {}}]}, r"plan\.json is damaged: variants\.0\.label is missing"),
    ({"variants": {}}, r"plan\.json is damaged: variants must be"),
    ({"base": {"train": "fast"}}, r"plan\.json is damaged: base\.train must be an object, but it is 'fast'"),
    ({"base": {"train": {"ema_decay": "much"}}}, r"plan\.json is damaged: train\.ema_decay must be a number, but it is 'much'"),
    ({"report": {}}, r"plan\.json is damaged: report must be"),
    ({"axes": []}, r"plan\.json is damaged: axes must be an object"),
    ({"search": {}}, r"plan\.json is damaged: search\.objectives is missing"),
    ({"format": 9}, r"plan\.json was written by a newer recstudy \(format 9\)"),
]
RESULTS = [
    *((content, "it is not JSON") for content in NOT_JSON),
    *((content, "it must be an object") for content in WRONG),
    ("{}", "status is missing"),
    ('{"status": "done"}', "metrics is missing"),
    ('{"status": "done", "metrics": {"top1_accuracy": "high"}}', "metrics.top1_accuracy must be a number, but it is 'high'"),
    ('{"status": "done", "metrics": [1]}', "metrics must be an object"),
    ('{"status": "done", "metrics": {}, "cost": {"seconds": "90"}}', "cost.seconds must be a number"),
    ('{"status": "done", "metrics": {}, "provenance": []}', "provenance must be an object"),
    ('{"status": "done", "metrics": {}, "depths": {"top1_accuracy": [1]}}', "depths.top1_accuracy must be an object"),
]


@pytest.fixture
def results(tmp_path) -> Results:
    """The study that will be damaged, and another one beside it."""
    results = write_study(tmp_path / "results")
    write_losses(results, run_id(0, 0), [1.0, 0.5])
    plan = json.loads((results.study("made_up", "paper") / "plan.json").read_text())
    named = {"label": "the other", "levels": {}, "changes": {}, "model": "ViTRM", "data": "CIFAR-10"}
    other = plan | {"study": "other", "variants": [named], "seeds": [0], "runs": [[0, 0, OTHER]], "axes": {}, "report": []}
    write_json(results.study("other", "paper") / "plan.json", other)
    write_whole(results.run(OTHER).result, results.run(run_id(0, 0)).result.read_bytes())
    return results


def plan_file(results: Results):
    return results.study("made_up", "paper") / "plan.json"


def damage_plan(results: Results, content) -> None:
    file = plan_file(results)
    write_whole(file, content if isinstance(content, str) else json.dumps(json.loads(file.read_text()) | content))


def said(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code and what was printed, by a command in this process; nothing ends with a traceback."""
    with pytest.raises(SystemExit, match=r"^\d+$") as end:
        main([*arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return end.value.code, captured.out, captured.err


@pytest.mark.parametrize(("content", "words"), PLANS)
def test_a_damaged_plan_is_one_line_for_every_command(results, capsys, content, words):
    damage_plan(results, content)
    root = str(results.root)

    for command in ("report", "audit", "evaluate"):
        code, out, err = said(capsys, command, root)
        assert code == 2
        assert re.fullmatch(rf"StorageError: \S+/made_up/paper/{words}.*\n", err)
        assert "other" in out
    assert (results.study("other", "paper") / "report/report.html").exists()
    code, out, err = said(capsys, "status", root)
    assert (code, err) == (0, "")
    assert re.search(rf"made_up \(paper\): \S+{words}", out)
    assert re.search(r"other +│ paper +│ 1 ", out)
    code, out, err = said(capsys, "explain", CELL, root)
    assert code == 2
    assert re.fullmatch(rf"StorageError: \S+{words}.*\n", err)
    code, out, err = said(capsys, "clean", root, "--orphans")
    assert code == 2
    assert re.fullmatch(rf"StorageError: \S+{words}.*\n", err)
    assert said(capsys, "clean", root)[0] == 0


@pytest.mark.parametrize(("content", "words"), RESULTS)
def test_a_damaged_result_is_a_failed_run_that_says_so(results, capsys, content, words):
    write_whole(results.run(run_id(0, 1)).result, content)
    root = str(results.root)

    assert said(capsys, "audit", root)[::2] == (0, "")
    code, out, err = said(capsys, "explain", "scores:1:1", root)
    assert (code, err) == (0, "")
    assert "damaged record" in out
    assert re.search(r"made_up +│ paper +│ 6 ", said(capsys, "status", root)[1])
    assert said(capsys, "clean", root)[0] == 0


def test_a_damaged_result_is_on_the_page(results, capsys):
    write_whole(results.run(run_id(0, 1)).result, '{"status": "done", "metrics": {"top1_accuracy": "high"}}')

    assert said(capsys, "report", str(results.root))[0] == 0

    page = (results.study("made_up", "paper") / "report/report.html").read_text()
    assert "result.json is damaged: metrics.top1_accuracy must be a number, but it is &#x27;high&#x27;" in page


OTHERS = [
    (run_id(1, 2), "failure.json", "[]", "failure.json is damaged: it must be an object"),
    (run_id(1, 2), "failure.json", '{"error": "x"}', "failure.json is damaged: class is missing"),
    (run_id(2, 2), "stopped.json", '{"epoch": "3"}', "stopped.json is damaged: epoch must be a whole number"),
    (run_id(0, 1), "measured.json", '{"metrics": {"nll": 3}}', "measured.json is damaged: metrics.nll must be an object"),
]


@pytest.mark.parametrize(("run", "file", "content", "words"), OTHERS)
def test_other_damaged_records_of_a_run_are_named(results, capsys, run, file, content, words):
    write_whole(results.run(run).path / file, content)

    assert said(capsys, "report", str(results.root))[0] == 0
    for command in ("audit", "status", "clean"):
        assert said(capsys, command, str(results.root))[::2] == (0, "")

    assert words in (results.study("made_up", "paper") / "report/report.html").read_text()


LOGS = [
    ("epochs.jsonl", '{"epoch": 0, "train_loss": "low"}', "train_loss must be a number, but it is &#x27;low&#x27;"),
    ("epochs.jsonl", "[]", "it must be an object"),
    ("epochs.jsonl", '{"train_loss": 1.0}', "epoch must be a whole number"),
    ("epochs.jsonl", "{torn", "it is not JSON"),
    pytest.param("epochs.jsonl", "[" * 100_000, "it is not JSON", id="nested too deep"),
    ("losses.jsonl", '{"epoch": 0, "first": 1, "every": 1, "losses": 3}', "losses must be"),
]


@pytest.mark.parametrize(("file", "line", "words"), LOGS)
def test_a_damaged_line_costs_the_figure_that_needs_it(results, capsys, file, line, words):
    parts = dump_report([LearningCurves(), LossTrace()])
    damage_plan(results, {"report": json.loads(plan_file(results).read_text())["report"][:1] + parts})
    log = results.run(run_id(0, 0)).path / file
    write_whole(log, line.encode() + b"\n" + log.read_bytes())

    code = said(capsys, "report", str(results.root))[0]
    page = (results.study("made_up", "paper") / "report/report.html").read_text()

    assert code == 0
    assert f"line 1 of {log} is damaged: {words}" in page
    assert "Accuracy and cost" in page
    for command in ("audit", "status", "clean"):
        assert said(capsys, command, str(results.root))[::2] == (0, "")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"number": "0", "params": {}, "variant": {"label": "x"}, "seed": 0, "id": "x"}', "number must be a whole number"),
        ('{"number": 0}', "params is missing"),
        ("[]", "it must be an object"),
        ("{torn", "it is not JSON"),
        ('{"confirms": 0, "seed": 0}', "id is missing"),
    ],
)
def test_a_damaged_log_of_a_search_is_one_line(tmp_path, capsys, line, words):
    results = write_search(tmp_path / "results")
    log = results.study("made_up", "paper") / "trials-3f2a9c0d1e4b.jsonl"
    write_whole(log, line.encode() + b"\n" + log.read_bytes())
    root = str(results.root)

    for arguments in (("report", root), ("audit", root), ("explain", "best:1:1", root), ("clean", root, "--orphans")):
        code, _, err = said(capsys, *arguments)
        assert code == 2
        assert re.fullmatch(rf"StorageError: line 1 of {log} is damaged: {words}.*\n", err)
    code, out, err = said(capsys, "status", root)
    assert (code, err) == (0, "")
    assert f"made_up (paper): line 1 of {log} is damaged: {words}" in out


def test_another_definition_that_is_damaged_spoils_nothing(results, capsys):
    write_whole(plan_file(results).with_name("plan-abc.json"), "{torn")

    assert said(capsys, "report", str(results.root))[0] == 0
