"""A study in a notebook: its runs as pandas frames, its tables and figures as objects that show themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go

from recstudy.analysis.cards import captions_html
from recstudy.analysis.examples import captions_data
from recstudy.analysis.facts import summary
from recstudy.analysis.frame import StudyRecords, load_study
from recstudy.analysis.page import facts, words_table
from recstudy.analysis.parts import draw, table_words, title
from recstudy.analysis.report import studies_at
from recstudy.analysis.spec import REPORT, AnyPart, Captions, Tabular
from recstudy.analysis.tables import markup
from recstudy.analysis.tables.latex import latex
from recstudy.errors import ConfigError, choices, nearest

OURS = ("undefined", "measured", "unavailable", "tokenizers", "variant")  # of the reading half, not of the run


@dataclass(frozen=True)
class Shown:
    """A part that a notebook shows: `frame` has its numbers in full precision, `markdown` and `latex` print it."""

    frame: pd.DataFrame
    html: str
    markdown: str = ""
    latex: str = ""

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.markdown or repr(self.frame)


@dataclass(frozen=True)
class Loaded:
    """A study's records and report: `runs`, `epochs`, and its tables and figures by name, as in `loaded["table1"]`."""

    records: StudyRecords

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row a planned run: label, seed, id, status, levels, varied settings, metrics, costs, where it was made."""
        return self.records.runs.drop(columns=[name for name in OURS if name in self.records.runs])

    @cached_property
    def epochs(self) -> pd.DataFrame:
        """One row a run and epoch: label, seed, id, epoch, and what was measured in it."""
        frame = self.records.epochs(range(len(self.records.variants)))
        if frame.empty:
            return pd.DataFrame(columns=["label", "seed", "id", "epoch"])
        labels = frame["variant"].map([variant["label"] for variant in self.records.variants].__getitem__)
        frame.insert(0, "label", labels)
        return frame.drop(columns="variant")

    @cached_property
    def parts(self) -> dict[str, AnyPart]:
        """The parts of the report by name."""
        return {spec.name: spec for spec in REPORT.validate_python(self.records.plan["report"])}

    def __getitem__(self, name: str) -> Shown | go.Figure:
        if name not in self.parts:
            raise ConfigError(f"the report has no {name!r}: it has {choices(list(self.parts))}.{nearest(name, self.parts)}")
        return self.show(self.parts[name])

    def show(self, part: AnyPart) -> Shown | go.Figure:
        """Any part, whether the report has it or not: `loaded.show(Curve("c", x="gflops", y="top1_accuracy"))`.

        Raises:
            ConfigError: it names what the study does not have.
        """
        if isinstance(part, Tabular):
            page, numbers = table_words(self.records, part)
            return Shown(pd.read_csv(StringIO(numbers)), markup.html_table(page), markup.markdown(page), latex(page))
        if isinstance(part, Captions):
            data = captions_data(self.records, part)
            return Shown(data.frame, captions_html(data))
        return draw(self.records, part).figure

    def _repr_html_(self) -> str:
        rows = [(name, type(spec).__name__, title(spec)) for name, spec in self.parts.items()]
        return facts(summary(self.records)) + words_table("Parts of the report", ("name", "kind", "title"), rows)

    def __repr__(self) -> str:
        plan = self.records.plan
        return f"{plan['study']} ({plan['preset']}): {len(self.records.rows):,} runs; {', '.join(self.parts)}"


def load(path: str | Path) -> Loaded:
    """The one study in this folder: `results/studies/NAME/PRESET`, or a results folder that has no other.

    Raises:
        ConfigError: there is no study, or there are several. The message names them.
    """
    found = studies_at(Path(path))
    if len(found) > 1:
        known: Sequence[str] = [f"studies/{name}/{preset}" for _, name, preset in found]
        raise ConfigError(f"{path} has {len(found)} studies: give one of {choices(known)} in {found[0][0].root}")
    return Loaded(load_study(*found[0]))
