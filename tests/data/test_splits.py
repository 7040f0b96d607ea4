import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from recstudy.data import Digits
from recstudy.data.splits import hold_out, limit, stratified_order, whole_groups
from recstudy.errors import DataError

# Patients by how many images each has, as neighbours in the file, and how many of them the set itself holds out.
PATIENTS = st.lists(st.integers(1, 40), min_size=2, max_size=30)


def patients(sizes: list[int], seed: int = 0) -> np.ndarray:
    """The patient of each image, in any order."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


def config(**fields) -> Digits:
    """Only its limit, validation and split_seed matter here."""
    return Digits(**fields)


def labels_of(groups: np.ndarray) -> np.ndarray:
    return np.zeros((len(groups), 18), np.int64)


@given(sizes=PATIENTS, most=st.none() | st.integers(16, 300), share=st.floats(0.01, 0.99), seed=st.integers(0, 2**32))
def test_no_patient_is_in_train_and_validation(sizes, most, share, seed):
    groups = patients(sizes)
    held, kept = hold_out(labels_of(groups), groups, None, config(limit=most, validation=share, split_seed=seed))

    assert not set(groups[held]) & set(groups[kept])
    assert len(held)
    assert len(kept)
    assert len(held) + len(kept) <= (most or len(groups))
    assert np.array_equal(held, np.unique(held))
    assert np.array_equal(kept, np.unique(kept))
    if most is None or most >= len(groups):
        assert len(held) + len(kept) == len(groups)


@given(sizes=PATIENTS, most=st.none() | st.integers(16, 300), held=st.integers(1, 29), seed=st.integers(0, 99))
def test_given_validation_patients_stay_the_validation_patients(sizes, most, held, seed):
    assume(held < len(sizes))
    groups = patients(sizes)
    given_rows = groups < held
    validation, train = hold_out(labels_of(groups), groups, given_rows, config(limit=most, split_seed=seed))

    assert given_rows[validation].all()
    assert not given_rows[train].any()
    assert len(validation)
    assert len(train)
    assert len(validation) + len(train) <= (most or len(groups))
    if most is None:
        assert np.array_equal(validation, np.flatnonzero(given_rows))


@given(sizes=PATIENTS, seed=st.integers(0, 99))
def test_without_hold_out_all_images_train_given_ones_too(sizes, seed):
    groups = patients(sizes)
    for held in (None, groups == 0):
        validation, train = hold_out(labels_of(groups), groups, held, config(split_seed=seed), hold_out=False)
        assert len(validation) == 0
        assert np.array_equal(train, np.arange(len(groups)))


def test_share_held_out_is_exact_where_patients_have_an_image_or_two():
    groups = patients([1, 2] * 100)
    held, kept = hold_out(labels_of(groups), groups, None, config(validation=0.25))
    assert (len(held), len(kept)) == (75, 225)


def test_given_validation_split_is_limited_in_proportion():
    """A quarter of 400 images is held out by the set; of the 40 that are left it is 10."""
    groups = patients([1] * 400)
    held, kept = hold_out(labels_of(groups), groups, groups < 100, config(limit=40, validation=0.9))
    assert (len(held), len(kept)) == (10, 30)


def test_one_patient_cannot_be_divided():
    groups = np.zeros(20, np.int64)
    with pytest.raises(
        DataError, match=r"^Digits has training images of one patient only: none can be held out for validation\.$"
    ):
        hold_out(labels_of(groups), groups, None, config())
    assert len(hold_out(labels_of(groups), groups, None, config(), hold_out=False)[1]) == 20


def test_patients_are_taken_while_they_fit():
    """Of 10 images, patients with 6, 6 and 3: one with 6 and the one with 3, whatever the order."""
    groups = np.repeat([0, 1, 2], [6, 6, 3])
    for seed in range(10):
        taken = whole_groups(groups, 10, seed)
        assert taken.sum() == 9
        assert set(np.unique(groups[taken], return_counts=True)[1]) == {6, 3}


def test_smallest_patient_is_taken_where_none_fits():
    assert whole_groups(np.repeat([5, 7, 9], [4, 3, 6]), 2, 0).tolist() == [False] * 4 + [True] * 3 + [False] * 6


@given(sizes=PATIENTS, most=st.integers(16, 300), seed=st.integers(0, 99))
def test_limit_of_the_test_split_takes_whole_patients(sizes, most, seed):
    groups = patients(sizes)
    rows = limit(labels_of(groups), groups, config(limit=most, split_seed=seed))

    assert 0 < len(rows) <= most
    cut = [group for group in set(groups[rows]) if np.sum(groups[rows] == group) < np.sum(groups == group)]
    assert not cut or (len(set(groups[rows])) == 1 and min(sizes) > most)


def test_several_labels_without_patients_are_split_by_image():
    labels = np.zeros((100, 18), np.int64)
    held, kept = hold_out(labels, None, None, config())
    assert (len(held), len(kept)) == (10, 90)
    assert len(limit(labels, None, config(limit=30))) == 30


@given(
    sizes=st.lists(st.integers(0, 30), min_size=2, max_size=12).filter(any),
    seed=st.integers(0, 2**32),
)
def test_any_prefix_holds_each_class_in_proportion(sizes, seed):
    labels = np.repeat(np.arange(len(sizes)), sizes)
    order = stratified_order(labels, seed)

    assert np.array_equal(np.sort(order), np.arange(len(labels)))
    counts = np.cumsum(labels[order][:, None] == np.arange(len(sizes)), axis=0)
    share = np.arange(1, len(labels) + 1)[:, None] * np.array(sizes) / len(labels)
    assert np.abs(counts - share).max() < 1


def test_one_large_class_among_many_small_ones_is_spread_evenly():
    """900 images of one class and one of each of 99 others: any 10 hold 9 of the large class, give or take one."""
    labels = np.array([0] * 900 + list(range(1, 100)))
    large = np.cumsum(labels[stratified_order(labels, 0)] == 0)
    assert np.abs(large - np.arange(1, 1000) * 900 / 999).max() < 1


def test_order_cut_short_is_its_prefix():
    labels = np.arange(300) % 7
    assert np.array_equal(stratified_order(labels, 5, 40), stratified_order(labels, 5)[:40])


def test_order_depends_on_the_seed_only():
    labels = np.arange(300) % 7
    assert np.array_equal(stratified_order(labels, 1), stratified_order(labels, 1))
    assert not np.array_equal(stratified_order(labels, 1), stratified_order(labels, 2))
