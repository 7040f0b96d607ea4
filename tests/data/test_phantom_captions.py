import hashlib
from collections import Counter

import numpy as np
import pytest

from recstudy.config import DATASETS
from recstudy.data import PhantomCaptions, text
from recstudy.data import caption_sets as phantom
from recstudy.data.cache import load

CASES = phantom.draw_cases(0)


@pytest.fixture(scope="module")
def decoded(tmp_path_factory):
    return phantom.draw_set(PhantomCaptions(), tmp_path_factory.mktemp("nothing"))


def test_images_and_captions_are_the_same_bytes_everywhere(decoded):
    said = repr((decoded.train_captions, decoded.test_captions)).encode()
    digest = hashlib.sha256(decoded.train_images.tobytes() + decoded.test_images.tobytes() + said).hexdigest()
    assert digest[:16] == "ea103ad94b6caf39"  # changed on purpose? Then raise the version in PhantomCaptions.reader too


def test_set_says_what_it_is(decoded):
    config = PhantomCaptions()
    assert DATASETS["phantom_captions"] is PhantomCaptions
    assert (config.synthetic, config.title, config.train_size) == (True, "Phantom captions (synthetic)", 1000)
    assert decoded.train_images.shape == (1000, 3, 64, 64)
    assert decoded.test_images.shape == (200, 3, 64, 64)


def test_default_tokenizer_knows_every_word(decoded):
    tokenizer = text.restore(decoded.tokenizer)
    for texts in decoded.train_captions + decoded.test_captions:
        assert all(tokenizer.decode(tokenizer.encode(caption)) == caption for caption in texts)
    assert tokenizer.size <= PhantomCaptions().classes
    assert decoded.notes == ("59 of 64 ids are used; 0.0 % of the words have none of their own",)


def test_cases_have_one_to_three_images_in_one_split(decoded):
    assert not set(decoded.train_groups) & set(decoded.test_groups)
    assert set(Counter(CASES.groups.tolist()).values()) == {1, 2, 3}
    for part in (CASES.case, CASES.tint):
        assert len(np.unique(np.column_stack([CASES.groups, part]), axis=0)) == len(np.unique(CASES.groups))


def test_images_have_two_or_three_captions_in_different_words(decoded):
    captions = decoded.train_captions + decoded.test_captions
    assert set(map(len, captions)) == {2, 3}
    assert all(len(set(texts)) == len(texts) for texts in captions)


def test_captions_say_what_is_drawn():
    """All of them, in every wording; a normal image has neither shape nor size."""
    for row, (number, kinds) in enumerate(zip(CASES.number.tolist(), CASES.case.tolist(), strict=True)):
        names = (phantom.SHAPES, phantom.SIZES, phantom.LEVELS, phantom.SIDES)
        shape, size, level, side = (names[place][kind] for place, kind in enumerate(kinds))
        for caption in phantom.describe(CASES, row):
            words = caption.split()
            if number:
                assert {phantom.COUNTS[number], size, level, side, shape + "s" * (number > 1)} <= set(words)
            else:
                assert words[-2] == "normal"
                assert not {*phantom.SHAPES, *phantom.SIZES, *phantom.LEVELS} & set(words)


def test_findings_can_be_seen():
    """Without the ground, the side that is named is brighter by what the shapes add; the other one is as dark as before."""
    bright = phantom.draw(CASES, 64) - phantom.draw(CASES._replace(number=np.zeros_like(CASES.number)), 64)
    _, big, level, side = CASES.case.T
    halves = bright[:, :, :32].sum((1, 2)), bright[:, :, 32:].sum((1, 2))
    named, other = np.where(side, halves[1], halves[0]), np.where(side, halves[0], halves[1])

    assert np.all(other == 0)
    assert np.all((named > 0) == (CASES.number > 0))
    assert np.allclose(bright.max((1, 2))[CASES.number > 0], np.array(phantom.BRIGHTNESS)[level][CASES.number > 0])
    areas = {(size, number): np.median(named[(big == size) & (CASES.number == number)]) for size in (0, 1) for number in (1, 3)}
    assert areas[1, 1] > 2 * areas[0, 1]
    assert areas[0, 3] == pytest.approx(3 * areas[0, 1], rel=0.3)


def test_shapes_do_not_overlap_nor_leave_the_image():
    """Drawn one at a time, no pixel has two; and together they add up."""
    alone = CASES._replace(case=np.where([True, False, False, False], CASES.case, [0, 1, 1, 1]))  # large and bright, on the right
    for number in (1, 2, 3):
        drawn = phantom.draw(alone._replace(number=np.full_like(CASES.number, number)), 64)
        ground = phantom.draw(alone._replace(number=np.zeros_like(CASES.number)), 64)
        assert (drawn - ground).max() <= phantom.BRIGHTNESS[1] + 1e-9
        assert np.all((drawn - ground)[:, :, [0, -1]] == 0)
        assert np.all((drawn - ground)[:, [0, -1]] == 0)


def test_size_changes_nothing_but_the_pixels(decoded, tmp_path):
    large = phantom.draw_set(PhantomCaptions(size=128), tmp_path)
    assert large.train_captions == decoded.train_captions
    assert np.array_equal(large.train_labels, decoded.train_labels)
    assert large.train_images[:, :, ::2, ::2].mean() == pytest.approx(decoded.train_images.mean(), rel=0.02)


def test_other_tokenizers_and_cleaning_are_possible(tmp_path):
    data = load(PhantomCaptions(tokenizer="byte", length=128, clean="report"), tmp_path)

    assert data.classes == 260
    row = int(data.test.rows[0])
    assert data.tokenizer.decode(data.test.labels[row].tolist()) == data.test.captions[row][0]
    assert ":" not in data.test.captions[row][0]
