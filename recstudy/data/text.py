"""Text to tokens: tokenizers, how captions are cleaned, and the rows of ids that are a data set's labels.

Bytes, words and pieces of words need no files; CLIP's tokenizer comes from its two files (models.md 7.2).

    ids 0 to 3      PAD, BOS, EOS, UNK; CLIP's byte pairs have ids of their own
    ids from 4      byte b is 4 + b; words and pieces of words in the order of their vocabulary

A tokenizer that learns does so from the training captions. The cache keeps it beside the tokens it made, and
its checksum tells whether a checkpoint was trained with the same one.

Shapes: N captions, T tokens.
"""

from __future__ import annotations

import html
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from recstudy.data.reader import Arrays, Labels, Mask, Pixels, Tokens, np
from recstudy.errors import DataError
from recstudy.programs.settings import digest

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Pairs

    from recstudy.data.captions import Captioned

SPECIALS = 4  # PAD, BOS, EOS and UNK are the first ids
BYTES = 256
CLIP_VOCABULARY = 49_408
CLIP_BOS, CLIP_EOS = CLIP_VOCABULARY - 2, CLIP_VOCABULARY - 1  # its last ids
REPOSITORY = "openai/clip-vit-base-patch32"  # of Hugging Face
FILES = ("vocab.json", "merges.txt")
# CLIP's own pattern: github.com/openai/CLIP, clip/simple_tokenizer.py.
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
WORD_COUNT = 3  # times that a word must be there to have an id (003, section IV.C)

_APOSTROPHE = "\u2019"
_PLACEHOLDER = re.compile(r"\[\*\*.*?\*\*\]")  # as MIMIC marks what it hides
_ENUMERATION = re.compile(r"(^|[.:;!?]\s*)\(?\d{1,2}[.)]\s+")
_TOKEN = re.compile(r"\d+\.\d+[^\W_]*|[^\W_]+|[.!?]")
_HIDDEN = re.compile(r"x{2,}")
_MIXED = re.compile(r"(?=.*\d)(?=.*[^\W\d_])")


class Tokenizer(ABC):
    """Text to ids and back."""

    name: ClassVar[str]
    size: int  # ids that it gives: 0 to size - 1
    pad, bos, eos, unk = range(SPECIALS)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, without BOS and EOS."""

    @abstractmethod
    def _text(self, ids: list[int]) -> str:
        """Return the text of ids among which is nothing special."""

    def _contents(self) -> Any:
        """Return what `restore` needs beside the name, as JSON values."""
        return None

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text up to the first EOS. Special ids and ids that the tokenizer does not give are left
        out.
        """
        return self._text(
            [token for token in takewhile(lambda token: token != self.eos, ids) if self._has_text(token)]
        )

    def stored(self) -> dict[str, Any]:
        """Return JSON values, of which `restore` makes an equal tokenizer."""
        return {"name": self.name, "contents": self._contents()}

    @property
    def checksum(self) -> str:
        """20 hex digits, equal for equal tokenizers only."""
        return digest(self.stored(), 20)

    def _has_text(self, token: int) -> bool:
        return SPECIALS <= token < self.size


class ByteTokenizer(Tokenizer):
    """A token a byte of UTF-8. Ids that are no UTF-8 become the replacement character."""

    name = "byte"
    size = BYTES + SPECIALS

    def encode(self, text: str) -> list[int]:
        return [SPECIALS + byte for byte in text.encode()]

    def _text(self, ids: list[int]) -> str:
        return bytes(token - SPECIALS for token in ids).decode(errors="replace")


class WordTokenizer(Tokenizer):
    """A token a word between white space; unknown words are UNK, and nothing once they are decoded."""

    name = "word"

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.size = SPECIALS + len(self.words)
        self._ids = {word: SPECIALS + place for place, word in enumerate(self.words)}

    @classmethod
    def train(cls, captions: Iterable[str], vocabulary: int) -> WordTokenizer:
        """Learn the most frequent words first, equally frequent ones by the alphabet.

        Raises:
            DataError: no word is frequent.
        """
        counts = Counter(word for caption in captions for word in caption.split())
        frequent = sorted((-count, word) for word, count in counts.items() if count >= WORD_COUNT)
        if not frequent:
            raise DataError(
                f"no word occurs {WORD_COUNT} times in the training captions, so that none would have an id. "
                "Set data.tokenizer to 'byte' or 'bpe'."
            )
        return cls([word for _, word in frequent[: vocabulary - SPECIALS]])

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(word, self.unk) for word in text.split()]

    def _text(self, ids: list[int]) -> str:
        return " ".join(self.words[token - SPECIALS] for token in ids)

    def _contents(self) -> list[str]:
        return self.words


class BpeTokenizer(Tokenizer):
    """Byte pairs (Hugging Face `tokenizers`): bytes, and the pieces of words that are frequent. Loses
    nothing.
    """

    name = "bpe"

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self.size = SPECIALS + pairs.get_vocab_size()

    @classmethod
    def train(cls, captions: Iterable[str], vocabulary: int) -> BpeTokenizer:
        from tokenizers import Tokenizer as Pairs
        from tokenizers import decoders, models, pre_tokenizers, trainers

        pairs = Pairs(models.BPE())
        pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        pairs.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        size = vocabulary - SPECIALS
        trainer = trainers.BpeTrainer(
            vocab_size=size, min_frequency=2, initial_alphabet=alphabet, show_progress=False
        )
        pairs.train_from_iterator(captions, trainer)
        return cls(pairs)

    def encode(self, text: str) -> list[int]:
        return [SPECIALS + token for token in self._pairs.encode(text).ids]

    def _text(self, ids: list[int]) -> str:
        return str(self._pairs.decode([token - SPECIALS for token in ids]))

    def _contents(self) -> Any:
        return json.loads(self._pairs.to_str())


class ClipTokenizer(Tokenizer):
    """Lower case. PAD is 0, which is also a piece of `!!`; UNK is EOS.

    Spaces stand between words and punctuation once they are decoded. As CLIP's own, but without ftfy's repair
    of text in a broken encoding.
    """

    name = "clip"

    def __init__(self, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> None:
        from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
        from tokenizers import Tokenizer as Pairs

        self._vocabulary, self._merges = vocabulary, merges
        self.size = len(vocabulary)
        self.bos, self.eos = vocabulary["<|startoftext|>"], vocabulary["<|endoftext|>"]
        self.unk = self.eos
        self._pairs = Pairs(models.BPE(vocabulary, merges, end_of_word_suffix="</w>"))
        spaces = normalizers.Replace(Regex(r"\s+"), " ")
        self._pairs.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
        words = pre_tokenizers.Split(Regex(PATTERN), behavior="removed", invert=True)
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._pairs.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
        # Ġ is the byte of a space.
        self._pairs.decoder = decoders.Sequence([decoders.Replace("</w>", "Ġ"), decoders.ByteLevel()])

    def encode(self, text: str) -> list[int]:
        return list(self._pairs.encode(html.unescape(html.unescape(text)).strip()).ids)

    def decode(self, ids: Iterable[int]) -> str:
        tokens = list(takewhile(lambda token: token != self.eos, ids))
        # no word ends with id 0, which stands in front of another sign only
        while tokens and tokens[-1] == self.pad:
            tokens.pop()
        return super().decode(tokens)

    def _has_text(self, token: int) -> bool:
        return 0 <= token < self.size and token not in (self.bos, self.eos)

    def _text(self, ids: list[int]) -> str:
        return str(self._pairs.decode(ids, skip_special_tokens=False)).strip()

    def _contents(self) -> Any:
        return {"vocabulary": self._vocabulary, "merges": [list(pair) for pair in self._merges]}


def clip_files(config: Captioned, folder: Path) -> tuple[Path, Path]:
    """Return CLIP's two files, below the data folder or in the Hugging Face cache; nothing is downloaded."""
    clip_folder = folder / config.clip_files
    if all((clip_folder / name).exists() for name in FILES):
        return clip_folder / FILES[0], clip_folder / FILES[1]
    from huggingface_hub import try_to_load_from_cache

    cached = [try_to_load_from_cache(REPOSITORY, name) for name in FILES]
    if not all(isinstance(file, str) for file in cached):
        raise DataError(
            f"CLIP's tokenizer not found: neither {clip_folder} nor the Hugging Face cache has"
            f" {' and '.join(FILES)}. Put both, from {REPOSITORY}, into {clip_folder}, or set data.clip_files."
        )
    return Path(str(cached[0])), Path(str(cached[1]))


def read_clip(vocab: Path, merges: Path) -> Tokenizer:
    """Read the tokenizer of the two files; a DataError where they are not CLIP's."""
    try:
        vocabulary = {str(piece): int(token) for piece, token in json.loads(vocab.read_text("utf-8")).items()}
        lines = [
            line
            for line in merges.read_text("utf-8").splitlines()
            if line and not line.startswith("#version")
        ]
        pairs = [(left, right) for left, right in (line.split() for line in lines)]
        tokenizer = ClipTokenizer(vocabulary, pairs)
    except Exception as error:  # tokenizers raises plain Exception for merges that the vocabulary lacks
        raise DataError(
            f"{vocab} and {merges.name} are not CLIP's ({error!r}). Take both from {REPOSITORY}."
        ) from None
    if tokenizer.size > CLIP_VOCABULARY:
        raise DataError(
            f"{vocab} has {tokenizer.size:,} ids, but CLIP has {CLIP_VOCABULARY:,}. Take it from"
            f" {REPOSITORY}."
        )
    return tokenizer


def collapse_spaces(text: str) -> str:
    """Return the text on one line, with one space between words."""
    return " ".join(text.split())


def report(text: str) -> str:
    """Return words, numbers and ` . ` after each sentence, in lower case.

    The MicarVLMoE paper says: "Reports are cleaned by removing de-identified and alphanumeric tokens"; its
        code
    (AI-14/micar-vl-moe, preprocessors/) has a cleaner a data set, which disagree on commas and measures. This
    is one for all.

    - Marks of what was hidden go: `[**...**]`, `___`, words of x alone (`xxxx`).
    - Tokens of letters and digits go (`3b`, `1.5cm`, `t2`); plain numbers and decimals stay.
    - The numbers of a list go: `1. clear lungs 2. ...`, at the beginning or after a sentence.
    - Apostrophes go; other punctuation parts words and goes, so `ground-glass` is two words.
    - `.`, `!` and `?` end a sentence, and so does the end. Nothing is left of a text without a word.
    """
    text = _PLACEHOLDER.sub(" ", collapse_spaces(text).lower().replace("'", "").replace(_APOSTROPHE, ""))
    text = _ENUMERATION.sub(r"\1", text)
    words: list[str] = []
    for token in [*_TOKEN.findall(text), "."]:
        word = "." if token in "!?" else token
        is_second_stop = word == "." and (not words or words[-1] == ".")
        if not (is_second_stop or _HIDDEN.fullmatch(word) or _MIXED.match(word)):
            words.append(word)
    return " ".join(words)


CLEANERS = {"none": collapse_spaces, "report": report}


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
            return ClipTokenizer(
                contents["vocabulary"], [(left, right) for left, right in contents["merges"]]
            )
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
    held_mask: Mask | None = None,
    notes: tuple[str, ...] = (),
) -> Arrays:
    """Return a decoded set of N images and their captions, of which the first `train` images are for
    training.

    The tokenizer learns from the first captions of the training images that are not `held` out for
    validation.
    """
    firsts = [texts[0] for texts in captions]
    learn = (
        firsts[:train]
        if held_mask is None
        else [first for first, is_held in zip(firsts, held_mask, strict=False) if not is_held]
    )
    tokenizer = tokenizer_of(config, learn, folder)
    labels, cut = tokens(firsts, tokenizer, config.length)
    noted = list(notes)
    if cut:
        captions_are = "1 caption is" if cut == 1 else f"{cut:,} captions are"
        noted.append(f"{captions_are} longer than data.length ({config.length} tokens): cut")
    if config.tokenizer == "word":
        ids = [token for caption in firsts for token in tokenizer.encode(caption)]
        share = 100 * ids.count(tokenizer.unk) / max(len(ids), 1)
        noted.append(
            f"{tokenizer.size:,} of {config.classes:,} ids are used; {share:.1f} % of the words have none of"
            " their own"
        )
    decoded = Arrays.cut(train, images=images, labels=labels, groups=groups, captions=list(captions))
    return decoded._replace(train_held=held_mask, notes=tuple(noted), tokenizer=tokenizer.stored())
