import math

import pytest

from recstudy.metrics.official_003 import jury_words, nltk_meteor, nmt_bleu, official_scores_003, rouge_l_f1
from recstudy.metrics.porter import stem

# The examples of Porter's paper, a few a step; those that NLTK changes say so.
STEMS = {
    "caresses": "caress", "ponies": "poni", "cats": "cat", "agreed": "agre", "plastered": "plaster", "bled": "bled", "sized": "size",
    "hopping": "hop", "falling": "fall", "filing": "file", "happy": "happi", "sky": "sky", "relational": "relat", "rational": "ration",
    "vietnamization": "vietnam", "triplicate": "triplic", "goodness": "good", "adoption": "adopt", "homologou": "homolog",
    "probate": "probat", "rate": "rate", "controll": "control", "roll": "roll", "no": "no", "opacities": "opac",
    "dies": "die", "dying": "die", "enjoy": "enjoy", "analogously": "analog", "radiologically": "radiolog",  # NLTK's
}  # fmt: skip


@pytest.mark.parametrize("word", STEMS)
def test_stems(word):
    assert stem(word) == STEMS[word]


def test_words_are_split_at_every_punctuation_mark():
    assert jury_words("A T2-weighted  image: 3.5 cm\n") == ["a", "t2", "weighted", "image", "3", "5", "cm"]


def test_bleu_by_hand():
    """5 of 6 words, 3 of 5 pairs, 1 of 4 triples, no four in a row; the shortest reference has a word more than the second caption."""
    told, truth = [["the", "cat", "sat", "on", "the", "mat"]], [[["the", "cat", "is", "on", "the", "mat"]]]

    assert nmt_bleu(told, truth, 2) == pytest.approx(math.sqrt(5 / 6 * 3 / 5))
    assert nmt_bleu(told, truth, 3) == pytest.approx(0.5)
    assert nmt_bleu(told, truth, 4) == 0
    assert nmt_bleu([["a", "b"]], [[["a", "b", "c", "d"], ["a", "b", "c"]]], 1) == pytest.approx(math.exp(1 - 3 / 2))


def test_meteor_by_hand():
    """Two equal words and one of equal stem, in one chunk; then the same words in two chunks."""
    f_mean = 0.75 / (0.9 + 0.1 * 0.75)

    assert nltk_meteor(["the", "cats", "sat"], ["the", "cat", "sat", "down"]) == pytest.approx(f_mean * (1 - 0.5 / 27))
    assert nltk_meteor(["sat", "the", "cats"], ["the", "cat", "sat", "down"]) == pytest.approx(f_mean * (1 - 0.5 * 8 / 27))
    assert nltk_meteor(["dog"], ["cat"]) == 0


def test_rouge_l_by_hand():
    assert rouge_l_f1("CT-scan of lung", "lung ct scan") == pytest.approx(2 * 2 / (4 + 3))
    assert rouge_l_f1("CT scans", "a ct scan") == pytest.approx(2 * 1 / (2 + 3))
    assert rouge_l_f1("?", "?") == 0


def test_the_best_reference_counts_and_empty_captions_score_nothing():
    scores = official_scores_003(["a mass", ""], [["no nodule", "a mass"], ["a mass"]])

    assert scores["rouge_l_f1"] == 0.5
    assert scores["nltk_meteor_without_wordnet"] == pytest.approx((1 - 0.5 / 8) / 2)
    assert scores["nmt_bleu_1"] == pytest.approx(math.exp(1 - 4 / 2))
    assert official_scores_003([""], [["a"]])["nmt_bleu_4"] == 0
    with pytest.raises(ValueError, match="each of which needs a reference"):
        official_scores_003(["a"], [[]])
