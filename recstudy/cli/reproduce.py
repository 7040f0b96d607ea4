"""`recstudy reproduce`: repeat the runs of a bundle with the installed recstudy, and compare the numbers.

With `--trust`, the study's own modules are imported from the bundle. The runs have a results folder of their
own and keep their ids. The bundle is not changed.
"""

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Annotated, Any

from tyro.conf import Positional, arg

from recstudy.base.errors import ConfigError, choices
from recstudy.base.terminal import document_output, say
from recstudy.base.values import flatten
from recstudy.cli.execution import complete, exit_code, reasons
from recstudy.cli.options import (
    Address,
    BundleArgument,
    Folder,
    Imports,
    JsonFlag,
    ResultsPlace,
    StudyOptions,
    data_folder,
)
from recstudy.plugins import loaded, user_files_of
from recstudy.programs.base import RunSettings, read_settings
from recstudy.programs.own import OwnSettings
from recstudy.programs.settings import PREFIX
from recstudy.publishing.bundle import CODE, Bundle, open_bundle
from recstudy.records import Results, Run, read_json
from recstudy.report import Table
from recstudy.report.names import plural
from recstudy.study.design import Variant
from recstudy.study.dry_run import print_plan
from recstudy.study.plan import Plan, make_plan
from recstudy.study.rerun import outdated
from recstudy.study.study import Study


@dataclass(frozen=True)
class ReproduceCommand:
    """Run a published study again, and compare the numbers.

    They may be bit-equal, within the spread of runs, or different.

    Example: recstudy reproduce sudoku_depth.zip depths:1:2
    """

    bundle: BundleArgument
    """A bundle of `recstudy publish`."""
    cell: Positional[Annotated[str, arg(metavar="CELL|CLAIM")]] = ""
    """TABLE:ROW:COLUMN as in `recstudy explain`, or the beginning of a claim. Default: every finished run."""
    fresh_seeds: Annotated[int, arg(metavar="N")] = 0
    """Run the next N seeds of each variant instead of the published ones."""
    dry_run: bool = False
    """List the runs with their cost, and exit."""
    results: ResultsPlace = "reproduced"
    """The folder of the new records (default: reproduced)."""
    data: Folder = None
    """The folder with the data sets. Default: RECSTUDY_DATA, else ./data."""
    address: Address = None
    """The Ray cluster: auto or HOST:PORT. Default: start one on this machine."""
    no_ray: bool = False
    """Make one run after another in this process, without Ray."""
    trust: Imports = False
    json: JsonFlag = False

    def run(self) -> int:
        from recstudy.publishing.compared import DIFFERENT, compare, price, read_number, show_compared
        from recstudy.report.study_records import records_of  # brings pandas

        with open_bundle(self.bundle) as theirs, ExitStack() as stack:
            stdout = stack.enter_context(document_output(self.json))
            if theirs.plan.imported:
                raise ConfigError(
                    f"the runs of {theirs.about.study} were finished elsewhere and imported: recstudy cannot"
                    " run them"
                )
            modules = theirs.modules
            if modules and not self.trust:
                raise ConfigError(
                    f"its runs need modules of the bundle: {', '.join(modules)}. Read {CODE}/ in it, then add"
                    " --trust"
                )
            stack.enter_context(loaded(user_files_of(theirs.root / CODE, modules)))
            with theirs.records.study_modules():
                published = dict.fromkeys(read_number(theirs.records, self.cell)[1]["run"])
            plan, runs = _planned(theirs, published, self.fresh_seeds)
            results = Results(self.results).pull()
            if self.dry_run:
                print_plan(
                    plan,
                    runs,
                    outdated(runs, results, data_folder(self.data)),
                    results,
                    self.json,
                    stdout=stdout,
                )
                return 0
            say(f"{plural(len(runs), 'run')} to make; {price(theirs.records, published)}")
            options = StudyOptions(
                results=self.results, data=self.data, address=self.address, no_ray=self.no_ray
            )
            complete(plan, runs, results, options)
            if why := reasons(runs, results):
                say(f"Some runs have no result: {choices(sorted(why))}. Run the same command again to resume")
                return exit_code(why)
            labels = [variant.label for variant in theirs.records.variants]
            planned = tuple(run._replace(variant=labels.index(run.label)) for run in runs)
            seeds = tuple(sorted({run.seed for run in runs}))
            our_records = records_of(results, replace(theirs.plan, runs=planned, seeds=seeds))
            with our_records.study_modules():
                compared = compare(theirs.records, our_records, self.cell)
            show_compared(compared)
            if self.json:
                compared.show(stdout)
            return int(any(number.verdict == DIFFERENT for number in compared.numbers))


def _changes(config: RunSettings) -> dict[str, Any]:
    """Return the settings of a config as changes to another config."""
    if isinstance(config, OwnSettings):
        return flatten(config.settings, PREFIX)
    return {part: getattr(config, part) for part in ("model", "data", "train")}


def _planned(theirs: Bundle, published: Collection[str], fresh: int) -> tuple[Plan, list[Run]]:
    """Return a study with the same settings and ids, and the runs to execute. With `fresh`, these use the
    next seeds instead.

    Raises:
        ConfigError: With this version of recstudy, the settings give other ids.
    """
    rows = {row.id: row for row in theirs.records.rows}
    # a run's own record has the resources of its machine, such as a GPU, and not those that were requested
    resources = {"resources": theirs.plan.base.get("resources", {})}
    configs = {
        rows[run].variant: read_settings((read_json(theirs.results.run(run).config) or {}) | resources)
        for run in published
    }
    base = next(iter(configs.values()))
    study = Study(
        name=theirs.about.study,
        presets={theirs.about.preset: base},
        variants=[
            Variant(theirs.records.variants[variant].label, _changes(config))
            for variant, config in configs.items()
        ],
        report=[Table("again")],
        program=base.program if theirs.records.is_own else None,
    )
    seeds = 1 + max(row.seed for row in rows.values())
    plan = make_plan(study, seeds=seeds + fresh)
    if fresh:
        return plan, [run for run in plan.runs if run.seed >= seeds]
    runs = [run for run in plan.runs if run.id in published]
    if unknown_ids := sorted({*published} - {run.id for run in runs}):
        raise ConfigError(
            f"{choices(unknown_ids)}: this recstudy ({version('recstudy')}) has other ids for these settings"
            f" and would make other runs. Install the bundle's recstudy ({theirs.about.recstudy}), or use"
            " --fresh-seeds."
        )
    return plan, runs
