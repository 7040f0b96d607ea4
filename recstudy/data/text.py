"""Text to tokens: which tokenizer a data set has, and the rows of ids that are its labels.

A tokenizer that learns does so from the training captions. The cache keeps it beside the tokens it made, and its checksum
tells whether a checkpoint was trained with the same one.

Shapes: N captions, T tokens.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recstudy.data.captions import Captioned
from recstudy.data.images import Tokens
from recstudy.data.text_clip import ClipTokenizer, clip_files, read_clip
from recstudy.data.text_tokenizers import BpeTokenizer, ByteTokenizer, Tokenizer, WordTokenizer

__all__ = [
    "BpeTokenizer",
    "ByteTokenizer",
    "ClipTokenizer",
    "Tokenizer",
    "WordTokenizer",
    "clip_files",
    "restore",
    "tokenizer_of",
    "tokens",
]


def restore(stored: dict[str, Any]) -> Tokenizer:
    """The tokenizer that `Tokenizer.stored` wrote."""
    contents = stored["contents"]
    match stored["name"]:
        case "word":
            return WordTokenizer(contents)
        case "bpe":
            from tokenizers import Tokenizer as Pairs

            return BpeTokenizer(Pairs.from_str(json.dumps(contents)))
        case "clip":
            return ClipTokenizer(contents["vocabulary"], [(left, right) for left, right in contents["merges"]])
    return ByteTokenizer()


def tokenizer_of(config: Captioned, captions: Sequence[str], folder: Path) -> Tokenizer:
    """The tokenizer that `config` names, trained on `captions` where it learns.

    Raises:
        DataError: CLIP's files are in neither place, or are not CLIP's.
    """
    match config.tokenizer:
        case "word":
            return WordTokenizer.train(captions, config.vocabulary)
        case "bpe":
            return BpeTokenizer.train(captions, config.vocabulary)
        case "clip":
            return read_clip(*clip_files(config, folder))
    return ByteTokenizer()


def tokens(captions: Sequence[str], tokenizer: Tokenizer, length: int) -> tuple[Tokens, int]:
    """(N, T) int32 of BOS, words, EOS and PAD; and how many of the N captions were cut."""
    ids_NT = np.full((len(captions), length), tokenizer.pad, np.int32)
    cut = 0
    for row, caption in zip(ids_NT, captions, strict=True):
        ids = tokenizer.encode(caption)
        cut += len(ids) > length - 2
        ids = [tokenizer.bos, *ids[: length - 2], tokenizer.eos]
        row[: len(ids)] = ids
    return ids_NT, cut
