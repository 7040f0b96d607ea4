"""`recstudy verify`: check that the report of a bundle follows from its records, without running its code.

    files       every file has a place in a bundle, the SHA-256 of the manifest, and no unknown or repeated
                key; code has the SHA-256 of the plan
    settings    the id of each run follows from its settings, in the plan and in its own record; no seed is
                missing
    variants    labels, levels, titles and FLOPs of each variant follow from its settings
    answers     the metrics of each run are computed again from its answers
    records     the records of a run agree with each other
    dates       the dates of claims and looks fit those of the runs
    report      tables are computed again and compared as numbers, pages are compared as text

If someone changes a file and its line in the manifest, another check finds the change, or `NOT_CHECKED` lists
it.
"""

import logging
from contextlib import nullcontext

from rich.text import Text

from recstudy.base.errors import RecstudyError, StorageError
from recstudy.base.terminal import console
from recstudy.publishing.bundle import NO_BUNDLE, Bundle, digest_of_records
from recstudy.publishing.checks import CHECKS, Verified, check_files
from recstudy.publishing.differences import check_report
from recstudy.report.documents import VerifyDocument
from recstudy.report.names import plural

NOT_CHECKED = (
    "records that were invented consistently",
    "dates of claims, looks, runs and earlier attempts, apart from their order",
    "removed looks and claims, and seeds, variants and lines of an imported file that no record names",
    "published values, the paper's settings, and entries of plan.json that decide no run",
    "names that the study's author gave to variants and levels",
    "lines of epochs.jsonl and losses.jsonl that are neither in result.json nor in a figure",
    "values that only result.json has, such as versions, machine, workers, threads, commit and checksums",
    "why a run failed or diverged, its resources, and files.json of a run without a result",
    "entries of answers.npz that no metric reads, and items of data sets",
    "CITATION.cff, and the versions and omissions in bundle.json",
    "keys code, sources and registered of records of earlier versions",
)
MAX_DIFFERENCES = 20  # at most so many differences are printed


def show_verified(verified: VerifyDocument) -> None:
    """Print the result of a verification."""
    printer, differences = console(), verified.differences
    count = plural(len(differences), "difference")
    verdict = "Nothing differs" if verified.matches else f"{count}: this bundle does not match its records"
    shown_differences = differences[:MAX_DIFFERENCES]
    if len(differences) > MAX_DIFFERENCES:
        shown_differences.append(f"{len(differences) - MAX_DIFFERENCES:,} more")
    printer.print(
        Text(
            f"{verified.study} ({verified.preset}), published with recstudy {verified.published_with}", "bold"
        ),
        soft_wrap=True,
    )
    sections = {
        "Checked": verified.checked,
        "Not checked": verified.unchecked,
        "DIFFERENT": shown_differences,
    }
    for title, lines in sections.items():
        for line in lines:
            printer.print(Text.assemble((f"{title}: ", "bold"), line), soft_wrap=True)
    printer.print(Text(f"{verdict}. Records: sha256 {verified.records}", "bold"), soft_wrap=True)


def verify(bundle: Bundle) -> VerifyDocument:
    """Run all checks on a bundle.

    Raises:
        StorageError: It is no bundle, or it contains links or unreadable files.
    """
    # `files` also refuses links, before anything else is read.
    if not bundle.files or not bundle.about.records:
        raise StorageError(f"{bundle.root} {NO_BUNDLE}")
    about, verified = bundle.about, Verified([], [])
    records = digest_of_records(bundle.digests)  # reads every file
    differences: list[str] = []
    old_level = logging.root.manager.disable
    # Parts that cannot be drawn are listed as unchecked instead of logged.
    logging.disable(logging.CRITICAL)
    try:
        for check in (check_files, *CHECKS, check_report):
            try:
                with nullcontext() if check is check_files else bundle.records.study_modules():
                    differences.extend(check(bundle, verified))
            except (RecstudyError, ValueError, TypeError) as error:  # damaged records and dates
                differences.append(str(error))
    finally:
        logging.disable(old_level)
    lines = (line.rstrip(".").replace(f"{bundle.root}/", "") for line in differences)
    # Skip checks of files that the bundle does not have.
    checked, unchecked = ([line for line in part if not line.startswith("0 ")] for part in verified)
    return VerifyDocument(
        study=about.study,
        preset=about.preset,
        published_with=about.recstudy,
        matches=not differences,
        records=records,
        checked=checked,
        unchecked=[*unchecked, *NOT_CHECKED],
        differences=list(dict.fromkeys(lines)),  # several checks find the same damage
    )
