"""What a reviewer asks of a study's runs: which are behind the numbers, of which data, code and machine, and are they enough?"""

from collections.abc import Iterator
from operator import attrgetter

from recstudy.analysis.audit.rules import Observation, command, counted, done, rule, setting
from recstudy.analysis.changes import change_lines, study_changes
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.registration import differences, post_hoc, statements, words_of
from recstudy.analysis.rows import Row
from recstudy.config import averaged_steps
from recstudy.records.study_schema import Deviation
from recstudy.report import Claim
from recstudy.report.names import metric

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
