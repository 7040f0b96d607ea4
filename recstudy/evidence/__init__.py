"""What the seeds of a study say: pure functions of arrays, which know neither records nor words nor figures."""

from recstudy.evidence.estimates import LEVEL, LINEAR, Estimate, Scale, SplitSeeds, Why, mcnemar, over_items, width
from recstudy.evidence.fits import Fit, Weighted, mean_of
from recstudy.evidence.questions import (
    Answer,
    Effect,
    Kind,
    Question,
    Reason,
    Verdict,
    asked,
    contrast,
    estimable,
    holm,
    judged,
    published,
    ratio,
)
from recstudy.evidence.seeds import ALPHA, MOST_SEEDS, POWER, Looks, detectable, more_seeds

__all__ = [
    "ALPHA",
    "LEVEL",
    "LINEAR",
    "MOST_SEEDS",
    "POWER",
    "Answer",
    "Effect",
    "Estimate",
    "Fit",
    "Kind",
    "Looks",
    "Question",
    "Reason",
    "Scale",
    "SplitSeeds",
    "Verdict",
    "Weighted",
    "Why",
    "asked",
    "contrast",
    "detectable",
    "estimable",
    "holm",
    "judged",
    "mcnemar",
    "mean_of",
    "more_seeds",
    "over_items",
    "published",
    "ratio",
    "width",
]
