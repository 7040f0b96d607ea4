"""`recstudy verify`: whether a bundle says what its records say. Nothing of it is run, nothing is fetched, nothing is trained.

    files      every file has the digest that the manifest states, and there is no other
    settings   each run's id is the digest of its settings, those of its record and those of the plan
    answers    each run's metrics, computed again from the answers that it kept
    records    what different records say of one run agrees
    dates      what was stated before which runs
    report     CSV files are compared with the records' numbers; pages and figures too, if this version draws them alike

A manifest that was written anew with a changed file says nothing; the other checks do. What none of them can see is a bundle
whose records were all invented to fit: for that the digest of the records stands where its authors cannot change it, in a paper
or a registry (`--records`).
"""

import base64
import csv
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from os.path import commonprefix
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from recstudy.errors import RecstudyError, StorageError
from recstudy.programs.metric import METRICS
from recstudy.publishing.bundle import (
    NO_BUNDLE,
    README,
    REPORT,
    Bundle,
    digest_of_records,
    drawing_code,
    drawing_packages,
    opened,
)
from recstudy.publishing.checks import OWN, Check, check_answers, check_dates, check_records, check_settings
from recstudy.records.locks import temporary
from recstudy.report.names import improved, plural
from recstudy.report.parts import Undrawable
from recstudy.report.venues import ARTICLE
from recstudy.report.writing import write_files
from recstudy.report.written import MANIFEST as WRITTEN

SHOWN = 20  # differences of one check that are printed
LEAST = 12  # digits that tell a digest
CONTEXT = 40  # characters of a difference that are shown before its first digit, and from there on
CLOSE = 1e-9  # relative, and absolute near 0
DECIMAL = re.compile(r"(-?\d+(?:\.\d+(?:[eE][-+]?\d+)?|[eE]-\d+))")
ARRAY = re.compile(r'"dtype":"(?P<type>[fiu][1248])","bdata":"(?P<data>[\w+/=\\]*)"')


@dataclass(frozen=True)
class Verified:
    """The checks of a bundle, in their order, and the digest of its records."""

    checks: tuple[Check, ...]
    records: str

    @property
    def differences(self) -> list[str]:
        """All that differs."""
        return [f"{check.name}: {one}" for check in self.checks for one in check.differs]


def show_verified(place: Path, out: Console, records: str = "") -> bool:
    """Print what was checked in the bundle at `place`, what could not be, and what differs; return whether nothing does.

    Args:
        place: a folder or a zip.
        out: where to.
        records: the digest that the records must have, or its beginning.
    """
    with opened(place) as bundle:
        about, found = bundle.about, verify(bundle)
    asked = records.lower().removeprefix("sha256:")
    if records and not (len(asked) >= LEAST and found.records.startswith(asked)):
        found.checks[0].differs.append(f"the records have the digest {found.records}, not {records}")
    out.print(Text(f"{about.study} ({about.preset}), published with recstudy {about.recstudy}", "bold"), soft_wrap=True)
    for check in found.checks:
        for word, lines in (("checked", check.checked), ("not checked", check.unchecked), ("DIFFERS", check.differs)):
            style = "bold red" if word == "DIFFERS" else "bold"
            for line in [*lines[:SHOWN], *([f"{len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else [])]:
                out.print(Text.assemble((f"{check.name}, {word}: ", style), f"{line}."), soft_wrap=True)
    count = len(found.differences)
    said = f"{plural(count, 'difference')}: this bundle does not say what its records say" if count else "Nothing differs"
    out.print(Text(f"{said}. Records: sha256 {found.records}", "bold red" if count else "bold"), soft_wrap=True)
    return not count


def verify(bundle: Bundle) -> Verified:
    """Check a bundle.

    Raises:
        StorageError: it is none, or brings links.
    """
    if not bundle.files or not bundle.about.records:
        raise StorageError(f"{bundle.root} {NO_BUNDLE}")
    work: dict[str, Callable[[Bundle, Check], None]] = {
        "files": check_files, "settings": check_settings, "answers": check_answers, "records": check_records,
        "dates": check_dates, "report": check_report,
    }  # fmt: skip
    checks = [Check(name) for name in work]
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)  # parts that cannot be drawn here are named as not checked
    try:
        for check in checks:
            try:
                with nullcontext() if check.name == "files" else bundle.records.standing():
                    work[check.name](bundle, check)
            except RecstudyError as error:
                check.differs.append(str(error).replace(f"{bundle.root}/", "").rstrip("."))
    finally:
        logging.disable(before)
    return Verified(tuple(checks), digest_of_records(bundle.digests))


def check_files(bundle: Bundle, check: Check) -> None:
    """Compare each file with the manifest, and the records with the digest that README and bundle.json state."""
    manifest, stated, digests = bundle.manifest, bundle.about.records, bundle.digests
    check.differs += [f"{name} is missing" for name in manifest if name not in digests]
    check.differs += [f"{name} is not in the manifest" for name in digests if name not in manifest]
    changed = [name for name in digests if manifest.get(name, digests[name]) != digests[name]]
    check.differs += [f"{name} is not as it was published: it has another digest" for name in changed]
    if digest_of_records(digests) != stated:
        check.differs.append(f"the records are not those that bundle.json names by their digest {stated[:LEAST]}")
    if README in digests and stated not in bundle.files[README].read_text(encoding="utf-8", errors="replace"):
        check.differs.append(f"{README} does not name the digest of the records that bundle.json names")
    check.checked.append(f"{plural(len(digests), 'file')} by their digests, and that there is no other")


def check_report(bundle: Bundle, check: Check) -> None:
    """Draw the report again: CSV files must have the same cells, and every other file the same text if the same code drew it."""
    limits = _limits(bundle)
    printed = {name: file.read_bytes() for name, file in bundle.files.items() if name.startswith(f"{REPORT}/")}
    with temporary() as folder:
        study = folder / bundle.about.study / bundle.about.preset
        write_files(bundle.records, study, (), ARTICLE)
        files = (file for file in (study / REPORT).rglob("*") if file.is_file() and file.name != WRITTEN)
        drawn = {file.relative_to(study).as_posix(): file.read_bytes() for file in files}
    both = [name for name in printed if name in drawn and (name.endswith(".csv") or not limits)]
    for name in both:
        check.differs += sorted(_differences(name, printed[name], drawn[name], common=bool(limits)))
    tables = sum(name.endswith(".csv") for name in both)
    others = "" if limits else f", and {plural(len(both) - tables, 'page, table and figure')}"
    check.checked.append(f"{plural(tables, 'CSV file')}{others}, drawn again from the records and compared")
    if limits:
        count = plural(len(printed) - len(both), "other file")
        check.unchecked.append(
            f"{count} of the report, and rows of CSV files that are drawn on one side only: {'; '.join(limits)}"
        )
    else:
        check.differs += [f"{name} is not drawn from the records" for name in printed if name not in drawn]
        check.differs += [f"{name} is missing" for name in drawn if name not in printed]


def _limits(bundle: Bundle) -> list[str]:
    """Return the reasons why pages drawn here may differ from the published ones: other code, other packages, plug-ins."""
    about, limits = bundle.about, []
    if about.drawn_by != drawing_code():
        limits.append(f"another version of recstudy has drawn it ({about.recstudy}, {about.drawn_by})")
    present = drawing_packages()
    if others := [f"{name} {its}" for name, its in about.packages.items() if present.get(name) != its]:
        limits.append(f"it was drawn with {', '.join(others)}")
    if about.code:
        parts = bundle.records.parts
        shown = sorted({name for part in parts for name in part.shows})
        own = [part.name for part in parts if isinstance(part, Undrawable)]
        # A metric of a class, of a depth, a glob of metrics, or an improvement.
        own += [name for name in shown if re.split(r"[.@*]", improved(name) or name)[0] not in METRICS]
        if own:
            limits.append(f"it shows what the study itself may define ({', '.join(own)}): {OWN}")
    return limits


def _differences(name: str, printed: bytes, drawn: bytes, common: bool) -> Iterator[str]:
    """Yield the places at which two files differ: cells of a CSV file, lines of another one.

    Args:
        name: The file's name.
        printed: The published content.
        drawn: The content that the records give.
        common: Whether places that only one of the two has are ignored.
    """
    read = _cells if name.endswith(".csv") else _lines
    ours, theirs = (read(content.decode(errors="replace")) for content in (printed, drawn))
    for place in ours.keys() & theirs.keys() if common else ours.keys() | theirs.keys():
        texts = [side.get(place, "") for side in (ours, theirs)]
        if not _same(*texts):
            start = max(0, len(commonprefix(texts)) - CONTEXT)  # noqa: RUF071  # characters are compared, not folders
            shown = [repr(text[start : start + 2 * CONTEXT]) for text in texts]
            yield f"{name}, {place}: is {shown[0]}, but the records give {shown[1]}"


def _cells(text: str) -> dict[str, str]:
    """Return the cells of a CSV file by row and column; a table's row is named by its labels, any other by its first cell."""
    heads, *lines = [*csv.reader(text.splitlines())] or [[]]
    labels = heads.index("metric") if heads[:1] == ["row"] and "metric" in heads else 1
    counts: Counter[str] = Counter()
    cells: dict[str, str] = {}
    for line in lines:
        label = ", ".join(line[:labels])
        counts[label] += 1
        cells |= {f"row {label!r} ({counts[label]}), {head}": value for head, value in zip(heads, line, strict=False)}
    return cells


def _lines(text: str) -> dict[str, str]:
    return {f"line {number}": line for number, line in enumerate(text.splitlines(), 1)}


def _same(one: str, other: str) -> bool:
    """Return whether two texts are equal up to the last digits of decimals, because another processor adds in another order."""
    if one == other:
        return True
    ours, theirs = (DECIMAL.split(ARRAY.sub(_numbers, text)) for text in (one, other))
    if len(ours) != len(theirs) or ours[::2] != theirs[::2]:
        return False
    mine, its = (np.array(side[1::2], float) for side in (ours, theirs))
    return np.allclose(mine, its, rtol=CLOSE, atol=CLOSE)


def _numbers(array: re.Match[str]) -> str:
    """Return the numbers of an array that plotly wrote in base 64, whose slashes are escaped in pages."""
    try:
        return str(np.frombuffer(base64.b64decode(array["data"].replace(r"\u002f", "/")), array["type"]).tolist())
    except ValueError:  # a damaged array is compared as text
        return array[0]
