"""Which function makes each of recstudy's kinds of parts; one of a user's defines its own method (`report/parts.py`).

A figure: `draw_KIND(records, part)` gives a `Drawn`, made of `KIND_data(records, part)`, which tests read, and of
`KIND_figure(data, ..., size)`. A table: cells, each with the runs behind it. The others are made whole.
"""

from collections.abc import Callable
from typing import Any

from recstudy import report as parts
from recstudy.analysis import budgets, examples, search
from recstudy.analysis.figures import (
    alignment,
    attention_and_experts,
    curve,
    forest,
    learning,
    mistakes,
    puzzles,
    settings,
    two_way,
)
from recstudy.analysis.frame import StudyRecords
from recstudy.analysis.tables import shown, table
from recstudy.errors import ConfigError
from recstudy.report import Part

MAKERS: dict[type[Part], Callable[[StudyRecords, Any], Any]] = {
    parts.Alignment: alignment.draw_alignment,
    parts.AttentionMaps: attention_and_experts.draw_attention_maps,
    parts.Curve: curve.draw_curve,
    parts.Effort: curve.draw_effort,
    parts.ExpertLoad: attention_and_experts.draw_expert_load,
    parts.ExpertPath: attention_and_experts.draw_expert_path,
    parts.HeatMap: two_way.draw_heat_map,
    parts.History: search.draw_history,
    parts.Importance: search.draw_importance,
    parts.Interactions: two_way.draw_interactions,
    parts.LearningCurves: learning.draw_learning_curves,
    parts.LossTrace: learning.draw_loss_trace,
    parts.Mistakes: mistakes.draw_mistakes,
    parts.ParallelCoordinates: settings.draw_parallel_coordinates,
    parts.Pareto: search.draw_pareto,
    parts.Replications: forest.draw_replications,
    parts.Slices: settings.draw_slices,
    # tables of cells
    parts.Best: search.best_data,
    parts.Budgets: budgets.budgets_data,
    parts.Table: table.table_data,
    parts.Tuned: table.tuned_data,
    # made whole
    parts.Arithmetic: shown.counted,
    parts.Captions: examples.shown,
    parts.Claims: shown.asked,
    parts.Differences: shown.asked,
    parts.Effects: shown.asked,
    parts.Thinking: puzzles.thinking_shown,
}


def make(records: StudyRecords, part: Part) -> Any:
    """Make a part of one of recstudy's kinds, or of one that derives from it.

    Raises:
        ConfigError: it names what the study does not have; or a user's kind lacks its method.
    """
    kind = next((kind for kind in type(part).__mro__ if kind in MAKERS), None)
    if kind is None:
        raise ConfigError(f"{type(part).__name__} does not define how it is made: see recstudy.report.parts")
    return MAKERS[kind](records, part)
