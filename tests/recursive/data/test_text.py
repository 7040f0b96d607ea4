import json
import re

import numpy as np
import pytest
from clip_like import clip_files
from hypothesis import given
from hypothesis import strategies as st

from recstudy.base.errors import DataError
from recstudy.recursive import CaptionFolder
from recstudy.recursive.data import text
from recstudy.recursive.data.text import collapse_spaces, report

CAPTIONS = [
    "two small bright discs on the left .",
    "one large ring on the right .",
    "two faint discs : café .",
] * 3


def clip_config(**fields):
    return CaptionFolder(path="x", tokenizer="clip", **fields)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return text.tokenizer_of(clip_config(), [], clip_files(tmp_path_factory.mktemp("clip")))


BYTES = text.ByteTokenizer()
WORDS = text.WordTokenizer.train(CAPTIONS, 64)
PAIRS = text.BpeTokenizer.train(CAPTIONS, 300)
CLIP_WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d|[a-z]+|[0-9]|[^\sa-z0-9]+")


@given(st.text())
def test_bytes_and_byte_pairs_lose_nothing(words):
    for tokenizer in (BYTES, PAIRS):
        assert tokenizer.decode(tokenizer.encode(words)) == words


@given(st.lists(st.sampled_from(["two", "discs", "zebra", " ", "\n", "\u00a0", "."])))
def test_words_lose_white_space_and_the_unknown(words):
    sentence = " ".join(words)
    expected = " ".join(word for word in words if word in ("two", "discs", "."))

    assert WORDS.decode(WORDS.encode(sentence)) == expected
    assert WORDS.encode(sentence).count(WORDS.unk) == words.count("zebra")


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126, exclude_characters="&")))
def test_clip_parts_words_and_drops_case(clip, words):
    expected = " ".join(CLIP_WORDS.findall(" ".join(words.lower().split())))

    assert clip.decode(clip.encode(words)) == expected


@pytest.mark.parametrize(
    ("tokenizer", "classes"),
    [(BYTES, 260), (WORDS, 300), (PAIRS, 300)],
    ids=lambda parameter: getattr(parameter, "name", parameter),
)
def test_ids_are_those_of_the_interface(tokenizer, classes):
    config = CaptionFolder(path="x", tokenizer=tokenizer.name, vocabulary=300)
    assert (tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.unk) == (0, 1, 2, 3)
    assert (config.special_tokens, config.classes) == ((0, 1, 2), classes)
    assert (
        tokenizer.decode([1, *tokenizer.encode("two discs"), 3, 0, 2, *tokenizer.encode("one"), 2])
        == "two discs"
    )
    assert min(tokenizer.encode(CAPTIONS[0])) >= 4
    # a model may give ids that its tokenizer does not
    assert isinstance(tokenizer.decode([1999, 7, 1500]), str)


def test_bytes_and_byte_pairs_by_hand():
    """Byte b is 4 + b; pairs fill the vocabulary, and shorten."""
    assert (BYTES.size, PAIRS.size) == (260, 300)
    assert BYTES.encode("aé") == [4 + 97, 4 + 0xC3, 4 + 0xA9]
    assert BYTES.decode([4 + 0xC3, 4 + 97]) == "\ufffda"
    assert len(PAIRS.encode(CAPTIONS[0])) < len(CAPTIONS[0]) / 2


def test_frequent_words_come_first_and_rare_ones_not_at_all():
    """`b` 4 times, `a` and `c` 3 times, `d` twice; five ids leave room for one word. With no id but the
    special ones a model would learn to say nothing, at 100 % of its tokens."""
    captions = ["b c a b", "c a b", "d d a b c"]
    assert text.WordTokenizer.train(captions, 64).contents == ["b", "a", "c"]
    assert text.WordTokenizer.train(captions, 5).contents == ["b"]
    with pytest.raises(
        DataError, match=r"^no word occurs 3 times in the training captions.*Set data.tokenizer to 'byte' or"
    ):
        text.WordTokenizer.train(["b c a", "c a b"], 64)


def test_clip_has_its_own_ids(clip):
    """By hand: `left` is merged at the end of a word only; a lone `!` ends one, so it is not id 0."""
    assert (clip.size, clip.pad, clip.bos, clip.eos, clip.unk) == (517, 0, 515, 516, 516)
    assert clip.encode("  LEFT\n!") == [514, 256]
    assert clip.encode("!!") == [0, 256]
    assert clip.decode([0, 256, 516, 0, 0]) == "!!"
    assert clip.encode("a &amp;lt; b") == clip.encode("a < b")
    assert clip.encode("<|endoftext|>") == clip.encode("<| endoftext |>")


def test_a_stored_tokenizer_is_the_same_and_others_have_another_checksum(clip):
    tokenizers = [BYTES, WORDS, PAIRS, clip, text.WordTokenizer.train(CAPTIONS[1:], 64)]
    for tokenizer in tokenizers:
        restored = text.restore(json.loads(json.dumps(tokenizer.stored())))
        assert (restored.checksum, restored.size, restored.eos) == (
            tokenizer.checksum,
            tokenizer.size,
            tokenizer.eos,
        )
        assert restored.encode("two discs, left!") == tokenizer.encode("two discs, left!")
    assert len({tokenizer.checksum for tokenizer in tokenizers}) == 5
    assert clip_config().special_tokens == (0, 49_406, 49_407)  # models.md 7.2


def test_captions_become_rows_of_tokens():
    ids, cut = text.tokens(["ab", "abcd", ""], BYTES, 5)

    assert (ids.dtype, cut) == (np.int32, 1)
    assert ids.tolist() == [[1, 101, 102, 2, 0], [1, 101, 102, 103, 2], [1, 2, 0, 0, 0]]


def test_missing_clip_files_are_named(tmp_path, monkeypatch):
    """Files of the Hugging Face cache are taken, too."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(
        DataError,
        match=r"CLIP's tokenizer not found: neither .*/clip nor .* vocab.json and merges.txt. Put both",
    ):
        text.tokenizer_of(clip_config(), [], tmp_path)
    model = tmp_path / "hub/models--openai--clip-vit-base-patch32"
    for folder in ("snapshots", "refs"):
        (model / folder).mkdir(parents=True)
    (clip_files(tmp_path / "made") / "clip").rename(model / "snapshots/0123")
    (model / "refs/main").write_text("0123")
    assert text.tokenizer_of(clip_config(clip_files="elsewhere"), [], tmp_path).size == 517


@pytest.mark.parametrize(
    ("file", "contents"),
    [
        ("merges.txt", "#version: 0.2\nno such pair\n"),
        ("merges.txt", "#version: 0.2\nq zebra\n"),
        ("vocab.json", "{"),
    ],
)
def test_files_that_are_not_clips_are_refused(tmp_path, file, contents):
    place = clip_files(tmp_path) / "clip"
    vocabulary = json.loads((place / "vocab.json").read_text())
    (place / file).write_text(contents)
    with pytest.raises(
        DataError, match=r"clip/vocab.json and merges.txt are not CLIP's \(.*Take both from openai/clip"
    ):
        text.tokenizer_of(clip_config(), [], tmp_path)
    clip_files(tmp_path)
    (place / "vocab.json").write_text(
        json.dumps(vocabulary | {f"more{number}": 517 + number for number in range(49_408)})
    )
    with pytest.raises(DataError, match=r"vocab.json has 49,925 ids, but CLIP has 49,408"):
        text.tokenizer_of(clip_config(), [], tmp_path)


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("1. Clear lungs. 2) No effusion", "clear lungs . no effusion ."),
        ("XXXX year old, [**Name 2020**] with ___ pain.", "year old with pain ."),
        ("A 1.6 x 1.8cm nodule at level 3b (T2-weighted)", "a 1.6 x nodule at level weighted ."),
        (
            "The patient's ground-glass \u201copacity\u201d; 3.5 cm/left!",
            "the patients ground glass opacity 3.5 cm left .",
        ),
        ("No change...\nReally?", "no change . really ."),
        ("12mm, 3b. XX", ""),
        (" \n", ""),
    ],
)
def test_reports_are_cleaned_as_the_docstring_says(raw, cleaned):
    assert report(raw) == cleaned


@given(st.text())
def test_a_cleaned_report_stays_as_it_is(raw):
    cleaned = report(raw)
    assert report(cleaned) == cleaned == collapse_spaces(cleaned)
    assert cleaned == "" or cleaned.endswith(" .")
