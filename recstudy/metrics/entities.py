"""Medical entities in a text, and what they mean, by two models on disk that `transformers` reads; nothing is downloaded.

Sentences end at `.`, `!`, `?` and line breaks here, where the program of RaTEScore's authors asks medspaCy.

Shapes: B sentences or entities, T tokens, E entities, D numbers of an embedding.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from recstudy.metrics.missing import NotAvailable

PRESENT, ABSENT = ("DISEASE", "ABNORMALITY"), ("NON-DISEASE", "NON-ABNORMALITY")
TYPES = (*PRESENT, *ABSENT, "ANATOMY")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
BATCH = 32  # sentences or entities at once


@dataclass(frozen=True)
class Entities:
    """What a text names."""

    types: tuple[str, ...]  # of `TYPES`
    embeddings: Tensor  # (E, D)


def named(texts: Sequence[str], folder: Path) -> list[list[tuple[str, str]]]:
    """Each text's entities, their words and their types, by the model in `folder` that labels tokens.

    Raises:
        NotAvailable: `transformers` is not installed, or the folder holds no such model.
    """
    tokenizer, model = _loaded(folder, "AutoModelForTokenClassification")
    labels = [label.upper() for _, label in sorted(model.config.id2label.items())]
    if unknown := {label[2:] for label in labels if label != "O"} - {*TYPES}:
        raise NotAvailable(f"the model in {folder} labels {', '.join(sorted(unknown))}, not {', '.join(TYPES)}")
    frame = {tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id}
    sentences = [(at, part) for at, text in enumerate(texts) for part in SENTENCE_END.split(text) if len(part.strip()) > 2]
    found: list[list[tuple[str, str]]] = [[] for _ in texts]
    owners = iter(at for at, _ in sentences)
    for ids, output in _batches([part for _, part in sentences], tokenizer, model, 512):
        for row, kinds in zip(ids.tolist(), output.logits.argmax(-1).tolist(), strict=True):
            real = [(token, kind) for token, kind in zip(row, kinds, strict=True) if token not in frame]
            tokens = tokenizer.convert_ids_to_tokens([token for token, _ in real])
            spans = entity_spans([labels[kind] for _, kind in real])
            found[next(owners)] += [(tokenizer.convert_tokens_to_string(tokens[a:b]), kind) for a, b, kind in spans]
    return found


def entity_spans(labels: Sequence[str]) -> list[tuple[int, int, str]]:
    """Start, end and type of each run `B-type I-... I-...`; an `I-` without a beginning belongs to none."""
    starts = [at for at, label in enumerate(labels) if label.startswith("B-")]
    spans = []
    for start in starts:
        inside = (at for at in range(start + 1, len(labels)) if not labels[at].startswith("I-"))
        spans.append((start, next(inside, len(labels)), labels[start][2:]))
    return spans


def embedded(texts: Sequence[Sequence[tuple[str, str]]], folder: Path) -> list[Entities]:
    """Each text's entities with the embeddings of their words: the last layer at the first token of the model in `folder`.

    Raises:
        NotAvailable: `transformers` is not installed, or the folder holds no such model.
    """
    tokenizer, model = _loaded(folder, "AutoModel")
    distinct = list(dict.fromkeys(words for entities in texts for words, _ in entities))
    states = [output.last_hidden_state[:, 0].float().cpu() for _, output in _batches(distinct, tokenizer, model, 30)]
    rows = dict(zip(distinct, torch.cat(states), strict=True)) if states else {}
    nothing = torch.empty(0, 1)
    return [
        Entities(tuple(kind for _, kind in own), torch.stack([rows[words] for words, _ in own]) if own else nothing)
        for own in texts
    ]


def _loaded(folder: Path, kind: str) -> tuple[Any, Any]:
    """Tokenizer and model of a folder, as the class `kind` of `transformers`; nothing is ever downloaded."""
    try:
        import transformers
    except ImportError as error:
        raise NotAvailable("the package transformers is not installed") from error
    if not (folder / "config.json").exists():
        raise NotAvailable(f"{folder} holds no model (config.json is missing)")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
        model = getattr(transformers, kind).from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, ImportError) as error:
        raise NotAvailable(f"the model in {folder} cannot be loaded: {str(error).splitlines()[0]}") from error
    return tokenizer, model.eval().to("cuda" if torch.cuda.is_available() else "cpu")


def _batches(texts: Sequence[str], tokenizer: Any, model: Any, length: int) -> Iterator[tuple[Tensor, Any]]:
    """Token ids (B, T) and the model's output, a batch at a time."""
    for start in range(0, len(texts), BATCH):
        batch = list(texts[start : start + BATCH])
        tokens = tokenizer(batch, max_length=length, padding=True, truncation=True, return_tensors="pt").to(model.device)
        with torch.no_grad():
            yield tokens["input_ids"], model(**tokens)
