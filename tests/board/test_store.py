"""A board on results in an object store: a real server of Amazon's protocol, written to as studies do."""

import time

from boards import uploaded
from made_up import as_result, result, run_id, write_study

from recstudy.board import server
from recstudy.board.folder import ResultsFolder
from recstudy.board.server import make_app
from recstudy.records import Results

NEW = run_id(3, 1)


def refuse(results: Results) -> None:
    raise OSError("the store does not answer")


def test_a_folder_that_can_be_read_again_has_no_problem(tmp_path, monkeypatch):
    for name in ("POLL_S", "REST"):
        monkeypatch.setattr(server, name, 0.0)
    client = make_app(write_study(tmp_path / "results")).test_client()
    pages = [client.get("/").text]
    with monkeypatch.context() as patched:
        patched.setattr(ResultsFolder, "poll", refuse)
        pages.append(client.get("/").text)
    pages.append(client.get("/").text)

    assert ["The folder cannot be read: the store" in page for page in pages] == [False, True, False]


def test_results_are_fetched_for_a_page_and_a_store_that_is_gone_costs_no_page(
    object_store, tmp_path, monkeypatch
):
    for name in ("FETCH_S", "POLL_S", "REST"):
        monkeypatch.setattr(server, name, 0.0)
    writer = uploaded(object_store.uri(f"board-{time.time_ns()}"), tmp_path, monkeypatch)
    monkeypatch.setenv("RECSTUDY_SCRATCH", str(tmp_path / "reader"))
    client = make_app(Results(writer.store).pull()).test_client()
    study = "/study/made_up/paper"

    old_page, fine = client.get(study).text, client.get("/").text
    with writer.changing(writer.run(NEW).result):
        writer.run(NEW).finish(as_result(result(71.23, "ViT-Small")))
    new_page = client.get(study).text
    with monkeypatch.context() as patched:
        patched.setattr(Results, "pull", refuse)
        refused, served_page = client.get("/").text, client.get(study).text

    assert ("71.2" in old_page, "71.2" in new_page) == (False, True)
    problem = "The store cannot be read, so these results may be old: the store does not answer"
    assert [problem in page for page in (fine, refused, client.get("/").text)] == [False, True, False]
    assert "71.2" in served_page
