"""The best trials of a search, as the search scored them and over fresh seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from recstudy.report.caveats import text_notes
from recstudy.report.cells import TableData, TableRow, cell_of
from recstudy.report.fits import spread_notes
from recstudy.report.names import metric
from recstudy.report.parts import PARTS, TablePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.trials import ranked, search_of, trial_table

LUCKY = (
    "Scores of fresh seeds leave out the seed that the search used: the best of many trials is also the luckiest of them "
    "(winner's curse). Of several fresh means the best is again a little lucky, so none is marked"
)
PARETO = "Rows are ordered by the first objective, those on the Pareto front before all others"


@PARTS.add("best")
class Best(TablePart):
    """The best trials of a search, each metric over fresh seeds, which the search did not choose by.

    Trials are ordered by the first objective; if there are several, the Pareto front comes first. `score` is the families' own.
    """

    name: str = "best"
    most: int = Field(default=10, ge=1)  # trials
    metrics: tuple[str, ...] = ("score", "params", "gflops")
    metrics_in: ClassVar[tuple[str, ...]] = ("metrics",)
    default_title: ClassVar[str] = "The best trials, confirmed with fresh seeds"

    def scored_by(self, score: str) -> Best:
        return replace(self, metrics=tuple(score if name == "score" else name for name in self.metrics))

    def cells(self, records: StudyRecords) -> TableData:
        """Return a row per trial, the best first: each objective as the search saw it, then the metrics over the fresh seeds.

        Raises:
            ConfigError: The study is no search.
        """
        search = search_of(records, self.name)
        trials = ranked(trial_table(records, search), search.objectives).head(self.most)
        variants = trials["variant"].tolist()
        objectives = [name for name in search.objectives if name not in self.metrics]
        rows = []
        for trial, index in zip(trials["trial"], variants, strict=True):
            run, *fresh = records.by_variant[index]
            more = len(search.confirm.seeds) - len(fresh) if index in search.confirmed else 0
            cells = [cell_of(records, [index], name, [replace(run, added={name: run.objective(name)})]) for name in objectives]
            for name in self.metrics:  # a count follows from the settings, without a fresh seed
                number = cell_of(records, [index], name, [run, *fresh] if metric(name).computed else fresh)
                cells.append(number if metric(name).computed else replace(number, more_planned=max(0, more)))
            rows.append(TableRow(f"{trial}: {records.variants[index].label}", tuple(cells)))
        heads = [f"{metric(name).heading}, in the search" for name in objectives]
        heads += [metric(name).heading + ("" if metric(name).computed else ", fresh seeds") for name in self.metrics]
        seeds = ", ".join(map(str, search.confirm.seeds))
        luck = f"{LUCKY}. The best {search.confirm.best} are run again with {'seeds' if ',' in seeds else 'seed'} {seeds}"
        notes = [*text_notes(records, variants, self.metrics), *spread_notes(records, variants, self.metrics)]
        notes += [PARETO] if len(search.objectives) > 1 else []
        notes += [luck if seeds else "No fresh seeds are planned, so no score here is free of luck"]
        warnings = () if rows else ("no trial has finished yet",)
        return TableData(
            self.name, self.heading, tuple(heads), tuple(rows), corner="trial", warnings=warnings, notes=tuple(notes)
        )
