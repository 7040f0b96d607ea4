"""The watchdog ends its process, so it is tried in processes of their own."""

from pathlib import Path

import pytest
from processes import run_python
from test_loop import training

from recstudy.programs import watchdog
from recstudy.programs.watchdog import hang_watchdog

HANGS = {
    "sleep": "time.sleep(60)",
    "in C, with the interpreter's lock held": "import re; re.match('(a+)+$', 'a' * 60 + 'b')",
    "in an inner block that allows more": "with hang_watchdog(100, log): pass\n    time.sleep(60)",
}


def watched(log: Path, body: str, silence: float = 0.5, epilogue: str = "", code: int = 0) -> str:
    """Run `body` within the block and `epilogue` after it; return what is printed."""
    program = (
        "import pathlib, time\nfrom recstudy.programs.watchdog import heartbeat, paused_watchdog, hang_watchdog\n"
        f"log = pathlib.Path({str(log)!r})\nwith hang_watchdog({silence}, log):\n    {body}\n{epilogue}\nprint('over')"
    )
    return run_python("-c", program, code=code).stdout


@pytest.mark.parametrize("body", HANGS.values(), ids=HANGS)
def test_a_process_that_hangs_ends_and_leaves_its_stack(tmp_path, body):
    assert "over" not in watched(tmp_path / "hang-0.log", body, code=1)
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
    assert watched(tmp_path / "hang-0.log", body, silence, epilogue) == "over\n"
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
