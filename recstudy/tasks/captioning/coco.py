"""How good generated captions are, against one or several reference captions of each image.

All by pycocoevalcap, the code that the literature's numbers come from, over the same Penn Treebank words:

    BLEU-1..4  clipped n-gram precision of the corpus, closest reference length, brevity penalty, no smoothing
    ROUGE-L    longest common subsequence, F with beta 1.2; the best precision and the best recall of any reference; mean
    CIDEr      CIDEr-D: tf-idf over these references, n = 1..4, length penalty (sigma 6), times 10, no stemming
    METEOR     version 1.5 in Java: stems, synonyms and paraphrases, the English weights
"""

import atexit
import re
import shutil
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate, chain, pairwise
from pathlib import Path

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.meteor import meteor as meteor_module
from pycocoevalcap.meteor.meteor import Meteor
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer import ptbtokenizer

from recstudy.programs.metric import NotAvailable, NotInstalled

Texts = dict[int, list[str]]


@dataclass(frozen=True, eq=False)
class Words:
    """Captions as words with one space between, of the images that have a reference; a score belongs with the
    name of the `tokenizer` that cut them."""

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
            raise NotAvailable(
                "undefined for one image: its weights are log(images / images with the n-gram)"
            )
        return float(Cider().compute_score(*self._theirs())[0])

    @cached_property
    def meteor(self) -> float:
        return meteor(*self._theirs())

    def _theirs(self) -> tuple[Texts, Texts]:
        if not self.written:
            raise NotAvailable("no image has a reference caption")
        return dict(enumerate(self.references)), {
            at: [hypothesis] for at, hypothesis in enumerate(self.written)
        }


def cut(written: Sequence[str], references: Sequence[Sequence[str]]) -> Words:
    """Cut one generated caption and one or more references an image, in words.

    Images without a reference that has a word are left out and counted in the notes, where empty captions are
    counted too.

    Raises:
        ValueError: not as many captions as images with references.
    """
    if len(written) != len(references):
        raise ValueError(f"{len(written)} captions for {len(references)} images")
    tokenised, tokenizer, reason = words([*written, *chain.from_iterable(references)])
    ends = list(accumulate(map(len, references), initial=len(written)))
    told = [[caption for caption in tokenised[start:end] if caption] for start, end in pairwise(ends)]
    pairs = [(hypothesis, own) for hypothesis, own in zip(tokenised, told, strict=False) if own]
    silent, empty = len(written) - len(pairs), sum(not hypothesis for hypothesis, _ in pairs)
    notes = {
        f"the tokenizer is an approximation, not comparable with Stanford's: {reason}": reason is not None,
        f"{silent:,} of {len(written):,} images have no reference caption and are left out": silent,
        f"{empty:,} of {len(pairs):,} generated captions have no word": empty,
    }
    known = tuple(note for note, holds in notes.items() if holds)
    return Words([one for one, _ in pairs], [own for _, own in pairs], tokenizer, known)


STANFORD = "PTB (Stanford CoreNLP 3.4.1)"
APPROXIMATION = "PTB approximated in Python"
# What coco-caption drops. It lists the brackets in capitals, which -lowerCase never writes: "-lrb-" stays,
# here as there.
PUNCTUATION = frozenset(ptbtokenizer.PUNCTUATIONS)
PLAIN = dict.fromkeys((0x2018, 0x2019, 0x201A), "'") | dict.fromkeys(
    (0x201C, 0x201D, 0x201E, 0xAB, 0xBB), '"'
)
# typographic quotes, dashes, dots
PLAIN |= dict.fromkeys((0x2013, 0x2014, 0x2015), " -- ") | {0x2010: "-", 0x2026: "..."}
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
WRITTEN = {"(": "-lrb-", ")": "-rrb-", "[": "-lsb-", "]": "-rsb-", "{": "-lcb-", "}": "-rcb-", '"': "''"}
WRITTEN |= {"cannot": "can not", "gonna": "gon na", "gotta": "got ta", "wanna": "wan na"}


def words(captions: Sequence[str]) -> tuple[list[str], str, str | None]:
    """Return each caption's words with one space between them, the name of the tokenizer, and why it is not
    Stanford's.
    """
    try:
        tokens, name, reason = penn_treebank(captions), STANFORD, None
    except NotAvailable as why_not:
        tokens, name, reason = [approximate(caption) for caption in captions], APPROXIMATION, str(why_not)
    return [" ".join(token for token in line if token not in PUNCTUATION) for line in tokens], name, reason


def approximate(caption: str) -> list[str]:
    """Tokens of a caption by our own rules, punctuation among them."""
    found = TOKEN.findall(caption.translate(PLAIN).lower())
    return [token for raw in found for token in WRITTEN.get(raw, raw).split()]


# METEOR takes 0.6 GB, with the default collector 1.2 GB. Java takes its language from the locale: METEOR then
# writes 0,5 where that has a decimal comma, and in Turkish the lower case of "I" is no "i".
FLAGS = "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US"
LIMIT_S = 600.0
NO_JAVA = "Java is not installed (no `java` on the PATH)"


def penn_treebank(captions: Sequence[str]) -> list[list[str]]:
    """Return the tokens of each caption, lower case, by Stanford's PTBTokenizer; punctuation is still among
    them.

    pycocoevalcap's own call of this jar reads captions in the encoding of the locale and writes into its
    package.

    Raises:
        NotInstalled: no Java, or the jar is missing, damaged or hangs.
    """
    jar = Path(ptbtokenizer.__file__).with_name(ptbtokenizer.STANFORD_CORENLP_3_4_1_JAR)
    program = "edu.stanford.nlp.process.PTBTokenizer", "-preserveLines", "-lowerCase", "-encoding", "UTF-8"
    text = "".join(" ".join(caption.split()) + "\n" for caption in captions)
    if (java := shutil.which("java")) is None:
        raise NotInstalled(NO_JAVA)
    command = [java, *FLAGS, "-cp", str(jar), *program]
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


def meteor(references: Texts, written: Texts) -> float:
    """Return METEOR 1.5 (English, normalised) of a corpus of tokenised captions, as a fraction.

    Raises:
        NotInstalled: no Java, or the jar is missing or damaged.
    """
    if shutil.which("java") is None:
        raise NotInstalled(NO_JAVA)
    # Three bars end a field in METEOR's protocol, and a line break ends a line.
    clean = [
        {
            image: [" ".join(text.replace("|||", " ").split()) for text in texts]
            for image, texts in part.items()
        }
        for part in (references, written)
    ]
    try:
        if _meteor().meteor_p.poll() is not None:  # killed since the last call, as for memory
            _end_meteor()
        program = _meteor()
    except OSError as error:
        raise NotInstalled(f"Java does not start: {error}") from error
    try:
        return float(program.compute_score(*clean)[0])
    except (OSError, ValueError) as error:  # its process has ended: a broken pipe, or no number
        program.lock.release()  # its destructor waits for it
        program.meteor_p.kill()
        reason = _last_line(program.meteor_p.stderr.read())
        _end_meteor()
        raise NotInstalled(f"METEOR does not answer: {reason}") from error


@cache
def _meteor() -> Meteor:
    """Return METEOR's process, which takes 15 s to start; it ends when this process does.

    pycocoevalcap starts the same command without `FLAGS`.
    """
    command = [
        "java",
        *FLAGS,
        "-Xmx2G",
        "-jar",
        meteor_module.METEOR_JAR,
        "-",
        "-",
        "-stdio",
        "-l",
        "en",
        "-norm",
    ]
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
            with suppress(OSError):  # what was not sent yet
                pipe.close()
        _meteor.cache_clear()


def _last_line(output: bytes) -> str:
    return (output.decode(errors="replace").strip().splitlines() or ["it gives no reason"])[-1]
