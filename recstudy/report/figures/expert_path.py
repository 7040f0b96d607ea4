"""The experts that each token of a generated caption goes to (003, Figure 8)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from recstudy.lazy import go, np, pd
from recstudy.report.look import clipped, share_map
from recstudy.report.parts import PARTS, FigurePart, OfVariants
from recstudy.report.study_records import StudyRecords
from recstudy.report.traces import first_trace

COLUMNS = ["variant", "label", "seed", "data", "row", "place", "token", "layer", "expert", "probability", "choice", "synthetic"]
LETTERS, TOKEN, COLUMN, LABELS = 14, 18, 16, 170  # letters of a token; pixels of its row, of an expert, and beside them


@PARTS.add("expert_path")
class ExpertPath(FigurePart, OfVariants):
    """The experts that each token of one generated caption goes to, by layer: of the first variant that has experts."""

    name: str = "experts"
    example: int = Field(default=0, ge=0, le=5)  # which of the first test images; a run keeps 6
    default_title: ClassVar[str] = "Experts of each token along a generated caption"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        """Return a row per token, layer and expert: its `probability`, and as which `choice` the token went there, if it did.

        Places, layers, experts and choices count from 1.
        """
        trace, notes = first_trace(records, self.where, self.example, "router")
        data = pd.DataFrame(columns=COLUMNS)
        if trace is not None and trace.router is not None and trace.chosen is not None:
            layer, place, expert = 1 + np.indices(trace.router.shape).reshape(3, -1)
            choice = np.zeros(trace.router.shape, int)
            np.put_along_axis(choice, trace.chosen, 1 + np.arange(trace.chosen.shape[-1]), -1)
            route = {"place": place, "token": np.array(trace.words)[place - 1], "layer": layer, "expert": expert}
            route |= {"probability": trace.router.ravel(), "choice": choice.ravel()}
            data = pd.DataFrame(route).astype({"choice": "Int64"}).assign(**trace.columns)[COLUMNS]
            data["_trace"] = pd.Series([trace] * len(data), dtype=object)
            data["choice"] = data["choice"].where(data["choice"] > 0)
            data.attrs["words"] = " ".join(trace.words)
        data.attrs["notes"] = notes
        return data

    def caption(self, data: pd.DataFrame) -> str:
        count = data["choice"].max()
        numbers = f"1 {'and' if count == 2 else 'to'} {count}"
        marks = "1 marks the expert that ran on it" if count == 1 else f"{numbers} mark the experts that ran on it, by preference"
        return f"{data['_trace'].iloc[0].title}. A row is a token that the model reads of its own caption; {marks}."

    def draw(self, data: pd.DataFrame) -> go.Figure:
        """Draw a row per token, a column per layer and expert."""
        tokens = data["place"].astype(str) + " " + data["token"].map(lambda token: clipped(token, LETTERS))
        experts = ["layer " + data["layer"].astype(str), data["expert"]]
        figure = share_map(experts, tokens, 100 * data["probability"], "probability, %")
        figure.update_traces(text=data["choice"].astype(object).fillna(""), texttemplate="%{text}")
        min_width = LABELS + COLUMN * len(data.drop_duplicates(["layer", "expert"]))  # pixels: a phone scrolls to the rest
        return figure.update_layout(height=140 + TOKEN * int(data["place"].max()), meta={"rows": True, "min_width": min_width})
