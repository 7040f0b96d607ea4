"""How good generated captions are, against one or several reference captions of each image.

All by pycocoevalcap, the code that the literature's numbers come from, over the same Penn Treebank words:

    BLEU-1..4  clipped n-gram precision of the corpus, closest reference length, brevity penalty, no smoothing
    ROUGE-L    longest common subsequence, F with beta 1.2; the best precision and the best recall of any reference; mean
    CIDEr      CIDEr-D: tf-idf over these references, n = 1..4, length penalty (sigma 6), times 10, no stemming
    METEOR     version 1.5 in Java: stems, synonyms and paraphrases, the English weights
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from recstudy.metrics.java import meteor
from recstudy.metrics.missing import NotAvailable
from recstudy.metrics.penn_treebank import words

NAMES = ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "avg_bleu", "rouge_l", "cider", "meteor")


@dataclass(frozen=True)
class CaptionScores:
    """`values` by name, and why others are `missing`; a score belongs with the name of the `tokenizer` it was computed on."""

    values: dict[str, float]  # fractions; CIDEr on pycocoevalcap's scale, which is ten times the mean cosine
    missing: dict[str, str]
    tokenizer: str
    notes: tuple[str, ...]


def caption_scores(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> CaptionScores:
    """BLEU-1..4 and their mean (003), ROUGE-L, CIDEr and METEOR of one generated caption and one or more references an image.

    Images without a reference that has a word are left out and counted in the notes, where empty hypotheses are counted too.

    Raises:
        ValueError: not as many hypotheses as images with references.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} images")
    tokenised, tokenizer, reason = words([*hypotheses, *chain.from_iterable(references)])
    ends = list(accumulate(map(len, references), initial=len(hypotheses)))
    told = [[caption for caption in tokenised[start:end] if caption] for start, end in pairwise(ends)]
    pairs = [(hypothesis, own) for hypothesis, own in zip(tokenised, told, strict=False) if own]
    values, missing = _scores([hypothesis for hypothesis, _ in pairs], [own for _, own in pairs])
    return CaptionScores(values, missing, tokenizer, _notes(hypotheses, pairs, reason))


def _scores(hypotheses: list[str], references: list[list[str]]) -> tuple[dict[str, float], dict[str, str]]:
    """Values and missing ones over images that have references, all captions being words with one space between."""
    if not hypotheses:
        return {}, dict.fromkeys(NAMES, "no image has a reference caption")
    theirs = dict(enumerate(references)), {at: [hypothesis] for at, hypothesis in enumerate(hypotheses)}
    bleu, _ = Bleu(4).compute_score(*theirs, verbose=0)
    values = dict(zip(NAMES, map(float, (*bleu, sum(bleu) / 4)), strict=False))
    values["rouge_l"] = float(Rouge().compute_score(*theirs)[0])
    missing = {}
    if len(hypotheses) > 1:
        values["cider"] = float(Cider().compute_score(*theirs)[0])
    else:
        missing["cider"] = "undefined for one image: its weights are log(images / images with the n-gram)"
    try:
        values["meteor"] = meteor(hypotheses, references)
    except NotAvailable as reason:
        missing["meteor"] = str(reason)
    return values, missing


def _notes(hypotheses: Sequence[str], pairs: Sequence[tuple[str, list[str]]], reason: str | None) -> tuple[str, ...]:
    """What a reader must know beside the numbers."""
    silent, empty = len(hypotheses) - len(pairs), sum(not hypothesis for hypothesis, _ in pairs)
    notes = {
        f"the tokenizer is an approximation, not comparable with Stanford's: {reason}": reason is not None,
        f"{silent:,} of {len(hypotheses):,} images have no reference caption and are left out": silent,
        f"{empty:,} of {len(pairs):,} generated captions have no word": empty,
    }
    return tuple(note for note, holds in notes.items() if holds)
