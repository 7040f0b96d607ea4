"""Statistics over seeds: estimates, tests, interim looks and power.

All functions are pure functions of arrays and numbers. They do not read records and write no text. Reports
call them through `recstudy.report`.
"""

from recstudy.evidence.contrasts import at_level, contrast, estimable, exact_sum, interaction_p, ratio
from recstudy.evidence.estimates import (
    LEVEL,
    LINEAR,
    Estimate,
    ItemResult,
    Scale,
    Why,
    independent_share,
    items_error,
    mcnemar,
    over_items,
)
from recstudy.evidence.fits import Fit, Weighted, mean_of
from recstudy.evidence.questions import (
    Answer,
    Kind,
    Question,
    Reason,
    Verdict,
    answer,
    holm,
    judge,
)
from recstudy.evidence.seeds import ALPHA, MAX_SEEDS, Looks, PowerAnalysis, detectable

__all__ = [
    "ALPHA",
    "LEVEL",
    "LINEAR",
    "MAX_SEEDS",
    "Answer",
    "Estimate",
    "Fit",
    "ItemResult",
    "Kind",
    "Looks",
    "PowerAnalysis",
    "Question",
    "Reason",
    "Scale",
    "Verdict",
    "Weighted",
    "Why",
    "answer",
    "at_level",
    "contrast",
    "detectable",
    "estimable",
    "exact_sum",
    "holm",
    "independent_share",
    "interaction_p",
    "items_error",
    "judge",
    "mcnemar",
    "mean_of",
    "over_items",
    "ratio",
]
