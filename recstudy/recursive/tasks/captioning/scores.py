"""Register the metrics of generated captions. `coco.py` and `rate_score.py` compute them.

All are fractions except CIDEr, which has pycocoevalcap's scale: ten times the mean cosine.
"""

from functools import lru_cache, partial
from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from recstudy.programs.metric import METRICS, NotAvailable
from recstudy.recursive.config.answers import Answers
from recstudy.recursive.metrics.registry import metric

if TYPE_CHECKING:
    from recstudy.recursive.tasks.captioning.coco import Words

of_captions = partial(
    metric, better="higher", form=".3f", tasks=("caption",), of_words=True, bounds=(0.0, 1.0)
)
of_code_words = partial(of_captions, of_words=False, of_text=True)
RATES = ("rate_score", "rate_score_std")


@lru_cache(maxsize=4)
def words(answers: Answers) -> "Words":
    """Return the captions as words, tokenized as in the COCO caption evaluation."""
    # Imported here, because only captions need pycocoevalcap.
    from recstudy.recursive.tasks.captioning.coco import cut

    return cut(answers.written, answers.references)


@lru_cache(maxsize=4)
def code_words(answers: Answers) -> "Words":
    """Return the captions as words, tokenized as in 003's code."""
    from recstudy.recursive.tasks.captioning.coco import cut, jury_words

    return cut(answers.written, answers.references, jury_words)


def cut_by(name: str, answers: Answers) -> str:
    """Return the name of the tokenizer, or of the models, of a caption metric; empty for other metrics."""
    if name in RATES:
        from recstudy.recursive.tasks.captioning.rate_score import describe_models  # it loads torch

        return describe_models()
    return words(answers).tokenizer if METRICS[name].of_words else ""


for n in range(1, 5):

    @METRICS.add(f"bleu_{n}")
    @of_captions(f"BLEU-{n}")
    def bleu(answers: Answers, n: int = n) -> float:
        return words(answers).bleu[n - 1]

    @METRICS.add(f"bleu_{n}_jury")
    @of_code_words(f"BLEU-{n} (jury)")
    def bleu_jury(answers: Answers, n: int = n) -> float:
        return code_words(answers).bleu[n - 1]


@METRICS.add("avg_bleu")
@of_captions("Avg-BLEU")
def avg_bleu(answers: Answers) -> float:
    """Return the mean of BLEU-1 to BLEU-4 (003)."""
    return sum(words(answers).bleu) / 4


@METRICS.add("rouge_l")
@of_captions("ROUGE-L")
def rouge_l(answers: Answers) -> float:
    return words(answers).rouge_l


@METRICS.add("cider")
@of_captions("CIDEr", bounds=(0, 10), ranks=True)
def cider(answers: Answers) -> float:
    return words(answers).cider()


@METRICS.add("meteor")
@of_captions("METEOR")
def meteor(answers: Answers) -> float:
    return words(answers).meteor


@METRICS.add("report_score")
@of_captions("Report score")
def report_score(answers: Answers) -> float:
    """Return the score by which 003's code selects epochs: 1/2 Avg-BLEU + 1/4 METEOR + 1/4 ROUGE-L.

    Raises:
        NotAvailable: METEOR is not available.
    """
    captions = words(answers)
    return sum(captions.bleu) / 8 + captions.rouge_l / 4 + captions.meteor / 4


@METRICS.add("avg_bleu_jury")
@of_code_words("Avg-BLEU (jury)")
def avg_bleu_jury(answers: Answers) -> float:
    return fmean(code_words(answers).bleu)


@METRICS.add("meteor_nltk")
@of_code_words("METEOR (NLTK)")
def meteor_nltk(answers: Answers) -> float:
    return code_words(answers).nltk_meteor()


@METRICS.add("rouge_l_f1")
@of_code_words("ROUGE-L (F1)")
def rouge_l_f1(answers: Answers) -> float:
    return code_words(answers).rouge_f1()


@lru_cache(maxsize=4)
def rates(answers: Answers) -> list[float]:
    """Return the RaTEScore of each image that has a reference."""
    from recstudy.recursive.tasks.captioning.rate_score import model_folder, rate_scores  # it loads torch

    scores = rate_scores(answers.written, answers.references, model_folder())
    if not scores:
        raise NotAvailable("no image has a reference caption")
    return scores


@METRICS.add("rate_score")
@of_captions("RaTEScore")
def rate_score(answers: Answers) -> float:
    return fmean(rates(answers))


@METRICS.add("rate_score_std")
@of_captions("RaTEScore, deviation over reports", better=None)
def rate_score_std(answers: Answers) -> float:
    """Return the standard deviation over reports, with N in the denominator (003, Table II)."""
    return pstdev(rates(answers))
