"""The studies of a results folder: each plan read again only when one of its files has changed."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recstudy.errors import StorageError
from recstudy.records import PlanRecord
from recstudy.records.plans import read_plan

REFUSED = "holds a link, or is one. The board follows none, because it reads nothing outside the results folder."
NO_PLAN = PlanRecord(study="", preset="", base={}, variants=(), seeds=(), runs=(), report=())
Study = tuple[str, str]


@dataclass
class Planned:
    """A study's plan, or why it cannot be shown. `named`: run id -> (variant, seed), as the plan names it first."""

    version: int
    stamp: tuple[tuple[str, int, int], ...]
    plan: PlanRecord = field(default=NO_PLAN, repr=False)
    error: str = ""
    named: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)


def plans(root: Path, before: Mapping[Study, Planned], version: int) -> dict[Study, Planned]:
    """Every study by its name and preset; one that is as `before` is the same object, others are of this `version`."""
    found: dict[Study, Planned] = {}
    for name in folders(root / "studies"):
        for preset in folders(name.path) if name.is_dir(follow_symlinks=False) else ():
            planned = _planned(preset, before.get((name.name, preset.name)), version)
            if planned is not None:
                found[name.name, preset.name] = planned
    return dict(sorted(found.items()))


def folders(path: Path | str) -> Iterator[os.DirEntry[str]]:
    """The folders and links in a folder, which is no link; stray and hidden files are nobody's."""
    if Path(path).is_dir() and not Path(path).is_symlink():
        found = (entry for entry in os.scandir(path) if not entry.name.startswith("."))
        yield from (entry for entry in found if entry.is_symlink() or entry.is_dir())


def _planned(folder: os.DirEntry[str], before: Planned | None, version: int) -> Planned | None:
    """The plan in this folder, read again where one of its files has changed."""
    if not folder.is_dir(follow_symlinks=False):
        return None
    files = list(os.scandir(folder.path))
    found = [(file.name, file.stat(follow_symlinks=False)) for file in files if file.name.endswith((".json", ".jsonl"))]
    stamp = tuple(sorted((name, stat.st_mtime_ns, stat.st_size) for name, stat in found))
    if before is not None and before.stamp == stamp:
        return before
    if any(file.is_symlink() for file in files):
        return Planned(version, stamp, error=f"{'/'.join(Path(folder.path).parts[-3:])} {REFUSED}")
    try:
        plan = read_plan(Path(folder.path))
    except StorageError as damage:
        return Planned(version, stamp, error=str(damage))
    return None if plan is None else Planned(version, stamp, plan, named=_named(plan))


def _named(plan: PlanRecord) -> dict[str, tuple[int, int]]:
    return {run.id: (run.variant, run.seed) for run in reversed(plan.runs)}
