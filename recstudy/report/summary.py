"""The words of a report around its tables and figures: what was run and at what cost, what failed, settings, provenance."""

import re
from collections import Counter
from collections.abc import Mapping

from recstudy.papers import by_name
from recstudy.programs.settings import flatten
from recstudy.records.plans import earlier_runs
from recstudy.records.study_schema import SearchRecord
from recstudy.report.caveats import SELECTIONS, drawn_anew, is_synthetic, to_evaluate, warnings
from recstudy.report.changes import change_lines, study_changes
from recstudy.report.findings import HOW, findings
from recstudy.report.machines import Price, machines_used
from recstudy.report.markup import escape, fold, markup, words_table
from recstudy.report.names import metric, plain, plural, quantity, setting_name
from recstudy.report.registration import registration_words
from recstudy.report.rows import STATUSES, Row, distinct, origin
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import Note
from recstudy.report.trials import ranked, trial_table
from recstudy.terminal import duration, flops

OF_RECURSIVE = tuple(  # resources that mean something to the recursive models alone
    f"place.{name}" for name in ("workers_per_run", "trainer", "device", "compile", "checkpoint_seconds")
)
LAST_LINES = 12  # of a traceback
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
    "initial": "initial weights",
    "source": "imported from",
}


def asked(records: StudyRecords) -> str:
    """Return title, question, and what a reader must know before any number."""
    return markup("question", records.plan, by_name(records.plan.question), warnings(records), template="study")


def found(records: StudyRecords) -> str:
    """Return the findings as a list, and how they are made."""
    return answer(records) + more(records)


def answer(records: StudyRecords) -> str:
    """Return the first of the findings, which answers the question."""
    return markup("findings", findings(records)[:1], "Answer", template="study")


def more(records: StudyRecords) -> str:
    """Return the other findings, and how all are made."""
    how = fold("How these sentences are made", markup("notes", [f"{HOW}."]))
    return markup("findings", findings(records)[1:], "Findings", template="study") + how


def ran(records: StudyRecords, price: Price | None = None) -> str:
    """Return other warnings, the facts, with money where a GPU hour has a price, and the author's own words."""
    about = flowing(by_name(records.plan.description.strip()))
    notes = [*failed_metrics(records), *records.not_here, *lacking(records), *change_lines(study_changes(records))]
    words = f'<pre class="about">{escape(about)}</pre>' if about else ""
    return markup("warnings", notes) + markup("facts", summary(records, price)) + words


def lacking(records: StudyRecords) -> tuple[Note, ...]:
    """Return metrics that parts of the report show and that finished runs could have."""
    named = (getattr(part, field, None) for part in records.parts for field in ("metric", "x", "y"))
    shown = [*(name for part in records.parts for name in part.shows), *(name for name in named if isinstance(name, str))]
    return to_evaluate(records, range(len(records.variants)), shown)


def failed_metrics(records: StudyRecords) -> tuple[str, ...]:
    """Return metrics whose own code raised something, in how many runs, and what then computes them without training."""
    found = Counter((name, why) for row in distinct(records.rows) for name, why in row.raised.items())
    fix = f"Fix it, then compute it without training: recstudy evaluate {records.place} --metric"
    return tuple(
        f"the metric {metric(name).title} failed in {plural(count, 'run')}: {why}. {fix} {name}"
        for (name, why), count in found.items()
    )


def flowing(text: str) -> str:
    """Join the lines of a docstring inside its sentences, which are as far apart as code is wide; commands keep theirs."""
    return re.sub(r"(?<![.?!:\n])\n(?=\S)", " ", text)


def summary(records: StudyRecords, price: Price | None = None) -> list[tuple[str, str]]:
    """Say as facts what this report shows: runs, data, protocol, cost."""
    runs, of_plan = distinct(records.rows), records.plan
    counts = Counter(row.status for row in runs)
    states = "".join(f", {counts[state]:,} {state}" for state in STATUSES[1:] if counts[state])
    data = dict.fromkeys(
        variant.data + " (synthetic)" * (is_synthetic(records, [index]) and "synthetic" not in variant.data)
        for index, variant in enumerate(records.variants)
    )
    chosen = dict.fromkeys(str(config.get("train.selection")) for config in records.configs)
    shared = len(records.rows) - len(runs)
    seeds = sorted(set(Counter(run.variant for run in of_plan.runs).values()))  # of a variant; not of all the same
    several = f"{seeds[0]} to " if seeds[1:] else ""
    plan = f"{plural(len(records.variants), 'variant')}, {several}{plural(len(of_plan.seeds), 'seed')}"
    plan += f"; {plural(shared, 'run')} under a second label" if shared else ""
    uncounted = f", without the {counts['stopped']:,} stopped" if counts["stopped"] else ""
    pflop = sum(float(row.value("train_pflop") or 0.0) for row in runs)
    folder, ids = records.results.study(of_plan.study, of_plan.folder), {row.id for row in runs}
    earlier = len(earlier_runs(records.results, folder, of_plan.definition, ids))
    looks = ", ".join(map(str, records.looks.taken)) if records.looks.at_most or len(records.looks.taken) > 1 else ""
    looks += f" of at most {records.looks.at_most} seeds" if records.looks.at_most else " seeds" * bool(looks)
    cut = dict.fromkeys((kept.kept, kept.of) for row in records.rows if (kept := row.found.answers) and kept.kept < kept.of)
    later = Counter((name, how) for row in records.rows for name, how in row.later.items() if "." not in name)
    paid = sum(row.paid for row in runs)
    used = f"{duration(paid)} of runs{'' if records.is_own else f', {flops(pflop)}'}{uncounted}"
    used = used if paid or not records.is_own else ""  # imported results may have no times
    repeated = sum(row.provenance.earlier > 0 for row in records.rows)
    found = [
        ("Runs", f"{counts['done']:,} of {len(runs):,} done{states}"),
        *([("Plan", plan)] if of_plan.search is None else searched(records, of_plan.search)),
        ("Set", ", ".join(f"{setting_name(path)} = {plain(value)}" for path, value in of_plan.changes.items())),
        ("Definition", f"{of_plan.definition}; {plural(earlier, 'run')} of earlier definitions in runs/" if earlier else ""),
        ("Registered", registration_words(records)),
        ("Looks", looks),
        ("Data", ", ".join(data)),
        ("Note", "; ".join(dict.fromkeys(note for row in runs for note in row.found.notes)) * records.is_own),
        ("Answers kept", "; ".join(f"of the first {n:,} of {of:,} test images, as many as fit 4 MiB a run" for n, of in cut)),
        ("Computed later", ", ".join(f"{metric(one).title} of {plural(n, 'run')} from {how}" for (one, how), n in later.items())),
        ("Run again", f"{plural(repeated, 'run')}; the records of before are kept in runs/ID/attempt-N" * bool(repeated)),
        ("Protocol", "; ".join(SELECTIONS.get(name, name) for name in chosen) * (not records.is_own)),
        ("Drawn anew for each seed", drawn_anew(records, range(len(records.variants)))),
        ("Compute used", used),
        ("Machines used", machines_used(runs, records.configs, price)),
    ]
    return [(name, value) for name, value in found if value]


def searched(records: StudyRecords, search: SearchRecord) -> list[tuple[str, str]]:
    """Say how far a search is: sampler and budget, how its trials ended, the best so far, and what is kept from other spaces."""
    table, name = trial_table(records, search), next(iter(search.objectives))
    counts = Counter(table["state"])
    ends = [(counts[state], "finished" if state == "done" else state) for state in STATUSES if counts[state]]
    order = ranked(table, {name: search.objectives[name]})
    best = [f"{quantity(name, row[name])} (trial {row['trial']})" for row in order.head(1).to_dict("records")]
    stopping = "" if search.stopping == "none" else f", stops early by {search.stopping}"
    return [
        ("Search", f"{search.sampler}, {search.budget}{stopping}"),
        ("Trials", f"{len(table):,}: " + ", ".join(f"{count:,} {state}" for count, state in ends) if ends else "none yet"),
        ("Best so far", f"{metric(name).title} {best[0]}" if best else ""),
    ]


def failures(records: StudyRecords) -> str:
    """Show each different error once: class, message, last lines and the runs it ended. Empty where nothing failed."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in records.rows:
        if row.failed:
            groups.setdefault((row.error_class, row.error), []).append(row)
    errors = [
        {
            "kind": kind,
            "message": message,
            "count": plural(len(rows), "run"),
            "last": "\n".join(rows[0].traceback.strip().splitlines()[-LAST_LINES:]),
            "runs": [(row.label, str(row.seed), row.id, plain(row.attempts)) for row in rows],
        }
        for (kind, message), rows in groups.items()
    ]
    diverged = [(row.label, str(row.seed), row.id, row.found.error) for row in records.rows if row.status == "diverged"]
    value = "A value" if records.is_own else "The loss"
    return markup("failures", errors, diverged, value, FEW, template="study").strip()


def settings(records: StudyRecords) -> str:
    """Show the base config, and what each variant changes in it."""
    base = words_table("Base settings", ("field", "value"), named_settings(records, flatten(records.plan.base)))
    said = ["; ".join(map(" = ".join, named_settings(records, one.changes))) or "nothing" for one in records.variants]
    variants = [(variant.label, variant.model, change) for variant, change in zip(records.variants, said, strict=True)]
    changed = words_table("Variants", ("variant", "program" if records.is_own else "model", "changes"), variants)
    what = f"What the {plural(len(variants), 'variant')} change"
    return fold("Base settings, before a variant's changes", base) + fold(what, changed)


def named_settings(records: StudyRecords, fields: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return settings by the names that readers know, without resources that mean nothing to the program."""
    left_out = ("place.",) if records.plan.imported else OF_RECURSIVE if records.is_own else ()
    return [(setting_name(path), plain(value)) for path, value in fields.items() if not path.startswith(left_out)]


def provenance(records: StudyRecords) -> str:
    """Return which commits, versions, machines and data the numbers come from, with the count of runs of each."""
    rows = []
    known_of = {"source": PROVENANCE["source"]} if records.plan.imported else PROVENANCE
    origins = Counter(tuple(map(origin(row.provenance).__getitem__, known_of)) for row in records.rows if row.result)
    for title, known in zip(known_of.values(), zip(*origins, strict=True), strict=False):
        found = Counter[str]()
        for value, count in zip(known, origins.values(), strict=True):
            found[plain(value)] += count * (value != "")
        rows += [(title, value, plural(count, "run")) for value, count in sorted((+found).items())]
    noted = Counter(note for row in records.rows for note in row.provenance.data_notes)
    rows += [("data note", note, plural(count, "run")) for note, count in sorted(noted.items())]
    finished = sorted(row.provenance.finished for row in records.rows if row.provenance.finished)
    rows += [("finished", f"{finished[0]} to {finished[-1]}", plural(len(finished), "run"))] if finished else []
    attempts = Counter(row.attempts for row in records.rows if row.attempts)
    rows += [("attempts", str(tries), plural(count, "run")) for tries, count in sorted(attempts.items())]
    return words_table("Provenance", ("what", "value", "runs"), rows) if rows else "<p>No run has finished yet.</p>"


def again(records: StudyRecords) -> str:
    """Show the command that the plan records, and what it did where that was its study's: whose it is, this cannot tell."""
    runs = distinct(records.rows)
    left = sum(row.status not in ("done", "diverged") for row in runs)
    words = "Every run has finished; the study's command draws the report again, and finished runs are never run twice."
    if records.plan.search is not None:
        words = "The search's command resumes it and draws the report again; nothing is run twice."
    elif records.plan.imported:
        words = "The runs were finished elsewhere and imported. The command imports the file again and draws the report."
    elif left:
        words = f"{plural(left, 'run')} of {len(runs):,} are still to do; the study's command runs those and no other."
    return f"<p>{escape(words)} As its plan records it:</p>" + markup("code", records.plan.command)
