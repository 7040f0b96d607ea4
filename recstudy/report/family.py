"""All questions of a study's report as one family: claims, differences, effects and published values.

Holm's correction is over the whole family, so that five claims in five parts have the same adjusted p values
as five claims in one part. Questions that were dropped after the first run had finished still count. Each
question is judged at the level of its own look (docs/statistics.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from recstudy.base.errors import ConfigError
from recstudy.evidence import Answer, Kind, Question, Verdict, answer, judge
from recstudy.report.cells import Cell, cell
from recstudy.report.claims import QuestionPart
from recstudy.report.fits import fits_of
from recstudy.report.names import improved_metric, inline, metric
from recstudy.report.parts import BesidePublished, OfVariants, parts_of
from recstudy.report.question_rows import Family, QuestionRow
from recstudy.report.questions import ask
from recstudy.report.registration import published_key
from recstudy.report.study_records import StudyRecords
from recstudy.report.targets import MatchedTarget, match_targets

PublishedKey = tuple[tuple[int, ...], str, str, float]  # variants, metric, source and value


@dataclass(frozen=True)
class PublishedValue:
    """A published value, our result for it, and the verdict."""

    label: str
    cell: Cell
    match: MatchedTarget
    answer: Answer

    @property
    def variants(self) -> tuple[int, ...]:
        return self.cell.variants

    @property
    def runs_left(self) -> int:
        """The number of unfinished runs."""
        return self.cell.runs_left

    @property
    def contrast_key(self) -> PublishedKey:
        """Equal for published values that are the same test."""
        return _key(self.cell, self.match)


def _key(cell: Cell, match: MatchedTarget) -> PublishedKey:
    return cell.variants, cell.metric, match.target.source, match.value


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
    other_tests = all_answers.tests + part_family.more_tests
    rows = _judged(records, part_family.rows, other_tests)
    tests = other_tests + sum(row.answer.is_test for row in rows)
    return replace(part_family, rows=rows, adjusted_for=tests)


def _judged(
    records: StudyRecords, rows: Sequence[Any], other_tests: int, contrasts: Sequence[Hashable] = ()
) -> list[Any]:
    """Return questions and published values with verdicts, adjusted for each other and for other tests."""
    looks = [records.looks.at(row.variants) for row in rows]
    answers = judge([row.answer for row in rows], looks, other_tests, contrasts)
    return [replace(row, answer=answer) for row, answer in zip(rows, answers, strict=True)]


def published_values(records: StudyRecords) -> list[PublishedValue]:
    """Return the published values of the report, each once for each variant."""
    return list(study_family(records).published.values())


def published_tests(records: StudyRecords) -> dict[str, tuple[str, int]]:
    """Return digest -> words and the number of tests, for each published value that is tested."""
    targets = [value.match.target for value in published_values(records) if value.answer.is_test]
    counts = Counter(map(published_key, targets))
    return {
        key: (f"the published {inline(target.metric)} of {target.cited}", counts[key])
        for key, target in zip(map(published_key, targets), targets, strict=True)
    }


def published_answers(cell: Cell) -> list[tuple[MatchedTarget, Answer]]:
    """Return each published value of a cell with its verdict."""
    if not cell.matches:
        return []
    all_answers, answers = study_family(cell.records), []
    for match in cell.matches:
        value = all_answers.published.get(_key(cell, match))
        if value is None or improved_metric(cell.metric):
            # such as the mean of several variants, which joins the family
            (value,) = _judged(cell.records, [_published_value("", cell, match)], all_answers.tests)
        answers.append((match, value.answer))
    return answers


def study_family(records: StudyRecords) -> StudyFamily:
    """Return the judged questions of a study's report."""
    return records.compute_once("family", lambda: _study_family(records))


def _study_family(records: StudyRecords) -> StudyFamily:
    parts: dict[str, Family] = {}
    for part in parts_of(records):
        # the part's own section states the problem
        with suppress(Exception):
            if isinstance(part, QuestionPart):
                parts[repr(part)] = ask(records, part)
    published = {value.contrast_key: value for value in _published(records)}
    questions: list[QuestionRow | PublishedValue] = [row for part in parts.values() for row in part.rows]
    questions += published.values()
    # A difference that repeats a claim is the same test.
    contrasts = [question.contrast_key for question in questions]
    pairs = zip(contrasts, questions, strict=True)
    tested = {contrast for contrast, question in pairs if question.answer.is_test}
    dropped = sum(count for _, count in records.plan.dropped.values())
    dropped += sum(part.more_tests for part in parts.values())
    tests = len(tested) + dropped
    judged = iter(_judged(records, questions, dropped, contrasts))
    for name, part_family in parts.items():
        rows = list(islice(judged, len(part_family.rows)))
        parts[name] = replace(part_family, rows=rows, adjusted_for=tests)
    return StudyFamily(parts, dict(zip(published, judged, strict=True)), tests)


def _published(records: StudyRecords) -> Iterator[PublishedValue]:
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
                yield _published_value(label, result, match)


def _published_value(label: str, cell: Cell, match: MatchedTarget) -> PublishedValue:
    """Test a published value alone. A number that follows from the config needs no test."""
    region = {"center": match.value, "half_width": match.margin, "alpha": cell.records.plan.alpha}
    question = Question({"ours": 1.0}, kind=Kind.PUBLISHED, is_mean=True, **region)
    is_computed = metric(match.target.metric).computed
    result = Answer(question, cell.estimate, Verdict.NOT_RUN, needs_test=not is_computed, runs=cell.run_ids)
    if match.reasons:
        result = replace(result, verdict=Verdict.NOT_COMPARABLE, reasons=match.reasons)
    elif is_computed and cell.counted:
        distance = max(abs(value - match.value) for value in cell.values)
        result = replace(result, verdict=Verdict.AGREES if distance <= match.margin else Verdict.DIFFERS)
    elif not is_computed:
        seed_range = None
        fits, index = fits_of(cell.records, cell.source), cell.variants[0]
        if len(cell.variants) == 1 and not cell.ours and index in fits:
            seed_range = fits[index][0].extended_range(cell.values)
        lost_runs = cell.count("failed", "diverged")  # the remaining runs may be the lucky ones
        result = answer(
            question,
            cell.estimate,
            cell.runs_left,
            lost_runs,
            cell.run_ids,
            prediction=cell.prediction,
            seed_range=seed_range,
        )
    return PublishedValue(label, cell, match, result)
