"""Finished runs that were made with other user files or data than the present ones, and which of them `--rerun` repeats."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recstudy.records import Results
from recstudy.report.changes import Change, change_lines, find_changes
from recstudy.report.names import plural
from recstudy.study.plan import Run, select
from recstudy.study.repository import user_files


@dataclass(frozen=True)
class Outdated:
    """The runs that are finished, what has changed since they were, and the ids of those that are run again."""

    finished: Mapping[str, str]  # id -> `done` or `diverged`
    found: Sequence[Change]
    again: frozenset[str]
    unread: Sequence[str] = ()  # data sets whose files have not been decoded as they are now
    earlier: int = 0  # finished runs that only earlier definitions of the study name

    @property
    def notices(self) -> list[str]:
        """Say what has changed, a line each."""
        fix = "" if self.again else " Repeat them with --rerun changed."
        kept = f"{plural(len(self.again), 'finished run')} to run again; the records so far are kept in runs/ID/attempt-N."
        told = [f"{line}.{fix}" for line in change_lines(self.found)]
        told += [
            f"The files of {name} were not read here as they are now, so it is not known whether finished runs are of them. "
            "--rerun changed reads them."
            for name in self.unread
        ]
        if self.earlier:
            told.append(f"{plural(self.earlier, 'finished run')} of earlier definitions: kept in runs/, and not used.")
        return [*told, *([kept] if self.again else [])]

    def kinds(self, run_id: str) -> list[str]:
        """Return what has changed of a run: `code`, `data`."""
        return sorted({change.kind for change in self.found if change.run_id == run_id})


def outdated(runs: Sequence[Run], results: Results, data: Path, rerun: str = "", earlier: Collection[str] = ()) -> Outdated:
    """Compare the runs that are finished with what would compute them now.

    Args:
        runs: of a study or search.
        results: where their records are.
        data: the folder that the data sets lie in.
        rerun: which are run again: `changed`, `all`, or a glob of labels.
        earlier: ids of runs that only earlier definitions of the study name.

    Raises:
        ConfigError: no label matches.
    """
    run_ids = dict.fromkeys(run.id for run in runs)
    made = {run_id: (result.status, result.provenance) for run_id, result in results.finished(run_ids)}
    finished = {run.id: run.config for run in runs if run.id in made}
    configs = list(finished.values())
    data_now: dict[str, tuple[str, str]] = {}
    unseen: list[str] = []
    if configs:
        program = configs[0].program
        if rerun == "changed":
            program.read_data(configs, data)
        for run_id, checksum in zip(finished, program.checksums(configs, data), strict=True):
            data_now[run_id] = finished[run_id].description.data, checksum
        unseen = sorted(set(program.unread_data(configs, data)) - {title for title, checksum in data_now.values() if checksum})
    files = user_files(runs[0].config.program) if finished else {}
    found = find_changes({run_id: made[run_id][1] for run_id in finished}, files, data_now)
    chosen = runs if rerun == "all" else () if rerun in ("", "changed") else select(runs, [rerun], "--rerun")
    again = {run.id for run in chosen} | {change.run_id for change in found if rerun == "changed"}
    status = {run_id: made[run_id][0] for run_id in finished}
    kept = sum(state == "done" for state in results.states(earlier).values())
    return Outdated(status, found, frozenset(again & finished.keys()), unseen, kept)
