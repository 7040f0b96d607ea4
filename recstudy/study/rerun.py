"""Find finished runs that used other user files or data than the current ones, and select those to repeat."""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from recstudy.base.errors import ConfigError
from recstudy.plugins import code_digests
from recstudy.programs.own import OwnProgram
from recstudy.records import Results, Run
from recstudy.report.changes import Change, change_lines, find_changes
from recstudy.report.names import plural
from recstudy.study.repository import user_files
from recstudy.study.variants import select


@dataclass(frozen=True)
class Outdated:
    """The ids of finished runs, what has changed since, and the ids of the runs to repeat."""

    finished: Set[str]
    changes: Sequence[Change]
    rerun_ids: frozenset[str]
    # Data sets whose current files were not decoded yet, so that changes of them are unknown.
    unread: Sequence[str] = ()
    # Finished runs of variants or settings that the study no longer has.
    earlier_runs: int = 0

    @property
    def notices(self) -> list[str]:
        """Lines about the changes and the runs to repeat."""
        fix = "" if self.rerun_ids else " Repeat them with --rerun changed."
        lines = [f"{line}.{fix}" for line in change_lines(self.changes)]
        lines += [
            f"The current files of {name} were not read yet, so finished runs may have used other data."
            " Check with --rerun changed."
            for name in self.unread
        ]
        if self.earlier_runs:
            lines.append(
                f"{plural(self.earlier_runs, 'finished run')} of variants or settings that the study no"
                " longer has: kept in runs/, but not used."
            )
        if self.rerun_ids:
            runs = plural(len(self.rerun_ids), "finished run")
            lines.append(f"{runs} will be repeated. Earlier records are kept in runs/ID/attempt-N.")
        return lines

    def refuse_edited(self) -> None:
        """Refuse to report finished runs of other code, unless they are repeated.

        Raises:
            ConfigError: There are such runs.
        """
        edited = [
            change for change in self.changes if change.kind != "data" and change.run_id not in self.rerun_ids
        ]
        if edited:
            lines = "; ".join(change_lines(edited))
            raise ConfigError(f"{lines}. Repeat them with --rerun changed, or use them with --keep")

    def kinds(self, run_id: str) -> list[str]:
        """Return the kinds of changes since a run: `code`, `data`."""
        return sorted({change.kind for change in self.changes if change.run_id == run_id})


def outdated(
    runs: Sequence[Run],
    results: Results,
    data: Path,
    rerun: str = "",
    earlier_ids: Collection[str] = (),
    code: Mapping[str, str] | None = None,
) -> Outdated:
    """Compare finished runs with the current user files and data.

    Args:
        runs: The runs of a study or search.
        results: The results folder.
        data: The folder of the data sets.
        rerun: The runs to repeat: `changed`, `all`, or a glob of labels. By default none.
        earlier_ids: Ids of runs that only earlier definitions of the study planned.
        code: SHA-256 of a user file in the study's earlier plans -> digest of its code.

    Raises:
        ConfigError: No label matches the glob.
    """
    finished_results = dict(results.finished(dict.fromkeys(run.id for run in runs)))
    provenances = {run_id: result.provenance for run_id, result in finished_results.items()}
    finished = {run.id: run.config for run in runs if run.id in provenances}
    changes: list[Change] = []
    unread: list[str] = []
    if finished:
        program, configs = runs[0].config.program, list(finished.values())
        titles = [config.description.data for config in configs]
        checksums = program.checksums(configs, data, read=rerun == "changed")
        data_now = dict(zip(finished, zip(titles, checksums, strict=True), strict=True))
        known_titles = {title for title, checksum in data_now.values() if checksum}
        unread = sorted(set(program.unread_data(configs, data)) - known_titles)
        changes = find_changes(provenances, user_files(program), data_now, {**(code or {}), **code_digests})
        declared = program.metrics if isinstance(program, OwnProgram) else {}
        for run_id, result in finished_results.items():
            missing_metrics = declared.keys() - result.metrics if result.status == "done" else ()
            changes += [Change(run_id, "metric", name) for name in sorted(missing_metrics)]
    if rerun in ("", "changed"):
        rerun_ids = {change.run_id for change in changes if rerun}
    else:
        chosen = runs if rerun == "all" else select(runs, [rerun], "--rerun")
        rerun_ids = {run.id for run in chosen}
    earlier_count = sum(state == "done" for state in results.states(earlier_ids).values())
    return Outdated(finished.keys(), changes, frozenset(rerun_ids & finished.keys()), unread, earlier_count)
