"""Text to tokens: how captions are cleaned, which tokenizer a data set has, and the rows of ids that are its labels.

A tokenizer that learns does so from the training captions. The cache keeps it beside the tokens it made, and its checksum
tells whether a checkpoint was trained with the same one.

Shapes: N captions, T tokens.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.data.images import Labels, Mask, Pixels, Tokens
from recstudy.data.lazy import np
from recstudy.data.reader import Decoded
from recstudy.data.tokenizers import BpeTokenizer, ByteTokenizer, ClipTokenizer, Tokenizer, WordTokenizer, clip_files, read_clip

if TYPE_CHECKING:
    from recstudy.data.captions import Captioned

_APOSTROPHE = "\u2019"
_PLACEHOLDER = re.compile(r"\[\*\*.*?\*\*\]")  # as MIMIC marks what it hides
_ENUMERATION = re.compile(r"(^|[.:;!?]\s*)\(?\d{1,2}[.)]\s+")
_TOKEN = re.compile(r"\d+\.\d+[^\W_]*|[^\W_]+|[.!?]")
_HIDDEN = re.compile(r"x{2,}")
_MIXED = re.compile(r"(?=.*\d)(?=.*[^\W\d_])")


def plain(text: str) -> str:
    """Return the text on one line, with one space between words."""
    return " ".join(text.split())


def report(text: str) -> str:
    """Return words, numbers and ` . ` after each sentence, in lower case.

    The MicarVLMoE paper says: "Reports are cleaned by removing de-identified and alphanumeric tokens"; its code
    (AI-14/micar-vl-moe, preprocessors/) has a cleaner a data set, which disagree on commas and measures. This is one for all.

    - Marks of what was hidden go: `[**...**]`, `___`, words of x alone (`xxxx`).
    - Tokens of letters and digits go (`3b`, `1.5cm`, `t2`); plain numbers and decimals stay.
    - The numbers of a list go: `1. clear lungs 2. ...`, at the beginning or after a sentence.
    - Apostrophes go; other punctuation parts words and goes, so `ground-glass` is two words.
    - `.`, `!` and `?` end a sentence, and so does the end. Nothing is left of a text without a word.
    """
    text = _PLACEHOLDER.sub(" ", plain(text).lower().replace("'", "").replace(_APOSTROPHE, ""))
    text = _ENUMERATION.sub(r"\1", text)
    tokens = ["." if token in "!?" else token for token in _TOKEN.findall(text)]
    words: list[str] = []
    for token in [*(one for one in tokens if not (_HIDDEN.fullmatch(one) or _MIXED.match(one))), "."]:
        if token != "." or (words and words[-1] != "."):
            words.append(token)
    return " ".join(words)


CLEANERS = {"none": plain, "report": report}


def restore(stored: dict[str, Any]) -> Tokenizer:
    """Return the tokenizer that `Tokenizer.stored` wrote."""
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
    """Return the tokenizer that `config` names, trained on `captions` where it learns.

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
    """Return (N, T) int32 of BOS, words, EOS and PAD; and how many of the N captions were cut."""
    ids_NT = np.full((len(captions), length), tokenizer.pad, np.int32)
    cut = 0
    for row, caption in zip(ids_NT, captions, strict=True):
        ids = tokenizer.encode(caption)
        cut += len(ids) > length - 2
        ids = [tokenizer.bos, *ids[: length - 2], tokenizer.eos]
        row[: len(ids)] = ids
    return ids_NT, cut


def with_tokens(
    config: Captioned,
    folder: Path,
    images: Pixels,
    captions: Sequence[list[str]],
    train: int,
    groups: Labels | None,
    held: Mask | None = None,
    notes: tuple[str, ...] = (),
) -> Decoded:
    """Return a decoded set of N images and their captions, of which the first `train` images are for training.

    The tokenizer learns from the first captions of the training images that are not `held` out for validation.
    """
    firsts = [texts[0] for texts in captions]
    learn = firsts[:train] if held is None else [first for first, out in zip(firsts, held, strict=False) if not out]
    tokenizer = tokenizer_of(config, learn, folder)
    labels, cut = tokens(firsts, tokenizer, config.length)
    noted = list(notes)
    if cut:
        captions_are = "1 caption is" if cut == 1 else f"{cut:,} captions are"
        noted.append(f"{captions_are} longer than data.length ({config.length} tokens): cut")
    if config.tokenizer == "word":
        ids = [one for caption in firsts for one in tokenizer.encode(caption)]
        share = 100 * ids.count(tokenizer.unk) / max(len(ids), 1)
        noted.append(f"{tokenizer.size:,} of {config.classes:,} ids are used; {share:.1f} % of the words have none of their own")
    return Decoded(
        train_images=images[:train],
        train_labels=labels[:train],
        test_images=images[train:],
        test_labels=labels[train:],
        train_groups=None if groups is None else groups[:train],
        test_groups=None if groups is None else groups[train:],
        train_held=held,
        notes=tuple(noted),
        train_captions=list(captions[:train]),
        test_captions=list(captions[train:]),
        tokenizer=tokenizer.stored(),
    )
