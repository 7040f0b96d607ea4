"""The watchdog ends its process, so it is tried in processes of their own."""

import subprocess
import sys
from pathlib import Path

import pytest
from test_loop import training

from recstudy.programs import watchdog
from recstudy.programs.watchdog import hang_watchdog

HANGS = {
    "sleep": "time.sleep(60)",
    "in C, with the interpreter's lock held": "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    "in an inner block that allows more": "with hang_watchdog(100, log): pass\n    time.sleep(60)",
}


def watched_process(
    log: Path, body: str, silence: float = 0.5, epilogue: str = ""
) -> subprocess.CompletedProcess[str]:
    """`body` within the block, `epilogue` after it."""
    code = (
        "import pathlib, time\nfrom recstudy.programs.watchdog import heartbeat, paused_watchdog, hang_watchdog\n"
        f"log = pathlib.Path({str(log)!r})\nwith hang_watchdog({silence}, log):\n    {body}\n{epilogue}\nprint('over')"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=900, check=False
    )


@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS)
def test_a_process_that_hangs_ends_and_leaves_its_stack(tmp_path, body):
    process = watched_process(tmp_path / "hang-0.log", body)

    assert process.returncode == 1
    assert "over" not in process.stdout
    assert "most recent call first" in (tmp_path / "hang-0.log").read_text()


@pytest.mark.parametrize(
    ("body", "silence", "epilogue"),
    [
        ("[(heartbeat(), time.sleep(0.1)) for _ in range(40)]", 3, ""),
        ("with paused_watchdog(): time.sleep(4)", 0.5, ""),
        ("heartbeat()", 2, "time.sleep(3)"),
    ],
    ids=["at work", "waiting for others", "after the block"],
)
def test_process_with_heartbeats_or_paused_watchdog_continues(tmp_path, body, silence, epilogue):
    """Longer in all than the silence that ends it; no machine is so busy that a tenth of a second becomes
    two.
    """
    process = watched_process(tmp_path / "hang-0.log", body, silence, epilogue)

    assert process.stdout == "over\n", process.stderr
    assert not list(tmp_path.iterdir())


def test_watchdog_without_a_limit_watches_nothing(tmp_path):
    with hang_watchdog(0, tmp_path / "none.log"):
        assert not list(tmp_path.iterdir())


def test_training_and_evaluation_show_a_sign_each_batch(monkeypatch, tmp_path):
    """58 images to train on and 6 to select by, in batches of 16 and of 32: four signs and one."""
    signs = []
    run = training(train__epochs=1)
    with hang_watchdog(3600, tmp_path / "hang-0.log"):
        monkeypatch.setattr(watchdog, "RENEWAL_S", 0.0)
        monkeypatch.setattr(watchdog.faulthandler, "dump_traceback_later", lambda *_, **__: signs.append(1))
        run.one_epoch()
        assert len(signs) == 4
        run.select()
        assert len(signs) == 5
    assert watchdog._silence == 0
