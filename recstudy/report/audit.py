"""The audit of a study: the questions that its records raise (`reasons.py`), and its papers' inconsistencies.

`recstudy audit` and the report's page show the result.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.text import Text

from recstudy.base.errors import StorageError
from recstudy.papers import by_name
from recstudy.papers.target import papers, published_yaml
from recstudy.records import Results
from recstudy.report.names import join_labels, plural
from recstudy.report.page import markup
from recstudy.report.parts import BesidePublished, missing_modules, parts_of
from recstudy.report.reasons import REASONS
from recstudy.report.study_records import StudyRecords, load_studies
from recstudy.report.targets import PAPER

TITLE = "What a careful reviewer would ask"


@dataclass(frozen=True)
class Contradiction:
    """A statement of a paper, the fact that contradicts it, and how this project handles it.

    Args:
        id: The paper's id and a number.
        paper: The paper's id.
        where: The paper's section or table.
        conflict: The fact that contradicts the statement.
        handling: What this project does about it.
        quote: The statement, if it is verbatim.
        says: The statement in our words, if it is not.
    """

    id: str
    paper: str
    where: str
    conflict: str
    handling: str
    quote: str = ""
    says: str = ""

    @property
    def row(self) -> tuple[str, str, str]:
        """The statement with its name, such as `ViTRM-8`; its conflict; our handling."""
        statement = f'"{self.quote}"' if self.quote else self.says
        return f"{by_name(self.id)}: {statement} ({self.where})", self.conflict, self.handling


def contradictions() -> list[Contradiction]:
    """Read `recstudy/recursive/papers/contradictions.yaml`."""
    return [Contradiction(**entry) for entry in published_yaml("contradictions")]


@dataclass(frozen=True)
class Finding:
    """A fact that raises a question. `where` has the labels of its variants; it is empty if all are meant.

    The field names are the keys of `recstudy audit --json`.
    """

    rule: str
    what: str
    conclusion: str
    settle: str
    where: list[str]

    @property
    def place(self) -> str:
        """The first three variants and the number of others, for print."""
        return join_labels(self.where) or "every variant"


@dataclass(frozen=True)
class AuditReport:
    """The findings, the ids of the checked reasons, and the contradictions of each paper by a title."""

    findings: list[Finding]
    checked: list[str]
    contradictions: dict[str, list[Contradiction]]


def audit(records: StudyRecords) -> AuditReport:
    """Look for every reason that raises a question of this study, and for contradictions of its papers."""
    reasons = [reason for reason in REASONS if reason.question and (reason.is_general or not records.is_own)]
    findings = []
    for reason in reasons:
        for fact, indices in reason.finds(records):
            labels = [variant.label for index, variant in enumerate(records.variants) if index in indices]
            is_everywhere = len(labels) == len(records.variants)
            where = [] if is_everywhere else labels
            findings.append(Finding(reason.id, fact, reason.question, reason.fix, where))
    parts = [part for part in parts_of(records) if isinstance(part, BesidePublished)]
    paper_ids = {target.source.partition(" ")[0] for part in parts for target in part.targets}
    by_title: dict[str, list[Contradiction]] = {}
    for entry in contradictions():
        if entry.paper in paper_ids:
            title = f"Known inconsistencies in the {papers()[entry.paper]['name']} paper"
            by_title.setdefault(title, []).append(entry)
    return AuditReport(findings, [reason.id for reason in reasons], by_title)


def audit_html(records: StudyRecords) -> str:
    """Return the audit as HTML. The page of the preset `paper` also has the contradictions, folded."""
    return markup("audit", audit(records), records.plan.preset == PAPER, template="study")


def audit_lines(report: AuditReport) -> Iterator[Text]:
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
    studies: Sequence[tuple[Results, str, str]], as_json: bool, console: Console, trust: bool = False
) -> None:
    """Print the audit of each study (results folder, name, preset).

    Raises:
        StorageError: Some studies are damaged. The others are printed before.
    """
    readable, damages = load_studies(studies, trust)
    entries = []
    for (name, preset), records in readable.items():
        with records.study_modules():
            report = audit(records)
        entries.append(
            {"study": name, "preset": preset, **asdict(report), "not_here": missing_modules(records)}
        )
        if not as_json:
            title = f"{name} ({preset}): {plural(len(report.findings), 'question')}"
            heading = Text(title, style="bold underline")
            for line in (heading, *map(Text, missing_modules(records)), *audit_lines(report)):
                console.print(line, soft_wrap=True)
    if as_json:
        print(json.dumps(entries, indent=1))
    if damages:
        raise StorageError(" ".join(map(str, damages)))
