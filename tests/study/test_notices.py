"""What a webhook is told, by a real server; and a study that nobody can be told of goes on."""

import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import tiny
from rich.console import Console

from recstudy.cli import _watched
from recstudy.cluster.view import View
from recstudy.errors import ConfigError
from recstudy.options import StudyOptions
from recstudy.study.notices import MOST, Notices
from recstudy.study.study import make_plan

PLAN = make_plan(tiny.study)
RUNS = PLAN.runs


class Hook(HTTPServer):
    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.status = 200
        super().__init__(("127.0.0.1", 0), Told)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/SECRET"


class Told(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        self.server.told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def said(monkeypatch) -> io.StringIO:
    """What the terminal shows."""
    text = io.StringIO()
    monkeypatch.setattr("recstudy.cli.console", lambda: Console(file=text, width=400))
    return text


def work(view: View) -> None:
    """Three runs: one is done, one fails and one diverges."""
    view.planned(RUNS[:3], RUNS[:3])
    outcomes = [{"status": "done", "score": 50.0}, {"status": "failed", "error": "ValueError: no"}, {"status": "diverged"}]
    for run, outcome in zip(RUNS[:3], outcomes, strict=True):
        view.started(run)
        view.ended(run, outcome)


def test_a_failure_and_the_end_are_told(hook, said, monkeypatch):
    monkeypatch.setattr("sys.argv", ["study.py", "--notify", hook.url])
    with _watched(PLAN, StudyOptions(notify=hook.url)) as view:
        work(view)

    failed, diverged, ended = hook.told
    assert failed == {
        "study": "tiny",
        "preset": "quick",
        "command": "python study.py",
        "event": "run failed",
        "counts": {"done": 1, "failed": 1, "running": 0, "left": 1},
        "run": {"id": RUNS[1].id, "label": RUNS[1].label, "seed": RUNS[1].seed},
        "error": "ValueError: no",
        "text": f"tiny (quick): {RUNS[1].label}, seed {RUNS[1].seed} failed: ValueError: no (1 done, 1 failed, 0 running, 1 left)",
    }
    assert diverged["event"] == "run diverged"
    assert (ended["event"], ended["counts"]) == ("study ended", {"done": 2, "failed": 1, "running": 0, "left": 0})
    assert ended["text"] == "tiny (quick): ended (2 done, 1 failed, 0 running, 0 left)"
    assert "SECRET" not in json.dumps(hook.told) + said.getvalue()


def test_a_study_that_is_stopped_is_told_too(hook, said, monkeypatch):
    monkeypatch.setenv("RECSTUDY_NOTIFY", hook.url)
    with suppress(KeyboardInterrupt), _watched(PLAN, StudyOptions()):
        raise KeyboardInterrupt

    assert [(one["event"], one["error"]) for one in hook.told] == [("study stopped", "KeyboardInterrupt")]


def test_an_address_that_cannot_be_told_is_one_line_without_its_secret(hook, said):
    hook.status = 404
    with _watched(PLAN, StudyOptions(notify=hook.url)) as view:
        work(view)
    warnings = [line for line in said.getvalue().splitlines() if line.startswith("--notify")]

    assert warnings == ["--notify: 127.0.0.1 could not be told, and the study goes on: HTTP Error 404: Not Found"]
    assert len(hook.told) == 3


def test_nobody_at_the_address_holds_nothing_up(said):
    began = time.monotonic()
    with _watched(PLAN, StudyOptions(notify="http://127.0.0.1:9/SECRET")) as view:
        work(view)

    assert time.monotonic() - began < 10
    assert said.getvalue().count("--notify: 127.0.0.1 could not be told") == 1
    assert "SECRET" not in said.getvalue()


def test_of_many_failures_the_first_are_told(hook):
    notices = Notices(hook.url)
    for _ in range(3 * MOST):
        notices.run_ended(RUNS[0], "failed", {"failed": 1})
    notices.close()

    assert len(hook.told) == MOST


@pytest.mark.parametrize(
    "url", ["hooks.example/x", "ftp://h/x", "http://", "https://h:x/y", "http://h/a b", "file:///etc/passwd"]
)
def test_what_is_no_address_is_refused_and_not_repeated(url):
    with pytest.raises(ConfigError, match=r"^--notify must be the address of a webhook: http://... or https://...$"):
        Notices(url)
