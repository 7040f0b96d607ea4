"""One trial: lock the run's folder, run its program, write its result or its failure. Loads neither torch nor Ray.

A run's folder is written by the worker that holds its lock, so that a killed driver loses nothing: a finished run has its result,
another one resumes from what its program has saved.
"""

import errno
import logging
import os
import platform
import socket
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from recstudy.errors import ConfigError, DataError, RunError, StorageError
from recstudy.plugins import import_sent
from recstudy.programs.base import Execution, Group, load_program, program_of
from recstudy.programs.run_folder import beside, locked_run_folder
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
    programs: str = ""  # the user's own programs, pickled by the driver, a character for each byte


# How a trial becomes an outcome: reports each step's line, and ends early once the last argument says so. See `run_trial`.
Work = Callable[[Trial, Report, Callable[[], bool]], Json]


def never() -> bool:
    return False


def run_trial(trial: Trial, report: Report, leave: Callable[[], bool] = never) -> Json:
    """Run one trial and return its outcome: `{"status": "done" | "diverged" | "failed" | "drained" | "held", ...}`.

    Every worker of a group calls this; the first one writes the records. Once `leave` is true on any of them, the run ends early
    as `drained` and can resume elsewhere. A run that another process works on is `held`; this function does not wait for it.
    """
    group = worker_group(trial)  # asked now: Ray Train takes the group apart as soon as one worker is lost
    minutes = trial.config["place"]["silent_minutes"]
    # Training, and a user's program that has reported a step, set their own watchdogs.
    silence = 0 if trial.config.get("program") else LOADING * 60 * minutes
    if group.rank > 0:
        if not group.first_says(False):
            return {"status": "done"}
        with beside(trial.folder, trial.store) as folder, watched(silence, folder.hang_log(group.rank)):
            return _execute(trial, folder, report, leave, writes=False)
    try:
        with locked_run_folder(trial.folder, trial.store, wait=False) as folder, watched(silence, folder.hang_log(0)):
            return _attempt(trial, folder, report, leave, group)
    except Held as held:
        group.first_says(False)
        return {"status": "held", "by": held.holder}
    except StorageError as error:
        return _ended(error, group, trial)


def worker_group(trial: Trial) -> Group:
    """Return the workers that share the run. Only the recursive models have several."""
    return Group() if trial.config.get("program") else load_program().group()


def _attempt(trial: Trial, folder: RunFolder, report: Report, leave: Callable[[], bool], group: Group) -> Json:
    try:
        folder.sweep()
        hang = "" if folder.finished else folder.take_hang()
        if not group.first_says(not folder.finished and not hang):  # another study, or an earlier driver, has finished it
            if not hang:
                return {"status": "done"}
            minutes = trial.config["place"]["silent_minutes"]
            error = f"no sign of life for {minutes:g} minutes (place.silent_minutes); it was stopped"
            folder.fail(failure := Failure(error_class="hung", error=error, traceback=hang))
            return failed(failure)
        began = Attempt(started=now(), host=socket.gethostname(), process=os.getpid(), commit=trial.commit, dirty=trial.dirty)
        folder.begin(replace(began, recstudy=trial.recstudy))
        write_json(folder.config, trial.config)
        folder.send()  # a worker that is killed early has tried, too
        return _execute(trial, folder, report, leave, writes=True)
    except Exception as error:
        with suppress(StorageError):  # then only the outcome says so
            if folder.path.exists():
                output = error.output if isinstance(error, RunError) else traceback.format_exc()
                folder.fail(replace(_failure(error, trial), traceback=output))
        return _ended(error, group, trial)


def _execute(trial: Trial, folder: RunFolder, report: Report, leave: Callable[[], bool], writes: bool) -> Json:
    """Run the program and, on the worker that writes, record what came of it."""
    started = now()
    import_sent(trial.code, trial.modules)
    if trial.programs:
        import_module("recstudy.programs.own").receive(trial.programs)
    program = program_of(trial.config)
    settings = program.read(trial.config)
    outcome = program.run(Execution(trial, settings, folder, report, leave, writes, started))
    if writes and outcome["status"] == "drained":
        folder.drained(now())
    elif writes:
        _record(trial, folder, outcome, started)
    return {"status": outcome["status"], "score": outcome.get("metrics", {}).get(settings.score)}


def _record(trial: Trial, folder: RunFolder, outcome: Json, started: str) -> None:
    """Write the result of a run that has ended. It is the last file, so that there is all of the run or none."""
    dirty = any(line.dirty for line in read_log(folder.attempts, Attempt))
    provenance = {
        "commit": trial.commit,
        "dirty": dirty,
        "commits": folder.told("commit"),
        "recstudy": ", then ".join(folder.told("recstudy")),
        "files": folder.user_files,
        "earlier": folder.earlier,
        **outcome.get("provenance", {}),
        "started": started,
        "finished": now(),
    }
    folder.finish(record_of(Result, {**outcome, "attempts": folder.tries, "provenance": provenance}))
    folder.sweep()


def record_user_files(trial: Trial, folder: RunFolder, resumes: bool) -> None:
    """Record the SHA-256 of each user file; of a run that resumes after a file has changed, both versions count."""
    before = folder.user_files if resumes else {}
    if before or trial.files:
        versions = {path: dict.fromkeys([*before.get(path, "").split(), sha]) for path, sha in trial.files.items()}
        write_json(folder.files, before | {path: " ".join(digests) for path, digests in versions.items()})


def failed(failure: Failure) -> Json:
    """Return the outcome of a run that failed."""
    return {"status": "failed", "class": failure.error_class, "error": failure.error}


def _failure(error: Exception, trial: Trial) -> Failure:
    line = f"{type(error).__name__}: {error}"
    with suppress(ConfigError):  # a program that cannot be imported explains nothing
        line = program_of(trial.config).explain(error)
    return Failure(error_class=failure_class(error), error=line)


def _ended(error: Exception, group: Group, trial: Trial) -> Json:
    if group.world > 1:
        raise error  # the other workers wait for a message that will not come: let Ray Train end the group
    return failed(_failure(error, trial))


STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)

# What torch says on a CPU (a plain RuntimeError), and CUDA where another than torch's allocator notices.
NO_MEMORY = ("DefaultCPUAllocator", "not enough memory", "can't allocate memory", "CUDA error: out of memory")


def failure_class(error: BaseException) -> str:
    """Return the class of an exception that ended a run."""
    if isinstance(error, RunError):
        return error.failure_class
    if isinstance(error, DataError):
        return "data"
    if isinstance(error, StorageError) or (isinstance(error, OSError) and error.errno in STORAGE):
        return "storage"
    is_memory = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"  # torch's
    if is_memory or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return "out of memory"
    if isinstance(error, RuntimeError) and any(words in str(error) for words in NO_MEMORY):
        return "out of memory"
    return "code"


@cache
def _version(package: str) -> str | None:
    with suppress(PackageNotFoundError):
        return version(package)
    return None


def versions_of(*packages: str) -> dict[str, str]:
    """Return the versions of these packages as far as they are installed here."""
    found = {package: number for package in packages if (number := _version(package))}
    # A node of a cluster may have the packages alone, and recstudy from the driver.
    return {"recstudy": _version("recstudy") or "sent along by the driver"} | found


def hardware(gpu: str | None = None) -> Json:
    """Return this machine, as a record has it."""
    return {"host": socket.gethostname(), "cpu": _cpu_name(), "cores": os.cpu_count(), "gpu": gpu}


@cache
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def reset_peak_memory() -> None:
    """Let the peak of this process's memory begin anew, where the kernel allows it (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def peak_memory_mb() -> float | None:
    """Return the most memory that this process had in use since `reset_peak_memory`; None if the system does not say."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    except OSError:  # no Linux: its figure is of the process's whole life, which may be that of a run before
        return None
    return next(int(line.split()[1]) / 2**10 for line in lines if line.startswith("VmHWM:"))


@contextmanager
def warning(report: Report) -> Iterator[Report]:
    """Yield `report`, which takes along what our code has warned of in this process since the report before."""
    warnings: list[str] = []
    handler, logger = logging.Handler(logging.WARNING), logging.getLogger("recstudy")
    handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]

    def report_and_warn(line: dict[str, Any]) -> None:
        report({**line, "warnings": warnings.copy()} if warnings else line)
        warnings.clear()

    logger.addHandler(handler)
    try:
        yield report_and_warn
    finally:
        logger.removeHandler(handler)
