"""All questions of a study's report as one family: claims, differences, effects and published values.

Holm's correction is over the whole family, so that five claims in five parts have the same adjusted p values
as five claims in one part. Questions that were dropped after the first run had finished still count. Each
question is judged at the level of its own look (docs/statistics.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from recstudy.base.errors import ConfigError
from recstudy.evidence import Answer, Kind, Question, Verdict, answer_published, contrast, judge
from recstudy.evidence.questions import NO_TESTS
from recstudy.report.cells import Cell, cell
from recstudy.report.claims import QuestionPart
from recstudy.report.fits import fits_of, weighted_mean
from recstudy.report.names import improved_metric, metric
from recstudy.report.parts import BesidePublished, OfVariants, parts_of
from recstudy.report.question_rows import Family, QuestionRow
from recstudy.report.questions import ask
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import MatchedTarget, match_targets

PublishedKey = tuple[tuple[int, ...], str, str, float]  # variants, metric, source and value


@dataclass(frozen=True)
class PublishedValue:
    """A published value, our result for it, and the verdict."""

    label: str
    cell: Cell
    match: MatchedTarget
    answer: Answer[str]

    @property
    def variants(self) -> tuple[int, ...]:
        return self.cell.variants


@dataclass(frozen=True)
class StudyFamily:
    """All answers of a study.

    Args:
        parts: The answers of each part, by the part's `repr`.
        published: The answers for published values.
        tests: The number of tests that p values are adjusted for, those of dropped questions included.
    """

    parts: dict[str, Family]
    published: dict[PublishedKey, PublishedValue]
    tests: int


def family(records: StudyRecords, part: QuestionPart) -> Family:
    """Return the answers to a part's questions.

    Raises:
        ConfigError: The part names an unknown variant or metric, or variants that cannot be compared.
    """
    all_answers = study_family(records)
    if repr(part) in all_answers.parts:
        return all_answers.parts[repr(part)]
    # a part that is not in the report, such as in a notebook, joins the family
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
    """Return the published values of the report, each once for each variant."""
    return list(study_family(records).published.values())


def published_answers(cell: Cell) -> list[tuple[MatchedTarget, Answer[str]]]:
    """Return each published value of a cell with its verdict."""
    if not cell.matches:
        return []
    all_answers = study_family(cell.records)
    answers = []
    for match in cell.matches:
        value = all_answers.published.get(_key(cell, match))
        if value is not None and not improved_metric(cell.metric):
            answer = value.answer
        else:  # such as the mean of several variants, which joins the family
            looks = cell.records.looks_at(cell.variants)
            (answer,) = judge([_published_answer(cell, match)], [looks], all_answers.tests)
        answers.append((match, answer))
    return answers


def study_family(records: StudyRecords) -> StudyFamily:
    """Return the judged questions of a study's report."""
    return records.compute_once("family", lambda: _study_family(records))


def _study_family(records: StudyRecords) -> StudyFamily:
    parts: dict[str, Family] = {}
    for part in (part for part in parts_of(records) if isinstance(part, QuestionPart)):
        try:
            parts[repr(part)] = ask(records, part)
        except Exception:  # the part's own section states the problem
            continue
    published = dict(_published(records))
    rows = [row for part in parts.values() for row in part.rows]
    questions: list[QuestionRow | PublishedValue] = [*rows, *published.values()]
    answers: list[Answer[Any]] = [question.answer for question in questions]
    # A difference that repeats a claim is the same test.
    contrasts = [*(row.contrast_key for row in rows), *published]
    dropped = sum(count for _, count in records.plan.dropped.values())
    looks = [records.looks_at(question.variants) for question in questions]
    judged = iter(judge(answers, looks, dropped, contrasts))
    pairs = zip(contrasts, answers, strict=True)
    tests = len({key for key, answer in pairs if answer.verdict not in NO_TESTS}) + dropped
    judged_parts = {}
    for name, part_family in parts.items():
        judged_rows = tuple(replace(row, answer=next(judged)) for row in part_family.rows)
        judged_parts[name] = replace(part_family, rows=judged_rows, adjusted_for=tests)
    judged_values = {key: replace(value, answer=next(judged)) for key, value in published.items()}
    return StudyFamily(judged_parts, judged_values, tests)


def _published(records: StudyRecords) -> Iterator[tuple[PublishedKey, PublishedValue]]:
    for part in parts_of(records):
        if not isinstance(part, BesidePublished) or not part.targets:
            continue
        variants = records.chosen(part.where) if isinstance(part, OfVariants) else []
        try:
            placement = match_targets(records, part.targets, variants, part.shown_metrics)
        except ConfigError:  # the part's own section states the problem
            continue
        for index, name in placement.matches:
            result, label = cell(records, [index], name, placement), records.variants[index].label
            for match in result.matches:
                answer = _published_answer(result, match)
                yield _key(result, match), PublishedValue(label, result, match, answer)


def _key(cell: Cell, match: MatchedTarget) -> PublishedKey:
    return cell.variants, cell.metric, match.target.source, match.value


def _published_answer(cell: Cell, match: MatchedTarget) -> Answer[str]:
    """Test a published value alone. A number that follows from the config needs no test."""
    question = Question({"ours": 1.0}, center=match.value, half_width=match.margin, kind=Kind.PUBLISHED)
    untested = Answer(question, cell.estimate, runs=cell.run_ids)
    if match.reasons:
        return replace(untested, verdict=Verdict.NOT_COMPARABLE, reasons=match.reasons)
    if metric(match.target.metric).computed and cell.counted:
        distance = max(abs(value - match.value) for value in cell.values)
        return replace(untested, verdict=Verdict.AGREES if distance <= match.margin else Verdict.DIFFERS)
    lost_runs = cell.count("failed", "diverged")  # the remaining runs may be the lucky ones
    seed_range = None
    if len(cell.variants) == 1 and not cell.ours and cell.values:
        fit, _ = fits_of(cell.records, cell.source)[cell.variants[0]]
        half = fit.widest_range / 2
        seed_range = min(cell.values) - half, max(cell.values) + half
    edge = None  # the estimate at the edge of the margin (docs/statistics.md)
    if len(cell.variants) == 1 and not cell.ours:
        mean = weighted_mean(cell.records, cell.variants[0], cell.source, match.margin)
        edge = contrast([(1.0, mean)]) if mean else None
    return answer_published(
        match.value,
        match.margin or None,
        cell.estimate,
        cell.prediction,
        cell.left,
        lost_runs,
        cell.run_ids,
        edge,
        seed_range,
    )
