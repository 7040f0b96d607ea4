"""What a results folder can do without: what no report reads and no run under way needs."""

import itertools
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from recstudy.errors import StorageError
from recstudy.files import discard
from recstudy.opened import entries, there
from recstudy.opened import folders as folders_in
from recstudy.records import Results, held, locked
from recstudy.records.files import MARKER, megabytes
from recstudy.records.locks import TEMPORARY, Held, this_process
from recstudy.records.plans import named_runs

ABANDONED_S = 60.0
SESSION = "recstudy.lock"  # in the folder of a Ray that a study has started, held by its driver


class Reclaimable(NamedTuple):
    """A file or folder that may go."""

    path: Path
    size: int  # bytes
    why: str


def show_clean(path: Path, orphans: bool, remove: bool, out: Console) -> None:
    """Print what would go and how much it frees; remove it where that is wanted.

    Args:
        path: a results folder.
        orphans: also the runs that no study names any more, finished ones too.
        remove: do it.
        out: where it is said.

    Raises:
        StorageError: `path` is no results folder; or, with `orphans` and once all else is done, a study's plan is damaged.
    """
    if not there(path.absolute() / MARKER):
        raise StorageError(f"{path} is no results folder: {MARKER} is missing.")
    results = Results(path)
    with results.cleaning() if remove else nullcontext():
        found, damaged = reclaimable(results, orphans)
        found += (item for item in left_outside() if not item.path.is_relative_to(results.root))
        shown = Table("file or folder", "size", "why")
        for item in found:
            name = str(item.path).removeprefix(f"{results.root}/")
            shown.add_row(*map(Text, (name, megabytes(item.size), item.why)))
        out.print(shown if found else Text(f"nothing to remove in {path}"))
        total = megabytes(sum(item.size for item in found))
        if remove:
            left = [item.path.name for item in found if not _removed(results, item)]
            in_use = f" In use by now and left alone: {', '.join(left)}." if left else ""
            out.print(Text(f"Removed {len(found) - len(left)} files and folders of {total}.{in_use}"), soft_wrap=True)
        elif found:
            out.print(Text(f"{total} in all. Nothing was removed; --yes removes it."), soft_wrap=True)
    if damaged:
        raise StorageError(f"{' '.join(map(str, damaged))} Until then no run counts as an orphan.")


def reclaimable(results: Results, orphans: bool = False) -> tuple[list[Reclaimable], list[StorageError]]:
    """Return what can go, without anything that a report needs or a run holds; checkpoints of interrupted runs stay, and links.

    Args:
        results: the folder.
        orphans: also the runs that no study names.

    Returns:
        What can go, and which plans are damaged, so that it is not known which runs no study names: then all of them stay.

    Raises:
        StorageError: with `orphans`, a driver plans or runs a study.
    """
    folders = list(folders_in(results.root / "runs"))  # before the plans: what is planned and run from now on is not listed
    studies = [study for name in folders_in(results.root / "studies") for study in folders_in(name)]
    busy = [study for study in studies if held(study / "lock")]
    if orphans and busy:
        raise StorageError(f"{busy[0]} is in use, and its runs may be named at any moment. Wait for it, or leave out --orphans.")
    named: set[str] = set()
    damaged: list[StorageError] = []
    for entry in itertools.chain.from_iterable(map(entries, studies if orphans else ())):
        try:
            named |= named_runs(Path(entry.path))
        except StorageError as damage:
            damaged.append(damage)
    found: list[Reclaimable] = []
    for folder in folders:
        if folder.name.startswith("."):
            found.append(_item(folder, "left half-removed by a killed process"))
        elif held(folder / "lock"):
            continue
        elif orphans and not damaged and folder.name not in named:
            found.append(_item(folder, "no study names this run"))
        else:
            found += _of_run(results, folder)
    for study in studies:
        if study not in busy:
            found += _half_written(study.rglob(".*.tmp"))
    if not busy:  # scratch belongs to a driver, which holds its study
        scratch = (folder for folder in folders_in(results.root) if folder.name.removeprefix(".").startswith(TEMPORARY))
        found += [_item(folder, "Ray's scratch of a killed driver") for folder in scratch]
    return found, damaged


def left_outside() -> Iterator[Reclaimable]:
    """Yield what killed processes of this user have left in the temporary folders of this machine."""
    rays = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp", "ray")  # as Ray itself has it (2.60)
    for parent, names, lock, why in (
        (Path(tempfile.gettempdir()), f"{TEMPORARY}*", "lock", "temporary files of a killed process"),
        (rays, "session_*", SESSION, "the logs of a Ray whose driver was killed"),
    ):
        for folder in sorted(parent.glob(names)):
            with suppress(FileNotFoundError):  # its process has just removed it
                ours = not folder.is_symlink() and folder.stat().st_uid == os.getuid()
                if ours and there(folder / lock) and not held(folder / lock):
                    yield _item(folder, why)


def _half_written(files: Iterable[Path]) -> Iterator[Reclaimable]:
    """Yield the files that nobody has written to for a minute: some writers, as of a report, hold no lock."""
    for file in sorted(files):
        with suppress(FileNotFoundError):  # it is whole by now
            if time.time() - file.lstat().st_mtime > ABANDONED_S:
                yield _item(file, "left half-written by a killed process")


def _of_run(results: Results, folder: Path) -> Iterator[Reclaimable]:
    state = results.state(folder.name) or "interrupted"
    yield from _half_written(folder.glob(".*.tmp"))
    for file in sorted(folder.glob("hang-*.log")):
        yield _item(file, "where a run hung, which the next command would tell")
    for file in sorted(folder.glob("checkpoint-*.pt")) if state != "interrupted" else ():
        run = "finished run" if state == "done" else f"{state} run, which would begin anew"
        yield _item(file, f"a checkpoint of a {run}")


def _item(path: Path, why: str) -> Reclaimable:
    files = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
    sizes = (file.lstat().st_size for file in files if file.is_symlink() or not file.is_dir())
    return Reclaimable(path, sum(sizes), why)


def _removed(results: Results, item: Reclaimable) -> bool:
    """Remove it, unless its run or study has begun since it was listed, or it is what a run goes on from by now."""
    if not item.path.is_relative_to(results.root):
        discard(item.path)
        return True
    parts = item.path.relative_to(results.root).parts
    depth = {"runs": 2, "studies": 3}.get(parts[0])  # of the folder whose writer holds its lock
    try:
        with locked(results.root.joinpath(*parts[:depth], "lock"), this_process()) if depth else nullcontext():
            if item.path.is_dir() and not item.path.is_symlink():
                discard(item.path)
            elif depth != 2 or item in _of_run(results, item.path.parent):
                item.path.unlink(missing_ok=True)
            else:
                return False
    except Held:
        return False
    return True
