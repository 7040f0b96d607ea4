"""The words of a report around its tables and figures: what was run and at what cost, what failed, settings, provenance."""

import re
from collections import Counter
from collections.abc import Sequence

from recstudy.analysis.caveats import SELECTIONS, drawn_anew, is_synthetic, to_evaluate, warnings
from recstudy.analysis.changes import changes, lines
from recstudy.analysis.findings import HOW, findings
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.page import code, escape, facts, fold, warning_lines, words_table
from recstudy.analysis.registration import registration_words
from recstudy.analysis.rows import STATUSES, Row, distinct, origin
from recstudy.analysis.tables.entries import Note
from recstudy.analysis.trials import ranked, scored, trial_table
from recstudy.config import flatten
from recstudy.papers import by_name
from recstudy.plugins import absent
from recstudy.records.study_schema import SearchRecord
from recstudy.report.names import metric, plain, plural
from recstudy.terminal import duration, flops

FEW = 10  # diverged runs that a page names at once
PROVENANCE = {
    "commit": "commit",
    "dirty": "uncommitted changes",
    "recstudy": "recstudy's own commit",
    "versions": "versions",
    "host": "host",
    "cpu": "processor",
    "gpu": "accelerator",
    "data_checksum": "data checksum",
    "synthetic": "synthetic data",
}


def header(records: StudyRecords) -> list[str]:
    """Title and question, what was found, and what was run."""
    return [asked(records), found(records), ran(records)]


def asked(records: StudyRecords) -> str:
    """Title, question, and what a reader must know before any number."""
    plan = records.plan
    title = f"<h1>{escape(plan.study)} <small>({escape(plan.folder)})</small></h1>"
    return f'{title}\n<p class="question">{escape(by_name(plan.question))}</p>\n{warning_lines(warnings(records))}'


def found(records: StudyRecords) -> str:
    """The findings as a list, and how they are made."""
    items = "".join(f"<li><strong>{escape(one.word)}</strong>: {escape(one.said)}.</li>" for one in findings(records))
    how = fold("How these sentences are made", f'<p class="note">{escape(HOW)}.</p>')
    return f'<ul class="findings" aria-label="Findings">{items}</ul>{how}'


def ran(records: StudyRecords) -> str:
    """Other warnings, the facts, and the author's own words."""
    about = flowing(by_name(records.plan.description.strip()))
    words = f'<pre class="about">{escape(about)}</pre>' if about else ""
    return (
        warning_lines([*failed_metrics(records), *gone(records), *lacking(records), *lines(changes(records))])
        + facts(summary(records))
        + words
    )


def gone(records: StudyRecords) -> tuple[str, ...]:
    """Why some of what the study itself defines cannot be had: its figures, and its metrics' titles, units and directions."""
    return tuple(f"not all that this study defines is here: {reason}" for reason in absent if records.plan.plugins)


def lacking(records: StudyRecords) -> tuple[Note, ...]:
    """Metrics that parts of the report show and that finished runs could have."""
    named = (getattr(part, field, None) for part in records.parts for field in ("metric", "x", "y"))
    shown = [*(name for part in records.parts for name in part.shows), *(name for name in named if isinstance(name, str))]
    return to_evaluate(records, range(len(records.variants)), shown)


def failed_metrics(records: StudyRecords) -> tuple[str, ...]:
    """Metrics whose own code raised something, in how many runs, and what then computes them without training."""
    found = Counter((name, why) for row in distinct(records.rows) for name, why in row.raised.items())
    fix = f"Fix it, then compute it without training: recstudy evaluate {records.place} --metric"
    return tuple(
        f"the metric {metric(name).title} failed in {plural(count, 'run')}: {why}. {fix} {name}"
        for (name, why), count in found.items()
    )


def flowing(text: str) -> str:
    """A docstring without the line breaks inside its sentences, which are as far apart as code is wide; commands keep theirs."""
    return re.sub(r"(?<![.?!:\n])\n(?=\S)", " ", text)


def summary(records: StudyRecords) -> list[tuple[str, str]]:
    """What this report shows, as facts: runs, data, protocol, cost."""
    runs = distinct(records.rows)
    counts = Counter(row.status for row in runs)
    states = "".join(f", {counts[state]:,} {state}" for state in STATUSES[1:] if counts[state])
    data = dict.fromkeys(
        variant.data + " (synthetic)" * (is_synthetic(records, [index]) and "synthetic" not in variant.data)
        for index, variant in enumerate(records.variants)
    )
    chosen = dict.fromkeys(str(config.get("train.selection")) for config in records.configs)
    shared = len(records.rows) - len(runs)
    seeds = sorted(set(Counter(run.variant for run in records.plan.runs).values()))  # of a variant; not of all the same
    several = f"{seeds[0]} to " if seeds[1:] else ""
    plan = f"{plural(len(records.variants), 'variant')}, {several}{plural(len(records.plan.seeds), 'seed')}"
    plan += f"; {plural(shared, 'run')} under a second label" if shared else ""
    uncounted = f", without the {counts['stopped']:,} stopped" if counts["stopped"] else ""
    pflop = sum(float(row.value("train_pflop") or 0.0) for row in runs)
    paid = f"{duration(sum(row.paid for row in runs))} of runs, {flops(pflop)}{uncounted}"
    others = ", ".join(f"{definition} ({holds})" for definition, holds in records.plan.others.items())
    looks = ", ".join(map(str, records.looks.taken)) if records.looks.at_most or len(records.looks.taken) > 1 else ""
    looks += f" of at most {records.looks.at_most} seeds" if records.looks.at_most else " seeds" * bool(looks)
    found = [
        ("Runs", f"{counts['done']:,} of {len(runs):,} done{states}"),
        *([("Plan", plan)] if records.plan.search is None else searched(records, records.plan.search)),
        ("Set", ", ".join(f"{path} = {plain(value)}" for path, value in records.plan.changes.items())),
        ("Definition", f"{records.plan.definition}; kept and not shown: {others}" if others else ""),
        ("Registered", registration_words(records)),
        ("Looks", looks),
        ("Data", ", ".join(data)),
        ("Answers kept", "; ".join(dict.fromkeys(_answers_note(row) for row in records.rows if _answers_note(row)))),
        ("Computed later", _later_words(records)),
        ("Run again", _again_words(records)),
        ("Protocol", "; ".join(SELECTIONS.get(name, name) for name in chosen)),
        ("Drawn anew for each seed", drawn_anew(records, range(len(records.variants)))),
        ("Compute used", paid),
    ]
    return [(name, value) for name, value in found if value]


def _again_words(records: StudyRecords) -> str:
    """How many runs were finished before, and where that is kept."""
    count = sum(row.provenance.earlier > 0 for row in records.rows)
    return f"{plural(count, 'run')}; the records of before are kept in runs/ID/attempt-N" if count else ""


def _later_words(records: StudyRecords) -> str:
    """Which metrics were computed after the runs, and from what."""
    made = Counter((name, how) for row in records.rows for name, how in row.later.items() if "." not in name)
    return ", ".join(f"{metric(name).title} of {plural(count, 'run')} from {how}" for (name, how), count in made.items())


def _answers_note(row: Row) -> str:
    """Of how many test images a run keeps its answers, where it is not all."""
    kept = row.found.answers
    some = kept is not None and kept.kept < kept.of
    return f"of the first {kept.kept:,} of {kept.of:,} test images, as many as fit 4 MiB a run" if kept and some else ""


def searched(records: StudyRecords, search: SearchRecord) -> list[tuple[str, str]]:
    """How far a search is: sampler and budget, how its trials ended, the best so far, and what is kept from other spaces."""
    table, name = trial_table(records, search), next(iter(search.objectives))
    counts = Counter(table["state"])
    ends = [(counts[state], "finished" if state == "done" else state) for state in STATUSES if counts[state]]
    order = ranked(table, {name: search.objectives[name]})
    best = [f"{scored(name, row[name])} (trial {row['trial']})" for row in order.head(1).to_dict("records")]
    stopping = "" if search.stopping == "none" else f", stops early by {search.stopping}"
    return [
        ("Search", f"{search.sampler}, {search.budget}{stopping}"),
        ("Trials", f"{len(table):,}: " + ", ".join(f"{count:,} {state}" for count, state in ends) if ends else "none yet"),
        ("Best so far", f"{metric(name).title} {best[0]}" if best else ""),
    ]


def failures(records: StudyRecords) -> str:
    """Each different error once: class, message, last lines and the runs it ended. Empty where nothing failed."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in records.rows:
        if row.failed:
            groups.setdefault((row.error_class, row.error), []).append(row)
    parts = [_failure(kind, error, rows) for (kind, error), rows in groups.items()]
    diverged = [row for row in records.rows if row.status == "diverged"]
    if diverged:
        heads = ("variant", "seed", "run id", "what happened")
        runs = words_table("Diverged runs", heads, [(row.label, row.seed, row.id, row.found.error) for row in diverged])
        many = runs if len(diverged) <= FEW else fold(plural(len(diverged), "run"), runs)
        parts.append(f"<h3>diverged: {plural(len(diverged), 'run')}</h3><p>The loss was not finite. Not in any mean.</p>{many}")
    return "".join(parts)


def settings(records: StudyRecords) -> str:
    """The base config, and what each variant changes in it."""
    base = words_table(
        "Base settings", ("field", "value"), [(path, plain(value)) for path, value in flatten(records.plan.base).items()]
    )
    rows = [
        (
            variant.label,
            variant.model,
            "; ".join(f"{path} = {plain(value)}" for path, value in variant.changes.items()) or "nothing",
        )
        for variant in records.variants
    ]
    changed = words_table("Variants", ("variant", "model", "changes"), rows)
    return fold("Base settings, before a variant's changes", base) + fold(
        f"What the {plural(len(rows), 'variant')} change", changed
    )


def provenance(records: StudyRecords) -> str:
    """Which commits, versions, machines and data the numbers come from, with the count of runs of each."""
    rows = []
    origins = Counter(tuple(map(origin(row.provenance).__getitem__, PROVENANCE)) for row in records.rows if row.result)
    for title, known in zip(PROVENANCE.values(), zip(*origins, strict=True), strict=False):
        found = Counter[str]()
        for value, count in zip(known, origins.values(), strict=True):
            found[plain(value)] += count * (value != "")
        rows += [(title, value, plural(count, "run")) for value, count in sorted((+found).items())]
    unknown = sum(row.result is not None and not row.provenance.code for row in records.rows)
    rows += [("code", "of unknown code", plural(unknown, "run"))] if unknown else []
    noted = Counter(note for row in records.rows for note in _data_notes(row))
    rows += [("data note", note, plural(count, "run")) for note, count in sorted(noted.items())]
    finished = sorted(row.provenance.finished for row in records.rows if row.provenance.finished)
    rows += [("finished", f"{finished[0]} to {finished[-1]}", plural(len(finished), "run"))] if finished else []
    attempts = Counter(row.attempts for row in records.rows if row.attempts)
    rows += [("attempts", str(tries), plural(count, "run")) for tries, count in sorted(attempts.items())]
    return words_table("Provenance", ("what", "value", "runs"), rows) if rows else "<p>No run has finished yet.</p>"


def again(records: StudyRecords) -> str:
    """The one command that finishes, repeats or extends the study."""
    runs = distinct(records.rows)
    left = sum(row.status not in ("done", "diverged") for row in runs)
    search = "This command resumes the search and draws the report again; nothing is run twice:"
    words = (
        search
        if records.plan.search is not None
        else (
            f"{plural(left, 'run')} of {len(runs):,} are still to do. This command runs those and no other:"
            if left
            else "Every run has finished. This command draws the report again; finished runs are never run twice:"
        )
    )
    return f"<p>{escape(words)}</p>{code(records.plan.command)}"


def _failure(kind: str, error: str, rows: Sequence[Row]) -> str:
    traceback = rows[0].traceback
    last = "\n".join(traceback.strip().splitlines()[-12:])
    return (
        f"<h3>{escape(kind)}: {plural(len(rows), 'run')}</h3><p><code>{escape(error)}</code></p>"
        f"{code(last) if last else ''}{fold(plural(len(rows), 'run'), _runs(rows))}"
    )


def _runs(rows: Sequence[Row]) -> str:
    return words_table(
        "Runs",
        ("variant", "seed", "run id", "attempts"),
        [(row.label, row.seed, row.id, plain(row.attempts)) for row in rows],
    )


def _data_notes(row: Row) -> tuple[str, ...]:
    """What was done to a run's data before training, such as `12 colour images converted to grey`."""
    return row.provenance.data_notes
