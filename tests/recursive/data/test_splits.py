from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layouts import check_refusal, refusals

from recstudy.base.errors import DataError
from recstudy.recursive import Digits
from recstudy.recursive.data.splits import (
    Rows,
    check_filled,
    check_whole,
    draw_splits,
    limit_split,
    split_validation,
    stratified_order,
    whole_groups,
)

# Patients by how many images each has, as neighbours in the file, and how many of them the set itself holds
# out.
PATIENTS = st.lists(st.integers(1, 40), min_size=2, max_size=30)


def patients(sizes, seed=0):
    """The patient of each image, in any order."""
    return np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))


def labels_of(groups):
    return np.zeros((len(groups), 18), np.int64)


@given(
    sizes=PATIENTS,
    max_images=st.none() | st.integers(16, 300),
    share=st.floats(0.01, 0.99),
    seed=st.integers(0, 2**32),
)
def test_no_patient_is_in_train_and_validation(sizes, max_images, share, seed):
    groups = patients(sizes)
    held_rows, kept_rows = split_validation(
        labels_of(groups), groups, None, Digits(limit=max_images, validation=share, split_seed=seed)
    )

    assert not set(groups[held_rows]) & set(groups[kept_rows])
    assert len(held_rows)
    assert len(kept_rows)
    for rows in (held_rows, kept_rows):
        assert np.array_equal(rows, np.unique(rows))
    if max_images is None or max_images >= len(groups):
        assert len(held_rows) + len(kept_rows) == len(groups)
    assert len(held_rows) + len(kept_rows) <= (max_images or len(groups))


@pytest.mark.parametrize(
    ("sizes", "held_images", "fields", "counts"),
    [
        ([1, 2] * 100, None, {"validation": 0.25}, (75, 225)),  # exact where patients have an image or two
        ([1] * 400, 100, {"limit": 40, "validation": 0.9}, (10, 30)),  # a given quarter, in proportion
        (None, None, {}, (10, 90)),  # several labels without patients: by image
    ],
)
def test_so_many_are_held_out(sizes, held_images, fields, counts):
    groups = None if sizes is None else patients(sizes)
    labels = np.zeros((100 if groups is None else len(groups), 18), np.int64)
    parts = split_validation(
        labels, groups, None if held_images is None else groups < held_images, Digits(**fields)
    )
    assert tuple(map(len, parts)) == counts
    _, train = split_validation(
        labels,
        groups,
        None if held_images is None else groups < held_images,
        Digits(),
        hold_out=False,
    )
    assert np.array_equal(train, np.arange(len(labels)))


@given(
    sizes=PATIENTS,
    max_images=st.none() | st.integers(16, 300),
    held_groups=st.integers(1, 29),
    seed=st.integers(0, 99),
)
def test_given_validation_patients_stay_the_validation_patients(sizes, max_images, held_groups, seed):
    held_groups = 1 + held_groups % (len(sizes) - 1)  # at least one patient on either side
    groups = patients(sizes)
    given_rows = groups < held_groups
    validation, train = split_validation(
        labels_of(groups), groups, given_rows, Digits(limit=max_images, split_seed=seed)
    )

    assert given_rows[validation].all()
    assert not given_rows[train].any()
    assert len(validation)
    assert len(train)
    assert len(validation) + len(train) <= (max_images or len(groups))
    if max_images is None:
        assert np.array_equal(validation, np.flatnonzero(given_rows))


def test_one_patient_cannot_be_divided():
    groups = np.zeros(20, np.int64)
    with pytest.raises(
        DataError,
        match=r"^Digits has training images of only one patient, so none can be held out for validation\.$",
    ):
        split_validation(labels_of(groups), groups, None, Digits())
    assert len(split_validation(labels_of(groups), groups, None, Digits(), hold_out=False)[1]) == 20


def test_patients_are_taken_while_they_fit():
    """Of 10 images, patients with 6, 6 and 3: one with 6 and the one with 3, whatever the order."""
    groups = np.repeat([0, 1, 2], [6, 6, 3])
    for seed in range(10):
        chosen = whole_groups(groups, 10, seed)
        assert chosen.sum() == 9
        assert set(np.unique(groups[chosen], return_counts=True)[1]) == {6, 3}


def test_smallest_patient_is_taken_where_none_fits():
    assert (
        whole_groups(np.repeat([5, 7, 9], [4, 3, 6]), 2, 0).tolist() == [False] * 4 + [True] * 3 + [False] * 6
    )


def test_drawn_splits_are_whole_groups_in_their_shares():
    groups = np.repeat(np.arange(100), 3)
    splits = draw_splits(groups, 0.1, 0.2)

    assert Counter(splits.tolist()) == {"train": 210, "val": 30, "test": 60}
    assert len(set(zip(groups.tolist(), splits.tolist(), strict=True))) == 100
    assert np.array_equal(splits == "test", draw_splits(groups, 0.3, 0.2) == "test")


@pytest.mark.parametrize(("edit", "message"), refusals("bad table of splits"))
def test_a_bad_table_is_named_with_its_line(tmp_path, edit, message):
    def read():
        rows = Rows(tmp_path / "table.csv")
        return list(rows.column("id", is_key=True)), rows.splits()

    check_refusal(tmp_path, edit, message, read)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_table_is_read_with_a_byte_order_mark_any_separator_and_blank_rows(tmp_path, separator):
    lines = ["\ufeffid, split", '"a, b; c",train, ', "", " , ", '"two\nlines",test', ""]
    (tmp_path / "table.csv").write_text(
        "\r\n".join(line.replace(",", separator) for line in lines), encoding="utf-8", newline=""
    )
    rows = Rows(tmp_path / "table.csv")

    assert list(rows.column("id", is_key=True)) == [(2, "a, b; c".replace(",", separator)), (5, "two\nlines")]
    assert rows.splits() == ["train", "test"]


def test_divided_patients_and_empty_splits_are_refused(tmp_path):
    fix = "Give all images of a patient the same split, or give no splits to split at random."
    with pytest.raises(
        DataError, match=f"^T: patient a is in train and val; 2 patients are in more than one split. {fix}$"
    ):
        check_whole(
            "patient",
            ["a", "b", None, "a", "b", None],
            ["train", "train", "train", "val", "test", "test"],
            "T: ",
        )
    check_filled(["train", "val", "test"], ["train", "val", "test"], tmp_path, "none")
    with pytest.raises(
        DataError,
        match=r"has no images for the split 'test': the tables name none. Add images to this split.",
    ):
        check_filled(["train"], ["train"], tmp_path, "the tables name none")
    with pytest.raises(
        DataError,
        match=r"has no images for the split 'val': none of its 2 images can be used. Add images to this split.",
    ):
        check_filled(["train", "test", "val", "val"], ["train", "test"], tmp_path, "none")


@given(sizes=PATIENTS, max_images=st.integers(16, 300), seed=st.integers(0, 99))
def test_limit_of_the_test_split_takes_whole_patients(sizes, max_images, seed):
    groups = patients(sizes)
    rows = limit_split(labels_of(groups), groups, Digits(limit=max_images, split_seed=seed))

    assert 0 < len(rows) <= max_images
    cut = [group for group in set(groups[rows]) if np.sum(groups[rows] == group) < np.sum(groups == group)]
    assert not cut or (len(set(groups[rows])) == 1 and min(sizes) > max_images)


@given(sizes=st.lists(st.integers(0, 30), min_size=2, max_size=12).filter(any), seed=st.integers(0, 2**32))
def test_any_prefix_holds_each_class_in_proportion(sizes, seed):
    """The order depends on the seed."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    order = stratified_order(labels, seed)

    assert np.array_equal(np.sort(order), np.arange(len(labels)))
    counts = np.cumsum(labels[order][:, None] == np.arange(len(sizes)), axis=0)
    share = np.arange(1, len(labels) + 1)[:, None] * np.array(sizes) / len(labels)
    assert np.abs(counts - share).max() < 1
    assert not np.array_equal(
        stratified_order(np.arange(300) % 7, seed), stratified_order(np.arange(300) % 7, seed + 1)
    )
