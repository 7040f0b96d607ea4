"""A study in a notebook: its runs, estimates and answers as pandas data frames, its tables and figures as
objects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from recstudy.base.errors import ConfigError, choices, nearest
from recstudy.evidence import Answer
from recstudy.papers import of_program
from recstudy.records.plans import record_look
from recstudy.records.runs import distinct
from recstudy.report.cells import cell
from recstudy.report.claims import QuestionPart
from recstudy.report.family import family, published_values
from recstudy.report.findings import findings
from recstudy.report.kinds import heading, render_part
from recstudy.report.names import plural
from recstudy.report.page import words_table
from recstudy.report.parts import BesidePublished, Part, Undrawable, parts_of
from recstudy.report.shown import RenderedPart
from recstudy.report.status import studies_at
from recstudy.report.study_records import StudyRecords, load_study
from recstudy.report.summary import answer, overview, question

ESTIMATES = ["variant", "label", "metric", "value", "low", "high", "n", "df", "error", "notes"]
ANSWERS = [
    "part", "kind", "label", "metric", "difference", "low", "high", "p", "adjusted_p", "verdict", "reasons",
]  # fmt: skip


@dataclass(frozen=True)
class Loaded:
    """A study's records and report.

    Example:
        study = load("results/studies/vitrm_depth_sweep/quick")
        study.estimates  # a data frame
        study["depths"].frame  # the numbers of a table
    """

    records: StudyRecords

    @property
    def runs(self) -> pd.DataFrame:
        """One row per planned run, as `recstudy.records.runs.runs_frame` returns it."""
        return self.records.runs

    @cached_property
    def epochs(self) -> pd.DataFrame:
        """One row per run and epoch: label, seed, id, epoch, and the measured values.

        In studies of a user's own program, `step` takes the place of `epoch`.
        """
        frame = self.records.epochs(self.records.indices)
        if frame.empty:
            return pd.DataFrame(columns=["label", "seed", "id", "epoch"])
        labels = frame["variant"].map([variant.label for variant in self.records.variants].__getitem__)
        frame.insert(0, "label", labels)
        frame = frame.drop(columns="variant")
        return frame.rename(columns={"epoch": self.records.program.step_name})

    @cached_property
    def estimates(self) -> pd.DataFrame:
        """One row per variant and metric that has runs: the mean over seeds with its 95 % CI, as in tables.

        `n` is the number of runs, `df` the degrees of freedom, `error` the standard error. `notes` has the
        reason why an interval is exact or missing.
        """
        rows = []
        with self.records.study_modules():
            for index, variant in enumerate(self.records.variants):
                for name in self.records.measured([index]):
                    estimate = cell(self.records, [index], name).estimate
                    numbers = (estimate.value, estimate.low, estimate.high, estimate.n, estimate.df)
                    rows.append(
                        (index, variant.label, name, *numbers, estimate.error, str(estimate.why or ""))
                    )
        return pd.DataFrame(rows, columns=ESTIMATES)

    @cached_property
    def answers(self) -> pd.DataFrame:
        """One row per question of the report: claims, differences, effects and published values.

        `difference` is the contrast, or our mean minus the published value, with its 95 % CI. `adjusted_p` is
        the p value after Holm's correction.
        """
        with self.records.study_modules():
            rows = []
            for part in parts_of(self.records):
                questions = family(self.records, part).rows if isinstance(part, QuestionPart) else ()
                for row in questions:
                    rows.append(_answer_values(part.name, row.label, row.metric, row.answer))
            for value in published_values(self.records):
                rows.append(_answer_values("", value.label, value.cell.metric, value.answer))
        return pd.DataFrame(rows, columns=ANSWERS)

    @cached_property
    def findings(self) -> list[str]:
        """The findings of the study as sentences, the most important first."""
        with self.records.study_modules():
            return list(map(str, findings(self.records)))

    @cached_property
    def parts(self) -> dict[str, Part]:
        """The parts of the report by name."""
        return {part.name: part for part in parts_of(self.records)}

    def table(self, name: str) -> Any:
        """Return a table of the report, with `frame` in full precision, `markdown` and `latex`.

        Raises:
            ConfigError: The report has no part of this name, or the part has no table.
        """
        rendered = self._render(self._part(name))
        if rendered.is_figure:
            raise ConfigError(f"{name!r} is a figure without a table: use figure({name!r})")
        return rendered

    def figure(self, name: str) -> Any:
        """Return a figure of the report, or the figure above a table, as a Plotly figure."""
        figure = self._render(self._part(name)).figure
        if figure is None:
            raise ConfigError(f"{name!r} is a table without a figure: use table({name!r})")
        return figure

    def __getitem__(self, name: str) -> Any:
        return self.show(self._part(name))

    def show(self, part: Part) -> Any:
        """Return any part, also one that the report does not have.

        Args:
            part: A part such as `Curve("c", x="gflops", y="top1_accuracy")`.

        Returns:
            A Plotly figure, or a table with `frame` in full precision, `markdown` and `latex`.

        Raises:
            ConfigError: The part names an unknown variant or metric, or cannot be drawn here.
        """
        if self.records.is_own:
            part = part.of_metrics([*self.records.plan.metrics])
        if isinstance(part, BesidePublished) and any(target.read_from for target in part.targets):
            if self.records.is_own:
                raise ConfigError(
                    f"{part.name!r} has a published table of your own, which only the study's report reads:"
                    " add the part to the report"
                )
            part = replace(part, targets=of_program(part.targets))
        rendered = self._render(part)
        return rendered.figure if rendered.is_figure else rendered

    def _part(self, name: str) -> Part:
        if name not in self.parts:
            raise ConfigError(
                f"the report has no part {name!r}: it has {choices(list(self.parts))}."
                f"{nearest(name, self.parts)}"
            )
        return self.parts[name]

    def _render(self, part: Part) -> RenderedPart:
        with self.records.study_modules():
            return render_part(self.records, part)

    def _repr_html_(self) -> str:
        with self.records.study_modules():
            rows = []
            for name, part in self.parts.items():
                if isinstance(part, Undrawable):
                    rows.append((name, "not drawable", part.reason))
                else:
                    rows.append((name, type(part).__name__, heading(part)))
            head = question(self.records) + answer(self.records) + overview(self.records)
        return head + words_table("Parts of the report", ("name", "kind", "title"), rows)

    def __repr__(self) -> str:
        plan = self.records.plan
        return (
            f"{plan.study} ({plan.folder}): {plural(len(distinct(self.records.rows)), 'run')};"
            f" {', '.join(self.parts)}"
        )


def _answer_values(part: str, label: str, name: str, answer: Answer) -> tuple[Any, ...]:
    # `near` is the published value. The other kinds of questions are contrasts, for which it is 0.
    estimate, published = answer.estimate, answer.question.center
    numbers = []
    for number in (estimate.value, estimate.low, estimate.high):
        numbers.append(None if number is None else number - published)
    reasons = "; ".join(map(str, answer.reasons))
    kind, verdict = str(answer.question.kind), str(answer.verdict)
    return part, kind, label, name, *numbers, answer.p, answer.adjusted, verdict, reasons


def load(path: str | Path, trust: bool = False) -> Loaded:
    """Load a study for a notebook.

    Args:
        path: The study's folder, `results/studies/NAME/PRESET`, or a results folder with a single study.
        trust: Whether to import the study's own modules from their current files.

    Returns:
        The study with its runs, estimates, answers, tables and figures.

    Raises:
        ConfigError: The folder has no study, or several. The message names them.
    """
    studies = studies_at(Path(path))
    if len(studies) > 1:
        names = [f"studies/{name}/{preset}" for _, name, preset in studies]
        raise ConfigError(
            f"{path} has {len(studies)} studies: give one of {choices(names)} in {studies[0][0].root}"
        )
    # A notebook shows verdicts, so loading a study counts as a look (interim analysis).
    record_look(*studies[0])
    return Loaded(load_study(*studies[0], trust))
