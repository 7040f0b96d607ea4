"""What a reviewer asks of a study's runs: what they cost, which are behind the numbers, and where the numbers come from."""

from collections.abc import Iterator, Sequence
from math import sqrt
from operator import attrgetter
from statistics import median

import numpy as np
from scipy.special import stdtrit

from recstudy.analysis.audit.design_rules import Finding, command, compared, counted, done, setting, where
from recstudy.analysis.cells import cell_of
from recstudy.analysis.changes import changes, lines
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.registration import differences, post_hoc, statements
from recstudy.analysis.rows import Row
from recstudy.config import averaged_steps
from recstudy.errors import ConfigError
from recstudy.evidence import LEVEL, MOST_SEEDS, mean_of
from recstudy.metrics import METRICS
from recstudy.records.study_schema import Deviation
from recstudy.report import Claim, Table
from recstudy.report.names import metric, number, plural
from recstudy.terminal import flops

UNEQUAL = 1.5  # times the least training FLOPs, from which on a reader should know of it
COSTS = ("train_pflop", "train_gflops", "gflops")
CHEAP = 10  # seeds a variant, up to which the command for them is given
SHORT = 12  # characters of a checksum that tell it apart
SCORED = {"metrics": "cut into words", "rate": "judged", "text": "cut into the models' tokens"}


def training_cost(records: StudyRecords) -> Iterator[Finding]:
    """Rows that compare were paid differently; a note where the report shows what each was paid."""
    for group in compared(records):
        costs = {
            index: [run.number("train_pflop") for run in done(records, [index]) if run.value("train_pflop")] for index in group
        }
        paid = {index: cost for index, known in costs.items() if known and (cost := mean_of(known))}
        if len(paid) < 2 or max(paid.values()) < UNEQUAL * min(paid.values()):
            continue
        least, most = min(paid, key=lambda index: paid[index]), max(paid, key=lambda index: paid[index])
        shown = any(name in COSTS for part in records.parts for name in part.shows)
        yield Finding(
            f"Unequal training FLOPs on {records.variants[least].data}: {flops(paid[least])} to {flops(paid[most])} a run",
            "A row that cost more may owe its score to the compute and not to the idea.",
            "A variant with as many FLOPs as the others, as in studies/vitrm_fairness.py, or the score drawn against the FLOPs.",
            tuple(records.variants[index].label for index in (least, most)),
            severity="note" if shown else "question",
            known=("002-11",),
        )


def averages(records: StudyRecords) -> Iterator[Finding]:
    """The moving average of the weights looks back to before the first step."""
    spans: dict[int, float] = {}
    for run in done(records):
        span = averaged_steps(float(records.configs[run.variant].get("train.ema_decay") or 0.0))
        if optimiser_steps(records, run) < span:
            spans[run.variant] = span
    if spans:
        told = ", ".join(dict.fromkeys(f"{span:,.0f}" for _, span in sorted(spans.items())))
        yield Finding(
            f"The moving average of the weights spans {told} steps, more than the run makes",
            "What is scored is then close to the random weights at the start.",
            "A smaller train.ema_decay, 0 for none, or more epochs.",
            where(records, spans),
            setting(records, "train.ema_decay", "0"),
        )


def optimiser_steps(records: StudyRecords, run: Row) -> float:
    """Return the steps of a finished run, from the images that it was shown; infinite where that is not known."""
    config = records.configs[run.variant]
    images = (run.value("images_per_second") or 0.0) * (run.value("seconds") or 0.0)
    one = not config.get("train.detach_carry", True) or config.get("train.halting") == "sample"
    used = 1.0 if one else float(run.value("supervision_steps_used") or 1.0)
    batch = config.get("train.batch_size")
    return images * used / float(batch) if images and batch else float("inf")


def failed(records: StudyRecords) -> Iterator[Finding]:
    """Runs ended without numbers, so that no mean holds them; of a search's trials, some may well diverge."""
    ends = ("failed",) if records.plan.search is not None else ("failed", "diverged")
    lost = [row for row in records.rows if row.status in ends]
    if lost:
        yield Finding(
            f"{plural(len(lost), 'run')} left out of every mean: {counted([row.error_class or 'diverged' for row in lost])}",
            "The seeds that are left may be the lucky ones: a variant that fails on some looks better than it is.",
            "Fix the cause (see what failed) and rerun; diverged runs are a result, which the text should state.",
            where(records, {row.variant for row in lost}),
            command(records),
        )


def unfinished(records: StudyRecords) -> Iterator[Finding]:
    """Runs are still to do; a search stops some of its own accord."""
    ends = ("not run", "unfinished", *(() if records.plan.search is not None else ("stopped",)))
    left = [row for row in records.rows if row.status in ends]
    if left:
        yield Finding(
            f"{plural(len(left), 'run')} of {len(records.rows):,} not finished",
            "Rows with fewer seeds than others have wider intervals, and may change.",
            "The same command finishes them.",
            where(records, {row.variant for row in left}),
            command(records),
            severity="note",
        )


def verdicts(records: StudyRecords) -> Iterator[Finding]:
    """Published values stand beside one run, where more are planned: `seeds` asks where they are not."""
    alone: dict[str, None] = {}
    for part in records.parts:
        try:
            rows = part.cells_once(records).rows if isinstance(part, Table) and part.targets else ()
        except ConfigError:
            continue  # said in its place in the report
        for row in rows:
            for cell in row.cells:
                comparable = any(not placed.reasons for placed in cell.placed)
                if comparable and cell.n == 1 < cell.expected and not metric(cell.metric).computed:
                    alone[row.label] = None
    if alone:
        yield Finding(
            "Published values stand beside a single run",
            "One run has no interval, so that nothing can be said about whether the value was reproduced.",
            "The runs that are still to do.",
            tuple(alone),
            command(records),
            severity="note",
        )


def resolution(records: StudyRecords) -> Iterator[Finding]:
    """Intervals are wider than the means are apart, and the seeds which are planned will not make them narrow enough."""
    names = dict.fromkeys(name for part in records.parts for name in part.shows)
    scores = [name for name in names if name in METRICS and METRICS[name].tasks and METRICS[name].better]
    for group in compared(records):
        blurred = [one for name in scores if (one := _blurred(records, group, name))]
        found = [one for one in blurred if one[1] is None or one[1] > len(records.plan.seeds)]
        if found:
            (words, enough), more = found[0], f", and {len(found) - 1} more" if found[1:] else ""
            needed = f"About {enough:,}" if enough else f"More than {MOST_SEEDS:,}"
            yield Finding(
                f"Intervals wider than the means are apart on {records.variants[group[0]].data}: {words}{more}",
                "Another draw of the seeds may well put the rows in another order.",
                f"{needed} seeds a variant, by the spread of these, would make them as narrow as that; "
                "else the text says that no difference is shown.",
                where(records, group),
                command(records, "--seeds", str(enough)) if enough and enough <= CHEAP else "",
            )


def _blurred(records: StudyRecords, group: Sequence[int], name: str) -> tuple[str, int | None] | None:
    """Say how wide the median interval of a score is and how far apart its means are, where that is less; and after how many
    seeds of every variant it would be no wider, by the spread that the intervals go by (None: over `MOST_SEEDS`)."""
    cells = [cell_of(records, [index], name, records.by_variant[index]) for index in group]
    widths = [cell.high - cell.low for cell in cells if cell.high is not None and cell.low is not None]
    means = [cell.value for cell in cells if cell.value is not None]
    if len(widths) < 2 or (width := median(widths)) <= (apart := max(means) - min(means)):
        return None
    n = " to ".join(dict.fromkeys(str(end([cell.n for cell in cells if cell.n])) for end in (min, max)))
    words = f"{metric(name).title}, {number(name, width)} wide (n={n}), all means within {number(name, apart)}"
    known = [
        (cell.estimate.error * sqrt(cell.n), cell.estimate.df - cell.n)
        for cell in cells
        if cell.estimate.error and cell.estimate.df
    ]
    count = np.arange(2, MOST_SEEDS + 1)
    later = np.median([2 * stdtrit(df + count, (1 + LEVEL) / 2) * s / np.sqrt(count) for s, df in known], axis=0)
    enough = count[later <= apart] if known else count[:0]
    return words, int(enough[0]) if len(enough) else None


def checksums(records: StudyRecords) -> Iterator[Finding]:
    """One data set has the same settings, and not the same images."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for run in done(records):
        config = records.configs[run.variant]
        own = run.seed if config.get("data.drawing") == "per seed" else None
        settings = [f"{path}={config[path]}" for path in sorted(config) if path.startswith("data.")]
        groups.setdefault((own, *settings), []).append(run)
    for runs in groups.values():
        found = [run.provenance.data_checksum[:SHORT] for run in runs if run.provenance.data_checksum]
        if len(set(found)) > 1:
            yield Finding(
                f"{len(set(found))} different data checksums of {records.variants[runs[0].variant].data}: {counted(found)}",
                "These runs were not trained and scored on the same images.",
                "Find out which copy is right, and run the others again with another --results.",
                where(records, {run.variant for run in runs}),
            )


def registered(records: StudyRecords) -> Iterator[Finding]:
    """Claims and deviations were stated after their runs, or something is not as it was registered."""
    said = [
        f"the claim {one.text!r}" if isinstance(one, Claim) else f"the deviation {one.field!r}"
        for one in statements(records.plan)
        if isinstance(one, Claim | Deviation) and post_hoc(records, one)
    ]
    known = records.plan.registered
    changed = differences(records.plan, known) if known else []
    if said:
        yield Finding(
            f"Stated after the first run that is judged by it had finished: {'; '.join(said)}",
            "What is stated with the numbers in sight may be stated because of them.",
            "Fresh seeds, which nobody has seen, decide it; `recstudy register` shows what was stated before them.",
        )
    if known and changed:
        yield Finding(
            f"Not as it was registered on {known.date[:10]}: {'; '.join(changed)}",
            "Whoever read what was registered expects something else.",
            "Say why in the study's text, or run it as it was registered.",
        )


def code(records: StudyRecords) -> Iterator[Finding]:
    """There is more than one version of the code or of its packages: a question where the rows differ in it.

    Commits are none where digests tell what computed each run: then `outdated` asks.
    """
    runs = done(records)
    digested = all(run.provenance.code and records.variants[run.variant].code for run in runs)
    for what, told, asked in (
        ("commits of the code", attrgetter("made_by"), digested),
        ("commits of recstudy", attrgetter("recstudy"), digested),
        ("sets of package versions", attrgetter("packages"), False),
    ):
        named = [found for run in runs if (found := told(run.provenance))]
        if len(set(named)) > 1:
            made = {frozenset(told(run.provenance) for run in done(records, [index])) for index in range(len(records.variants))}
            yield Finding(
                f"{len(set(named))} {what}: {counted(named)}",
                "A difference between rows may be one between two versions of the code.",
                "Run all of it again by one version, with another --results, or say in the text what changed.",
                severity="question" if len(made - {frozenset()}) > 1 and not asked else "note",
            )


def outdated(records: StudyRecords) -> Iterator[Finding]:
    """Finished runs were computed by other code, or on other images, than the study's last command has found."""
    found = changes(records)
    changed = {change.run_id for change in found}
    for line in lines(found):
        yield Finding(
            line,
            "The same command would not give these numbers today, and rows of before and after the change do not compare.",
            "Run them again; what they had is kept.",
            where(records, {row.variant for row in records.rows if row.id in changed}),
            command(records, "--rerun", "changed"),
        )


def dirty(records: StudyRecords) -> Iterator[Finding]:
    """Nobody else can get the code: it was changed since its commit, or is of none."""
    for what, runs in (
        ("from uncommitted changes", [run for run in done(records) if run.provenance.dirty]),
        ("by code of no known commit", [run for run in done(records) if not run.provenance.made_by]),
    ):
        if runs:
            yield Finding(
                f"{plural(len(runs), 'run')} made {what}",
                "Nobody can get that code again, so that nobody can run them again.",
                "Commit, and run them again with another --results.",
                where(records, {run.variant for run in runs}),
            )


def machines(records: StudyRecords) -> Iterator[Finding]:
    """There are several kinds of machine: a question where the report shows times."""
    kinds = [run.provenance.hardware.gpu or run.provenance.hardware.cpu for run in done(records)]
    if len(set(kinds)) > 1:
        timed = any(metric(name).timed for part in records.parts for name in part.shows)
        yield Finding(
            f"{len(set(kinds))} kinds of machine: {counted(kinds)}",
            "Times of different machines do not compare, and neither do the last digits of scores.",
            "Measure times on one kind of machine.",
            severity="question" if timed else "note",
        )


def scoring(records: StudyRecords) -> Iterator[Finding]:
    """Captions were decoded or cut into words in more than one way, so that their scores are not one metric."""
    for group in compared(records):
        runs = done(records, group)
        said = {words: [run.found.tokenizer.get(key) for run in runs] for key, words in SCORED.items()}
        for words, used in (said | {"decoded": [run.found.decode for run in runs]}).items():
            known = [str(value) for value in used if value]
            if len(set(known)) > 1:
                yield Finding(
                    f"Captions are {words} in {len(set(known))} ways: {counted(known)}",
                    "Scores of different implementations may differ by more than models do.",
                    "Score every row by the same one.",
                    where(records, group),
                    known=("003-3",),
                )
