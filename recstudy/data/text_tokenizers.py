"""The tokenizers that need no files: bytes, words, and pieces of words.

ids 0 to 3      PAD, BOS, EOS, UNK
ids from 4      byte b is 4 + b; words and pieces of words in the order of their vocabulary
"""

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar

from recstudy.config import digest
from recstudy.data.captions import BYTES, SPECIALS
from recstudy.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Pairs

WORD_COUNT = 3  # times that a word must be there to have an id (003, section IV.C)


class Tokenizer(ABC):
    """Text to ids and back. `decode(encode(text))` is `normalise(text)`."""

    name: ClassVar[str]
    size: int  # ids that it gives: 0 to size - 1
    pad, bos, eos, unk = range(SPECIALS)

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without BOS and EOS."""

    @abstractmethod
    def _text(self, ids: list[int]) -> str:
        """The text of ids among which is nothing special."""

    @abstractmethod
    def _contents(self) -> Any:
        """What `restore` needs beside the name, as JSON values."""

    def normalise(self, text: str) -> str:
        """What of a text the ids hold."""
        return text

    def decode(self, ids: Iterable[int]) -> str:
        """The text up to the first EOS. Special ids and ids that the tokenizer does not give are left out."""
        return self._text([one for one in takewhile(lambda one: one != self.eos, ids) if self._has_text(one)])

    def stored(self) -> dict[str, Any]:
        """JSON values, of which `restore` makes an equal tokenizer."""
        return {"name": self.name, "contents": self._contents()}

    @property
    def checksum(self) -> str:
        """20 hex digits, equal for equal tokenizers only."""
        return digest(self.stored(), 20)

    def _has_text(self, one: int) -> bool:
        return SPECIALS <= one < self.size


class ByteTokenizer(Tokenizer):
    """A token a byte of UTF-8. Ids that are no UTF-8 become the replacement character."""

    name = "byte"
    size = BYTES + SPECIALS

    def encode(self, text: str) -> list[int]:
        return [SPECIALS + byte for byte in text.encode()]

    def _text(self, ids: list[int]) -> str:
        return bytes(one - SPECIALS for one in ids).decode(errors="replace")

    def _contents(self) -> None:
        return None


class WordTokenizer(Tokenizer):
    """A token a word between white space; unknown words are UNK, and nothing once they are decoded."""

    name = "word"

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.size = SPECIALS + len(self.words)
        self._ids = {word: SPECIALS + place for place, word in enumerate(self.words)}

    @classmethod
    def train(cls, captions: Iterable[str], vocabulary: int) -> "WordTokenizer":
        """The most frequent words first, equally frequent ones by the alphabet.

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

    def normalise(self, text: str) -> str:
        return " ".join(word for word in text.split() if word in self._ids)

    def _text(self, ids: list[int]) -> str:
        return " ".join(self.words[one - SPECIALS] for one in ids)

    def _contents(self) -> list[str]:
        return self.words


class BpeTokenizer(Tokenizer):
    """Byte pairs (Hugging Face `tokenizers`): bytes, and the pieces of words that are frequent. Loses nothing."""

    name = "bpe"

    def __init__(self, pairs: "Pairs") -> None:
        self._pairs = pairs
        self.size = SPECIALS + pairs.get_vocab_size()

    @classmethod
    def train(cls, captions: Iterable[str], vocabulary: int) -> "BpeTokenizer":
        from tokenizers import Tokenizer as Pairs
        from tokenizers import decoders, models, pre_tokenizers, trainers

        pairs = Pairs(models.BPE())
        pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        pairs.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        size = vocabulary - SPECIALS
        trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=2, initial_alphabet=alphabet, show_progress=False)
        pairs.train_from_iterator(captions, trainer)
        return cls(pairs)

    def encode(self, text: str) -> list[int]:
        return [SPECIALS + one for one in self._pairs.encode(text).ids]

    def _text(self, ids: list[int]) -> str:
        return str(self._pairs.decode([one - SPECIALS for one in ids]))

    def _contents(self) -> Any:
        return json.loads(self._pairs.to_str())
