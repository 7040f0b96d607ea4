"""What stands in the files: read with a word on what is wrong, whatever else they hold."""

import json

import pytest
from refusals import refused

from recstudy.base.errors import StorageError
from recstudy.records import (  # noqa: F401 - for refused.txt
    Attempt,
    EpochLine,
    Failure,
    LossLine,
    PlanRecord,
    Result,
    RunFolder,
    Stopped,
    read_log,
    read_record,
    write_record,
    write_whole,
)
from recstudy.records.reading import read_trials, record_of
from recstudy.records.schema import Selected
from recstudy.records.study_schema import ClockLine, ConfirmLine, TrialLine

RESULT = {"format": 1, "status": "done", "metrics": {"top1_accuracy": 93, "nll": 0.25, "ece": None}}
PLAN = {
    "study": "s",
    "preset": "p",
    "base": {},
    "variants": [{"label": "a"}],
    "seeds": [0],
    "runs": [[0, 0, "x"]],
    "report": [],
}
TRIAL = {"number": 0, "params": {"model.width": 8}, "variant": {"label": "width=8"}, "seed": 0, "id": "x"}


def test_a_record_is_read_as_it_was_written(tmp_path):
    result = record_of(
        Result,
        RESULT
        | {"selected": {"split": "validation", "epoch": 3, "top1_accuracy": 92.5}, "undefined": ["Hernia"]},
    )
    write_record(tmp_path / "result.json", result)

    assert read_record(tmp_path / "result.json", Result) == result
    assert result.selected == Selected(split="validation", epoch=3, scores={"top1_accuracy": 92.5})
    assert json.loads((tmp_path / "result.json").read_text())["selected"]["top1_accuracy"] == 92.5
    assert [type(value) for value in result.metrics.values()] == [int, float, type(None)]  # 93 stays 93


def test_a_record_that_is_not_there_is_none(tmp_path):
    assert read_record(tmp_path / "result.json", Result) is None
    assert read_log(tmp_path / "epochs.jsonl", EpochLine) == []


def test_fields_of_a_newer_version_are_ignored_and_lines_of_a_search_are_distinguished(tmp_path):
    clock = {"clock": {"session": "s", "h": 1, "gpuh": 0.5}}
    lines = {"rumour": 1}, TRIAL | {"why": "luck"}, {"confirms": 0, "seed": 1, "id": "y"}, clock
    write_whole(tmp_path / "result.json", json.dumps(RESULT | {"carbon": {"kg": 1}}))
    write_whole(tmp_path / "trials.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    assert read_record(tmp_path / "result.json", Result) == record_of(Result, RESULT)
    assert [type(line) for line in read_trials(tmp_path / "trials.jsonl")] == [
        TrialLine,
        ConfirmLine,
        ClockLine,
    ]


def test_newer_format_is_reported_whatever_its_shape(tmp_path):
    write_whole(tmp_path / "result.json", '{"format": 7, "state": "done"}')

    with pytest.raises(
        StorageError, match=r"result\.json was written by a newer recstudy \(format 7\)\. Update this one"
    ):
        read_record(tmp_path / "result.json", Result)


@refused(globals(), "kind content", "a damaged record")
def test_damaged_record_is_reported_in_one_line(tmp_path, kind, content, message):
    write_whole(tmp_path / "file.json", content if isinstance(content, str) else json.dumps(content))

    with pytest.raises(
        StorageError, match=rf"^\S+/file\.json is damaged: {message}.*\. (Remove it and|The next command) run"
    ) as error_info:
        read_record(tmp_path / "file.json", kind)

    assert "\n" not in str(error_info.value)


@pytest.mark.parametrize(
    ("kind", "line", "words"),
    [
        (EpochLine, "{torn", "it is not JSON"),
        (EpochLine, '{"train_loss": 1.5}', "epoch must be a whole number, but it is None"),
        (EpochLine, '{"epoch": "0"}', "epoch must be a number, but it is '0'"),
        (EpochLine, '{"epoch": 0, "train_loss": "low"}', "train_loss must be a number, but it is 'low'"),
        (LossLine, '{"epoch": 0, "first": 1, "every": 1, "losses": [1, "x"]}', r"losses.1 must be a number"),
        (Attempt, '{"started": 3}', "started must be string"),
    ],
)
def test_a_damaged_line_is_named_with_its_number(tmp_path, kind, line, words):
    good = json.dumps(
        {"epoch": 0, "first": 1, "every": 1, "losses": []} if kind is LossLine else {"epoch": 0}
    )
    write_whole(tmp_path / "log", f"{good}\n{line}\n{good}\n")

    with pytest.raises(
        StorageError, match=rf"^line 2 of \S+/log is damaged: {words}.*\. Remove that line\.$"
    ):
        read_log(tmp_path / "log", kind)


@pytest.mark.parametrize("torn", ['{"epoch": 1, "tr', "\x00\x00\x00\n", '{"epoch": \n'])
def test_a_torn_last_line_is_dropped(tmp_path, torn):
    write_whole(tmp_path / "log", '{"epoch": 0, "train_loss": 1.5}\n' + torn)

    assert read_log(tmp_path / "log", EpochLine) == [EpochLine({"epoch": 0, "train_loss": 1.5})]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[]", "it must be an object"),
        (TRIAL | {"number": "0"}, "number must be a whole number"),
        ({"confirms": 0, "seed": 1}, "id is missing"),
        ({"clock": {"session": "s", "h": "1"}}, r"clock.h must be a number"),
    ],
)
def test_a_damaged_line_of_a_search_is_named(tmp_path, line, words):
    write_whole(
        tmp_path / "trials.jsonl",
        f"{line if isinstance(line, str) else json.dumps(line)}\n{json.dumps(TRIAL)}\n",
    )

    with pytest.raises(StorageError, match=rf"^line 1 of \S+/trials\.jsonl is damaged: {words}"):
        read_trials(tmp_path / "trials.jsonl")


def test_a_folder_in_a_records_place_is_named(tmp_path):
    RunFolder(tmp_path).failure.mkdir()

    with pytest.raises(StorageError, match=r"cannot read \S+/failure\.json: it is a folder"):
        read_record(tmp_path / "failure.json", Failure)
