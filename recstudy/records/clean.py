"""`recstudy clean`: list what no report and no running process needs, and remove it with --yes.

It looks in a results folder and in temporary folders of this machine.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from recstudy.base.errors import StorageError
from recstudy.base.files import cache_folder, discard
from recstudy.base.opened import entries, is_regular_file
from recstudy.base.opened import folders as folders_in
from recstudy.base.terminal import console, say
from recstudy.records import Results, is_locked, locked
from recstudy.records.files import MARKER, megabytes
from recstudy.records.locks import TEMPORARY, LockedError
from recstudy.records.plans import named_runs

ABANDONED_S = 60.0  # age at which a temporary file counts as left by a killed process
SESSION = "recstudy.lock"  # in the folder of a Ray that a study has started, held by its driver


class Reclaimable(NamedTuple):
    """A file or folder that can be removed."""

    path: Path
    size: int  # bytes
    why: str
    lock: Path  # of the run, study or process to which it belongs


def show_clean(path: Path, orphans: bool, remove: bool) -> None:
    """Print the removable files and their sizes, and remove them if `remove` is set.

    Args:
        path: A results folder.
        orphans: Include runs that no study plans any more, finished ones too.
        remove: Remove the files. By default they are only listed.

    Raises:
        StorageError: `path` is no results folder. With `orphans`, also if a study's plan is damaged; this is
            raised after the other files were handled.
    """
    if not is_regular_file(path.absolute() / MARKER):
        raise StorageError(f"{path} is no results folder: {MARKER} is missing. Give the folder of --results.")
    results = Results(path)
    with results.cleaning() if remove else nullcontext():
        items, damaged = reclaimable(results, orphans)
        # those below the results folder are listed already
        items += (item for item in left_outside() if not item.path.is_relative_to(results.root))
        table = Table("file or folder", "size", "reason")
        for item in items:
            name = str(item.path).removeprefix(f"{results.root}/")
            table.add_row(*map(Text, (name, megabytes(item.size), item.why)))
        console().print(table if items else Text(f"{path} has nothing to remove."))
        total = megabytes(sum(item.size for item in items))
        if remove:
            in_use = [item.path.name for item in items if not _remove(results, item)]
            exceptions = f" Skipped because they are in use now: {', '.join(in_use)}." if in_use else ""
            say(f"Removed {len(items) - len(in_use)} files and folders ({total}).{exceptions}")
        elif items:
            say(f"{total} in total. Nothing was removed. Add --yes to remove these files.")
    if damaged:
        raise StorageError(f"{' '.join(map(str, damaged))} Until this is fixed, no run counts as an orphan.")


def reclaimable(results: Results, orphans: bool = False) -> tuple[list[Reclaimable], list[StorageError]]:
    """Return the files and folders that can be removed.

    Files that a report needs or a process has locked stay. So do links and the checkpoints of interrupted
    and failed runs.

    Args:
        results: The results folder.
        orphans: Include the runs that no study plans.

    Returns:
        The removable items, and an error for each damaged plan. With a damaged plan the orphans are unknown,
        so no run is listed as one.

    Raises:
        StorageError: `orphans` is set, and a driver is planning or running a study.
    """
    # List the runs before the plans are read: a run that is planned meanwhile must not count as an orphan.
    runs = list(folders_in(results.root / "runs"))
    studies = [study for name in folders_in(results.root / "studies") for study in folders_in(name)]
    studies_in_use = [study for study in studies if is_locked(study / "lock")]
    if orphans and studies_in_use:
        raise StorageError(
            f"{studies_in_use[0]} is in use, and its driver may plan more runs. Wait for it, or leave out"
            " --orphans."
        )
    named_ids: set[str] = set()
    damaged: list[StorageError] = []
    # a linked study may plan any run
    linked = [*(results.root / "studies").glob("*"), *(results.root / "studies").glob("*/*")] * orphans
    damaged += [StorageError(f"{path} is a link.") for path in sorted(linked) if path.is_symlink()]
    for entry in [entry for study in studies for entry in entries(study)] if orphans else ():
        try:
            named_ids |= named_runs(Path(entry.path))
        except StorageError as damage:
            damaged.append(damage)
    items: list[Reclaimable] = []
    for folder in (*runs, *studies):
        if folder.name.startswith("."):
            items.append(_item(folder, "half-removed by a killed process"))
        elif is_locked(folder / "lock"):
            continue
        elif (
            orphans
            and not damaged
            and folder.parent == results.root / "runs"
            and folder.name not in named_ids
        ):
            items.append(_item(folder, "no study plans this run"))
        else:
            items += _leftovers(results, folder)
    if not studies_in_use:  # a driver that uses such a folder has locked its study
        scratch = (
            folder
            for folder in folders_in(results.root)
            if folder.name.removeprefix(".").startswith(TEMPORARY)
        )
        items += [_item(folder, "Ray's temporary files of a killed driver") for folder in scratch]
    return items, damaged


def left_outside() -> Iterator[Reclaimable]:
    """Yield files of killed processes of this user in temporary folders of this machine, and worktrees."""
    # Ray (2.60) looks up its temporary folder in this order.
    rays = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray")
    for parent, names, lock, why in (
        (Path(tempfile.gettempdir()), f"{TEMPORARY}*", "lock", "temporary files of a killed process"),
        (cache_folder() / "worktrees", "*", "lock", "a git worktree, which Commits make again"),
        (rays, "session_*", SESSION, "the logs of a Ray whose driver was killed"),
    ):
        for folder in sorted(parent.glob(names)):
            with suppress(FileNotFoundError):  # its process removed it meanwhile
                ours = not folder.is_symlink() and folder.stat().st_uid == os.getuid()
                if ours and is_regular_file(folder / lock) and not is_locked(folder / lock):
                    yield _item(folder, why, folder / lock)


def _leftovers(results: Results, folder: Path) -> Iterator[Reclaimable]:
    """Yield the removable files in the folder of a run or study."""
    lock = folder / "lock"
    for file in sorted(folder.rglob(".*.tmp")):
        with suppress(FileNotFoundError):  # its writer has renamed it meanwhile
            # Reports are written without a lock, so a young file may still be in use.
            if time.time() - file.lstat().st_mtime > ABANDONED_S:
                yield _item(file, "half-written by a killed process", lock)
    for file in sorted(folder.glob("hang-*.log")):
        yield _item(file, "stack traces of a hang, which the next attempt would report", lock)
    # a failed run resumes from its checkpoint
    if (state := results.state(folder.name)) in ("done", "stopped"):
        run = "finished run" if state == "done" else f"{state} run, which would start from the beginning"
        for file in sorted(folder.glob("checkpoint-*.pt")):
            yield _item(file, f"checkpoint of a {run}", lock)


def _item(path: Path, why: str, lock: Path | None = None) -> Reclaimable:
    files = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    sizes = (file.lstat().st_size for file in files if file.is_symlink() or not file.is_dir())
    return Reclaimable(path, sum(sizes), why, lock or path / "lock")


def _remove(results: Results, item: Reclaimable) -> bool:
    """Remove an item unless it came into use since it was listed. Return whether it was removed."""
    try:
        with locked(item.lock):
            if item.path == item.lock.parent:
                discard(item.path)
                return True
            # The run may have been interrupted meanwhile; it would then resume from this checkpoint.
            is_due = item in _leftovers(results, item.lock.parent)
            if is_due:
                item.path.unlink(missing_ok=True)
            return is_due
    except LockedError:
        return False
