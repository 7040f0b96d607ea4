import re
from pathlib import Path

import numpy as np
import pytest
from layouts import paint, write_table
from PIL import Image

from recstudy.data import FINDINGS, ChestXray14
from recstudy.data.cache import load
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
    write_table(place / "labels.csv", rows)
    for number, row in enumerate(rows):
        paint(place / f"images/{row['id']}.png", np.full((16, 16), 10 * number))
    return place


def edit(place: Path, row: int, **cells: str) -> None:
    rows = rows_of_eight()
    rows[row] |= cells
    write_table(place / "labels.csv", rows)


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


def test_findings_are_those_of_torchxrayvision():
    xrv = (
        "Atelectasis,Consolidation,Infiltration,Pneumothorax,Edema,Emphysema,Fibrosis,Effusion,Pneumonia,Pleural_Thickening,"
        "Cardiomegaly,Nodule,Mass,Hernia,Lung Lesion,Fracture,Lung Opacity,Enlarged Cardiomediastinum"
    )
    assert ",".join(FINDINGS) == xrv
    whole, single = ChestXray14(), ChestXray14(findings="single")
    assert (whole.title, whole.path, whole.synthetic, whole.shape) == ("NIH ChestX-ray14", "nih_cxr64", False, (1, 64, 64))
    assert (whole.task, whole.classes, single.task, single.classes) == ("multilabel", 18, "multiclass", 18)


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
    data = load(config(validation=0.7, split_seed=1), nih.parent)

    assert (data.train.rows.tolist(), data.validation.rows.tolist(), data.test.rows.tolist()) == ([0, 1, 2], [3, 4], [0, 1, 2])
    assert (data.group_count, data.classes, data.train.labels.shape) == (5, 18, (5, 18))
    assert load(config(), nih.parent, hold_out=False).train.rows.tolist() == [0, 1, 2, 3, 4]


def test_blank_cells_and_missing_columns_are_unknown(tmp_path):
    rows = [{key: value for key, value in row.items() if key != "Mass"} for row in rows_of_eight()]
    rows[0] |= {"Hernia": "", "Atelectasis": "1.0"}
    decoded = config().reader().read(own_layout(tmp_path, rows).parent)

    assert np.all(decoded.train_labels[:, FINDINGS.index("Mass")] == -1)
    assert decoded.train_labels[:, FINDINGS.index("Hernia")].tolist() == [-1, 0, 0, 0, 0]
    assert decoded.train_labels[:, 0].tolist() == [1, 0, 0, 0, 0]
    assert decoded.notes == (f"no image has a label of Mass, {', '.join(UNKNOWN)}",)


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


def test_without_splits_patients_are_drawn(tmp_path):
    place = official_layout(tmp_path, ["Mass", "No Finding"] * 50, lists=False)
    decoded, other_seed = (config(split_seed=seed).reader().read(place.parent) for seed in (0, 1))
    data = load(config(), place.parent)

    assert len(decoded.test_labels) == 20
    assert np.array_equal(decoded.test_images, other_seed.test_images)
    assert decoded.notes[0] == "no splits are given: drawn by patient, 20 % of the images for test"
    patients = [set(split.groups[split.rows].tolist()) for split in (data.train, data.validation, data.test)]
    assert sum(map(len, patients)) == len(set.union(*patients))
    place = official_layout(tmp_path / "one", ["Mass"] * 2, lists=False)
    with pytest.raises(DataError, match=r"Data_Entry_2017.csv has one patient only, who cannot be in both train and test"):
        config().reader().check(place.parent)


def test_sixteen_bits_and_colours_become_grey_and_are_counted(nih):
    """65,535 / 257 = 255 and 25,700 / 257 = 100; pure red is 0.299 * 255 = 76 of grey."""
    deep = np.full((16, 16), 25_700)
    deep[0, 0] = 65_535
    paint(nih / "images/I0.png", deep, np.uint16)
    for name, mode, colour in (("I1", "RGB", (255, 0, 0)), ("I2", "RGBA", (50, 50, 50, 255)), ("I3", "LA", (90, 255))):
        Image.new(mode, (16, 16), colour).save(nih / f"images/{name}.png")
    decoded = config().reader().read(nih.parent)

    assert decoded.train_images[0, 0, 0, :2].tolist() == [255, 100]
    assert decoded.train_images[:, 0, 5, 5].tolist() == [100, 76, 50, 90, 40]
    assert decoded.notes[1:] == ("2 images are in colour: converted to grey", "1 image is of 16 bits: scaled to 8 by value / 257")


@pytest.mark.parametrize(
    ("names", "message", "note"),
    [
        (
            ["I2", "I5"],
            "2 of 8 images named in labels.csv are missing, the first is images/I2.png. Put them there",
            "2 images are",
        ),
        (
            ["I2"],
            "1 of 8 images named in labels.csv is missing: images/I2.png. Put it there, or go on without it with",
            "1 image is",
        ),
    ],
)
def test_missing_images_are_counted_and_left_out_on_request(nih, names, message, note):
    for name in names:
        (nih / f"images/{name}.png").unlink()
    with pytest.raises(DataError, match=message):
        config().reader().check(nih.parent)
    decoded = config(allow_missing=True).reader().read(nih.parent)
    assert decoded.train_images[:, 0, 0, 0].tolist() == [0, 10, 30, 40]
    assert decoded.train_groups.tolist() == [0, 0, 1, 1]
    assert decoded.notes[0] == f"{note} named in labels.csv and missing: left out"

    paint(nih / "images/I2.png", np.full((16, 16), 20))
    assert load(config(allow_missing=True), nih.parent).train.images[:, 0, 0, 0].tolist() == [0, 10, 20, 30, 40]


def without(rows, *columns):
    return [{key: cell for key, cell in row.items() if key not in columns} for row in rows]


DIVIDED = "Give all images of a patient the same split, or give no splits to have them drawn."


@pytest.mark.parametrize(
    ("change", "message", "fields"),
    [
        *((lambda place, value=value: edit(place, 3, Edema=value),
           f"line 5, column 'Edema' must be 0, 1 or blank (unknown), but got '{value}'.", {}) for value in ("2", "-1", "nan")),
        (lambda place: edit(place, 7, split=""), "column 'split' must be train, val, test or blank in all rows, but got ''.", {}),
        # both spellings are one file, which could come to train and to test
        *((lambda place, value=value: edit(place, 4, id=value),
           "line 6, column 'id' names 'I1.png' again, which line 3 has. Keep one of the two.", {}) for value in ("I1", "I1.png")),
        (lambda place: edit(place, 2, patient_id=""), "labels.csv, line 4, column 'patient_id' must not be blank.", {}),
        *((lambda place, content=content: (place / "labels.csv").write_bytes(content), f"labels.csv{message}", {})
          for content, message in (
              (b"id,split\n", " has no rows."),
              (b'id,split\n"a,b', " cannot be read as CSV (unexpected end of data). Write it as comma-separated UTF-8 text."),
              (b"id;split\nx;y\n", " has no column 'id': there are id;split."),
              (b"\x89PNG", ", line 1: the byte 0x89 is not UTF-8. Save the file with that encoding."))),
        (lambda place: (place / "labels.csv").write_text((place / "labels.csv").read_text() + "I8,train\n"),
         "labels.csv, line 10: 2 cells, but the header names 17 columns.", {}),
        (lambda place: write_table(place / 'labels.csv', [row | {"patient": "1"} for row in without(rows_of_eight(), "patient_id")]),
         "labels.csv has no column 'patient_id': there are id, split, ", {}),
        (lambda place: write_table(place / 'labels.csv', without(rows_of_eight(), *NIH)), "labels.csv has no column of a finding: of ", {}),
        (lambda place: (place / "Data_Entry_2017_v2020.csv").write_text("Image Index\n"),
         "has labels.csv and Data_Entry_2017_v2020.csv. Keep the one that counts.", {}),
        (lambda place: paint(place / "images_001/images/I3.png", np.zeros((16, 16))),
         "has I3.png twice: images/I3.png and images_001/images/I3.png. Keep one of the two.", {}),
        (lambda place: edit(place, 1, split="val"),
         f"by labels.csv, patient 10 is in train and val; 1 patient is in more than one split. {DIVIDED}", {}),
        (lambda place: write_table(place / 'labels.csv', [row | dict.fromkeys(NIH, "0") if row["split"] == "val" else row for row in rows_of_eight()]),
         "has no images for the split 'val': none of its 2 images can be used. Give it some.", {"findings": "single"}),
        (lambda place: write_table(place / 'labels.csv', rows_of_eight()[:5]),
         "has no images for the split 'test': none is named in labels.csv. Give it some.", {}),
        (lambda place: (place / "labels.csv").unlink(),
         "(nih/labels.csv or Data_Entry_2017*.csv is missing). Pass --data DIR, set RECSTUDY_DATA or data.path.", {}),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_table_of_columns_is_named(nih, change, message, fields):
    change(nih)
    with pytest.raises(DataError, match=re.escape(message)):
        config(**fields).reader().read(nih.parent)


@pytest.mark.parametrize(
    ("findings", "train", "test", "message"),
    [
        (["Mass", "Effusion|Pneumotorax", "Mass"], None, None, "but got 'Pneumotorax'. Did you mean 'Pneumothorax'?"),
        (["Mass", "No Finding|Mass", "Mass"], None, None,
         f"line 3, column 'Finding Labels' must be 'No Finding' alone or of {', '.join(NIH)}, but got 'No Finding'."),
        (["Mass"] * 4, (0, 1), (3,), "names 00000002_000.png. Add it to one of them."),
        (["Mass"] * 4, (0, 1), (1, 2, 3), "test_list.txt names 00000001_001.png, which train_val_list.txt names too. Keep one"),
        (["Mass"] * 4, (0,), (1, 2, 3), "by train_val_list.txt and test_list.txt, patient 1 is in train and test; 1 patient is in"),
        (["Mass"] * 4, (0, 1), None, "test_list.txt is missing, but train_val_list.txt is there. Put both or none."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_the_official_layout_is_named(tmp_path, findings, train, test, message):
    place = official_layout(tmp_path, findings, lists=False)
    names = sorted(file.name for file in (place / "images").iterdir())
    for file, rows in (("train_val_list.txt", train), ("test_list.txt", test)):
        if rows is not None:
            (place / file).write_text("\n".join(names[row] for row in rows) + "\n")

    with pytest.raises(DataError, match=re.escape(message)):
        config().reader().check(place.parent)


def test_real_nih_images(real_data):
    """1,000 images of 264 patients, as counted in the data's own description."""
    if not (real_data / "nih_cxr64").exists():
        pytest.skip("RECSTUDY_DATA holds no nih_cxr64")
    data = load(ChestXray14(), real_data)
    labels = np.concatenate([data.train.labels, data.test.labels])
    positives = dict(zip(FINDINGS, (labels == 1).sum(0).tolist(), strict=True))

    assert (len(data.train), len(data.validation), len(data.test), data.group_count) == (658, 142, 200, 264)
    assert (positives["Effusion"], positives["Infiltration"], positives["Pneumonia"], positives["Hernia"]) == (170, 162, 11, 9)
    assert ((labels == 1).sum(1) == 0).sum() == 499
