"""One trial: lock the run's folder, run its program, write its result or its failure. Loads neither torch nor
Ray.

A run's folder is written by the worker that holds its lock, so that a killed driver loses nothing: a finished
run has its result, another one resumes from what its program has saved.
"""

import errno
import logging
import os
import platform
import random
import re
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

from recstudy.errors import ConfigError, DataError, RunError, StorageError, user_calls
from recstudy.plugins import import_sent
from recstudy.programs.base import Execution, Group, load_program, program_of
from recstudy.programs.run_folder import beside, locked_run_folder
from recstudy.programs.settings import Resources
from recstudy.programs.watchdog import watched
from recstudy.records import Attempt, Failure, Json, Result, RunFolder, read_log, write_json
from recstudy.records.locks import Held
from recstudy.records.reading import record_of
from recstudy.records.schema import now

Report = Callable[[dict[str, Any]], None]

LOADING = 8  # times the silence allowed in training: fetching records or decoding data gives no sign of life


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
    modules: tuple[str, ...] = ()  # what the study defines itself, for a worker to import
    code: str = ""  # the folder that it imports them from
    files: dict[str, str] = field(default_factory=dict)  # the SHA-256 of each user file, by path
    program: str = ""  # the user's own, pickled by the driver, a character for each byte


# How a trial becomes an outcome: reports each step's line, and ends early once the last argument says so. See
# `run_trial`.
Work = Callable[[Trial, Report, Callable[[], bool]], Json]


def never() -> bool:
    return False


def run_trial(trial: Trial, report: Report, leave: Callable[[], bool] = never) -> Json:
    """Run one trial and return its outcome: `{"status": "done" | "diverged" | "failed" | "drained" | "held",
    ...}`.

    Every worker of a group calls this; the first one writes the records. Once `leave` is true on any of them,
    the run ends early as `drained` and can resume elsewhere. A run that another process works on is `held`;
    this function does not wait for it.
    """
    group = worker_group(trial)  # asked now: Ray Train takes the group apart as soon as one worker is lost
    minutes = trial.config["resources"]["hang_timeout_minutes"]
    # Training, and a user's program that has reported a step, set their own watchdogs.
    silence = 0 if trial.config.get("program") else LOADING * 60 * minutes
    if group.rank > 0:
        if not group.first_says(False):
            return {"status": "done"}
        with beside(trial.folder, trial.store) as folder, watched(silence, folder.hang_log(group.rank)):
            return _execute(trial, folder, report, leave, group)
    try:
        with (
            locked_run_folder(trial.folder, trial.store, wait=False) as folder,
            watched(silence, folder.hang_log(0)),
        ):
            try:
                folder.sweep()
                hang = "" if folder.finished else folder.take_hang()
                # another study, or an earlier driver, has finished it
                if not group.first_says(not folder.finished and not hang):
                    if not hang:
                        return {"status": "done"}
                    error = f"no sign of life for {minutes:g} minutes (resources.hang_timeout_minutes); it was stopped"
                    folder.fail(failure := Failure(error_class="hung", error=error, traceback=hang))
                    return failed(failure)
                here = Attempt(started=now(), host=socket.gethostname(), process=os.getpid())
                folder.begin(replace(here, commit=trial.commit, dirty=trial.dirty, recstudy=trial.recstudy))
                write_json(folder.config, trial.config)
                folder.send()  # a worker that is killed early has tried, too
                return _execute(trial, folder, report, leave, group)
            except Exception as error:
                return _failed(error, trial, group, folder)
    except Held as held:
        group.first_says(False)
        return {"status": "held", "by": held.holder}
    except StorageError as error:
        return _failed(error, trial, group)


def worker_group(trial: Trial) -> Group:
    """Return the workers that share the run. Only the recursive models have several."""
    return Group() if trial.config.get("program") else load_program().group()


def _execute(
    trial: Trial, folder: RunFolder, report: Report, leave: Callable[[], bool], group: Group
) -> Json:
    """Run the program and, on the worker that writes, record the result: the last file, so that there is all
    of a run or none.
    """
    started = now()
    import_sent(trial.code, trial.modules)
    if trial.program:
        import_module("recstudy.programs.own").receive(trial.program)
    program = program_of(trial.config)
    settings = program.read(trial.config)
    execution = Execution(trial, settings, folder, report, leave, group)
    outcome = program.run(execution)
    if execution.writes and outcome["status"] == "drained":
        folder.drained(now())
    elif execution.writes:
        provenance = {
            "commit": trial.commit,
            "dirty": any(line.dirty for line in read_log(folder.attempts, Attempt)),
            "commits": folder.told("commit"),
            "recstudy": ", then ".join(folder.told("recstudy")),
            "files": folder.user_files,
            "earlier": folder.earlier,
            "versions": versions_of(*program.packages),
            "hardware": hardware(settings.resources),
            "synthetic": settings.description.is_synthetic,
            **outcome.get("provenance", {}),
            "started": started,
            "finished": now(),
        }
        folder.finish(record_of(Result, {**outcome, "attempts": folder.tries, "provenance": provenance}))
        folder.sweep()
    return {"status": outcome["status"], "score": outcome.get("metrics", {}).get(settings.score)}


def record_user_files(trial: Trial, folder: RunFolder, resumes: bool) -> None:
    """Record the SHA-256 of each user file; of a run that resumes after a file has changed, both versions
    count.
    """
    before = folder.user_files if resumes else {}
    versions = {
        path: " ".join(dict.fromkeys([*before.get(path, "").split(), sha]))
        for path, sha in trial.files.items()
    }
    if before or versions:
        write_json(folder.files, before | versions)


def failed(failure: Failure) -> Json:
    """Return the outcome of a run that failed."""
    outcome: Json = {"status": "failed", "class": failure.error_class, "error": failure.error}
    return outcome | ({"calls": list(failure.calls)} if failure.calls else {})


def _failed(error: Exception, trial: Trial, group: Group, folder: RunFolder | None = None) -> Json:
    """Record why a run failed, if its folder is there, and return that outcome."""
    line = f"{type(error).__name__}: {error}"
    with suppress(ConfigError):  # a program that cannot be imported explains nothing
        line = program_of(trial.config).explain(error)
    output = error.output if isinstance(error, RunError) else traceback.format_exc()
    failure = Failure(error_class=failure_class(error), error=line, traceback=output, calls=user_calls(error))
    with suppress(StorageError):  # then only the outcome says so
        if folder is not None and folder.path.exists():
            folder.fail(failure)
    if group.world > 1:
        raise error  # the other workers wait for a message that will not come: let Ray Train end the group
    return failed(failure)


STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)

# What Python, torch and CUDA say if there is no memory, also in the output of a command.
NO_MEMORY = re.compile("out ?of ?memory|MemoryError|not enough memory|can't allocate memory", re.IGNORECASE)


def failure_class(error: BaseException) -> str:
    """Return the class of an exception that ended a run."""
    if isinstance(error, RunError):
        return error.failure_class
    if isinstance(error, DataError):
        return "data"
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, StorageError) or number in STORAGE:
        return "storage"
    words = f"{type(error).__name__}: {error}" if isinstance(error, MemoryError | RuntimeError) else ""
    return "out of memory" if number == errno.ENOMEM or NO_MEMORY.search(words) else "code"


@cache
def versions_of(*packages: str) -> dict[str, str]:
    """Return the versions of these packages as far as they are installed here."""
    # to a node of a cluster that may have the packages alone
    versions = {"recstudy": "sent along by the driver"}
    for package in ("recstudy", *packages):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def hardware(resources: Resources) -> Json:
    """Return the machine of a run, as a record has it."""
    torch = sys.modules.get("torch")  # loaded by the program, if at all
    gpu = "Apple (MPS)" if resources.device == "mps" else None
    if resources.gpus and torch is not None and torch.cuda.is_available():
        gpu = torch.cuda.get_device_name()
    return {"host": socket.gethostname(), "cpu": _cpu_name(), "cores": os.cpu_count(), "gpu": gpu}


@cache
def _cpu_name() -> str:
    return _line_of("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def _line_of(file: str, name: str) -> str:
    """Return what a file of the Linux kernel says under a name, the first time; empty if it is not there."""
    with suppress(OSError), open(file, encoding="utf-8") as lines:
        return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
    return ""


def reset_process(seed: int, cpus: int) -> None:
    """Seed the generators that are loaded, and let nothing of the run before remain: numbers do not depend on
    it.
    """
    with suppress(OSError):  # the peak of memory begins anew where the kernel allows it (Linux)
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)
        torch.set_num_threads(cpus)
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)


def peak_memory_mb() -> float | None:
    """Return the most memory that this process had in use since `reset_process`; None if the system does not
    say.
    """
    # On other systems the figure is of the process's whole life, which may be that of a run before.
    peak = _line_of("/proc/self/status", "VmHWM")
    return int(peak.split()[0]) / 2**10 if peak else None


@contextmanager
def warning(report: Report) -> Iterator[Report]:
    """Yield `report`, which takes along what our code has warned of in this process since the report
    before.
    """
    handler, logger = BufferingHandler(sys.maxsize), logging.getLogger("recstudy")
    handler.setLevel(logging.WARNING)

    def report_and_warn(line: dict[str, Any]) -> None:
        warnings = [record.getMessage() for record in handler.buffer]
        report({**line, "warnings": warnings} if warnings else line)
        handler.flush()  # which empties the buffer

    logger.addHandler(handler)
    try:
        yield report_and_warn
    finally:
        logger.removeHandler(handler)
