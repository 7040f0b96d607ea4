"""What a results folder can do without: what no report reads and no run under way needs."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from recstudy.errors import StorageError
from recstudy.files import discard
from recstudy.opened import entries, is_regular_file
from recstudy.opened import folders as folders_in
from recstudy.records import Results, held, locked
from recstudy.records.files import MARKER, megabytes
from recstudy.records.locks import TEMPORARY, Held
from recstudy.records.plans import named_runs
from recstudy.terminal import console, say

ABANDONED_S = 60.0
SESSION = "recstudy.lock"  # in the folder of a Ray that a study has started, held by its driver


class Reclaimable(NamedTuple):
    """A file or folder that may go."""

    path: Path
    size: int  # bytes
    why: str
    lock: Path  # of the run, study or process that it belongs to


def show_clean(path: Path, orphans: bool, remove: bool) -> None:
    """Print what would go and how much it frees; remove it where that is wanted.

    Args:
        path: a results folder.
        orphans: also the runs that no study names any more, finished ones too.
        remove: do it.

    Raises:
        StorageError: `path` is no results folder; or, with `orphans` and once all else is done, a study's
            plan is damaged.
    """
    if not is_regular_file(path.absolute() / MARKER):
        raise StorageError(f"{path} is no results folder: {MARKER} is missing.")
    results = Results(path)
    with results.cleaning() if remove else nullcontext():
        items, damaged = reclaimable(results, orphans)
        items += (item for item in left_outside() if not item.path.is_relative_to(results.root))
        table = Table("file or folder", "size", "why")
        for item in items:
            name = str(item.path).removeprefix(f"{results.root}/")
            table.add_row(*map(Text, (name, megabytes(item.size), item.why)))
        console().print(table if items else Text(f"nothing to remove in {path}"))
        total = megabytes(sum(item.size for item in items))
        if remove:
            in_use = [item.path.name for item in items if not _remove(results, item)]
            exceptions = f" In use by now and left alone: {', '.join(in_use)}." if in_use else ""
            say(f"Removed {len(items) - len(in_use)} files and folders of {total}.{exceptions}")
        elif items:
            say(f"{total} in all. Nothing was removed; --yes removes it.")
    if damaged:
        raise StorageError(f"{' '.join(map(str, damaged))} Until then no run counts as an orphan.")


def reclaimable(results: Results, orphans: bool = False) -> tuple[list[Reclaimable], list[StorageError]]:
    """Return what can go, without anything that a report needs or a run holds; checkpoints of interrupted
    runs stay, and links.

    Args:
        results: the folder.
        orphans: also the runs that no study names.

    Returns:
        What can go, and which plans are damaged, so that it is not known which runs no study names: then all
        of them stay.

    Raises:
        StorageError: with `orphans`, a driver plans or runs a study.
    """
    # before the plans: what is planned and run from now on is not listed
    runs = list(folders_in(results.root / "runs"))
    studies = [study for name in folders_in(results.root / "studies") for study in folders_in(name)]
    studies_in_use = [study for study in studies if held(study / "lock")]
    if orphans and studies_in_use:
        raise StorageError(
            f"{studies_in_use[0]} is in use, and its runs may be named at any moment. Wait for it, or leave"
            " out --orphans."
        )
    named_ids: set[str] = set()
    damaged: list[StorageError] = []
    for entry in [entry for study in studies for entry in entries(study)] if orphans else ():
        try:
            named_ids |= named_runs(Path(entry.path))
        except StorageError as damage:
            damaged.append(damage)
    items: list[Reclaimable] = []
    for folder in (*runs, *studies):
        if folder.name.startswith("."):
            items.append(_item(folder, "left half-removed by a killed process"))
        elif held(folder / "lock"):
            continue
        elif (
            orphans
            and not damaged
            and folder.parent == results.root / "runs"
            and folder.name not in named_ids
        ):
            items.append(_item(folder, "no study names this run"))
        else:
            items += _leftovers(results, folder)
    if not studies_in_use:  # scratch belongs to a driver, which holds its study
        scratch = (
            folder
            for folder in folders_in(results.root)
            if folder.name.removeprefix(".").startswith(TEMPORARY)
        )
        items += [_item(folder, "Ray's scratch of a killed driver") for folder in scratch]
    return items, damaged


def left_outside() -> Iterator[Reclaimable]:
    """Yield what killed processes of this user have left in the temporary folders of this machine."""
    # as Ray itself has it (2.60)
    rays = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray")
    for parent, names, lock, why in (
        (Path(tempfile.gettempdir()), f"{TEMPORARY}*", "lock", "temporary files of a killed process"),
        (rays, "session_*", SESSION, "the logs of a Ray whose driver was killed"),
    ):
        for folder in sorted(parent.glob(names)):
            with suppress(FileNotFoundError):  # its process has just removed it
                ours = not folder.is_symlink() and folder.stat().st_uid == os.getuid()
                if ours and is_regular_file(folder / lock) and not held(folder / lock):
                    yield _item(folder, why, folder / lock)


def _leftovers(results: Results, folder: Path) -> Iterator[Reclaimable]:
    """Yield the files of a run's or a study's folder that can go."""
    lock = folder / "lock"
    for file in sorted(folder.rglob(".*.tmp")):
        with suppress(FileNotFoundError):  # it is whole by now
            # some writers, as of a report, hold no lock
            if time.time() - file.lstat().st_mtime > ABANDONED_S:
                yield _item(file, "left half-written by a killed process", lock)
    for file in sorted(folder.glob("hang-*.log")):
        yield _item(file, "where a run hung, which the next command would tell", lock)
    if state := results.state(folder.name):
        run = "finished run" if state == "done" else f"{state} run, which would begin anew"
        for file in sorted(folder.glob("checkpoint-*.pt")):
            yield _item(file, f"a checkpoint of a {run}", lock)


def _item(path: Path, why: str, lock: Path | None = None) -> Reclaimable:
    files = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    sizes = (file.lstat().st_size for file in files if file.is_symlink() or not file.is_dir())
    return Reclaimable(path, sum(sizes), why, lock or path / "lock")


def _remove(results: Results, item: Reclaimable) -> bool:
    """Remove an item, unless its run or study has begun since it was listed, or a run would resume from it by
    now.
    """
    try:
        with locked(item.lock):
            if item.path == item.lock.parent:
                discard(item.path)
                return True
            is_due = item in _leftovers(results, item.lock.parent)
            if is_due:
                item.path.unlink(missing_ok=True)
            return is_due
    except Held:
        return False
