"""A published study on disk, and reading one that a stranger wrote: nothing in it is run, followed or trusted.

    BUNDLE/README.md                    what it is, and the commands that check and repeat it
           CITATION.cff
           bundle.json                  `About`: what made it, and what was left out
           manifest-sha256.txt          a line a file, as `sha256sum -c` reads it
           report/                      page, tables, figures
           results/                     a results folder, which every reader of recstudy takes
           code/                        the study's file and its modules, as text

A zip holds one such folder. Sizes are bounded before anything is unpacked.
"""

import hashlib
import re
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from recstudy.errors import StorageError
from recstudy.records import PlanRecord, Results
from recstudy.records.locks import temporary
from recstudy.records.reading import read_record
from recstudy.records.study_schema import About

if TYPE_CHECKING:
    from recstudy.report.study_records import StudyRecords  # brings pandas

MANIFEST, README, CITATION = "manifest-sha256.txt", "README.md", "CITATION.cff"
REPORT, CODE = "report", "code"
ABOUT, RESULTS = "bundle.json", "results"  # below its folder
MOST_FILES, MOST_BYTES, LARGEST = 500_000, 16 * 2**30, 4 * 2**30  # of all files; of one
NO_BUNDLE = "is no bundle. Give a folder or a zip that `recstudy publish` wrote."
LINE = re.compile(r"([0-9a-f]{64})  (.+)")
READERS = ("config", "evidence", "metrics", "papers", "records", "report")  # the rooms that decide what is printed
DRAWING = ("numpy", "pandas", "plotly", "scipy")  # and the packages


def drawing_code() -> str:
    """Return a digest of the code that makes reports: two that are alike print the same of the same records."""
    package, total = Path(__file__).parents[1], hashlib.sha256()
    files = (file for room in READERS for file in sorted((package / room).rglob("*")) if file.suffix != ".pyc" and file.is_file())
    for file in files:
        total.update(f"{file.relative_to(package).as_posix()}\0".encode() + file.read_bytes())
    return total.hexdigest()[:16]


def drawing_packages() -> dict[str, str]:
    return {name: version(name) for name in DRAWING}


def sha256_of(file: Path) -> str:
    """Return the digest of a file's bytes, of which few are in memory."""
    with open(file, "rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def digest_of_records(manifest: dict[str, str]) -> str:
    """Return one digest of all records, from the digest of each."""
    lines = (f"{digest}  {name}\n" for name, digest in sorted(manifest.items()) if name.startswith(f"{RESULTS}/"))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@dataclass(frozen=True)
class Bundle:
    """A published study in a folder.

    `records` has its runs, and reads none of its code: parts of the report that its plug-ins define are not drawable here.

    Args:
        root: the folder.
        named: what a user calls it, where that is another place.
    """

    root: Path
    named: str = ""

    @cached_property
    def about(self) -> About:
        """What it says of itself (StorageError: it is damaged, or no bundle)."""
        found = read_record(self.root / ABOUT, About)
        if found is None or any(re.search(r"[/\\]|^\.*$", name) for name in (found.study, found.preset)):
            raise StorageError(f"{self.named or self.root} {NO_BUNDLE}")
        return found

    @cached_property
    def manifest(self) -> dict[str, str]:
        """File -> its SHA-256, as stated (StorageError)."""
        try:
            lines = (self.root / MANIFEST).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise StorageError(f"{self.root / MANIFEST} cannot be read: {error}.") from None
        found = [LINE.fullmatch(line) for line in lines]
        if None in found:
            raise StorageError(f"line {found.index(None) + 1} of {self.root / MANIFEST} is no digest with a file's name.")
        return {one[2]: one[1] for one in found if one}

    @cached_property
    def files(self) -> dict[str, Path]:
        """Every file by its name below the folder.

        Raises:
            StorageError: there is a link, or something else that is neither file nor folder.
        """
        return {file.relative_to(self.root).as_posix(): file for file in sorted(_regular(self.root))}

    @cached_property
    def digests(self) -> dict[str, str]:
        """File -> its SHA-256, of all but the manifest."""
        return {name: sha256_of(file) for name, file in self.files.items() if name != MANIFEST}

    @property
    def results(self) -> Results:
        return Results(self.root / RESULTS)

    @property
    def study(self) -> Path:
        """The study's folder in `results`."""
        return self.results.study(self.about.study, self.about.preset)

    @cached_property
    def records(self) -> "StudyRecords":
        """Its plan and runs (StorageError; ConfigError: there is no such study in it)."""
        from recstudy.report.study_records import load_study

        records = load_study(self.results, self.about.study, self.about.preset)
        return called(replace(records, plan=replace(records.plan, plugins=())))

    @property
    def plan(self) -> PlanRecord:
        """The plan, without its plug-ins, so that nobody imports them."""
        return self.records.plan


def called(records: "StudyRecords") -> "StudyRecords":
    """Return records that commands call by their place in a bundle, wherever that lies."""
    return replace(records, called=f"{RESULTS}/studies/{records.plan.study}/{records.plan.folder}")


@contextmanager
def opened(place: Path) -> Iterator[Bundle]:
    """Give the bundle in a folder, or in a zip, which is unpacked for as long as the block runs.

    Raises:
        StorageError: it is neither, or a zip that would fill the disk, leave its folder or bring links.
    """
    if place.is_dir():
        yield Bundle(place.absolute())
        return
    if not zipfile.is_zipfile(place):
        raise StorageError(f"{place} {NO_BUNDLE}")
    with temporary() as folder:
        _unzip(place, folder)
        tops = list(folder.iterdir())
        yield Bundle(tops[0] if len(tops) == 1 and tops[0].is_dir() else folder, str(place))


def _regular(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        kind = path.lstat().st_mode
        if stat.S_ISDIR(kind):
            yield from _regular(path)
        elif stat.S_ISREG(kind):
            yield path
        else:
            raise StorageError(f"{path} is a link or no file. A bundle has files alone.")


def _unzip(file: Path, folder: Path) -> None:
    """Unpack a zip (StorageError, as `opened` says; nothing outside of the folder is written)."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check(file, archive.infolist())
            archive.extractall(folder)  # of each no more than the size that it states, which must have its checksum
    except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, RuntimeError, OSError, ValueError) as error:
        raise StorageError(f"{file} cannot be unpacked: {error}.") from None


def _check(file: Path, entries: Iterable[zipfile.ZipInfo]) -> None:
    """Refuse (StorageError) a zip whose entries are too many, too large, links, or named to lie elsewhere."""
    names: set[str] = set()
    total = 0
    for entry in entries:
        name, kind = entry.filename.rstrip("/"), stat.S_IFMT(entry.external_attr >> 16)
        total += entry.file_size
        why = ""
        if len(names) >= MOST_FILES or total > MOST_BYTES or entry.file_size > LARGEST:
            why = "is more than a bundle may hold"
        elif kind not in (0, stat.S_IFREG, stat.S_IFDIR) or entry.flag_bits & 1:
            why = "is a link, a device or encrypted"
        elif not name or "\\" in name or "\0" in name or any(part in ("", ".", "..") or ":" in part for part in name.split("/")):
            why = "lies outside of the bundle"
        elif name in names:
            why = "is in it twice"
        if why:
            raise StorageError(f"{file} is refused: {entry.filename!r} {why}.")
        names.add(name)
