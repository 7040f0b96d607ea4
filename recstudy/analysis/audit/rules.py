"""What a careful reviewer would ask of a study, from its records and from what is known of the papers beside it.

Rules are pure functions of the records; those of `design_rules` hold before the first run. None of them refuses
anything: a study may have its reasons, and then its text should give them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from recstudy.analysis.audit import design_rules, provenance_rules, run_rules, spread_rules
from recstudy.analysis.audit.contradictions import Contradiction, contradictions, of_papers, papers
from recstudy.analysis.audit.findings import Finding
from recstudy.analysis.frame import StudyRecords

Rule = Callable[[StudyRecords], Iterator[Finding]]
RULES: dict[str, Rule] = {  # what is checked, in the words of the report
    "selection on the test set": design_rules.selection,
    "a search's objective": design_rules.objectives,
    "the number of seeds": design_rules.seeds,
    "fresh seeds after a search": design_rules.curse,
    "equal epochs": design_rules.epochs,
    "equal training FLOPs": run_rules.flops,
    "learning rates by batch size": design_rules.rates,
    "handicapped baselines": design_rules.stems,
    "leaking captions": run_rules.leaks,
    "one implementation of each metric": provenance_rules.scoring,
    "synthetic data": run_rules.synthetic,
    "whole data sets": design_rules.limits,
    "data checksums": provenance_rules.checksums,
    "commits and versions": provenance_rules.code,
    "code and data since": provenance_rules.outdated,
    "claims stated before the runs": provenance_rules.registered,
    "uncommitted changes": provenance_rules.dirty,
    "machines": provenance_rules.machines,
    "the span of the moving average": run_rules.averages,
    "failed runs left out": run_rules.failed,
    "unfinished runs": run_rules.unfinished,
    "verdicts from one run": run_rules.verdicts,
    "intervals against differences": spread_rules.resolution,
}


@dataclass(frozen=True)
class Audit:
    """`findings`, the questions before the notes, each with its `rule`; and what else the study's `papers` contradict.

    A contradiction that a finding is about stands with that finding (`about`, by its id), and not in `contradictions`.
    """

    findings: tuple[tuple[str, Finding], ...]
    about: dict[str, Contradiction]
    papers: tuple[str, ...]
    contradictions: tuple[Contradiction, ...]

    @property
    def questions(self) -> int:
        return sum(finding.severity == "question" for _, finding in self.findings)


def audit(records: StudyRecords) -> Audit:
    """Everything there is to ask of a study."""
    beside = tuple(papers(records))
    found = _said_once([(name, finding) for name, rule in RULES.items() for finding in rule(records)], beside)
    about = {known: contradictions()[known] for _, finding in found for known in finding.known}
    ordered = sorted(found, key=lambda named: named[1].severity != "question")
    rest = tuple(one for one in of_papers(beside) if one.id not in about)
    return Audit(tuple(ordered), about, beside, rest)


def _said_once(found: list[tuple[str, Finding]], beside: tuple[str, ...]) -> list[tuple[str, Finding]]:
    """The findings with the contradictions of the study's own papers only, each with the first that is about it."""
    told: set[str] = set()
    kept = []
    for name, finding in found:
        known = tuple(one for one in finding.known if one[:3] in beside and one not in told)
        told.update(known)
        kept.append((name, replace(finding, known=known)))
    return kept
