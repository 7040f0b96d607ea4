"""What a careful reviewer would ask of a study, from its records and from what is known of the papers beside it."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from recstudy.errors import StorageError
from recstudy.papers import by_name, papers
from recstudy.records import Json, Results
from recstudy.report.audit.rules import RULES, Finding
from recstudy.report.markup import markup
from recstudy.report.names import plural
from recstudy.report.parts import BesidePublished
from recstudy.report.study_records import StudyRecords, load_studies

TITLE = "What a careful reviewer would ask"
AS_RECORDED = "By the study's command as recorded"


class Contradiction(NamedTuple):
    """A statement of a paper, what stands against it, and what this project does about it.

    `place`: the paper's section or table. `quoted`: the statement is the paper's own words, letter by letter; else it is ours.
    """

    id: str
    paper: str
    place: str
    statement: str
    quoted: bool
    conflict: str
    handling: str

    @property
    def cited(self) -> str:
        """The statement, in quotation marks where it is verbatim, with its place."""
        return f"""{f'"{self.statement}"' if self.quoted else self.statement} ({self.place})"""

    @property
    def words(self) -> str:
        """All of it under its name, such as `ViTRM-8`."""
        return f"{by_name(self.id)}: the paper says {self.cited}; but: {self.conflict}. Here: {self.handling}."


@cache
def contradictions() -> dict[str, Contradiction]:
    """Read `recstudy/papers/contradictions.yaml`, by id."""
    import yaml

    lines = yaml.safe_load(files("recstudy").joinpath("papers/contradictions.yaml").read_text(encoding="utf-8"))
    return {
        one["id"]: Contradiction(
            one["id"], one["seed"], one["where"], one.get("quote", one.get("says")), "quote" in one, one["conflict"],
            "noted" if one["handling"] == "note" else one["handling"],
        )
        for one in lines
    }  # fmt: skip


@dataclass(frozen=True)
class AuditReport:
    """`findings`, the questions before the notes, each with its `rule`; and what else the study's `papers` contradict.

    A contradiction that a finding is about stands with that finding (`about`, by its id), and not in `contradictions`.
    """

    findings: tuple[tuple[str, Finding], ...]
    about: dict[str, Contradiction]
    papers: tuple[str, ...]
    contradictions: tuple[Contradiction, ...]
    rules: tuple[str, ...] = tuple(RULES)  # that were checked

    @property
    def checked(self) -> str:
        return f"Checked: {', '.join(self.rules)}."

    @property
    def questions(self) -> int:
        return sum(finding.severity == "question" for _, finding in self.findings)

    @property
    def by_paper(self) -> Iterator[tuple[str, list[Contradiction]]]:
        """Return the other contradictions of each paper, under a title that names it."""
        for paper in self.papers:
            if others := [one for one in self.contradictions if one.paper == paper]:
                yield f"Known inconsistencies in the {papers()[paper]['name']} paper", others


def audit(records: StudyRecords) -> AuditReport:
    """Ask everything there is to ask of a study; a contradiction of its papers stands with the first finding that is about it."""
    targets = [target for part in records.parts if isinstance(part, BesidePublished) for target in part.targets]
    beside = tuple(sorted({target.source.partition(" ")[0] for target in targets}))
    about: dict[str, Contradiction] = {}
    found = []
    rules = {name: rule for name, rule in RULES.items() if rule.general or not records.is_own}
    for name, rule in rules.items():
        for finding in rule.findings(records):
            known = tuple(one for one in finding.known if one[:3] in beside and one not in about)
            about |= {one: contradictions()[one] for one in known}
            found.append((name, replace(finding, known=known)))
    found.sort(key=lambda named: named[1].severity != "question")
    rest = tuple(one for one in contradictions().values() if one.paper in beside and one.id not in about)
    return AuditReport(tuple(found), about, beside, rest, tuple(rules))


def audit_html(found: AuditReport) -> str:
    """Show questions in full, notes and contradictions folded; one line that opens where there is nothing."""
    papers = [
        (title, [(f"{by_name(one.id)}: {one.cited}", one.conflict, one.handling) for one in others])
        for title, others in found.by_paper
    ]
    return markup("audit", found.findings, papers, found.about, found.checked, AS_RECORDED, template="study")


def audit_lines(found: AuditReport) -> Iterator[Text]:
    """Print for a terminal: a paragraph a finding, a line a contradiction."""
    if not found.questions:
        yield Text(f"Nothing to ask. {found.checked}")
    for _, one in found.findings:
        yield Text(f"{one.severity.capitalize()}: {one.what}", style="bold" if one.severity == "question" else "")
        lines = [f"Where: {one.place}", f"Why it matters: {one.why}", f"What would settle it: {one.settle}"]
        lines += [*([f"{AS_RECORDED}: {one.command}"] if one.command else []), *(found.about[known].words for known in one.known)]
        yield from (Text(f"    {line}") for line in lines)
    for title, others in found.by_paper:
        yield Text(f"{title}:")
        yield from (Text(f"    {one.words}") for one in others)


def audit_record(found: AuditReport) -> Json:
    """Return `findings`, `contradictions` and what was `checked`, as plain JSON values."""
    findings = [
        {"rule": rule, **asdict(finding), "known": [found.about[known]._asdict() for known in finding.known]}
        for rule, finding in found.findings
    ]
    return {"findings": findings, "contradictions": [one._asdict() for one in found.contradictions], "checked": [*found.rules]}


def show_audits(studies: Sequence[tuple[Results, str, str]], as_json: bool, out: Console, trust: bool = False) -> None:
    """Print the audit of each study (results folder, name, preset).

    Raises:
        StorageError: some are damaged; the others were printed.
    """
    readable, damaged = load_studies(studies, trust)
    found = []
    for (name, preset), records in readable.items():
        with records.standing():
            found.append((name, preset, audit(records), records.not_here))
    if as_json:
        told = [{"study": name, "preset": preset, **audit_record(one), "not_here": gone} for name, preset, one, gone in found]
        print(json.dumps(told, indent=1))
    for name, preset, one, gone in () if as_json else found:
        out.print(Text(f"{name} ({preset}): {plural(one.questions, 'question')}", style="bold underline"), soft_wrap=True)
        for line in (*map(Text, gone), *audit_lines(one)):
            out.print(line, soft_wrap=True)
    if damaged:
        raise StorageError(" ".join(map(str, damaged)))
