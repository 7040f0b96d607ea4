"""The watchdog ends its process, so it is tried in processes of their own."""

import subprocess
import sys
import time

import pytest
from test_loop import training

from recstudy.train import watchdog
from recstudy.train.watchdog import alive, watched

HANGS = {
    "sleep": "time.sleep(60)",
    "in C, with the interpreter's lock held": "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
}


def watched_process(log, body: str, silence: float = 0.5, after: str = "") -> subprocess.CompletedProcess[str]:
    """`body` within the block, `after` behind it."""
    code = (
        "import pathlib, time\nfrom recstudy.train.watchdog import alive, watched\n"
        f"with watched({silence}, pathlib.Path({str(log)!r})):\n    {body}\n{after}\nprint('over')"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=200, check=False)


@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS)
def test_a_process_that_hangs_ends_and_leaves_its_stack(tmp_path, body):
    ended = watched_process(tmp_path / "hang-0.log", body)

    assert ended.returncode == 1
    assert "over" not in ended.stdout
    assert "most recent call first" in (tmp_path / "hang-0.log").read_text()


def test_a_process_that_shows_signs_goes_on(tmp_path):
    """Longer in all than the silence that ends it; no machine is so busy that a tenth of a second becomes two."""
    ended = watched_process(tmp_path / "hang-0.log", "[(alive(), time.sleep(0.1)) for _ in range(40)]", silence=3)

    assert ended.stdout == "over\n", ended.stderr
    assert not (tmp_path / "hang-0.log").exists()


def test_nothing_is_watched_after_the_block_nor_without_a_limit(tmp_path):
    with watched(0, tmp_path / "none.log"):
        assert not list(tmp_path.iterdir())
    ended = watched_process(tmp_path / "hang-0.log", "alive()", silence=2, after="time.sleep(3)")

    assert ended.stdout == "over\n", ended.stderr
    assert not list(tmp_path.iterdir())


def test_a_sign_costs_nothing(tmp_path):
    """Below 10 microseconds of this process's time each, renewals included: a batch takes a hundred times as long."""
    with watched(600, tmp_path / "hang-0.log"):
        started = time.process_time()
        for _ in range(200_000):
            alive()
        assert time.process_time() - started < 2
    assert watchdog._log is None


def test_training_and_evaluation_show_a_sign_each_batch(monkeypatch, tmp_path):
    """58 images to train on and 6 to select by, in batches of 16 and of 32: four signs and one."""
    signs = []
    run = training(train__epochs=1)
    with watched(3600, tmp_path / "hang-0.log"):
        monkeypatch.setattr(watchdog, "RENEWED_S", 0.0)
        monkeypatch.setattr(watchdog, "_renew", lambda: signs.append(1))
        run.one_epoch()
        assert len(signs) == 4
        run.select()
        assert len(signs) == 5
