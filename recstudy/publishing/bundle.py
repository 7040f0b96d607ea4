"""The layout of a bundle, and the class `Bundle`, which reads bundles of unknown authors.

Code of a bundle is never run, and links are refused.

    BUNDLE/README.md                    the findings, and the commands to verify and reproduce them
           CITATION.cff
           bundle.json                  `About`: the study, versions, and omitted files
           manifest-sha256.txt          one line per file, for `sha256sum -c`
           report/                      page, tables and figures
           results/                     a results folder, readable by all of recstudy
           code/                        the study file and its modules, as text

A zip contains one such folder.
"""

import hashlib
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from recstudy.base.errors import RecstudyError, StorageError, choices
from recstudy.base.files import sha256_of
from recstudy.records import PlanRecord, Results
from recstudy.records.locks import temporary
from recstudy.records.plans import read_plan
from recstudy.records.reading import Proposed, read_record
from recstudy.records.schema import (
    Attempt,
    Failure,
    LossLine,
    Marker,
    Measured,
    Result,
    Settings,
    Stopped,
)
from recstudy.records.study_schema import About, ImportanceRecord, Imported, Look, is_name

if TYPE_CHECKING:
    from recstudy.report.study_records import StudyRecords  # loads pandas

MANIFEST, README, CITATION = "manifest-sha256.txt", "README.md", "CITATION.cff"
REPORT, CODE, ABOUT, RESULTS, PLAN = "report", "code", "bundle.json", "results", "plan.json"
# Files of a study in `results`, and all files of a bundle, with the names of the study and its preset.
STUDY_FILES = r"(plan|imported|(trials|importance|looks)-\w+)\.jsonl?"
LAYOUT = (
    r"README\.md|CITATION\.cff|bundle\.json|manifest-sha256\.txt|(report|code)/.+|results/(recstudy\.json"
    r"|studies/(looks\.jsonl|%s/%s/" + STUDY_FILES + r")|runs/[^/]+/([^/]+\.(json|npz)"
    r"|(attempts|epochs|losses)\.jsonl|attempt-\d+/result\.json))"
)
KINDS: dict[str, Any] = {  # beginning of the name of a JSON file -> the class of its records
    "attempts": Attempt, "bundle": About, "config": Settings, "failure": Failure,
    "importance": ImportanceRecord, "imported": Imported, "looks": Look,
    "losses": LossLine, "measured": Measured, "plan": PlanRecord, "recstudy": Marker, "result": Result,
    "stopped": Stopped, "trials": Proposed,
}  # fmt: skip
# Limits of a bundle, so that a small zip cannot fill the disk.
MOST_FILES, MOST_BYTES = 200_000, 2 * 10**9
PAGES = "HTML pages, which `recstudy report` writes again"  # the reason of `publish --without-pages`
NO_BUNDLE = "is no bundle. Give a folder or a zip from `recstudy publish`."


def drawing_packages() -> dict[str, str]:
    """Return the versions of the packages that determine the output of a report."""
    return {name: version(name) for name in ("jinja2", "numpy", "pandas", "plotly", "scipy")}


def drawing_code() -> str:
    """Return a digest of recstudy's files and of `drawing_packages`.

    With the same digest, the same records give the same report.
    """
    package, total = Path(__file__).parents[1], hashlib.sha256(repr(drawing_packages()).encode())
    for file in sorted(package.rglob("*")):
        if file.is_file() and file.suffix != ".pyc":
            total.update(f"{file.relative_to(package).as_posix()}\0".encode() + file.read_bytes())
    return total.hexdigest()[:16]


def has_no_pages(about: About) -> bool:
    """Whether the bundle was published without the HTML pages of its report."""
    return any(line.startswith(PAGES) for line in about.left_out)


def is_page(name: str) -> bool:
    """Whether a file of a report is an HTML page, or the library of such pages."""
    return name.endswith((".html", ".js"))


def checksum_lines(digests: dict[str, str]) -> str:
    """Return a manifest in the format of `sha256sum -c`."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def digest_of_records(digests: dict[str, str]) -> str:
    """Return one digest of all records, from the digest of each file."""
    records = {name: digest for name, digest in digests.items() if name.startswith(f"{RESULTS}/")}
    return hashlib.sha256(checksum_lines(records).encode()).hexdigest()


@dataclass(frozen=True)
class Bundle:
    """A published study in a folder, its root."""

    root: Path

    @cached_property
    def about(self) -> About:
        """The content of `bundle.json`. Raises StorageError if this is no bundle or the file is damaged."""
        about = read_record(self.root / ABOUT, About)
        if about is None or not (is_name(about.study) and is_name(about.preset)):
            raise StorageError(f"{self.root} {NO_BUNDLE}")
        return about

    @cached_property
    def manifest(self) -> dict[str, str]:
        """File -> its SHA-256 in the manifest. Raises StorageError if the manifest cannot be read."""
        try:
            lines = (self.root / MANIFEST).read_text(encoding="utf-8").splitlines()
            digests = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
            if len(digests) < len(lines):
                raise ValueError("it lists a file twice")
            return digests
        except (OSError, ValueError) as error:
            raise StorageError(f"{MANIFEST} cannot be read: {error}.") from None

    @cached_property
    def files(self) -> dict[str, Path]:
        """Relative name -> path of every file.

        Raises:
            StorageError: There is a link or a special file, a wrong name, or the bundle is too large.
        """
        paths = {path.relative_to(self.root).as_posix(): path for path in sorted(self.root.rglob("*"))}
        refuse_entries(self.root, ((name, path.lstat().st_size) for name, path in paths.items()))
        for path in paths.values():
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                raise StorageError(
                    f"{path} is a link or a special file. A bundle must contain only regular files."
                )
        return {name: path for name, path in paths.items() if path.is_file()}

    @cached_property
    def digests(self) -> dict[str, str]:
        """File -> its computed SHA-256, without the manifest. Raises StorageError if a file is unreadable."""
        try:
            return {name: sha256_of(file) for name, file in self.files.items() if name != MANIFEST}
        except OSError as error:
            raise StorageError(
                f"{error.filename} cannot be read: {error.strerror}. Make every file of the bundle readable."
            ) from None

    @property
    def results(self) -> Results:
        return Results(self.root / RESULTS)

    @property
    def study(self) -> Path:
        """The study's folder in `results`."""
        return self.results.study(self.about.study, self.about.preset)

    @cached_property
    def records(self) -> "StudyRecords":
        """Its plan and runs, without plug-ins, so that no code of the bundle is imported.

        Raises:
            StorageError: A record is damaged.
            ConfigError: The study is not in the bundle.
        """
        from recstudy.report.study_records import load_study

        records = load_study(self.results, self.about.study, self.about.preset)
        # Without plug-ins, no code of the bundle is imported.
        return in_bundle(replace(records, plan=replace(records.plan, plugins=())))

    @property
    def plan(self) -> PlanRecord:
        return self.records.plan

    @cached_property
    def modules(self) -> list[str]:
        """The modules with the study's own definitions, which `plan` leaves out."""
        plan = read_plan(self.study)
        return [plugin["module"] for plugin in plan.plugins if plugin["module"]] if plan else []


def in_bundle(records: "StudyRecords") -> "StudyRecords":
    """Return records whose commands name the path relative to the bundle, wherever the bundle is."""
    return replace(records, given_path=f"{RESULTS}/studies/{records.plan.study}/{records.plan.folder}")


def refuse_entries(place: Path, entries: Iterable[tuple[str, int]]) -> None:
    """Check the names and sizes of the files of a bundle.

    Raises:
        StorageError: There are too many files or bytes, or a name is no path below a folder, or two names may
            be of the same file.
    """
    total, known_names = 0, set[str]()
    for name, size in entries:
        total += size
        if total > MOST_BYTES or len(known_names) == MOST_FILES:
            raise StorageError(
                f"{place} is too large. A bundle has at most {MOST_FILES:,} files and"
                f" {MOST_BYTES / 1e9:g} GB."
            )
        key = normalize("NFC", name).casefold()
        if "\\" in name or not all(map(is_name, name.split("/"))) or key in known_names:
            raise StorageError(
                f"{place} has the entry {name!r}, which is no path below a folder or, apart from upper and"
                " lower case, the path of another entry."
            )
        known_names.add(key)


@contextmanager
def open_bundle(place: Path) -> Iterator[Bundle]:
    """Open the bundle in a folder or zip. A zip is unpacked to a temporary folder during the block.

    Args:
        place: The folder or the zip.

    Raises:
        StorageError: `place` is no folder and no zip, or the zip is damaged, too large, or has more than
            the bundle's folder.
    """
    if place.is_dir():
        yield Bundle(place.absolute())
        return
    if not zipfile.is_zipfile(place):
        raise StorageError(f"{place} {NO_BUNDLE}")
    with temporary() as folder:
        try:
            with zipfile.ZipFile(place) as archive:
                entries = archive.infolist()
                # zipfile shortens a name at NUL, so its original name is checked.
                names = [entry.orig_filename.removesuffix("/") for entry in entries]
                refuse_entries(place, zip(names, (entry.file_size for entry in entries), strict=True))
                tops = dict.fromkeys(name.partition("/")[0] for name in names)
                if len(tops) != 1 or any([archive.comment, *(entry.comment for entry in entries)]):
                    raise StorageError(
                        f"{place} has the entries {choices(map(repr, tops), limit=6)} or a comment, but a"
                        " bundle is one folder without comments. Remove the rest."
                    )
                # zipfile writes only regular files below the folder, each with at most its stated size.
                archive.extractall(folder)
        except (zipfile.BadZipFile, EOFError, RuntimeError, OSError, ValueError, zlib.error) as error:
            raise StorageError(f"{place} cannot be unpacked: {error}.") from None
        root = folder / next(iter(tops))
        try:
            yield Bundle(root)
        except RecstudyError as error:
            error.args = (str(error).replace(str(root), str(place)),)
            raise
