"""What a worker is given and what it gives back. Loads no torch, for the processes that only pass a trial on."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from recstudy.records import Failure, Json

Report = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Trial:
    """What a worker is given: plain values, so that they travel to any process."""

    study: str
    label: str
    config: Json
    run_id: str
    folder: str
    data: str
    download: bool
    scratch: str  # for what Ray Train itself writes; thrown away
    commit: str | None  # of the study's repository
    dirty: bool
    recstudy: str = ""  # its commit, where that is of another repository
    store: str = ""  # the URI of the results, where they are no folder
    plugins: Json = field(default_factory=dict)  # a `Bundle` of what the study defines itself
    files: dict[str, str] = field(default_factory=dict)  # the SHA-256 of each user file, by path


# How a trial becomes an outcome: reports each epoch's line, and ends early once the last argument says so. See `run_trial`.
Work = Callable[[Trial, Report, Callable[[], bool]], Json]


def failed(failure: Failure) -> Json:
    """Return the outcome of a run that failed."""
    return {"status": "failed", "class": failure.error_class, "error": failure.error}


@contextmanager
def warning(report: Report) -> Iterator[Report]:
    """Return `report`, which takes along what our code has warned of in this process since the report before."""
    told: list[str] = []
    handler, logger = logging.Handler(logging.WARNING), logging.getLogger("recstudy")
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]

    def report_and_warn(line: dict[str, Any]) -> None:
        report({**line, "warnings": told.copy()} if told else line)
        told.clear()

    logger.addHandler(handler)
    try:
        yield report_and_warn
    finally:
        logger.removeHandler(handler)
