"""The command line: `python studies/NAME.py` runs a study, `recstudy` reads what studies left behind."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

import recstudy.data
import recstudy.models  # noqa: F401  both fill the registries
from recstudy.errors import ConfigError, RecstudyError
from recstudy.records import Results
from recstudy.study.study import Plan, Run, Study, make_plan, select

Format = Literal["pdf", "svg", "png"]
Repeated = tyro.conf.UseAppendAction


@dataclass(frozen=True)
class Options:
    """How a study is run. Everything that decides a number is a field of the run config: see --set."""

    preset: Annotated[str, tyro.conf.arg(metavar="NAME")] = ""
    """Which budget: the study's first preset (`quick`) by default."""
    seeds: Annotated[int | None, tyro.conf.arg(metavar="N")] = None
    """Seeds 0 to N-1 of every variant. Going from 3 to 5 runs the two that are missing."""
    only: Annotated[Repeated[tuple[str, ...]], tyro.conf.arg(metavar="GLOB")] = ()
    """Run only the variants whose label matches, such as 'latent_steps=3*'. May be given more than once."""
    set: Annotated[Repeated[tuple[str, ...]], tyro.conf.arg(metavar="FIELD=VALUE")] = ()
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
    _exit(lambda: _study(study, options))


def _study(study: Study, options: Options) -> int:
    plan = make_plan(study, options.preset, _changes(options), options.seeds, options.smoke)
    runs = select(plan, options.only)
    results = Results(options.results)
    if options.dry_run or options.json:
        _print_plan(plan, runs, results, as_json=options.json)
        return 0
    _run(plan, runs, results, options)
    _report(results, study.name, plan.folder, options.export)
    states = results.states()
    return 1 if any(states.get(run.id) != "done" for run in runs) else 0


def _run(plan: Plan, runs: Sequence[Run], results: Results, options: Options) -> None:
    if _all_finished(plan, runs, results):
        return
    from recstudy.study.driver import Where, run_study
    from recstudy.study.view import View

    commit, dirty = _commit()
    where = Where(options.address, _data_folder(options.data), options.download, commit, dirty)
    with View() as view:
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


def _print_plan(plan: Plan, runs: Sequence[Run], results: Results, as_json: bool) -> None:
    from recstudy.metrics.cost import cost

    states = results.states()
    rows = []
    for run in runs:
        counted = cost(run.config)
        rows.append(
            {
                "label": run.label,
                "seed": run.seed,
                "id": run.id,
                "params": counted.params,
                "gflops": counted.gflops,
                "train_gflops": counted.train_gflops,
                "cached": states.get(run.id) == "done",
            }
        )
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    _print_plan_table(plan, runs, rows)


def _print_plan_table(plan: Plan, runs: Sequence[Run], rows: Sequence[Mapping[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from recstudy.metrics.cost import total_pflop

    table = Table(title=f"{plan.study.name}, preset {plan.folder}: {len(rows)} runs", box=None, title_justify="left")
    for name in ("run", "seed", "parameters", "GFLOPs", "training PFLOP", "state"):
        table.add_column(name, justify="left" if name in ("run", "state") else "right", no_wrap=True)
    pflop = [total_pflop(run.config) for run in runs]
    for row, spend in zip(rows, pflop, strict=True):
        cells = row["label"], row["seed"], f"{row['params']:,}", f"{row['gflops']:.4g}", f"{spend:.3g}"
        table.add_row(*(Text(str(cell)) for cell in cells), "finished" if row["cached"] else "to run")
    console = Console(highlight=False)
    console.print(table)
    left = sum(spend for row, spend in zip(rows, pflop, strict=True) if not row["cached"])
    console.print(
        f"To run: {left:.3g} PFLOP of training, at most (halting saves some): {left * 1e15 / 50e9 / 3600:.2g} core hours at "
        f"50 GFLOP/s a core, or {left * 1e15 / 250e12 / 3600:.2g} GPU hours at 250 TFLOP/s."
    )


def _report(results: Results, study: str, preset: str, export: Sequence[str]) -> None:
    from recstudy.analysis.report import show_report

    show_report(results, study, preset, export, Console(highlight=False))


def _exit(work: Callable[[], int]) -> None:
    """Turn what can go wrong into one line and an exit code."""
    try:
        sys.exit(work())
    except RecstudyError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("Stopped. What was finished is kept; the same command goes on from there.", file=sys.stderr)
        sys.exit(130)


# --------------------------------------------------------------------------------------------- the `recstudy` command


@dataclass(frozen=True)
class Report:
    """Draw tables, figures and the page of studies again, from their records alone."""

    path: tyro.conf.Positional[Path]
    """A results folder, or a study's folder in it (results/studies/NAME/PRESET)."""
    export: tuple[Format, ...] = ()
    """Write the figures in these formats too (needs a Chrome or Chromium)."""


@dataclass(frozen=True)
class Status:
    """How far each study of a results folder is."""

    path: tyro.conf.Positional[Path] = Path("results")
    """A results folder."""


def recstudy_command(arguments: Sequence[str] | None = None) -> None:
    """The `recstudy` command."""
    command = tyro.extras.subcommand_cli_from_dict({"report": Report, "status": Status}, args=arguments, prog="recstudy")
    _exit(lambda: _read(command))


def _read(command: Report | Status) -> int:
    from recstudy.analysis.report import show_report, show_status, studies_at

    console = Console(highlight=False)
    if isinstance(command, Status):
        show_status(Results(command.path), console)
        return 0
    for results, study, preset in studies_at(command.path):
        show_report(results, study, preset, command.export, console)
    return 0
