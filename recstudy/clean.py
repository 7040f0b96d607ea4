"""What a results folder can do without: what no report reads and no run under way needs."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table
from rich.text import Text

from recstudy.errors import StorageError
from recstudy.files import MARKER, megabytes
from recstudy.records import Results, RunFolder, held, read_json, read_lines

RESUMES = "a checkpoint of a {} run, which would begin anew"


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
        StorageError: `path` is no results folder, or a study's plan there is damaged, so that its runs are not known.
    """
    if not (path / MARKER).exists():
        raise StorageError(f"{path} is no results folder: {MARKER} is missing.")
    found = reclaimable(Results(path), orphans)
    shown = Table("file or folder", "size", "why")
    for item in found:
        shown.add_row(Text(str(item.path.relative_to(path.absolute()))), Text(megabytes(item.size)), Text(item.why))
    out.print(shown if found else Text(f"nothing to remove in {path}"))
    total = megabytes(sum(item.size for item in found))
    if remove:
        left = [item.path for item in found if not _removed(item.path)]
        out.print(Text(f"Removed {len(found) - len(left)} files and folders of {total}." + _in_use(left)), soft_wrap=True)
    elif found:
        out.print(Text(f"{total} in all. Nothing was removed; --yes removes it."), soft_wrap=True)


def reclaimable(results: Results, orphans: bool = False) -> list[Reclaimable]:
    """What can go, without anything that a report needs or a run holds; checkpoints of interrupted runs stay."""
    named, states = _named(results), results.states()
    found: list[Reclaimable] = []
    for folder in sorted((results.root / "runs").glob("*")):
        if held(folder / "lock"):
            continue
        if orphans and folder.name not in named:
            found.append(_item(folder, "no study names this run"))
        else:
            found += _of_run(RunFolder(folder), states.get(folder.name, "interrupted"))
    studies = results.root / "studies"
    found += [_item(file, "left half-written by a killed process") for file in sorted(studies.rglob(".*.tmp"))]
    if not any(map(held, studies.glob("*/*/lock"))):  # scratch belongs to a driver, which holds its study
        found += [_item(folder, "Ray's scratch of a killed driver") for folder in sorted(results.root.glob("recstudy-*/"))]
    return found


def _of_run(run: RunFolder, state: str) -> Iterator[Reclaimable]:
    for file in sorted(run.path.glob(".*.tmp")):
        yield _item(file, "left half-written by a killed process")
    for file in sorted(run.path.glob("hang-*.log")):
        yield _item(file, "where a run hung, which the next command would tell")
    for file in sorted(run.path.glob("checkpoint-*.pt")) if state != "interrupted" else ():
        yield _item(file, "a checkpoint of a finished run" if state == "done" else RESUMES.format(state))


def _named(results: Results) -> set[str]:
    """The runs of all studies and searches."""
    studies = results.root / "studies"
    plans = [read_json(path) or {} for path in studies.glob("*/*/plan*.json")]
    trials = [line for path in studies.glob("*/*/trials-*.jsonl") for line in read_lines(path)]
    return {run[2] for plan in plans for run in plan.get("runs", ())} | {line["id"] for line in trials if "id" in line}


def _item(path: Path, why: str) -> Reclaimable:
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    return Reclaimable(path, sum(file.lstat().st_size for file in files if not file.is_dir()), why)


def _removed(path: Path) -> bool:
    """Remove a file or folder, unless its run has begun since it was listed."""
    if held((path if path.is_dir() else path.parent) / "lock"):
        return False
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    return True


def _in_use(left: list[Path]) -> str:
    return f" In use by now and left alone: {', '.join(path.name for path in left)}." if left else ""
