"""The command line of a study or search: `python studies/NAME.py`. `main` is also the last line of a study
file.
"""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import cleandoc
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import tyro

from recstudy.base.errors import EXIT_CODES, ConfigError, PartError, StorageError
from recstudy.base.terminal import (
    document_output,
    environment,
    finish,
    output,
    parsed,
    say,
    sigterm_restored,
)
from recstudy.cli.execution import check_report, complete, draw_report, exit_code, outdated_runs, reasons
from recstudy.cli.help import HELP_WORDS, TYRO, print_help
from recstudy.cli.options import (
    MODEL_OPTIONS,
    SearchOptions,
    StudyOptions,
    axes,
    changes_of,
    data_folder,
    move_fields_first,
    write_fields,
)
from recstudy.papers import by_name
from recstudy.plugins import frozen_files, refuse_while_loading, study_file
from recstudy.programs.base import load_program
from recstudy.programs.metric import using_metrics
from recstudy.records import Results, Run
from recstudy.records.study_schema import folder_of
from recstudy.report.names import plural
from recstudy.study.dry_run import price_lines, print_plan
from recstudy.study.plan import Plan, make_plan
from recstudy.study.record import namesake_note, resumed
from recstudy.study.repository import program, version_text
from recstudy.study.search import Search
from recstudy.study.study import Study
from recstudy.study.trials import runs_of
from recstudy.study.variants import select

if TYPE_CHECKING:
    from recstudy.programs.facts import InitialWeights
    from recstudy.report.loaded import Loaded

GPU_PRESET = "standard"  # taken by default on a cluster with GPUs


def main(study: Study | Search, arguments: Sequence[str] | None = None) -> None:
    """Run a study or a search from the command line, then write its report.

    The exit code is 0 if every run is done (trials of a search may diverge), 2 for invalid input, and 130
    after a stop. If runs have no result, the code gives the reason: 3 diverged, 4 out of memory, 5 hung, 6
    data, 7 storage, 8 code, 9 lost node. It is 1 if the reasons differ or runs remain, and 8 if a part of the
    report cannot be drawn. With `--exit-by-verdict` it is 10 if a claim is undecided, and 11 if one is
    contradicted or smaller than claimed.
    """
    refuse_while_loading()
    if not isinstance(study, Study | Search):
        raise ConfigError(f"main runs a Study or a Search, but got {study!r}")
    if not study.question:  # by default the docstring of the file that is run, where that is the study's
        module, file = sys.modules["__main__"], study_file()
        is_own = file is not None and (
            not file.installed or any(value is study for value in vars(module).values())
        )
        study = replace(study, question=cleandoc((module.__doc__ if is_own else "") or study.name))
    words = move_fields_first(sys.argv[1:] if arguments is None else arguments)
    kind: type[StudyOptions | SearchOptions] = SearchOptions if isinstance(study, Search) else StudyOptions

    def work() -> int:
        if "--version" in words:
            say(version_text())
            return 0
        if not HELP_WORDS.isdisjoint(words):
            _print_help(study, kind, "--help-all" in words)
            return 0
        options = parsed(lambda: tyro.cli(kind, args=words, prog=shlex.join(program()), config=TYRO))
        with using_metrics(study.metrics), document_output(options.json) as stdout:
            return carry_out(study, options, stdout=stdout)

    finish(work)


def _print_help(study: Study | Search, kind: type[StudyOptions | SearchOptions], is_whole: bool) -> None:
    """Print the question of a study, its presets, the options that have an effect on it, and examples."""
    question, command = by_name(study.question), shlex.join(program())
    change = "" if study.program else " train.epochs=5"
    print_help(
        kind,
        command,
        f"{question if is_whole else question.splitlines()[0]}\n\nPresets: {', '.join(study.presets)}.",
        {
            f"{command} --dry-run": "see runs and price",
            f"{command}{change} --seeds 3": "change settings",
            f"{command} --address auto": "use a Ray cluster",
        },
        is_whole,
        MODEL_OPTIONS if study.program else (),
    )


def run(
    study: Study,
    *,
    preset: str = "",
    set: Mapping[str, Any] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | None = None,
    max_seeds: int | None = None,
    only: Sequence[str] = (),
    smoke: bool = False,
    results: str | Path = "results",
    data: str | Path | None = None,
    address: str | None = None,
    ray: bool = True,
    init_from: str | Path = "",
    rerun: str = "",
    keep: bool = False,
) -> "Loaded":
    """Run a study from Python or a notebook, and return its results. The arguments are the flags of the
    command line.

    Failed runs are rows of `runs` with their status.

    Args:
        study: The study. Its finished runs in `results` are not repeated.
        preset: The name of the preset. By default the first one.
        set: Field -> value, for every variant.
        vary: Field -> levels, in place of those of the study.
        seeds: The number of seeds of every variant.
        max_seeds: The maximum number of seeds.
        only: Labels of variants, or globs.
        smoke: Run the whole study in seconds. The numbers mean nothing.
        results: The results folder, or its URI.
        data: The folder of the data sets. By default RECSTUDY_DATA, or ./data.
        address: The address of a Ray cluster. By default a local cluster is started.
        ray: If false, run one run after another in this process, for example with a debugger.
        init_from: A run, or a file or folder with weights, from which training starts.
        rerun: Finished runs to repeat: `changed`, `all`, or a glob of labels.
        keep: Use finished runs although the code of a user file has changed since.

    Returns:
        The study with its records.

    Raises:
        ConfigError, DataError, StorageError, ClusterError: The command line would refuse the same in one
            line.
    """
    refuse_while_loading()
    if not isinstance(study, Study):
        raise ConfigError(
            f"run takes a Study, but got {study!r}. Give a function as its program: run(Study(NAME,"
            " program=..., settings=..., metrics=...)); a Search is run by main"
        )
    options = StudyOptions(
        preset=study.preset_named(preset),
        seeds=seeds,
        max_seeds=max_seeds,
        only=tuple(only),
        smoke=smoke,
        results=str(results),
        address=address,
        no_ray=not ray,
        data=Path(data) if data else None,
        init_from=str(init_from),
        rerun=rerun,
        keep=keep,
    )
    # what ours and Ray's do suits a command
    with using_metrics(study.metrics), sigterm_restored(), environment(), output():
        carry_out(study, options, changes=set, vary=vary, draws=False)
    from recstudy.report.loaded import load

    folder = folder_of(options.preset, smoke)
    return load(Results(options.results).pull().study(study.name, folder))


@frozen_files()
def carry_out(
    study: Study | Search,
    options: StudyOptions | SearchOptions,
    begin: "InitialWeights | None" = None,
    *,
    changes: Mapping[str, Any] | None = None,
    vary: Mapping[str, Any] | None = None,
    draws: bool = True,
    stdout: IO[str] | None = None,
) -> int:
    """Execute the command line of a study or search.

    Args:
        study: The study or search.
        options: The command line.
        begin: The initial weights of the runs. By default those of `options`.
        changes: Field -> value, besides those of `options`.
        vary: Field -> levels. By default those of `options`.
        draws: Whether the report is written.
        stdout: Where the JSON document goes.

    Returns:
        The exit code.
    """
    from recstudy.cli.study_entries import conclude, require_claims, study_entry  # brings pandas

    results = Results(options.results).pull()
    study.activate()
    if options.init_from:
        begin = (study.program or load_program()).weights(options.init_from, results)
    gpus = 0.0
    if options.address and not options.preset and GPU_PRESET in list(study.presets)[1:]:
        gpus = _cluster_gpus(options.address)
    if gpus:
        options = replace(options, preset=GPU_PRESET)
    base = next(iter(study.bases(study.preset_named(options.preset))), None)
    changes = {**changes_of(options, base), **(changes or {})}
    if begin:
        changes["train.init_from"] = begin.digest
    vary = vary or axes(options.vary)
    plan_options = {name: getattr(options, name) for name in options.of_plan}
    plan_options["families"] = getattr(options, "family", ())
    plan = make_plan(study, options.preset, changes, options.seeds, options.smoke, vary=vary, **plan_options)
    if options.write_config:
        say(write_fields(options.write_config, plan.base, f"{study.name}, preset {plan.folder}"))
        return 0
    plan, until = resumed(plan, results), None
    if isinstance(options, StudyOptions) and options.until:
        from recstudy.study.until import Until, with_maximum

        plan = with_maximum(plan, results)
        until = Until.of(plan, results, options.budget)
    runs = select(runs_of(plan, results), getattr(options, "only", ()))
    if gpus:
        finished = outdated_runs(plan, runs, results, options).finished
        *_, price = "", *price_lines(plan, runs, finished, results, int(gpus))
        say(
            f"Preset {GPU_PRESET}, as the cluster has {plural(int(gpus), 'GPU')}; --preset chooses another."
            f" {price}"
        )
    say(*_notes(plan, options, results))
    if options.check_setup:
        return _check_setup(plan, runs, data_folder(options.data))
    if options.exit_by_verdict:
        require_claims(bool(plan.claims), bool(study.claims))
    if options.dry_run:
        changed = outdated_runs(plan, runs, results, options)
        check_report(plan)
        unchecked = plan.base.program.check_data(
            [run.config for run in runs] or [plan.base], data_folder(options.data), begin
        )
        if options.address:
            gpus = gpus or _cluster_gpus(options.address)
        print_plan(plan, runs, changed, results, options.json, until, int(gpus), options.verbose, stdout)
        say(*unchecked)
        return 0
    with output():
        plan, runs = complete(plan, runs, results, options, begin, until)
        say(*(until.summary(plan, results) if until else ()))
        if not draws:
            return 0
        code = 0
        try:
            draw_report(results, study.name, plan.folder, options.report, options.json)
        # such as a results folder that has filled up while runs were running
        except (StorageError, ConfigError, PartError) as error:
            print(f"The report is incomplete. {type(error).__name__}: {error}", file=sys.stderr)
            code = EXIT_CODES["code" if isinstance(error, PartError) else "storage"]
        verdict_code = 0
        if options.json or options.exit_by_verdict:
            entries = [study_entry(results, study.name, plan.folder)]
            verdict_code = conclude("run", entries, options.json, options.exit_by_verdict, stdout)
    failures, is_search = reasons(runs, results), plan.is_search
    if is_search and any(not results.run(run.id).reason for run in runs):
        # Some of its settings may well diverge, and its budget may end before its last runs.
        failures, is_search = failures - {"diverged", "stopped", "not run"}, False
    code = code or exit_code(failures) or int(is_search)
    return code or verdict_code


def _notes(plan: Plan, options: StudyOptions | SearchOptions, results: Results) -> Iterator[str]:
    """Yield notes before anything runs: options without effect, and another study of the same name."""
    configs = plan.configs or list(plan.space.bases.values())
    if options.data and not plan.base.program.reads_data(configs, options.data):
        reason = "its data are generated or come with a package. A preset with a data set reads it there."
        if plan.base.metrics:
            reason = "its program reads no data set of recstudy. Name the folder in the program's settings."
        yield f"Note: --data has no effect on {plan.study.name}, preset {plan.preset}: {reason}"
    if note := namesake_note(plan, results):
        yield note
    if plan.stopping != "none" and not any(base.steps for base in plan.space.bases.values()):
        yield (
            f"Note: {plan.study.name} has no setting `epochs` or `steps`, which states the number of steps of"
            f" a run. --stopping {plan.stopping} takes that of the longest run so far."
        )
    if plan.extended and not getattr(options, "until", None):
        yield (
            f"Note: {plural(max(plan.seeds_each), 'seed')} were started or read before and stay, though this"
            f" command asks for {plan.seeds}. A new variant gets as many."
        )


def _cluster_gpus(address: str) -> float:
    from recstudy.cluster.address import check_address

    check_address(address)  # before Ray is imported
    from recstudy.cluster.connection import count_gpus

    return count_gpus(address)


def _check_setup(plan: Plan, runs: Sequence[Run], folder: Path) -> int:
    """Print what the runs need. The exit code is 2 if anything is missing."""
    parts = (*plan.study.by_preset(plan.study.report, plan.preset), *plan.claims)
    metrics = list({name: None for part in parts for name in part.shown_metrics})
    configs = [run.config for run in runs] or [plan.base]
    needs = plan.base.program.requirements(configs, metrics, folder)
    for need in needs:
        say(f"{'missing' if need.problem else 'ok':8} {need.name}: {need.problem or need.place}")
    missing_count = sum(bool(need.problem) for need in needs)
    say(
        f"{missing_count} of {plural(len(needs), 'requirement')} missing."
        if needs
        else "The runs need no files."
    )
    return ConfigError.exit_code if missing_count else 0
