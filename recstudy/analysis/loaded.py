"""A study in a notebook: its runs as pandas frames, its tables and figures as objects that show themselves."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from recstudy.analysis.findings import findings
from recstudy.analysis.frame import StudyRecords, load_study
from recstudy.analysis.page import facts, words_table
from recstudy.analysis.report import studies_at
from recstudy.analysis.rows import distinct
from recstudy.analysis.shown import Shown, heading
from recstudy.analysis.summary import found, summary
from recstudy.errors import ConfigError, choices, nearest
from recstudy.plugins import reading
from recstudy.report import Part
from recstudy.report.parts import Undrawable

OURS = ("undefined", "measured", "unavailable", "tokenizers", "answers", "later", "variant")  # of reading, not of the run


@dataclass(frozen=True)
class Loaded:
    """A study's records and report: `runs`, `epochs`, `findings`, and its tables and figures by name: `loaded["table1"]`."""

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
        labels = frame["variant"].map([variant.label for variant in self.records.variants].__getitem__)
        frame.insert(0, "label", labels)
        return frame.drop(columns="variant")

    @cached_property
    def findings(self) -> list[str]:
        """What the study found, in sentences, the most telling first."""
        with reading(self.records.plugins):
            return list(map(str, findings(self.records)))

    @cached_property
    def parts(self) -> dict[str, Part]:
        """The parts of the report by name."""
        return {part.name: part for part in self.records.parts}

    def table(self, name: str) -> Any:
        """Return a table of the report: its `frame` in full precision, `markdown`, `latex`; it shows itself."""
        found = self._made(self._part(name)).table
        if found is None:
            raise ConfigError(f"{name!r} is a figure without a table: use figure({name!r})")
        return found

    def figure(self, name: str) -> Any:
        """Return a figure of the report, or the one over a table, as Plotly's own."""
        found = self._made(self._part(name)).figure
        if found is None:
            raise ConfigError(f"{name!r} is a table without a figure: use table({name!r})")
        return found

    def __getitem__(self, name: str) -> Any:
        return self.show(self._part(name))

    def show(self, part: Part) -> Any:
        """Any part, whether the report has it or not: `loaded.show(Curve("c", x="gflops", y="top1_accuracy"))`.

        A figure is Plotly's own; a table has its numbers in full precision as `frame`, and prints itself by `markdown` and
        `latex`.

        Raises:
            ConfigError: it names what the study does not have, or cannot be drawn here.
        """
        made = self._made(part)
        return made.figure if made.table is None else made.table

    def _part(self, name: str) -> Part:
        if name not in self.parts:
            raise ConfigError(f"the report has no {name!r}: it has {choices(list(self.parts))}.{nearest(name, self.parts)}")
        return self.parts[name]

    def _made(self, part: Part) -> Shown:
        with reading(self.records.plugins):
            return part.shown(self.records)

    def _repr_html_(self) -> str:
        rows = [
            (name, "not drawable", part.reason) if isinstance(part, Undrawable) else (name, type(part).__name__, heading(part))
            for name, part in self.parts.items()
        ]
        with reading(self.records.plugins):
            head = found(self.records) + facts(summary(self.records))
        return head + words_table("Parts of the report", ("name", "kind", "title"), rows)

    def __repr__(self) -> str:
        plan = self.records.plan
        return f"{plan.study} ({plan.folder}): {len(distinct(self.records.rows)):,} runs; {', '.join(self.parts)}"


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
