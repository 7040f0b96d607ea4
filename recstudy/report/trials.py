"""The trials of a search as a table, the best of them, and their Pareto front."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from recstudy.errors import ConfigError
from recstudy.lazy import np, pd
from recstudy.records.plans import FAMILY
from recstudy.records.study_schema import SearchRecord
from recstudy.report.caveats import is_synthetic
from recstudy.report.names import metric, registered
from recstudy.report.study_records import StudyRecords

TRIAL = ["trial", "label", "family", "state", "seed", "id", "synthetic", "variant"]
HIGHER_IS_BETTER = ("images_per_second",)  # the only cost of which more is better


def search_of(records: StudyRecords, part: str) -> SearchRecord:
    """Return the plan's search, for the part of a report of this name.

    Raises:
        ConfigError: The study is no search.
    """
    if records.plan.search is None:
        raise ConfigError(
            f"{part!r} shows a search, but {records.plan.study} is a study of given variants. Take it out of `report`, "
            "or make the study a Search."
        )
    return records.plan.search


def trial_table(records: StudyRecords, search: SearchRecord) -> pd.DataFrame:
    """Return a row per trial: the columns `TRIAL`, the score `reached` at an early stop, and the objectives.

    Only a finished trial has values of the objectives. `family` is empty if there is only one.
    """
    rows = []
    for trial in search.trials:
        run = records.by_variant[trial.variant][0]  # the search's own run; runs with fresh seeds come after it
        facts = [trial.number, run.label, trial.params.get(FAMILY, ""), run.status, run.seed, run.id]
        reached = run.stopped.score if run.stopped else None
        values = [run.objective(name) if run.done else None for name in search.objectives]
        rows.append([*facts, is_synthetic(records, [trial.variant]), run.variant, reached, *values])
    table = pd.DataFrame(rows, columns=[*TRIAL, "reached", *search.objectives])
    return table.astype(dict.fromkeys(["reached", *search.objectives], float))


def ranked(table: pd.DataFrame, objectives: Mapping[str, str]) -> pd.DataFrame:
    """Sort the finished trials by the first objective, the best first; if there are several, the Pareto front comes first.

    Of trials with the same settings only the first is kept.
    """
    names = list(objectives)
    finished = table.dropna(subset=names).drop_duplicates("id")
    finished = finished.sort_values(names[0], ascending=objectives[names[0]] == "min", kind="stable")
    if len(names) == 1:
        return finished
    is_behind = ~front(finished[names].to_numpy(), objectives.values())
    return finished.iloc[np.argsort(is_behind, kind="stable")]


def front(points: np.ndarray, directions: Iterable[str]) -> np.ndarray:
    """Return which points (N, objectives) are on the Pareto front.

    These are the points that no other point equals or beats in every objective and beats in one.
    """
    costs = points * [-1.0 if direction == "max" else 1.0 for direction in directions]
    is_beaten = [((costs <= point).all(axis=1) & (costs < point).any(axis=1)).any() for point in costs]
    return ~np.array(is_beaten, dtype=bool)


def direction_of(name: str, objectives: Mapping[str, str]) -> str:
    """Return `max` or `min`: as the search states it, else as the metric does. Costs are minimized."""
    is_cost = registered(name) and name not in HIGHER_IS_BETTER
    better = metric(name).better or ("lower" if is_cost else "higher")
    return objectives.get(name) or ("max" if better == "higher" else "min")
