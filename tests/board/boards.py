"""Boards over made-up records."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "report"))  # made_up

import pytest
from made_up import write_study

from recstudy.board.poller import ResultsPoller
from recstudy.board.server import BoardServer
from recstudy.board.sources import Sources
from recstudy.records import Results

HOSTILE = "<img src=x onerror=\"document.title='taken'\"><b>bold</b> & 'quotes'"


def uploaded(uri: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    """The made-up study on a store, as a machine has it that keeps its copies in `folder`."""
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(folder / "writer"))
    results = Results(uri).create()
    write_study(results.root)
    results.send(results.root / "runs", results.root / "studies")
    return results


def looked(root: Path, trust: bool = False) -> Sources:
    poller = ResultsPoller(root)
    poller.poll()
    return Sources(poller, trust=trust)


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
