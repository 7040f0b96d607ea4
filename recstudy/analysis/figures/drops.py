"""How much a line loses away from its best point: what robustness to a batch size means in numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from recstudy.analysis.fits import Fits, fits_of
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.evidence import Estimate, contrast
from recstudy.report import Curve
from recstudy.report.names import metric

HOW = (
    "Each point minus the best one of its line, with its 95 % interval; of published points, of two numbers. The best is "
    "chosen from the same runs, so drops are a little too large"
)


def from_best(records: StudyRecords, data: pd.DataFrame, spec: Curve) -> pd.DataFrame:
    """A curve's rows with differences to the best point of the line, ours and the published ones apart.

    `best` is where that point stands; it has a difference of 0 and no interval.
    """
    runs = {row.id: row for row in records.rows}
    fits = fits_of(records, spec.y)
    parts = [_line(part, runs, fits, spec) for _, part in data.groupby(["line", "published"], sort=False)]
    return pd.concat(parts).sort_index() if parts else data.assign(best=None)


def _line(part: pd.DataFrame, runs: Mapping[str, Row], fits: Fits, spec: Curve) -> pd.DataFrame:
    values = part["value"].astype(float)
    if values.isna().all():
        return part.assign(best=None)
    best = part.iloc[int((np.nanargmin if metric(spec.y).better == "lower" else np.nanargmax)(values))]
    told = part.assign(best=best["x"], seeds="")  # of a difference no seed has a part
    if best["published"]:
        return told.assign(value=values - float(best["value"]), low=None, high=None)
    theirs = _by_variant(best["run_ids"], runs, spec.y)
    for at in part.index[values.notna()]:
        found = _minus(_by_variant(told.loc[at, "run_ids"], runs, spec.y), theirs, fits)
        bounds = (None, None) if at == best.name else (found.low, found.high)
        told.loc[at, ["value", "low", "high"]] = [found.value, *bounds]
    return told


def _minus(ours: Mapping[int, list[float]], theirs: Mapping[int, list[float]], fits: Fits) -> Estimate:
    """The mean over all runs of one point minus that of another; each may pool variants."""
    sides = [(1, ours), (-1, theirs)]
    means = [
        (sign * len(own) / sum(map(len, side.values())), fit.weighted(key))
        for sign, side in sides
        for variant, own in side.items()
        for fit, key in [fits[variant]]
    ]
    return contrast(means)


def _by_variant(run_ids: Any, runs: Mapping[str, Row], name: str) -> dict[int, list[float]]:
    values: dict[int, list[float]] = {}
    for run in map(runs.__getitem__, str(run_ids).split()):
        values.setdefault(run.variant, []).append(run.number(name))
    return values
