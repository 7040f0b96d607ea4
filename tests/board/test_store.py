"""Results on an object store: a real server of Amazon's protocol, written to as studies do."""

import time
from threading import Event

from boards import uploaded
from made_up import as_result, result, run_id

from recstudy.board.markup import Address
from recstudy.board.overview import overview
from recstudy.board.poller import ResultsPoller, StoreFollower
from recstudy.board.sources import Sources
from recstudy.records import Results

NEW = run_id(3, 1)


def test_new_results_are_fetched_while_somebody_looks_and_a_store_that_is_gone_costs_no_board(
    object_store, tmp_path, monkeypatch
):
    monkeypatch.setattr("recstudy.board.poller.FETCH_S", 0.1)
    writer = uploaded(object_store.uri(f"board-{time.time_ns()}"), tmp_path, monkeypatch)
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "reader"))
    looks, questions, refused = Event(), Event(), Event()
    follower = StoreFollower(Results(writer.store), lambda: questions.set() or looks.is_set())
    poller = ResultsPoller(follower.results.root)
    sources = Sources(poller, store=follower)

    def look() -> object:
        poller.poll()
        return poller.outcome(NEW).value("top1_accuracy")

    def refuse() -> None:
        if follower.problem:
            refused.set()
        raise OSError("the store does not answer")

    follower.start()
    try:
        with writer.changing(writer.run(NEW).result):
            writer.run(NEW).finish(as_result(result(97.77)))
        for _ in range(2):  # a fetch would have come in between
            questions.clear()
            questions.wait()
        assert look() is None
        assert poller.outcome(run_id(0, 0)).value("top1_accuracy") == 93.0
        looks.set()
        while look() is None:
            time.sleep(0.1)
        assert look() == 97.77
        monkeypatch.setattr(follower.results, "pull", refuse)
        refused.wait()
        head = overview(sources, Address()).recipes[0].part().body
        assert "This is older than the store, which cannot be read: the store does not answer" in head
        assert look() == 97.77
    finally:
        follower.stop()
