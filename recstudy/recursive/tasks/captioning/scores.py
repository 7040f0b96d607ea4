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


@lru_cache(maxsize=4)
def rates(answers: Answers) -> list[float]:
    """Return the RaTEScore of each image that has a reference."""
    from recstudy.recursive.tasks.captioning.rate_score import model_folder, rate_scores  # it loads torch

    scores = rate_scores(answers.written, answers.references, model_folder())
    if not scores:
        raise NotAvailable("no image has a reference caption")
    return scores


def report_score(answers: Answers) -> float:
    """Return the score by which 003's code selects epochs: 1/2 Avg-BLEU + 1/4 METEOR + 1/4 ROUGE-L.

    Raises:
        NotAvailable: METEOR is not available.
    """
    captions = words(answers)
    return sum(captions.bleu) / 8 + captions.rouge_l / 4 + captions.meteor / 4


# Metric -> its description and function. Avg-BLEU is the mean of BLEU-1 to BLEU-4 (003).
METRICS.add_all(
    {
        "avg_bleu": of_captions("Avg-BLEU")(lambda answers: sum(words(answers).bleu) / 4),
        "rouge_l": of_captions("ROUGE-L")(lambda answers: words(answers).rouge_l),
        "cider": of_captions("CIDEr", bounds=(0, 10), ranks=True)(lambda answers: words(answers).cider()),
        "meteor": of_captions("METEOR")(lambda answers: words(answers).meteor),
        "report_score": of_captions("Report score")(report_score),
        "avg_bleu_jury": of_code_words("Avg-BLEU (jury)")(lambda answers: fmean(code_words(answers).bleu)),
        "meteor_nltk": of_code_words("METEOR (NLTK)")(lambda answers: code_words(answers).nltk_meteor()),
        "rouge_l_f1": of_code_words("ROUGE-L (F1)")(lambda answers: code_words(answers).rouge_f1()),
        "rate_score": of_captions("RaTEScore")(lambda answers: fmean(rates(answers))),
        # N is in the denominator of the deviation (003, Table II).
        "rate_score_std": of_captions("RaTEScore, deviation over reports", better=None)(
            lambda answers: pstdev(rates(answers))
        ),
    }
)
