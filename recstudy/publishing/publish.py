"""`recstudy publish`: write the bundle of a study.

Records are copied without private data (`scrub.py`), the report is written from the copies, and the bundle is
verified before it appears. The same study always gives the same bytes. Images, captions and puzzles of data
sets are omitted unless they were generated or the user includes them, because their licence is unknown.
"""

import json
import re
import stat
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic_core import from_json

from recstudy.base.errors import ConfigError, StorageError
from recstudy.base.files import refuse_existing, sha256_of
from recstudy.base.opened import contents, entries
from recstudy.plugins import current_files
from recstudy.programs.inputs import CODE as CODE_FILES
from recstudy.programs.inputs import CONFIGS
from recstudy.publishing import bundle
from recstudy.publishing.about import AS_PLANNED, CHANGED, citation, last_day, readme, write_report
from recstudy.publishing.bundle import ABOUT, CITATION, CODE, MANIFEST, README, REPORT, RESULTS, Bundle
from recstudy.publishing.scrub import Private, private
from recstudy.publishing.verify import verify
from recstudy.records import MARKER, Attempt, PlanRecord, Results, read_log
from recstudy.records.files import whole_lines
from recstudy.records.plans import LOOKS, read_looks, record_look
from recstudy.records.reading import append_record, dumped
from recstudy.records.run_folder import ARCHIVE_PREFIX
from recstudy.records.study_schema import About, Look
from recstudy.report.names import plural
from recstudy.report.study_records import StudyRecords, load_study
from recstudy.study.shipped import shipped

RECORDS = (
    "config.json", "files.json", "attempts.jsonl", "epochs.jsonl", "losses.jsonl",
    "measured.json", "result.json", "failure.json", "stopped.json",
)  # fmt: skip
ANSWERS = "answers.npz"
CAPTIONS = "answers with captions of a data set, without which metrics are not recomputed"
INPUTS = "inputs of the command that are neither source code nor YAML or TOML (--with-data adds them)"
SOURCES = (*CODE_FILES, *CONFIGS, ".R", ".jl", ".c", ".cpp", ".cu", ".h", ".rs", ".go", ".java", ".m", ".lua")
ITEMS = "items of data sets (images, captions, puzzles, traces of them)"
PACKED = (".npz", ".png", ".pdf", ".gif")  # already compressed
LIBRARY = re.compile(
    r'<script type="application/octet-stream".*?</script>', re.S
)  # the Plotly library in a page


def publish(
    results: Results,
    name: str,
    preset: str,
    folder: Path,
    *,
    data: bool = False,
    pages: bool = True,
    authors: Sequence[str] = (),
    licence: str = "",
    study: Path | None = None,
    allowed: Sequence[str] = (),
    trust: bool = False,
) -> list[str]:
    """Write the bundle of a study as a folder and as a zip with the same name.

    Args:
        results: The results folder.
        name: The name of the study.
        preset: The name of the preset's folder.
        folder: The new folder.
        data: Include items of data sets (images, captions, puzzles) that were not generated.
        pages: Include the HTML pages, which take 3 MB with the Plotly library.
        authors: The names of the authors for CITATION.cff.
        licence: An SPDX name or an address.
        study: The study file, if the study's command does not name it.
        allowed: Names of hosts or users that may be published.
        trust: Import the modules of the study to draw the parts that it defines.

    Returns:
        One line for each kind of omitted file.

    Raises:
        ConfigError: There is no such study, `folder` exists, or a text by the author contains private data.
        StorageError: A record is damaged, or the bundle does not verify.
    """
    folder = folder.absolute()
    packed = folder.with_name(f"{folder.name}.zip")
    refuse_existing(folder)
    refuse_existing(packed)
    record_look(results, name, preset)
    records = load_study(results, name, preset)
    plan, rows = records.plan, records.rows
    logs = (read_log(results.run(row.id).attempts, Attempt) for row in rows)
    # Hosts are in the results and in the logs of attempts, which may name other nodes.
    hosts = {row.provenance.hardware.host for row in rows} | {line.host for log in logs for line in log}
    machine = private(results.root, hosts, allowed)
    refuse_merged(plan, machine)
    with _writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
    with _writing(folder), TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as temporary:
        root = Path(temporary) / folder.name
        left_out = copy_records(records, root / RESULTS, machine, data)
        files = find_code(plan, study)
        inputs = [name for name in files if not (data or name.endswith(SOURCES))]
        if inputs:
            left_out[INPUTS] = len(inputs)
        code = {
            file: copy_code(plan, file, source, root / CODE / file)
            for file, source in files.items()
            if file not in inputs
        }
        if not code and not plan.imported:
            left_out["the study's file, which its command does not name (--study FILE adds it)"] = 1
        copies = bundle.in_bundle(load_study(Results(root / RESULTS), name, preset, trust))
        if trust or plan.plugins == tuple(current_files().record):  # else pages would name their folders
            copies = replace(copies, plan=replace(copies.plan, plugins=plan.plugins))
        write_report(copies, Path(temporary, "drawn")).rename(root / REPORT)
        if not pages:
            left_out[bundle.PAGES] = remove_pages(root / REPORT)
        digests = Bundle(root).digests
        about = About(
            study=plan.study,
            preset=plan.folder,
            recstudy=version("recstudy"),
            drawn_by=bundle.drawing_code(),
            packages=bundle.drawing_packages(),
            records=bundle.digest_of_records(digests),
            code=code,
            left_out=tuple(
                f"{reason}: {plural(count, 'file')}" for reason, count in sorted(left_out.items())
            ),
            date=last_day(rows, plan),
        )
        (root / ABOUT).write_bytes(_json_bytes(dumped(about)))
        (root / README).write_text(readme(copies, about, Bundle(root).modules), encoding="utf-8")
        (root / CITATION).write_text(citation(copies, about, authors, licence), encoding="utf-8")
        digests |= {file: sha256_of(root / file) for file in (ABOUT, README, CITATION)}
        (root / MANIFEST).write_text(bundle.checksum_lines(digests), encoding="utf-8")
        refuse_private(root, machine)
        # A bundle that does not verify is never shown to the user; the temporary folder is removed.
        if differences := verify(Bundle(root)).differences:
            count = plural(len(differences), "difference")
            raise StorageError(f"the bundle does not verify ({count}): {differences[0]}")
        write_zip(root, root.with_name(packed.name))
        # Rename at the end, so that an interrupted command leaves no partial bundle.
        root.with_name(packed.name).replace(packed)
        root.replace(folder)
    return [*about.left_out]


def remove_pages(report: Path) -> int:
    """Remove the HTML pages of a report and their library, and return the number of files."""
    pages = [file for file in report.rglob("*") if bundle.is_page(file.name)]
    for page in pages:
        page.unlink()
    return len(pages)


def refuse_merged(plan: PlanRecord, machine: Private) -> None:
    """Refuse variants whose labels differ only in folders, which a bundle does not name (ConfigError)."""
    labels = Counter(machine.text(variant.label) for variant in plan.variants)
    for variant in plan.variants:
        if labels[cut := machine.text(variant.label)] > 1 and cut != variant.label:
            raise ConfigError(
                f"{plan.study} has {labels[cut]} variants that a bundle would call {cut!r}, because it leaves"
                " out folders and secrets. Give them labels or levels of their own, such as Variant('a', ...)"
            )


def find_code(plan: PlanRecord, study: Path | None) -> dict[str, Path]:
    """Return the study file and the user files of the plan.

    Args:
        plan: The plan of the study.
        study: The study file. By default it is found by the study's command.

    Returns:
        Path below `code` -> the file.
    """
    if study is None:
        scripts = (Path(word) for word in plan.command.split() if word.endswith(".py"))
        candidates = (
            file
            for file in scripts
            if file.is_file() and plan.study in file.read_text(encoding="utf-8", errors="replace")
        )
        study = next(candidates, None) or shipped().get(plan.study)
    sources = [
        *([study.resolve()] if study else []),
        *(Path(plugin["file"]) for plugin in plan.plugins if plugin["file"]),
    ]
    names = [name for name in plan.files if ".." not in name]
    roots = [
        Path(str(source).removesuffix(name))
        for source in sources
        for name in names
        if f"{source}".endswith(f"/{name}")
    ]
    files = {name: roots[0] / name for name in names if (roots[0] / name).is_file()} if roots else {}
    return files | {source.name: source for source in sources if source not in files.values()}


def copy_code(plan: PlanRecord, name: str, source: Path, target: Path) -> str:
    """Copy a user file, and return in words whether it changed since the study was planned."""
    if not source.is_file():
        raise ConfigError(
            f"{name}, a file of the study, is missing at {source}. Restore it, or run the study again."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())
    if name not in plan.files:
        return "as it is now; its plan has no SHA-256 of it"
    return AS_PLANNED if sha256_of(target) == plan.files[name] else CHANGED


def copy_records(records: StudyRecords, root: Path, machine: Private, data: bool) -> Counter[str]:
    """Copy the records of a study and its runs without private data.

    Args:
        records: The records of the study.
        root: The new results folder.
        machine: The private data to remove.
        data: Include items of data sets that were not generated.

    Returns:
        Reason -> number of omitted files.
    """
    plan, results, copies = records.plan, records.results, Results(root)
    left_out: Counter[str] = Counter()
    captions: dict[int, bool] = {}  # variant -> whether its answers contain captions that must be omitted
    copy = partial(copy_record, machine=machine)
    copy(results.root / MARKER, root)
    for file in _regular_files(results.study(plan.study, plan.folder)):
        if re.fullmatch(bundle.STUDY_FILES, file.name):
            copy(file, copies.study(plan.study, plan.folder))
    planned = {run.id for run in plan.runs}
    for look in read_looks(results, plan):
        if runs := tuple(run_id for run_id in look.runs if run_id in planned):
            append_record(root / "studies" / LOOKS, Look(date=look.date, runs=runs))
    (root / "runs").mkdir()
    for run_id, variant in sorted({run.id: run.variant for run in plan.runs}.items()):
        folder, target = results.run(run_id), copies.run(run_id).path
        results.fetched(folder.answers)
        may_copy = data or variant in records.synthetic
        # One seed with answers per variant suffices, because all seeds use the same data.
        if variant not in captions and folder.answers.exists():
            captions[variant] = not may_copy and records.program.quotes_data(folder.answers)
        for file in _regular_files(folder.path):
            if file.name == ANSWERS and captions[variant]:
                left_out[CAPTIONS] += 1
            elif file.name in (*RECORDS, ANSWERS) or (may_copy and file.suffix in (".npz", ".json")):
                copy(file, target)
            elif file.suffix in (".npz", ".json"):
                left_out[ITEMS] += 1
        for file in sorted(folder.path.glob(f"{ARCHIVE_PREFIX}-*/result.json")):
            copy(file, target / file.parent.name)
    # The results folder may be read-only, and publishing is a look at the verdicts, so record it in the copy,
    # too.
    record_look(copies, plan.study, plan.folder)
    return left_out


def copy_record(file: Path, folder: Path, machine: Private) -> None:
    """Copy a file of records into a folder: arrays unchanged, JSON and logs without private data."""
    try:
        if file.suffix == ".npz":
            content = contents(file)
        elif file.suffix == ".json":
            content = _json_bytes(machine.values(from_json(contents(file))))
        else:
            lines = (
                json.dumps(machine.values(from_json(line)), ensure_ascii=False) for line in whole_lines(file)
            )
            content = "".join(f"{line}\n" for line in lines).encode()
    except (OSError, ValueError) as error:
        raise StorageError(
            f"{file} cannot be published: {error}. Remove it and run the study again."
        ) from None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file.name).write_bytes(content)


def refuse_private(root: Path, machine: Private) -> None:
    """Refuse a bundle with private data in texts by the author, which are never changed.

    Raises:
        ConfigError: There is such data. The message names the file and the line.
    """
    for file in (file for folder in (RESULTS, CODE, ".") for file in sorted((root / folder).rglob("*"))):
        if file.is_dir() or file.suffix in (*PACKED, ".js"):
            continue
        text = LIBRARY.sub("", file.read_text(encoding="utf-8", errors="replace"))
        if match := machine.remaining(text):
            private_text, start = match
            line = text.count("\n", 0, start) + 1
            raise ConfigError(
                f"{file.relative_to(root)}, line {line}, contains {private_text!r}, which identifies this"
                " machine or is a secret. Remove it from the study and run the study's command again, or"
                " allow a name with --allow."
            )


def write_zip(folder: Path, file: Path) -> None:
    """Write a zip whose bytes depend only on the files."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            # Every entry has the earliest date of the format, which is the default.
            entry = zipfile.ZipInfo(path.relative_to(folder.parent).as_posix())
            # Unix with mode 644, so that the zip does not depend on the system or the umask.
            entry.external_attr, entry.create_system = (stat.S_IFREG | 0o644) << 16, 3
            compression = zipfile.ZIP_STORED if path.suffix in PACKED else zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes(), compression)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Raise StorageError if the block cannot write the bundle."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"cannot write {folder}: {error.strerror or error}. Use a writable folder with free space."
        ) from None


def _json_bytes(values: Any) -> bytes:
    return (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode()


def _regular_files(folder: Path) -> list[Path]:
    """Return the regular files in a folder. Links are skipped, because they may lead outside."""
    return [Path(entry.path) for entry in entries(folder) if entry.is_file(follow_symlinks=False)]
