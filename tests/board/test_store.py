"""Results on an object store: a real server of Amazon's protocol, written to as studies do."""

import time
from pathlib import Path

import pytest
from boards import uploaded
from made_up import as_result, result, run_id
from objects import ObjectStore, serving

from recstudy.board.markup import Address
from recstudy.board.overview import overview
from recstudy.board.poller import ResultsPoller, StoreFollower
from recstudy.board.sources import Sources
from recstudy.records import Results

NEW = run_id(3, 1)


@pytest.fixture
def writer(object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Results:
    """The made-up study on a store, as the machine has it that writes it; this one has nothing of it yet."""
    written = uploaded(object_store.uri(f"board-{time.time_ns()}"), tmp_path, monkeypatch)
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "reader"))
    return written


def test_what_comes_to_the_store_is_fetched_while_somebody_looks(writer, monkeypatch):
    monkeypatch.setattr("recstudy.board.poller.FETCH_S", 0.1)
    looks: list[bool] = []
    follower = StoreFollower(Results(writer.store), lambda: bool(looks))
    poller = ResultsPoller(follower.results.root)
    follower.start()
    try:
        with writer.changing(writer.run(NEW).result):
            writer.run(NEW).finish(as_result(result(97.77)))
        time.sleep(1)
        poller.poll()
        unseen = poller.outcome(NEW).status
        looks.append(True)
        end = time.monotonic() + 30
        while poller.outcome(NEW).value("top1_accuracy") != 97.77 and time.monotonic() < end:
            time.sleep(0.1)
            poller.poll()
    finally:
        follower.stop()

    assert poller.outcome(run_id(0, 0)).value("top1_accuracy") == 93.0
    assert unseen == "not run"
    assert poller.outcome(NEW).value("top1_accuracy") == 97.77


@pytest.mark.fault  # a store is given 40 s to come back
def test_a_store_that_is_gone_costs_no_board(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr("recstudy.board.poller.FETCH_S", 0.1)
    with serving() as store:
        follower = StoreFollower(Results(uploaded(store.uri("board"), tmp_path, monkeypatch).store), lambda: True)
    follower.start()
    end = time.monotonic() + 120
    while "cannot fetch" not in caplog.text and time.monotonic() < end:
        time.sleep(0.1)
    follower.stop()
    poller = ResultsPoller(follower.results.root)
    poller.poll()
    head = overview(Sources(poller, store=follower), Address()).recipes[0].part().body

    assert "This is older than the store, which cannot be read" in head
    assert poller.outcome(run_id(0, 0)).value("top1_accuracy") == 93.0
