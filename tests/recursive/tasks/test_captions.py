import json
import math
import os
import shutil
import sys
from pathlib import Path

import pytest
from pycocoevalcap.meteor import meteor as meteor_module
from pycocoevalcap.tokenizer import ptbtokenizer

from recstudy.base.errors import ConfigError
from recstudy.programs.metric import NotAvailable, NotInstalled
from recstudy.recursive import Answers, measured
from recstudy.recursive.metrics.registry import of_task, selection_score
from recstudy.recursive.tasks.captioning import coco
from recstudy.recursive.tasks.captioning.coco import (
    APPROXIMATION,
    PUNCTUATION,
    STANFORD,
    approximate,
    cut,
    find_wordnet,
    meteor,
    penn_treebank,
)

FIXTURES = [Path(os.environ.get("RECSTUDY_DATA", "data")), Path(__file__).parents[4] / "shared/data"]
HOSTILE = [
    "",
    " ",
    "two\nlines\r\nof it",
    "a ||| b |||",
    "...",
    "\u2028line\u2028",
    "\U0001f600 été",
    "\ud800 half",
    "\x00nul",
    "ends",
]
JURY = [f"bleu_{n}_jury" for n in range(1, 5)]
OF_CODE = ("avg_bleu_jury", "meteor_nltk", "rouge_l_f1", *JURY)  # of 003's code
NAMES = [name for name in of_task("caption") if not name.startswith("rate_score") and name not in OF_CODE]
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")


def caption_scores(captions, references):
    return measured(Answers("caption", written=captions, references=references), NAMES)


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """The folder that the PATH names alone, empty."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


@pytest.fixture
def fixtures() -> Path:
    folders = [folder / "caption_metrics" for folder in FIXTURES if (folder / "caption_metrics").exists()]
    if not folders:
        pytest.skip("caption_metrics is neither below RECSTUDY_DATA nor in ../shared/data")
    return folders[0]


@pytest.mark.whole
@needs_java
def test_the_thousand_captions_of_the_coco_demo_give_the_published_scores(fixtures):
    references, candidates, expected = (
        json.loads((fixtures / name).read_text())
        for name in ("coco_fakecap_references.json", "coco_fakecap_candidates.json", "expected.json")
    )

    captions, reference_lists = [candidates[image][0] for image in references], list(references.values())
    scores = caption_scores(captions, reference_lists)

    published = expected["coco_fakecap"]["published_by_coco_caption_demo_3_decimals"]
    ours = {name: round(value, 3) for name, value in scores.values.items()}
    assert ours.pop("avg_bleu") == 0.363  # the mean of the four, which the demo does not print
    assert ours.pop("report_score") == 0.33  # 0.363 / 2 + 0.195 / 4 + 0.396 / 4, nor this
    assert ours == {name.lower(): value for name, value in published.items() if name != "SPICE"}
    assert (
        scores.unavailable,
        cut(captions, reference_lists).tokenizer,
        cut(captions, reference_lists).notes,
    ) == ({}, STANFORD, ())


@needs_java
def test_meteor_by_hand():
    """Words that carry meaning weigh 0.75, the others 0.25: P = (0.75 + 3/4)/(2 x 0.75 + 3/4), 4 matches in 2
    chunks.

    The second caption says nothing, so its reference's word is missed; what would end a field or a line does
    not.
    """
    reference_lists = {0: ["this is a ||| test", "this is\nalso a test"], 1: ["dog"]}
    value = meteor(reference_lists, {0: ["this is ||| a good\r\ntest"], 1: [""]})

    precision = recall = 1.5 / 2.25
    f_mean = precision * recall / (0.85 * precision + 0.15 * recall)
    assert value == pytest.approx(f_mean * (1 - 0.6 * (2 / 4) ** 0.2))


@pytest.mark.parametrize("toy", ["nlgeval_two_sentences", "nlgeval_one_sentence"])
def test_published_toys(fixtures, no_java, toy):
    case = json.loads((fixtures / "expected.json").read_text())[toy]

    scores = caption_scores(case["candidates"], case["references"])

    for name, value in scores.values.items() - {("avg_bleu", scores.values["avg_bleu"])}:
        published = next(
            case["expected"][expected_name]
            for expected_name in case["expected"]
            if expected_name.lower() == name
        )
        assert value == pytest.approx(published, rel=1e-5)
    assert ("cider" in scores.unavailable) == (len(case["candidates"]) == 1)


def test_bleu_by_hand(no_java):
    """5 of 6 words, 3 of 5 pairs, 1 of 4 triples, no four in a row; and a quarter too short a caption of two
    words.
    """
    values = caption_scores(["the cat sat on the mat"], [["The cat is on the mat."]]).values
    short = caption_scores(["the cat"], [["the cat is on", "the cat is"]]).values

    assert values["bleu_1"] == pytest.approx(5 / 6)
    assert values["bleu_2"] == pytest.approx(math.sqrt(5 / 6 * 3 / 5))
    assert values["bleu_3"] == pytest.approx(0.5)
    assert values["bleu_4"] < 1e-3
    assert short["bleu_1"] == pytest.approx(math.exp(1 - 3 / 2))


@needs_java
def test_the_report_score_is_half_bleu_and_a_quarter_each_of_meteor_and_rouge_l():
    values = caption_scores(["the cat sat on the mat"], [["The cat is on the mat."]]).values

    expected = values["avg_bleu"] / 2 + values["meteor"] / 4 + values["rouge_l"] / 4
    assert values["report_score"] == pytest.approx(expected)


def test_without_java_the_report_score_is_not_available_and_selects_no_epoch(no_java):
    answers = Answers("caption", written=["a cat", "a dog"], references=[["a cat"], ["a dog"]])
    assert measured(answers, ["report_score"]) == ({}, (), {"report_score": coco.NO_JAVA}, ())
    assert selection_score("bleu_1", answers) == pytest.approx(1)
    with pytest.raises(
        ConfigError, match=r"train.score 'report_score' cannot select epochs: Java .* to another metric"
    ):
        selection_score("report_score", answers)


def test_rouge_l_by_hand(no_java):
    """Precision 3/4 is the second reference's, recall 1 the first's."""
    values = caption_scores(["a b c d"], [["a c", "b c d e f g h i"]]).values

    assert values["rouge_l"] == pytest.approx((1 + 1.44) * 0.75 / (1 + 1.44 * 0.75))


def test_cider_by_hand(no_java):
    """Cosine 1/sqrt(2) of the words, nothing of longer n-grams, one pair of words less; the other image has
    nothing right.
    """
    values = caption_scores(["x", "z"], [["x y"], ["w"]]).values

    assert values["cider"] == pytest.approx(10 / 4 / math.sqrt(2) * math.exp(-1 / (2 * 6**2)) / 2)


def test_without_java_meteor_is_missing_and_the_tokenizer_is_named(no_java):
    scores = caption_scores(["an opacity", "no finding"], [["an opacity"], ["no finding."]])

    assert "meteor" not in scores.values
    assert scores.unavailable["meteor"] == "Java is not installed (no `java` on the PATH)"
    assert cut(["a"], [["b"]]).tokenizer == APPROXIMATION
    assert "approximation" in cut(["a"], [["b"]]).notes[0]


def test_cider_of_one_image_is_undefined(no_java):
    assert "undefined for one image" in caption_scores(["a"], [["a"]]).unavailable["cider"]


def test_hostile_captions_are_scored(no_java):
    scores = caption_scores(HOSTILE, [["a reference of it"]] * len(HOSTILE))

    assert all(0 <= value <= 1 for value in scores.values.values())
    assert (
        cut(HOSTILE, [["a reference of it"]] * len(HOSTILE)).notes[1]
        == "3 of 10 generated captions have no word"
    )


def test_words_and_scores_of_micars_code_by_hand():
    """Punctuation separates words, so 3.5 is two. The best reference counts: 3 of 3 and 4 words, 3 of 3 and 3."""
    answers = Answers(
        "caption", written=["A 3.5-cm mass", "no mass"], references=[["a cm"], ["No nodule", "mass"]]
    )
    scores = measured(answers, OF_CODE)

    assert coco.jury_words("A 3.5-cm mass.") == ["a", "3", "5", "cm", "mass"]
    # 2 of 5 and 2 words; 1 of 2 and 1 words
    assert scores.values["rouge_l_f1"] == pytest.approx((2 * 2 / 7 + 2 * 1 / 3) / 2)
    same = Answers("caption", written=["a 3 5 cm mass"], references=[["A 3.5 cm mass!"]])
    assert measured(same, OF_CODE[:1]).values["avg_bleu_jury"] == pytest.approx(1)


def test_bleu_of_micars_code_is_of_its_words(no_java):
    """Three of four words, two of three pairs, one of two triples; jury makes two words of 3.5, PTB one."""
    answers = Answers("caption", written=["a mass of 3", "3.5"], references=[["A mass of 4"], ["3 5"]])
    scores = measured(answers, ["bleu_1", *JURY[:3]]).values

    assert scores["bleu_1"] == pytest.approx(3 / 5 * math.exp(1 - 6 / 5))
    assert [scores[name] for name in JURY[:3]] == pytest.approx(
        [5 / 6, math.sqrt(5 / 6 * 3 / 4), (5 / 6 * 3 / 4 * 1 / 2) ** (1 / 3)]
    )


ONE_MATCH = Answers("caption", written=["The mass."], references=[["mass seen"]])


def test_nltks_meteor_by_hand():
    """One of 2 words in one chunk of one match: an F of 1/2, halved by the penalty."""
    try:
        find_wordnet()
    except NotInstalled as error:
        pytest.skip(str(error))

    assert measured(ONE_MATCH, ["meteor_nltk"]).values == pytest.approx({"meteor_nltk": 0.25})


def test_without_nltk_the_note_names_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk", None)

    assert measured(ONE_MATCH, ["meteor_nltk"]).unavailable == {
        "meteor_nltk": "NLTK or its WordNet is not installed: install recstudy with its extra `rate`, and run `python -m nltk.downloader wordnet`"
    }


def test_images_without_a_reference_are_left_out(no_java):
    complete_pairs = caption_scores(["a b", "c d"], [["a b"], ["c e"]])
    some = ["a b", "x", "c d", "y"], [["a b", ""], [], ["c e"], [" ."]]
    all_pairs = caption_scores(*some)

    assert all_pairs.values == complete_pairs.values
    assert cut(*some).notes[1] == "2 of 4 images have no reference caption and are left out"
    assert caption_scores(["a"], [[]]) == (
        {},
        (),
        dict.fromkeys(NAMES, "no image has a reference caption"),
        (),
    )
    with pytest.raises(ValueError, match="2 captions for 1 images"):
        cut(["a", "b"], [["a"]])


@needs_java
def test_every_caption_keeps_its_own_line():
    lines = penn_treebank(HOSTILE)

    assert len(lines) == len(HOSTILE)
    assert lines[2] == ["two", "lines", "of", "it"]
    assert lines[-1] == ["ends"]
    assert penn_treebank([]) == []


CAPTIONS = [
    "A Chest X-ray (PA view) shows a 3.5 cm mass.",
    "CT scan: no \"evidence\" of T2/FLAIR changes, i.e. it can't be Dr. Smith's; 1,000 cells, 50%.",
    "We cannot see L4-L5 [arrow] in the 10-year-old's spine -- or at 12:30 o'clock...",
    "The patient\u2019s \u201clesion\u201d \u2013 see Fig. 2",
]  # fmt: skip


@needs_java
@pytest.mark.parametrize("caption", CAPTIONS)
def test_the_approximation_gives_stanfords_words(caption):
    def spoken(tokens):
        return [token for token in tokens if token not in PUNCTUATION]

    assert spoken(approximate(caption)) == spoken(penn_treebank([caption])[0])


def test_the_approximation_by_hand():
    assert approximate("It isn't a (3.5 cm) X-ray.") == [
        "it",
        "is",
        "n't",
        "a",
        "-lrb-",
        "3.5",
        "cm",
        "-rrb-",
        "x-ray",
        ".",
    ]


@needs_java
@pytest.mark.parametrize("language", ["it", "tr", "ar"])
def test_scores_do_not_depend_on_the_language_of_the_machine(monkeypatch, language):
    """Java takes its language from the locale, and from this variable where no locale but C is installed: 0,5
    in Italian.
    """
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Duser.language={language}")
    coco._end_meteor()
    references = [["a cat is on the mat", "a cat sits"], ["a dog runs fast"], ["nothing here"], ["an image"]]
    captions = ["a cat sits on a mat", "the dog runs", "", "une image"]

    assert meteor(
        dict(enumerate(references)), {row: [text] for row, text in enumerate(captions)}
    ) == pytest.approx(0.2862, abs=5e-5)
    assert penn_treebank(["IMAGE, 3.5 mm"]) == [["image", ",", "3.5", "mm"]]
    coco._end_meteor()


@needs_java
def test_a_jar_that_cannot_be_used_is_the_reason(monkeypatch):
    monkeypatch.setattr(meteor_module, "METEOR_JAR", "nothing.jar")
    monkeypatch.setattr(ptbtokenizer, "STANFORD_CORENLP_3_4_1_JAR", "nothing.jar")
    coco._end_meteor()

    scores = caption_scores(["a b", "c"], [["a b"], ["c"]])

    assert (
        "METEOR does not answer: Error: Unable to access jarfile nothing.jar" in scores.unavailable["meteor"]
    )
    assert cut(["a b"], [["a b"]]).tokenizer == APPROXIMATION
    assert scores.values["bleu_1"] == pytest.approx(1)


@needs_java
def test_a_meteor_that_was_killed_starts_again():
    score = meteor({0: ["a c"]}, {0: ["a b"]})
    coco._meteor().meteor_p.kill()
    coco._meteor().meteor_p.wait()

    assert meteor({0: ["a c"]}, {0: ["a b"]}) == score


def test_hanging_or_missing_java_is_the_reason(monkeypatch, no_java):
    (no_java / "java").write_text("#!/bin/sh\nexec /bin/sleep 60")
    (no_java / "java").chmod(0o755)
    monkeypatch.setattr(coco, "LIMIT_S", 0.3)
    with pytest.raises(NotAvailable, match="timed out after"):
        penn_treebank(["a"])

    (no_java / "java").write_text("no program")
    with pytest.raises(NotAvailable, match="does not start"):
        penn_treebank(["a"])
