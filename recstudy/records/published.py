"""A published study as a stranger hands it on: a folder, or a zip, which is unpacked within bounds into its own folder alone."""

import os
import re
import shutil
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recstudy.errors import StorageError
from recstudy.records.locks import temporary
from recstudy.records.reading import read_record
from recstudy.records.study_schema import About

ABOUT, RESULTS = "bundle.json", "results"  # below its folder
MOST_FILES, MOST_BYTES, LARGEST = 500_000, 16 * 2**30, 4 * 2**30  # of all files; of one
NO_BUNDLE = "is no bundle. Give a folder or a zip that `recstudy publish` wrote."
PIECE = 2**20  # bytes that are unpacked at once
MEMORY, SMALL = Path("/dev/shm"), 2**28  # a folder in memory, and the bytes for which it is taken


def about_bundle(root: Path, named: str = "") -> About:
    """Return what the bundle in a folder says of itself (StorageError: it is damaged, or no bundle, which is called `named`)."""
    found = read_record(root / ABOUT, About)
    if found is None or any(re.search(r"[/\\]|^\.*$", name) for name in (found.study, found.preset)):
        raise StorageError(f"{named or root} {NO_BUNDLE}")
    return found


@contextmanager
def unzipped(place: Path) -> Iterator[Path]:
    """Give a folder, or the one in a zip, which is there for as long as the block runs.

    Raises:
        StorageError: it is neither, or a zip that would fill the disk, leave its folder or bring links.
    """
    if place.is_dir():
        yield place.absolute()
        return
    if not zipfile.is_zipfile(place):
        raise StorageError(f"{place} {NO_BUNDLE}")
    with temporary(_roomy(place)) as folder:
        _unzip(place, folder)
        tops = list(folder.iterdir())
        yield tops[0] if len(tops) == 1 and tops[0].is_dir() else folder


def _roomy(file: Path) -> Path | None:
    """Return a folder in memory for what a zip unpacks to, where there is one and it is small; None for a temporary one on disk.

    Thousands of small files are made there in a tenth of the time that some disks take.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        room = shutil.disk_usage(MEMORY).free if os.access(MEMORY, os.W_OK) else 0
    except (OSError, zipfile.BadZipFile):  # said when it is unpacked
        return None
    return MEMORY if size < SMALL and 2 * size < room else None


def _unzip(file: Path, folder: Path) -> None:
    """Unpack a zip (StorageError, as `unzipped` says; nothing outside of the folder is written)."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check(file, archive.infolist())
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            for parent in {(folder / entry.filename).parent for entry in entries}:
                parent.mkdir(parents=True, exist_ok=True)
            for entry in entries:
                target = folder / entry.filename
                with archive.open(entry) as packed, open(target, "xb") as content:
                    left = entry.file_size  # what it says; a zip that holds more is cut off and refused
                    while piece := packed.read(PIECE):
                        left -= len(piece)
                        if left < 0:
                            raise zipfile.BadZipFile(f"{entry.filename} is larger than it says")
                        content.write(piece)
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
