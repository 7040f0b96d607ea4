"""What stands beside a table's numbers: groups of rows, the labels in them, and config fields as columns of their own.

A group has the variants at one level of an axis, or those that cost about the same; settings say what a variant is, as the
papers' tables do.
"""

from collections.abc import Sequence

from recstudy.analysis.frame import StudyRecords
from recstudy.evidence import mean_of
from recstudy.report import Table
from recstudy.report.levels import same
from recstudy.report.names import DASH, axis_title, metric, number, plain, registered

BAND = 0.1  # a cost within a tenth of a band's least counts as equal to it

Groups = list[tuple[str, list[int]]]


def groups(records: StudyRecords, variants: Sequence[int], by: str) -> Groups:
    """Heading and variants of each group, by an axis or config field in the study's order, or by a cost from the least up.

    Raises:
        ConfigError: no axis, field or metric has that name.
    """
    if registered(by) and not any(by in records.variants[index].levels for index in variants):
        return _bands(records, variants, by)
    found: list[tuple[object, list[int]]] = []
    for index in variants:
        level = records.level(index, by)
        group = next((known for other, known in found if same(other, level)), None)
        if group is None:
            found.append((level, group := []))
        group.append(index)
    return [(level if isinstance(level, str) else f"{axis_title(by)} {plain(level)}", group) for level, group in found]


def label_within(records: StudyRecords, index: int, by: str, axis: str = "") -> str:
    """A variant's label without what the heading of its group says; its level alone of the one `axis` that rows part in,
    and of models and data sets, which are names."""
    label, levels = str(records.variants[index].label), records.variants[index].levels
    said = {name: f"{name}={level}" for name, level in levels.items()}
    if label != ", ".join(said.values()):
        return label  # a name of its own
    left = [name for name in levels if name != by]
    return plain(levels[left[0]]) if left in ([axis], ["model"], ["data"]) else ", ".join(said[name] for name in left) or label


def only_axis(records: StudyRecords, variants: Sequence[int], by: str) -> str:
    """The one axis that these variants part in within their groups; empty where there are others, or names of their own."""
    left = {axis for index in variants for axis in records.variants[index].levels if axis != by}
    axis = next(iter(left)) if len(left) == 1 else ""
    levels = [plain(records.variants[index].levels.get(axis)) for index in variants]
    return axis if axis and levels == [label_within(records, index, by, axis) for index in variants] else ""


def corner(records: StudyRecords, variants: Sequence[int], by: str) -> str:
    """What the labels of these variants are: the levels of the one axis that is left, or variants."""
    return axis_title(axis) if (axis := only_axis(records, variants, by)) else "variant"


def settings_of(records: StudyRecords, index: int, spec: Table) -> tuple[tuple[str, ...], ...]:
    """A variant's value of each field of each setting, in words; a dash where its model has no such field.

    Raises:
        ConfigError: no variant has such a field or axis.
    """
    return tuple(tuple(_word(records, index, path) for path in fields_of(setting)) for setting in spec.settings)


def fields_of(setting: str | tuple[str, ...]) -> tuple[str, ...]:
    return (setting,) if isinstance(setting, str) else setting


def _bands(records: StudyRecords, variants: Sequence[int], name: str) -> Groups:
    costs = {index: _cost(records, index, name) for index in variants}
    known = {index: cost for index, cost in costs.items() if cost is not None}
    bands: list[list[int]] = []
    for index in sorted(known, key=known.__getitem__):
        if bands and known[index] <= (1 + BAND) * known[bands[-1][0]]:
            bands[-1].append(index)
        else:
            bands.append([index])
    unknown = [index for index in variants if index not in known]
    none = [(f"{metric(name).title}: no run has finished", unknown)] if unknown else []
    return [(_heading(name, [known[index] for index in band]), band) for band in bands] + none


def _heading(name: str, costs: Sequence[float]) -> str:
    ends = dict.fromkeys(number(name, cost) for cost in (costs[0], costs[-1]))
    return f"{metric(name).title} {' to '.join(ends)} {metric(name).unit}".strip()


def _cost(records: StudyRecords, index: int, name: str) -> float | None:
    runs = [run for run in records.by_variant[index] if run.done and run.value(name) is not None]
    return mean_of([run.number(name) for run in runs]) if runs else None


def _word(records: StudyRecords, index: int, path: str) -> str:
    value = records.level(index, path)
    there = value is not None or path in records.configs[index] or path in records.variants[index].levels
    return plain(value) if there else DASH
