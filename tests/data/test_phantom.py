import hashlib
import time
from collections import Counter

import numpy as np
import pytest

from recstudy.config import DATASETS, configure
from recstudy.data import FINDINGS, PhantomXray
from recstudy.data import phantom_xray as phantom
from recstudy.data.cache import load
from recstudy.data.phantom_xray import SIGNS
from recstudy.data.reader import DrawingReader
from recstudy.errors import ConfigError

CASES = phantom.draw_cases(0)
DRAWN = [FINDINGS.index(name) for name in SIGNS]
ALONE = phantom.DrawnPatients._make(part[:60] for part in CASES)


def read(tmp_path, **fields):
    return phantom.draw_set(PhantomXray(**fields))


def test_images_are_the_same_bytes_everywhere(tmp_path):
    decoded = read(tmp_path)
    digest = hashlib.sha256(decoded.train_images.tobytes() + decoded.test_images.tobytes()).hexdigest()
    assert digest[:16] == "cbb658bb5ef46cbd"  # changed on purpose? Then raise the version in PhantomXray.reader too


def test_set_says_what_it_is(tmp_path):
    config = PhantomXray()
    assert (config.synthetic, config.title) == (True, "Phantom chest X-rays (synthetic)")
    assert (config.shape, config.classes, config.task) == ((1, 32, 32), 18, "multilabel")
    assert config.class_names == FINDINGS
    assert PhantomXray(findings="single").task == "multiclass"
    assert DATASETS["phantom_xray"] is PhantomXray
    with pytest.raises(ConfigError, match="'size' must be greater than or equal to 16, but got 8"):
        configure(PhantomXray, {"size": 8})


def test_labels_are_yes_no_and_unknown(tmp_path):
    decoded = read(tmp_path)
    others = [column for column in range(18) if column not in DRAWN]

    assert decoded.train_images.shape == (1200, 1, 32, 32)
    assert decoded.train_labels.shape == (1200, 18)
    assert decoded.test_labels.shape == (400, 18)
    assert (decoded.train_labels.dtype, decoded.train_groups.dtype) == (np.int64, np.int64)
    assert np.all(decoded.train_labels[:, others] == -1)
    assert set(np.unique(decoded.train_labels[:, DRAWN])) == {0, 1}


def test_findings_are_as_frequent_as_stated():
    """Within 4 standard deviations of 1,600 draws."""
    stated = np.array([sign.probability for sign in SIGNS.values()])
    assert np.all(abs(CASES.present.mean(0) - stated) < 4 * np.sqrt(stated * (1 - stated) / 1600))


def test_single_findings_are_classes(tmp_path):
    all_of_them, single = read(tmp_path), read(tmp_path, findings="single")
    ones = (all_of_them.train_labels == 1).sum(1) == 1

    assert len(single.train_labels) == PhantomXray(findings="single").train_size == ones.sum()
    assert np.array_equal(single.train_labels, (all_of_them.train_labels[ones] == 1).argmax(1))
    assert np.array_equal(single.train_images, all_of_them.train_images[ones])


@pytest.mark.parametrize("findings", ["multilabel", "single"])
def test_patients_have_one_to_three_images_in_one_split(tmp_path, findings):
    decoded = read(tmp_path, findings=findings)
    groups = np.concatenate([decoded.train_groups, decoded.test_groups])

    assert not set(decoded.train_groups) & set(decoded.test_groups)
    assert np.array_equal(np.unique(groups), np.arange(groups.max() + 1))
    assert set(Counter(groups.tolist()).values()) == {1, 2, 3}
    assert np.all(np.diff(groups) >= 0)


def test_size_changes_nothing_but_the_pixels(tmp_path):
    small, large = read(tmp_path, size=16), read(tmp_path, size=48)
    assert small.train_images.shape == (1200, 1, 16, 16)
    assert np.array_equal(small.train_labels, large.train_labels)
    assert np.array_equal(small.test_groups, large.test_groups)
    means = [images.train_images.mean((1, 2, 3)) for images in (small, large)]
    assert np.corrcoef(*means)[0, 1] > 0.99


@pytest.mark.parametrize("size", [16, 32, 64])
@pytest.mark.parametrize("index", range(len(SIGNS)), ids=list(SIGNS))
def test_every_sign_is_visible(index, size):
    """It changes a part of the image by more than the noise's deviation (NOISE / sqrt(12) = 0.07), and leaves most alone."""
    without, alone = (np.zeros_like(ALONE.present) for _ in range(2))
    alone[:, index] = True
    healthy, sick = (phantom.draw(ALONE._replace(present=present), size) for present in (without, alone))

    change = abs(sick - healthy)
    assert np.median(change.max((1, 2))) > 0.1
    assert (change.max((1, 2)) > 0.07).mean() > 0.8
    assert (change > 0.02).mean() < 0.25


def test_patients_look_like_themselves():
    """Without findings, two images of a patient are more alike than images of two patients."""
    healthy = phantom.draw(CASES._replace(present=np.zeros_like(CASES.present)), 32)
    pairs = np.flatnonzero(np.diff(CASES.groups) == 0)[:200]
    others = np.flatnonzero(np.diff(CASES.groups) == 1)[:200]
    own, foreign = (abs(healthy[rows + 1] - healthy[rows]).mean() for rows in (pairs, others))
    assert own < 0.8 * foreign


def test_drawing_is_fast(tmp_path):
    """0.2 s of a core; the limit leaves room for a slow one."""
    started = time.process_time()
    read(tmp_path)
    assert time.process_time() - started < 3


def test_cache_depends_on_the_drawing_and_keeps_the_patients(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    cold, warm = load(PhantomXray(), tmp_path), load(PhantomXray(), tmp_path)
    assert np.array_equal(cold.train.groups, warm.train.groups)
    assert (warm.group_count, warm.notes) == (794, ())
    assert (len(warm.train), len(warm.validation), len(warm.test)) == (1080, 120, 400)

    monkeypatch.setattr(DrawingReader, "program", lambda reader: ("phantom", 0))
    load(PhantomXray(), tmp_path)
    assert len(list((tmp_path / "cache").glob("phantom_xray-*"))) == 2
