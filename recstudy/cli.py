"""The command line of a study or a search: `python studies/NAME.py`."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro

import recstudy.data
import recstudy.models  # noqa: F401  both fill the registries
from recstudy.config import RunConfig
from recstudy.errors import FAILURES, ConfigError, StorageError, failure_code
from recstudy.plugins import bundle, refuse_while_loading, study_file
from recstudy.records import Results
from recstudy.records.locks import Held
from recstudy.report.names import plural
from recstudy.study.advice import hints
from recstudy.study.repository import PACKAGE, code_version, package_state
from recstudy.study.search import Search, SearchPlan, make_search
from recstudy.study.study import Plan, Run, Study, make_plan, select
from recstudy.terminal import console, finish, parsed

if TYPE_CHECKING:
    from recstudy.cluster.sweep import Where
    from recstudy.cluster.view import View
    from recstudy.study.rerun import Outdated

S = TypeVar("S", bound=Study | Search)
Given = TypeVar("Given", bound="Options")
BEGAN_WITH = package_state()  # the files of recstudy that this process runs
GONE = 3 + list(FAILURES).index("storage")
Format = Literal["pdf", "svg", "png"]
Columns = Literal[1, 2]
Logger = Literal["tensorboard", "wandb", "mlflow", "aim"]


@dataclass(frozen=True)
class Options:
    """How runs are run. Everything that decides a number is a field of the run config: see --set."""

    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """Which budget: the study's first preset (`quick`) by default."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FIELD=VALUE")] = ()
    """Change a field for every variant, such as train.epochs=5. May be given more than once."""
    smoke: bool = False
    """The whole path in seconds: two epochs on 32 images, unless --set says otherwise. Its numbers mean nothing."""
    dry_run: bool = False
    """Print the plan and what it costs, and run nothing."""
    json: bool = False
    """With --dry-run: as a JSON list."""
    address: Annotated[str | None, tyro.conf.arg(metavar="ADDRESS")] = None
    """The Ray cluster: auto or HOST:PORT. Default: start one on this machine."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """Where data sets lie in their official layouts. Default: RECSTUDY_DATA, else ./data."""
    download: bool = False
    """Let torchvision download what is missing there."""
    allow_missing: bool = False
    """Go on without images that a data set's table names and its folder lacks (chest X-rays); a field of the run config."""
    results: Annotated[str, tyro.conf.arg(metavar="DIR|URI")] = "results"
    """Where records and reports go: a folder, or s3://bucket/folder. A finished run found there is never run again."""
    export: tuple[Format, ...] = ()
    """Write the figures in these formats too (needs a Chrome or Chromium)."""
    columns: Columns = 2
    """Those figures' width in columns of a paper: 1 is 3.5 inches, 2 are 7."""
    cpus_per_run: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """CPU cores a worker may use."""
    gpus_per_run: Annotated[float | None, tyro.conf.arg(metavar="N")] = None
    """GPUs a worker gets; a fraction shares one."""
    workers_per_run: Annotated[str | None, tyro.conf.arg(metavar="N|LEAST-MOST")] = None
    """Workers that share each batch of one run; 1-4 takes what there is."""
    rerun: Annotated[str, tyro.conf.arg(metavar="changed|all|GLOB")] = ""
    """Run finished runs again: those of other code or data than now, all of them, or those whose label matches. Their records
    so far are kept."""
    trainer: Annotated[str | None, tyro.conf.arg(metavar="auto|inline|train")] = None
    """Train inside Tune's process (inline) or on Ray Train workers (train)."""
    log: tuple[Logger, ...] = ()
    """Write runs to these trackers too, each with its package: see the README."""


@dataclass(frozen=True)
class StudyOptions(Options):
    """How a study is run."""

    seeds: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Seeds 0 to N-1 of every variant. Going from 3 to 5 runs the two that are missing; back to 3 keeps what has begun."""
    only: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="GLOB")] = ()
    """Run only the variants whose label matches, such as 'latent_steps=3*'. May be given more than once."""


@dataclass(frozen=True)
class SearchOptions(Options):
    """How a search is run."""

    family: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")] = ()
    """Model family to search; several times for one search over several. Default: the preset's first."""
    budget: Annotated[str, tyro.conf.arg(metavar="AMOUNT")] = ""
    """What the search may spend in all: 24 runs, 90min, 2h or 40gpuh, up to half of it for --seeds. A larger one goes on."""
    sampler: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """tpe, gp, cmaes, nsgaii, qmc or random."""
    stopping: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """none, asha or median: whether runs that look poor are stopped early."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Fresh seeds for the best settings, paid for by the same budget; 0 for none."""
    optuna_storage: Annotated[str, tyro.conf.arg(metavar="FILE|URL")] = ""
    """Show every trial in optuna-dashboard: a journal file or a database URL to keep them in."""


def main(study: Study | Search, arguments: Sequence[str] | None = None) -> None:
    """Run a study or a search from the command line, then draw its report.

    Exits with 0 when every run has its numbers, 2 on bad input and 130 when stopped. Where runs have no numbers: 3 diverged,
    4 out of memory, 5 hung, 6 data, 7 storage, 8 code, 9 lost node; 1 where the reasons differ, or runs are left.
    """
    refuse_while_loading()
    if not isinstance(study, Study | Search):
        raise ConfigError(f"main runs a Study or a Search, but got {study!r}")
    study = _asking(study)
    description = f"{study.question}\n\nPresets: {', '.join(study.presets)}."

    def given(kind: type[Given]) -> Given:
        return parsed(lambda: tyro.cli(kind, description=description, args=arguments, config=(tyro.conf.DisallowNone,)))

    finish(lambda: _search(study, given(SearchOptions)) if isinstance(study, Search) else _study(study, given(StudyOptions)))


def _asking(study: S) -> S:
    """The study with its question: by default the docstring of the file that is run, where that is the study's."""
    main, file = sys.modules["__main__"], study_file()
    ours = file is not None and (not file.installed or any(value is study for value in vars(main).values()))
    return study if study.question else replace(study, question=cleandoc((main.__doc__ if ours else "") or study.name))


def _study(study: Study, options: StudyOptions) -> int:
    bundle()  # refuses what no worker could load
    plan = make_plan(study, options.preset, _changes(options), options.seeds, options.smoke)
    runs = select(plan, options.only)
    results = Results(options.results).pull()
    known = _outdated(runs, results, options, plan)
    if options.dry_run or options.json:
        from recstudy.study.dry_run import print_plan

        _check_report(plan)
        print_plan(plan, runs, known, results, as_json=options.json)
        return 0
    _tell(known.notices)
    if not _all_finished(plan, runs, results, known, data_folder(options.data)):
        _check_report(plan)
        _hint([run.config for run in runs], plan.smoke)
        where = _where(options)
        from recstudy.cluster.driver import run_study

        with _view() as view:
            run_study(plan, runs, results, where, view, again=known.again)
    drawn = _report(results, study.name, plan.folder, options)
    return exit_code(runs, results) if drawn else GONE


def _search(study: Search, options: SearchOptions) -> int:
    bundle()  # refuses what no worker could load
    plan = make_search(
        study,
        options.preset,
        _changes(options),
        options.family,
        options.budget,
        options.sampler,
        options.stopping,
        options.seeds,
        options.smoke,
    )
    results = Results(options.results).pull()
    from recstudy.study.trials import TrialLog

    log = TrialLog(plan, results)
    known = _outdated([*log.runs, *log.confirmations], results, options)
    if options.dry_run or options.json:
        from recstudy.study.dry_search import print_search

        _check_report(plan)
        print_search(plan, results, known.notices, as_json=options.json)
        return 0
    _tell(known.notices)
    runs = [] if known.again else _settled(plan, results, options.optuna_storage, data_folder(options.data))
    if not runs:
        _check_report(plan)
        _hint(plan.bases.values(), plan.smoke)
        where = _where(options)
        from recstudy.cluster.searching import run_search

        with _view() as view:
            runs = run_search(plan, results, where, view, options.optuna_storage, again=known.again)
    if not _report(results, study.name, plan.folder, options):
        return GONE
    found = any(not results.run(run.id).reason for run in runs)  # some settings of a search may well diverge
    return 0 if found else exit_code(runs, results) or 1


def exit_code(runs: Iterable[Run], results: Results) -> int:
    """0 where every run has its numbers; the code of the one reason why some have none; 1 where the reasons differ.

    Runs that were not tried, as a sweep stopped at the failures of others, are no reason of their own.
    """
    why = {reason for run in runs if (reason := results.run(run.id).reason)}
    tried = why - {"not run"}
    return 0 if not why else failure_code(tried.pop()) if len(tried) == 1 and tried <= FAILURES.keys() else 1


def _outdated(runs: Sequence[Run], results: Results, options: Options, plan: Plan | None = None) -> "Outdated":
    from recstudy.study.plan import earlier
    from recstudy.study.rerun import outdated

    return outdated(runs, results, data_folder(options.data), options.rerun, earlier(plan, results) if plan else ())


def _check_report(plan: Plan | SearchPlan) -> None:
    """Refuse a report that could not be drawn after the training."""
    from recstudy.analysis.report import check_drawable
    from recstudy.study.plan import plan_record, search_record

    check_drawable(search_record(plan) if isinstance(plan, SearchPlan) else plan_record(replace(plan, seeds=1)))


def _hint(configs: Iterable[RunConfig], smoke: bool) -> None:
    _tell(hints(configs) if not smoke else ())


def _tell(lines: Iterable[str]) -> None:
    for line in lines:
        console().print(line, soft_wrap=True)


def _where(options: Options) -> "Where":
    from recstudy.cluster.sweep import Where

    return Where(options.address, data_folder(options.data), options.download, *code_version(), options.log)


def _view() -> "View":
    from recstudy.cluster.view import View

    return View(console())


def _all_finished(plan: Plan, runs: Sequence[Run], results: Results, known: "Outdated", data: Path) -> bool:
    """Nothing to run: say so and record the plan, without loading torch or Ray."""
    results.check()
    if known.again or any(run.id not in known.finished for run in runs):
        return False
    _record(plan, results, data)
    print(f"{plural(len(runs), 'run')}: all finished before")
    return True


def _record(plan: Plan | SearchPlan, results: Results, data: Path) -> None:
    """Write the plan, unless the driver that runs this study now has written one that names all its runs: that one stands."""
    from recstudy.study.plan import record_plan, recorded

    try:
        with results.holding(plan.study.name, plan.folder, wait=False):
            record_plan(plan, results, data)
    except Held:
        if not recorded(plan, results):
            with _view() as view, results.holding(plan.study.name, plan.folder, on_wait=view.waits):
                record_plan(plan, results, data)


def _settled(plan: SearchPlan, results: Results, storage: str, data: Path) -> list[Run]:
    """All runs of a search of which nothing is left to do, and say so, without loading torch or Ray; none otherwise."""
    from recstudy.study.trials import TrialLog

    results.check()
    log = TrialLog(plan, results)
    if not log.params or not log.settled():
        return []
    _record(plan, results, data)
    if storage:
        from recstudy.study.space import Optimizer

        Optimizer(plan, log.tried(), storage)  # writes there what it lacks
    print(f"Budget: {plan.budget} in all; {log.made} runs made before, {len(log.fresh)} with fresh seeds: nothing is left to run")
    return [*log.runs, *log.confirmations]


def _changes(options: Options) -> dict[str, Any]:
    """`--set` and the flags that say how much a run gets, as changes of fields."""
    changes = settings(options.set, "train.epochs=5")
    if options.allow_missing:
        changes["data.allow_missing"] = True
    for flag in ("cpus_per_run", "gpus_per_run", "workers_per_run", "trainer"):
        if getattr(options, flag) is not None:
            changes[f"place.{flag}"] = getattr(options, flag)
    return changes


def settings(given: Iterable[str], example: str) -> dict[str, Any]:
    """Each `FIELD=VALUE` as field -> value."""
    changes: dict[str, Any] = {}
    for setting in given:
        field, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set takes FIELD=VALUE, such as {example}, but got {setting!r}")
        changes[field.strip()] = _value(value.strip())
    return changes


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def data_folder(given: Path | None) -> Path:
    return given or Path(os.environ.get("RECSTUDY_DATA", "data"))


def _report(results: Results, study: str, preset: str, options: Options) -> bool:
    """Draw the report; False, and one line, where the results folder has filled up or gone while runs were running.

    Where recstudy's own files have changed meanwhile, a new process draws it: to the rest of this one they no longer fit.
    """
    if package_state() != BEGAN_WITH:
        return _drawn_anew(results, results.pull().study(study, preset), options)
    from recstudy.analysis.report import show_report

    try:
        page = show_report(results.pull(), study, preset, options.export, console(), options.columns)
        results.send(page.parent)
    except (StorageError, ConfigError) as error:
        print(f"The report cannot be drawn. {type(error).__name__}: {error}", file=sys.stderr)
        return False
    return True


def _drawn_anew(results: Results, folder: Path, options: Options) -> bool:
    """Draw it by the command that draws any report."""
    words = ["report", str(folder), "--columns", str(options.columns), *(["--export", *options.export] if options.export else [])]
    print("recstudy's files were changed while this ran: a new process draws the report.", file=sys.stderr)
    command = [sys.executable, "-P", "-c", "from recstudy.command import main; main()", *words]
    where = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    drawn = subprocess.run(command, env=os.environ | {"PYTHONPATH": where}, check=False).returncode == 0
    if drawn:
        results.send(folder / "report")
    else:
        print(f"The report cannot be drawn. Once recstudy is whole again: {shlex.join(['recstudy', *words])}", file=sys.stderr)
    return drawn
