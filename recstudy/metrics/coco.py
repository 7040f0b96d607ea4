"""How good generated captions are, against one or several reference captions of each image.

All by pycocoevalcap, the code that the literature's numbers come from, over the same Penn Treebank words:

    BLEU-1..4  clipped n-gram precision of the corpus, closest reference length, brevity penalty, no smoothing
    ROUGE-L    longest common subsequence, F with beta 1.2; the best precision and the best recall of any reference; mean
    CIDEr      CIDEr-D: tf-idf over these references, n = 1..4, length penalty (sigma 6), times 10, no stemming
    METEOR     version 1.5 in Java: stems, synonyms and paraphrases, the English weights
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from recstudy.metrics import java
from recstudy.metrics.missing import NotAvailable
from recstudy.metrics.penn_treebank import words

Texts = dict[int, list[str]]


@dataclass(frozen=True, eq=False)
class Words:
    """Captions as words with one space between, of the images that have a reference; a score belongs with the name of the
    `tokenizer` that cut them."""

    written: list[str]
    references: list[list[str]]
    tokenizer: str
    notes: tuple[str, ...]  # what a reader must know beside the scores

    @cached_property
    def bleu(self) -> list[float]:
        """BLEU-1 to BLEU-4."""
        bleu, _ = Bleu(4).compute_score(*self._theirs(), verbose=0)
        return [float(value) for value in bleu]

    @cached_property
    def rouge_l(self) -> float:
        return float(Rouge().compute_score(*self._theirs())[0])

    def cider(self) -> float:
        self._theirs()
        if len(self.written) == 1:
            raise NotAvailable("undefined for one image: its weights are log(images / images with the n-gram)")
        return float(Cider().compute_score(*self._theirs())[0])

    @cached_property
    def meteor(self) -> float:
        self._theirs()
        return java.meteor(self.written, self.references)

    def _theirs(self) -> tuple[Texts, Texts]:
        if not self.written:
            raise NotAvailable("no image has a reference caption")
        return dict(enumerate(self.references)), {at: [hypothesis] for at, hypothesis in enumerate(self.written)}


def cut(written: Sequence[str], references: Sequence[Sequence[str]]) -> Words:
    """One generated caption and one or more references an image, in words.

    Images without a reference that has a word are left out and counted in the notes, where empty captions are counted too.

    Raises:
        ValueError: not as many captions as images with references.
    """
    if len(written) != len(references):
        raise ValueError(f"{len(written)} captions for {len(references)} images")
    tokenised, tokenizer, reason = words([*written, *chain.from_iterable(references)])
    ends = list(accumulate(map(len, references), initial=len(written)))
    told = [[caption for caption in tokenised[start:end] if caption] for start, end in pairwise(ends)]
    pairs = [(hypothesis, own) for hypothesis, own in zip(tokenised, told, strict=False) if own]
    return Words([one for one, _ in pairs], [own for _, own in pairs], tokenizer, _notes(written, pairs, reason))


def _notes(written: Sequence[str], pairs: Sequence[tuple[str, list[str]]], reason: str | None) -> tuple[str, ...]:
    """What a reader must know beside the numbers."""
    silent, empty = len(written) - len(pairs), sum(not hypothesis for hypothesis, _ in pairs)
    notes = {
        f"the tokenizer is an approximation, not comparable with Stanford's: {reason}": reason is not None,
        f"{silent:,} of {len(written):,} images have no reference caption and are left out": silent,
        f"{empty:,} of {len(pairs):,} generated captions have no word": empty,
    }
    return tuple(note for note, holds in notes.items() if holds)
