"""Records on disk: whole or absent, readable after any crash.

    RESULTS/recstudy.json                      marks the folder as ours, with the format of its records
    RESULTS/runs/ID/config.json                what decided the run
                   attempts.jsonl              one line each time a worker began it
                   epochs.jsonl                one line an epoch
                   losses.jsonl                one line an epoch: the training loss of every k-th update
                   mistakes.npz                the first misclassified test images, with true and predicted class
                   result.json                 there once the run is finished; then nothing here changes again
                   failure.json                why the last attempt failed; gone when a later one succeeds
                   weights.safetensors         the selected epoch's weights
                   checkpoint-EPOCH.pt         to resume from; two at most, none once the run is finished
    RESULTS/studies/NAME/PRESET/plan.json      label, seed -> id, and the reports to draw
                               /report/        tables, figures, report.html

A file is written under a temporary name, flushed to the disk and renamed, so that a reader sees the old one or the new
one. Logs are appended to line by line; a torn last line is dropped by readers and cut off by the next writer. A run's
folder is written by the one worker that holds its lock, everything else by the driver.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from recstudy.errors import StorageError

FORMAT = 1
Json = dict[str, Any]


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there whole, or as it was before."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_and_rename(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror}. Free some space or use a folder that can be written."
        ) from None


def _write_and_rename(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    _flush_folder(path.parent)


def write_json(path: Path, values: Any) -> None:
    write_whole(path, json.dumps(values, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Json | None:
    """The file's content, or None where there is none. A damaged file is an error that names it."""
    try:
        content: Json = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        raise StorageError(f"{path} is damaged: it is not JSON. Remove it and run the study again.") from None
    return content


def read_result(path: Path) -> Json | None:
    """A run's result, or None where there is none. One without a status is damaged (StorageError)."""
    result = read_json(path)
    if result is not None and not (isinstance(result, dict) and "status" in result):
        raise StorageError(f"{path} is damaged: it states no status. Its run will be run again.")
    return result


def append_line(path: Path, values: Json) -> None:
    """Append one line, after cutting off a torn one."""
    line = json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"
    with open(path, "ab+") as file:
        file.truncate(_whole_length(file))
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[Json]:
    """Every whole line up to the first that is damaged; none where there is no file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    lines: list[Json] = []
    for line in content[: content.rfind(b"\n") + 1].splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


class RunFolder:
    """The records of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.json"
        self.attempts = path / "attempts.jsonl"
        self.epochs = path / "epochs.jsonl"
        self.losses = path / "losses.jsonl"
        self.mistakes = path / "mistakes.npz"
        self.result = path / "result.json"
        self.failure = path / "failure.json"
        self.weights = path / "weights.safetensors"

    @property
    def finished(self) -> bool:
        try:
            return read_result(self.result) is not None
        except StorageError:
            return False

    def finish(self, result: Json) -> None:
        """The run's one result: the last thing that is written."""
        write_json(self.result, {"format": FORMAT, **result})
        self.failure.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Remove what a killed worker left half-written and, once the run is finished, its checkpoints."""
        for leftover in (*self.path.glob(".*.tmp"), *(self.path.glob("checkpoint-*.pt") if self.finished else ())):
            leftover.unlink()

    def keep_epochs(self, below: int) -> None:
        """Drop the epochs from `below` on, which a resumed run will report again."""
        for log in (self.epochs, self.losses):
            if log.exists():
                lines = [line for line in read_lines(log) if line["epoch"] < below]
                write_whole(log, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


class Results:
    """A results folder: the runs, and the studies made of them."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def create(self) -> "Results":
        """Make the folder, or check that it is ours and can be written."""
        marker = self.root / "recstudy.json"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not marker.exists() and any(self.root.iterdir()):
                raise StorageError(
                    f"{self.root} holds files of another program (recstudy.json is missing). "
                    "Give an empty or new folder with --results."
                )
            made = read_json(marker) or {}
            if made.get("format", FORMAT) > FORMAT:
                raise StorageError(f"{self.root} was written by a newer recstudy (format {made['format']}). Update this one.")
            if made.get("format") != FORMAT:
                write_json(marker, {"format": FORMAT, "what": "results of recstudy"})
            if not os.access(self.root, os.W_OK):
                raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise StorageError(
                f"cannot write results to {self.root}: {error.strerror}. Give another folder with --results."
            ) from None
        return self

    def run(self, run_id: str) -> RunFolder:
        return RunFolder(self.root / "runs" / run_id)

    def study(self, name: str, preset: str) -> Path:
        return self.root / "studies" / name / preset

    def states(self) -> dict[str, str]:
        """`done` or `failed` by run id, for every run that has either."""
        states: dict[str, str] = {}
        runs = self.root / "runs"
        for folder in os.scandir(runs) if runs.exists() else ():
            if RunFolder(Path(folder.path)).finished:
                states[folder.name] = "done"
            elif os.path.exists(folder.path + "/failure.json"):
                states[folder.name] = "failed"
        return states


@contextmanager
def locked(path: Path, holder: str, wait: bool = False) -> Iterator[None]:
    """Hold `path` as a lock: wait for it, or say who holds it. The system frees the lock of a process that died."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = open(path, "a+")  # noqa: SIM115
    except OSError as error:
        raise StorageError(f"cannot lock {path}: {error.strerror}. Use a folder that can be written.") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise StorageError(f"{path.parent} is in use by {file.read().strip()}. Wait for it or stop it.") from None
        file.truncate(0)
        file.write(holder)
        file.flush()
        yield


def _whole_length(file: Any) -> int:
    """Length up to and including the last newline."""
    length = file.seek(0, os.SEEK_END)
    while length:
        start = max(0, length - 4096)
        file.seek(start)
        newline = file.read(length - start).rfind(b"\n")
        if newline >= 0:
            return int(start + newline + 1)
        length = start
    return 0


def _flush_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
