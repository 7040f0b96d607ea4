"""Compute BLEU, ROUGE-L, CIDEr and METEOR of generated captions against one or more references of each image.

`scores.py` registers these metrics. pycocoevalcap computes them over Penn Treebank words, as in papers:

    BLEU-1..4  clipped n-gram precision of the corpus, closest reference length, brevity penalty, no smoothing
    ROUGE-L    longest common subsequence, F with beta 1.2 of the best precision and the best recall of any
               reference; mean over images
    CIDEr      CIDEr-D: tf-idf over these references, n = 1..4, length penalty (sigma 6), times 10,
               no stemming
    METEOR     version 1.5 in Java: stems, synonyms and paraphrases, the English weights

003's code scores with jury: `jury_words` are separated by spaces and punctuation, METEOR is NLTK's, and
ROUGE-L is the F1 of rouge_score. For an image with several references, the best one counts.
"""

import atexit
import re
import shutil
import string
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, chain, pairwise
from pathlib import Path
from statistics import fmean

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor import meteor as meteor_module
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge, my_lcs
from pycocoevalcap.tokenizer import ptbtokenizer

from recstudy.programs.metric import NotAvailable, NotInstalled

Texts = dict[int, list[str]]


@dataclass(frozen=True, eq=False)
class Words:
    """The tokenized captions of the images that have a reference.

    Attributes:
        hypotheses: the generated captions, words separated by one space.
        references: the reference captions of each image, in the same form.
        tokenizer: name of the tokenizer, which tables show with the scores.
        notes: caveats that tables show with the scores.
    """

    hypotheses: list[str]
    references: list[list[str]]
    tokenizer: str
    notes: tuple[str, ...]

    @cached_property
    def bleu(self) -> list[float]:
        """BLEU-1 to BLEU-4."""
        bleu, _ = Bleu(4).compute_score(*self._number_images(), verbose=0)
        return [float(value) for value in bleu]

    @cached_property
    def rouge_l(self) -> float:
        return float(Rouge().compute_score(*self._number_images())[0])

    def cider(self) -> float:
        texts = self._number_images()
        # With one image every weight is log(1 / 1) = 0.
        if len(self.hypotheses) == 1:
            raise NotAvailable(
                "undefined for one image: its weights are log(images / images with the n-gram)"
            )
        return float(Cider().compute_score(*texts)[0])

    @cached_property
    def meteor(self) -> float:
        return meteor(*self._number_images())

    def rouge_f1(self) -> float:
        """Return the mean F1 of the longest common subsequences, as rouge_score computes it."""
        return self._mean_best(
            lambda reference, words: 2 * my_lcs(reference, words) / (len(reference) + len(words))
        )

    def nltk_meteor(self) -> float:
        """Return NLTK's METEOR, as a fraction.

        Raises:
            NotInstalled: NLTK is not installed, or has no WordNet.
        """
        find_wordnet()
        from nltk.translate.meteor_score import single_meteor_score

        return self._mean_best(single_meteor_score)

    def _mean_best(self, score: Callable[[list[str], list[str]], float]) -> float:
        """Return the mean over images of the best score of a reference and the caption, both as words."""
        references, hypotheses = self._number_images()
        best_scores = []
        for image, (hypothesis,) in hypotheses.items():
            scores = [score(reference.split(), hypothesis.split()) for reference in references[image]]
            best_scores.append(max(scores))
        return fmean(best_scores)

    def _number_images(self) -> tuple[Texts, Texts]:
        """Return references and hypotheses by image, the form that pycocoevalcap reads."""
        if not self.hypotheses:
            raise NotAvailable("no image has a reference caption")
        hypotheses = {index: [hypothesis] for index, hypothesis in enumerate(self.hypotheses)}
        return dict(enumerate(self.references)), hypotheses


def cut(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    split: Callable[[str], list[str]] | None = None,
) -> Words:
    """Split the generated caption and the references of each image into words.

    `split` replaces Stanford's tokenizer. Images whose references have no word are left out. The notes count
    these images and the empty captions.

    Raises:
        ValueError: the numbers of captions and of images with references differ.
    """
    if len(hypotheses) != len(references):
        raise ValueError(f"{len(hypotheses)} captions for {len(references)} images")
    captions = [*hypotheses, *chain.from_iterable(references)]
    notes, tokenizer = [], split.__name__ if split else STANFORD
    try:
        token_lists = [*map(split, captions)] if split else penn_treebank(captions)
    except NotAvailable as error:
        # Without Java the scores are still useful to compare runs, but not with published values.
        token_lists, tokenizer = [*map(approximate, captions)], APPROXIMATION
        notes.append(f"the tokenizer is an approximation, not comparable with Stanford's: {error}")
    tokenised = [" ".join(token for token in tokens if token not in PUNCTUATION) for tokens in token_lists]
    offsets = list(accumulate(map(len, references), initial=len(hypotheses)))
    kept_hypotheses: list[str] = []
    kept_references: list[list[str]] = []
    # The hypotheses come first in `tokenised`, then the references of each image.
    for hypothesis, (start, end) in zip(tokenised, pairwise(offsets), strict=False):
        image_references = [caption for caption in tokenised[start:end] if caption]
        if image_references:
            kept_hypotheses.append(hypothesis)
            kept_references.append(image_references)
    kept_count = len(kept_hypotheses)
    if left_out := len(hypotheses) - kept_count:
        notes.append(f"{left_out:,} of {len(hypotheses):,} images have no reference caption and are left out")
    if empty := kept_hypotheses.count(""):
        notes.append(f"{empty:,} of {kept_count:,} generated captions have no word")
    return Words(kept_hypotheses, kept_references, tokenizer, tuple(notes))


STANFORD = "PTB (Stanford CoreNLP 3.4.1)"
APPROXIMATION = "PTB approximated in Python"
# The tokens that coco-caption drops. It lists the brackets in capitals, which -lowerCase never writes, so
# "-lrb-" stays in both programs.
PUNCTUATION = frozenset(ptbtokenizer.PUNCTUATIONS)
PLAIN_FORMS = dict.fromkeys((0x2018, 0x2019, 0x201A), "'") | dict.fromkeys(
    (0x201C, 0x201D, 0x201E, 0xAB, 0xBB), '"'
)
# typographic quotes, dashes, dots
PLAIN_FORMS |= dict.fromkeys((0x2013, 0x2014, 0x2015), " -- ") | {0x2010: "-", 0x2026: "..."}
ABBREVIATIONS = (
    "al|approx|ave|co|corp|ct|dept|dr|etc|ext|fig|figs|inc|jr|ltd|mr|mrs|ms|no|nos|pp|prof|rev|sr|st|vs"
)
TOKEN = re.compile(
    rf"""
    https?://[^\s<>()]*[^\s<>().,;:!?]           # addresses
    | [\w.+-]+@[\w-]+(?:\.[\w-]+)+
    | (?:[a-z]\.)+ | \b(?:{ABBREVIATIONS})\.     # u.s., e.g., a., dr.
    | \d+(?:[.,:/]\d+)*(?:[-\w/]*\w)? | [.,]\d+  # 1,000  3.5  12:30  5mm  10-year-old  109/l  .5
    | \w+?(?=n't\b) | n't\b                      # can n't
    | '(?:s|m|d|re|ve|ll)\b                      # smith 's
    | [dlo]'\w+                                  # o'clock
    | \w+(?:[-/.&]\w+)*                          # x-ray, t2/flair
    | \.\.\.|-{{2,}} | <[^\s<>]+> | \S
    """,
    re.VERBOSE,
)
SPELLINGS = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-", '"': "''"}
SPELLINGS |= {"cannot": "can not", "gonna": "gon na", "gotta": "got ta", "wanna": "wan na"}


def approximate(caption: str) -> list[str]:
    """Return the tokens of a caption, including punctuation, by a regular expression."""
    raw_tokens = TOKEN.findall(caption.translate(PLAIN_FORMS).lower())
    return [token for raw in raw_tokens for token in SPELLINGS.get(raw, raw).split()]


def jury_words(caption: str) -> list[str]:
    """Return the words of a caption as jury 2.3.1 splits it."""
    return caption.translate(dict.fromkeys(map(ord, string.punctuation), " ")).lower().split()


# METEOR takes 0.6 GB with the serial collector and 1.2 GB with the default one. Java takes its language from
# the locale: METEOR would write 0,5 in a locale with a decimal comma, and in Turkish the lower case of "I" is
# not "i".
FLAGS = "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US"
LIMIT_S = 600.0
NO_JAVA = "Java is not installed (no `java` on the PATH)"


def find_java() -> str:
    """Return the path of `java`.

    Raises:
        NotInstalled: It is not on the PATH.
    """
    if (java := shutil.which("java")) is None:
        raise NotInstalled(NO_JAVA)
    return java


def find_wordnet() -> str:
    """Return the path of NLTK's WordNet.

    Raises:
        NotInstalled: NLTK is not installed, or has no WordNet.
    """
    try:
        import nltk

        return str(nltk.data.find("corpora/wordnet.zip"))
    except (ImportError, LookupError) as error:
        fix = "install recstudy with its extra `rate`, and run `python -m nltk.downloader wordnet`"
        raise NotInstalled(f"NLTK or its WordNet is not installed: {fix}") from error


def penn_treebank(captions: Sequence[str]) -> list[list[str]]:
    """Return the lower-case tokens of each caption, including punctuation, by Stanford's PTBTokenizer.

    Raises:
        NotInstalled: Java is not installed, or the jar is missing, damaged or hangs.
    """
    # pycocoevalcap's own call of this jar reads captions in the encoding of the locale and writes into its
    # package.
    jar = Path(ptbtokenizer.__file__).with_name(ptbtokenizer.STANFORD_CORENLP_3_4_1_JAR)
    program = "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase", "-encoding", "UTF-8"
    text = "".join(" ".join(caption.split()) + "\n" for caption in captions)
    command = [find_java(), *FLAGS, "-cp", str(jar), *program]
    try:
        done = subprocess.run(
            command, input=text.encode(errors="replace"), capture_output=True, timeout=LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"Java does not start, or hangs: {error}") from error
    lines = done.stdout.decode(errors="replace").split("\n")[:-1]
    if len(lines) != len(captions):
        raise NotInstalled(
            f"the PTB tokenizer gave {len(lines)} lines for {len(captions)}: {_last_line(done.stderr)}"
        )
    return [line.split(" ") for line in lines]


def meteor(references: Texts, hypotheses: Texts) -> float:
    """Return METEOR 1.5 (English, normalised) of a corpus of tokenised captions, as a fraction.

    Raises:
        NotInstalled: Java is not installed, or the jar is missing or damaged.
    """
    find_java()
    try:
        # It may have been killed since the last call, for example for lack of memory.
        if _meteor().meteor_p.poll() is not None:
            _end_meteor()
        program = _meteor()
    except OSError as error:
        raise NotInstalled(f"Java does not start: {error}") from error
    try:
        return float(program.compute_score(_clean(references), _clean(hypotheses))[0])
    # The process has ended: a broken pipe, or an answer without a number.
    except (OSError, ValueError) as error:
        program.lock.release()  # the destructor of `Meteor` waits for the lock
        program.meteor_p.kill()
        reason = _last_line(program.meteor_p.stderr.read())
        _end_meteor()
        raise NotInstalled(f"METEOR does not answer: {reason}") from error


def _clean(captions: Texts) -> Texts:
    # In METEOR's protocol, three bars end a field and a line break ends a line.
    return {
        image: [" ".join(text.replace("|||", " ").split()) for text in texts]
        for image, texts in captions.items()
    }


@cache  # starting it takes 15 s
def _meteor() -> Meteor:
    """Return METEOR's process, which ends with this process."""
    # pycocoevalcap's constructor starts the same command without `FLAGS`, so it is not called.
    options = ["-", "-", "-stdio", "-l", "en", "-norm"]
    command = ["java", *FLAGS, "-Xmx2G", "-jar", meteor_module.METEOR_JAR, *options]
    program = Meteor.__new__(Meteor)
    program.lock = threading.Lock()
    program.meteor_p = subprocess.Popen(
        command,
        cwd=Path(meteor_module.__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    return program


@atexit.register
def _end_meteor() -> None:
    """End METEOR's process, if there is one, and close its pipes, which its destructor leaves open."""
    if _meteor.cache_info().currsize:
        process = _meteor().meteor_p
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            with suppress(OSError):  # closing a pipe with unsent text fails
                pipe.close()
        _meteor.cache_clear()


def _last_line(output: bytes) -> str:
    return (output.decode(errors="replace").strip().splitlines() or ["it gives no reason"])[-1]
