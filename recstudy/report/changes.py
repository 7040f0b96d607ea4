"""Finished runs whose user files or data have changed since.

A run's record has the SHA-256 of each user file and the checksum of its data. Reports and the board compare
them with the plan of the last command (`StudyRecords.changed`). Before a start, study/rerun.py compares them
with the present files, and the command stops unless --rerun or --keep is given.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from recstudy.records.schema import Provenance
from recstudy.report.names import plural

LISTED = 5  # changed files that are named


@dataclass(frozen=True)
class Change:
    """A user file, a data set or the metrics of a study that have changed since a run was executed."""

    run_id: str
    kind: Literal["code", "data", "metric"]
    name: str


def find_changes(
    provenances: Mapping[str, Provenance],
    files: Mapping[str, str],
    data: Mapping[str, tuple[str, str]],
    code: Mapping[str, str],
) -> list[Change]:
    """Compare the code and data of finished runs with the current ones.

    Edits of comments, docstrings or layout are no change. A file or checksum that either side lacks is no
    change either.

    Args:
        provenances: run id -> code and data of the run.
        files: path -> current SHA-256 of each user file.
        data: run id -> title and current checksum of its data set.
        code: SHA-256 of a file -> SHA-256 of it without comments, docstrings and layout.
    """
    changes = []
    for run_id, provenance in provenances.items():
        for path, current in sorted(files.items()):
            # a run that was resumed after an edit has the digests of both versions
            digests = provenance.files.get(path, current).split()
            if {code.get(digest, digest) for digest in digests} != {code.get(current, current)}:
                changes.append(Change(run_id, "code", path))
        title, checksum = data[run_id]
        if checksum and provenance.data_checksum not in ("", checksum):
            changes.append(Change(run_id, "data", title))
    return changes


def change_lines(changes: Sequence[Change]) -> list[str]:
    """Return lines such as `my_study.py changed since 4 finished runs were made`."""
    names_by_count = defaultdict[tuple[str, int], list[str]](list)
    added_metrics = []
    for (kind, name), count in Counter((change.kind, change.name) for change in changes).items():
        if kind == "metric":
            added_metrics.append(f"{plural(count, 'finished run')} without the added metric {name}")
            continue
        names_by_count["The data set " if kind == "data" else "", count].append(name)
    lines = added_metrics
    for (noun, count), names in names_by_count.items():
        runs = f"{plural(count, 'finished run')} {'were' if count > 1 else 'was'} made"
        if len(names) > LISTED:
            names = [f"{', '.join(names[:LISTED])} and {plural(len(names) - LISTED, 'other file')}"]
        lines += [f"{noun}{name} changed since {runs}" for name in names]
    return lines
