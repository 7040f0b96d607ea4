"""Pages of studies of a user's own programs, two of which have a metric of one name."""

import json

import pytest
from boards import page, poll_folder, sections, words
from own_study import run_study, silent

from recstudy.board.progress import progress_words, seconds_spent
from recstudy.board.server import make_app
from recstudy.records import Attempt, Failure, Results, locked


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    root = tmp_path_factory.mktemp("own") / "results"
    run_study(root, "share", silent)
    return run_study(root)


def test_pages_are_read_with_the_metrics_of_their_study(results):
    client = make_app(results).test_client()
    addresses = [
        f"/{kind}/{name}/default" for kind in ("study", "runs") for name in ("depth", "share", "depth")
    ]

    assert ["Accuracy (%)" in client.get(address).text for address in addresses] == [True, False, True] * 2
    index = client.get("/").text
    assert "Best: by accuracy, depth 4 92.1 [" in index
    assert "Best: by accuracy, depth 4 0.9210 [" in index


def test_a_run_is_described_in_the_words_of_its_program(results):
    row = poll_folder(results.root).studies["depth", "default"].records.rows[0]
    html = page(results.root, f"/run/{row.id}")

    assert words(sections(html)["Last epochs"]).startswith(
        "Last epochs step loss Accuracy (%) Wall time (s) 0 1 50.0"
    )
    assert "<dt>Program</dt>" in html
    assert "settings.depth" not in html


def test_a_run_in_progress_of_which_no_setting_states_the_steps(tmp_path):
    root = tmp_path / "results"
    run = run_study(root).run(poll_folder(root).studies["depth", "default"].records.rows[-1].id)
    for file in (run.result, run.lock):  # as in a copy of a store, whose logs grew lately
        file.unlink()
    study = poll_folder(root).studies["depth", "default"]
    row = study.records.rows[-1]

    assert progress_words(study, row) == "step 2"
    assert seconds_spent(study, row) == json.loads(run.epochs.read_text().splitlines()[-1])["seconds"]
    assert '"step 2"' in page(root, "/runs/depth/default")


def test_a_retry_shows_the_new_attempt_and_the_old_failure_below(tmp_path):
    root = tmp_path / "results"
    run = run_study(root).run(poll_folder(root).studies["depth", "default"].records.rows[-1].id)
    run.result.unlink()
    run.fail(Failure(error_class="code", error="no such kernel", traceback="in train"))
    failed = sections(page(root, f"/run/{run.path.name}"))
    with locked(run.lock):
        run.begin(Attempt(started="2026-01-01T00:00:00+00:00"))
        retried = sections(page(root, f"/run/{run.path.name}"))

    assert "Failure" in failed
    assert "Attempts 1" in words(failed["head"])
    assert "Failure" not in retried
    assert "step 2" in words(retried["head"])
    assert "Attempts 2" in words(retried["head"])
    assert list(retried).index("Earlier failures") > list(retried).index("Attempts")
    assert "code: 1 run no such kernel in train" in words(retried["Earlier failures"])
