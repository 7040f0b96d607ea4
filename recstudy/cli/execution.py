"""Execute the runs of a plan for a command, write the report, and return the exit code of the runs."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from recstudy.base.errors import EXIT_CODES
from recstudy.base.terminal import console, say
from recstudy.cli.options import CommonOptions, ForPaper, SearchOptions, StudyOptions, data_folder
from recstudy.plugins import frozen_files
from recstudy.records import Results, Run, is_locked
from recstudy.records.plans import earlier_runs, record_look
from recstudy.report.names import plural
from recstudy.study.plan import Plan
from recstudy.study.record import earlier_code, plan_record
from recstudy.study.repository import code_version, user_files
from recstudy.study.rerun import Outdated, outdated
from recstudy.study.trials import TrialLog, runs_of

if TYPE_CHECKING:
    from recstudy.programs.facts import InitialWeights
    from recstudy.study.until import Until


@frozen_files()
def complete(
    plan: Plan,
    runs: Sequence[Run],
    results: Results,
    options: StudyOptions | SearchOptions,
    begin: "InitialWeights | None" = None,
    until: "Until | None" = None,
) -> tuple[Plan, Sequence[Run]]:
    """Execute unfinished runs, and further ones of a search or with `until`. Return the final plan and its
    runs.
    """
    from recstudy.cluster.driver import lock_and_record, run_plan
    from recstudy.cluster.sources import RunOptions
    from recstudy.cluster.view import View

    changed = outdated_runs(plan, runs, results, options)
    if not options.keep:
        changed.refuse_edited()
    say(*changed.notices)
    results.check()
    storage = options.optuna_storage if isinstance(options, SearchOptions) else ""
    if not changed.rerun_ids and (settled := _settled(plan, runs, results, changed, storage)):
        lock_and_record(plan, results, View(console()), data_folder(options.data))
        print(settled)
        if not (until and until.next_plan(plan, results)):
            return plan, runs
    check_report(plan)
    program = plan.base.program
    if not plan.smoke:
        say(*program.hints(plan.space.bases.values() if plan.is_search else [run.config for run in runs]))
    driver_options = RunOptions(
        options.address,
        data_folder(options.data),
        options.download,
        code_version(),
        options.log,
        options.log_losses,
        options.no_ray,
        user_files(program),
    )
    with View(console()) as view:
        plan = run_plan(
            plan,
            results,
            driver_options,
            view,
            runs,
            rerun_ids=changed.rerun_ids,
            until=until,
            begin=begin,
            storage=storage,
        )
    return plan, runs_of(plan, results) if until or plan.is_search else runs


def _settled(plan: Plan, runs: Sequence[Run], results: Results, changed: Outdated, storage: str) -> str:
    """Return a line if nothing remains to run; otherwise an empty text. It loads neither torch nor Ray."""
    if not plan.is_search:
        is_finished = all(run.id in changed.finished for run in runs)
        return f"{plural(len({run.id for run in runs}), 'run')}: all finished before" if is_finished else ""
    log = TrialLog(plan, results)
    if not log.params or not log.is_settled():
        return ""
    if storage:
        from recstudy.study.space import Optimizer

        Optimizer(plan, log.tried(), storage)  # writes there what it lacks
    counts = f"{log.run_count} runs made before, {len(log.fresh)} with fresh seeds"
    return f"Budget: {plan.budget} in all; {counts}: nothing is left to run{log.unspent}"


def reasons(runs: Iterable[Run], results: Results) -> set[str]:
    """Return the distinct reasons why runs have no result, without runs of other processes."""
    folders = (results.run(run.id) for run in runs)
    return {reason for folder in folders if (reason := folder.reason) and not is_locked(folder.lock)}


def exit_code(failures: set[str]) -> int:
    """Return 0 if every run is done, the code of the reason if all others have the same, and 1 if reasons
    differ.

    Runs that were skipped after failures of other runs count as no reason.
    """
    tried = failures - {"not run"}
    if len(tried) == 1:
        return EXIT_CODES.get(tried.pop(), 1)
    return int(bool(failures))


def outdated_runs(plan: Plan, runs: Sequence[Run], results: Results, options: CommonOptions) -> Outdated:
    earlier_ids: Collection[str] = ()
    if not plan.is_search:
        folder = results.study(plan.study.name, plan.folder)
        earlier_ids = earlier_runs(results, folder, plan.definition, {run.id for run in plan.runs})
    return outdated(
        runs, results, data_folder(options.data), options.rerun, earlier_ids, earlier_code(plan, results)
    )


def check_report(plan: Plan) -> None:
    """Refuse a report that could not be drawn after the training, and list parts that may fail."""
    from recstudy.report.writing import check_drawable

    say(*check_drawable(plan_record(replace(plan, seeds=1))))


def draw_report(results: Results, study: str, preset: str, options: ForPaper, quiet: bool = False) -> None:
    """Write the report of a study, and record the look.

    Raises:
        StorageError: A record is damaged, or the folder cannot be written.
        ConfigError: A part of the report is invalid.
        PartError: The report was written without a part.
    """
    from recstudy.report.writing import show_report

    with results.drawing(study, preset):
        results.pull()
        record_look(results, study, preset)
        try:
            show_report(results, study, preset, options.formats, console(quiet), options.paper)
        finally:
            results.send(results.study(study, preset) / "report")
