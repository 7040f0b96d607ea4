"""CLIP's tokenizer, from its two files: byte pairs with ids of their own (models.md 7.2)."""

import html
import json
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.data.captions import CLIP_VOCABULARY, Captioned
from recstudy.data.text_tokenizers import Tokenizer
from recstudy.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Pairs

REPOSITORY = "openai/clip-vit-base-patch32"  # of Hugging Face
FILES = ("vocab.json", "merges.txt")
# CLIP's own pattern: github.com/openai/CLIP, clip/simple_tokenizer.py.
PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


class ClipTokenizer(Tokenizer):
    """Lower case. PAD is 0, which is also a piece of `!!`; UNK is EOS.

    Spaces stand between words and punctuation once they are decoded. As CLIP's own, but without ftfy's repair of text
    in a broken encoding.
    """

    name = "clip"

    def __init__(self, vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> None:
        self._vocabulary, self._merges = vocabulary, merges
        self._pairs = _clip_pairs(vocabulary, merges)
        self.size = len(vocabulary)
        self.bos, self.eos = vocabulary["<|startoftext|>"], vocabulary["<|endoftext|>"]
        self.unk = self.eos

    def encode(self, text: str) -> list[int]:
        return list(self._pairs.encode(_unescaped(text)).ids)

    def normalise(self, text: str) -> str:
        split = self._pairs.pre_tokenizer.pre_tokenize_str(self._pairs.normalizer.normalize_str(_unescaped(text)))
        return " ".join(self._pairs.decoder.decode([piece]) for piece, _ in split)

    def decode(self, ids: Iterable[int]) -> str:
        kept = list(takewhile(lambda one: one != self.eos, ids))
        while kept and kept[-1] == self.pad:  # no word ends with id 0, which stands in front of another sign only
            kept.pop()
        return self._text([one for one in kept if self._has_text(one)])

    def _has_text(self, one: int) -> bool:
        return 0 <= one < self.size and one not in (self.bos, self.eos)

    def _text(self, ids: list[int]) -> str:
        return str(self._pairs.decode(ids, skip_special_tokens=False)).strip()

    def _contents(self) -> Any:
        return {"vocabulary": self._vocabulary, "merges": [list(pair) for pair in self._merges]}


def _unescaped(text: str) -> str:
    return html.unescape(html.unescape(text)).strip()


def _clip_pairs(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> "Pairs":
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
    from tokenizers import Tokenizer as Pairs

    pairs = Pairs(models.BPE(vocabulary, merges, end_of_word_suffix="</w>"))
    spaces = normalizers.Replace(Regex(r"\s+"), " ")
    pairs.normalizer = normalizers.Sequence([normalizers.NFC(), spaces, normalizers.Lowercase()])
    words = pre_tokenizers.Split(Regex(PATTERN), behavior="removed", invert=True)
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pairs.pre_tokenizer = pre_tokenizers.Sequence([words, to_bytes])
    pairs.decoder = decoders.Sequence([decoders.Replace("</w>", "Ġ"), decoders.ByteLevel()])  # Ġ is the byte of a space
    return pairs


def clip_files(config: Captioned, folder: Path) -> tuple[Path, Path]:
    """CLIP's two files, below the data folder or in the Hugging Face cache; nothing is downloaded."""
    given = folder / config.clip_files
    if all((given / name).exists() for name in FILES):
        return given / FILES[0], given / FILES[1]
    from huggingface_hub import try_to_load_from_cache

    cached = [try_to_load_from_cache(REPOSITORY, name) for name in FILES]
    if not all(isinstance(file, str) for file in cached):
        raise DataError(
            f"CLIP's tokenizer not found: neither {given} nor the Hugging Face cache has {' and '.join(FILES)}. "
            f"Put both, from {REPOSITORY}, into {given}, or set data.clip_files."
        )
    return Path(str(cached[0])), Path(str(cached[1]))


def read_clip(vocab: Path, merges: Path) -> Tokenizer:
    """The tokenizer of the two files; a DataError where they are not CLIP's."""
    try:
        vocabulary = {str(piece): int(one) for piece, one in json.loads(vocab.read_text("utf-8")).items()}
        lines = [line for line in merges.read_text("utf-8").splitlines() if line and not line.startswith("#version")]
        pairs = [(left, right) for left, right in (line.split() for line in lines)]
        tokenizer = ClipTokenizer(vocabulary, pairs)
    except Exception as error:  # tokenizers raises plain Exception for merges that the vocabulary lacks
        raise DataError(f"{vocab} and {merges.name} are not CLIP's ({error!r}). Take both from {REPOSITORY}.") from None
    if tokenizer.size > CLIP_VOCABULARY:
        raise DataError(f"{vocab} has {tokenizer.size:,} ids, but CLIP has {CLIP_VOCABULARY:,}. Take it from {REPOSITORY}.")
    return tokenizer
