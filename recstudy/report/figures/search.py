"""The report parts of a search: its history, the importance of fields, and all settings.

All of them read the trials with `recstudy.report.trials`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from recstudy.base.lazy import go, np, pd, px
from recstudy.records.plans import ranges_of, short_names
from recstudy.records.study_schema import FEWEST_TRIALS, ImportanceRecord, RangeRecord
from recstudy.report.look import (
    SCREEN,
    SPECTRUM,
    clipped,
    escape,
    folded,
    integer_ticks,
    metric_label,
    panels,
)
from recstudy.report.names import metric, plural, quantity, value_text
from recstudy.report.parts import PARTS, FigurePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.trials import TRIAL, ranked, search_of, trial_table, trial_words

TRIAL_COLUMNS = [
    "trial",
    "label",
    "state",
    "objective",
    "value",
    "best",
    "reached",
    "seed",
    "id",
    "synthetic",
]
STATES = {
    "done": "finished",
    "diverged": "diverged",
    "best": "best so far",
    "failed": "failed",
    "stopped": "stopped early",
}
BEST_SO_FAR = (
    "Line: best finished trial so far. A trial that stopped early is drawn at its last score, which does not"
    " count. A trial without a score is drawn at the bottom."
)


@PARTS.add("history")
class History(FigurePart):
    """The objectives of a search by trial, with the best value so far as a step line."""

    name: str = "history"
    default_title = "Search history"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per objective and trial.

        `value` is the score of a finished trial, `best` the best value so far, and `reached` the first
        objective when a trial stopped early.
        """
        search = search_of(records, self.name)
        trials = trial_table(records, search)
        objectives = [
            trials.assign(
                objective=name, value=trials[name], best=trials[name].agg(f"cum{direction}").ffill()
            )
            for name, direction in search.objectives.items()
        ]
        data = pd.concat(objectives, ignore_index=True)[TRIAL_COLUMNS]
        # an early stop looks at the first objective only
        data.loc[len(trials) :, "reached"] = None
        data.attrs = {"caption": BEST_SO_FAR, "objectives": search.objectives}
        return data

    def finding(self, data: pd.DataFrame) -> str:
        name, direction = next(iter(data.attrs["objectives"].items()))
        trials = ranked(data[data["objective"] == name], {"value": direction})
        if trials.empty:
            return ""
        words = trial_words(name, trials["trial"], trials["value"])
        return f"best {quantity(name, trials['value'].iloc[0])}: {words}"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        score = data["value"].fillna(data["reached"])
        # a failed trial has no score and is drawn at the lowest one, so that it can be seen
        bottom = score.groupby(data["objective"]).transform("min")
        points = pd.concat(
            [data.assign(score=score.fillna(bottom)), data.assign(score=data["best"], state="best")]
        )
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
        figure.update_traces(
            mode="lines", line_shape="hv", hoverinfo="skip", selector={"name": STATES["best"]}
        )
        # the name of an objective is beside its axis; both lists begin with the lowest panel
        titles = sorted(figure.layout.annotations, key=lambda title: title.y)
        for axis, title in zip(figure.select_yaxes(), titles, strict=True):
            axis.title.text = title.text
        figure.layout.annotations = ()
        return figure.update_yaxes(matches=None).update_xaxes(integer_ticks(data["trial"]))


SHARE_COLUMNS = ["objective", "method", "field", "importance", "low", "high"]
METHODS = (
    "PED-ANOVA measures how much the settings of the best trials differ from all others. "
    "fANOVA measures how much of the objective's variance a field explains on its own."
)


@PARTS.add("importance")
class Importance(FigurePart):
    """The importance of each field of a search for each objective, by PED-ANOVA and by fANOVA."""

    name: str = "importance"
    default_title = "Importance of each field"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per objective, method and field.

        `importance` is a share of 1, and `trials` the number of finished trials that it is computed from.
        """
        record = search_of(records, self.name).importance or ImportanceRecord(importance={})
        rows = []
        for objective, methods in record.importance.items():
            for method, shares in methods.items():
                intervals = record.intervals.get(objective, {}).get(method, {})
                for field, share in shares.items():
                    rows.append([objective, method, field, share, *intervals.get(field, [None, None])])
        data = pd.DataFrame(rows, columns=SHARE_COLUMNS).astype({"low": float, "high": float})
        data = data.assign(trials=record.trials)
        notes = [f"{method} is missing: {reason}" for method, reason in record.missing.items()]
        if record.trials < FEWEST_TRIALS:
            data = data[:0]
            notes = [f"too few trials: the importance of fields needs {FEWEST_TRIALS} finished trials"]
        elif rows and data["low"].isna().all():
            notes.append("no intervals: the search's command adds them without further training")
        trials = plural(record.trials, "finished trial")
        data.attrs = {
            "notes": notes,
            "caption": f"Computed from {trials}. Whiskers: 95 % intervals over the trials. {METHODS}",
        }
        return data

    def finding(self, data: pd.DataFrame) -> str:
        """Return the field with the largest mean importance over the methods.

        The finding says that no field matters more if the interval of another field reaches as high.
        """
        shares = data[data["objective"] == data["objective"].iloc[0]]
        means = shares.groupby("field", sort=False)["importance"].mean()
        first = str(means.idxmax())
        is_first = shares["field"] == first
        low = shares[is_first].set_index("method")["low"]
        if low.le(shares[~is_first].groupby("method")["high"].max()).any():
            return "no field matters more than the others"
        return f"{short_names(means.index)[first].replace('_', ' ')} matters most, {means.max():.0%}"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw a panel for each objective, with the most important field on top."""
        names, shares = short_names(data["field"].unique()), data["importance"]
        bars = data.assign(
            objective=data["objective"].map(metric_label),
            field=data["field"].map(names).str.replace("_", " "),
            above=data["high"] - shares,
            below=shares - data["low"],
        )
        figure = panels(
            px.bar,
            bars,
            "objective",
            x="importance",
            y="field",
            error_x="above",
            error_x_minus="below",
            color="method",
            barmode="group",
            labels={"importance": "share of the importance", "field": ""},
            hover_data=["low", "high"],
        )
        figure.update_yaxes(matches=None, categoryorder="total ascending")
        return figure.update_xaxes(rangemode="tozero", tickformat=".0%")


LETTERS = 14  # characters in a line of an axis title, and in a choice


@PARTS.add("parallel_coordinates")
class ParallelCoordinates(FigurePart):
    """Parallel coordinates: a line per finished trial through its settings to the first objective.

    The lines are those of a line plot. Plotly's own parallel coordinates have no hover text, and the second
    of two in one figure stays empty.
    """

    name: str = "parallel_coordinates"
    default_title = "Settings of every trial"
    reading: ClassVar[str] = (
        "Each finished trial is a line through its settings to its score; orange is better."
    )

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per finished trial: a column for each field, then the first objective.

        A field is empty in a trial whose family lacks it. `attrs` has the `ranges` of the fields, and the
        `objective` with its direction.
        """
        search = search_of(records, self.name)
        score, direction = next(iter(search.objectives.items()))
        trials = trial_table(records, search).dropna(subset=score)
        fields = dict.fromkeys(path for ranges in search.space.values() for path in ranges)
        params = pd.DataFrame([trial.params for trial in search.trials], columns=list(fields), dtype=object)
        data = trials[TRIAL].join(params).join(trials[score])
        reading = self.reading.format(metric(score).heading)
        data.attrs = {
            "ranges": ranges_of(search.space),
            "objective": {score: direction},
            "caption": f"{reading} {len(data)} of {len(params)} trials have finished.",
        }
        return data

    def finding(self, data: pd.DataFrame) -> str:
        *fields, score = data.columns[len(TRIAL) :]
        trials, names = ranked(data, data.attrs["objective"]), short_names(fields)
        best = trials.iloc[0]
        settings = [
            f"{names[field].replace('_', ' ')} {value_text(best[field])}"
            for field in fields
            if pd.notna(best[field])
        ]
        words = trial_words(score, trials["trial"], trials[score])
        where = f": {words}" if words.endswith("tie") else f" at {', '.join(settings)}"
        return f"best {quantity(score, best[score])}{where}"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw better lines in orange above the others. A line skips a field that its family lacks."""
        from plotly.colors import sample_colorscale

        ((score, direction),) = data.attrs["objective"].items()
        ranges = data.attrs["ranges"]
        # Plotly draws later traces above earlier ones, so the best trial comes last
        data = data.sort_values(score, ascending=direction == "max", kind="stable")
        places, ticks = {}, {}
        for path, title in {**short_names(ranges), score: metric(score).heading}.items():
            axis = folded(escape(title.replace("_", " ")), LETTERS)
            places[axis], ticks[axis] = _positions(
                data[path], ranges.get(path) or [RangeRecord(low=data[score].min(), high=data[score].max())]
            )
        # the last axis is the score, whose position colours the line
        shares = places[axis] if direction == "max" else 1 - places[axis]
        lines = (
            data[["trial", "label"]]
            .assign(**places)
            .melt(["trial", "label"], var_name="axis", value_name="position")
        )
        figure = px.line(
            lines.dropna(subset="position"),
            x="axis",
            y="position",
            color="trial",
            category_orders={"axis": list(places), "trial": list(data["trial"])},
            color_discrete_sequence=sample_colorscale(list(SPECTRUM), shares),
            hover_name="label",
            hover_data={"axis": False, "position": False},
            markers=True,
            render_mode="svg",
            template=SCREEN,
        )
        for axis, labels in ticks.items():
            for label, position in labels.items():
                figure.add_annotation(
                    x=axis,
                    y=position,
                    text=clipped(label, LETTERS),
                    xanchor="right",
                    xshift=-6,
                    showarrow=False,
                )
        figure.update_xaxes(side="top", title=None).update_yaxes(visible=False)
        # the buttons are above the titles
        return figure.update_layout(margin_t=80, showlegend=False, meta={"min_width": 50 + 100 * len(places)})


@PARTS.add("slices")
class Slices(ParallelCoordinates):
    """The first objective of a search against each field, in a panel per field, coloured by trial number."""

    name: str = "slices"
    default_title = "Score by field"
    reading = "y-axis: {}. Each point is a finished trial: early trials are blue, late ones orange."

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw a panel per field. The colour of a point shows how the sampler moved over time."""
        ranges, score = data.attrs["ranges"], data.columns[-1]
        names = short_names(ranges)
        points = data.melt(["trial", "label", score], list(ranges), "field", "level").dropna(subset="level")
        figure = panels(
            px.scatter,
            points.assign(field=points["field"].map(names).map(escape).str.replace("_", " ")),
            "field",
            columns=2,
            x="level",
            y=score,
            color="trial",
            color_continuous_scale=SPECTRUM,
            labels={"level": "", score: metric_label(score)},
            hover_name="label",
        )
        for trace, path in zip(figure.data, points["field"].unique(), strict=True):
            axis, setting_range = figure.layout[trace.xaxis.replace("x", "xaxis")], ranges[path][0]
            if setting_range.choices:
                axis.update(type="category", categoryorder="category ascending")
            elif setting_range.log:
                axis.type = "log"
        return figure.update_xaxes(matches=None).update_layout(coloraxis_showscale=False)


def _positions(levels: pd.Series, ranges: Sequence[RangeRecord]) -> tuple[Any, dict[str, float]]:
    """Return the position of each level on its axis, and the labels of the axis with their positions.

    Positions are between 0 and 1. Families may have different ranges of a field: the axis covers them all.
    """
    choices = [escape(value_text(choice)) for setting_range in ranges for choice in setting_range.choices]
    if choices:
        names = list(dict.fromkeys([*choices, *levels.dropna().map(value_text)]))
        labels = dict(zip(names, np.linspace(0, 1, len(names)), strict=True))
        return levels.map(value_text).map(labels), labels
    limits = min(limit.low for limit in ranges), max(limit.high for limit in ranges)
    scale = np.log10 if all(setting_range.log for setting_range in ranges) else np.asarray
    positions = np.interp(scale(levels.astype(float)), scale(limits), [0, 1])
    return positions, dict(zip(map("{:g}".format, limits), [0, 1], strict=True))
