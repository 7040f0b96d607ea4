"""One attempt at a run: what the driver sends to a worker, with its group and its code version."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from recstudy.records import Json, RunFolder


class Group:
    """The workers that share one run. By default, this process is the only one."""

    rank, world = 0, 1

    def broadcast_flag(self, value: bool) -> bool:
        """Return the first worker's value on every worker."""
        return value

    def broadcast_result(self, value: Callable[[], Any]) -> Any:
        """Call `value` on the first worker only, and return its result on every worker."""
        return value()

    def any_true(self, value: bool) -> bool:
        """Return on every worker whether `value` is true on any of them."""
        return value


class CodeVersion(NamedTuple):
    """The code version that each attempt records.

    Args:
        commit: The commit of the study's repository. Outside of a repository, as in a job, the value of
            RECSTUDY_COMMIT.
        dirty: Whether the study's or recstudy's repository has uncommitted changes.
        recstudy: The commit of recstudy, if it runs from another repository than the study. A released
            version is among the package versions instead.
    """

    commit: str | None = None
    dirty: bool = False
    recstudy: str = ""


Report = Callable[[dict[str, Any]], None]


def discard_line(line: dict[str, Any]) -> None:
    """Receive a line where nobody waits for it."""


def never_leave() -> bool:
    return False


@dataclass(frozen=True)
class Trial:
    """One attempt at a run. The driver makes it of values that can be sent to any process.

    Args:
        config: The settings of the run, as in its record.
        run_id: The id of the run.
        folder: The run's folder.
        data: The folder of the data sets.
        download: Whether missing data sets are downloaded.
        store: The URI of the results if they are on an object store.
        version: The code version of the study.
        files: The SHA-256 of each user file by path.
        scratch: A temporary folder for Ray Train's files.
        labels: The labels of the nodes where Ray Train may start workers.
        code: The folder of the study's modules.
        modules: The study's modules, which a worker imports.
        program: The user's program, pickled by the driver, one character for each byte.
        keeps_files: Whether the folder of the run's program stays when the run has ended.
        settings: Added by the worker, as all that follow: the settings as its program reads them.
        records: The run's folder, or a local copy of a folder on an object store.
        report: Receives a line for each step, with `step` and `steps` or `epochs_done` and `epochs`.
        leave: Returns whether the run should save its state and end early.
        group: The workers that share the run.
    """

    config: Json
    run_id: str
    folder: str
    data: str
    download: bool = False
    store: str = ""
    version: CodeVersion = field(default_factory=CodeVersion)
    files: Mapping[str, str] = field(default_factory=dict)
    scratch: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    code: str = ""
    modules: tuple[str, ...] = ()
    program: str = ""
    keeps_files: bool = False
    settings: Any = None
    records: RunFolder = field(default_factory=lambda: RunFolder(Path()))
    report: Report = discard_line
    leave: Callable[[], bool] = never_leave
    group: Group = field(default_factory=Group)

    @property
    def writes(self) -> bool:
        """Whether this worker writes the records."""
        return self.group.rank == 0
