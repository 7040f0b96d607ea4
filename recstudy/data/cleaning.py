"""Cleans medical reports before they become tokens.

The MicarVLMoE paper says: "Reports are cleaned by removing de-identified and alphanumeric tokens"; its code (AI-14/micar-vl-moe,
preprocessors/) has a cleaner a data set, which disagree on commas and measures. This is one for all of them.
"""

import re

_APOSTROPHE = "\u2019"
_PLACEHOLDER = re.compile(r"\[\*\*.*?\*\*\]")  # as MIMIC marks what it hides
_ENUMERATION = re.compile(r"(^|[.:;!?]\s*)\(?\d{1,2}[.)]\s+")
_TOKEN = re.compile(r"\d+\.\d+[^\W_]*|[^\W_]+|[.!?]")
_HIDDEN = re.compile(r"x{2,}")
_MIXED = re.compile(r"(?=.*\d)(?=.*[^\W\d_])")


def plain(text: str) -> str:
    """Return the text on one line, with one space between words."""
    return " ".join(text.split())


def report(text: str) -> str:
    """Return words, numbers and ` . ` after each sentence, in lower case.

    - Marks of what was hidden go: `[**...**]`, `___`, words of x alone (`xxxx`).
    - Tokens of letters and digits go (`3b`, `1.5cm`, `t2`); plain numbers and decimals stay.
    - The numbers of a list go: `1. clear lungs 2. ...`, at the beginning or after a sentence.
    - Apostrophes go; other punctuation parts words and goes, so `ground-glass` is two words.
    - `.`, `!` and `?` end a sentence, and so does the end. Nothing is left of a text without a word.
    """
    text = _PLACEHOLDER.sub(" ", plain(text).lower().replace("'", "").replace(_APOSTROPHE, ""))
    text = _ENUMERATION.sub(r"\1", text)
    tokens = ["." if token in "!?" else token for token in _TOKEN.findall(text)]
    words: list[str] = []
    for token in [*filter(_stays, tokens), "."]:
        if token != "." or (words and words[-1] != "."):
            words.append(token)
    return " ".join(words)


def _stays(token: str) -> bool:
    return not (_HIDDEN.fullmatch(token) or _MIXED.match(token))


CLEANERS = {"none": plain, "report": report}
