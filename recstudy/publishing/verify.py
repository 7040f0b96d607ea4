"""`recstudy verify`: whether a bundle says what its records say. Nothing of it is run, nothing is fetched, nothing is trained.

    files      every file has the digest that the manifest states, and there is no other
    settings   each run's id is the digest of its settings, those of its record and those of the plan
    answers    each run's metrics, computed again from the answers that it kept
    records    what different records say of one run agrees
    dates      what was stated before which runs
    report     page, tables in each format and numbers behind figures, drawn again and compared place by place

A manifest that was written anew with a changed file says nothing; the other checks do. What none of them can see is a bundle
whose records were all invented to fit: for that the digest of the records stands where its authors cannot change it, in a paper
or a registry (`--records`).
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.text import Text

from recstudy.analysis.report import write_files
from recstudy.analysis.written import MANIFEST as WRITTEN
from recstudy.errors import RecstudyError, StorageError
from recstudy.metrics import METRICS
from recstudy.publishing.bundle import (
    README,
    REPORT,
    Bundle,
    digest_of_records,
    drawing_code,
    drawing_packages,
    opened,
)
from recstudy.publishing.checks import OWN, Check, check_answers, check_dates, check_records, check_settings
from recstudy.publishing.printed import MARKUP, Difference, compare
from recstudy.records.locks import temporary
from recstudy.records.published import NO_BUNDLE
from recstudy.report.names import improved, plural
from recstudy.report.parts import Undrawable
from recstudy.report.venues import ARTICLE

SHOWN = 20  # differences of one check that are printed
LEAST = 12  # digits that tell a digest
LIBRARY = "figures/plotly.min.js"


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
    with _quiet():
        for check in checks:
            try:
                work[check.name](bundle, check)
            except RecstudyError as error:
                check.differs.append(str(error).replace(f"{bundle.root}/", "").rstrip("."))
    return Verified(tuple(checks), digest_of_records(bundle.digests))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep parts that cannot be drawn here out of the log: they are told of as not checked."""
    logger = logging.getLogger("recstudy.analysis")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


def check_files(bundle: Bundle, check: Check) -> None:
    """Compare each file with the manifest, and the records with the digest that README and bundle.json state."""
    stated, stating, digests = bundle.manifest, bundle.about.records, bundle.digests
    check.differs += [f"{name} is missing" for name in stated if name not in digests]
    check.differs += [f"{name} is not in the manifest" for name in digests if name not in stated]
    changed = [name for name in digests if name in stated and digests[name] != stated[name]]
    check.differs += [f"{name} is not as it was published: it has another digest" for name in changed]
    if digest_of_records(digests) != stating:
        check.differs.append(f"the records are not those that bundle.json names by their digest {stating[:LEAST]}")
    if README in digests and stating not in bundle.files[README].read_text(encoding="utf-8", errors="replace"):
        check.differs.append(f"{README} does not name the digest of the records that bundle.json names")
    check.checked.append(f"{plural(len(digests), 'file')} by their digests, and that there is no other")


def check_report(bundle: Bundle, check: Check) -> None:
    """Draw the report again and compare it with what is printed."""
    about, (apart, own_words) = bundle.about, _apart(bundle)
    alone: list[Difference] = []  # what only one of both prints has
    with temporary() as folder:
        study = folder / about.study / about.preset
        write_files(bundle.records, study, (), ARTICLE)
        again = {
            file.relative_to(study).as_posix(): file
            for file in (study / REPORT).rglob("*")
            if file.is_file() and file.name != WRITTEN
        }
        printed = {name: file for name, file in bundle.files.items() if name.startswith(f"{REPORT}/")}
        both = [name for name in printed if name in again]
        if about.packages.get("plotly") != drawing_packages()["plotly"] and f"{REPORT}/{LIBRARY}" in both:
            both.remove(f"{REPORT}/{LIBRARY}")
            check.unchecked.append(f"{REPORT}/{LIBRARY}: it is the drawing library of another version")
        for name in both:
            differences, own = compare(name, printed[name].read_bytes(), again[name].read_bytes())
            told = [one for one in differences if not (apart and one.place == MARKUP) and (one.cell or not own_words)]
            check.differs += map(str, told)
            alone += [*own, *(one for one in differences if one not in told)]
        alone += [Difference(name, "", "a file", "") for name in printed if name not in again]
        alone += [Difference(name, "", "", "a file") for name in again if name not in printed]
    tables = sum(name.startswith(f"{REPORT}/tables/") and name.endswith(".csv") for name in both)
    check.checked.append(
        f"{plural(tables, 'table')} in each format, the page and the numbers behind figures: {plural(len(both), 'file')}, drawn "
        "again from the records and compared"
    )
    if not apart:
        check.differs += map(str, alone)
    elif alone:
        first = f"the first in {alone[0].file}{f', {alone[0].place}' if alone[0].place else ''}"
        check.unchecked.append(f"{plural(len(alone), 'place')} of the report, {first}: {'; '.join(apart)}")


def _apart(bundle: Bundle) -> tuple[list[str], bool]:
    """Say why what only one of two prints has is no difference, and whether words around cells are none either.

    Nothing where the same code has drawn all of both.
    """
    about, why = bundle.about, []
    if about.drawn_by != drawing_code():
        why.append(f"another version of recstudy has drawn it ({about.recstudy}, {about.drawn_by})")
    present = drawing_packages()
    if others := [f"{name} {its}" for name, its in about.packages.items() if present.get(name) != its]:
        why.append(f"it was drawn with {', '.join(others)}")
    parts = bundle.records.parts
    own = [part.name for part in parts if isinstance(part, Undrawable)]
    own += sorted({name for part in parts for name in part.shows if name not in METRICS and not _of_ours(name)})
    own = own if about.code else []
    if own:
        why.append(f"it shows what the study itself may define ({', '.join(own)}): {OWN}")
    return why, bool(own)


def _of_ours(name: str) -> bool:
    """Tell whether a metric's name is of one of recstudy's: of a class, of a depth, a glob, or an improvement."""
    return bool(re.split(r"[.@*]", improved(name) or name)[0] in METRICS)
