"""Pages of studies of a user's own programs, two of which have a metric of one name."""

import json

import pytest
from boards import looked
from own_study import run_study, silent

from recstudy.board.markup import address_of
from recstudy.board.pages import page_at
from recstudy.board.sources import Sources
from recstudy.records import Results


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    root = tmp_path_factory.mktemp("own") / "results"
    run_study(root, "share", silent)
    return run_study(root)


def page(sources: Sources, path: str) -> str:
    return "".join(part.body for part in page_at(sources, address_of(path)).parts)


def test_pages_are_read_with_the_metrics_of_their_study(results):
    sources = looked(results.root)
    pages = [page(sources, f"/{kind}/{name}/default") for kind in ("study", "runs") for name in ("depth", "share", "depth")]

    assert ["Accuracy (%)" in text for text in pages] == [True, False, True] * 2
    index = page(sources, "/")
    assert "Best: by accuracy, depth 4 92.1 [" in index
    assert "Best: by accuracy, depth 2 0.861 [" in index


def test_a_run_is_told_in_the_words_of_its_program(results):
    sources = looked(results.root)
    text = page(sources, f"/run/{sources.records(('depth', 'default')).rows[0].id}")

    assert "step 0: loss 1, accuracy 50.0 %" in text
    assert "<td>Program</td>" in text or "<dt>Program</dt>" in text
    assert "settings.depth" not in text
    assert "epoch " not in text


def test_a_run_under_way_and_one_of_no_study(tmp_path):
    """No setting says how many steps there are."""
    root = tmp_path / "results"
    made = run_study(root)
    run = made.run(looked(root).records(("depth", "default")).rows[-1].id)
    for file in (run.result, run.lock):  # as of a copy of a store, whose logs grew lately
        file.unlink()
    (now,) = looked(root).under_way()
    assert (now.progress, now.score, now.score_text) == ("step 2", ("accuracy", 52.0), "52.0")
    assert now.spent == json.loads(run.epochs.read_text().splitlines()[-1])["seconds"]
    assert "reported a step" not in page(looked(root), "/study/depth/default")

    for file in (made.study("depth", "default")).glob("plan*.json"):
        file.unlink()
    text = page(looked(root), f"/run/{run.path.name}")
    assert "a run of no study, seed 2" in text
    assert "depth.train" in text
