"""Orders to a study that runs: by a real board over HTTP, obeyed by a real driver; and who may give none."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
import tiny
from shell import Shell, until

from recstudy.analysis.status import status
from recstudy.board.server import BoardServer
from recstudy.errors import ConfigError
from recstudy.publishing.publish import publish
from recstudy.records import Results
from recstudy.records.files import read_lines
from recstudy.records.orders import Orders, give, given
from recstudy.study.plan import record_plan
from recstudy.study.study import make_plan
from recstudy.testing import make_trial, tiny_run, write_study
from recstudy.train.trial import run_trial
from recstudy.train.work import AT_ONCE

TOKEN = "a-token-of-enough-characters"
JSON = {"Content-Type": "application/json"}


class Board:
    """One that listens, and a browser's way to it."""

    def __init__(self, url: str) -> None:
        self.host = url.removeprefix("http://")
        self.cookie = self.ask("GET", f"/?token={TOKEN}")[1].partition(";")[0]

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, str, str]:
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        found = answer.status, answer.getheader("Set-Cookie", ""), answer.read().decode()
        connection.close()
        return found

    def order(self, order: str, run: str = "", code: int = 200, study: str = "tiny", **headers: str) -> str:
        """What is said of an order, as the board's own page gives it."""
        body = json.dumps({"study": study, "preset": "quick", "order": order, "run": run, "by": "Ada"}).encode()
        known = {"Origin": f"http://{self.host}", "Cookie": self.cookie, **JSON, **headers}
        status, _, said = self.ask("POST", "/order", body, **{name: value for name, value in known.items() if value})
        assert status == code, said
        return said


@contextmanager
def board_of(root: Path, control: bool = True) -> Iterator[Board]:
    server = BoardServer(root, "127.0.0.1", 0, TOKEN, control=control)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield Board(server.url)
    finally:
        server.stop()
        thread.join()


def lines_in(shell: Shell, run: str) -> int:
    return len(shell.lines().get(run, ()))


@pytest.mark.whole
@pytest.mark.parametrize("how", [("--no-ray",), ()], ids=["without ray", "ray"])
def test_a_study_under_way_is_paused_resumed_stopped_and_tried_again_from_the_board(shell, how):
    with shell.start("--only", "latent_steps=1*", "--set", "train.epochs=9000", *how) as driver:
        first = until(lambda: [run for run in shell.lines() if lines_in(shell, run) > 3], "epochs")[0]
        with board_of(shell.results) as board:
            board.order("pause")
            left = until(lambda: read_lines(shell.results / "runs" / first / "attempts.jsonl")[1:], "a run that has left")
            ordered = given(shell.results / "studies/tiny/quick")[0].date
            assert (datetime.fromisoformat(left[0]["ended"]) - datetime.fromisoformat(ordered)).total_seconds() <= 8
            until(lambda: all(len(lines) % 2 == 0 for lines in shell.lines("attempts.jsonl").values()), "all runs that left")
            before = lines_in(shell, first)

            board.order("resume")
            until(lambda: lines_in(shell, first) > before, "epochs after those")
            folder = Results(shell.results).run(first)
            board.order("stop", first)
            until(folder.stopped.exists, "a run that is stopped")
            second = until(lambda: [run for run in shell.lines("attempts.jsonl") if run != first], "another run")[0]
            board.order("retry", first)
            board.order("stop", second)
            until(lambda: not folder.stopped.exists(), "the run that is tried again")
            assert board.order("retry", "0" * 20, code=409).count("has no run")

            board.order("stop")
            output, errors = driver.communicate(timeout=300)

    assert driver.returncode == 1, output + errors
    assert output.count("Ordered at ") == 6
    assert "pause the study, by Ada (127.0.0.1)" in output
    assert "Report: " in output
    assert not shell.records()
    (row,) = status(Results(shell.results))
    assert row.orders[0].endswith("stop the study, by Ada (127.0.0.1)")


@pytest.fixture
def planned(results: Results) -> Results:
    """The tiny study, of which no run was begun."""
    record_plan(make_plan(tiny.study), results, Path("data"))
    return results


def test_who_has_no_token_or_comes_from_elsewhere_orders_nothing(planned):
    with board_of(planned.root) as board, planned.holding("tiny", "quick"):
        board.order("stop", code=403, Cookie="")
        board.order("stop", code=403, Origin="")
        for origin in ("http://evil.example", "null", "http://127.0.0.1:1", f"http://{board.host}.evil.example"):
            board.order("stop", code=403, Origin=origin)
        board.order("stop", code=403, **{"Content-Type": "text/plain"})  # what a form of another site can send
        for study in ("../tiny", "tiny/../tiny", "other"):
            assert "no such study" in board.order("stop", code=409, study=study)
        board.order("explode", code=400)
        assert given(planned.study("tiny", "quick")) == []

        board.order("stop")
    assert [line.order for line in given(planned.study("tiny", "quick"))] == ["stop"]


def test_a_board_without_control_takes_no_orders(planned):
    with board_of(planned.root, control=False) as board, planned.holding("tiny", "quick"):
        board.order("stop", code=405)


def test_control_needs_a_token_and_a_folder(planned, tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "scratch"))
    with pytest.raises(ConfigError, match=r"^--control lets readers stop runs: give a --token"):
        BoardServer(planned.root, "127.0.0.1", 0, control=True)
    with pytest.raises(ConfigError, match=r"^--control needs a results folder: a driver looks for orders in no object store"):
        BoardServer(f"local://{tmp_path}/store", "127.0.0.1", 0, TOKEN, control=True)


def test_nothing_is_ordered_of_a_study_that_is_not_being_run(planned):
    with pytest.raises(ConfigError, match=r"^tiny \(quick\) is not being run: nobody would obey. Its command, as recorded: "):
        give(planned, "tiny", "quick", "pause")
    with planned.holding("tiny", "quick"), pytest.raises(ConfigError, match="retry is ordered of a run of a study"):
        give(planned, "tiny", "quick", "retry")


def test_a_driver_hears_what_is_ordered_after_it_began_and_passes_over_what_is_damaged(planned, monkeypatch):
    monkeypatch.setattr("recstudy.records.orders.POLL_S", 0.0)
    folder, run = planned.study("tiny", "quick"), make_plan(tiny.study).runs[0].id
    with planned.holding("tiny", "quick"):
        give(planned, "tiny", "quick", "stop")
        orders = Orders(folder)
        assert orders.poll() == []
        give(planned, "tiny", "quick", "pause", run, "Ada\x1b[2J")
        with open(folder / "orders.jsonl", "a") as log:
            log.write('{"date": 5}\n{"date": "now", "order": "explode"}\n')
        give(planned, "tiny", "quick", "pause")

        heard = orders.poll()
        assert [(line.order, line.run, line.by) for line in heard] == [("pause", run, "Ada[2J"), ("pause", "", "")]
        assert (orders.of(run), orders.of("other"), orders.stopped) == ("pause", "pause", False)
        give(planned, "tiny", "quick", "resume")
        give(planned, "tiny", "quick", "stop", run)
        orders.poll()
        assert (orders.of(run), orders.of("other")) == ("stop", "")


def test_a_run_that_is_to_leave_at_once_leaves_within_its_epoch_and_ends_as_one_that_never_did(tmp_path):
    """The same numbers, bit for bit: it goes on from the checkpoint before."""
    config, done = tiny_run(epochs=4).with_changes({"place.checkpoint_seconds": 0}), []
    whole, left = (make_trial(tmp_path / name, config) for name in ("whole", "left"))
    run_trial(whole, lambda line: None)
    asked = iter(range(10**6))

    assert run_trial(left, done.append, lambda: AT_ONCE if next(asked) == 5 else False) == {"status": "drained", "score": None}
    assert 0 < len(done) < 4
    run_trial(left, done.append)

    results = [json.loads((Path(one.folder) / "result.json").read_text()) for one in (whole, left)]
    assert results[0]["metrics"] == results[1]["metrics"]
    assert results[1]["attempts"] == 1


def test_who_ordered_what_is_not_published(tmp_path):
    results = write_study(tmp_path / "r", score=lambda run: 90.0)
    with results.holding("tiny", "quick"):
        give(results, "tiny", "quick", "pause", by="Ada (10.0.0.7)")
    publish(results, "tiny", "quick", tmp_path / "bundle")

    assert not list((tmp_path / "bundle").rglob("orders.jsonl"))
