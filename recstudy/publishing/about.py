"""Write the report, README.md and CITATION.cff of a bundle, for `publish.py` and the checks of a bundle."""

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from recstudy.base.strict_yaml import write_yaml
from recstudy.papers import by_name
from recstudy.publishing.bundle import CODE, REPORT, has_no_pages
from recstudy.records import PlanRecord
from recstudy.records.runs import Row
from recstudy.records.study_schema import About
from recstudy.report.findings import findings
from recstudy.report.names import page_title
from recstudy.report.page import render
from recstudy.report.shown import MANIFEST as REPORT_MANIFEST
from recstudy.report.study_records import StudyRecords
from recstudy.report.venues import ARTICLE
from recstudy.report.writers import md
from recstudy.report.writing import write_files

# `bundle.json` has these words, and `checks.py` compares them, so published bundles depend on them.
AS_PLANNED = "as it was when the study was planned"
CHANGED = "CHANGED since the study was planned"


def last_day(rows: Iterable[Row], plan: PlanRecord) -> str:
    """Return the date of the last finished run, or of the plan."""
    return (
        max((row.provenance.finished for row in rows), default="")[:10] or plan.created[:10] or "1980-01-01"
    )


def write_report(records: StudyRecords, folder: Path) -> Path:
    """Write the report of a study below a folder, and return its path."""
    study = folder / records.plan.study / records.plan.folder  # the page prints these names
    with records.study_modules():
        write_files(records, study, (), ARTICLE)
    # Only the next report in the same folder would use this file.
    (study / REPORT / REPORT_MANIFEST).unlink()
    return study / REPORT


def readme(records: StudyRecords, about: About, modules: Collection[str]) -> str:
    """Return the text of README.md: question, findings, commands and contents.

    Args:
        records: The records of the study.
        about: The content of bundle.json.
        modules: The study's own modules, which `recstudy reproduce` imports with `--trust` alone.
    """
    with records.study_modules():
        sentences = findings(records)
    checksums = {}
    for index, variant in enumerate(records.variants):
        for checksum in records.data_checksums(index):
            checksums[checksum] = f"{md(variant.data)}: checksum `{checksum}`"
    code = [f"`{CODE}/{name}`: {words}" for name, words in sorted(about.code.items())]
    return render(
        "README.md.jinja",
        package="recstudy.publishing",
        md=md,
        title=page_title(records.plan),
        question=by_name(records.plan.question),
        findings=sentences,
        digest=about.records,
        needs_trust=bool(modules),
        page="report.md" if has_no_pages(about) else "report.html",
        is_imported=bool(records.plan.imported),
        lists={"Data:": checksums.values(), "Code:": code, "Left out:": about.left_out},
    )


def citation(records: StudyRecords, about: About, authors: Sequence[str], licence: str) -> str:
    """Return the text of CITATION.cff.

    Args:
        records: The records of the study.
        about: The content of bundle.json.
        authors: The names of the authors.
        licence: An SPDX name or an address. By default none is stated.
    """
    plan = records.plan
    fields = {
        "cff-version": "1.2.0",
        "title": f"{page_title(plan)}: {by_name(plan.question)}",
        "message": "If you use these results, please cite them as below.",
        "type": "dataset",
        "authors": [{"name": author} for author in authors or ["not named"]],
        "date-released": about.date,
        "identifiers": [
            {"type": "other", "value": f"sha256:{about.records}", "description": "digest of the records"}
        ],
    }
    if licence:
        fields["license-url" if "/" in licence else "license"] = licence
    return write_yaml(fields)
