import json
import math
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recstudy.errors import ConfigError
from recstudy.metrics import METRICS, Answers, measured
from recstudy.metrics.answers import NotAvailable
from recstudy.metrics.registry import of_task
from recstudy.tasks.captioning import java
from recstudy.tasks.captioning.coco import APPROXIMATION, PUNCTUATION, STANFORD, approximate, cut
from recstudy.tasks.captioning.java import meteor, penn_treebank

FIXTURES = [Path(os.environ.get("RECSTUDY_DATA", "data")), Path(__file__).parents[3] / "shared/data"]
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
NAMES = [name for name in of_task("caption") if name != "rate_score"]
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")


def caption_scores(written, references):
    return measured(Answers("caption", written=written, references=references), NAMES)


@pytest.fixture
def no_meteor():
    """Nor one that an earlier test has left running."""
    java.METEOR.stop()
    yield
    java.METEOR.stop()


@pytest.fixture
def no_java(monkeypatch, tmp_path, no_meteor):
    """The folder that the PATH names alone, empty."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


@pytest.fixture
def fixtures() -> Path:
    found = [folder / "caption_metrics" for folder in FIXTURES if (folder / "caption_metrics").exists()]
    if not found:
        pytest.skip("caption_metrics is neither below RECSTUDY_DATA nor in ../shared/data")
    return found[0]


def java_children() -> list[str]:
    """Java processes that this process started and that are still there."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, rest = status.read_text().split("(", 1)[1].rsplit(")", 1)
        except OSError:  # gone meanwhile
            continue
        if int(rest.split()[1]) == os.getpid() and name == "java":
            found.append(status.parent.name)
    return found


def meteors() -> list[str]:
    """METEOR's process, which stays for a while."""
    return [str(java.METEOR.java.process.pid)] if java.METEOR.java else []


@pytest.mark.whole
@needs_java
def test_the_thousand_captions_of_the_coco_demo_give_the_published_scores(fixtures):
    references, candidates, expected = (
        json.loads((fixtures / name).read_text())
        for name in ("coco_fakecap_references.json", "coco_fakecap_candidates.json", "expected.json")
    )

    written, told = [candidates[image][0] for image in references], list(references.values())
    scores = caption_scores(written, told)

    published = expected["coco_fakecap"]["published_by_coco_caption_demo_3_decimals"]
    ours = {name: round(value, 3) for name, value in scores.values.items()}
    assert ours.pop("avg_bleu") == 0.363  # the mean of the four, which the demo does not print
    assert ours.pop("report_score") == 0.33  # 0.363 / 2 + 0.195 / 4 + 0.396 / 4, nor this
    assert ours == {name.lower(): value for name, value in published.items() if name != "SPICE"}
    assert (scores.unavailable, cut(written, told).tokenizer, cut(written, told).notes) == ({}, STANFORD, ())
    assert java_children() == meteors()


@needs_java
def test_meteor_by_hand():
    """Words that carry meaning weigh 0.75, the others 0.25: P = (0.75 + 3/4)/(2 x 0.75 + 3/4), 4 matches in 2 chunks.

    The second caption says nothing, so its reference's word is missed; what would end a field or a line does not.
    """
    value = meteor(["this is ||| a good\r\ntest", ""], [["this is a ||| test", "this is\nalso a test"], ["dog"]])

    precision = recall = 1.5 / 2.25
    f_mean = precision * recall / (0.85 * precision + 0.15 * recall)
    assert value == pytest.approx(f_mean * (1 - 0.6 * (2 / 4) ** 0.2))
    assert java_children() == meteors()


@pytest.mark.parametrize("toy", ["nlgeval_two_sentences", "nlgeval_one_sentence"])
def test_published_toys(fixtures, no_java, toy):
    case = json.loads((fixtures / "expected.json").read_text())[toy]

    scores = caption_scores(case["candidates"], case["references"])

    for name, value in scores.values.items() - {("avg_bleu", scores.values["avg_bleu"])}:
        published = next(case["expected"][known] for known in case["expected"] if known.lower() == name)
        assert value == pytest.approx(published, rel=1e-5)
    assert ("cider" in scores.unavailable) == (len(case["candidates"]) == 1)


def test_bleu_by_hand(no_java):
    """5 of 6 words, 3 of 5 pairs, 1 of 4 triples, no four in a row; and a quarter too short a caption of two words."""
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


def test_without_java_there_is_no_report_score_to_select_by(no_java):
    with pytest.raises(ConfigError, match=r"the report score has METEOR in it: .* Set train\.score to another metric"):
        METRICS["report_score"](Answers("caption", written=["a cat"], references=[["a cat"]]))


def test_rouge_l_by_hand(no_java):
    """Precision 3/4 is the second reference's, recall 1 the first's."""
    values = caption_scores(["a b c d"], [["a c", "b c d e f g h i"]]).values

    assert values["rouge_l"] == pytest.approx((1 + 1.44) * 0.75 / (1 + 1.44 * 0.75))


def test_cider_by_hand(no_java):
    """Cosine 1/sqrt(2) of the words, nothing of longer n-grams, one pair of words less; the other image has nothing right."""
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
    assert cut(HOSTILE, [["a reference of it"]] * len(HOSTILE)).notes[1] == "3 of 10 generated captions have no word"


def test_images_without_a_reference_are_left_out(no_java):
    alone = caption_scores(["a b", "c d"], [["a b"], ["c e"]])
    some = ["a b", "x", "c d", "y"], [["a b", ""], [], ["c e"], [" ."]]
    among = caption_scores(*some)

    assert among.values == alone.values
    assert cut(*some).notes[1] == "2 of 4 images have no reference caption and are left out"
    assert caption_scores(["a"], [[]]) == ({}, (), dict.fromkeys(NAMES, "no image has a reference caption"), ())
    with pytest.raises(ValueError, match="2 captions for 1 images"):
        cut(["a", "b"], [["a"]])


@needs_java
@pytest.mark.whole
def test_ten_thousand_captions_take_less_than_a_minute():
    """With METEOR and Stanford's words, a reference each as in ROCO; no Java is left behind."""
    draw = random.Random(0)
    words = [f"finding{at}" for at in range(2000)]
    texts = [" ".join(draw.choices(words, k=12)) + "." for _ in range(20_000)]
    started = time.perf_counter()

    scores = caption_scores(texts[:10_000], [[text] for text in texts[10_000:]])

    assert time.perf_counter() - started < 60
    assert (scores.unavailable, set(scores.values)) == ({}, set(NAMES))
    assert java_children() == meteors()


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
    assert approximate("It isn't a (3.5 cm) X-ray.") == ["it", "is", "n't", "a", "-lrb-", "3.5", "cm", "-rrb-", "x-ray", "."]


@needs_java
@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_jar_that_cannot_be_used_is_the_reason(monkeypatch, tmp_path, no_meteor, damage):
    if damage == "damaged":
        for jar in (java.METEOR_JAR, java.TOKENIZER_JAR):
            (tmp_path / jar).parent.mkdir()
            (tmp_path / jar).write_bytes(b"no archive")
    monkeypatch.setattr(java, "JARS", tmp_path)

    scores = caption_scores(["a b", "c"], [["a b"], ["c"]])

    said = {"missing": "meteor/meteor-1.5.jar is missing from the package pycocoevalcap", "damaged": "corrupt jarfile"}
    assert said[damage] in scores.unavailable["meteor"]
    assert cut(["a b"], [["a b"]]).tokenizer == APPROXIMATION
    assert scores.values["bleu_1"] == pytest.approx(1)
    assert java_children() == meteors()


@pytest.mark.parametrize(
    ("program", "reason"), [("#!/bin/sh\nexec /bin/sleep 60", "stopped after 0.3 s"), ("no program", "not start")]
)
def test_a_java_that_hangs_or_is_none_is_the_reason(monkeypatch, no_java, program, reason):
    (no_java / "java").write_text(program)
    (no_java / "java").chmod(0o755)
    monkeypatch.setattr(java, "LIMIT_S", 0.3)

    with pytest.raises(NotAvailable, match=reason):
        meteor(["a"], [["a"]])
    with pytest.raises(NotAvailable, match=reason):
        penn_treebank(["a"])


@pytest.mark.whole
@needs_java
def test_meteor_stays_for_the_next_call_until_none_comes(monkeypatch, no_meteor):
    monkeypatch.setattr(java, "IDLE_S", 3600)
    first = [meteor(["a b"], [["a c"]]), meteor(["c d"], [["c d"]])]
    (process,) = java_children()
    again = [meteor(["a b"], [["a c"]]), meteor(["c d"], [["c d"]])]
    assert (again, java_children()) == (first, [process])

    with pytest.raises(TypeError, match="expected string"):  # an error of ours: it may owe an answer
        meteor(["a"], [[None]])
    assert java_children() == []

    assert meteor(["a b"], [["a c"]]) == first[0]
    java.METEOR.java.process.kill()  # as when memory is short
    java.METEOR.java.process.wait()
    monkeypatch.setattr(java, "IDLE_S", 0.1)
    assert meteor(["a b"], [["a c"]]) == first[0]
    for _ in range(600):
        if not java_children():
            break
        time.sleep(0.1)
    assert java_children() == []


@needs_java
def test_an_idle_timer_that_goes_off_during_a_call_does_not_end_the_process():
    """It waits for the lock that the call holds, and finds that the process was asked meanwhile."""
    own = java.Meteor()
    with own.answering() as first:
        pass
    timer = own.idle
    with own.answering():
        late = threading.Thread(target=timer.function)
        late.start()
    late.join()

    assert own.java is first
    assert first.process.poll() is None
    own.stop()


ASK = "import sys, time; from recstudy.tasks.captioning import java; java.meteor(['a'], [['a']]); print(java.METEOR.java.process.pid, flush=True); "


@pytest.mark.whole
@needs_java
@pytest.mark.parametrize("end", ["time.sleep(600)", ""])
def test_meteor_ends_with_the_process_that_asked_it(end):
    """Killed, or at its own end, without a word on the standard error."""
    process = subprocess.Popen([sys.executable, "-W", "error", "-c", ASK + end], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    meteor_process = Path("/proc") / process.stdout.readline().decode().strip()
    if end:
        process.kill()
    assert process.communicate(timeout=100)[1] == b""
    assert process.returncode == (-9 if end else 0)
    for _ in range(600):
        if not meteor_process.exists():
            break
        time.sleep(0.1)
    assert not meteor_process.exists()
