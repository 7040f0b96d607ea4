"""How much a line loses away from its best point: what robustness to a batch size means in numbers."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.rows import Row
from recstudy.analysis.stats import differences, mean_interval
from recstudy.report import Curve
from recstudy.report.names import metric

HOW = (
    "Each point minus the best one of its line, on the seeds that both have; of published points, of two numbers. The best is "
    "chosen from the same runs, so drops are a little too large"
)


def from_best(records: StudyRecords, data: pd.DataFrame, spec: Curve) -> pd.DataFrame:
    """A curve's rows with differences to the best point of the line, ours and the published ones apart.

    `best` is where that point stands. `n` counts the pairs; the best itself has a difference of 0 and no interval.
    """
    runs = {row.id: row for row in records.rows}
    parts = [_line(part, runs, spec) for _, part in data.groupby(["line", "published"], sort=False)]
    return pd.concat(parts).sort_index() if parts else data.assign(best=None)


def _line(part: pd.DataFrame, runs: Mapping[str, Row], spec: Curve) -> pd.DataFrame:
    values = part["value"].astype(float)
    if values.isna().all():
        return part.assign(best=None)
    best = part.iloc[int((np.nanargmin if metric(spec.y).better == "lower" else np.nanargmax)(values))]
    told = part.assign(best=best["x"])
    if best["published"]:
        return told.assign(value=values - float(best["value"]))
    theirs = _by_seed(best["run_ids"], runs, spec.y)
    for at in part.index[values.notna()]:
        ours = _by_seed(told.loc[at, "run_ids"], runs, spec.y)
        seeds = sorted(set(ours) & set(theirs))
        found = mean_interval(differences([ours[seed] for seed in seeds], [theirs[seed] for seed in seeds]))
        bounds = (None, None) if at == best.name else (found.low, found.high)
        told.loc[at, ["value", "low", "high", "n"]] = [found.mean, *bounds, found.n]
    return told


def _by_seed(run_ids: Any, runs: Mapping[str, Row], name: str) -> dict[int, float]:
    """Seed -> mean over the runs of a point, which are several where it pools variants."""
    values: dict[int, list[float]] = {}
    for run in map(runs.__getitem__, str(run_ids).split()):
        values.setdefault(run.seed, []).append(run.number(name))
    return {seed: sum(own) / len(own) for seed, own in values.items()}
