from collections import Counter

import numpy as np
import pytest

from recstudy.recursive import PhantomCaptions
from recstudy.recursive.data import caption_sets as phantom
from recstudy.recursive.data import text

CASES = phantom.draw_cases(0)


@pytest.fixture(scope="module")
def decoded(tmp_path_factory):
    return phantom.draw_set(PhantomCaptions(), tmp_path_factory.mktemp("nothing"))


def test_default_tokenizer_knows_every_word(decoded):
    """Of two or three captions an image, in different words."""
    tokenizer, captions = text.restore(decoded.tokenizer), decoded.train_captions + decoded.test_captions
    assert all(
        tokenizer.decode(tokenizer.encode(caption)) == caption for texts in captions for caption in texts
    )
    assert {len(set(texts)) for texts in captions} == set(map(len, captions)) == {2, 3}
    assert decoded.notes == ("the tokenizer uses 59 of 64 ids; 0.0 % of the words are unknown (UNK)",)
    assert (PhantomCaptions.synthetic, PhantomCaptions().title) == (True, "Phantom captions (synthetic)")


def test_cases_have_one_to_three_images_in_one_split(decoded):
    assert not set(decoded.train_groups) & set(decoded.test_groups)
    assert set(Counter(CASES.groups.tolist()).values()) == {1, 2, 3}
    for part in (CASES.case, CASES.tint):
        assert len(np.unique(np.column_stack([CASES.groups, part]), axis=0)) == len(np.unique(CASES.groups))


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
