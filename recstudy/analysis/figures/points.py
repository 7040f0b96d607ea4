"""The data of a metric against a swept field: one row a point.

The published points stand in the same data, marked as such, so that the CSV beside a figure says all that it shows.
"""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from recstudy.analysis.caveats import leaky_notes, warnings
from recstudy.analysis.cells import Cell, cell
from recstudy.analysis.figures.axes import is_number
from recstudy.analysis.figures.drops import from_best
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.analysis.targets import Placed, place
from recstudy.evidence import Answer, mean_of
from recstudy.report import Curve
from recstudy.report.names import at_depth, axis_title, metric, plain, plural, registered

WITHIN = ("eval.depth", "eval.part")  # what tells points of the same run apart: the steps at test, or a class or level
COLUMNS = ["line", "x", "value", "low", "high", "n", "expected", "published", "source", "verdict", "reasons", "run_ids"]
COLUMNS += ["synthetic", "seeds"]
Points = dict[tuple[Any, Any, str], list[int]]  # line, x and what is measured there -> variants


def curve_data(records: StudyRecords, spec: Curve) -> pd.DataFrame:
    """One row a point: ours (`published` is False; mean, 95 % interval and n) and the published ones (True).

    `x` may name an axis, a config field or a cost such as `gflops` (then each variant stands at its own mean cost).
    With `eval.depth`, every variant gives a point for each depth that its runs were scored at; with `eval.part`, for each
    class or level of images that its metric is of.
    Variants at the same line and x are pooled; those that leak are left out. Points without a finished run have no value,
    but keep their row.

    Raises:
        ConfigError: `x`, `by` or `where` name what the study does not have.
    """
    return points_data(records, spec, curve_points(records, spec))


def curve_points(records: StudyRecords, spec: Curve) -> Points:
    """Which variants stand at each point."""
    points: Points = {}
    for index in (index for index in records.chosen(spec.where) if not records.leaks(index)):
        line = None if spec.by is None else records.level(index, spec.by)
        for x, measured in _xs(records, index, spec):
            points.setdefault((line, x, measured), []).append(index)
    return points


def lines(records: StudyRecords, spec: Curve) -> list[str]:
    """The lines of the whole study in its order, whichever of them this curve has: each looks the same in all figures."""
    if spec.by is None:
        return []
    return list(dict.fromkeys(_line(records.level(index, spec.by), spec) for index in range(len(records.variants))))


def points_data(records: StudyRecords, spec: Curve, points: Points) -> pd.DataFrame:
    """A row a point, line by line; of a point's variants those are pooled whose metric is shown there."""
    placement = place(records, spec.targets, sorted({index for pooled in points.values() for index in pooled}), [spec.y])
    rows: list[dict[str, Any]] = []
    for (line, x, measured), pooled in points.items():
        name = _line(line, spec)
        ours = cell(records, pooled, measured, placement)
        rows += [{"line": name, "x": x, **point} for point in (_ours(ours), *_published(ours))]
    order = {name: rank for rank, name in enumerate(dict.fromkeys(row["line"] for row in rows))}
    rows.sort(key=lambda row: (order[row["line"]], row["published"], _rank(row["x"])))
    data = pd.DataFrame(rows, columns=COLUMNS)
    return from_best(records, data, spec) if spec.drop else data


def curve_notes(records: StudyRecords, spec: Curve, data: pd.DataFrame) -> tuple[str, ...]:
    """What a reader must know before the curve: smoke, synthetic data, pooled variants, points missing or not comparable."""
    together = {len(variants) for variants in curve_points(records, spec).values()} - {1}
    points = int((~data["published"].astype(bool)).sum())
    missing = int((~data["published"].astype(bool) & data["value"].isna()).sum())
    many = f"points pool up to {max(together, default=0)} variants; intervals go by the spread of seeds within them"
    leaky = leaky_notes(records, records.chosen(spec.where), shown=False)
    gaps = [f"{missing} of {points} points not run yet"] if missing else []
    verdicts = data.loc[data["published"].astype(bool), "verdict"].tolist()
    apart = verdicts.count("not comparable")
    apart_note = f"{apart} of {plural(len(verdicts), 'published point')} not comparable"
    return (*warnings(records), *leaky, *([many] if together else []), *gaps, *([apart_note] if apart else []))


def _ours(ours: Cell) -> dict[str, Any]:
    known = {"value": ours.value, "low": ours.low, "high": ours.high, "n": ours.n, "expected": ours.expected}
    verdict, reasons = ", ".join(ours.verdicts), "; ".join(ours.reasons)
    said = {"verdict": verdict, "reasons": reasons, "run_ids": " ".join(ours.run_ids), "synthetic": ours.synthetic}
    return {**known, "published": False, **said, "seeds": " ".join(map(repr, ours.values))}


def _published(ours: Cell) -> list[dict[str, Any]]:
    """A row each published value, whatever number of places in the papers, or of pooled variants, it is given for."""
    placed: dict[float, list[tuple[Placed, Answer[str]]]] = {}
    for target, answer in ours.answers:
        placed.setdefault(target.value, []).append((target, answer))
    return [
        {
            "value": value,
            "low": value - max(target.margin or 0.0 for target, _ in same),
            "high": value + max(target.margin or 0.0 for target, _ in same),
            "published": True,
            "source": _each(target.target.cited for target, _ in same),
            "verdict": _each(answer.verdict for _, answer in same),
            "reasons": _each(reason for target, _ in same for reason in [*target.reasons, target.assumed] if reason),
            "synthetic": False,
            "seeds": "",
        }
        for value, same in placed.items()
    ]


def _each(words: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(words))


def _line(level: Any, spec: Curve) -> str:
    """What the line of this level is called."""
    if spec.by is None:
        return metric(spec.y).title
    return level if isinstance(level, str) else f"{axis_title(spec.by)} {plain(level)}"


def _xs(records: StudyRecords, index: int, spec: Curve) -> list[tuple[Any, str]]:
    """Where a variant stands on the x-axis, and which metric is measured there; within a run, where one that has not finished
    would stand, too."""
    if spec.x in WITHIN:
        within = _depths if spec.x == "eval.depth" else _parts
        return within(records.by_variant[index], spec.y) or within(records.rows, spec.y)
    return [(_x(records, index, spec.x), spec.y)]


def _depths(runs: Iterable[Row], name: str) -> list[tuple[Any, str]]:
    scored = {int(depth) for run in runs for depth in run.found.depths.get(name, ())}
    return [(depth, at_depth(name, depth)) for depth in sorted(scored)]


def _parts(runs: Iterable[Row], name: str) -> list[tuple[Any, str]]:
    parts = dict.fromkeys(one for run in runs for one in run.found.metrics if one.startswith(f"{name}."))
    return [(_part(one.removeprefix(f"{name}.")), one) for one in parts]


def _part(name: str) -> int | str:
    """A level is a number, a class a word."""
    return int(name) if name.isdecimal() else name.replace("_", " ")


def _x(records: StudyRecords, index: int, name: str) -> Any:
    if not registered(name) or name in records.variants[index].levels:
        return records.level(index, name)
    known = [run.number(name) for run in records.by_variant[index] if run.done and run.value(name) is not None]
    return mean_of(known) if known else None


def _rank(value: Any) -> tuple[int, float]:
    """Numbers in their order, then words in the study's."""
    return (0, float(value)) if is_number(value) else (1, 0.0)
