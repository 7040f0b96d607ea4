"""Which finished runs were made with other user files, or on other data, than the study has now.

A run's record has the SHA-256 of each user file and the checksum of its data. The plan has those of the
study's last command.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from recstudy.records.schema import Provenance
from recstudy.report.names import plural

if TYPE_CHECKING:
    from recstudy.report.study_records import StudyRecords  # brings pandas, which a plan does without


@dataclass(frozen=True)
class Change:
    """A user file, or a data set, that has changed since a run was made."""

    run_id: str
    kind: Literal["code", "data"]
    name: str


def find_changes(
    provenances: Mapping[str, Provenance],
    files: Mapping[str, str],
    data: Mapping[str, tuple[str, str]],
    code: Mapping[str, str],
) -> list[Change]:
    """Compare finished runs with what would compute them now. A file or checksum that either side lacks is no
    change.

    Nor is an edit of comments, docstrings or layout.

    Args:
        made: run id -> what made the run.
        files: path -> SHA-256 of each user file now.
        data: run id -> title of its data set and the checksum now.
        code: SHA-256 of a file -> of its code.
    """
    changes = []
    for run_id, provenance in provenances.items():
        names = []
        for path, current in sorted(files.items()):
            # of both versions if a run has resumed after an edit
            digests = provenance.files.get(path, current).split()
            if {code.get(digest, digest) for digest in digests} != {code.get(current, current)}:
                names.append(path)
        changes += [Change(run_id, "code", path) for path in names]
        title, checksum = data[run_id]
        if checksum and provenance.data_checksum not in ("", checksum):
            changes.append(Change(run_id, "data", title))
    return changes


def study_changes(records: "StudyRecords") -> list[Change]:
    """Return the changes since a study's runs were made, by its plan."""
    provenances = {row.id: row.provenance for row in records.rows if row.result}
    variants = {row.id: records.variants[row.variant] for row in records.rows}
    data = {run_id: (variant.data, variant.data_checksum) for run_id, variant in variants.items()}
    return find_changes(provenances, records.plan.files, data, records.plan.code_digests)


def change_lines(changes: Sequence[Change]) -> list[str]:
    """Return a line for each file and data set: `my_study.py changed since 4 finished runs were made`."""
    counts = Counter((change.kind, change.name) for change in changes)
    return [
        f"{'The data set ' * (kind == 'data')}{name} changed since {plural(count, 'finished run')} "
        f"{'were' if count > 1 else 'was'} made"
        for (kind, name), count in counts.items()
    ]
