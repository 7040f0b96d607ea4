"""The questions of a study's report as one family: claims, differences, effects and published values are
judged together.

Holm's correction is over all of them, so that five claims in five parts are judged as five claims in one
part. Questions that the study has dropped since its first run finished still count. Each question is judged
at the level of its own look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from recstudy.errors import ConfigError
from recstudy.evidence import Answer, Kind, Question, Verdict, answer_published, contrast, judge
from recstudy.evidence.questions import NO_TESTS
from recstudy.report.cells import Cell, cell
from recstudy.report.claims import QuestionPart
from recstudy.report.fits import weighted_mean
from recstudy.report.names import improved_metric, metric
from recstudy.report.parts import BesidePublished, OfVariants
from recstudy.report.questions import Family, QuestionRow, ask
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import MatchedTarget, match_targets

PublishedKey = tuple[tuple[int, ...], str, str, float]  # variants, metric, source and value


@dataclass(frozen=True)
class PublishedValue:
    """A published value beside a variant's own result, and the verdict on it."""

    label: str
    cell: Cell
    placed: MatchedTarget
    answer: Answer[str]

    @property
    def variants(self) -> tuple[int, ...]:
        return self.cell.variants


@dataclass(frozen=True)
class StudyFamily:
    """All answers of a study: those of each part by its text, and those to published values.

    `tests` is the number of questions that are adjusted for one another, dropped ones included.
    """

    parts: dict[str, Family]
    published: dict[PublishedKey, PublishedValue]
    tests: int


def family(records: StudyRecords, part: QuestionPart) -> Family:
    """Return the answers to a part's questions.

    Raises:
        ConfigError: The part names what the study does not have, or cannot be compared.
    """
    all_answers = study_family(records)
    if repr(part) in all_answers.parts:
        return all_answers.parts[repr(part)]
    # a part that the report does not have, such as in a notebook, joins the family
    part_family = ask(records, part)
    looks = [records.looks_at(row.variants) for row in part_family.rows]
    answers = judge([row.answer for row in part_family.rows], looks, all_answers.tests)
    rows = tuple(replace(row, answer=answer) for row, answer in zip(part_family.rows, answers, strict=True))
    return replace(
        part_family,
        rows=rows,
        adjusted_for=all_answers.tests + sum(answer.verdict not in NO_TESTS for answer in answers),
    )


def published_values(records: StudyRecords) -> list[PublishedValue]:
    """Return the published values that the report shows, each once beside each variant."""
    return list(study_family(records).published.values())


def published_answers(cell: Cell) -> list[tuple[MatchedTarget, Answer[str]]]:
    """Return the verdict on each published value beside a cell."""
    if not cell.placed:
        return []
    all_answers = study_family(cell.records)
    answers = []
    for target in cell.placed:
        value = all_answers.published.get(_key(cell, target))
        if value is not None and not improved_metric(cell.metric):
            answer = value.answer
        else:  # such as the mean of several variants, which is judged beside the questions of the report
            looks = cell.records.looks_at(cell.variants)
            (answer,) = judge([_published_answer(cell, target)], [looks], all_answers.tests)
        answers.append((target, answer))
    return answers


def study_family(records: StudyRecords) -> StudyFamily:
    """Return the judged questions of a study's report."""
    return records.compute_once("family", lambda: _study_family(records))


def _study_family(records: StudyRecords) -> StudyFamily:
    parts: dict[str, Family] = {}
    for part in (part for part in records.parts if isinstance(part, QuestionPart)):
        try:
            parts[repr(part)] = ask(records, part)
        except Exception:  # the part's own section states the problem
            continue
    published = dict(_published(records))
    questions: list[QuestionRow | PublishedValue] = [row for part in parts.values() for row in part.rows]
    questions += published.values()
    answers: list[Answer[Any]] = [question.answer for question in questions]
    dropped = sum(count for _, count in records.plan.dropped.values())
    judged = iter(judge(answers, [records.looks_at(question.variants) for question in questions], dropped))
    tests = sum(answer.verdict not in NO_TESTS for answer in answers) + dropped
    judged_parts = {}
    for name, part_family in parts.items():
        judged_rows = tuple(replace(row, answer=next(judged)) for row in part_family.rows)
        judged_parts[name] = replace(part_family, rows=judged_rows, adjusted_for=tests)
    judged_values = {key: replace(value, answer=next(judged)) for key, value in published.items()}
    return StudyFamily(judged_parts, judged_values, tests)


def _published(records: StudyRecords) -> Iterator[tuple[PublishedKey, PublishedValue]]:
    for part in records.parts:
        if isinstance(part, BesidePublished) and part.targets:
            variants = records.chosen(part.where) if isinstance(part, OfVariants) else []
            try:
                placement = match_targets(records, part.targets, variants, part.shown_metrics)
            except ConfigError:  # the part's own section states the problem
                continue
            for index, name in placement.matches:
                result = cell(records, [index], name, placement)
                for target in result.placed:
                    value = PublishedValue(
                        records.variants[index].label, result, target, _published_answer(result, target)
                    )
                    yield _key(result, target), value


def _key(cell: Cell, target: MatchedTarget) -> PublishedKey:
    return cell.variants, cell.metric, target.target.source, target.value


def _published_answer(cell: Cell, target: MatchedTarget) -> Answer[str]:
    """Test a published value alone. A count that follows from the config needs no test."""
    question = Question({"ours": 1.0}, near=target.value, within=target.margin, kind=Kind.PUBLISHED)
    untested = Answer(question, cell.estimate, runs=cell.run_ids)
    if target.reasons:
        return replace(untested, verdict=Verdict.NOT_COMPARABLE, reasons=target.reasons)
    if metric(target.target.metric).computed and cell.counted:
        distance = max(abs(value - target.value) for value in cell.values)
        return replace(untested, verdict=Verdict.AGREES if distance <= target.margin else Verdict.DIFFERS)
    lost_runs = cell.count("failed", "diverged")  # the others may be the lucky ones
    mean = (
        weighted_mean(cell.records, cell.variants[0], cell.source, target.margin)
        if len(cell.variants) == 1
        else None
    )
    edge = contrast([(1.0, mean)]) if mean and not cell.base else None
    margin = target.margin or None
    return answer_published(
        target.value, margin, cell.estimate, cell.prediction, cell.left, lost_runs, cell.run_ids, edge
    )
