"""Margins of a grid: the levels of one axis, averaged over the settings of the other axes.

Only settings of the other axes that all levels share enter an average, each with the same weight. A
difference of two levels then never contains a difference of other settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from typing import Any

from recstudy.base.errors import ConfigError, choices
from recstudy.evidence import Estimate
from recstudy.report.blocks import Block, block_words, differ
from recstudy.report.blocks import scope as these
from recstudy.report.claims import Effects
from recstudy.report.contrast_questions import DIFFERENCE, ask_contrast, ask_contrasts
from recstudy.report.contrasts import Weights, average
from recstudy.report.fits import weighted_mean
from recstudy.report.names import axis_title, difference_form, level_words, metric, value_text
from recstudy.report.question_rows import Family, QuestionRow
from recstudy.report.study_records import StudyRecords

MOST_LEVELS = 12  # of an axis whose levels are compared
BEST_BASE = "base: the best mean of the same runs, so that p is adjusted for all pairs of levels"
DIFFERS = "differs between"


Places = Mapping[Any, Mapping[Block, int]]  # level -> settings of the other axes -> variant


def find_margins(variants: Mapping[int, Mapping[str, Any]], axis: str) -> tuple[Places, list[Block]]:
    """Return the places of an axis, and the settings of the other axes that all its levels share.

    Levels that share none, or are too many, are not compared.

    Args:
        variants: Variant -> its level on each axis of the grid.
        axis: The axis whose levels are compared.
    """
    places: dict[Any, dict[Block, int]] = {}
    for index, levels in variants.items():
        block = tuple((name, value_text(level)) for name, level in levels.items() if name != axis)
        places.setdefault(levels[axis], {})[block] = index
    blocks = dict.fromkeys(chain(*places.values())) if len(places) <= MOST_LEVELS else {}
    return places, [block for block in blocks if all(block in place for place in places.values())]


def ask_margins(
    records: StudyRecords,
    part: Effects,
    variants: Mapping[int, Mapping[str, Any]],
    axes: Iterable[str],
) -> Family:
    """Ask how much each level of an axis differs from its base level. The largest effect comes first.

    Args:
        records: The study's records.
        part: The part.
        variants: Variant -> its level on each axis of the grid, blocks included.
        axes: The axes whose levels are compared.

    Raises:
        ConfigError: An axis lacks its stated base level, or no axis has levels that share settings.
    """

    def score(indices: Iterable[int]) -> float:
        means = [weighted_mean(records, index, part.metric) for index in indices]
        return metric(part.metric).sign * sum(mean.value for mean in means if mean) if all(means) else -inf

    effects: list[list[QuestionRow]] = []
    more_tests = 0
    for axis in axes:
        places, blocks = find_margins(variants, axis)
        base = (part.base or {}).get(axis)
        if blocks and base is None:
            base = max(places, key=lambda level: score(places[level][block] for block in blocks))
            # each level could have come out as the base, so that all pairs are tests
            more_tests += (len(places) - 1) * (len(places) - 2) // 2
        if base is not None and base not in places:
            have = choices(map(value_text, places))
            raise ConfigError(f"effects {part.name!r}: {axis!r} has no level {base!r}: there are {have}")
        effects += [_ask_axis(records, part.metric, axis, places, blocks, base)] if blocks else []
    if not effects:
        raise ConfigError(f"effects {part.name!r}: the levels of no axis share the settings of the others")
    effects.sort(key=lambda rows: max(abs(row.estimate.value or 0.0) for row in rows), reverse=True)
    rows = list(chain(*effects))
    notes = [BEST_BASE] * (more_tests > 0 and any(row.answer.p is not None for row in rows))
    return Family(rows, notes, more_tests=more_tests)


def mark_differing(row: QuestionRow, estimates: Sequence[Estimate]) -> QuestionRow:
    """Return the row of an average difference, with a mark if the difference differs between settings."""
    if not differ(estimates):
        return row
    values = [estimate.value or 0.0 for estimate in estimates]
    form = difference_form(row.metric, row.interval)
    return replace(
        row, marks=[*row.marks, f"{DIFFERS} settings: {min(values):{form}} to {max(values):{form}}"]
    )


def _ask_axis(
    records: StudyRecords,
    name: str,
    axis: str,
    places: Places,
    blocks: Sequence[Block],
    base: Any,
) -> list[QuestionRow]:
    """Ask how much each level of one axis differs from the base, on average over settings of the others.

    A mark says if the difference differs between these settings. If it differs between the study's blocks,
    it is asked in each block.
    """
    rows, total = [], len({*chain(*places.values())})
    group = level_words(axis, base)
    scope = block_words(blocks[0])
    if total > 1 and len(blocks) == 1:
        scope = f"only with {scope}"
    elif total > 1:
        of_total = f"{len(blocks)} of " * (len(blocks) < total)
        names = choices(axis_title(axis_name) for axis_name, _ in blocks[0])
        scope = f"on average over {of_total}{total} settings of {names}"
    for level in (level for level in places if level != base):
        by_block: dict[Block, list[Weights]] = {}
        for block in blocks:
            ours, theirs = places[level][block], places[base][block]
            by_block.setdefault(records.blocks[ours], []).append({ours: {name: 1.0}, theirs: {name: -1.0}})
        averages = [(block, average(contrasts)) for block, contrasts in by_block.items()]
        row = ask_contrasts(records, name, DIFFERENCE, averages)
        varies = any(mark.startswith(DIFFERS) for mark in row.marks)
        if not varies:
            settings = chain(*by_block.values())
            answers = [ask_contrast(records, name, DIFFERENCE, weights) for weights in settings]
            row = mark_differing(row, [answer.estimate for answer in answers])
        label = level_words(axis, level)
        row = replace(row, label=label, contrast=f"{label} minus {group}")
        place = f"in each of {these(list(by_block))}" if varies else scope
        rows.append(replace(row, group=f"{group}, {place}".removesuffix(", ")))
    return rows
