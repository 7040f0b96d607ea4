"""An audit in words: a section of the report, the terminal, and JSON for programs."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import Console
from rich.text import Text

from recstudy.analysis.audit.contradictions import Contradiction
from recstudy.analysis.audit.findings import Finding
from recstudy.analysis.audit.rules import RULES, Audit, audit
from recstudy.analysis.frame import StudyRecords, load_studies
from recstudy.analysis.page import code, escape, fold, words_table
from recstudy.errors import StorageError
from recstudy.papers import by_name
from recstudy.plugins import reading
from recstudy.records import Json, Results
from recstudy.report.names import plural

TITLE = "What a careful reviewer would ask"
CHECKED = f"Checked: {', '.join(RULES)}."
HEADS = ("the paper says", "but", "here")


def audit_html(found: Audit) -> str:
    """Questions in full, notes and contradictions folded; one line that opens where there is nothing."""
    questions = "".join(_finding_html(found, one) for _, one in found.findings if one.severity == "question")
    notes = "".join(_finding_html(found, one) for _, one in found.findings if one.severity == "note")
    none = "" if questions else fold("Nothing to ask", f"<p>{escape(CHECKED)}</p>")
    count = sum(one.severity == "note" for _, one in found.findings)
    told = fold(plural(count, "note"), notes) if notes else ""
    return f"{none}{questions}{told}{''.join(_paper_html(found, paper) for paper in found.papers)}"


def audit_lines(found: Audit) -> Iterator[Text]:
    """For a terminal: a paragraph a finding, a line a contradiction."""
    if not found.questions:
        yield Text(f"Nothing to ask. {CHECKED}")
    for _, finding in found.findings:
        yield Text(f"{finding.severity.capitalize()}: {finding.what}", style="bold" if finding.severity == "question" else "")
        yield from (Text(f"    {line}") for line in _lines(found, finding))
    for paper in found.papers:
        others = [one for one in found.contradictions if one.paper == paper]
        if others:
            yield Text(by_name(f"Known of paper {paper}, beside whose numbers this study stands:"))
            yield from (Text(f"    {one.words}") for one in others)


def audit_record(found: Audit) -> Json:
    """`findings`, `contradictions` and what was `checked`, as plain JSON values."""
    findings = [
        {"rule": rule, **asdict(finding), "known": [found.about[known]._asdict() for known in finding.known]}
        for rule, finding in found.findings
    ]
    return {"findings": findings, "contradictions": [one._asdict() for one in found.contradictions], "checked": [*RULES]}


def show_audits(studies: Sequence[tuple[Results, str, str]], as_json: bool, out: Console) -> None:
    """Print the audit of each study (results folder, name, preset).

    Raises:
        StorageError: some are damaged; the others were printed.
    """
    readable, damaged = load_studies(studies)
    found = [(name, preset, _audited(records)) for (name, preset), records in readable.items()]
    if as_json:
        print(json.dumps([{"study": name, "preset": preset, **audit_record(one)} for name, preset, one in found], indent=1))
    for name, preset, one in () if as_json else found:
        out.print(Text(f"{name} ({preset}): {plural(one.questions, 'question')}", style="bold underline"), soft_wrap=True)
        for line in audit_lines(one):
            out.print(line, soft_wrap=True)
    if damaged:
        raise StorageError(" ".join(map(str, damaged)))


def _audited(records: StudyRecords) -> Audit:
    with reading(records.plugins):
        return audit(records)


def _lines(found: Audit, finding: Finding) -> Iterator[str]:
    yield f"Where: {finding.place}"
    yield f"Why it matters: {finding.why}"
    yield f"What would settle it: {finding.settle}"
    yield from ([finding.command] if finding.command else [])
    yield from (found.about[known].words for known in finding.known)


def _finding_html(found: Audit, finding: Finding) -> str:
    known = "".join(f'<p class="note">{escape(found.about[one].words)}</p>' for one in finding.known)
    command = code(finding.command) if finding.command else ""
    return (
        f"<h3>{escape(finding.what)}</h3><p>{escape(finding.why)}</p>"
        f'<p class="note">Where: {escape(finding.place)}</p><p>What would settle it: {escape(finding.settle)}</p>{command}{known}'
    )


def _paper_html(found: Audit, paper: str) -> str:
    others = [one for one in found.contradictions if one.paper == paper]
    if not others:
        return ""
    table = words_table(by_name(f"Contradictions of paper {paper}"), HEADS, [_row(one) for one in others])
    title = f"{plural(len(others), 'contradiction')} of paper {paper}, beside whose numbers this study stands"
    return fold(by_name(title), table)


def _row(one: Contradiction) -> tuple[str, ...]:
    return f"{one.called}: {one.said}", one.conflict, one.handling
