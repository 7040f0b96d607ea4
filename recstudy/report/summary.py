"""The text of a report around its tables and figures.

This is the question, the answer, runs and costs, failures, settings and provenance. `writing.py` puts the
sections on the page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from recstudy.base.errors import ConfigError, StorageError
from recstudy.base.terminal import duration, flops
from recstudy.base.values import flatten
from recstudy.evidence.seeds import Looks
from recstudy.papers import by_name, passage
from recstudy.programs.metric import METRICS
from recstudy.records import PlanRecord, read_record
from recstudy.records.plans import earlier_runs, run_keys
from recstudy.records.runs import STATUSES, Row, distinct, origin
from recstudy.records.study_schema import SearchRecord
from recstudy.report.caveats import SELECTIONS, seed_words, status_words, warnings
from recstudy.report.cell_text import cell_text
from recstudy.report.claims import Claim, QuestionPart
from recstudy.report.contrasts import Comparison
from recstudy.report.family import published_values
from recstudy.report.findings import METHOD, findings
from recstudy.report.fits import are_over_items, unseen_split_notes
from recstudy.report.names import formatted, metric, page_title, plural, quantity, setting_name, value_text
from recstudy.report.page import markup, words_table
from recstudy.report.parts import missing_modules, parts_of, shown_metrics
from recstudy.report.registration import late_changes, statements
from recstudy.report.status import studies
from recstudy.report.study_records import StudyRecords
from recstudy.report.tables.render import margin_notes, outcome_words
from recstudy.report.trials import ranked, trial_table, trial_words


@dataclass(frozen=True)
class Price:
    """The price of a GPU hour, such as `2.5 EUR`."""

    amount: float
    currency: str

    @classmethod
    def parse(cls, text: str) -> Price:
        match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([A-Z]{3})", text.strip())
        if match is None:
            raise ConfigError(
                "--price is the price of a GPU hour with its currency, such as 2.5EUR or 3USD, but got"
                f" {text!r}"
            )
        return cls(float(match[1]), match[2])


def published_html(records: StudyRecords) -> Markup:
    """Return a table of published values, with the reasons why values are not comparable below it."""
    values = published_values(records)
    labels: dict[tuple[str, ...], dict[str, None]] = {}
    for value in values:
        if value.match.reasons:
            labels.setdefault(value.match.reasons, {})[value.label] = None
    notes = [*margin_notes([value.cell for value in values])]
    for reasons, names in labels.items():
        notes.append(f"Not comparable ({', '.join(names)}): {'; '.join(reasons)}.")
    return markup("published", values, metric, cell_text, outcome_words, passage, notes, template="study")


OF_RECURSIVE = tuple(  # resources that only the recursive models use
    f"resources.{name}" for name in ("workers", "trainer", "device", "compile", "checkpoint_seconds")
)
INTERVALS = (
    "Intervals are 95 % confidence intervals over seeds, for a single look at the results. Each variant's own"
    " variance is moderated by up to 2 degrees of freedom from the other variants. Bold: no other variant is"
    " significantly better."
)
ITEM_INTERVALS = (
    "Each variant has a single run. Intervals are 95 % confidence intervals over test items: other items, and"
    " these runs. Differences are paired by item if the table has the result of each item. Other seeds may"
    " differ by more."
)
ON_P = (
    "p (Holm): the p value of a two-sided t test, adjusted for all questions of this report: claims,"
    " differences, effects and published values. It decides the verdict. Supported, higher or lower: p below"
    " {:g}. Smaller than claimed: the stated margin is refuted, and the sign is not. Agrees: our mean lies"
    " within the margin of the published value. Differs: it does not, and one more run of ours would not give"
    " the published value."
)
OVERLAP = (
    "Each seed has its own test set, a share of {:.3g} of the data. These sets overlap, so intervals and"
    " tests use the correction of Nadeau and Bengio (2003)."
)
SHOWN_DIVERGED_RUNS = 10  # diverged runs that a page lists without folding
PROVENANCE = {
    "commit": "commit",
    "dirty": "uncommitted changes",
    "recstudy": "recstudy's own commit",
    "versions": "versions",
    "host": "host",
    "cpu": "processor",
    "gpu": "accelerator",
    "precision": "matrix products",
    "data_checksum": "data checksum",
    "synthetic": "synthetic data",
    "initial": "initial weights",
    "source": "imported from",
}


def question(records: StudyRecords) -> str:
    """Return the title, the question and the warnings about all numbers."""
    title, words = page_title(records.plan), by_name(records.plan.question)
    return markup("question", title, words, warnings(records), template="study")


def answer(records: StudyRecords) -> str:
    """Return the findings, which answer the question."""
    return markup("findings", findings(records), template="study")


def overview(records: StudyRecords, empty: Sequence[str] = ()) -> str:
    """Return warnings, what was run, and the description by the study's author.

    Args:
        records: The study's records.
        empty: The titles of figures without values.
    """
    about = flowing(by_name(records.plan.description.strip()))
    notes = [*failed_metrics(records), *missing_modules(records), *missing_metrics(records)]
    notes += records.changed("data")
    waiting = [f"Figures without values: {'; '.join(empty)}."] if empty else []
    return markup("overview", notes, facts(records), waiting, about, template="study")


def missing_metrics(records: StudyRecords) -> tuple[str, ...]:
    """Name the metrics of the report that finished runs lack although saved answers suffice.

    A metric that was defined after the runs is an example. The note has the command that computes them.
    """
    fields = ("metric", "x", "y")
    field_values = (getattr(part, field, None) for part in parts_of(records) for field in fields)
    metrics = [*shown_metrics(records), *(name for name in field_values if isinstance(name, str))]
    names = dict.fromkeys(name.partition(".")[0] for name in metrics)
    rows = [row for row in records.rows if row.done]
    missing_counts = Counter(name for name in names for row in rows if _could_have(row, name))
    if not missing_counts:
        return ()
    command = " --metric ".join([f"recstudy evaluate {records.command_path}", *missing_counts])
    counts = [
        f"{metric(name).title} by {plural(count, 'finished run')}" for name, count in missing_counts.items()
    ]
    return (f"not computed yet: {', '.join(counts)}. Compute without training: {command}",)


def _could_have(row: Row, name: str) -> bool:
    """Whether a run's answers suffice for a metric that it lacks: it has another metric of the same task."""
    definition = METRICS.get(name)
    if definition is None or definition.of is None or row.value(name) is not None or name in row.unavailable:
        return False
    # A metric by finding is undefined if all or none of the test images have the finding.
    if definition.by_finding and row.result_or_empty.undefined:
        return False
    metrics = [METRICS[measured] for measured in row.measured if measured in METRICS]
    # A metric of a single task shows which task the run has.
    return any(
        other_metric.of is not None
        and len(other_metric.tasks) == 1
        and {*other_metric.tasks} <= {*definition.tasks}
        for other_metric in metrics
    )


def failed_metrics(records: StudyRecords) -> tuple[str, ...]:
    """Return notes on metrics whose code raised an error, with the command that computes them later."""
    failure_counts = Counter(
        (name, why) for row in distinct(records.rows) for name, why in row.raised.items()
    )
    fix = f"Fix it, then compute it without training: recstudy evaluate {records.command_path} --metric"
    return tuple(
        f"the metric {metric(name).title} failed in {plural(count, 'run')}: {why}. {fix} {name}"
        for (name, why), count in failure_counts.items()
    )


def flowing(text: str) -> str:
    """Return a docstring without line breaks inside sentences. Indented lines, such as commands, stay."""
    # Lines that end a sentence or precede an indented line keep their break.
    return re.sub(r"(?<![.?!:\n])\n(?=\S)", " ", text)


def facts(records: StudyRecords) -> list[tuple[str, str]]:
    """Return facts on the runs: their number, variants and seeds or the search, data and selection."""
    runs, plan = distinct(records.rows), records.plan
    counts = Counter(row.status for row in runs)
    states = [f"{counts['done']:,} of {len(runs):,} done", *status_words(counts, STATUSES[1:])]
    data = dict.fromkeys(
        variant.data + " (synthetic)" * (index in records.synthetic and "synthetic" not in variant.data)
        for index, variant in enumerate(records.variants)
    )
    selections = dict.fromkeys(str(config.get("train.selection")) for config in records.configs)
    shared = len(records.rows) - len(runs)
    # Variants may have different numbers of seeds.
    seeds = sorted(set(Counter(run.variant for run in plan.runs).values())) or [len(plan.seeds)]
    fewest_seeds = f"{seeds[0]} to " * (len(seeds) > 1)
    planned = f"{plural(len(records.variants), 'variant')}, {fewest_seeds}{plural(seeds[-1], 'seed')}"
    planned += f"; {plural(shared, 'run')} under a second label" * bool(shared)
    notes = dict.fromkeys(note for row in runs for note in row.result_or_empty.notes)
    changes = [f"{setting_name(path)} = {value_text(value)}" for path, value in plan.changes.items()]
    return [
        ("Runs", ", ".join(states)),
        *([("Plan", planned)] if plan.search is None else searched(records, plan.search)),
        ("Changed on the command line", ", ".join(changes)),
        ("Data", ", ".join(data)),
        ("Selection", "; ".join(SELECTIONS.get(name, name) for name in selections) * (not records.is_own)),
        ("Note", "; ".join(notes) * records.is_own),
    ]


def costs(records: StudyRecords, price: Price | None = None) -> list[tuple[str, str]]:
    """Return the compute of the runs and the machines, and the cost if a GPU hour has a price.

    The machines are the mean cores and GPU use over time, the largest peak of memory, and the GPU hours.
    """
    runs = distinct(records.rows)
    seconds = sum(row.wall_seconds for row in runs)
    pflop = sum(float(row.value("train_pflop") or 0.0) for row in runs)
    stopped = sum(row.status == "stopped" for row in runs)
    compute = f"{duration(seconds)} of runs{f', {flops(pflop)}' if pflop else ''}"
    compute += f", without the {stopped:,} stopped" if stopped else ""
    compute = compute if seconds or not records.is_own else ""  # imported results may have no times
    means = []
    for name, words in (("cores_used", "{:.1f} cores"), ("gpu_use", "{:.0f} % of a GPU")):
        uses = [(row.number(name), row.wall_seconds) for row in runs if row.value(name) is not None]
        if uses:
            total = sum(paid for _, paid in uses) or 1.0
            means.append(words.format(sum(use * paid for use, paid in uses) / total))
    machines = [f"{' and '.join(means)} on average"] if means else []
    on_gpu = [row for row in runs if row.provenance.hardware.gpu]
    peaks = [row.number("peak_memory_mb") for row in runs if row.value("peak_memory_mb") is not None]
    if peaks and (means or on_gpu):
        machines.append(f"at most {quantity('peak_memory_mb', max(peaks))}")
    if on_gpu:
        # A run without a stated share had one GPU per worker for itself.
        hours = 0.0
        for row in on_gpu:
            share = records.configs[row.variant].get("resources.gpus") or 1.0
            hours += row.wall_seconds * row.provenance.workers * float(share) / 3600
        machines.append(f"{formatted(hours, '.3g')} GPU hours")
        if price:
            machines.append(f"{hours * price.amount:,.2f} {price.currency} at {price.amount:g} an hour")
    return [("Compute", compute), ("Machines", ", ".join(machines))]


def origins(records: StudyRecords) -> list[tuple[str, str]]:
    """Return facts on the origin of the numbers: looks, seeds and values computed later."""
    plan, rows = records.plan, records.rows
    ids = {row.id for row in rows}
    earlier_count = len(earlier_runs(records.results, records.folder, plan.definition, ids))
    saved = dict.fromkeys(
        (answers.kept, answers.of) for row in rows if (answers := row.result_or_empty.answers)
    )
    cut = [
        f"of the first {saved_count:,} of {total:,} test images, as many as fit 4 MiB a run"
        for saved_count, total in saved
        if saved_count < total
    ]
    late_values = Counter(
        (name, source) for row in rows for name, source in row.late_sources.items() if "." not in name
    )
    computed = [
        f"{metric(name).title} of {plural(count, 'run')} from {source}"
        for (name, source), count in late_values.items()
    ]
    repeated = sum(row.provenance.earlier > 0 for row in rows)
    rerun = f"{plural(repeated, 'run')}; the earlier records are in runs/ID/attempt-N"
    earlier = plural(earlier_count, "run")
    return [
        ("Changed after runs had finished", "; ".join(late_changes(records))),
        ("Questions dropped, still counted", "; ".join(words for words, _ in plan.dropped.values())),
        ("Questions of other studies", shared_questions(records)),
        ("Looks (interim analyses)", looks_words(records.looks.at_study())),
        ("The random seed controls", seed_words(records)),
        (
            "Definition",
            f"{plan.definition}; {earlier} of earlier variants or settings in runs/" * bool(earlier_count),
        ),
        ("Answers saved", "; ".join(cut)),
        ("Computed later", ", ".join(computed)),
        ("Rerun", rerun * bool(repeated)),
    ]


def shared_questions(records: StudyRecords) -> str:
    """Return how many claims other studies of the folder state on these runs; empty if there are none."""
    results, own_plan, asking = records.results, records.plan, []
    own_keys = {key for keys in run_keys(results, own_plan).values() for key in keys}
    for name, preset in studies(results):
        with suppress(StorageError, ConfigError):
            plan = read_record(results.study(name, preset) / "plan.json", PlanRecord)
            if plan is None or (name, preset) == (own_plan.study, own_plan.folder):
                continue
            keys, configs = run_keys(results, plan), StudyRecords(results, plan, []).configs
            shared = {run.variant for run in plan.runs if not own_keys.isdisjoint(keys[run.id])}
            claims = [claim for claim in statements(plan) if isinstance(claim, Claim)] if shared else []
            judged = [Comparison(claim, plan.variants, configs).compared for claim in claims]
            asking += [(name, preset)] * sum(not shared.isdisjoint(variants) for variants in judged)
    count, questions = len({*asking}), plural(len(asking), "question")
    return f"{plural(count, 'other study')} ask{'s' * (count == 1)} {questions} of these runs" * bool(asking)


def looks_words(looks: Looks) -> str:
    """Return `3, 5 seeds of a maximum of 10`; empty if one look was planned and taken."""
    if not looks.max_seeds and len(looks.seed_counts) < 2:
        return ""
    seed_counts = ", ".join(map(str, looks.seed_counts))
    words = f"{seed_counts} seeds" if seed_counts else "none yet"
    words += f" of a maximum of {looks.maximum}" * bool(looks.max_seeds)
    extensions = sum(look > looks.maximum for look in looks.seed_counts)
    # The level of each extension is stricter, which bounds the total error (docs/how-to/verdicts.md).
    error = 100 * looks.alpha * (1.5 if extensions == 1 else 2)
    limit = "stated maximum" if looks.max_seeds else "first look, as no maximum was stated before"
    return words + f"; extended beyond the {limit}: total error at most {error:g} %" * bool(extensions)


def reproducibility(records: StudyRecords) -> str:
    """Return the study's command, the origin of its numbers, all settings and the provenance."""
    runs, base = distinct(records.rows), named_settings(records, flatten(records.plan.base))
    variants = []
    for variant in records.variants:
        changes = "; ".join(map(" = ".join, named_settings(records, variant.changes)))
        variants.append((variant.label, variant.model, changes or "nothing"))
    values = (records, runs, origins(records), base, variants, provenance(records), plural)
    return markup("reproducibility", *values, template="study")


def reading_notes(records: StudyRecords) -> str:
    """Return notes on how to read the page, which hold for all tables."""
    alpha, share = records.plan.alpha, records.plan.test_share
    return markup(
        "notes",
        [
            ITEM_INTERVALS if are_over_items(records) else INTERVALS,
            *[ON_P.format(alpha)] * any(isinstance(part, QuestionPart) for part in parts_of(records)),
            METHOD.format(alpha),
            *[OVERLAP.format(share)] * bool(share),
            *unseen_split_notes(records),
        ],
    )


def searched(records: StudyRecords, search: SearchRecord) -> list[tuple[str, str]]:
    """Return facts on a search: sampler and budget, its trials by status, and the best trial so far."""
    table, name = trial_table(records, search), next(iter(search.objectives))
    states = ", ".join(status_words(Counter(table["state"]), STATUSES))
    order, best = ranked(table, {name: search.objectives[name]}), ""
    for score in order[name][:1]:
        words = trial_words(name, order["trial"], order[name])
        best = f"{metric(name).title} {quantity(name, score)} ({words})"
    stopping = "" if search.stopping == "none" else f", stops early by {search.stopping}"
    return [
        ("Search", f"{search.sampler}, {search.budget}{stopping}"),
        ("Trials", f"{len(table):,}: {states.replace('done', 'finished')}" if states else "none yet"),
        ("Best so far", best),
    ]


def failures(records: StudyRecords) -> str:
    """Return the errors, each once with class, message, last lines and runs; empty if no run failed."""
    errors: dict[tuple[str, str], list[Row]] = {}
    for row in records.rows:
        if row.failed:
            errors.setdefault((row.error_class, row.error), []).append(row)
    diverged = [row for row in records.rows if row.status == "diverged"]
    value = "A value" if records.is_own else "The loss"
    return markup("failures", errors, diverged, value, SHOWN_DIVERGED_RUNS, plural, template="study").strip()


def named_settings(records: StudyRecords, fields: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return settings by their names for readers, without resources that the program does not use."""
    # Imported results were computed elsewhere, so the resources of the plan do not apply to them.
    hidden_prefixes = ("resources.",) if records.plan.imported else OF_RECURSIVE * records.is_own
    return [
        (setting_name(path), value_text(value))
        for path, value in fields.items()
        if not path.startswith(hidden_prefixes)
    ]


def provenance(records: StudyRecords) -> str:
    """Return the commits, versions, machines and data behind the numbers, each with its number of runs."""
    titles = {"source": PROVENANCE["source"]} if records.plan.imported else PROVENANCE
    origins = [origin(row.provenance) for row in records.rows if row.result]
    columns: dict[str, list[Any]] = {}  # title -> the values of the runs
    for name, title in titles.items():
        columns[title] = [value_text(values[name]) for values in origins if values[name] != ""]
    columns["data note"] = [note for row in records.rows for note in row.provenance.data_notes]
    finished = sorted(row.provenance.finished for row in records.rows if row.provenance.finished)
    columns["finished"] = [f"{finished[0]} to {finished[-1]}" for _ in finished]
    columns["attempts"] = [row.attempts for row in records.rows if row.attempts]
    rows = []
    for title, values in columns.items():
        rows += [(title, value, plural(count, "run")) for value, count in sorted(Counter(values).items())]
    if not rows:
        return "<p>No run has finished yet.</p>"
    return words_table("Provenance", ("what", "value", "runs"), rows)
