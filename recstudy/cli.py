"""The command line of a study: `python studies/NAME.py`."""

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

import recstudy.data
import recstudy.models  # noqa: F401  both fill the registries
from recstudy.errors import ConfigError
from recstudy.records import Results
from recstudy.study.hints import hints
from recstudy.study.study import Plan, Run, Study, make_plan, select
from recstudy.study.token import present_token
from recstudy.terminal import console, finish

Format = Literal["pdf", "svg", "png"]


@dataclass(frozen=True)
class Options:
    """How a study is run. Everything that decides a number is a field of the run config: see --set."""

    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """Which budget: the study's first preset (`quick`) by default."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Seeds 0 to N-1 of every variant. Going from 3 to 5 runs the two that are missing."""
    only: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="GLOB")] = ()
    """Run only the variants whose label matches, such as 'latent_steps=3*'. May be given more than once."""
    set: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FIELD=VALUE")] = ()
    """Change a field for every variant, such as train.epochs=5. May be given more than once."""
    smoke: bool = False
    """The whole path in seconds: two epochs on 32 images. Its numbers mean nothing."""
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
    results: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("results")
    """Where records and reports go. A finished run found there is never run again."""
    export: tuple[Format, ...] = ()
    """Write the figures in these formats too (needs a Chrome or Chromium)."""
    cpus_per_run: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """CPU cores a worker may use."""
    gpus_per_run: Annotated[float | None, tyro.conf.arg(metavar="N")] = None
    """GPUs a worker gets; a fraction shares one."""
    workers_per_run: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Workers that share each batch of one run."""
    trainer: Literal["auto", "inline", "train"] | None = None
    """Train inside Tune's process (inline) or on Ray Train workers (train)."""


def main(study: Study, arguments: Sequence[str] | None = None) -> None:
    """Run a study from the command line, then draw its report. Exits with 0, 1 (runs failed), 2 (bad input) or 130."""
    description = f"{study.question}\n\nPresets: {', '.join(study.presets)}."
    options = tyro.cli(Options, description=description, args=arguments)
    finish(lambda: _study(study, options))


def _study(study: Study, options: Options) -> int:
    plan = make_plan(study, options.preset, _changes(options), options.seeds, options.smoke)
    runs = select(plan, options.only)
    results = Results(options.results)
    if options.dry_run or options.json:
        from recstudy.study.dry_run import print_plan

        print_plan(plan, runs, results, as_json=options.json)
        return 0
    _run(plan, runs, results, options)
    _report(results, study.name, plan.folder, options.export)
    states = results.states()
    return 1 if any(states.get(run.id) != "done" for run in runs) else 0


def _run(plan: Plan, runs: Sequence[Run], results: Results, options: Options) -> None:
    if _all_finished(plan, runs, results):
        return
    for hint in hints(run.config for run in runs) if not plan.smoke else ():
        console().print(hint, soft_wrap=True)
    if options.address:
        present_token()
    from recstudy.study.driver import Where, run_study
    from recstudy.study.view import View

    commit, dirty = _commit()
    where = Where(options.address, _data_folder(options.data), options.download, commit, dirty)
    with View(console()) as view:
        run_study(plan, runs, results, where, view)


def _all_finished(plan: Plan, runs: Sequence[Run], results: Results) -> bool:
    """Nothing to run: say so and record the plan, without loading torch or Ray."""
    from recstudy.study.plan import record_plan

    states = results.create().states()
    if any(states.get(run.id) != "done" for run in runs):
        return False
    record_plan(plan, results)
    print(f"{len(runs)} runs: all finished before")
    return True


def _changes(options: Options) -> dict[str, Any]:
    """`--set` and the flags that say how much a run gets, as changes of fields."""
    changes: dict[str, Any] = {}
    for setting in options.set:
        field, equals, value = setting.partition("=")
        if not equals:
            raise ConfigError(f"--set takes FIELD=VALUE, such as train.epochs=5, but got {setting!r}")
        changes[field.strip()] = _value(value.strip())
    if options.allow_missing:
        changes["data.allow_missing"] = True
    for flag in ("cpus_per_run", "gpus_per_run", "workers_per_run", "trainer"):
        if getattr(options, flag) is not None:
            changes[f"place.{flag}"] = getattr(options, flag)
    return changes


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _data_folder(given: Path | None) -> Path:
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


def _report(results: Results, study: str, preset: str, export: Sequence[str]) -> None:
    from recstudy.analysis.report import show_report

    show_report(results, study, preset, export, console())
