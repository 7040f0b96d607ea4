"""The head node of a study's cluster, which is asked again and again whether it is there.

Ray (2.60) ends a process that has not reached its head for a minute with a line of its own, and with a head that is frozen it
waits for ever. Nothing can be cleaned up then, as each call to Ray waits too: the process ends as if it were killed.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import ray

ASK_S = 3.0  # that an answer may take
PAUSE_S = 1.0  # before it is asked again
RAYS_OWN, MINUTE = "RAY_gcs_rpc_server_reconnect_timeout_s", "60"  # after which Ray ends this process, and its default
SHARE = 0.75  # of that time


@contextmanager
def watched_head(address: str, on_lost: Callable[[], None]) -> Iterator[None]:
    """Call `on_lost`, in a thread, where the head has been silent for too long while the block runs."""
    over = threading.Event()
    patience = SHARE * float(os.environ.get(RAYS_OWN, MINUTE))
    client = ray._raylet.GcsClient(address)
    arguments = (lambda: client.check_alive([], timeout=ASK_S), patience, over, on_lost)
    threading.Thread(target=watch, args=arguments, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def watch(ask: Callable[[], object], patience: float, over: threading.Event, on_lost: Callable[[], None]) -> None:
    """Ask until it is over, or until `ask` has raised for so many seconds without an answer between.

    Time in which this process itself is stopped is no silence.
    """
    silent = 0.0
    while silent < patience:
        began = time.monotonic()
        answered = _answers(ask)
        if over.wait(PAUSE_S):
            return
        silent = 0.0 if answered else silent + min(time.monotonic() - began, ASK_S + PAUSE_S)
    on_lost()


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except Exception:  # of Ray's several kinds
        return False
    return True
