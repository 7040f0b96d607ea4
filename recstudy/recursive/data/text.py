"""The settings of captioned images, their tokenizers, the cleaning of captions, and the tokens as labels.

The byte, word and BPE tokenizers need no files. CLIP's tokenizer is read from its two files (models.md 7.2).

    ids 0 to 3      PAD, BOS, EOS, UNK; CLIP's vocabulary has ids of its own
    ids from 4      byte b is 4 + b; words and byte pairs in the order of their vocabulary

The word and BPE tokenizers learn their vocabulary from the training captions. The cache stores a tokenizer
with its tokens. Its checksum shows whether a checkpoint was trained with the same tokenizer.

Shapes: N captions, T tokens.
"""

from __future__ import annotations

import html
import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress, takewhile
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from recstudy.base.errors import DataError
from recstudy.base.values import digest
from recstudy.records.files import Json
from recstudy.recursive.config.parts import PAD, DataConfig, Shape
from recstudy.recursive.config.reader import Arrays, Labels, Mask, Pixels, Tokens, np

SPECIALS = 4  # PAD, BOS, EOS and UNK are the first ids
BYTES = 256
CLIP_VOCABULARY = 49_408
CLIP_BOS, CLIP_EOS = CLIP_VOCABULARY - 2, CLIP_VOCABULARY - 1  # its last ids
REPOSITORY = "openai/clip-vit-base-patch32"  # on Hugging Face
FILES = ("vocab.json", "merges.txt")
# CLIP's own pattern: github.com/openai/CLIP, clip/simple_tokenizer.py.
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
WORD_COUNT = 3  # occurrences that a word needs to get an id (003, section IV.C)

_APOSTROPHE = "\u2019"
_PLACEHOLDER = re.compile(r"\[\*\*.*?\*\*\]")  # MIMIC's mark of removed identifiers
_ENUMERATION = re.compile(r"(^|[.:;!?]\s*)\(?\d{1,2}[.)]\s+")
_TOKEN = re.compile(r"\d+\.\d+[^\W_]*|[^\W_]+|[.!?]")
_HIDDEN = re.compile(r"x{2,}")
_MIXED = re.compile(r"(?=.*\d)(?=.*[^\W\d_])")


class Captioned(DataConfig):
    """Colour images with captions. The labels are the tokens of an image's first caption.

    A row of labels is BOS, the words, EOS and PAD.
    """

    task: ClassVar = "caption"

    tokenizer: Literal["byte", "word", "bpe", "clip"] = "byte"
    """byte: one token per byte; word: words that occur 3 times in the training captions (MicarVLMoE); bpe:
    byte pairs learned from the training captions; clip: CLIP's tokenizer (FuseLIP), from its files"""
    vocabulary: int = Field(1000, ge=16, le=100_000)
    """V: maximum number of ids of 'word' and 'bpe', including 4 special ids"""
    length: int = Field(512, ge=4, le=4096)
    """tokens per caption, including BOS and EOS; longer captions are cut and counted"""
    size: int = Field(224, ge=16, le=1024)
    """images are resized and centre-cropped to this many pixels per side"""
    clean: Literal["none", "report"] = "none"
    """none: only white space is normalized; report: captions are cleaned like reports in MicarVLMoE (see
    `text.py`)"""
    clip_files: str = "clip"
    """folder of CLIP's vocab.json and merges.txt, relative to the data folder; if they are missing, the
    Hugging Face cache is used"""

    @property
    def shape(self) -> Shape:
        return (3, self.size, self.size)

    @property
    def classes(self) -> int:
        """Number of ids that a model can output. A tokenizer of few training captions may use fewer."""
        fixed = {"byte": BYTES + SPECIALS, "clip": CLIP_VOCABULARY}
        return fixed.get(self.tokenizer, self.vocabulary)

    @property
    def tokens(self) -> int:
        return self.length

    @property
    def special_tokens(self) -> tuple[int, int, int]:
        return (PAD, CLIP_BOS, CLIP_EOS) if self.tokenizer == "clip" else (PAD, 1, 2)

    @model_validator(mode="after")
    def _bytes_have_ids(self) -> Self:
        if self.tokenizer == "bpe" and self.vocabulary < BYTES + SPECIALS:
            raise ValueError(
                f"vocabulary must be at least {BYTES + SPECIALS} with tokenizer 'bpe', but is"
                f" {self.vocabulary}"
            )
        return self


class Tokenizer(ABC):
    """Conversion of text to ids and back."""

    name: ClassVar[str]
    size: int  # number of ids, which are 0 to size - 1
    contents: Any  # JSON value from which `restore` creates an equal tokenizer
    pad, bos, eos, unk = range(SPECIALS)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the ids of `text`, without BOS and EOS."""

    @abstractmethod
    def _text(self, ids: list[int]) -> str:
        """Return the text of ids, none of which is special."""

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text up to the first EOS. Special and unknown ids are left out."""
        return self._text([*filter(self._has_text, takewhile(lambda token: token != self.eos, ids))])

    def stored(self) -> Json:
        """Return JSON values from which `restore` creates an equal tokenizer."""
        return {"name": self.name, "contents": self.contents}

    @property
    def checksum(self) -> str:
        """A digest of 20 hex digits, which is equal only for equal tokenizers."""
        return digest(self.stored(), 20)

    def _has_text(self, token: int) -> bool:
        return SPECIALS <= token < self.size


class ByteTokenizer(Tokenizer):
    """One token per byte of UTF-8. Ids that are not valid UTF-8 become the replacement character."""

    name = "byte"

    def __init__(self, contents: None = None) -> None:
        self.contents, self.size = contents, BYTES + SPECIALS

    def encode(self, text: str) -> list[int]:
        return [SPECIALS + byte for byte in text.encode()]

    def _text(self, ids: list[int]) -> str:
        return bytes(token - SPECIALS for token in ids).decode(errors="replace")


class WordTokenizer(Tokenizer):
    """One token per word between white space. Unknown words are UNK, which decodes to nothing."""

    name = "word"

    def __init__(self, words: Sequence[str]) -> None:
        self.contents, self.size = list(words), SPECIALS + len(words)
        self._ids = {word: SPECIALS + place for place, word in enumerate(words)}

    @classmethod
    def train(cls, captions: Iterable[str], vocabulary: int) -> WordTokenizer:
        """Learn the most frequent words of the captions.

        Args:
            captions: The training captions.
            vocabulary: Maximum number of ids, including the special ones.

        Raises:
            DataError: If no word occurs at least `WORD_COUNT` times.
        """
        counts = Counter(word for caption in captions for word in caption.split())
        # Equally frequent words are in alphabetical order.
        frequent = sorted((-count, word) for word, count in counts.items() if count >= WORD_COUNT)
        if not frequent:
            raise DataError(
                f"no word occurs {WORD_COUNT} times in the training captions, so no word would have an id. "
                "Set data.tokenizer to 'byte' or 'bpe'."
            )
        return cls([word for _, word in frequent[: vocabulary - SPECIALS]])

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(word, self.unk) for word in text.split()]

    def _text(self, ids: list[int]) -> str:
        return " ".join(self.contents[token - SPECIALS] for token in ids)


class BpeTokenizer(Tokenizer):
    """Byte pairs of Hugging Face `tokenizers`: bytes and frequent parts of words. Decoding is lossless."""

    name = "bpe"

    def __init__(self, contents: Mapping[str, Any]) -> None:
        from tokenizers import Tokenizer as Pairs

        self.contents, self._pairs = contents, Pairs.from_str(json.dumps(contents))
        self.size = SPECIALS + self._pairs.get_vocab_size()

    @classmethod
    def train(cls, captions: Iterable[str], vocabulary: int) -> BpeTokenizer:
        """Learn byte pairs from the captions, with at most `vocabulary` ids including the special ones."""
        from tokenizers import Tokenizer as Pairs
        from tokenizers import decoders, models, pre_tokenizers, trainers

        pairs = Pairs(models.BPE())
        pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        pairs.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary - SPECIALS,
            min_frequency=2,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        pairs.train_from_iterator(captions, trainer)
        return cls(json.loads(pairs.to_str()))

    def encode(self, text: str) -> list[int]:
        return [SPECIALS + token for token in self._pairs.encode(text).ids]

    def _text(self, ids: list[int]) -> str:
        return str(self._pairs.decode([token - SPECIALS for token in ids]))


class ClipTokenizer(Tokenizer):
    """CLIP's tokenizer, in lower case. PAD is 0, which is also a piece of `!!`; UNK is EOS.

    It differs from CLIP's own by not repairing broken encodings with ftfy. Decoded text has spaces between
    words and punctuation.
    """

    name = "clip"

    def __init__(self, contents: Mapping[str, Any]) -> None:
        from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
        from tokenizers import Tokenizer as Pairs

        self.contents, vocabulary = contents, contents["vocabulary"]
        self.size = len(vocabulary)
        self.bos, self.eos = vocabulary["<|startoftext|>"], vocabulary["<|endoftext|>"]
        self.unk = self.eos
        merges = [(left, right) for left, right in contents["merges"]]
        self._pairs = Pairs(models.BPE(vocabulary, merges, end_of_word_suffix="</w>"))
        spaces = normalizers.Replace(Regex(r"\s+"), " ")
        self._pairs.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
        words = pre_tokenizers.Split(Regex(PATTERN), behavior="removed", invert=True)
        to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        self._pairs.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
        # Ġ represents the byte of a space.
        self._pairs.decoder = decoders.Sequence([decoders.Replace("</w>", "Ġ"), decoders.ByteLevel()])

    def encode(self, text: str) -> list[int]:
        return list(self._pairs.encode(html.unescape(html.unescape(text)).strip()).ids)

    def decode(self, ids: Iterable[int]) -> str:
        tokens = list(takewhile(lambda token: token != self.eos, ids))
        # No word ends with id 0, which only occurs before another sign. So ids 0 at the end are PAD.
        while tokens and tokens[-1] == self.pad:
            tokens.pop()
        return super().decode(tokens)

    def _has_text(self, token: int) -> bool:
        return 0 <= token < self.size and token not in (self.bos, self.eos)

    def _text(self, ids: list[int]) -> str:
        return str(self._pairs.decode(ids, skip_special_tokens=False)).strip()


def clip_files(config: Captioned, folder: Path) -> tuple[Path, Path]:
    """Return CLIP's two files, from the data folder or the Hugging Face cache. Nothing is downloaded.

    Raises:
        DataError: If the files are in neither place.
    """
    clip_folder = folder / config.clip_files
    if all((clip_folder / name).exists() for name in FILES):
        return clip_folder / FILES[0], clip_folder / FILES[1]
    from huggingface_hub import try_to_load_from_cache

    cached = [try_to_load_from_cache(REPOSITORY, name) for name in FILES]
    if not all(isinstance(file, str) for file in cached):
        raise DataError(
            f"CLIP's tokenizer not found: neither {clip_folder} nor the Hugging Face cache has"
            f" {' and '.join(FILES)}. Put both files of {REPOSITORY} there, or set data.clip_files."
        )
    return Path(str(cached[0])), Path(str(cached[1]))


def read_clip(vocab: Path, merges: Path) -> Tokenizer:
    """Read CLIP's tokenizer from its two files.

    Raises:
        DataError: If the files are not CLIP's.
    """
    try:
        vocabulary = {str(piece): int(token) for piece, token in json.loads(vocab.read_text("utf-8")).items()}
        lines = merges.read_text("utf-8").splitlines()
        pairs = [line.split() for line in lines if line and not line.startswith("#version")]
        tokenizer = ClipTokenizer({"vocabulary": vocabulary, "merges": pairs})
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
    """Clean a report: return words and numbers in lower case, with ` . ` after each sentence.

    - De-identification marks are removed: `[**...**]`, `___`, and words of x only (`xxxx`).
    - Tokens of letters and digits are removed (`3b`, `1.5cm`, `t2`). Integers and decimals are kept.
    - List numbers are removed (`1. clear lungs 2. ...`), at the beginning or after a sentence.
    - Apostrophes are removed. Other punctuation separates words, so `ground-glass` is two words.
    - `.`, `!`, `?` and the end of the text end a sentence. A text without words becomes empty.
    """
    # The MicarVLMoE paper says: "Reports are cleaned by removing de-identified and alphanumeric tokens". Its
    # code (AI-14/micar-vl-moe, preprocessors/) has one cleaner per data set, and they disagree on commas and
    # measures. This function is the same for all sets.
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


TOKENIZERS: dict[str, Callable[[Any], Tokenizer]] = {
    kind.name: kind for kind in (ByteTokenizer, WordTokenizer, BpeTokenizer, ClipTokenizer)
}


def restore(stored: Json) -> Tokenizer:
    """Create a tokenizer from the result of `Tokenizer.stored`."""
    return TOKENIZERS[stored["name"]](stored["contents"])


def tokenizer_of(config: Captioned, captions: Sequence[str], folder: Path) -> Tokenizer:
    """Create the tokenizer of a config.

    Args:
        config: Its `tokenizer` and `vocabulary` decide.
        captions: Training captions, from which the word and BPE tokenizers learn.
        folder: The data folder, for CLIP's files.

    Raises:
        DataError: If CLIP's files are missing or not CLIP's, or no word is frequent enough.
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
    """Encode captions to a fixed length.

    Returns:
        (N, T) int32 of BOS, words, EOS and PAD, and the number of captions that were cut.
    """
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
    """Tokenize captions and return the arrays of a captioned set.

    The tokenizer learns from the first captions of the training images that are not held out for validation.

    Args:
        config: Config of the set.
        folder: The data folder, for CLIP's files.
        images: (N, 3, H, W) uint8.
        captions: N lists of captions.
        train: Number of training images, which come first.
        groups: (N,) patient or case of each image; None without groups.
        held_mask: (train,) the set's own validation split; None without one.
        notes: Notes of the data set, which are extended.
    """
    firsts = [texts[0] for texts in captions]
    learned = firsts[:train] if held_mask is None else list(compress(firsts, ~held_mask))
    tokenizer = tokenizer_of(config, learned, folder)
    labels, cut = tokens(firsts, tokenizer, config.length)
    if cut:
        captions_are = "1 caption is" if cut == 1 else f"{cut:,} captions are"
        notes += (f"{captions_are} longer than data.length ({config.length} tokens): cut",)
    if config.tokenizer == "word":
        ids = [token for caption in firsts for token in tokenizer.encode(caption)]
        share = 100 * ids.count(tokenizer.unk) / max(len(ids), 1)
        notes += (
            f"the tokenizer uses {tokenizer.size:,} of {config.classes:,} ids; {share:.1f} % of the words are"
            " unknown (UNK)",
        )
    decoded = Arrays.cut(train, images=images, labels=labels, groups=groups, captions=list(captions))
    return decoded._replace(train_held=held_mask, notes=notes, tokenizer=tokenizer.stored())
