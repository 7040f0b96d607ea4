"""RaTEScore (Zhao et al. 2024): how far the medical entities of two texts agree, by meaning and by type.

Entity i of one text is held against the entity j of the other whose embedding has the highest cosine s with its own:

    agreement = sum_i w(t_i, t_j) p(t_i, t_j) s_ij / sum_i w(t_i, t_j)       (1)

w weighs the pair of types, p is `negation` where one entity is present and the other absent, else 1. The score is the harmonic
mean of the agreements in both directions (2), and 0.5 where a text has no entity (3).
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path

from torch.nn import functional as F

from recstudy.metrics.entities import ABSENT, PRESENT, TYPES, Entities, embedded, named
from recstudy.metrics.missing import NotAvailable

NOTE = "sentences end at . ! ? and line breaks, where the program of RaTEScore's authors asks medspaCy"  # belongs in a table
FOLDER = "RECSTUDY_RATESCORE"  # the environment variable that names a folder with the models
Weights = Mapping[tuple[str, str], float]


@dataclass(frozen=True)
class RateModels:
    """Where the models of RaTEScore lie, and the factor that belongs to the weights."""

    entities: Path  # folder of RaTE-NER-Deberta
    meanings: Path  # folder of BioLORD-2023-C
    weights: Path  # JSON file of the 25 weights by pair of types: "disease_anatomy": 0.995, ...
    negation: float = 0.8717  # of the "long" weights; 0.3612 of the "short" ones


def given_models() -> RateModels:
    """`entities`, `meanings` and `weights.json` in the folder that RECSTUDY_RATESCORE names.

    Raises:
        NotAvailable: it names none.
    """
    if not os.environ.get(FOLDER):
        raise NotAvailable(f"{FOLDER} names no folder with its models")
    folder = Path(os.environ[FOLDER])
    return RateModels(folder / "entities", folder / "meanings", folder / "weights.json")


def mean_score(written: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """The mean over the images that have a reference, by the models that are given.

    Raises:
        NotAvailable: they are not, or no image has one.
    """
    scores = rate_scores(written, references, given_models())
    if not scores:
        raise NotAvailable("no image has a reference caption")
    return sum(scores) / len(scores)


def made_by() -> str:
    """What must stand beside a score: the models that are given.

    Raises:
        NotAvailable: none are.
    """
    models = given_models()
    return f"{models.entities} and {models.meanings}, weights {models.weights}; {NOTE}"


def rate_scores(hypotheses: Sequence[str], references: Sequence[Sequence[str]], models: RateModels) -> list[float]:
    """RaTEScore of each image that has a reference, a fraction: with several references the highest.

    Raises:
        NotAvailable: `transformers` is not installed, or a model or the weights are not at their path.
    """
    weights = read_weights(models.weights)
    texts = list(dict.fromkeys(chain(hypotheses, *references)))
    entities = dict(zip(texts, embedded(named(texts, models.entities), models.meanings), strict=True))
    pairs = [(entities[hypothesis], own) for hypothesis, own in zip(hypotheses, references, strict=True) if own]
    return [max(rate_score(told, entities[text], weights, models.negation) for text in own) for told, own in pairs]


def rate_score(told: Entities, truth: Entities, weights: Weights, negation: float) -> float:
    """The score of two texts by their entities: (2), (3)."""
    if not told.types or not truth.types:
        return 0.5
    one, other = agreement(told, truth, weights, negation), agreement(truth, told, weights, negation)
    return 2 * one * other / (one + other) if one + other else 0.0


def agreement(entities: Entities, others: Entities, weights: Weights, negation: float) -> float:
    """How far `entities` are found among `others`: (1)."""
    cosines = F.normalize(entities.embeddings, dim=1) @ F.normalize(others.embeddings, dim=1).T
    found, nearest = cosines.max(1)
    pairs = [(kind, others.types[at]) for kind, at in zip(entities.types, nearest.tolist(), strict=True)]
    scores = zip(pairs, found.tolist(), strict=True)
    total = sum(weights[pair] for pair in pairs)
    return sum(weights[pair] * (negation if _flips(*pair) else 1) * score for pair, score in scores) / total if total else 0.0


def _flips(one: str, other: str) -> bool:
    return (one in PRESENT and other in ABSENT) or (one in ABSENT and other in PRESENT)


def read_weights(path: Path) -> Weights:
    """The weight of each ordered pair of types.

    Raises:
        NotAvailable: no such file, not JSON, or a pair is missing from it.
    """
    try:
        named = json.loads(path.read_text(encoding="utf-8"))
        return {pair: float(named["_".join(pair).lower()]) for pair in product(TYPES, TYPES)}
    except KeyError as error:
        raise NotAvailable(f"the weights {path} lack the pair of types {error}") from error
    except (OSError, ValueError, TypeError) as error:
        raise NotAvailable(f"the weights {path} cannot be read: {error}") from error
