"""RaTEScore (Zhao et al. 2024): how far the medical entities of two texts agree, by meaning and by type.

Entity i of one text is held against the entity j of the other whose embedding has the highest cosine s with
its own:

    agreement = sum_i w(t_i, t_j) p(t_i, t_j) s_ij / sum_i w(t_i, t_j)       (1)

w weighs the pair of types, p is `negation` where one entity is present and the other absent, else 1. The
score is the harmonic mean of the agreements in both directions (2), and 0.5 where a text has no entity (3).
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.programs.metric import NotAvailable, NotInstalled

# belongs in a table
NOTE = "sentences end at . ! ? and line breaks, where the program of RaTEScore's authors asks medspaCy"
FOLDER = "RECSTUDY_RATESCORE"  # the environment variable that names a folder with the models
Weights = Mapping[tuple[str, str], float]
PRESENT, ABSENT = ("DISEASE", "ABNORMALITY"), ("NON-DISEASE", "NON-ABNORMALITY")
TYPES = (*PRESENT, *ABSENT, "ANATOMY")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
BATCH = 32  # sentences or entities at once


@dataclass(frozen=True)
class Entities:
    """What a text names."""

    types: tuple[str, ...]  # of `TYPES`
    embeddings: Tensor  # (E, D)


@dataclass(frozen=True)
class RateModels:
    """Where the models of RaTEScore lie, and the factor that belongs to the weights."""

    entities: Path  # folder of RaTE-NER-Deberta
    meanings: Path  # folder of BioLORD-2023-C
    weights: Path  # JSON file of the 25 weights by pair of types: "disease_anatomy": 0.995, ...
    negation: float = 0.8717  # of the "long" weights; 0.3612 of the "short" ones


def given_models() -> RateModels:
    """Return `entities`, `meanings` and `weights.json` in the folder that RECSTUDY_RATESCORE names.

    Raises:
        NotInstalled: it names none.
    """
    if not os.environ.get(FOLDER):
        raise NotInstalled(f"{FOLDER} names no folder with its models")
    folder = Path(os.environ[FOLDER])
    return RateModels(folder / "entities", folder / "meanings", folder / "weights.json")


def mean_score(written: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return the mean over the images that have a reference, by the models that are given.

    Raises:
        NotAvailable: they are not, or no image has one.
    """
    scores = rate_scores(written, references, given_models())
    if not scores:
        raise NotAvailable("no image has a reference caption")
    return sum(scores) / len(scores)


def made_by() -> str:
    """Return what must stand beside a score: the models that are given.

    Raises:
        NotInstalled: none are.
    """
    models = given_models()
    return f"{models.entities} and {models.meanings}, weights {models.weights}; {NOTE}"


def rate_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], models: RateModels
) -> list[float]:
    """Return RaTEScore of each image that has a reference, a fraction: with several references the highest.

    Raises:
        NotInstalled: `transformers` is not installed, or a model or the weights are not at their path.
    """
    weights = read_weights(models.weights)
    texts = list(dict.fromkeys(chain(hypotheses, *references)))
    entities = dict(zip(texts, embedded(named(texts, models.entities), models.meanings), strict=True))
    pairs = [
        (entities[hypothesis], own) for hypothesis, own in zip(hypotheses, references, strict=True) if own
    ]
    return [
        max(rate_score(told, entities[text], weights, models.negation) for text in own) for told, own in pairs
    ]


def rate_score(told: Entities, truth: Entities, weights: Weights, negation: float) -> float:
    """Return the score of two texts by their entities: (2), (3)."""
    if not told.types or not truth.types:
        return 0.5
    one, other = agreement(told, truth, weights, negation), agreement(truth, told, weights, negation)
    return 2 * one * other / (one + other) if one + other else 0.0


def agreement(entities: Entities, others: Entities, weights: Weights, negation: float) -> float:
    """Return how far `entities` are found among `others`: (1)."""
    cosines = F.normalize(entities.embeddings, dim=1) @ F.normalize(others.embeddings, dim=1).T
    found, nearest = cosines.max(1)
    pairs = [(kind, others.types[at]) for kind, at in zip(entities.types, nearest.tolist(), strict=True)]
    flips = {*product(PRESENT, ABSENT), *product(ABSENT, PRESENT)}
    scores = zip(pairs, found.tolist(), strict=True)
    total = sum(weights[pair] for pair in pairs)
    return (
        sum(weights[pair] * (negation if pair in flips else 1) * score for pair, score in scores) / total
        if total
        else 0.0
    )


def read_weights(path: Path) -> Weights:
    """Return the weight of each ordered pair of types.

    Raises:
        NotInstalled: no such file, not JSON, or a pair is missing from it.
    """
    try:
        named = json.loads(path.read_text(encoding="utf-8"))
        return {pair: float(named["_".join(pair).lower()]) for pair in product(TYPES, TYPES)}
    except KeyError as error:
        raise NotInstalled(f"the weights {path} lack the pair of types {error}") from error
    except (OSError, ValueError, TypeError) as error:
        raise NotInstalled(f"the weights {path} cannot be read: {error}") from error


def named(texts: Sequence[str], folder: Path) -> list[list[tuple[str, str]]]:
    """Return each text's entities, their words and their types, by the model in `folder` that labels tokens.

    Raises:
        NotInstalled: `transformers` is not installed, or the folder holds no such model.
    """
    tokenizer, model = _loaded(folder, "AutoModelForTokenClassification")
    labels = [label.upper() for _, label in sorted(model.config.id2label.items())]
    if unknown := {label[2:] for label in labels if label != "O"} - {*TYPES}:
        raise NotInstalled(
            f"the model in {folder} labels {', '.join(sorted(unknown))}, not {', '.join(TYPES)}"
        )
    frame = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id}
    sentences = [
        (at, part)
        for at, text in enumerate(texts)
        for part in SENTENCE_END.split(text)
        if len(part.strip()) > 2
    ]
    found: list[list[tuple[str, str]]] = [[] for _ in texts]
    owners = iter(at for at, _ in sentences)
    for ids, output in _batches([part for _, part in sentences], tokenizer, model, 512):
        for row, kinds in zip(ids.tolist(), output.logits.argmax(-1).tolist(), strict=True):
            real = [(token, kind) for token, kind in zip(row, kinds, strict=True) if token not in frame]
            tokens = tokenizer.convert_ids_to_tokens([token for token, _ in real])
            spans = entity_spans([labels[kind] for _, kind in real])
            found[next(owners)] += [
                (tokenizer.convert_tokens_to_string(tokens[a:b]), kind) for a, b, kind in spans
            ]
    return found


def entity_spans(labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """Start, end and type of each run `B-type I-... I-...`; an `I-` without a beginning belongs to none."""
    runs = re.finditer("BI*", "".join(label[0] for label in labels))
    return [(run.start(), run.end(), labels[run.start()][2:]) for run in runs]


def embedded(texts: Sequence[Sequence[tuple[str, str]]], folder: Path) -> list[Entities]:
    """Return each text's entities with the embeddings of their words: the last layer at the first token of
    the model in `folder`.

    Raises:
        NotInstalled: `transformers` is not installed, or the folder holds no such model.
    """
    tokenizer, model = _loaded(folder, "AutoModel")
    distinct = list(dict.fromkeys(words for entities in texts for words, _ in entities))
    states = [
        output.last_hidden_state[:, 0].float().cpu() for _, output in _batches(distinct, tokenizer, model, 30)
    ]
    rows = dict(zip(distinct, torch.cat(states), strict=True)) if states else {}
    nothing = torch.empty(0, 1)
    return [
        Entities(
            tuple(kind for _, kind in own), torch.stack([rows[words] for words, _ in own]) if own else nothing
        )
        for own in texts
    ]


def _loaded(folder: Path, kind: str) -> tuple[Any, Any]:
    """Tokenizer and model of a folder, as the class `kind` of `transformers`; nothing is ever downloaded."""
    try:
        import transformers
    except ImportError as error:
        raise NotInstalled("the package transformers is not installed") from error
    if not (folder / "config.json").exists():
        raise NotInstalled(f"{folder} holds no model (config.json is missing)")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = getattr(transformers, kind).from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, ImportError) as error:
        raise NotInstalled(f"the model in {folder} cannot be loaded: {str(error).splitlines()[0]}") from error
    return tokenizer, model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def _batches(texts: Sequence[str], tokenizer: Any, model: Any, length: int) -> Iterator[tuple[Tensor, Any]]:
    """Token ids (B, T) and the model's output, a batch at a time."""
    for start in range(0, len(texts), BATCH):
        batch = list(texts[start : start + BATCH])
        tokens = tokenizer(batch, max_length=length, padding=True, truncation=True, return_tensors="pt").to(
            model.device
        )
        with torch.no_grad():
            yield tokens["input_ids"], model(**tokens)
