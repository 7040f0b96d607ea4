import csv
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from recstudy.config import DATASETS
from recstudy.data import FINDINGS, ChestXray14
from recstudy.data.cache import load
from recstudy.data.chest_xray14 import read_table
from recstudy.errors import DataError

NIH = FINDINGS[:14]
UNKNOWN = FINDINGS[14:]
# Of the official file, whose header has commas in two names and one at the end.
OFFICIAL_HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],"
)


@pytest.fixture
def nih(tmp_path) -> Path:
    """Below tmp_path: nih/labels.csv of 8 images of 5 patients (train, val, test) and nih/images/I0.png to I7.png."""
    return own_layout(tmp_path)


def config(**fields) -> ChestXray14:
    return ChestXray14(**{"path": "nih", "size": 16, **fields})


def rows_of_eight() -> list[dict[str, str]]:
    """Image k has finding k alone, but the last two have none; patients 10, 10, 11, 12, 12, 13, 14, 14."""
    patients = ("10", "10", "11", "12", "12", "13", "14", "14")
    splits = ("train", "train", "train", "val", "val", "test", "test", "test")
    return [
        {
            "id": f"I{k}",
            "split": split,
            **{name: str(int(k < 6 and k == place)) for place, name in enumerate(NIH)},
            "patient_id": patient,
        }
        for k, (patient, split) in enumerate(zip(patients, splits, strict=True))
    ]


def own_layout(folder: Path, rows: list[dict[str, str]] | None = None) -> Path:
    place = folder / "nih"
    rows = rows_of_eight() if rows is None else rows
    write_table(place, rows)
    for number, row in enumerate(rows):
        paint(place / f"images/{row['id']}.png", np.full((16, 16), 10 * number))
    return place


def write_table(place: Path, rows: list[dict[str, str]]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "labels.csv", "w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def edit(place: Path, row: int, **cells: str) -> None:
    rows = rows_of_eight()
    rows[row] |= cells
    write_table(place, rows)


def paint(file: Path, values: np.ndarray, kind: type = np.uint8) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values.astype(kind)).save(file)


def official_layout(folder: Path, findings: list[str], lists: bool = True, parts: bool = False) -> Path:
    """Two images a patient; the images of the last patient are for test."""
    place = folder / "nih"
    names = [f"{number // 2 + 1:08}_{number % 2:03}.png" for number in range(len(findings))]
    for number, name in enumerate(names):
        paint(place / (f"images_{number % 2 + 1:03}/images" if parts else "images") / name, np.full((16, 16), number))
    lines = [f"{n},{cell},0,{int(n[:8])},058Y,M,PA,2682,2749,0.143,0.143," for n, cell in zip(names, findings, strict=True)]
    (place / "Data_Entry_2017.csv").write_text("\n".join([OFFICIAL_HEADER, *lines]) + "\n")
    if lists:
        (place / "train_val_list.txt").write_text("\n".join(names[:-2]) + "\n")
        (place / "test_list.txt").write_text("\n".join(names[-2:]) + "\n")
    return place


def message(place: Path, text: str) -> str:
    """`text` as a whole, with PLACE for the folder."""
    return "^" + re.escape(text.replace("PLACE", str(place))) + "$"


def fails(place: Path, text: str, **fields) -> None:
    """Both before a run starts, without a look into an image, and when the set is read."""
    reader = config(**fields).reader()
    for check in (reader.check, reader.read):
        with pytest.raises(DataError, match=message(place, text)):
            check(place.parent)


# ------------------------------------------------------------------------------------------------- what is read


def test_set_says_what_it_is():
    assert DATASETS["chest_xray14"] is ChestXray14
    assert (ChestXray14().title, ChestXray14().path, ChestXray14().synthetic) == ("NIH ChestX-ray14", "nih_cxr64", False)
    assert (ChestXray14().shape, ChestXray14().classes, ChestXray14().task) == ((1, 64, 64), 18, "multilabel")
    assert (ChestXray14(findings="single").task, ChestXray14(findings="single").classes) == ("multiclass", 18)
    assert ChestXray14().class_names == FINDINGS


def test_findings_are_those_of_torchxrayvision():
    xrv = (
        "Atelectasis,Consolidation,Infiltration,Pneumothorax,Edema,Emphysema,Fibrosis,Effusion,Pneumonia,Pleural_Thickening,"
        "Cardiomegaly,Nodule,Mass,Hernia,Lung Lesion,Fracture,Lung Opacity,Enlarged Cardiomediastinum"
    )
    assert ",".join(FINDINGS) == xrv


def test_table_of_columns_is_read_by_split(nih):
    decoded = config().reader().read(nih.parent)

    assert decoded.train_images[:, 0, 0, 0].tolist() == [0, 10, 20, 30, 40]
    assert decoded.test_images[:, 0, 0, 0].tolist() == [50, 60, 70]
    assert decoded.train_images.shape == (5, 1, 16, 16)
    expected = np.concatenate([np.eye(5, 14, dtype=np.int64), np.full((5, 4), -1)], 1)
    assert np.array_equal(decoded.train_labels, expected)
    assert (decoded.train_groups.tolist(), decoded.test_groups.tolist()) == ([0, 0, 1, 2, 2], [3, 4, 4])
    assert decoded.train_held.tolist() == [False, False, False, True, True]
    assert decoded.notes == (f"no image has a label of {', '.join(UNKNOWN)}",)


def test_given_val_split_is_the_validation_split(nih):
    for seed in (0, 1):
        data = load(config(validation=0.7, split_seed=seed), nih.parent)
        assert (data.train.rows.tolist(), data.validation.rows.tolist(), data.test.rows.tolist()) == (
            [0, 1, 2],
            [3, 4],
            [0, 1, 2],
        )
    assert (data.group_count, data.classes, data.train.labels.shape) == (5, 18, (5, 18))
    assert data.train.groups.tolist() == data.validation.groups.tolist() == [0, 0, 1, 2, 2]
    assert load(config(), nih.parent, hold_out=False).train.rows.tolist() == [0, 1, 2, 3, 4]


def test_blank_cells_and_missing_columns_are_unknown(tmp_path):
    rows = [{key: value for key, value in row.items() if key != "Mass"} for row in rows_of_eight()]
    rows[0] |= {"Hernia": "", "Atelectasis": "1.0"}
    decoded = config().reader().read(own_layout(tmp_path, rows).parent)

    assert np.all(decoded.train_labels[:, FINDINGS.index("Mass")] == -1)
    assert decoded.train_labels[:, FINDINGS.index("Hernia")].tolist() == [-1, 0, 0, 0, 0]
    assert decoded.train_labels[:, 0].tolist() == [1, 0, 0, 0, 0]
    assert decoded.notes == (f"no image has a label of Mass, {', '.join(UNKNOWN)}",)


def test_columns_of_the_four_that_nih_lacks_are_read_where_there_are_some(tmp_path):
    rows = [row | {"Fracture": "1"} for row in rows_of_eight()]
    decoded = config().reader().read(own_layout(tmp_path, rows).parent)
    assert np.all(decoded.train_labels[:, FINDINGS.index("Fracture")] == 1)


def test_single_findings_are_classes(nih):
    decoded = config(findings="single").reader().read(nih.parent)

    assert decoded.train_labels.tolist() == [0, 1, 2, 3, 4]
    assert decoded.test_labels.tolist() == [5]
    assert decoded.test_groups.tolist() == [3]
    assert decoded.notes[0] == "2 images are without exactly one known finding: left out"


@pytest.mark.parametrize("parts", [False, True])
def test_official_layout(tmp_path, parts):
    cells = ["Mass", "No Finding", "Effusion|Pleural_Thickening", "Hernia", "", "Edema"]
    decoded = config().reader().read(official_layout(tmp_path, cells, parts=parts).parent)

    known = [[name for name, value in zip(FINDINGS, row, strict=True) if value == 1] for row in decoded.train_labels]
    assert known == [["Mass"], [], ["Effusion", "Pleural_Thickening"], ["Hernia"]]
    assert decoded.train_labels[1].tolist() == [0] * 14 + [-1] * 4
    assert decoded.test_labels[0].tolist() == [-1] * 18
    assert decoded.test_images[:, 0, 0, 0].tolist() == [4, 5]
    assert (decoded.train_groups.tolist(), decoded.test_groups.tolist()) == ([0, 0, 1, 1], [2, 2])
    assert decoded.train_held is None


@pytest.mark.parametrize("official", [True, False])
def test_without_splits_patients_are_drawn(tmp_path, official):
    if official:
        place = official_layout(tmp_path, ["Mass", "No Finding"] * 50, lists=False)
    else:
        place = own_layout(
            tmp_path,
            [
                row | {"id": f"{row['id']}-{n}", "patient_id": f"{n}", "split": ""}
                for n in range(20)
                for row in rows_of_eight()[:5]
            ],
        )
    decoded, other_seed = (config(split_seed=seed).reader().read(place.parent) for seed in (0, 1))

    assert len(decoded.test_labels) == 20
    assert not set(decoded.train_groups) & set(decoded.test_groups)
    assert np.array_equal(decoded.test_images, other_seed.test_images)
    assert decoded.notes[0] == "no splits are given: drawn by patient, 20 % of the images for test"
    data = load(config(), place.parent)
    assert not set(data.train.groups[data.train.rows]) & set(data.validation.groups[data.validation.rows])


@given(
    most=st.none() | st.integers(16, 60),
    validation=st.floats(0.05, 0.9),
    seed=st.integers(0, 2**32),
    splits=st.booleans(),
    findings=st.sampled_from(["multilabel", "single"]),
)
def test_no_patient_is_in_two_splits(tmp_path_factory, most, validation, seed, splits, findings):
    place = tmp_path_factory.getbasetemp() / f"drawn_{splits}/nih"
    if not place.exists():
        official_layout(place.parent, ["Mass", "No Finding", "Effusion", "Mass|Edema", "Hernia", "Nodule"] * 12, lists=splits)
    data = load(config(limit=most, validation=validation, split_seed=seed, findings=findings), place.parent)
    patients = [set(split.groups[split.rows].tolist()) for split in (data.train, data.validation, data.test)]

    assert all(patients)
    assert sum(map(len, patients)) == len(set.union(*patients))
    assert most is None or len(data.train) + len(data.validation) <= most


def test_sixteen_bits_and_colours_become_grey_and_are_counted(nih):
    """65,535 / 257 = 255 and 25,700 / 257 = 100; pure red is 0.299 * 255 = 76 of grey."""
    deep = np.full((16, 16), 25_700)
    deep[0, 0] = 65_535
    paint(nih / "images/I0.png", deep, np.uint16)
    Image.new("RGB", (16, 16), (255, 0, 0)).save(nih / "images/I1.png")
    Image.new("RGBA", (16, 16), (50, 50, 50, 255)).save(nih / "images/I2.png")
    Image.new("LA", (16, 16), (90, 255)).save(nih / "images/I3.png")

    decoded = config().reader().read(nih.parent)

    assert decoded.train_images[0, 0, 0, :2].tolist() == [255, 100]
    assert decoded.train_images[:, 0, 5, 5].tolist() == [100, 76, 50, 90, 40]
    assert decoded.notes[1:] == ("2 images are in colour: converted to grey", "1 image is of 16 bits: scaled to 8 by value / 257")
    assert load(config(), nih.parent).notes == decoded.notes


def test_large_image_is_resized_and_cut_square(nih):
    wide = np.zeros((32, 64))
    wide[:, 32:] = 255
    paint(nih / "images/I0.png", wide)

    image = config().reader().read(nih.parent).train_images[0, 0]

    assert np.all(image[:, :7] == 0)
    assert np.all(image[:, 9:] == 255)


@pytest.mark.parametrize("changed", ["labels.csv", "images/I3.png"])
def test_changed_file_is_decoded_again(nih, changed):
    before = load(config(), nih.parent)
    if changed == "labels.csv":
        edit(nih, 0, Hernia="1")
    else:
        paint(nih / changed, np.full((16, 16), 99))

    assert load(config(), nih.parent).checksum != before.checksum


# ---------------------------------------------------------------------------------------------------- bad input


def test_missing_set_is_named(tmp_path):
    place = tmp_path / "nih"
    fix = "Pass --data DIR, set RECSTUDY_DATA or data.path."
    fails(place, f"NIH ChestX-ray14 not found under {tmp_path} (nih is missing). {fix}")
    place.mkdir()
    fails(place, f"NIH ChestX-ray14 not found under {tmp_path} (nih/labels.csv or Data_Entry_2017*.csv is missing). {fix}")


@pytest.mark.parametrize(
    ("names", "are", "put", "kept", "note"),
    [
        (["I2", "I5", "I6"], "3 of 8 images named in labels.csv are missing, the first is", "them", 4, "3 images are"),
        (["I2"], "1 of 8 images named in labels.csv is missing:", "it", 4, "1 image is"),
    ],
)
def test_missing_images_are_counted_and_left_out_on_request(nih, names, are, put, kept, note):
    images = {name: (nih / f"images/{name}.png").read_bytes() for name in names}
    for name in names:
        (nih / f"images/{name}.png").unlink()
    fails(nih, f"PLACE: {are} images/I2.png. Put {put} there, or go on without {put} with --allow-missing.")
    decoded = config(allow_missing=True).reader().read(nih.parent)
    assert decoded.train_images[:, 0, 0, 0].tolist() == [0, 10, 30, 40]
    assert decoded.train_groups.tolist() == [0, 0, 1, 1]
    assert decoded.notes[0] == f"{note} named in labels.csv and missing: left out"

    before = load(config(allow_missing=True), nih.parent)
    for name, content in images.items():
        (nih / f"images/{name}.png").write_bytes(content)
    assert len(load(config(allow_missing=True), nih.parent).train) == len(before.train) + 1


def without_findings(place):
    rows = rows_of_eight()
    for row in rows[3:5]:
        row |= dict.fromkeys(NIH, "0")
    write_table(place, rows)


def remove_test_images(place):
    for name in ("I5", "I6", "I7"):
        (place / f"images/{name}.png").unlink()


def rename_patients(place):
    write_table(
        place, [{("patient" if key == "patient_id" else key): cell for key, cell in row.items()} for row in rows_of_eight()]
    )


def paint_twice(place):
    paint(place / "images_001/images/I3.png", np.zeros((16, 16)))


DIVIDED = "Give all images of a patient the same split, or give no splits to have them drawn."
KEEP = "Keep one of the two."
LABELS = "PLACE/labels.csv"


@pytest.mark.parametrize(
    ("change", "text", "fields"),
    [
        *(
            (lambda place, value=value: edit(place, 3, Edema=value),
             f"{LABELS}, line 5, column 'Edema' must be 0, 1 or blank (unknown), but got '{value}'.", {})
            for value in ("2", "-1", "yes", "0.5", "nan")
        ),
        *(
            (lambda place, value=value: edit(place, 7, split=value),
             f"{LABELS}, line 9, column 'split' must be train, val, test or blank in all rows, but got '{value}'.", {})
            for value in ("tset", "")
        ),
        *(  # both spellings are one file, which could come to train and to test
            (lambda place, value=value: edit(place, 4, id=value),
             f"{LABELS}, line 6, column 'id' names 'I1.png' again, which line 3 has. {KEEP}", {})
            for value in ("I1", "I1.png")
        ),
        *(
            (lambda place, column=column: edit(place, 2, **{column: ""}),
             f"{LABELS}, line 4, column '{column}' must not be blank.", {})
            for column in ("id", "patient_id")
        ),
        *(
            (lambda place, content=content: (place / "labels.csv").write_bytes(content), f"{LABELS} {text}", {})
            for content, text in (
                (b"", "has no rows."),
                (b"id,split\n", "has no rows."),
                (b'id,split\n"a,b', "cannot be read as CSV (unexpected end of data). Write it as comma-separated UTF-8 text."),
                (b"id;split\nx;y\n", "has no column 'id': there are id;split."),
            )
        ),
        (lambda place: (place / "labels.csv").write_bytes((place / "images/I0.png").read_bytes()),
         f"{LABELS}, line 1: the byte 0x89 is not UTF-8. Save the file with that encoding.", {}),
        (lambda place: (place / "labels.csv").write_text((place / "labels.csv").read_text() + "I8,train\n"),
         f"{LABELS}, line 10: 2 cells, but the header names 17 columns.", {}),
        (rename_patients,
         f"{LABELS} has no column 'patient_id': there are id, split, {', '.join(NIH)}, patient. Did you mean 'patient'?", {}),
        (lambda place: write_table(place, [{key: row[key] for key in ("id", "patient_id", "split")} for row in rows_of_eight()]),
         f"{LABELS} has no column of a finding: of {', '.join(FINDINGS)}.", {}),
        (lambda place: (place / "Data_Entry_2017_v2020.csv").write_text("Image Index\n"),
         "PLACE has labels.csv and Data_Entry_2017_v2020.csv. Keep the one that counts.", {}),
        (paint_twice, f"PLACE has I3.png twice: images/I3.png and images_001/images/I3.png. {KEEP}", {}),
        (lambda place: edit(place, 1, split="val"),
         f"PLACE: by labels.csv, patient 10 is in train and val; 1 patient is in more than one split. {DIVIDED}", {}),
        (remove_test_images, "PLACE has no images for the split 'test': none of its 3 images can be used. Give it some.",
         {"allow_missing": True}),
        (without_findings, "PLACE has no images for the split 'val': none of its 2 images can be used. Give it some.",
         {"findings": "single"}),
        (lambda place: write_table(place, rows_of_eight()[:5]),
         "PLACE has no images for the split 'test': none is named in labels.csv. Give it some.", {}),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_table_of_columns_is_named(nih, change, text, fields):
    change(nih)

    fails(nih, text, **fields)


def listed(train, test):
    def change(place):
        names = sorted(file.name for file in (place / "images").iterdir())
        for file, rows in (("train_val_list.txt", train), ("test_list.txt", test)):
            (place / file).write_text("\n".join(names[row] for row in rows) + "\n")

    return change


@pytest.mark.parametrize(
    ("findings", "change", "text"),
    [
        (["Mass", "Effusion|Pneumotorax", "Mass", "Mass"], None,
         f"PLACE/Data_Entry_2017.csv, line 3, column 'Finding Labels' must be 'No Finding' alone or of {', '.join(NIH)}, "
         "but got 'Pneumotorax'. Did you mean 'Pneumothorax'?"),
        (["Mass", "No Finding|Mass", "Mass", "Mass"], None,
         f"PLACE/Data_Entry_2017.csv, line 3, column 'Finding Labels' must be 'No Finding' alone or of {', '.join(NIH)}, "
         "but got 'No Finding'."),
        (["Mass"] * 8, listed(range(0, 8, 2), range(1, 8, 2)),
         "PLACE: by train_val_list.txt and test_list.txt, patient 1 is in train and test; 4 patients are in more than one split. "
         f"{DIVIDED}"),
        (["Mass"] * 4, listed((0, 1), (0, 2, 3)),
         f"PLACE/test_list.txt names 00000001_000.png, which train_val_list.txt names too. {KEEP}"),
        (["Mass"] * 4, listed((0, 1), (2,)),
         "PLACE: neither train_val_list.txt nor test_list.txt names 00000002_001.png. Add it to one of them."),
        (["Mass"] * 4, lambda place: (place / "test_list.txt").unlink(),
         "PLACE/test_list.txt is missing, but train_val_list.txt is there. Put both or none."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_official_layout_is_named(tmp_path, findings, change, text):
    place = official_layout(tmp_path, findings)
    if change:
        change(place)

    fails(place, text)


def test_one_patient_cannot_be_split(tmp_path):
    place = official_layout(tmp_path, ["Mass"] * 2, lists=False)
    fails(
        place,
        "PLACE/Data_Entry_2017.csv has one patient only, who cannot be in both train and test. Add others, or a split.",
    )


def test_undecodable_image_is_named(nih):
    file = nih / "images/I4.png"
    file.write_bytes(file.read_bytes()[:40])
    config().reader().check(nih.parent)
    with pytest.raises(DataError, match=r"images/I4\.png cannot be read as an image .*Replace or remove it\.$"):
        config().reader().read(nih.parent)


# ---------------------------------------------------------------------------------------------------- real data


def real() -> Path:
    folder = Path(os.environ.get("RECSTUDY_DATA", "missing"))
    if not (folder / "nih_cxr64").exists():
        pytest.skip("RECSTUDY_DATA holds no nih_cxr64")
    return folder


def test_real_nih_images():
    """1,000 images of 264 patients, as counted in the data's own description."""
    data = load(ChestXray14(), real())

    assert (len(data.train), len(data.validation), len(data.test), data.group_count) == (658, 142, 200, 264)
    labels = np.concatenate([data.train.labels, data.test.labels])
    positives = dict(zip(FINDINGS, (labels == 1).sum(0).tolist(), strict=True))
    assert (positives["Effusion"], positives["Infiltration"], positives["Pneumonia"], positives["Hernia"]) == (170, 162, 11, 9)
    assert np.all(labels[:, 14:] == -1)
    assert ((labels == 1).sum(1) == 0).sum() == 499
    assert data.notes == (f"no image has a label of {', '.join(UNKNOWN)}",)


def test_real_nih_pixels_are_those_of_the_files():
    folder = real()
    decoded = ChestXray14().reader().read(folder)
    table = read_table(folder / "nih_cxr64/labels.csv")
    names = [name for name, split in zip(table.images, table.splits, strict=True) if split == "test"]

    for row in (0, 57, 199):
        assert np.array_equal(decoded.test_images[row, 0], np.asarray(Image.open(folder / "nih_cxr64/images" / names[row])))


def test_real_nih_limit_keeps_the_given_validation_share():
    """142 of 800 training images are for validation, so 88.75 of 500."""
    data = load(ChestXray14(limit=500), real())
    assert (len(data.train), len(data.validation), len(data.test)) == (411, 89, 200)
