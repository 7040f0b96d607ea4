"""The command line of a study or a search: `python studies/NAME.py`."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

import recstudy.data
import recstudy.models  # noqa: F401  both fill the registries
from recstudy.config import RunConfig
from recstudy.errors import FAILURES, ConfigError, StorageError
from recstudy.records import Results
from recstudy.study.hints import hints
from recstudy.study.search import Search, SearchPlan, make_search
from recstudy.study.study import Plan, Run, Study, make_plan, select
from recstudy.study.token import present_token
from recstudy.terminal import console, finish

if TYPE_CHECKING:
    from recstudy.study.sweep import Where
    from recstudy.study.view import View

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
    """The Ray cluster: auto, HOST:PORT or ray://HOST:PORT. Default: start one on this machine."""
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
    trainer: Literal["auto", "inline", "train"] | None = None
    """Train inside Tune's process (inline) or on Ray Train workers (train)."""
    log: tuple[Logger, ...] = ()
    """Write runs to these trackers too, each with its package: see the README."""


@dataclass(frozen=True)
class StudyOptions(Options):
    """How a study is run."""

    seeds: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Seeds 0 to N-1 of every variant. Going from 3 to 5 runs the two that are missing."""
    only: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="GLOB")] = ()
    """Run only the variants whose label matches, such as 'latent_steps=3*'. May be given more than once."""


@dataclass(frozen=True)
class SearchOptions(Options):
    """How a search is run."""

    family: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")] = ()
    """Model family to search; several times for one search over several. Default: the preset's first."""
    budget: Annotated[str, tyro.conf.arg(metavar="AMOUNT")] = ""
    """What the search may spend in all: 24 runs, 90min, 2h or 40gpuh. A larger one goes on where it stopped."""
    sampler: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """tpe, gp, cmaes, nsgaii, qmc or random."""
    stopping: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """none, asha or median: whether runs that look poor are stopped early."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Fresh seeds for the best settings, after the search; 0 for none."""
    optuna_storage: Annotated[str, tyro.conf.arg(metavar="FILE|URL")] = ""
    """Show every trial in optuna-dashboard: a journal file or a database URL to keep them in."""


def main(study: Study | Search, arguments: Sequence[str] | None = None) -> None:
    """Run a study or a search from the command line, then draw its report.

    Exits with 0 when every run has its numbers, 2 on bad input and 130 when stopped. Where runs have no numbers: 3 diverged,
    4 out of memory, 5 hung, 6 data, 7 storage, 8 code, 9 lost node; 1 where the reasons differ, or runs are left.
    """
    description = f"{study.question}\n\nPresets: {', '.join(study.presets)}."
    if isinstance(study, Search):
        chosen = tyro.cli(SearchOptions, description=description, args=arguments)
        finish(lambda: _search(study, chosen))
    else:
        options = tyro.cli(StudyOptions, description=description, args=arguments)
        finish(lambda: _study(study, options))


def _study(study: Study, options: StudyOptions) -> int:
    plan = make_plan(study, options.preset, _changes(options), options.seeds, options.smoke)
    runs = select(plan, options.only)
    results = Results(options.results).pull()
    if options.dry_run or options.json:
        from recstudy.study.dry_run import print_plan

        print_plan(plan, runs, results, as_json=options.json)
        return 0
    if not _all_finished(plan, runs, results):
        _hint([run.config for run in runs], plan.smoke)
        where = _where(options)
        from recstudy.study.driver import run_study
        from recstudy.study.remote import run_at

        with _view() as view:
            run_at(partial(run_study, plan, runs, results), results, where, view)
    drawn = _report(results, study.name, plan.folder, options)
    return exit_code(runs, results) if drawn else GONE


def _search(study: Search, options: SearchOptions) -> int:
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
    if options.dry_run or options.json:
        from recstudy.study.dry_search import print_search

        print_search(plan, results, as_json=options.json)
        return 0
    runs = _settled(plan, results, options.optuna_storage)
    if not runs:
        _hint(plan.bases.values(), plan.smoke)
        where = _where(options)
        from recstudy.study.remote import run_at
        from recstudy.study.searching import run_search

        with _view() as view:
            runs = run_at(partial(run_search, plan, results, storage=options.optuna_storage), results, where, view)
    if not _report(results, study.name, plan.folder, options):
        return GONE
    found = any(not results.run(run.id).reason for run in runs)  # some settings of a search may well diverge
    return 0 if found else exit_code(runs, results)


def exit_code(runs: Iterable[Run], results: Results) -> int:
    """0 where every run has its numbers; the code of the one reason why some have none; 1 where the reasons differ."""
    kinds = list(FAILURES)
    why = {reason for run in runs if (reason := results.run(run.id).reason)}
    return 0 if not why else 3 + kinds.index(why.pop()) if len(why) == 1 and why <= set(kinds) else 1


def _hint(configs: Iterable[RunConfig], smoke: bool) -> None:
    for hint in hints(configs) if not smoke else ():
        console().print(hint, soft_wrap=True)


def _where(options: Options) -> "Where":
    if options.address:
        present_token()  # before Ray is imported
    from recstudy.study.sweep import Where

    return Where(options.address, data_folder(options.data), options.download, *_commit(), options.log)


def _view() -> "View":
    from recstudy.study.view import View

    return View(console())


def _all_finished(plan: Plan, runs: Sequence[Run], results: Results) -> bool:
    """Nothing to run: say so and record the plan, without loading torch or Ray."""
    from recstudy.study.plan import record_plan

    states = results.create().states()
    if any(states.get(run.id) != "done" for run in runs):
        return False
    record_plan(plan, results)
    print(f"{len(runs)} runs: all finished before")
    return True


def _settled(plan: SearchPlan, results: Results, storage: str) -> list[Run]:
    """All runs of a search of which nothing is left to do, and say so, without loading torch or Ray; none otherwise."""
    from recstudy.study.plan import record_plan
    from recstudy.study.trials import TrialLog

    log = TrialLog(plan, results.create())
    if not log.params or not log.settled():
        return []
    record_plan(plan, results)
    if storage:
        from recstudy.study.space import Optimizer

        Optimizer(plan, log.tried(), storage)  # writes there what it lacks
    print(f"Budget: {plan.budget}; {len(log.params)} settings tried before: nothing is left to run")
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


def _commit() -> tuple[str | None, bool]:
    """The commit of the code that runs, and whether it was changed since; None outside a git checkout."""
    here = Path(__file__).parent

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=False, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    return git("rev-parse", "HEAD"), bool(git("status", "--porcelain"))


def _report(results: Results, study: str, preset: str, options: Options) -> bool:
    """Draw the report; False, and one line, where the results folder has filled up or gone while runs were running."""
    from recstudy.analysis.report import show_report

    try:
        page = show_report(results.pull(), study, preset, options.export, console(), options.columns)
        results.send(page.parent)
    except (StorageError, ConfigError) as error:
        print(f"The report cannot be drawn. {type(error).__name__}: {error}", file=sys.stderr)
        return False
    return True
