"""The audit of a study: the questions that its records raise (`reasons.py`), and its papers' inconsistencies.

`recstudy audit` and the report's page show the result.
"""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from recstudy.base.errors import StorageError
from recstudy.papers.target import papers, published_yaml
from recstudy.report.documents import AuditDocument, AuditEntry, Contradiction, Finding
from recstudy.report.names import plural
from recstudy.report.page import markup
from recstudy.report.parts import BesidePublished, missing_modules, parts_of
from recstudy.report.reasons import REASONS
from recstudy.report.status import StudyLocation
from recstudy.report.study_records import StudyRecords, load_studies
from recstudy.report.targets import PAPER

TITLE = "What a careful reviewer would ask"


def contradictions() -> list[Contradiction]:
    """Read `recstudy/recursive/papers/contradictions.yaml`."""
    return [Contradiction(**entry) for entry in published_yaml("contradictions")]


def audit(records: StudyRecords) -> AuditEntry:
    """Look for every reason that raises a question of this study, and for contradictions of its papers."""
    findings, reasons = [], []
    for reason in REASONS:
        is_of_program = reason.is_general or not records.is_own
        if reason.question and is_of_program and (reason.is_of_imported or not records.plan.imported):
            reasons.append(reason)
    for reason in reasons:
        for fact, indices in reason.finds(records):
            labels = [variant.label for index, variant in enumerate(records.variants) if index in indices]
            where = [] if len(labels) == len(records.variants) else labels
            texts = {"what": fact, "conclusion": reason.question, "settle": reason.fix}
            findings.append(Finding(rule=reason.id, where=where, **texts))
    parts = [part for part in parts_of(records) if isinstance(part, BesidePublished)]
    paper_ids = {target.source.partition(" ")[0] for part in parts for target in part.targets}
    by_title: dict[str, list[Contradiction]] = {}
    for entry in contradictions():
        if entry.paper in paper_ids:
            title = f"Known inconsistencies in the {papers()[entry.paper]['name']} paper"
            by_title.setdefault(title, []).append(entry)
    return AuditEntry(
        study=records.plan.study,
        preset=records.plan.folder,
        findings=findings,
        checked=[reason.id for reason in reasons],
        contradictions=by_title,
        not_here=missing_modules(records),
    )


def audit_html(records: StudyRecords) -> str:
    """Return the audit as HTML. The page of the preset `paper` also has the contradictions, folded."""
    return markup("audit", audit(records), records.plan.preset == PAPER, template="study")


def audit_lines(report: AuditEntry) -> Iterator[Text]:
    """Return a paragraph per finding and a line per contradiction, for a terminal."""
    if not report.findings:
        yield Text(f"No questions. Checked: {', '.join(report.checked)}.")
    for finding in report.findings:
        yield Text(f"Question: {finding.what}", style="bold")
        yield Text(f"    Variants: {finding.place}")
        yield Text(f"    {finding.conclusion}")
        yield Text(f"    What would settle it: {finding.settle}")
    for title, entries in report.contradictions.items():
        yield Text(f"{title}:")
        yield from (Text("    {}; but: {}. Here: {}.".format(*entry.row)) for entry in entries)


def show_audits(
    studies: Sequence[StudyLocation], as_json: bool, console: Console, trust: bool = False
) -> None:
    """Print the audit of each study.

    Raises:
        StorageError: Some studies are damaged. The others are printed before.
    """
    readable, damages = load_studies(studies, trust)
    entries = []
    for records in readable.values():
        with records.study_modules():
            entries.append(audit(records))
    if as_json:
        AuditDocument(studies=entries).show()
    for entry in () if as_json else entries:
        title = f"{entry.study} ({entry.preset}): {plural(len(entry.findings), 'question')}"
        heading = Text(title, style="bold underline")
        for line in (heading, *map(Text, entry.not_here), *audit_lines(entry)):
            console.print(line, soft_wrap=True)
    if damages:
        raise StorageError(" ".join(map(str, damages)))
