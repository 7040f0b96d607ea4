"""What a reviewer asks of where numbers come from: data, code, machines and the implementations of the metrics."""

from collections.abc import Callable, Iterator
from operator import attrgetter

from recstudy.analysis.audit.findings import Finding, command, counted, done, tasks, where
from recstudy.analysis.changes import changes, lines
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.registration import differences, post_hoc, statements
from recstudy.analysis.rows import Row
from recstudy.records.schema import Provenance
from recstudy.records.study_schema import Deviation
from recstudy.report import Claim
from recstudy.report.names import metric, plural

SHORT = 12  # characters of a checksum or commit that tell it apart
WORDS = {"metrics": "cut into words", "rate": "judged", "text": "cut into the models' tokens"}


def checksums(records: StudyRecords) -> Iterator[Finding]:
    """One data set with the same settings, and not the same images."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for run in done(records):
        config = records.configs[run.variant]
        groups.setdefault(tuple(f"{path}={config[path]}" for path in sorted(config) if path.startswith("data.")), []).append(run)
    for runs in groups.values():
        found = [run.provenance.data_checksum[:SHORT] for run in runs if run.provenance.data_checksum]
        if len(set(found)) > 1:
            yield Finding(
                f"{len(set(found))} different data checksums of {records.variants[runs[0].variant].data}: {counted(found)}",
                "These runs were not trained and scored on the same images.",
                "Find out which copy is right, and run the others again with another --results.",
                where(records, {run.variant for run in runs}),
            )


def code(records: StudyRecords) -> Iterator[Finding]:
    """More than one version of the code or of its packages: a question where the rows differ in it.

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
            yield Finding(
                f"{len(set(named))} {what}: {counted(named)}",
                "A difference between rows may be one between two versions of the code.",
                "Run all of it again by one version, with another --results, or say in the text what changed.",
                severity="question" if _differ(records, told) and not asked else "note",
            )


def outdated(records: StudyRecords) -> Iterator[Finding]:
    """Finished runs that other code computed, or other images, than the study's last command has found."""
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


def registered(records: StudyRecords) -> Iterator[Finding]:
    """Claims and deviations that were stated after their runs, and what is not as it was registered."""
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


def dirty(records: StudyRecords) -> Iterator[Finding]:
    """Code that nobody else can get: changed since its commit, or of none."""
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
    """Several kinds of machine: a question where the report shows times."""
    kinds = [run.provenance.hardware.gpu or run.provenance.hardware.cpu for run in done(records)]
    if len(set(kinds)) > 1:
        yield Finding(
            f"{len(set(kinds))} kinds of machine: {counted(kinds)}",
            "Times of different machines do not compare, and neither do the last digits of scores.",
            "Measure times on one kind of machine.",
            severity="question" if _shows_times(records) else "note",
        )


def scoring(records: StudyRecords) -> Iterator[Finding]:
    """Captions that were decoded or cut into words in more than one way, so that their scores are not one metric."""
    for group in tasks(records):
        runs = done(records, group)
        said = {words: [run.found.tokenizer.get(key) for run in runs] for key, words in WORDS.items()}
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


def _shows_times(records: StudyRecords) -> bool:
    return any(metric(name).timed for part in records.parts for name in part.shows)


def _differ(records: StudyRecords, told: Callable[[Provenance], str]) -> bool:
    """Whether some variants were made by others than the rest."""
    made = [frozenset(told(run.provenance) for run in done(records, [index])) for index in range(len(records.variants))]
    return len(set(made) - {frozenset()}) > 1
