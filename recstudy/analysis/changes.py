"""Finished runs of other code, or of other data, than what would compute them now.

A run's record says which code computed it and on which images, the plan what computes it since: this is the difference.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from recstudy.errors import StorageError
from recstudy.records import Results
from recstudy.records.schema import CodeRecord, Provenance
from recstudy.records.study_schema import VariantRecord
from recstudy.report.names import plural

if TYPE_CHECKING:
    from recstudy.analysis.frame import StudyRecords  # brings pandas, which a plan does without

SHOWN = 2  # files, sets or commits that a line names before it counts the others
SHORT = 7  # hex digits of a commit


@dataclass(frozen=True)
class Change:
    """What has changed since a run was finished: files of code, or data sets."""

    run_id: str
    kind: Literal["code", "data"]
    names: tuple[str, ...]
    since: str  # the run's commits, or its day where it has none


def changes(records: "StudyRecords") -> list[Change]:
    """Of a study's runs, against what its plan knows."""
    return records.once("changes", lambda: _changes(records))


def _changes(records: "StudyRecords") -> list[Change]:
    planned = {row.id: records.variants[row.variant] for row in records.rows}
    made = {row.id: row.result.provenance for row in records.rows if row.result is not None}
    return changed(planned, records.plan.code, made, records.results)


def changed(
    planned: Mapping[str, VariantRecord], code: Mapping[str, CodeRecord], made: Mapping[str, Provenance], results: Results
) -> list[Change]:
    """Of these runs, by id, with what computes them now. What old records and plans do not tell is no change."""
    finished = ((run_id, variant, made[run_id]) for run_id, variant in planned.items() if run_id in made)
    return [change for run_id, variant, by in finished for change in _of_run(run_id, variant, by, code, results)]


def lines(found: Sequence[Change]) -> list[str]:
    """One line for the code and one for the data: `12 runs are of other code: models/mixer.py changed since 3f2a91c`."""
    return [_line([change for change in found if change.kind == kind]) for kind in dict.fromkeys(one.kind for one in found)]


def _of_run(
    run_id: str, variant: VariantRecord, made: Provenance, code: Mapping[str, CodeRecord], results: Results
) -> Iterator[Change]:
    present = {part: code[name] for part, name in variant.code.items() if name in code}
    differ = {part: now for part, now in present.items() if made.code.get(part) and now.digest and made.code[part] != now.digest}
    if differ:
        yield Change(run_id, "code", tuple(_files(run_id, differ, results)), _since(made))
    if variant.data_checksum and made.data_checksum and variant.data_checksum != made.data_checksum:
        yield Change(run_id, "data", (variant.data,), _since(made))


def _since(made: Provenance) -> str:
    commits = made.commits or ((made.commit,) if made.commit else ())
    return ", ".join(commit[:SHORT] for commit in commits) or made.finished[:10]


def _files(run_id: str, differ: Mapping[str, CodeRecord], results: Results) -> Iterator[str]:
    """Those whose definitions are others now; none where the code changed while the run was under way, and not since."""
    try:
        before = results.run(run_id).made_by
    except StorageError:  # then the digest alone tells
        return
    for part, now in differ.items():
        then = before[part].files if part in before else {}
        yield from (name for name in then | now.files if then.get(name) != now.files.get(name))


def _line(found: Sequence[Change]) -> str:
    names = _some(list(dict.fromkeys(name for change in found for name in change.names)))
    since = _some(list(dict.fromkeys(change.since for change in found)))
    told = f"{names} changed since {since}" if names else "it changed while under way"
    return f"{plural(len(found), 'run')} {'is' if len(found) == 1 else 'are'} of other {found[0].kind}: {told}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
