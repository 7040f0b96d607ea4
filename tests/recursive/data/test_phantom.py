from collections import Counter

import numpy as np
import pytest

from recstudy.recursive import PhantomXray
from recstudy.recursive.data import phantom_xray as phantom


def read(**fields):
    return phantom.draw_set(PhantomXray(**fields))


def test_single_findings_are_classes():
    all_of_them, single = read(), read(findings="single")
    has_one_finding = (all_of_them.train_labels == 1).sum(1) == 1

    # drawn, and unknown
    assert {tuple(np.unique(column)) for column in all_of_them.train_labels.T} == {(0, 1), (-1,)}
    assert len(single.train_labels) == PhantomXray(findings="single").train_size == has_one_finding.sum()
    assert np.array_equal(single.train_labels, (all_of_them.train_labels[has_one_finding] == 1).argmax(1))
    assert np.array_equal(single.train_images, all_of_them.train_images[has_one_finding])


@pytest.mark.parametrize("findings", ["multilabel", "single"])
def test_patients_have_one_to_three_images_in_one_split(findings):
    decoded = read(findings=findings)
    groups = np.concatenate([decoded.train_groups, decoded.test_groups])

    assert not set(decoded.train_groups) & set(decoded.test_groups)
    assert np.array_equal(np.unique(groups), np.arange(groups.max() + 1))
    assert set(Counter(groups.tolist()).values()) == {1, 2, 3}
    assert np.all(np.diff(groups) >= 0)
