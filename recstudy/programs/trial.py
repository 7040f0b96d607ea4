"""Execute a trial: lock the run's folder, run the program, and write the result or the failure.

Only the worker with the lock writes to a run's folder, so no result is lost if the driver is killed. A
finished run has its result; an unfinished run resumes from the checkpoint of its program. This module imports
neither torch nor Ray.
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
from dataclasses import replace
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any

from recstudy.base.errors import ConfigError, DataError, RunError, StorageError, user_calls
from recstudy.plugins import import_sent
from recstudy.programs.attempt import Group, Report, Trial, never_leave
from recstudy.programs.base import load_program, program_of
from recstudy.programs.run_folder import follower_run_folder, locked_run_folder
from recstudy.programs.settings import Resources
from recstudy.programs.watchdog import hang_watchdog
from recstudy.records import Attempt, Failure, Json, Result, RunFolder, read_log, write_json
from recstudy.records.locks import LockedError
from recstudy.records.reading import record_of
from recstudy.records.schema import current_time

# Factor on hang_timeout_minutes before training starts, since reading data and records gives no heartbeat.
LOADING = 8


def run_trial(trial: Trial, report: Report, leave: Callable[[], bool] = never_leave) -> Json:
    """Run a trial on each worker of its group. The first worker writes the records.

    Args:
        trial: The trial.
        report: Receives a line for each step.
        leave: If it returns true on any worker, the run ends early as `drained` and can resume on another
            node.

    Returns:
        The outcome: `status` is `done`, `diverged`, `failed`, `drained` or `held` (another process has locked
        the run; this function does not wait for it).
    """
    # Ask for the group first, because Ray Train dissolves it when a worker is lost.
    group = worker_group(trial)
    trial = replace(trial, report=report, leave=leave, group=group)
    minutes = trial.config["resources"]["hang_timeout_minutes"]
    # Training, and a user's program after its first step, start their own watchdogs.
    silence = 0 if trial.config.get("program") else LOADING * 60 * minutes
    if group.rank > 0:
        if not group.broadcast_flag(False):
            return {"status": "done"}
        with (
            follower_run_folder(trial.folder, trial.store) as folder,
            hang_watchdog(silence, folder.hang_log(group.rank)),
        ):
            return _execute(replace(trial, records=folder))
    try:
        with (
            locked_run_folder(trial.folder, trial.store, wait=False) as folder,
            hang_watchdog(silence, folder.hang_log(0)),
        ):
            try:
                folder.remove_leftovers()
                hang = "" if folder.finished else folder.take_hang()
                # false if another study or an earlier driver has finished the run
                if not group.broadcast_flag(not folder.finished and not hang):
                    if not hang:
                        return {"status": "done"}
                    limit = f"{minutes:g} minutes (resources.hang_timeout_minutes)"
                    error = f"no sign of life for {limit}; it was stopped"
                    folder.fail(failure := Failure(error_class="hung", error=error, traceback=hang))
                    return failed_outcome(failure)
                process: Json = {"host": socket.gethostname(), "process": os.getpid()}
                folder.begin(Attempt(started=current_time(), **process, **trial.version._asdict()))
                write_json(folder.config, trial.config)
                # Send the attempt now, so that it counts even if the worker is killed early.
                folder.send()
                return _execute(replace(trial, records=folder))
            except Exception as error:
                return _record_failure(error, trial, folder)
    except LockedError as error:
        group.broadcast_flag(False)
        return {"status": "held", "by": error.holder}
    except StorageError as error:
        return _record_failure(error, trial)


def worker_group(trial: Trial) -> Group:
    """Return the group of workers of the run. Only the recursive models have several workers."""
    return Group() if trial.config.get("program") else load_program().group()


def _execute(trial: Trial) -> Json:
    """Run the program. The first worker then records the result, which is always the last file written."""
    started, folder = current_time(), trial.records
    import_sent(trial.code, trial.modules)
    if trial.program:
        import_module("recstudy.programs.own").receive(trial.program)
    program = program_of(trial.config)
    settings = program.read(trial.config)
    outcome = program.run(replace(trial, settings=settings))
    if trial.writes and outcome["status"] == "drained":
        folder.record_drain(current_time())
    elif trial.writes:
        provenance = {
            "commit": trial.version.commit,
            "dirty": any(line.dirty for line in read_log(folder.attempts, Attempt)),
            "commits": folder.recorded_versions("commit"),
            "recstudy": ", then ".join(folder.recorded_versions("recstudy")),
            "files": folder.user_files,
            "earlier": folder.archive_count,
            "versions": versions_of(*program.packages),
            "hardware": hardware(settings.resources),
            "synthetic": settings.description.is_synthetic,
            **outcome.get("provenance", {}),
            "started": started,
            "finished": current_time(),
        }
        folder.finish(record_of(Result, {**outcome, "attempts": folder.tries, "provenance": provenance}))
        folder.remove_leftovers()
    return {"status": outcome["status"], "score": outcome.get("metrics", {}).get(settings.score)}


def record_user_files(trial: Trial, resumes: bool) -> None:
    """Record the SHA-256 of each user file.

    If a file has changed since the last attempt of a resumed run, both versions are recorded.
    """
    earlier_files = trial.records.user_files if resumes else {}
    versions = {
        path: " ".join(dict.fromkeys([*earlier_files.get(path, "").split(), sha]))
        for path, sha in trial.files.items()
    }
    if earlier_files or versions:
        write_json(trial.records.files, earlier_files | versions)


def failed_outcome(failure: Failure) -> Json:
    """Return the outcome of a run that failed."""
    outcome: Json = {"status": "failed", "class": failure.error_class, "error": failure.error}
    return outcome | ({"calls": list(failure.calls)} if failure.calls else {})


def _record_failure(error: Exception, trial: Trial, folder: RunFolder | None = None) -> Json:
    """Write the failure of a run to its folder, if it exists, and return the outcome."""
    line = f"{type(error).__name__}: {error}"
    with suppress(ConfigError):  # the program cannot be imported
        line = program_of(trial.config).explain(error)
    output = error.output if isinstance(error, RunError) else traceback.format_exc()
    failure = Failure(error_class=failure_class(error), error=line, traceback=output, calls=user_calls(error))
    with suppress(StorageError):  # the outcome still contains the failure
        if folder is not None and folder.path.exists():
            folder.fail(failure)
    if trial.group.world > 1:
        # The other workers wait for a collective operation, and Ray Train ends them when this one fails.
        if LOST_WORKER.search(f"{type(error).__name__}: {error}"):
            raise error  # Tune restarts the run
        raise WorkerFailed(failed_outcome(failure)) from error
    return failed_outcome(failure)


class WorkerFailed(Exception):
    """Ends the first worker of a group after its failure was recorded."""

    def __init__(self, outcome: Json) -> None:
        super().__init__(outcome)
        self.outcome = outcome


STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)

# Messages of gloo and NCCL if another worker has ended.
LOST_WORKER = re.compile("gloo|nccl|by peer|Dist(Backend|Network|Store)Error", re.IGNORECASE)

# Messages of Python, torch and CUDA about missing memory, also searched in the output of a command.
NO_MEMORY = re.compile("out ?of ?memory|MemoryError|not enough memory|can't allocate memory", re.IGNORECASE)


def failure_class(error: BaseException) -> str:
    """Return the failure class of an exception, such as `data`, `storage` or `out of memory`."""
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
    """Return the versions of the installed packages."""
    # a node of a cluster may have the packages but not recstudy
    versions = {"recstudy": "sent along by the driver"}
    for package in ("recstudy", *packages):
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def hardware(resources: Resources) -> Json:
    """Describe the machine of a run for its record."""
    torch = sys.modules.get("torch")  # None if the program does not use it
    gpu = "Apple (MPS)" if resources.device == "mps" else None
    if resources.gpus and torch is not None and torch.cuda.is_available():
        gpu = torch.cuda.get_device_name()
    return {"host": socket.gethostname(), "cpu": _cpu_name(), "cores": os.cpu_count(), "gpu": gpu}


@cache
def _cpu_name() -> str:
    return _line_of("/proc/cpuinfo", "model name") or platform.processor() or platform.machine()


def _line_of(file: str, name: str) -> str:
    """Return the first value of a name in a file of `/proc`; empty if it is missing."""
    with suppress(OSError), open(file, encoding="utf-8") as lines:
        return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")
    return ""


def reset_process(seed: int, cpus: int) -> None:
    """Seed the imported random generators and reset global state, so that runs do not affect each other."""
    with suppress(OSError):  # resets the peak of the memory (Linux)
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
    """Return the peak memory of this process since `reset_process` in MB; None if it is unknown."""
    # Other systems report the peak since the start of the process, which may be that of an earlier run.
    peak = _line_of("/proc/self/status", "VmHWM")
    return int(peak.split()[0]) / 2**10 if peak else None


@contextmanager
def with_warnings(report: Report) -> Iterator[Report]:
    """Yield a `report` that adds the warnings that recstudy has logged since the last report."""
    handler, logger = BufferingHandler(sys.maxsize), logging.getLogger("recstudy")
    handler.setLevel(logging.WARNING)

    def report_and_warn(line: dict[str, Any]) -> None:
        warnings = [record.getMessage() for record in handler.buffer]
        report({**line, "warnings": warnings} if warnings else line)
        handler.flush()  # empties the buffer

    logger.addHandler(handler)
    try:
        yield report_and_warn
    finally:
        logger.removeHandler(handler)
