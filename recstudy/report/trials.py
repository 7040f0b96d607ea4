"""What a search found: its trials, which of them are best, and the table of these by fresh seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from recstudy.errors import ConfigError
from recstudy.records.plans import FAMILY
from recstudy.records.study_schema import SearchRecord
from recstudy.report.caveats import caption, is_synthetic, text_notes, warnings
from recstudy.report.cells import TableData, TableRow, cell_of
from recstudy.report.fits import spread_notes
from recstudy.report.names import metric, number, registered
from recstudy.report.study_records import StudyRecords
from recstudy.report.table_fields import Best

TRIAL = ["trial", "label", "family", "state", "seed", "id", "synthetic", "variant"]
MORE_IS_BETTER = ("images_per_second",)  # among the costs, which have no better direction as a measure of quality
LUCKY = (
    "Scores of fresh seeds leave out the seed that the search used: the best of many trials is also the luckiest of them "
    "(winner's curse). Of several fresh means the best is again a little lucky, so none is marked"
)
PARETO = "Rows are ordered by the first objective, those on the Pareto front before all others"


def search_of(records: StudyRecords, part: str) -> SearchRecord:
    """Return the plan's search, for the part of a report of this name.

    Raises:
        ConfigError: the study is none.
    """
    if records.plan.search is None:
        raise ConfigError(
            f"{part!r} shows a search, but {records.plan.study} is a study of given variants. Take it out of `report`, "
            "or make the study a Search."
        )
    return records.plan.search


def trial_table(records: StudyRecords, search: SearchRecord) -> pd.DataFrame:
    """Return one row a trial, by number: what `TRIAL` names, and each objective; `family` is empty where there is only one.

    An objective has a value only of a finished trial: a score at an early stop cannot be compared with those.
    """
    rows = []
    for trial in sorted(search.trials, key=lambda trial: trial.number):
        row = records.by_variant[trial.variant][0]  # the search's own run; fresh seeds come after it
        known = {"trial": trial.number, "family": trial.params.get(FAMILY, ""), "state": row.status}
        known |= {"label": row.label, "seed": row.seed, "id": row.id, "variant": row.variant}
        values = {name: row.objective(name) if row.done else None for name in search.objectives}
        rows.append(known | {"synthetic": is_synthetic(records, [trial.variant])} | values)
    table = pd.DataFrame(rows, columns=[*TRIAL, *search.objectives])
    return table.astype(dict.fromkeys(search.objectives, float))


def ranked(table: pd.DataFrame, objectives: Mapping[str, str]) -> pd.DataFrame:
    """Sort the finished trials, the best by the first objective first; of several objectives the Pareto front before the others.

    Of trials with the same settings only the first stands here.
    """
    names = list(objectives)
    finished = table.dropna(subset=names).drop_duplicates("id")
    behind = ~front(finished[names].to_numpy(), [objectives[name] for name in names]) if len(names) > 1 else False
    signed = finished[names[0]] * (-1.0 if objectives[names[0]] == "max" else 1.0)
    order = pd.DataFrame({"behind": behind, "score": signed}, index=finished.index)
    return finished.loc[order.sort_values(["behind", "score"], kind="stable").index]


def front(points: npt.NDArray[np.float64], directions: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Tell which points (N, objectives) no other is at least as good as in every objective, and better than in one."""
    costs = points * np.array([-1.0 if direction == "max" else 1.0 for direction in directions])
    worse = [bool(((costs <= point).all(axis=1) & (costs < point).any(axis=1)).any()) for point in costs]
    return ~np.array(worse, dtype=bool)


def direction_of(name: str, objectives: Mapping[str, str]) -> str:
    """Return `max` or `min`: as the search states it, else as tables mark the best; of a cost, less is better."""
    better = metric(name).better
    if name in objectives or better:
        return objectives.get(name) or ("max" if better == "higher" else "min")
    return "min" if registered(name) and name not in MORE_IS_BETTER else "max"


def score_text(name: str, value: float) -> str:
    """Return a value with its unit: `94.1 %`, `0.35 GFLOP/image`."""
    return f"{number(name, value)} {metric(name).unit}".strip()


def best_data(records: StudyRecords, spec: Best) -> TableData:
    """Return one row a trial, the best first: each objective as the search saw it, then the metrics over the fresh seeds.

    Raises:
        ConfigError: the study is no search.
    """
    search = search_of(records, spec.name)
    order = ranked(trial_table(records, search), search.objectives).head(spec.most)
    seen = [name for name in search.objectives if name not in spec.metrics]
    variants = [int(index) for index in order["variant"]]
    rows = []
    for trial, index in zip(order["trial"], variants, strict=True):
        own = records.by_variant[index][0]
        cells = []
        for name in seen:
            value = own.objective(name)
            cells.append(cell_of(records, [index], name, [own if value is None else replace(own, added={name: value})]))
        fresh = records.by_variant[index][1:]
        planned = len(search.confirm.seeds) if index in search.confirmed else 0
        for name in spec.metrics:  # over the fresh seeds; what follows from the config alone is known without them
            one = cell_of(records, [index], name, [own, *fresh] if metric(name).computed else fresh)
            cells.append(one if metric(name).computed else replace(one, expected=max(planned, len(fresh))))
        rows.append(TableRow(f"{trial}: {records.variants[index].label}", tuple(cells)))
    heads = [f"{metric(name).heading}, in the search" for name in seen]
    heads += [metric(name).heading + ("" if metric(name).computed else ", fresh seeds") for name in spec.metrics]
    plan = search.confirm
    seeds = f"{'seeds' if plan.seeds[1:] else 'seed'} {', '.join(map(str, plan.seeds))}"
    luck = f"{LUCKY}. The best {plan.best} are run again with {seeds}"
    return TableData(
        name=spec.name,
        title=spec.heading,
        corner="trial",
        columns=tuple(heads),
        rows=tuple(rows),
        caption=caption(records, range(len(records.variants))),
        warnings=(*warnings(records), *([] if rows else ["no trial has finished yet"])),
        notes=(
            *text_notes(records, variants, spec.metrics),
            *spread_notes(records, variants, spec.metrics),
            *([PARETO] if len(search.objectives) > 1 else []),
            luck if plan.seeds else "No fresh seeds are planned, so no score here is free of luck",
        ),
    )
