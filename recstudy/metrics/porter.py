"""Porter's stemmer (1980) with the changes that NLTK makes to it by default: `caresses` -> `caress`, `relational` -> `relat`.

A word is [C](VC)^m[V] with C runs of consonants and V of vowels; most rules ask for a large enough measure m of what stays.
"""

import re
from collections.abc import Callable
from functools import lru_cache

# NLTK's exceptions, and the suffixes of steps 2 to 4 with what stands for them; the first that fits decides.
IRREGULAR = {"skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "innings": "inning", "outings": "outing"}
IRREGULAR |= {"cannings": "canning"} | {word: word for word in ("sky", "news", "howe", "proceed", "exceed", "succeed")}
STEP_2 = {"ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al"}
STEP_2 |= {"entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al"}
STEP_2 |= {"iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble", "fulli": "ful"}
STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
STEP_4 = "al ance ence er ic able ible ant ement ment ent ion ou ism ate iti ous ive ize"


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of one lower-case word."""
    if word in IRREGULAR or len(word) <= 2:
        return IRREGULAR.get(word, word)
    word = _past(_plural(word))
    if word.endswith("y") and len(word) > 2 and _form(word)[-2] == "c":
        word = word[:-1] + "i"
    word = _replaced(_step_2(word), STEP_3, lambda base: _measure(base) > 0)
    word = _replaced(word, dict.fromkeys(STEP_4.split(), ""), lambda base: _measure(base) > 1, ion="st")
    return _final(word)


def _form(word: str) -> str:
    """Each letter as `v` or `c`; `y` is a vowel after a consonant."""
    form = ""
    for letter in word:
        form += "v" if letter in "aeiou" or (letter == "y" and form[-1:] == "c") else "c"
    return form


def _measure(word: str) -> int:
    return len(re.findall("v+c", _form(word)))


def _short(word: str) -> bool:
    """Ends consonant, vowel, consonant, the last no w, x or y; or is a vowel and a consonant."""
    form = _form(word)
    return (form[-3:] == "cvc" and word[-1] not in "wxy") or form == "vc"


def _plural(word: str) -> str:
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _past(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    base = next((word[: -len(end)] for end in ("ed", "ing") if word.endswith(end) and "v" in _form(word[: -len(end)])), None)
    if base is None:
        return word
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if len(base) > 1 and base[-1] == base[-2] and _form(base)[-1] == "c":
        return base if base[-1] in "lsz" else base[:-1]
    return base + "e" if _measure(base) == 1 and _short(base) else base


def _step_2(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _step_2(word[:-2])
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replaced(word, STEP_2, lambda base: _measure(base) > 0)


def _replaced(word: str, endings: dict[str, str], enough: Callable[[str], bool], **after: str) -> str:
    """The first ending that fits replaced, where enough stays; an ending of `after` only behind one of those letters."""
    ending = next((ending for ending in endings if word.endswith(ending)), None)
    if ending is None:
        return word
    base = word[: len(word) - len(ending)]
    fits = enough(base) and (ending not in after or base[-1] in after[ending])
    return base + endings[ending] if fits else word


def _final(word: str) -> str:
    if word.endswith("e") and (_measure(word[:-1]) > 1 or (_measure(word[:-1]) == 1 and not _short(word[:-1]))):
        word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
