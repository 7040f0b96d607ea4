"""The objectives of a search, trial by trial."""

from __future__ import annotations

from typing import ClassVar

from recstudy.lazy import go, pd, px
from recstudy.report.look import metric_label, panels
from recstudy.report.names import quantity
from recstudy.report.parts import PARTS, FigurePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.trials import search_of, trial_table

COLUMNS = ["trial", "label", "state", "objective", "value", "best", "reached", "seed", "id", "synthetic"]
STATES = {"done": "finished", "diverged": "diverged", "best": "best so far", "failed": "failed", "stopped": "stopped early"}
CAPTION = (
    "Line: the best of the finished trials so far. A trial that was stopped early stands at the score that it had reached, "
    "which does not count. A trial without a value stands at the bottom."
)


@PARTS.add("history")
class History(FigurePart):
    """Each objective of a search, trial by trial, and the best value so far as a step line."""

    name: str = "history"
    default_title: ClassVar[str] = "The search, trial by trial"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per objective and trial.

        `value` is that of a finished trial, `best` the best so far, and `reached` the first objective at an early stop.
        """
        search = search_of(records, self.name)
        trials = trial_table(records, search)
        objectives = [
            trials.assign(objective=name, value=trials[name], best=trials[name].agg(f"cum{direction}").ffill())
            for name, direction in search.objectives.items()
        ]
        data = pd.concat(objectives, ignore_index=True)[COLUMNS]
        data.loc[len(trials) :, "reached"] = None
        data.attrs["caption"] = CAPTION
        return data

    def finding(self, data: pd.DataFrame) -> str:
        leaders = data[data["objective"] == data["objective"].iloc[0]].dropna(subset="best").drop_duplicates("best")
        best = leaders.tail(1).to_dict("records")
        return "".join(f"best {quantity(trial['objective'], trial['best'])}, by trial {trial['trial']}" for trial in best)

    def draw(self, data: pd.DataFrame) -> go.Figure:
        score = data["value"].fillna(data["reached"])
        bottom = score.groupby(data["objective"]).transform("min")
        points = pd.concat([data.assign(score=score.fillna(bottom)), data.assign(score=data["best"], state="best")])
        points["objective"] = points["objective"].map(metric_label)
        points["state"] = points["state"].map(STATES)
        figure = panels(
            px.scatter,
            points.dropna(subset="state"),
            "objective",
            x="trial",
            y="score",
            color="state",
            symbol="state",
            category_orders={"state": list(STATES.values())},
            labels={"score": ""},
            hover_name="label",
            hover_data=["value", "reached"],
        )
        figure.update_traces(mode="lines", line_shape="hv", hoverinfo="skip", selector={"name": STATES["best"]})
        return figure.update_yaxes(matches=None)
