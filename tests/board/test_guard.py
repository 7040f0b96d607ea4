"""The board over HTTP: who may read it, and what its pages may load."""

import gzip
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from boards import serving

from recstudy.board.guard import check, is_local
from recstudy.board.server import PLOTLY, BoardServer
from recstudy.errors import ConfigError

TOKEN = "a-token-of-enough-characters"


def ask(url: str, path: str = "/", body: object = None, **headers: str) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of an answer to a GET, or to a POST of this body; a redirection is not followed."""
    host, _, port = url.removeprefix("http://").partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=60)
    try:
        if body is None:
            connection.request("GET", path, headers=headers)
        else:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.request("POST", path, content, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


@pytest.fixture
def url(results) -> Iterator[str]:
    """A board's, which asks for no token."""
    with serving(results.root) as url:
        yield url


def test_the_board_answers_to_this_machines_names_alone(url):
    for host in ("127.0.0.1", "localhost", "localhost:9999", "[::1]:80"):
        assert ask(url, Host=host)[0] == 200, host
    for host in ("evil.example", "evil.example:8050", "127.0.0.1.evil.example", "10.0.0.1"):
        for path in ("/", "/_dash-layout", "/_board/board.js", "/_dash-update-component"):
            assert ask(url, path, Host=host)[0] == 403, (host, path)


def test_the_token_is_asked_for_once_and_leaves_the_address_of(results):
    with serving(results.root, TOKEN) as url:
        refused = ask(url)
        wrong = ask(url, "/?token=a-token-of-enough-characterz")
        given = ask(url, f"/study/made_up/paper?token={TOKEN}&runs=2")
        cookie = given[1]["Set-Cookie"]
        after = ask(url, Cookie=cookie.partition(";")[0])
        guessed = ask(url, Cookie=cookie.partition("=")[0] + "=" + TOKEN)

    assert [answer[0] for answer in (refused, wrong, given, after, guessed)] == [403, 403, 303, 200, 403]
    assert given[1]["Location"] == "/study/made_up/paper?runs=2"
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert TOKEN not in cookie


def test_nothing_is_given_without_the_token(results):
    with serving(results.root, TOKEN) as url:
        for path in ("/_dash-layout", "/_dash-dependencies", "/_board/plotly.js", "/run/x"):
            status, _, body = ask(url, path)
            assert (status, "made_up" in body) == (403, False), path


def test_a_page_may_load_from_the_board_alone(url):
    headers = ask(url)[1]

    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_the_drawing_library_is_packed_and_asked_for_once(url):
    with urllib.request.urlopen(f"{url}/_board/{PLOTLY}") as plain:
        asked = urllib.request.Request(f"{url}/_board/{PLOTLY}", headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(asked) as packed:
            whole, sent = plain.read(), packed.read()

    assert gzip.decompress(sent) == whole
    assert len(sent) < len(whole) / 2
    assert "immutable" in packed.headers["Cache-Control"]


def test_no_file_of_the_machine_is_served(url):
    for path in ("/assets/app.py", "/static/x", "/_board/..%2fguard.py", "/_board/../../etc/passwd"):
        status, _, body = ask(url, path)
        assert status == 404 or "_dash-config" in body, path  # else the page itself, which says that there is no such page
        assert "root:" not in body


def question(search: str = "", have: object = None, **changes: object) -> dict[str, object]:
    """What the script of a page posts."""
    update, kept = {"id": "update", "property": "data"}, {"id": "have", "property": "data"}
    at = [{"id": "at", "property": "pathname", "value": "/"}, {"id": "at", "property": "search", "value": search}]
    return {
        "output": "..update.data...have.data..",
        "outputs": [update, kept],
        "inputs": [*at, {"id": "tick", "property": "n_intervals", "value": 0}],
        "changedPropIds": ["tick.n_intervals"],
        "state": [{**kept, "value": {} if have is None else have}],
        **changes,
    }


MALFORMED = [
    b"", b"{", b"\xff", b"[" * 100_000, b"null", [], 5, {}, question(output="x.y"), question(outputs=5), question(inputs=[]),
    question(inputs=None), question(search=["x"]), question(state=[]), question(have=[]), question(have={"parts": 5}),
    question(have={"at": 5}), question(changedPropIds=5),
]  # fmt: skip


def test_what_no_page_asks_is_refused_without_a_traceback(url, caplog):
    answers = [ask(url, "/_dash-update-component", body)[0] for body in MALFORMED]
    whole = ask(url, "/_dash-update-component", question())[0]
    file = ask(url, "/_dash-component-suites/x/y.js")[0]

    assert answers == [400] * len(MALFORMED)
    assert (whole, file) == (200, 404)
    assert not caplog.records


def test_an_address_may_have_any_number_of_fields(url):
    many = "?" + "&".join(f"field{number}={number}" for number in range(50))
    status, _, body = ask(url, "/_dash-update-component", question(many))

    assert status == 200
    assert "recstudy board" in body


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.1.2.3", "board.example", "192.168.0.1"])
def test_a_public_address_wants_a_token(host):
    assert not is_local(host)
    with pytest.raises(ConfigError, match=r"lets others read the results: give a --token"):
        check(host, "")


def test_a_short_token_and_a_link_that_is_no_address_are_refused(results):
    with pytest.raises(ConfigError, match=r"needs 16 characters or more, but has 5"):
        check("0.0.0.0", "12345")
    with pytest.raises(ConfigError, match=r"--link x=javascript:1 must be NAME=http"):
        BoardServer(results.root, "127.0.0.1", 0, links={"x": "javascript:1"})


def start(*arguments: str, before: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, "-c", f"{before}from recstudy.command import main; main()", "board", *arguments]
    return subprocess.Popen(
        command,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job ignores Ctrl-C
    )


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_the_command_says_where_it_listens_and_ends_quietly(results, sent):
    before = {path: path.stat().st_mtime_ns for path in results.root.rglob("*")}
    with start(str(results.root), "--port", "0") as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        status = ask(url)[0]
        process.send_signal(sent)
        _, errors = process.communicate(timeout=60)

    assert (status, process.returncode, errors) == (200, 0, "")
    assert before == {path: path.stat().st_mtime_ns for path in results.root.rglob("*")}  # nothing was written


HANGS = """
import threading, time
from recstudy.board.poller import ResultsPoller

def hang(poller):  # as on a file server that is gone, or in a study's own module, which may begin what it likes
    threading.Thread(target=time.sleep, args=[3600]).start()
    time.sleep(3600)

ResultsPoller.poll = hang
"""


def test_a_renderer_that_hangs_ends_with_the_board(results):
    with start(str(results.root), "--port", "0", before=HANGS) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        status, began = ask(url)[0], time.monotonic()
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=20)
        finally:
            process.kill()

    assert (status, process.returncode) == (200, 0)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["FOLDER", "--host", "0.0.0.0"], "lets others read the results"),
        (["FOLDER/runs"], "is no results folder (recstudy.json is missing)"),
        (["nowhere://bucket/results"], "unsupported URI scheme 'nowhere'"),
        (["FOLDER", "--host", "192.0.2.1", "--token", TOKEN], "cannot listen on 192.0.2.1, port 8050"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(results: object, tmp_path: Path, arguments, said):
    with start(*(word.replace("FOLDER", str(tmp_path / "results")) for word in arguments)) as process:
        output, errors = process.communicate(timeout=60)

    assert process.returncode == 2
    assert (output, errors.count("\n")) == ("", 1)
    assert said in errors
