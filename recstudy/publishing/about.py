"""Write the report, README.md and CITATION.cff of a bundle. `publish.py` and `verify.py` call this module."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import yaml

from recstudy.papers import by_name
from recstudy.publishing.bundle import CODE, MANIFEST, REPORT, RESULTS
from recstudy.records import PlanRecord
from recstudy.records.runs import Row
from recstudy.records.study_schema import About
from recstudy.report.findings import findings
from recstudy.report.names import page_title
from recstudy.report.shown import MANIFEST as REPORT_MANIFEST
from recstudy.report.study_records import StudyRecords
from recstudy.report.venues import ARTICLE
from recstudy.report.writers import md
from recstudy.report.writing import write_files

# `bundle.json` has these words, and `verify.py` compares them, so published bundles depend on them.
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


def readme(records: StudyRecords, about: About) -> str:
    """Return the text of README.md: question, findings, commands and contents."""
    plan = records.plan
    with records.study_modules():
        answers = [f"**{md(finding.verdict)}:** {md(finding.text)}." for finding in findings(records)]
    checksums = {}
    for index, variant in enumerate(records.variants):
        for checksum in records.data_checksums(index):
            checksums[checksum] = f"{md(variant.data)}: checksum `{checksum}`"
    code = [f"`{CODE}/{name}`: {words}" for name, words in sorted(about.code.items())]
    lists = {"Data:": checksums.values(), "Code:": code, "Left out:": about.left_out}
    contents = "".join(f"{title}\n\n{_list([*items])}\n" for title, items in lists.items() if items)
    return f"""# {md(page_title(plan))}

{md(by_name(plan.question))}

{_list(answers)}
`{REPORT}/report.html` has every table and figure. `{RESULTS}/` has the records of every run, and
`{CODE}/` has the study's code.

## Verify and reproduce

With recstudy installed, and this folder or its zip as DIR:

```bash
recstudy verify DIR     # computes every printed number again from the records; runs no code of this folder
recstudy reproduce DIR  # repeats the runs and compares them
```

Without recstudy, `sha256sum -c {MANIFEST}` checks that the files are unchanged. The digest of the records is

    {about.records}

If a paper prints it, compare it with the last line of `recstudy verify DIR`.

## Contents

{contents}Names of machines and accounts, paths and secrets were removed from the records.
A path is shortened to `.../name`.
"""


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
    return yaml.safe_dump(fields, sort_keys=False, allow_unicode=True, width=1000)


def _list(items: Sequence[str]) -> str:
    return "".join(f"- {item}\n" for item in items)
