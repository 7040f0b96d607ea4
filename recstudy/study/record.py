"""Write the plan of a study: its runs, the parts of its report, and the dates of its statements."""

import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from pydantic import ValidationError

from recstudy.base.errors import ConfigError
from recstudy.plugins import code_digests, current_files, study_file
from recstudy.programs.metric import metric_fields
from recstudy.programs.settings import json_value
from recstudy.records import Results, read_record, write_record
from recstudy.records.plans import read_looks
from recstudy.records.reading import fault, suppress_damage
from recstudy.records.schema import current_time
from recstudy.records.stores import without_secrets
from recstudy.records.study_schema import (
    Confirm,
    MetricRecord,
    PlanRecord,
    RangeRecord,
    Reference,
    SearchRecord,
)
from recstudy.report import dump_report
from recstudy.report.family import published_tests
from recstudy.report.registration import (
    dropped_questions,
    first_dates,
    published_keys,
    with_description,
)
from recstudy.report.study_records import load_study
from recstudy.study.design import Changes, Variant
from recstudy.study.plan import Plan
from recstudy.study.repository import is_user_study, program, user_files
from recstudy.study.study import PAPER
from recstudy.study.variants import variant_record

# Only so many variants get their FLOPs looked up, because each takes some milliseconds.
PRICED = 300


def plan_record(plan: Plan, folder: Path | None = None) -> PlanRecord:
    """Return the content of `plan.json`: all that readers need of the study file. The trials of a search are
    in a file of their own.

    Args:
        plan: The plan.
        folder: The folder of the data sets, to record their checksums if they are known.

    Raises:
        ConfigError: The plan could not be read again, such as one with a number of 30 digits.
    """
    study = plan.study
    question, _, description = (study.question or study.name).partition("\n")
    checksums = plan.base.program.checksums(plan.configs, folder) if folder else [""] * len(plan.configs)
    positions = {variant.label: position for position, variant in enumerate(plan.variants)}
    try:
        return PlanRecord(
            study=study.name,
            preset=plan.preset,
            question=question.strip(),
            description=description.strip(),
            created=current_time(),
            command=command() if (file := study_file()) else "",  # a notebook has no command
            file=str(file.path) if file and is_user_study(file) else "",
            smoke=plan.smoke,
            definition=plan.definition,
            plugins=tuple(current_files().record),
            base=plan.base.model_dump(mode="json"),
            changes=json_value(plan.changes, "--set"),
            imported=plan.base.program.imported,
            reference=reference(plan),
            metrics={
                name: MetricRecord(**metric_fields(metric)) for name, metric in plan.base.metrics.items()
            },
            files=(files := user_files(plan.base.program)),
            code_digests={
                digest: code_digests[digest] for digest in files.values() if digest in code_digests
            },
            axes=axes_of(plan.variants),
            deviations=tuple(study.deviations),
            variants=tuple(
                variant_record(
                    replace(variant, changes=effective(variant.changes, plan.changes)),
                    config,
                    base=positions[variant.base] if variant.base else None,
                    data_checksum=checksum,
                )
                for variant, config, checksum in zip(plan.variants, plan.configs, checksums, strict=True)
            ),
            seeds=tuple(sorted({run.seed for run in plan.runs})) or (0,),
            max_seeds=plan.max_seeds,
            success_threshold=dict(study.success_threshold),
            paired=study.paired,
            alpha=study.alpha,
            test_share=study.test_share,
            blocks=tuple(study.blocks),
            runs=tuple(plan.runs),
            report=tuple(dump_report(plan.report)),
            search=search_record(plan) if plan.is_search else None,
        )
    except ValidationError as error:
        raise ConfigError(f"its plan cannot be kept: {fault(error)}") from None


def search_record(plan: Plan) -> SearchRecord:
    """Return the record of a search's settings."""
    ranges = {
        family: {
            path: RangeRecord(
                **range.record,
                when={field: tuple(values) for field, values in plan.space.when.get(path, {}).items()},
            )
            for path, range in ranges.items()
        }
        for family, ranges in plan.space.ranges.items()
    }
    return SearchRecord(
        objectives=plan.objectives,
        sampler=plan.sampler,
        stopping=plan.stopping,
        budget=str(plan.budget),
        space=ranges,
        confirm=Confirm(best=plan.confirm, seeds=tuple(plan.fresh_seeds)),
    )


def reference(plan: Plan) -> Reference:
    """Return the `paper` preset, or that of this plan if there is none, without `--set` and `--smoke`."""
    study, preset = plan.study, PAPER if PAPER in plan.study.presets else plan.preset
    bases = study.bases(preset)
    variants = study.by_preset(study.variants, preset) or [
        Variant(base.description.model, base.parts) for base in bases
    ]
    records = None
    if preset != plan.preset or plan.changes or plan.is_search:
        configs = bases[0].with_each(variant.changes for variant in variants)
        records = tuple(map(variant_record, variants, configs))
    return Reference(
        preset=preset, base=bases[0].model_dump(mode="json"), axes=axes_of(variants), variants=records
    )


def axes_of(variants: Sequence[Variant]) -> dict[str, str]:
    return dict(variants[0].axes) if variants else {}


def effective(variant: Changes, command_line: Changes) -> Changes:
    """Return a variant's changes with the command line's changes in them. Other changes are in `base`."""
    inner_changes = {
        field: value
        for field, value in command_line.items()
        if any(f"{field}.".startswith(f"{path}.") for path in variant)
    }
    return {**variant, **inner_changes}


def command(left_out: tuple[str, ...] = ("--only", "--rerun")) -> str:
    """Return the command that resumes the study, without secrets, `--only` and `--rerun`."""
    kept_words = [
        word
        for previous_word, word in pairwise(sys.argv)
        if not word.startswith(left_out) and previous_word not in left_out
    ]
    return shlex.join([*program(), *map(without_secrets, kept_words)])


def record_plan(plan: Plan, results: Results, data: Path | None = None) -> None:
    """Write `plan.json`, and a copy for this definition that other definitions do not change.

    The caller must have locked the study (`Results.holding`).
    """
    files, record = _files(plan, results), later_record(plan, results, data)
    with results.changing(*files):
        for file in files:
            write_record(file, record)


def later_record(plan: Plan, results: Results, data: Path | None = None) -> PlanRecord:
    """Return the record of a plan with what earlier plans of the study add to it.

    The first dates of a study, a claim and a margin are kept. So are dropped questions, and seeds that were
    started or read (`resumed`).
    """
    record, files = plan_record(resumed(plan, results), data), _files(plan, results)
    definitions = [*filter(None, map(_readable, sorted(files[0].parent.glob("plan-*.json"))))]
    newest, last = map(_readable, files)
    labels = [record.variants[run.variant].label for run in record.runs if record.imported]
    configs = plan.configs if len(plan.configs) <= PRICED else ()
    pflop = [config.program.known_pflop(config) for config in configs]
    pflop_by_label = dict(zip((variant.label for variant in record.variants), pflop, strict=False))
    # Keep the first recorded values, so that an equal plan has equal bytes.
    if last:
        pflop_by_label |= {variant.label: variant.pflop for variant in last.variants}
    dropped: dict[str, tuple[str, int]] = {}
    if newest:
        is_frozen, published = any(results.run(run.id).finished for run in newest.runs), {}
        if is_frozen and not published_keys(newest) <= published_keys(record):
            published = published_tests(load_study(results, record.study, record.folder))
        dropped = dropped_questions(record, newest, is_frozen, published)
    return replace(
        record,
        code_digests=earlier_code(plan, results) | record.code_digests,
        stated=first_dates(record, definitions, plan.base.program.committed),
        described=with_description(record, newest),
        most_seeds=dict(Counter(labels) | Counter(newest.most_seeds if newest else ())),
        dropped=dropped,
        created=(last and last.created) or record.created,
        variants=tuple(
            replace(variant, pflop=pflop_by_label.get(variant.label)) for variant in record.variants
        ),
    )


def earlier_code(plan: Plan, results: Results) -> dict[str, str]:
    """Return SHA-256 -> digest of the code, for each user file of the study's earlier plans."""
    last = _readable(_files(plan, results)[0])
    return last.code_digests if last else {}


def namesake_note(plan: Plan, results: Results) -> str:
    """Return a note if another file has a study of this name here with other runs; otherwise nothing."""
    last, file = _readable(_files(plan, results)[0]), study_file()
    if last is None or file is None or not is_user_study(file):
        return ""
    if (
        last.definition == plan.definition
        or last.file in ("", str(file.path))
        or not Path(last.file).is_file()
    ):
        return ""
    return (
        f"Note: {last.file} and {file.path} both have a study {plan.study.name!r} in {results.root}. The"
        " report of the study that runs last replaces the other's. Rename one of the studies, or give"
        " another folder with --results."
    )


def recorded(plan: Plan, results: Results) -> bool:
    """Return whether the plan on disk has the same definition and claims, and has every run of this plan."""
    last = _readable(_files(plan, results)[0])
    if last is None or last.definition != plan.definition:
        return False
    claims = [part for part in last.report if part.get("kind") == "claims"]
    return claims == dump_report(plan.claims) and {run.id for run in last.runs} >= {
        run.id for run in plan.runs
    }


def resumed(plan: Plan, results: Results) -> Plan:
    """Return the plan with the seeds that an earlier plan of the study had, and that were started or read.

    Runs are found by their ids, whatever the definition of the earlier plan. A new variant gets as many seeds
    as all others have.
    """
    files = results.study(plan.study.name, plan.folder).glob("plan*.json")
    earlier_plans = [*filter(None, map(_readable, files))]
    planned_runs = {run.id: run.seed for record in earlier_plans for run in record.runs}
    most_seeds = max(planned_runs.values(), default=0) + 1
    if most_seeds <= plan.seeds or not plan.variants or plan.base.program.imported:
        return plan
    runs = [run for run in replace(plan, seeds=most_seeds).runs if run.id in planned_runs]
    read_ids = {run_id for look in read_looks(results, earlier_plans[0]) for run_id in look.runs}
    further_runs = [run for run in runs if run.seed >= plan.seeds]
    kept_seeds = [run.seed for run in further_runs if run.id in read_ids or results.run(run.id).has_begun]
    counts = {run.variant: run.seed + 1 for run in runs if run.seed <= max(kept_seeds, default=-1)}
    extended = dict(plan.extended)
    for variant in range(len(plan.variants)):
        count = counts.get(variant) or min(counts.values(), default=0)
        if count > max(plan.seeds, extended.get(variant, 0)):
            extended[variant] = count
    return replace(plan, extended=extended)


def _files(plan: Plan, results: Results) -> tuple[Path, Path]:
    """Return the file of a study's newest plan, and that of this definition."""
    folder = results.study(plan.study.name, plan.folder)
    return folder / "plan.json", folder / f"plan-{plan.definition}.json"


def _readable(file: Path) -> PlanRecord | None:
    """Return a plan, or None if it is missing or damaged. A damaged plan is written anew."""
    with suppress_damage():
        return read_record(file, PlanRecord)
    return None
