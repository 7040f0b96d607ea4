import numpy as np
import pytest
from layouts import check_refusal, paint, refusals
from PIL import Image
from refusals import refused

from recstudy.base.errors import DataError
from recstudy.recursive import FINDINGS, ChestXray14
from recstudy.recursive.data.cache import load
from recstudy.recursive.data.reading import read_data

NIH = FINDINGS[:14]
UNKNOWN = ", ".join(FINDINGS[14:])
# Of the official file, whose header has commas in two names and one at the end.
OFFICIAL_HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y],"
)


def config(**fields):
    return ChestXray14(**{"path": "nih", "size": 16, **fields})


# Image k has finding k alone, but the last two have none.
LABELS = f"""\
id,split,patient_id,{",".join(NIH)}
I0,train,10,1,0,0,0,0,0,0,0,0,0,0,0,0,0
I1,train,10,0,1,0,0,0,0,0,0,0,0,0,0,0,0
I2,train,11,0,0,1,0,0,0,0,0,0,0,0,0,0,0
I3,val,12,0,0,0,1,0,0,0,0,0,0,0,0,0,0
I4,val,12,0,0,0,0,1,0,0,0,0,0,0,0,0,0
I5,test,13,0,0,0,0,0,1,0,0,0,0,0,0,0,0
I6,test,14,0,0,0,0,0,0,0,0,0,0,0,0,0,0
I7,test,14,0,0,0,0,0,0,0,0,0,0,0,0,0,0
"""


@pytest.fixture
def nih(tmp_path):
    """Below tmp_path: nih/labels.csv of 8 images of 5 patients (train, val, test) and nih/images/I0.png to
    I7.png.
    """
    for number in range(8):
        paint(tmp_path / f"nih/images/I{number}.png", np.full((16, 16), 10 * number))
    (tmp_path / "nih/labels.csv").write_text(LABELS)
    return tmp_path / "nih"


def official_layout(folder, findings, train=(), test=()):
    """Two images a patient, one of them in a numbered part of the archive; lists of splits where they name an
    image.
    """
    place = folder / "nih"
    names = [f"{number // 2 + 1:08}_{number % 2:03}.png" for number in range(len(findings))]
    for number, name in enumerate(names):
        paint(place / ("images", "images_001/images")[number % 2] / name, np.full((16, 16), number))
    lines = [
        f"{n},{cell},0,{int(n[:8])},058Y,M,PA,2682,2749,0.143,0.143,"
        for n, cell in zip(names, findings, strict=True)
    ]
    (place / "Data_Entry_2017.csv").write_text("\n".join([OFFICIAL_HEADER, *lines]) + "\n")
    for file, rows in (("train_val_list.txt", train), ("test_list.txt", test)):
        if rows:
            (place / file).write_text("\n".join(names[row] for row in rows) + "\n")
    return place


def test_findings_are_those_of_torchxrayvision():
    xrv = (
        "Atelectasis,Consolidation,Infiltration,Pneumothorax,Edema,Emphysema,Fibrosis,Effusion,Pneumonia,Pleural_Thickening,"
        "Cardiomegaly,Nodule,Mass,Hernia,Lung Lesion,Fracture,Lung Opacity,Enlarged Cardiomediastinum"
    )
    assert ",".join(FINDINGS) == xrv
    multilabel, single = ChestXray14(), ChestXray14(findings="single")
    assert (multilabel.shape, multilabel.task, multilabel.classes, single.task) == (
        (1, 64, 64),
        "multilabel",
        18,
        "multiclass",
    )
    sizes = [ChestXray14(path=path).train_size for path in ("nih_cxr64", "ChestX-ray14", "another")]
    assert sizes == [800, 86_524, None]


def test_table_of_columns_is_read_by_split(nih):
    """The given validation images are held out, whatever the share and the seed."""
    decoded = read_data(config().reader(), nih.parent)

    assert decoded.train_images[:, 0, 0, 0].tolist() == [0, 10, 20, 30, 40]
    assert decoded.test_images[:, 0, 0, 0].tolist() == [50, 60, 70]
    expected = np.concatenate([np.eye(5, 14, dtype=np.int64), np.full((5, 4), -1)], 1)
    assert np.array_equal(decoded.train_labels, expected)
    assert (decoded.train_groups.tolist(), decoded.test_groups.tolist()) == ([0, 0, 1, 2, 2], [3, 4, 4])
    assert decoded.train_held.tolist() == [False, False, False, True, True]
    assert decoded.notes == (f"no image has a label of {UNKNOWN}",)
    data = load(config(validation=0.7, split_seed=1), nih.parent)
    assert (data.train.rows.tolist(), data.validation.rows.tolist(), data.test.rows.tolist()) == (
        [0, 1, 2],
        [3, 4],
        [0, 1, 2],
    )
    assert load(config(), nih.parent, hold_out=False).train.rows.tolist() == [0, 1, 2, 3, 4]


def test_blank_cells_and_missing_columns_are_unknown(nih):
    assert NIH[12:] == ("Mass", "Hernia")
    rows = (
        LABELS.replace(",Mass", "")
        .replace(",0\n", "\n")
        .replace("10,1,0,0,0,0,0,0,0,0,0,0,0,0", "10,1.0,0,0,0,0,0,0,0,0,0,0,0,")
    )
    (nih / "labels.csv").write_text(rows)
    decoded = read_data(config().reader(), nih.parent)

    assert np.all(decoded.train_labels[:, FINDINGS.index("Mass")] == -1)
    assert decoded.train_labels[:, FINDINGS.index("Hernia")].tolist() == [-1, 0, 0, 0, 0]
    assert decoded.train_labels[:, 0].tolist() == [1, 0, 0, 0, 0]
    assert decoded.notes == (f"no image has a label of Mass, {UNKNOWN}",)


def test_single_findings_are_classes(nih):
    decoded = read_data(config(findings="single").reader(), nih.parent)

    assert decoded.train_labels.tolist() == [0, 1, 2, 3, 4]
    assert (decoded.test_labels.tolist(), decoded.test_groups.tolist()) == ([5], [3])
    assert decoded.notes[0] == "2 images are without exactly one known finding: left out"


def test_official_layout(tmp_path):
    cells = ["Mass", "No Finding", "Effusion|Pleural_Thickening", "Hernia", "", "Edema"]
    decoded = read_data(config().reader(), official_layout(tmp_path, cells, (0, 1, 2, 3), (4, 5)).parent)

    findings = [
        [name for name, value in zip(FINDINGS, row, strict=True) if value == 1]
        for row in decoded.train_labels
    ]
    assert findings == [["Mass"], [], ["Effusion", "Pleural_Thickening"], ["Hernia"]]
    assert decoded.train_labels[1].tolist() == [0] * 14 + [-1] * 4
    assert decoded.test_labels[0].tolist() == [-1] * 18
    assert decoded.test_images[:, 0, 0, 0].tolist() == [4, 5]
    assert (decoded.train_groups.tolist(), decoded.test_groups.tolist()) == ([0, 0, 1, 1], [2, 2])
    assert decoded.train_held is None


def test_without_splits_patients_are_drawn(tmp_path):
    """The test images do not depend on the seed that draws the validation images."""
    place = official_layout(tmp_path, ["Mass", "No Finding"] * 50)
    decoded, other_seed = (read_data(config(split_seed=seed).reader(), place.parent) for seed in (0, 1))

    assert len(decoded.test_labels) == 20
    assert np.array_equal(decoded.test_images, other_seed.test_images)
    assert not set(decoded.train_groups) & set(decoded.test_groups)
    assert (
        decoded.notes[0]
        == "the table gives no splits: 20 % of the images are the test split, chosen at random by patient"
    )


def test_sixteen_bits_and_colours_become_grey_and_are_counted(nih):
    """65,535 / 257 = 255 and 25,700 / 257 = 100; pure red is 0.299 * 255 = 76 of grey."""
    deep = np.full((16, 16), 25_700)
    deep[0, 0] = 65_535
    paint(nih / "images/I0.png", deep, np.uint16)
    for name, mode, colour in (
        ("I1", "RGB", (255, 0, 0)),
        ("I2", "RGBA", (50, 50, 50, 255)),
        ("I3", "LA", (90, 255)),
    ):
        Image.new(mode, (16, 16), colour).save(nih / f"images/{name}.png")
    Image.new("L", (16, 16), 40).convert("P").save(nih / "images/I4.png")  # its palette has grey colours only
    decoded = read_data(config().reader(), nih.parent)

    assert decoded.train_images[0, 0, 0, :2].tolist() == [255, 100]
    assert decoded.train_images[:, 0, 5, 5].tolist() == [100, 76, 50, 90, 40]
    assert decoded.notes[1:3] == (
        "1 image is in colour: converted to grey",
        "1 image is of 16 bits: scaled to 8 by value / 257",
    )


@pytest.mark.parametrize(
    ("highest", "pixels", "scale"),
    [
        (4095, [255, 100, 16], "value * 255 / 4,095, because no value has more than 12 bits"),
        (16_383, [255, 25, 4], "value * 255 / 16,383, because no value has more than 14 bits"),
        (4096, [64, 25, 4], "value * 255 / 16,383, because no value has more than 14 bits"),
        (16_384, [64, 6, 1], "value / 257"),
    ],
)
def test_fewer_bits_than_the_file_has_are_scaled_alike_in_the_whole_set(nih, highest, pixels, scale):
    """1,606 * 255 / 4,095 = 100; the second image has no value above 257."""
    deep = np.full((16, 16), 1606)
    deep[0, 0] = highest
    paint(nih / "images/I0.png", deep, np.uint16)
    paint(nih / "images/I1.png", np.full((16, 16), 257), np.uint16)
    decoded = read_data(config().reader(), nih.parent)

    assert [*decoded.train_images[0, 0, 0, :2].tolist(), decoded.train_images[1, 0, 0, 0]] == pixels
    assert decoded.notes[1:] == (f"2 images are of 16 bits: scaled to 8 by {scale}",)


@pytest.mark.parametrize("value", [-1000, 70_000])
def test_values_outside_of_sixteen_bits_are_refused(nih, value):
    (nih / "images/I2.png").unlink()
    paint(nih / "images/I2.tif", np.full((16, 16), value), np.int32)
    with pytest.raises(
        DataError,
        match=rf"I2.tif has values from {value:,} to {value:,}, but values of 16 bits are from 0 to 65,535",
    ):
        read_data(config().reader(), nih.parent)


def test_ids_may_have_the_ending_of_their_image_or_none(nih):
    """Nothing but the name decides: I3 is a PNG file beside a text, I4 a JPEG file, I5.1 no ending of an
    image.
    """
    for old, new in (("I4", "I4.jpg"), ("I5", "I5.1.png")):
        (nih / f"images/{old}.png").rename(nih / f"images/{new}")
    (nih / "images/I3.txt").touch()
    (nih / "labels.csv").write_text(LABELS.replace("I5", "I5.1"))
    assert [name.rpartition("/")[2] for name in config().reader().sources(nih.parent)[4:7]] == [
        "I3.png",
        "I4.jpg",
        "I5.1.png",
    ]

    for cell, missing_file in (("i0.jpg", "i0.jpg"), ("I5.2", "I5.2.png")):
        (nih / "labels.csv").write_text(LABELS.replace("I5", cell))
        with pytest.raises(DataError, match=f"is missing: images/{missing_file}. Add it, or pass"):
            config().reader().check(nih.parent)


@pytest.mark.parametrize(
    ("column", "finding"),
    [("Effusion", "Pleural Effusion"), ("Pleural_Thickening", "Pleural Thickening"), ("Cardiomegaly", "cardiomegaly"),
     ("Mass", "Masses"), ("Nodule", "nodule_left"), ("Edema", "Oedema")],
)  # fmt: skip
def test_a_column_whose_name_is_nearly_a_finding_is_refused(nih, column, finding):
    (nih / "labels.csv").write_text(LABELS.replace(column, finding))
    with pytest.raises(
        DataError,
        match=rf"labels.csv has a column '{finding}', .* Did you mean '{column}'\? Rename or remove it",
    ):
        config().reader().check(nih.parent)


def test_columns_unlike_a_finding_are_ignored(nih):
    (nih / "labels.csv").write_text(
        LABELS.replace("Hernia", "Support Devices").replace("Fibrosis", "Pleural Other")
    )
    assert (read_data(config().reader(), nih.parent).train_labels[:, [6, 13]] == -1).all()


def test_missing_images_are_counted_and_left_out_on_request(nih):
    for name in ("I2", "I5"):
        (nih / f"images/{name}.png").unlink()
    with pytest.raises(
        DataError,
        match=r"2 of 8 images named in labels.csv are missing. The first one is images/I2.png. Add them",
    ):
        config().reader().check(nih.parent)
    decoded = read_data(config(allow_missing=True).reader(), nih.parent)
    assert decoded.train_images[:, 0, 0, 0].tolist() == [0, 10, 30, 40]
    assert decoded.train_groups.tolist() == [0, 0, 1, 1]
    assert decoded.notes[0] == "2 images are named in labels.csv but missing: left out"

    paint(nih / "images/I2.png", np.full((16, 16), 20))
    assert load(config(allow_missing=True), nih.parent).train.images[:, 0, 0, 0].tolist() == [
        0,
        10,
        20,
        30,
        40,
    ]


@pytest.mark.parametrize(("edit", "message"), refusals("error in the table of columns"))
def test_error_in_the_table_of_columns_is_named(nih, edit, message):
    reader = config(findings="single").reader()
    check_refusal(nih, edit, message, lambda: read_data(reader, nih.parent))


def test_a_folder_without_a_table_is_named(nih):
    (nih / "labels.csv").unlink()
    with pytest.raises(
        DataError,
        match=r"\(nih/labels.csv or Data_Entry_2017\*.csv is missing\). Pass --data DIR, set RECSTUDY_DATA",
    ):
        read_data(config().reader(), nih.parent)


@refused(globals(), "findings train test", "the official layout")
def test_error_in_the_official_layout_is_named(tmp_path, findings, train, test, message):
    with pytest.raises(DataError, match=message):
        config().reader().check(official_layout(tmp_path, findings, train, test).parent)


def test_real_nih_images(real_data):
    """1,000 images of 264 patients, as counted in the data's own description."""
    if not (real_data / "nih_cxr64").exists():
        pytest.skip("RECSTUDY_DATA holds no nih_cxr64")
    data = load(ChestXray14(), real_data)
    labels = np.concatenate([data.train.labels, data.test.labels])
    positives = dict(zip(FINDINGS, (labels == 1).sum(0).tolist(), strict=True))

    assert (len(data.train), len(data.validation), len(data.test), data.group_count) == (658, 142, 200, 264)
    assert (
        positives["Effusion"],
        positives["Infiltration"],
        positives["Pneumonia"],
        positives["Hernia"],
    ) == (170, 162, 11, 9)
    assert ((labels == 1).sum(1) == 0).sum() == 499
