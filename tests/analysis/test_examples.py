"""Kept captions: which are read, what damage is said, and what the cards show of any text."""

import csv
import json
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import as_result, captioned, run_id, write_caption_study, write_captions
from pycocoevalcap.bleu.bleu import Bleu

from recstudy.analysis import Captions
from recstudy.analysis.examples import (
    FOLD,
    CardsShown,
    captions_data,
    folded,
    known_words,
    picture,
    read_captions,
    read_images,
)
from recstudy.analysis.frame import load_study
from recstudy.analysis.report import write_report
from recstudy.errors import StorageError
from recstudy.records import write_json
from recstudy.report import dump_report

HOSTILE = '</p></article><script>alert("x")</script><img src=x onerror=alert(1)>'
KINDS = {"div", "article", "img", "h3", "p", "ul", "li", "dl", "dt", "dd", "small", "details", "summary", "span", "mark"}
TEXTS = [(["A large mass.", "The mass, left"], "the mass is small"), (["Normal film"], "")]


class Words(HTMLParser):
    """The tags of some HTML, its words, and those of its words that are marked."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.marked = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open = tag

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        self.words += data
        if self.tags and self.open == "mark":
            self.marked.append(data)


@pytest.fixture
def study(tmp_path):
    """The LSTM and the TRM have kept two examples, of seed 0 and of seed 1."""
    results = write_caption_study(tmp_path / "r", report=dump_report([Captions()]))
    write_captions(results, run_id(0, 0), TEXTS)
    write_captions(results, run_id(3, 1), [(TEXTS[0][0], "a mass"), (TEXTS[1][0], "normal")])
    return results


def found(results, spec=Captions(), **arguments):  # noqa: B008
    return captions_data(load_study(results, "made_up", "paper"), spec, **arguments)


def test_the_first_finished_seed_of_each_variant_with_its_counts(study):
    frame = found(study).frame

    assert frame[["row", "label", "seed", "hypothesis", "words", "shared"]].values.tolist() == [
        [0, "LSTM", 0, "the mass is small", 4, 2],
        [3, "LSTM", 0, "", 0, 0],
        [0, "TRM", 1, "a mass", 2, 2],
        [3, "TRM", 1, "normal", 1, 1],
    ]
    assert json.loads(frame["references"][0]) == ["A large mass.", "The mass, left"]


def test_a_card_shows_image_references_and_every_hypothesis(study):
    page = Words(CardsShown(found(study)).html)

    assert [attrs["aria-label"] for tag, attrs in page.tags if tag == "article"] == [
        "Phantoms, test image 0",
        "Phantoms, test image 3",
    ]
    images = [attrs for tag, attrs in page.tags if tag == "img"]
    assert [image["alt"] for image in images] == ["Phantoms, test image 0", "Phantoms, test image 3"]
    assert all(image["src"].startswith("data:image/png;base64,") and image["class"] == "sharp" for image in images)
    assert page.marked == ["the", "mass", "a", "mass", "normal"]
    for words in (
        "The mass, left",
        "LSTM seed 0, 2 of 4 words in a reference, BLEU-1 0.50",
        "(empty)",
        "captions decoded by: beam 3",
    ):
        assert words in page.words


def test_most_where_and_too_many_variants(study):
    assert set(found(study, Captions(most=1)).frame["row"]) == {0}
    assert set(found(study, Captions(where={"model": "TRM"})).frame["label"]) == {"TRM"}
    cut = found(study, most=1)
    assert set(cut.frame["label"]) == {"TRM"}
    assert cut.notes == ("the 1 best of 2 variants by CIDEr",)


def test_hostile_texts_add_no_tag(tmp_path):
    results = write_caption_study(tmp_path / "r", report=dump_report([Captions()]))
    write_captions(results, run_id(0, 0), [([HOSTILE, HOSTILE * 9], HOSTILE), ([HOSTILE], HOSTILE * 9)])
    results.run(run_id(0, 0)).finish(as_result(captioned(0.3, decode=HOSTILE)))

    page = Words(CardsShown(found(results)).html)

    assert {tag for tag, _ in page.tags} <= KINDS
    assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
    assert page.words.count(HOSTILE) == 4 + 8 + 8  # folding cuts one copy of nine
    write_report(results, "made_up", "paper")


@given(st.text(alphabet=st.sampled_from(" <>&\"'ab\n\N{GREEK SMALL LETTER ALPHA}"), max_size=600))
def test_a_folded_text_says_every_character_once(text):
    html = folded(text, {"a", "ab"})

    said = Words(html).words.replace("\N{HORIZONTAL ELLIPSIS} more", "")
    assert said == (text if text.strip() else "(empty)")
    assert ("<details" in html) == (len(text) > FOLD and bool(text.strip()))


def test_words_are_compared_without_case_and_punctuation():
    assert known_words(["CT: a Mass,", "mass-like"]) == {"ct": 1, "a": 1, "mass": 1, "like": 1}
    assert folded("Mass; massive", {"mass"}) == "<mark>Mass</mark>; massive"


def test_a_word_counts_at_most_as_often_as_a_reference_has_it(tmp_path):
    """Two of five: a reference says `large` twice, another once. BLEU-1 is that of pycocoevalcap for the one image."""
    results = write_caption_study(tmp_path / "r")
    references = ["large and large", "a large mass of the lung"]
    write_captions(results, run_id(0, 0), [(references, "large large large large large"), (references, "Large mass")])

    data = found(results)
    page = Words(CardsShown(data).html)

    assert data.frame[["words", "shared"]].values.tolist() == [[5, 2], [2, 2]]
    assert page.marked == ["large", "large", "Large", "mass"]
    theirs = [Bleu(1).compute_score({0: references}, {0: [text.lower()]}, verbose=0)[0][0] for text in data.frame["hypothesis"]]
    assert data.frame["bleu_1"].tolist() == pytest.approx(theirs)


def test_a_large_image_is_shrunk_and_a_missing_one_is_said():
    noise = np.random.default_rng(0).integers(0, 256, (900, 700, 3), dtype=np.uint8)

    assert 'src="data:image/webp;base64,' in picture(noise, "x")
    assert len(picture(noise, "x")) < 100_000  # of 1.9 MB
    assert picture(None, "x") == '<p class="note">no image kept</p>'


def test_the_csv_holds_what_the_cards_show(study):
    page = write_report(study, "made_up", "paper")

    first = next(csv.DictReader((page.parent / "tables" / "captions.csv").read_text().splitlines()))
    assert (first["label"], first["row"], first["hypothesis"], first["shared"]) == ("LSTM", "0", "the mass is small", "2")
    assert 'href="tables/captions.csv"' in page.read_text()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"format": 1}, "it has no list of examples"),
        ([1], "it has no list of examples"),
        ({"examples": [{"row": 1}]}, r"examples\[0\] lacks one of row, references, hypothesis"),
        ({"examples": [{"row": 1, "references": [2], "hypothesis": "x"}]}, "a reference is no text"),
    ],
)
def test_damaged_texts_are_named(study, content, reason):
    path = study.run(run_id(0, 0)).path / "captions.json"
    write_json(path, content)

    with pytest.raises(StorageError, match=rf"runs/{run_id(0, 0)}/captions\.json is damaged \({reason}\)"):
        read_captions(path)


@pytest.mark.parametrize(
    "images", [np.zeros((2, 8, 8)), np.zeros((2, 2, 8, 8)), np.zeros((2, 3, 0, 8)), np.zeros((1, 3, 8, 8, 1))]
)
def test_damaged_images_are_named(study, images):
    write_captions(study, run_id(0, 0), TEXTS, images)

    with pytest.raises(StorageError, match=r"captions\.npz is damaged \(ValueError: "):
        read_images(study.run(run_id(0, 0)).path / "captions.npz")


def test_damage_leaves_the_rest_of_the_report(study):
    (study.run(run_id(0, 0)).path / "captions.json").write_text("{")
    (study.run(run_id(3, 1)).path / "captions.npz").write_bytes(b"torn")

    page = write_report(study, "made_up", "paper").read_text()

    assert "LSTM: " in page
    assert "captions.json is damaged: it is not JSON" in page
    assert "TRM: runs/" in page
    assert "captions.npz is damaged" in page
    assert "no image kept" in page


def test_without_captions_there_is_a_line(tmp_path):
    results = write_caption_study(tmp_path / "r", report=dump_report([Captions()]))

    assert "No finished run has kept captions yet" in write_report(results, "made_up", "paper").read_text()
