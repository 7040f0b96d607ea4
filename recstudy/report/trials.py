"""The trials of a search: their data frame, their ranking and Pareto front, and the table `best`.

Reports draw them. study/trials.py chooses by the ranking which trials run again with fresh seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pydantic import Field

from recstudy.base.errors import ConfigError
from recstudy.base.lazy import np, pd
from recstudy.base.values import mean_of_all
from recstudy.records.plans import FAMILY
from recstudy.records.study_schema import SearchRecord
from recstudy.report.caveats import text_notes
from recstudy.report.cells import cell_of
from recstudy.report.fits import spread_notes
from recstudy.report.names import find_metric, join_labels, metric, number, plural
from recstudy.report.parts import PARTS, TablePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.table import TableData, TableRow

TRIAL = ["trial", "label", "family", "state", "seed", "id", "synthetic", "variant"]
HIGHER_IS_BETTER = ("images_per_second",)  # the only cost of which more is better


def search_of(records: StudyRecords, part: str) -> SearchRecord:
    """Return the plan's search.

    `part` is the name of the report part, for the message.

    Raises:
        ConfigError: The study is no search.
    """
    if records.plan.search is None:
        raise ConfigError(
            f"{part!r} shows a search, but {records.plan.study} is a study of given variants. Remove it from"
            " `report`, or make the study a Search."
        )
    return records.plan.search


def trial_table(records: StudyRecords, search: SearchRecord) -> pd.DataFrame:
    """Return a row per trial: the columns `TRIAL`, the score `reached` at an early stop, and the objectives.

    Only a finished trial has values of the objectives. `family` is empty if there is only one.
    """
    rows = []
    for trial in search.trials:
        runs, _ = records.split_runs(trial.variant)
        run = next((run for run in runs if not run.done), runs[0])
        facts = [trial.number, run.label, trial.params.get(FAMILY, ""), run.status, run.seed, runs[0].id]
        reached = run.stopped.score if run.stopped else None
        columns = ([run.objective(name) for run in runs] for name in search.objectives)
        values = [mean_of_all(column) if run.done else None for column in columns]
        rows.append([*facts, trial.variant in records.synthetic, run.variant, reached, *values])
    table = pd.DataFrame(rows, columns=[*TRIAL, "reached", *search.objectives])
    return table.astype(dict.fromkeys(["reached", *search.objectives], float))


def ranked(table: pd.DataFrame, objectives: Mapping[str, str]) -> pd.DataFrame:
    """Return the finished trials by the first objective, the best first.

    If there are several objectives, the Pareto front comes first. Trials with equal settings are listed once.
    """
    names = list(objectives)
    finished = table.dropna(subset=names).drop_duplicates("id")
    finished = finished.sort_values(names[0], ascending=objectives[names[0]] == "min", kind="stable")
    if len(names) == 1:
        return finished
    is_behind = ~front(finished[names].to_numpy(), objectives.values())
    return finished.iloc[np.argsort(is_behind, kind="stable")]


def trial_words(name: str, trials: Iterable[Any], scores: Iterable[float]) -> str:
    """Return the trials whose score prints as the first one: `trial 4`, or `trials 1 and 2 tie`.

    Args:
        name: The metric or cost that is the score.
        trials: The number of each trial, the best first.
        scores: The score of each trial.
    """
    texts = [number(name, score) for score in scores]
    leaders = [*map(str, trials)][: texts.count(texts[0])]
    return f"trials {join_labels(leaders, ' and ')} tie" if len(leaders) > 1 else f"trial {leaders[0]}"


def front(points: np.ndarray, directions: Iterable[str]) -> np.ndarray:
    """Return which points (N, objectives) are on the Pareto front.

    No other point is at least as good in all objectives and better in one.
    """
    costs = points * [-1.0 if direction == "max" else 1.0 for direction in directions]
    is_beaten = [((costs <= point).all(axis=1) & (costs < point).any(axis=1)).any() for point in costs]
    return ~np.array(is_beaten, dtype=bool)


def direction_of(name: str, objectives: Mapping[str, str]) -> str:
    """Return `max` or `min`: as the search states it, else as its metric does. Other costs are minimized."""
    is_cost = find_metric(name) and name not in HIGHER_IS_BETTER
    better = metric(name).better or ("lower" if is_cost else "higher")
    return objectives.get(name) or ("max" if better == "higher" else "min")


LUCKY = (
    "Scores over fresh seeds exclude the seed of the search, because the best of many trials is also the"
    " luckiest (winner's curse). The best of several fresh means is again slightly lucky, so none is marked"
)
UNCONFIRMED = "No fresh seeds are planned, so every score is that of the selected seed and too optimistic"
PARETO = "Rows are ordered by the first objective, with the Pareto front first"


@PARTS.add("best")
class Best(TablePart):
    """The best trials of a search, with each metric over fresh seeds that the search has not seen.

    Trials are ordered by the first objective. If there are several objectives, the Pareto front comes first.
    `score` is the metric by which families are compared.
    """

    name: str = "best"
    most: int = Field(default=10, ge=1)  # trials
    metrics: tuple[str, ...] = ("score", "params", "gflops")
    metrics_in = ("metrics",)
    default_title = "The best trials, confirmed with fresh seeds"

    def scored_by(self, score: str) -> Best:
        return replace(self, metrics=tuple(score if name == "score" else name for name in self.metrics))

    def cells(self, records: StudyRecords) -> TableData:
        """Return a row per trial, the best first, with its objectives and its metrics over fresh seeds.

        Raises:
            ConfigError: The study is no search.
        """
        search = search_of(records, self.name)
        trials = ranked(trial_table(records, search), search.objectives).head(self.most)
        variants = trials["variant"].tolist()
        objectives = [
            name for name in search.objectives if not (name in self.metrics and metric(name).computed)
        ]
        rows = []
        for trial, index in zip(trials["trial"], variants, strict=True):
            own, fresh = records.split_runs(index)
            missing_seeds = max(0, len(search.confirm.seeds) - len(fresh)) * (index in search.confirmed)
            cells = []
            for name in objectives:
                scored = [replace(run, added={name: run.objective(name)}) for run in own]
                cells.append(cell_of(records, [index], name, scored))
            for name in self.metrics:
                # A computed count, such as parameters, needs no fresh seed.
                runs, seeds_left = ([*own, *fresh], 0) if metric(name).computed else (fresh, missing_seeds)
                cells.append(replace(cell_of(records, [index], name, runs), more_planned=seeds_left))
            rows.append(TableRow(f"{trial}: {records.variants[index].label}", cells))
        heads = [f"{metric(name).heading}, in the search" for name in objectives]
        heads += [
            metric(name).heading + ("" if metric(name).computed else ", fresh seeds") for name in self.metrics
        ]
        seeds = ", ".join(map(str, search.confirm.seeds))
        luck = UNCONFIRMED
        if seeds:
            luck = f"{LUCKY}. Seeds of the best {plural(search.confirm.best, 'trial')}: {seeds}"
        notes = [*text_notes(records, variants, self.metrics), *spread_notes(records, variants, self.metrics)]
        notes += [*[PARETO] * (len(search.objectives) > 1), luck]
        return TableData(
            self.name,
            self.heading,
            heads,
            rows,
            corner="trial",
            warnings=() if rows else ("no trial has finished yet",),
            notes=notes,
        )
