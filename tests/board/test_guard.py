"""The board over HTTP: who may read it, and what its pages may load."""

import gzip
import http.client
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing

import pytest
from boards import serving
from plotly.offline import get_plotlyjs

from recstudy.base.errors import ConfigError
from recstudy.board.guard import check, is_local
from recstudy.board.server import BoardServer
from recstudy.cli import main

TOKEN = "a-token-of-enough-characters"


def ask(url: str, path: str = "/", **headers: str) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of an answer; a redirection is not followed."""
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=600)) as connection:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


@pytest.fixture
def url(results) -> Iterator[str]:
    """The address of a board without a token."""
    with serving(results.root) as url:
        yield url


def test_the_board_answers_to_this_machines_names_alone(url):
    for host in ("127.0.0.1", "localhost:9999", "[::1]:80"):
        assert ask(url, Host=host)[0] == 200, host
    for host in ("evil.example:8050", "127.0.0.1.evil.example", "10.0.0.1"):
        for path in ("/", "/_board/board.js", "/run/x"):
            assert ask(url, path, Host=host)[0] == 403, (host, path)


def test_every_page_needs_the_token_and_the_token_leaves_the_address(results):
    with serving(results.root, TOKEN) as url:
        status, headers, _ = ask(url, f"/study/made_up/paper?token={TOKEN}&runs=2")
        name, _, value = headers["Set-Cookie"].partition(";")[0].partition("=")
        paths = ("/", "/_board/plotly.js", "/run/x", "/?token=a-token-of-enough-characterz")
        refused = [ask(url, path) for path in paths]
        statuses = [ask(url, Cookie=f"{name}={cookie}")[0] for cookie in (value, TOKEN)]

    assert (status, headers["Location"]) == (303, "/study/made_up/paper?runs=2")
    assert "HttpOnly" in headers["Set-Cookie"]
    assert "SameSite=Lax" in headers["Set-Cookie"]
    assert TOKEN not in headers["Set-Cookie"]
    assert [(answer[0], "made_up" in answer[2]) for answer in refused] == [(403, False)] * len(paths)
    assert statuses == [200, 403]


def test_a_page_may_load_from_the_board_alone_and_the_drawing_library_once(url):
    headers, packed = (
        ask(url)[1],
        urllib.request.Request(f"{url}/static/plotly.js", headers={"Accept-Encoding": "gzip"}),
    )

    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "'unsafe-inline'" not in policy.partition("script-src")[2].partition(";")[0]
    assert headers["X-Content-Type-Options"] == "nosniff"
    with urllib.request.urlopen(packed) as answer:
        assert gzip.decompress(answer.read()).decode() == get_plotlyjs()
        assert answer.headers["ETag"]


def test_board_serves_no_file_of_the_machine(url):
    for path in ("/assets/app.py", "/static/..%2fguard.py", "/static/../../etc/passwd"):
        status, _, body = ask(url, path)
        assert status == 404 or "Nothing to show" in body, path
        assert "root:" not in body


def test_an_address_may_have_any_number_of_fields(url, caplog):
    address_with_fields = "/?" + "&".join(f"field{number}={number}" for number in range(50))

    assert "recstudy board" in ask(url, address_with_fields)[2]
    assert not caplog.records


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.1.2.3", "board.example"])
def test_a_public_address_wants_a_token(host):
    assert not is_local(host)
    with pytest.raises(ConfigError, match=r"lets others read the results. Give a --token"):
        check(host, "")


def test_a_short_token_and_a_link_that_is_no_address_are_refused(results):
    with pytest.raises(ConfigError, match=r"needs at least 16 characters, but has 15"):
        check("0.0.0.0", TOKEN[:15])
    check("0.0.0.0", TOKEN[:16])
    with pytest.raises(ConfigError, match=r"--link x=javascript:1 must be NAME=http"):
        BoardServer(results.root, "127.0.0.1", 0, links={"x": "javascript:1"})


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from recstudy.cli import main; main()", "board", *arguments],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_says_where_it_listens_and_ends_quietly(results, number):
    times = {path: path.stat().st_mtime_ns for path in results.root.rglob("*.*")}
    with start(str(results.root), "--port", "0") as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        status = ask(url)[0]
        process.send_signal(number)
        try:
            _, errors = process.communicate(timeout=600)
        finally:
            process.kill()

    assert (status, process.returncode, errors) == (200, 0, "")
    new_times = {path: path.stat().st_mtime_ns for path in results.root.rglob("*.*")}
    assert {path.name for path, time in new_times.items() if times.get(path) != time} == {"looks.jsonl"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["results/runs"], "is no results folder (recstudy.json is missing)"),
        (["nowhere://bucket/results"], "unsupported URI scheme 'nowhere'"),
        (["results", "--host", "192.0.2.1", "--token", TOKEN], "cannot listen on 192.0.2.1, port 8050"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(results, tmp_path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        main(["board", *arguments])
    output, errors = capsys.readouterr()

    assert (output, errors.count("\n")) == ("", 1)
    assert words in errors
