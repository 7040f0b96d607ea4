"""RaTEScore (Zhao et al. 2024): agreement of the medical entities of two texts, by meaning and by type.

Entity i of one text is compared with the entity j of the other whose embedding has the highest cosine s with
that of i:

    agreement = sum_i w(t_i, t_j) p(t_i, t_j) s_ij / sum_i w(t_i, t_j)       (1)

w weighs the pair of types. p is 0.8717 if one entity is present and the other absent, otherwise 1. The
score is the harmonic mean of the agreements in both directions (2), and 0.5 if a text has no entity (3).
`scores.py` registers the metric.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from recstudy.programs.metric import NotInstalled

# Tables show this note, because the deviation changes scores.
NOTE = "sentences end at . ! ? and line breaks, where the program of RaTEScore's authors asks medspaCy"
NO_TRANSFORMERS = "the package transformers is not installed: install recstudy with its extra `rate`"
FOLDER = "RECSTUDY_RATESCORE"  # the environment variable that names a folder with the models
PairWeights = Mapping[tuple[str, str], float]
PRESENT, ABSENT = ("DISEASE", "ABNORMALITY"), ("NON-DISEASE", "NON-ABNORMALITY")
TYPES = (*PRESENT, *ABSENT, "ANATOMY")
NEGATION = 0.8717  # belongs to the "long" weights of RaTEScore's authors
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
BATCH = 32  # sentences or entities at once


@dataclass(frozen=True)
class Entities:
    """The medical entities of a text."""

    types: tuple[str, ...]  # of `TYPES`
    embeddings: Tensor  # (E, D)


def model_folder() -> Path:
    """Return the folder that RECSTUDY_RATESCORE names.

    It has `entities` (RaTE-NER-Deberta), `meanings` (BioLORD-2023-C) and `weights.json`, the 25 weights by
    pair of types: "disease_anatomy": 0.995, ...

    Raises:
        NotInstalled: RECSTUDY_RATESCORE is not set.
    """
    if not os.environ.get(FOLDER):
        raise NotInstalled(f"{FOLDER} names no folder with its models (docs/how-to/offline.md)")
    return Path(os.environ[FOLDER])


def find_models() -> Path:
    """Return the folder of the models, without loading one.

    Raises:
        NotInstalled: RECSTUDY_RATESCORE is not set, or a model, the weights or `transformers` is missing.
    """
    folder = model_folder()
    files = ("weights.json", "entities/config.json", "meanings/config.json")
    if missing_files := [name for name in files if not (folder / name).is_file()]:
        raise NotInstalled(f"{folder} has no {', '.join(missing_files)} (docs/how-to/offline.md)")
    read_weights(folder / "weights.json")
    if find_spec("transformers") is None:
        raise NotInstalled(NO_TRANSFORMERS)
    return folder


def describe_models() -> str:
    """Return the description of the configured models that tables show with a score.

    Raises:
        NotInstalled: no models are configured.
    """
    folder = model_folder()
    return f"{folder / 'entities'} and {folder / 'meanings'}, weights {folder / 'weights.json'}; {NOTE}"


def rate_scores(hypotheses: Sequence[str], references: Sequence[Sequence[str]], folder: Path) -> list[float]:
    """Return the highest RaTEScore over the references of each image that has any, as a fraction.

    Raises:
        NotInstalled: `transformers` is not installed, or a model or the weights are not at their path.
    """
    weights = read_weights(folder / "weights.json")
    # Each distinct text goes through the models once.
    texts = list(dict.fromkeys(chain(hypotheses, *references)))
    embedded_entities = embed_entities(find_entities(texts, folder / "entities"), folder / "meanings")
    entities = dict(zip(texts, embedded_entities, strict=True))
    scores = []
    for hypothesis, image_references in zip(hypotheses, references, strict=True):
        if image_references:
            candidates = [
                rate_score(entities[hypothesis], entities[reference], weights)
                for reference in image_references
            ]
            scores.append(max(candidates))
    return scores


def rate_score(hypothesis: Entities, truth: Entities, weights: PairWeights) -> float:
    """Return the score (2), (3) of two texts from their entities."""
    if not hypothesis.types or not truth.types:
        return 0.5
    forward = agreement(hypothesis, truth, weights)
    backward = agreement(truth, hypothesis, weights)
    return 2 * forward * backward / (forward + backward) if forward + backward else 0.0


def agreement(entities: Entities, targets: Entities, weights: PairWeights) -> float:
    """Return the agreement (1) of `entities` with their nearest `targets`."""
    cosines = F.normalize(entities.embeddings, dim=1) @ F.normalize(targets.embeddings, dim=1).T
    similarities, nearest = cosines.max(1)
    flips = {*product(PRESENT, ABSENT), *product(ABSENT, PRESENT)}
    pair_weights = []
    products = []
    for kind, index, similarity in zip(entities.types, nearest.tolist(), similarities.tolist(), strict=True):
        pair = (kind, targets.types[index])
        factor = NEGATION if pair in flips else 1
        pair_weights.append(weights[pair])
        products.append(weights[pair] * factor * similarity)
    total = sum(pair_weights)
    return sum(products) / total if total else 0.0


def read_weights(path: Path) -> PairWeights:
    """Return the weight of each ordered pair of types.

    Raises:
        NotInstalled: the file does not exist, is not JSON, or lacks a pair.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return {pair: float(values["_".join(pair).lower()]) for pair in product(TYPES, TYPES)}
    except KeyError as error:
        raise NotInstalled(f"the weights {path} lack the pair of types {error}") from error
    except (OSError, ValueError, TypeError) as error:
        raise NotInstalled(f"the weights {path} cannot be read: {error}") from error


def find_entities(texts: Sequence[str], folder: Path) -> list[list[tuple[str, str]]]:
    """Return the words and the type of each entity of each text, by the token classifier in `folder`.

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
    # The model labels one sentence at a time, as the program of RaTEScore's authors does.
    sentences = [
        (index, part)
        for index, text in enumerate(texts)
        for part in SENTENCE_END.split(text)
        if len(part.strip()) > 2
    ]
    entities: list[list[tuple[str, str]]] = [[] for _ in texts]
    text_indices = iter(index for index, _ in sentences)
    for ids, output in _batches([part for _, part in sentences], tokenizer, model, 512):
        for row, kinds in zip(ids.tolist(), output.logits.argmax(-1).tolist(), strict=True):
            labelled = [(token, kind) for token, kind in zip(row, kinds, strict=True) if token not in frame]
            tokens = tokenizer.convert_ids_to_tokens([token for token, _ in labelled])
            text_entities = entities[next(text_indices)]
            for start, end, kind in entity_spans([labels[kind] for _, kind in labelled]):
                text_entities.append((tokenizer.convert_tokens_to_string(tokens[start:end]), kind))
    return entities


def entity_spans(labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return start, end and type of each entity, labelled `B-type I-... I-...`."""
    # An `I-` without a `B-` before it belongs to no entity.
    runs = re.finditer("BI*", "".join(label[0] for label in labels))
    return [(run.start(), run.end(), labels[run.start()][2:]) for run in runs]


def embed_entities(texts: Sequence[Sequence[tuple[str, str]]], folder: Path) -> list[Entities]:
    """Return the entities of each text, embedded by the last layer of the model at the first token.

    Raises:
        NotInstalled: `transformers` is not installed, or the folder holds no such model.
    """
    tokenizer, model = _loaded(folder, "AutoModel")
    distinct = list(dict.fromkeys(words for entities in texts for words, _ in entities))
    outputs = (output for _, output in _batches(distinct, tokenizer, model, 30))
    states = [output.last_hidden_state[:, 0].float().cpu() for output in outputs]
    embeddings = dict(zip(distinct, torch.cat(states), strict=True)) if states else {}
    result = []
    for entities in texts:
        rows = [embeddings[words] for words, _ in entities]
        # The score of a text without entities is 0.5 and needs no embeddings.
        stacked = torch.stack(rows) if rows else torch.empty(0, 1)
        result.append(Entities(tuple(kind for _, kind in entities), stacked))
    return result


def _loaded(folder: Path, kind: str) -> tuple[Any, Any]:
    """Load the tokenizer and the model (`kind` of `transformers`) in a folder, without a download."""
    if not (folder / "config.json").exists():
        raise NotInstalled(f"{folder} holds no model (config.json is missing)")
    if find_spec("transformers") is None:
        raise NotInstalled(NO_TRANSFORMERS)
    import transformers

    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = getattr(transformers, kind).from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, ImportError) as error:
        raise NotInstalled(f"the model in {folder} cannot be loaded: {str(error).splitlines()[0]}") from error
    return tokenizer, model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def _batches(texts: Sequence[str], tokenizer: Any, model: Any, length: int) -> Iterator[tuple[Tensor, Any]]:
    """Yield the token ids (B, T) and the model's output, one batch at a time."""
    for start in range(0, len(texts), BATCH):
        batch = list(texts[start : start + BATCH])
        tokens = tokenizer(batch, max_length=length, padding=True, truncation=True, return_tensors="pt")
        tokens = tokens.to(model.device)
        with torch.no_grad():
            yield tokens["input_ids"], model(**tokens)
