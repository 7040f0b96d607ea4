"""Boards over made-up records."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path

import pytest
from made_up import write_study

from recstudy.board.folder import ResultsFolder
from recstudy.board.server import BoardServer, make_app
from recstudy.records import Results

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><b>bold</b> & 'quotes'"


def uploaded(uri: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    """The made-up study on a store, as a machine has it that keeps its copies in `folder`."""
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(folder / "writer"))
    results = Results(uri).create()
    write_study(results.root)
    results.send(results.root / "runs", results.root / "studies")
    return results


def poll_folder(root: Path, trust: bool = False) -> ResultsFolder:
    """The folder, polled once."""
    folder = ResultsFolder(Results(root), trust)
    folder.poll()
    return folder


def page(root: Path, address: str, status: int = 200) -> str:
    """The HTML of a page."""
    answer = make_app(Results(root)).test_client().get(address)
    assert answer.status_code == status, answer.text
    return answer.text


def sections(html: str) -> dict[str, str]:
    """The HTML of a page's header and sections by their headings, without findings."""
    contents = {"head": re.search(r"<header>(.*?)</header>", html, re.S)[1]}
    for content in re.findall(r"<section[^>]*>(.*?)</section>", html, re.S):
        title = re.search(r"<h2[^>]*>([^:<]*)", content)
        contents[unescape(title[1]) if title else ""] = content
    return contents


def words(html: str) -> str:
    """The text of HTML."""
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


@contextmanager
def serving(root: Path | str, token: str = "", port: int = 0) -> Iterator[str]:
    """A board on this port, or on a free one; gives its address."""
    board = BoardServer(root, "127.0.0.1", port, token)
    thread = threading.Thread(target=board.run)
    thread.start()
    try:
        yield board.url
    finally:
        board.stop()
        thread.join()
