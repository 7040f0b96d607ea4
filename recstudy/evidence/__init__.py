"""What the seeds of a study say: pure functions of arrays, which know neither records nor words nor figures."""

from recstudy.evidence.estimates import LEVEL, Estimate, Split, Why
from recstudy.evidence.factorial import Effect, estimable
from recstudy.evidence.fits import Fit, Weighted, mean_of
from recstudy.evidence.items import mcnemar, over_items, width
from recstudy.evidence.looks import ALPHA, Looks
from recstudy.evidence.power import MOST_SEEDS, POWER, detectable, more_seeds, sd_interval
from recstudy.evidence.questions import (
    Answer,
    Kind,
    Question,
    Reason,
    Verdict,
    asked,
    contrast,
    holm,
    judged,
    published,
    ratio,
)
from recstudy.evidence.scales import LINEAR, Scale

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
    "Split",
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
    "sd_interval",
    "width",
]
