"""The caption scores of the MicarVLMoE paper (003), whose program computes them otherwise than pycocoevalcap does.

    words     lower case, every punctuation mark a space (jury)
    BLEU      of the corpus, against the shortest reference, 0 where one of its n-gram precisions is 0 (tensorflow/nmt)
    METEOR    NLTK's: alpha 0.9, beta 3, gamma 0.5, words equal or of equal stem; the paper's also counts WordNet's synonyms
    ROUGE-L   F1 over letters and digits without stemming (rouge_score); its program prints the median of a bootstrap, we the mean

METEOR and ROUGE-L are means over the images, each with its best reference. None is comparable with the score of the same name.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from math import exp, prod
from statistics import mean

from pycocoevalcap.rouge.rouge import my_lcs as longest_common_subsequence

from recstudy.metrics.porter import stem

PUNCTUATION = re.compile(f"[{re.escape(string.punctuation)}]")
ALPHA, BETA, GAMMA = 0.9, 3, 0.5


def official_scores_003(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """`nmt_bleu_1` to `nmt_bleu_4`, `nltk_meteor_without_wordnet` and `rouge_l_f1`, fractions, over one or more images.

    Raises:
        ValueError: an image without a reference, or not as many hypotheses as images.
    """
    if not all(references) or len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} hypotheses for {len(references)} images, each of which needs a reference")
    told = [jury_words(caption) for caption in hypotheses]
    truth = [[jury_words(caption) for caption in own] for own in references]
    scores = {f"nmt_bleu_{order}": nmt_bleu(told, truth, order) for order in range(1, 5)}
    pairs = list(zip(told, truth, strict=True))
    scores["nltk_meteor_without_wordnet"] = mean(max(nltk_meteor(one, other) for other in own) for one, own in pairs)
    raw = zip(hypotheses, references, strict=True)
    scores["rouge_l_f1"] = mean(max(rouge_l_f1(one, other) for other in own) for one, own in raw)
    return scores


def jury_words(caption: str) -> list[str]:
    return PUNCTUATION.sub(" ", caption).lower().split()


def nmt_bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]], order: int) -> float:
    """BLEU of the corpus up to n-grams of `order`."""
    matched, possible = Counter[int](), Counter[int]()
    for hypothesis, own in zip(hypotheses, references, strict=True):
        for n in range(1, order + 1):
            most = Counter[tuple[str, ...]]()
            for reference in own:
                most |= _ngrams(reference, n)
            matched[n] += (_ngrams(hypothesis, n) & most).total()
            possible[n] += max(0, len(hypothesis) - n + 1)
    if not all(matched[n] for n in range(1, order + 1)):
        return 0.0
    ratio = sum(map(len, hypotheses)) / sum(min(map(len, own)) for own in references)
    return min(1.0, exp(1 - 1 / ratio)) * prod(matched[n] / possible[n] for n in matched) ** (1 / order)


def _ngrams(words: Sequence[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(words[at : at + n]) for at in range(len(words) - n + 1))


def nltk_meteor(hypothesis: Sequence[str], reference: Sequence[str]) -> float:
    """METEOR of one caption; words are matched from the last to the first, equal ones before those of equal stem."""
    left, right = dict(enumerate(hypothesis)), dict(enumerate(reference))
    matches = _matched(left, right)
    matches += _matched({at: stem(word) for at, word in left.items()}, {at: stem(word) for at, word in right.items()})
    if not matches:
        return 0.0
    matches.sort()
    chunks = 1 + sum(after != (at + 1, to + 1) for (at, to), after in pairwise(matches))
    precision, recall = len(matches) / len(hypothesis), len(matches) / len(reference)
    f_mean = precision * recall / (ALPHA * precision + (1 - ALPHA) * recall)
    return f_mean * (1 - GAMMA * (chunks / len(matches)) ** BETA)


def _matched(left: dict[int, str], right: dict[int, str]) -> list[tuple[int, int]]:
    """Positions of equal words, which are taken out of both."""
    matches = []
    for at in sorted(left, reverse=True):
        to = next((to for to in sorted(right, reverse=True) if right[to] == left[at]), None)
        if to is not None:
            matches.append((at, to))
            del left[at], right[to]
    return matches


def rouge_l_f1(hypothesis: str, reference: str) -> float:
    """F1 of the longest common subsequence of one caption's words."""
    told, truth = (re.findall("[a-z0-9]+", caption.lower()) for caption in (hypothesis, reference))
    common = longest_common_subsequence(told, truth) if told and truth else 0
    return 2 * common / (len(told) + len(truth)) if common else 0.0
