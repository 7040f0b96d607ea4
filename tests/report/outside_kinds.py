"""A stranger's kinds of parts, as a study's file would define them: nothing in recstudy names them."""

import pandas as pd
import plotly.express as px
import plotly.graph_objects as go

from recstudy.recursive import answers_of
from recstudy.report import (
    PARTS,
    FigurePart,
    OfVariants,
    StudyRecords,
    TableData,
    TablePart,
    TableRow,
    cell_of_values,
)


@PARTS.add("reliability_diagram")
class ReliabilityDiagram(FigurePart, OfVariants):
    """How often the answers of a run are right, against how sure it is."""

    name: str = "reliability"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        rows = [row for variant in records.chosen(self.where) for row in records.by_variant[variant]]
        run_answers = [answers for row in rows if (answers := answers_of(records, row)[0])]
        points = [
            (answers.probabilities.max(1).mean(), (answers.predicted == answers.labels).mean())
            for answers in run_answers
        ]
        return pd.DataFrame(points, columns=["confidence", "right"])

    def draw(self, data: pd.DataFrame) -> go.Figure:
        return px.line(data, x="confidence", y="right")


@PARTS.add("confidence")
class Confidence(TablePart, OfVariants):
    """How sure each variant is of its answers."""

    name: str = "confidence"
    default_title = "How sure the models are"

    def cells(self, records: StudyRecords) -> TableData:
        rows = []
        for variant in records.chosen(self.where):
            answers_by_run = {row.id: answers_of(records, row)[0] for row in records.by_variant[variant]}
            values = {
                run: 100 * float(answers.probabilities.max(1).mean())
                for run, answers in answers_by_run.items()
                if answers
            }
            rows.append(
                TableRow(
                    records.variants[variant].label,
                    (cell_of_values(records, [variant], "confidence", values),),
                )
            )
        return TableData(self.name, self.heading, ("Confidence (%)",), tuple(rows))


@PARTS.add("lopsided")
class Lopsided(TablePart):
    """Has a row that is too short."""

    name: str = "lopsided"

    def cells(self, records: StudyRecords) -> TableData:
        return TableData(self.name, self.heading, ("a", "b"), (TableRow("short", ("1",)),))


@PARTS.add("faulty")
class Faulty(FigurePart):
    """Fails where it is told to."""

    name: str = "faulty"
    failing_step: str = "data"

    @property
    def heading(self) -> str:
        return str(1 / 0) if self.failing_step == "heading" else "A fault"

    def data(self, records: StudyRecords) -> pd.DataFrame:
        if self.failing_step == "data":
            raise RuntimeError("no such column\nand more")
        return [1] if self.failing_step == "return" else pd.DataFrame({"x": [1]})

    def draw(self, data: pd.DataFrame) -> go.Figure:
        return px.line(data, x="y" if self.failing_step == "figure" else "x")
