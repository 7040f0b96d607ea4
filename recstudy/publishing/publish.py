"""`recstudy publish`: a study as a bundle, which is verified before it is there, and the same bytes each time.

The records are copied without what is private (`scrub.py`), the report is drawn of these copies, and everything is then read
again as a stranger would read it. Images, captions and puzzles of a data set are left out unless a program made them or they are
asked for: their licence is not ours to give.
"""

import hashlib
import json
import re
import shlex
import shutil
import stat
import zipfile
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from pydantic_core import from_json

from recstudy.errors import ConfigError, StorageError
from recstudy.files import refuse_existing
from recstudy.opened import contents, descriptor, entries
from recstudy.plugins.files import paths
from recstudy.publishing import about, bundle
from recstudy.publishing.bundle import CODE, REPORT, RESULTS, Bundle, called, sha256_of
from recstudy.publishing.scrub import private
from recstudy.publishing.verify import verify
from recstudy.records import MARKER, Attempt, PlanRecord, Results, read_log
from recstudy.records.files import whole_lines
from recstudy.records.plans import record_look
from recstudy.records.run_folder import EARLIER
from recstudy.records.study_schema import About
from recstudy.report.names import plural
from recstudy.report.study_records import StudyRecords, load_study
from recstudy.report.venues import ARTICLE
from recstudy.report.writing import write_files
from recstudy.report.written import MANIFEST as WRITTEN
from recstudy.shipped import shipped

RECORDS = (
    "config.json", "files.json", "attempts.jsonl", "epochs.jsonl", "losses.jsonl",
    "measured.json", "result.json", "failure.json", "stopped.json",
)  # fmt: skip
ANSWERS, WEIGHTS = "answers.npz", "weights.safetensors"
KEPT = (".npz", ".json")  # what else a run keeps to be looked at: pictures, captions, traces of single items
MADE = (1980, 1, 1, 0, 0, 0)  # the time of every file in a zip: the first that it can state
PACKED = (".npz", ".safetensors", ".png", ".pdf", ".gif")  # compressed already
LIBRARY = re.compile(r'<script type="application/octet-stream".*?</script>', re.S)  # packed: it is not read
NUMBERS = re.compile(rb'\{(?:"[\w.@]+": (?:-?[\d.eE+-]+|null|true|false)(?:, )?)*\}')  # a line without words


@dataclass(frozen=True)
class Asked:
    """What goes into a bundle.

    Args:
        weights: those of the selected epochs too.
        data: items of data sets too (images, captions, puzzles), that no program has made.
        authors: as CITATION.cff names them.
        licence: an SPDX name or an address.
        study: the study's file, where its command does not tell.
        allowed: names of hosts or users that may be told.
        trust: import the modules that the study names, to draw its own parts.
    """

    weights: bool = False
    data: bool = False
    authors: tuple[str, ...] = ()
    licence: str = ""
    study: Path | None = None
    allowed: tuple[str, ...] = ()
    trust: bool = False


def publish(results: Results, name: str, preset: str, out: Path, asked: Asked = Asked()) -> tuple[Path, list[str]]:
    """Write a study's bundle as folder `out` and as `out`.zip.

    Returns:
        The folder, and lines on what was left out of it.

    Raises:
        ConfigError: no such study; `out` is there; something private stands in what its author wrote.
        StorageError: a record is damaged.
    """
    packed = out.with_name(f"{out.name}.zip")
    refuse_existing(out)
    refuse_existing(packed)
    record_look(results, name, preset)
    records = load_study(results, name, preset)
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as temporary:
        folder = Path(temporary)
        made = _Writer(records, folder / out.name, asked).write()
        found = verify(Bundle(folder / out.name))
        if found.differences:
            first = found.differences[0]
            raise StorageError(f"the bundle would not verify ({plural(len(found.differences), 'difference')}): {first}")
        _zip(folder / out.name, folder / packed.name)
        (folder / packed.name).replace(packed)
        (folder / out.name).replace(out)
    return out, made


class _Writer:
    """Writes one bundle into an empty folder."""

    def __init__(self, records: StudyRecords, root: Path, asked: Asked) -> None:
        self.records, self.root, self.asked = records, root, asked
        self.plan, self.results = records.plan, records.results
        hosts = {row.provenance.hardware.host for row in records.rows}
        for row in records.rows:
            with suppress(StorageError):  # a damaged log is refused when it is copied
                hosts |= {line.host for line in read_log(self.results.run(row.id).attempts, Attempt)}
        names = {name for host in hosts for name in (host, host.partition(".")[0]) if name}
        self.private = private(self.results.root, names, asked.allowed)
        self.left: Counter[str] = Counter()  # why -> files
        self.code: dict[str, str] = {}
        self.captions: dict[int, bool] = {}  # variant -> whether its answers hold captions that are not ours to give

    def write(self) -> list[str]:
        """Write all of it; return what was left out, in words."""
        self.root.mkdir(parents=True)
        self._records()
        self._code()
        self._refuse_private((RESULTS, CODE))
        self._report()
        self._refuse_private((REPORT,))
        left = [f"{why}: {plural(count, 'file')}" for why, count in sorted(self.left.items())]
        self._about(left)
        return left

    # ------------------------------------------------------------------------------------------------------- records

    def _records(self) -> None:
        study = self.results.study(self.plan.study, self.plan.folder)
        target = Results(self.root / RESULTS)
        self._copy(self.results.root / MARKER, target.root)
        for file in _plain(study):
            if file.suffix in (".json", ".jsonl") and file.name != "orders.jsonl" and not file.match("plan-*.json"):
                self._copy(file, target.study(self.plan.study, self.plan.folder))
        for run_id, variant in sorted({run.id: run.variant for run in self.plan.runs}.items()):
            self._run(run_id, target.run(run_id).path, variant)
        for file in _plain(self.results.root / "weights") if self.asked.weights else ():
            self._copy(file, target.root / "weights")
        (target.root / "runs").mkdir(exist_ok=True)

    def _run(self, run_id: str, target: Path, variant: int) -> None:
        folder, free = self.results.run(run_id), self.asked.data or variant in self.records.synthetic
        self.results.fetched(folder.answers)
        for file in _plain(folder.path):
            reason = ""  # why the file is left out
            if file.name == WEIGHTS:
                reason = "" if self.asked.weights else "weights"
            elif file.name == ANSWERS:
                if variant not in self.captions:  # those of its other seeds are of the same data
                    kept = self.records.program.answers(file)
                    self.captions[variant] = not free and kept is not None and bool(kept.answers.references)
                if self.captions[variant]:
                    reason = "answers with captions of a data set, without which metrics are not recomputed"
            elif file.name not in RECORDS:
                if file.suffix not in KEPT:
                    continue
                reason = "" if free else "items of data sets (images, captions, puzzles, traces of them)"
            if reason:
                self.left[reason] += 1
            else:
                self._copy(file, target)
        for file in sorted(folder.path.glob(f"{EARLIER}-*/result.json")):
            self._copy(file, target / file.parent.name)

    def _copy(self, file: Path, folder: Path) -> None:
        """Copy a file into a folder; a JSON file, or a log of such lines, without what is private (StorageError: it is none)."""
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / file.name
        try:
            if file.suffix == ".jsonl":
                target.write_text("".join(self._line(line, file) + "\n" for line in whole_lines(file)), encoding="utf-8")
            elif file.suffix == ".json":
                values = self._scrubbed(from_json(contents(file)), file)
                target.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            else:
                with open(file, "rb", opener=descriptor) as content, open(target, "wb") as copy:
                    shutil.copyfileobj(content, copy)
        except (OSError, ValueError) as error:
            raise StorageError(f"{file} cannot be published: {error}. Remove it and run the study again.") from None

    def _line(self, line: bytes, file: Path) -> str:
        return line.decode() if NUMBERS.fullmatch(line) else json.dumps(self._scrubbed(from_json(line), file), ensure_ascii=False)

    def _scrubbed(self, values: Any, file: Path) -> Any:
        kept = self.private.values(values)
        if file.name == "plan.json" and isinstance(kept, dict):
            for entry, plugin in zip(kept.get("plugins", ()), self.plan.plugins, strict=True):
                if plugin["file"]:
                    entry["file"] = f"{CODE}/{self._below(plugin['file'])}"
        return kept

    # ---------------------------------------------------------------------------------------------------------- code

    def _code(self) -> None:
        """Copy the study's file and its modules as they are; where the plan has a digest, say whether they still have it."""
        for plugin in self.plan.plugins:
            if plugin["file"]:
                self._put(self._below(plugin["file"]), Path(plugin["file"]))
        file = self.asked.study or _study_file(self.plan)
        if file is not None and file.name not in self.code:
            self._put(file.name, file)
        elif file is None and not self.code and not self.plan.imported:
            self.left["the study's file, which its command does not name (--study FILE adds it)"] = 1
        files = [*([file] if file else []), *(Path(plugin["file"]) for plugin in self.plan.plugins if plugin["file"])]
        for name in self.plan.files if files else ():  # also those that no module imports, such as the script of a command
            home = files[0].resolve().parent
            script = (home / name).resolve()
            if name not in self.code and script.is_file() and script.is_relative_to(home):
                self._put(name, script)

    def _put(self, name: str, file: Path) -> None:
        if not file.is_file():
            raise ConfigError(
                f"{file.name}, which the study is made of, is not at {file}. Bring it back, or run the study again."
            )
        content, planned = file.read_bytes(), self.plan.files.get(name)
        target = self.root / CODE / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        self.code[name] = "as it is now; its plan has no SHA-256 of it"
        if planned:
            is_same = hashlib.sha256(content).hexdigest() == planned
            self.code[name] = "as it was when the study was planned" if is_same else "CHANGED since the study was planned"

    def _below(self, file: str) -> str:
        """Return where a plug-in's file lies below the folder of the study's file."""
        for plugin in self.plan.plugins:
            for path in paths(plugin["module"]) if plugin["module"] else ():
                root = plugin["file"].removesuffix(path)
                if plugin["file"].endswith(f"/{path}") and file.startswith(root):
                    return file.removeprefix(root)
        return PurePosixPath(file).name

    # -------------------------------------------------------------------------------------------------------- report

    def _report(self) -> None:
        copied = load_study(Results(self.root / RESULTS), self.plan.study, self.plan.folder, self.asked.trust)
        records = called(replace(copied, plan=replace(copied.plan, plugins=self.plan.plugins)))
        drawn = self.root / "drawn" / self.plan.study / self.plan.folder
        with records.standing():
            write_files(records, drawn, (), ARTICLE)
        (drawn / "report" / WRITTEN).unlink()  # it is for who draws there again, and nobody draws in a bundle
        (drawn / "report").rename(self.root / REPORT)
        shutil.rmtree(self.root / "drawn")

    def _refuse_private(self, folders: Sequence[str]) -> None:
        """Refuse what is private and was not taken out, because its author wrote it."""
        files = (file for folder in folders for file in sorted((self.root / folder).rglob("*")) if file.is_file())
        for file in (one for one in files if one.suffix not in (*PACKED, ".js")):
            text = LIBRARY.sub("", file.read_text(encoding="utf-8", errors="replace"))
            if found := self.private.remaining(text):
                what, at = found
                where = f"{file.relative_to(self.root).as_posix()}, line {text.count(chr(10), 0, at) + 1}"
                raise ConfigError(
                    f"{where}, names {what!r}, which is of this machine or a secret. Take it out of the study and run its "
                    "command again, or pass --allow for a name that may be told."
                )

    def _about(self, left: Sequence[str]) -> None:
        """Write what describes the bundle, and the manifest last."""
        found = bundle.Bundle(self.root)
        digests = dict(found.digests)
        finished = sorted(row.provenance.finished for row in self.records.rows if row.provenance.finished)
        told = About(
            study=self.plan.study,
            preset=self.plan.folder,
            recstudy=version("recstudy"),
            drawn_by=bundle.drawing_code(),
            packages=bundle.drawing_packages(),
            records=bundle.digest_of_records(digests),
            code=self.code,
            left_out=tuple(left),
            date=(finished or [self.plan.created or "1980-01-01"])[-1][:10],
        )
        for name, text in about.files(called(self.records), told, self.asked.authors, self.asked.licence).items():
            (self.root / name).write_text(self.private.text(text), encoding="utf-8")
            digests[name] = sha256_of(self.root / name)
        lines = (f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
        (self.root / bundle.MANIFEST).write_text("".join(lines), encoding="utf-8")


def _study_file(plan: PlanRecord) -> Path | None:
    """Return the file that the study's command names, or that of a study that comes with recstudy."""
    words = shlex.split(plan.command) if plan.command.count("'") % 2 == 0 else plan.command.split()
    stating = re.compile(rf"""(\bname=|\b(Study|Search)\(\s*)["']{re.escape(plan.study)}["']""")
    named = [Path(word) for word in words if word.endswith(".py") and Path(word).is_file()]
    for file in named:
        if file.stem == plan.study or stating.search(file.read_text(encoding="utf-8", errors="replace")):
            return file
    return shipped().get(plan.study)


def _plain(folder: Path) -> list[Path]:
    """Return the files in a folder that are no links, which would bring in what lies elsewhere."""
    return [Path(entry.path) for entry in entries(folder) if entry.is_file(follow_symlinks=False)]


def _zip(folder: Path, file: Path) -> None:
    """Write a zip whose bytes follow from the files alone."""
    with zipfile.ZipFile(file, "w") as archive:
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            entry = zipfile.ZipInfo((Path(folder.name) / path.relative_to(folder)).as_posix(), MADE)
            entry.external_attr, entry.create_system = (stat.S_IFREG | 0o644) << 16, 3
            entry.compress_type = zipfile.ZIP_STORED if path.suffix in PACKED else zipfile.ZIP_DEFLATED
            with open(path, "rb") as content, archive.open(entry, "w") as packed:
                shutil.copyfileobj(content, packed)
