"""What a webhook is told, by a real server, and what is mailed, by a real program; a study that nobody can be told of goes on."""

import email
import io
import json
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from email import policy
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import tiny
from rich.console import Console

from recstudy.cli import _watched
from recstudy.cluster.view import View
from recstudy.errors import ConfigError
from recstudy.options import StudyOptions
from recstudy.records import RunFolder
from recstudy.study.notices import MOST, Notices
from recstudy.study.study import make_plan
from recstudy.testing import make_trial, tiny_run
from recstudy.train.trial import run_trial

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
    with pytest.raises(
        ConfigError, match=r"^--notify must be the address of a webhook, http://... or https://..., or mail:ADDRESS$"
    ):
        Notices(url)


def test_a_run_that_hung_is_told_with_why(hook, said, tmp_path):
    """As its next attempt finds it: the watchdog has ended the one before, and left where it was."""
    work = make_trial(tmp_path, tiny_run())
    folder = RunFolder(Path(work.folder))
    folder.hang_log(0).write_text("Thread 0x1 (most recent call first): forward")
    with _watched(PLAN, StudyOptions(notify=hook.url)) as view:
        view.planned(RUNS[:1], RUNS[:1])
        view.started(RUNS[0])
        view.ended(RUNS[0], run_trial(work, lambda line: None))

    hung, _ = hook.told
    assert hung["event"] == "run failed"
    assert hung["error"] == "no sign of life for 30 minutes (place.silent_minutes); it was stopped"


@pytest.fixture
def sendmail(tmp_path, monkeypatch) -> Path:
    """The folder of a program of that name, which keeps what it is given."""
    program = tmp_path / "bin" / "sendmail"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nn=$(ls "{tmp_path}" | wc -l)\necho "$@" > "{tmp_path}/mail-$n"\ncat >> "{tmp_path}/mail-$n"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return tmp_path


def mails(folder: Path) -> list[tuple[str, email.message.EmailMessage]]:
    """The arguments and the letter of each mail, in their order."""
    kept = [file.read_text().partition("\n") for file in sorted(folder.glob("mail-*"))]
    return [(arguments, email.message_from_string(letter, policy=policy.default)) for arguments, _, letter in kept]


def test_what_a_webhook_is_told_is_mailed_too(sendmail, said, monkeypatch):
    monkeypatch.setattr("sys.argv", ["study.py", "--notify", "mail:ada@example.org"])
    with _watched(PLAN, StudyOptions(notify="mail:ada@example.org")) as view:
        work(view)
    failed, diverged, ended = mails(sendmail)

    assert [arguments for arguments, _ in (failed, diverged, ended)] == ["-i -- ada@example.org"] * 3
    letter = failed[1]
    assert (letter["To"], letter["Subject"]) == ("ada@example.org", "recstudy: tiny (quick): run failed")
    text = letter.get_content()
    assert f"{RUNS[1].label}, seed {RUNS[1].seed} failed: ValueError: no (1 done, 1 failed" in text
    assert "python study.py" in text
    assert "diverged" in diverged[1]["Subject"]
    assert ended[1]["Subject"].endswith("study ended")
    assert said.getvalue().count("--notify") == 0


def test_a_mailer_that_fails_is_one_line(sendmail, said):
    (sendmail / "bin" / "sendmail").write_text("#!/bin/sh\necho 'no route to host' >&2\nexit 75\n")
    with _watched(PLAN, StudyOptions(notify="mail:ada@example.org")) as view:
        work(view)
    (line,) = [line for line in said.getvalue().splitlines() if line.startswith("--notify")]

    assert line.startswith("--notify: ada@example.org could not be told, and the study goes on: ")
    assert line.endswith("sendmail ended with 75: no route to host")


def test_mail_without_a_mailer_and_to_no_address_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("recstudy.study.notices.BESIDE", (str(tmp_path),))
    with pytest.raises(
        ConfigError, match=r"^--notify mail:ada@example.org needs the program sendmail, which is neither on PATH nor"
    ):
        Notices("mail:ada@example.org")
    for address in ("ada", "ada@x -oQ/tmp", "-bs@example.org", "a@b@c", "ada@example.org\nBcc: eve@example.org", ""):
        with pytest.raises(ConfigError, match=r"^--notify mail:ADDRESS wants one address, such as mail:ada@example.org, but got"):
            Notices(f"mail:{address}")
