"""What a reviewer asks of a study's runs: which are behind the numbers, of which data, code and machine, and are they enough?"""

from collections.abc import Iterator, Sequence
from math import sqrt
from operator import attrgetter
from statistics import median

import numpy as np
from scipy.special import stdtrit

from recstudy.analysis.audit.rules import Observation, command, compared, counted, done, rule, setting
from recstudy.analysis.cells import cell
from recstudy.analysis.changes import change_lines, study_changes
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.kinds import cells as table_cells
from recstudy.analysis.registration import differences, post_hoc, statements, words_of
from recstudy.analysis.rows import Row
from recstudy.config import averaged_steps
from recstudy.errors import ConfigError
from recstudy.evidence import LEVEL, MOST_SEEDS
from recstudy.metrics import METRICS
from recstudy.records.study_schema import Deviation
from recstudy.report import Claim, Table
from recstudy.report.names import metric, number, plural

CHEAP = 10  # seeds a variant, up to which the command for them is given
SHORT = 12  # characters of a checksum that tell it apart


@rule(
    "data checksums",
    "These runs were not trained and scored on the same images.",
    "Find out which copy is right, and run the others again with another --results.",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Find data sets of the same settings, and not the same images."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for run in done(records):
        own = run.seed if records.configs[run.variant].get("data.drawing") == "per seed" else None
        groups.setdefault((own, records.data_settings[run.variant]), []).append(run)
    for runs in groups.values():
        found = [run.provenance.data_checksum[:SHORT] for run in runs if run.provenance.data_checksum]
        if len(set(found)) > 1:
            what = f"{len(set(found))} different data checksums of {records.variants[runs[0].variant].data}: {counted(found)}"
            yield Observation(what, {run.variant for run in runs})


@rule(
    "claims stated before the runs",
    "What is stated with the numbers in sight may be stated because of them.",
    "Fresh seeds, which nobody has seen, decide it; `recstudy register` shows what was stated before them.",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Find claims, deviations and thresholds stated after their runs, or something is not as it was registered."""
    late = [one for one in statements(records.plan) if isinstance(one, Claim | Deviation | tuple) and post_hoc(records, one)]
    said = [words_of(one) for one in late]
    if said:
        yield Observation(f"Stated after the first run that is judged by it had finished: {'; '.join(said)}")
    known = records.plan.registered
    if known and (changed := differences(records.plan, known)):
        yield Observation(
            f"Not as it was registered on {known.date[:10]}: {'; '.join(changed)}",
            why="Whoever read what was registered expects something else.",
            settle="Say why in the study's text, or run it as it was registered.",
        )


@rule(
    "commits, versions and machines",
    "A difference between rows may be one between two versions of the code.",
    "Run all of it again by one version, with another --results, or say in the text what changed.",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Find rows that differ in what computed them, and times measured on several machines; provenance counts the runs."""
    runs, by_row = done(records), [done(records, [index]) for index in range(len(records.variants))]
    timed = any(metric(name).timed for part in records.parts for name in part.shows)
    differ = "Times of different machines do not compare, and neither do the last digits of scores."

    def machine_of(run: Row) -> str:
        return run.provenance.hardware.gpu or run.provenance.hardware.cpu

    for what, told, asked, why, settle in (
        ("commits of the code", attrgetter("provenance.made_by"), True, "", ""),
        ("commits of recstudy", attrgetter("provenance.recstudy"), True, "", ""),
        ("sets of package versions", attrgetter("provenance.packages"), True, "", ""),
        ("kinds of machine", machine_of, timed, differ, "Measure times on one kind of machine."),
    ):
        named = [found for run in runs if (found := told(run))]
        rows = {frozenset(map(told, own)) for own in by_row if own}
        if asked and len(set(named)) > 1 and (len(rows) > 1 or why):
            yield Observation(f"{len(set(named))} {what}: {counted(named)}", why=why, settle=settle)


@rule(
    "code and data since",
    "The same command would not give these numbers today, and rows of before and after the change do not compare.",
    "Run them again; what they had is kept.",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Find finished runs that were made with other user files, or on other data, than the study's last command had."""
    changes = study_changes(records)
    changed = {change.run_id for change in changes}
    for line in change_lines(changes):
        variants = {row.variant for row in records.rows if row.id in changed}
        yield Observation(line, variants, command(records, "--rerun", "changed"))


@rule(
    "the span of the moving average",
    "What is scored is then close to the random weights at the start.",
    "A smaller train.ema_decay, 0 for none, or more epochs.",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Find averages that look back to before the first step of the optimiser, as far as the images that a run was shown tell."""
    spans: dict[int, float] = {}
    for run in done(records):
        config = records.configs[run.variant]
        images = (run.value("images_per_second") or 0.0) * (run.value("seconds") or 0.0)
        one = not config.get("train.detach_carry", True) or config.get("train.halting") == "sample"
        used = 1.0 if one else float(run.value("supervision_steps_used") or 1.0)
        batch, span = config.get("train.batch_size"), averaged_steps(float(config.get("train.ema_decay") or 0.0))
        if images and batch and images * used / float(batch) < span:
            spans[run.variant] = span
    told = ", ".join(dict.fromkeys(f"{span:,.0f}" for _, span in sorted(spans.items())))
    what = f"The moving average of the weights spans {told} steps, more than the run makes"
    yield Observation(what, spans, setting(records, "train.ema_decay", "0"))


@rule(
    "failed runs left out",
    "The seeds that are left may be the lucky ones: a variant that fails on some looks better than it is.",
    "Fix the cause (see what failed) and rerun; diverged runs are a result, which the text should state.",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Leave out diverged trials of a search, of which some may well."""
    ends = ("failed",) if records.plan.search is not None else ("failed", "diverged")
    lost = [row for row in records.rows if row.status in ends]
    what = f"{plural(len(lost), 'run')} left out of every mean: {counted([row.error_class or 'diverged' for row in lost])}"
    yield Observation(what, {row.variant for row in lost}, command(records))


@rule(
    "unfinished runs",
    "Rows with fewer seeds than others have wider intervals, and may change.",
    "The same command finishes them.",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Leave out what a search stops of its own accord."""
    ends = ("not run", "unfinished", *(() if records.plan.search is not None else ("stopped",)))
    left = [row.variant for row in records.rows if row.status in ends]
    yield Observation(f"{plural(len(left), 'run')} of {len(records.rows):,} not finished", left, command(records), note=True)


@rule(
    "verdicts from one run",
    "One run has no interval, so that nothing can be said about whether the value was reproduced.",
    "The runs that are still to do.",
)
def _(records: StudyRecords) -> Iterator[Observation]:
    """Find published values beside one run, where more are planned: the rule of seeds asks where they are not."""
    alone: dict[str, None] = {}
    for part in records.parts:
        try:
            rows = table_cells(records, part).rows if isinstance(part, Table) and part.targets else ()
        except ConfigError:
            continue  # said in its place in the report
        for row in rows:
            for one in row.cells:
                comparable = any(not placed.reasons for placed in one.placed)
                if comparable and one.n == 1 < one.expected and not metric(one.metric).computed:
                    alone[row.label] = None
    if alone:
        what = "Published values stand beside a single run"
        yield Observation(what, command=command(records), note=True, rows=tuple(alone))


@rule("intervals against differences", "Another draw of the seeds may well put the rows in another order.")
def _(records: StudyRecords) -> Iterator[Observation]:
    """Find intervals wider than the means are apart, which the seeds that are planned will not make them narrow enough."""
    names = dict.fromkeys(name for part in records.parts for name in part.shows)
    scores = [name for name in names if name in METRICS and METRICS[name].tasks and METRICS[name].better]
    for group in compared(records):
        blurred = [one for name in scores if (one := _blurred(records, group, name))]
        found = [one for one in blurred if one[1] is None or one[1] > len(records.plan.seeds)]
        if found:
            (words, enough), more = found[0], f", and {len(found) - 1} more" if found[1:] else ""
            needed = f"About {enough:,}" if enough else f"More than {MOST_SEEDS:,}"
            yield Observation(
                f"Intervals wider than the means are apart on {records.variants[group[0]].data}: {words}{more}",
                group,
                command(records, "--seeds", str(enough)) if enough and enough <= CHEAP else "",
                settle=f"{needed} seeds a variant, by the spread of these, would make them as narrow as that; "
                "else the text says that no difference is shown.",
            )


def _blurred(records: StudyRecords, group: Sequence[int], name: str) -> tuple[str, int | None] | None:
    """Say how wide the median interval of a score is and how far apart its means are, where that is less; and after how many
    seeds of every variant it would be no wider, by the spread that the intervals go by (None: over `MOST_SEEDS`)."""
    cells = [cell(records, [index], name) for index in group]
    widths = [one.high - one.low for one in cells if one.high is not None and one.low is not None]
    means = [one.value for one in cells if one.value is not None]
    if len(widths) < 2 or (width := median(widths)) <= (apart := max(means) - min(means)):
        return None
    n = " to ".join(dict.fromkeys(str(end([one.n for one in cells if one.n])) for end in (min, max)))
    words = f"{metric(name).title}, {number(name, width)} wide (n={n}), all means within {number(name, apart)}"
    estimates = [(one.estimate, one.n) for one in cells]
    known = [(found.error * sqrt(n), found.df - n) for found, n in estimates if found.error and found.df]
    count = np.arange(2, MOST_SEEDS + 1)
    later = np.median([2 * stdtrit(df + count, (1 + LEVEL) / 2) * s / np.sqrt(count) for s, df in known], axis=0)
    enough = count[later <= apart] if known else count[:0]
    return words, int(enough[0]) if len(enough) else None
