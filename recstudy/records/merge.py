"""Two results folders as one: what one has and the other lacks is copied, and where both have something, both is kept.

Run ids decide. A finished run takes the place of an unfinished one. Of two finished attempts of one id, that of the folder that
receives stays what reports show, and the other's is kept in `runs/ID/other-N`. The other folder is only read: links and special
files in it are passed over, and nothing in it is changed.

Everything is copied into a folder beside, flushed, and then renamed, the result of a run last. So a merge that is killed leaves
every run as it was before or whole, and the same command goes on. `merges.jsonl` says afterwards which runs have other attempts.
"""

import filecmp
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import file_digest
from pathlib import Path

from rich.console import Console
from rich.text import Text

from recstudy.errors import ConfigError, StorageError
from recstudy.files import remove
from recstudy.opened import contents, descriptor, there
from recstudy.records.files import MARKER, megabytes, write_whole
from recstudy.records.locks import held
from recstudy.records.merge_plans import merged_study, unite
from recstudy.records.plans import read_plan
from recstudy.records.reading import append_record, read_log, read_record, write_record
from recstudy.records.results import Results
from recstudy.records.run_folder import EARLIER, OTHER, STAYS, RunFolder
from recstudy.records.schema import Marker, Measured, MergeLine, Result, now
from recstudy.records.stores import is_uri

TAKEN = (".json", ".jsonl", ".npz", ".safetensors", ".pt")  # of a run's folder; all else is a process's, or not recstudy's
ASIDE = ".recstudy-merge"  # what is copied lies here first; `recstudy clean` removes what a killed merge leaves
BATCH, BATCH_BYTES = 1000, 2_000_000_000  # copies, and what they hold, between two flushes to the disk
DAMAGED, FAILED, STOPPED, FINISHED = -1, 1, 2, 3  # how far a run is; 0 where it is neither
NAMED = 4  # metrics that a line names before it counts the others
SAID = {
    "new": "new",
    "finished": "in the place of unfinished ones, which are kept beside",
    "same": "the same in both",
    "apart": "another attempt, kept beside ours",
    "before": "another attempt that was kept before",
    "less": "not taken, because ours got as far",
}
ALSO = {
    "plans": "files of studies",
    "files": "files that ours lacked",
    "notes": "logs of notes and tags",
    "weights": "weights to start from",
}
Files = dict[str, os.DirEntry[str]]


def show_merge(own: Path, other: Path, into: Path | None, dry: bool, out: Console) -> None:
    """Merge results folders and print what was copied, what was kept beside, and each conflict in a line.

    Args:
        own: receives `other`, unless `into` is given.
        other: is only read.
        into: receives both, the first one first; it may be new.
        dry: print what would be done, and change nothing.
        out: where it is said.

    Raises:
        ConfigError: one is no results folder, or lies in another one.
        StorageError: a study in one of them is being run, or the folder that receives cannot be written.
    """
    target, sources = (own, [other]) if into is None else (into, [own, other])
    for folder in (own, other):
        _check(folder)
    for folder in sources:
        one, two = folder.resolve(), target.resolve()
        if one == two or one in two.parents or two in one.parents:
            raise ConfigError(f"{folder} and {target} are one folder, or one lies in the other: name two that are apart")
    results = Results(target)
    if not dry:
        results.create()
    with nullcontext() if dry else results.cleaning():  # no driver begins here meanwhile
        for folder in (target, *sources):
            _idle(folder)
        for folder in sources:
            merging = _Merging(results, Results(folder), dry)
            try:
                merging.run()
            except OSError as error:
                raise StorageError(
                    f"cannot merge {folder}: {error.strerror} ({error.filename}). The same command goes on"
                ) from None
            for line in merging.said:
                out.print(Text(line), soft_wrap=True)
    last = "Nothing was changed; without --dry-run it is." if dry else f"Draw the reports again with: recstudy report {target}"
    out.print(Text(last), soft_wrap=True)


def differing(own: Result | None, other: Result | None) -> str:
    """Say in which numbers two attempts of one run differ."""
    assert own is not None
    assert other is not None
    apart = [name for name in {**own.metrics, **other.metrics} if own.metrics.get(name) != other.metrics.get(name)]
    told = [f"{name} {own.metrics.get(name)} here, {other.metrics.get(name)} there" for name in apart[:NAMED]]
    told += [f"{len(apart) - NAMED} more metrics differ"] if len(apart) > NAMED else []
    told += [f"{own.status} here, {other.status} there"] if own.status != other.status else []
    return "; ".join(told) or "the same numbers, made at other times"


def merged_runs(results: Results) -> set[str]:
    """Return the ids of the runs of which a merge has kept other attempts."""
    try:
        return {run for line in read_log(results.merges, MergeLine) for run in line.others}
    except StorageError:  # then every run may have some
        return {folder.name for folder in results.run_folders()}


def _check(folder: Path) -> None:
    if is_uri(str(folder)) or not there(folder.absolute() / MARKER):
        kind = "merge takes folders on this machine" if ":/" in str(folder) else f"{MARKER} is missing"
        raise ConfigError(f"{folder} is no results folder: {kind}")
    read_record(folder / MARKER, Marker)


def _idle(folder: Path) -> None:
    for name in _entries(folder / "studies")[1]:
        for preset in _entries(name.path)[1]:
            if "lock" in _entries(preset.path)[0] and held(Path(preset.path, "lock")):
                raise StorageError(f"{preset.path} is being run. Wait for it or stop it, then merge")


def _entries(folder: Path | str) -> tuple[Files, list[os.DirEntry[str]], list[str]]:
    """Return a folder's plain files by name, its folders, and its links and special files; hidden ones are nobody's."""
    files, folders, strange = Files(), list[os.DirEntry[str]](), list[str]()
    if Path(folder).is_dir() and not Path(folder).is_symlink():
        for entry in os.scandir(folder):
            if entry.name.startswith("."):
                continue
            if entry.is_file(follow_symlinks=False):
                files[entry.name] = entry
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry)
            else:
                strange.append(entry.path)
    return files, sorted(folders, key=lambda entry: entry.name), strange


def _taken(files: Files) -> Files:
    return {name: entry for name, entry in files.items() if name.endswith(TAKEN)}


def _progress(files: Files) -> int:
    """Return how far a run with these files is."""
    if "result.json" in files:
        try:
            read_record(files["result.json"].path, Result)
        except StorageError:
            return DAMAGED
        return FINISHED
    return STOPPED if "stopped.json" in files else FAILED if "failure.json" in files else 0


def _attempts(folders: Sequence[os.DirEntry[str]]) -> dict[str, Files]:
    """Return the folders of further attempts among these, with the files of those that have a readable result."""
    kinds = (f"{EARLIER}-", f"{OTHER}-")
    named = (entry for entry in folders if entry.name.startswith(kinds) and entry.name.rpartition("-")[2].isdigit())
    found = {entry.name: _taken(_entries(entry.path)[0]) for entry in named}
    return {name: files for name, files in found.items() if _progress(files) != DAMAGED}


def _bytes(files: Files) -> bytes:
    """Return a result as it stands there; empty where there is none. Two attempts never have the same: it has their times."""
    return contents(files["result.json"].path) if "result.json" in files else b""


@dataclass
class _Merging:
    """One folder that is merged into another."""

    ours: Results
    theirs: Results
    dry: bool
    counts: Counter[str] = field(default_factory=Counter)
    conflicts: list[str] = field(default_factory=list)
    others: dict[str, int] = field(default_factory=dict)  # run of which attempts are kept beside ours -> how many were added
    labels: dict[str, str] = field(default_factory=dict)  # of the runs that studies name
    size: int = 0  # bytes that are copied
    _copied: list[Callable[[], object]] = field(default_factory=list)  # what puts the copies into their places
    _flushed: int = 0  # `size` at the last flush

    def run(self) -> None:
        """Merge: plans before runs, because a run that no plan names might be cleaned away."""
        if not self.dry:
            remove(self._aside)
        for name in self._folders("studies"):
            for preset in _entries(name.path)[1]:
                self._study(name.name, preset)
        for run in self._folders("runs"):
            self._run(run)
            if len(self._copied) >= BATCH or self.size - self._flushed > BATCH_BYTES:
                self._flush()
        self._weights()
        self._flush()
        if self.dry:
            return
        remove(self._aside)
        before = {run for line in read_log(self.ours.merges, MergeLine) for run in line.others}
        line = MergeLine(
            date=now(),
            source=self.theirs.root.name,
            runs=self.counts["new"] + self.counts["finished"],
            others=tuple(run for run in self.others if run not in before),
        )
        if line.runs or line.others:
            append_record(self.ours.merges, line)

    @property
    def said(self) -> list[str]:
        """A line of counts, and one a conflict."""
        runs, also = (
            ", ".join(f"{self.counts[key]:,} {words}" for key, words in kinds.items() if self.counts[key])
            for kinds in (SAID, ALSO)
        )
        head = f"{self.theirs.root}: runs: {runs or 'none'}{f'; {also}' if also else ''}; {megabytes(self.size)} copied"
        return [head, *(f"conflict: {line}" for line in self.conflicts)]

    @property
    def _aside(self) -> Path:
        return self.ours.root / ASIDE

    def _folders(self, name: str) -> Iterator[os.DirEntry[str]]:
        """Yield the folders below `runs` or `studies` of theirs; links are named."""
        place = self.theirs.root / name
        _, folders, strange = _entries(place)
        self._pass_over([str(place)] if place.is_symlink() else strange)
        yield from folders

    def _pass_over(self, strange: Sequence[str]) -> None:
        self.conflicts += [f"{path} is a link or a special file, which is not followed" for path in strange]

    def _study(self, name: str, preset: os.DirEntry[str]) -> None:
        ours, theirs = self.ours.study(name, preset.name), Path(preset.path)
        if strange := _entries(theirs)[2]:
            self._pass_over(strange)
            return
        try:
            files, said = merged_study(ours, theirs)
            if plan := read_plan(theirs):
                self.labels |= {run.id: f"{name}: {plan.variants[run.variant].label}, seed {run.seed}" for run in plan.runs}
        except StorageError as damage:
            self.conflicts.append(f"studies/{name}/{preset.name} is left out: {damage}")
            return
        self.conflicts += said
        self.counts["plans"] += len(files)
        for file in sorted(files, key=lambda file: file == "plan.json") if not self.dry else ():
            ours.mkdir(parents=True, exist_ok=True)
            write_whole(ours / file, files[file])

    def _run(self, found: os.DirEntry[str]) -> None:
        theirs, ours = RunFolder(Path(found.path)), self.ours.run(found.name)
        files, folders, strange = _entries(theirs.path)
        self._pass_over(strange)
        if ("lock" in files and held(theirs.lock)) or held(ours.lock):
            self.conflicts.append(f"run {found.name} is under way and left out: merge again once it has ended")
            return
        files, further, there = _taken(files), _attempts(folders), _progress(files)
        if there == DAMAGED:
            self.conflicts.append(f"run {found.name} is left out: {theirs.result} is damaged")
            return
        if not ours.path.is_dir():
            self.counts["new"] += 1
            self._take(ours, files, further)
            return
        own, beside, _ = _entries(ours.path)
        known = {_bytes(own), *map(_bytes, _attempts(beside).values())}
        here = _progress(own)
        if here == there == FINISHED:
            self._both(ours, files, own, known)
        elif there > here:
            self.counts["finished"] += 1
            self._replace(ours, files, own)
        else:
            self.counts["less"] += 1
        for one in further.values():
            if _bytes(one) not in known:
                known.add(_bytes(one))
                self._beside(ours, one)
        if "notes.jsonl" in files and (united := unite(ours.notes, theirs.notes)) is not None:
            self.counts["notes"] += 1
            if not self.dry:
                write_whole(ours.notes, united)

    def _both(self, ours: RunFolder, files: Files, own: Files, known: set[bytes]) -> None:
        """Bring together two finished runs of one id: the same attempt, or two."""
        run, other = ours.path.name, _bytes(files)
        if other == _bytes(own):
            self.counts["same"] += 1
            self._complete(ours, files, own)
        elif other in known:
            self.counts["before"] += 1
            self.others.setdefault(run, 0)
        else:
            self.counts["apart"] += 1
            known.add(other)
            place = self._beside(ours, files)
            label = f" ({self.labels[run]})" if run in self.labels else ""
            words = differing(*(read_record(one["result.json"].path, Result) for one in (own, files)))
            self.conflicts.append(f"run {run}{label}: {words}; ours is shown, theirs kept in runs/{run}/{place}")

    def _complete(self, ours: RunFolder, files: Files, own: Files) -> None:
        """Add to a run what theirs has of the same attempt: files, and metrics that were computed since."""
        lacking = {name: one for name, one in files.items() if name not in own and name not in STAYS and not name.endswith(".pt")}
        if lacking:
            self.counts["files"] += len(lacking)
            aside = self._copy(ours.path.name, lacking)
            self._then(partial(_moved, aside, ours.path, [*lacking]))
        if "measured.json" in files and "measured.json" in own:
            mine, since = (read_record(one["measured.json"].path, Measured) or Measured() for one in (own, files))
            apart = [
                name for name, one in since.metrics.items() if name in mine.metrics and mine.metrics[name].value != one.value
            ]
            if apart:
                words = f"{apart[0]} {mine.metrics[apart[0]].value} here, {since.metrics[apart[0]].value} there"
                self.conflicts.append(f"run {ours.path.name}: computed later on both sides, {words}; ours stays")
            if since.metrics.keys() - mine.metrics.keys():
                self.counts["files"] += 1
                if not self.dry:
                    write_record(ours.measured, replace(mine, metrics={**since.metrics, **mine.metrics}))

    def _take(self, ours: RunFolder, files: Files, further: dict[str, Files]) -> None:
        """Take a run that ours has not, with all of its attempts."""
        aside = self._copy(ours.path.name, files)
        for name, own in further.items():
            self._copy(f"{ours.path.name}/{name}", own)
            if name.startswith(OTHER):
                self.others.setdefault(ours.path.name, 0)
        self._then(lambda: aside.rename(ours.path))

    def _replace(self, ours: RunFolder, files: Files, own: Files) -> None:
        """Put theirs, which is further, in the place of ours, whose records are kept beside."""
        files = {name: one for name, one in files.items() if name not in STAYS}
        aside = self._copy(ours.path.name, files)
        left = [name for name in own if name not in STAYS]
        begun = all(name in files and filecmp.cmp(own[name].path, files[name].path, shallow=False) for name in left)
        if not begun:  # else ours is what a killed merge has put there of theirs
            self.others[ours.path.name] = 1

        def replaced() -> None:
            ours.sweep()
            if not begun:
                ours.archive(OTHER)
            _moved(aside, ours.path, sorted(files, key=lambda name: name == "result.json"))
            for checkpoint in ours.path.glob(f"{OTHER}-*/checkpoint-*.pt") if ours.finished else ():
                checkpoint.unlink()

        self._then(replaced)

    def _beside(self, ours: RunFolder, files: Files) -> str:
        """Keep an attempt in a folder of its own. Returns the folder's name."""
        run = ours.path.name
        place = f"{OTHER}-{ours.free(OTHER) + self.others.get(run, 0)}"
        self.others[run] = self.others.get(run, 0) + 1
        aside = self._copy(f"{run}.{place}", {name: one for name, one in files.items() if name not in STAYS})
        self._then(lambda: aside.rename(ours.path / place))
        return place

    def _copy(self, place: str, files: Files) -> Path:
        """Copy files of theirs aside, a piece at a time."""
        aside = self._aside / place
        self.size += sum(entry.stat(follow_symlinks=False).st_size for entry in files.values())
        if not self.dry:
            aside.mkdir(parents=True)
            for name, entry in files.items():
                with open(entry.path, "rb", opener=descriptor) as source, open(aside / name, "wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        return aside

    def _then(self, put: Callable[[], object]) -> None:
        """Have a copy put into its place once it is flushed to the disk, with some others."""
        if not self.dry:
            self._copied.append(put)

    def _flush(self) -> None:
        if self._copied:
            os.sync()  # once for many: a flush a file takes a hundred times as long
        for put in self._copied:
            put()
        self._copied, self._flushed = [], self.size

    def _weights(self) -> None:
        """Take the weights that runs start from; their names are their digests."""
        files, folder = _taken(_entries(self.theirs.root / "weights")[0]), self.ours.root / "weights"
        for name in [name for name in files if name.endswith(".safetensors") and not (folder / name).exists()]:
            with open(files[name].path, "rb", opener=descriptor) as file:
                digest = file_digest(file, "sha256").hexdigest()
            if not digest.startswith(Path(name).stem):
                self.conflicts.append(f"{files[name].path} is damaged and left out: its name is not its digest")
                continue
            self.counts["weights"] += 1
            both = {one: files[one] for one in (f"{Path(name).stem}.json", name) if one in files}  # in this order
            self._then(partial(_moved, self._copy(f"weights-{name}", both), folder, [*both]))


def _moved(aside: Path, folder: Path, names: Sequence[str]) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        os.replace(aside / name, folder / name)
