"""How much each field of a search matters for each objective."""

from __future__ import annotations

from typing import ClassVar

from recstudy.lazy import go, pd, px
from recstudy.records.plans import short_names
from recstudy.records.study_schema import FEWEST_TRIALS, ImportanceRecord
from recstudy.report.look import metric_label, panels
from recstudy.report.names import plural
from recstudy.report.parts import PARTS, FigurePart
from recstudy.report.study_records import StudyRecords
from recstudy.report.trials import search_of

COLUMNS = ["objective", "method", "field", "importance", "low", "high"]
METHODS = (
    "PED-ANOVA: how far the best trials' settings stand out from all others. "
    "fANOVA: how much of the objective's variance a field explains on its own."
)


@PARTS.add("importance")
class Importance(FigurePart):
    """How much each field of a search matters for each objective, by PED-ANOVA and by fANOVA."""

    name: str = "importance"
    default_title: ClassVar[str] = "Importance of each field"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per objective, method and field: `importance` is a share of one, `trials` how many it rests on."""
        record = search_of(records, self.name).importance or ImportanceRecord(importance={})
        rows = [
            [objective, method, field, share, *record.intervals.get(objective, {}).get(method, {}).get(field, [None, None])]
            for objective, methods in record.importance.items()
            for method, shares in methods.items()
            for field, share in shares.items()
        ]
        data = pd.DataFrame(rows, columns=COLUMNS).astype({"low": float, "high": float}).assign(trials=record.trials)
        notes = [f"{method} is missing: {reason}" for method, reason in record.missing.items()]
        if record.trials < FEWEST_TRIALS:
            data, notes = data[:0], [f"too few trials: the importance of a field takes {FEWEST_TRIALS} finished ones"]
        elif rows and data["low"].isna().all():
            notes.append("no intervals: the search's command adds them, and trains nothing for it")
        trials = plural(record.trials, "finished trial")
        data.attrs = {"notes": notes, "caption": f"Rests on {trials}; whiskers: 95 % intervals over the trials. {METHODS}"}
        return data

    def finding(self, data: pd.DataFrame) -> str:
        """Name the field with the largest mean over the methods, unless the interval of another field reaches as high."""
        shares = data[data["objective"] == data["objective"].iloc[0]]
        means = shares.groupby("field", sort=False)["importance"].mean()
        first = str(means.idxmax())
        is_first = shares["field"] == first
        low = shares[is_first].set_index("method")["low"]
        if low.le(shares[~is_first].groupby("method")["high"].max()).any():
            return "no field stands out from all others"
        return f"{short_names(means.index)[first].replace('_', ' ')} first, {means.max():.0%}"

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw a panel for each objective, the most important field on top."""
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
