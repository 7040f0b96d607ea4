import json
import re

import numpy as np
import pytest
from layouts import check_refusal, paint, refusals

from recstudy.base.errors import DataError
from recstudy.recursive import CaptionFolder, CovCtr, MedPix, MmRetinal, PeirGross, Roco, RocoV2
from recstudy.recursive.data import text
from recstudy.recursive.data.cache import load
from recstudy.recursive.data.reading import read_data

SMALL = {"size": 16, "length": 32}
OWN_TABLE = """\
image,caption,split,group
i0.png,image 0 shows two discs.,train,a
i1.png,image 1 shows two discs.,train,a
i2.png,image 2 shows two discs.,train,b
i3.png,image 3 shows two discs.,val,c
i4.png,image 4 shows two discs.,val,c
i5.png,image 5 shows two discs.,test,d
i6.png,image 6 shows two discs.,test,e
i7,image 7 shows two discs.,test,e
"""  # the last without its ending, which is .jpg


def lay(place, files, images, mode="RGB"):
    """Write text files, and images by their paths: image k is 10 k bright."""
    for number, image in enumerate(images.split()):
        paint(place / image, np.full((16, 20), 10 * number), mode=mode)
    for file, content in files.items():
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(content)
    return place


@pytest.fixture
def own_set(tmp_path):
    """own/captions.csv of 8 images in 5 groups (train, val, test) and own/images/i0.png to i7.jpg."""
    return lay(
        tmp_path / "own",
        {"captions.csv": OWN_TABLE},
        " ".join(f"images/i{n}.png" for n in range(7)) + " images/i7.jpg",
    )


def config(**fields):
    return CaptionFolder(**{"path": "own", **SMALL, **fields})


def edit(place, old, new):
    assert old in OWN_TABLE
    (place / "captions.csv").write_text(OWN_TABLE.replace(old, new))


def brightness(images):
    return images[:, 0, 0, 0].tolist()


WGET = "wget -nd ftp://ftp.ncbi.nlm.nih.gov/pub/pmc/oa_package/d9/7d/PMC{0}.tar.gz -P out\tfig.{0}.jpg\n"
SPLIT_SETS = {
    # as razorx89/roco-dataset and its fetch.py write it; the first image of each split is named by its id
    Roco: (
        {
            "data/train/radiology/captions.txt": "ROCO_00000\t Scan number 0.\nROCO_00001\t Scan number 1.\n",
            "data/train/radiology/dlinks.txt": f"ROCO_00000\t{WGET.format(0)}ROCO_00001\t{WGET.format(1)}",
            "data/validation/radiology/captions.txt": "ROCO_00002\t Scan number 2.\n",
            "data/validation/radiology/dlinks.txt": f"ROCO_00002\t{WGET.format(2)}",
            "data/test/radiology/captions.txt": "ROCO_00003\t Scan number 3.\n",
            "data/test/radiology/dlinks.txt": f"ROCO_00003\t{WGET.format(3)}",
        },
        "data/train/radiology/images/ROCO_00000.jpg data/train/radiology/images/PMC1_fig.1.jpg "
        "data/validation/radiology/images/ROCO_00002.jpg data/test/radiology/images/ROCO_00003.jpg",
    ),
    # as the archives of zenodo.org/records/10821435 unpack, and two ways in which copies nest them
    RocoV2: (
        {
            "train_captions.csv": "ID,Caption\nROCOv2_2023_train_000000,Scan number 0.\nROCOv2_2023_train_000001,Scan number 1.\n",
            "valid_captions.csv": "ID,Caption\nROCOv2_2023_valid_000002,Scan number 2.\n",
            "test_captions.csv": "ID,Caption\nROCOv2_2023_test_000003,Scan number 3.\n",
        },
        "train/ROCOv2_2023_train_000000.jpg train/ROCOv2_2023_train_000001.jpg "
        "valid_images/ROCOv2_2023_valid_000002.jpg test_images/test/ROCOv2_2023_test_000003.jpg",
    ),
    MedPix: (
        {
            "splitted_dataset/descriptions_train.jsonl": """\
{"Type": "CT", "U_id": "MPX1000", "image": "MPX1000_synpic0", "Description": {"Caption": "Scan\\nnumber 0.", "Figure Part": null}}
{"Type": "CT", "U_id": "MPX1000", "image": "MPX1000_synpic1", "Description": {"Caption": "Scan\\nnumber 1.", "Figure Part": null}}
""",
            "splitted_dataset/descriptions_dev.jsonl": """\
{"Type": "CT", "U_id": "MPX1001", "image": "MPX1001_synpic2", "Description": {"Caption": "Scan\\nnumber 2.", "Figure Part": null}}
""",
            "splitted_dataset/descriptions_test.jsonl": """\
{"Type": "CT", "U_id": "MPX1002", "image": "MPX1002_synpic3", "Description": {"Caption": "Scan\\nnumber 3.", "Figure Part": null}}
""",
        },
        "images/MPX1000_synpic0.png images/MPX1000_synpic1.png images/MPX1001_synpic2.png images/MPX1002_synpic3.png",
    ),
}
WHOLE_SETS = {
    # with the byte order mark, the line feeds in the reports and the second report of an image that the
    # archive has
    CovCtr: (
        {
            "reports_ZH_EN.csv": "\ufeff"
            """image_id,findings,terminologies,COVID,impression,reports_En
0%0.png,发现,术语,1,印象,"Report 0
"
0%1.png,发现,术语,1,印象,"Report 1
"
1%0.png,发现,术语,1,印象,"Report 2
"
1%1.png,发现,术语,1,印象,"Report 3
"
2%0.png,发现,术语,1,印象,"Report 4
"
2%1.png,发现,术语,1,印象,"Report 5
"
1%1.png,发现,术语,1,印象,"A second report.
"
"""
        },
        "0%0.png 0%1.png 1%0.png 1%1.png 2%0.png 2%1.png",
    ),
    MmRetinal: (
        {
            "CFP_translated_v1.csv": "Image_ID,en_caption,cn_caption\nfigure01-00A,Report 0,眼\nfigure01-00B,Report 1,眼\n",
            "FFA_translated_v1.csv": "Image_ID,en_caption,cn_caption\nfigure01-00A,Report 2,眼\nfigure01-00B,Report 3,眼\n",
            "OCT_translated_v1.csv": "Image_ID,en_caption,is_multipic\nfigure01-00A,Report 4,0\nfigure01-00B,Report 5,0\n",
        },
        "CFP/figure01-00A.jpg CFP/figure01-00B.png FFA/figure01-00A.jpeg "
        "FFA/figure01-00B.jpg OCT/figure01-00A.png OCT/figure01-00B.jpeg",
    ),
    # as get_peir_gross.py stores it
    PeirGross: (
        {
            "peir_gross_captions.json": """{"00000.jpg": "Report 0", "00001.jpg": "Report 1", "00002.jpg": "Report 2",
            "00003.jpg": "Report 3", "00004.jpg": "Report 4", "00005.jpg": "Report 5"}"""
        },
        " ".join(f"peir_gross_images/0000{number}.jpg" for number in range(6)),
    ),
}


@pytest.mark.parametrize("kind", SPLIT_SETS)
def test_official_splits_are_read(tmp_path, kind):
    """Images 0 and 1 train, 2 validates, 3 tests; the brightness of an image is 10 times its number."""
    lay(tmp_path / kind().path, *SPLIT_SETS[kind])
    decoded = read_data(kind(**SMALL).reader(), tmp_path)

    assert np.allclose(brightness(decoded.train_images), [0, 10, 20], atol=2)  # JPEG
    assert np.allclose(brightness(decoded.test_images), [30], atol=2)
    assert (decoded.train_held.tolist(), decoded.train_captions[1]) == (
        [False, False, True],
        ["Scan number 1."],
    )
    assert text.restore(decoded.tokenizer).decode(decoded.train_labels[1].tolist()) == "Scan number 1."
    groups = decoded.train_groups if kind is not MedPix else decoded.train_groups.tolist()
    assert (groups, decoded.notes) == ([0, 0, 1] if kind is MedPix else None, ())


@pytest.mark.parametrize(
    ("kind", "counts"), [(CovCtr, (2, 2, 2)), (MmRetinal, (2, 2, 2)), (PeirGross, (4, 1, 1))]
)
def test_sets_without_splits_are_split_by_group(tmp_path, kind, counts):
    """Of 6 images in pairs, but for PEIR Gross; each image keeps its caption. A second report is a
    reference.
    """
    lay(tmp_path / kind().path, *WHOLE_SETS[kind], mode="RGBA" if kind is CovCtr else "RGB")
    decoded = read_data(kind(**SMALL).reader(), tmp_path)
    held_out_rows, groups = decoded.train_held, decoded.train_groups
    image_numbers = (
        np.round(np.array(brightness(decoded.train_images) + brightness(decoded.test_images)) / 10)
        .astype(int)
        .tolist()
    )
    texts = decoded.train_captions + decoded.test_captions

    assert ((~held_out_rows).sum(), held_out_rows.sum(), len(decoded.test_images)) == counts
    assert [captions[0] for captions in texts] == [f"Report {number}" for number in image_numbers]
    assert [captions[1:] for captions in texts if len(captions) > 1] == (
        [["A second report."]] if kind is CovCtr else []
    )
    assert "the tables give no splits: split at random by group" in decoded.notes
    if groups is not None:
        assert (
            len(set(groups[held_out_rows]))
            == len(set(groups[~held_out_rows]))
            == len(set(decoded.test_groups))
            == 1
        )


@pytest.mark.parametrize("kind", [CovCtr, MmRetinal])
def test_images_of_one_group_may_be_parted_as_in_micar(tmp_path, kind):
    """One of 6 images is tested, though each is of a pair."""
    lay(tmp_path / kind().path, *WHOLE_SETS[kind], mode="RGBA" if kind is CovCtr else "RGB")
    decoded = read_data(kind(**SMALL, split_by="image").reader(), tmp_path)

    assert (decoded.train_held.sum(), len(decoded.test_images)) == (1, 1)
    assert (decoded.train_groups, decoded.test_groups) == (None, None)
    assert any(
        note.endswith("at random by image, so images of one patient may be in training and in test")
        for note in decoded.notes
    )


@pytest.mark.parametrize("kind", SPLIT_SETS | WHOLE_SETS)
def test_a_missing_set_is_named_with_its_first_file(tmp_path, kind):
    (tmp_path / kind().path).mkdir()
    message = rf"^{re.escape(kind().title)} not found under .* \({kind().path}/[\w/]+\.(csv|txt|jsonl?) is missing\). Pass --data"
    with pytest.raises(DataError, match=message):
        kind().reader().check(tmp_path)


def test_folder_is_read_by_its_table(own_set):
    """A copy of an official set may come with captions.csv alone. Columns of groups have several names, cells
    may be blank.
    """
    for kind in (CaptionFolder, MedPix):
        decoded = read_data(kind(path="own", **SMALL).reader(), own_set.parent)
        assert decoded.train_images.shape == (5, 3, 16, 16)
        assert (brightness(decoded.train_images), brightness(decoded.test_images)) == (
            [0, 10, 20, 30, 40],
            [50, 60, 70],
        )
        assert decoded.train_held.tolist() == [False, False, False, True, True]
        assert (decoded.train_groups.tolist(), decoded.test_groups.tolist()) == ([0, 0, 1, 2, 2], [3, 4, 4])
        assert (decoded.train_labels.dtype, decoded.train_labels.shape) == (np.int32, (5, 32))
        assert decoded.test_captions == [[f"image {number} shows two discs."] for number in (5, 6, 7)]

    rows = (
        OWN_TABLE.replace("group", "patient_id")
        .replace("train,a\ni1", "train,\ni1")
        .replace("test,d", "test,")
    )
    (own_set / "captions.csv").write_text(rows)
    assert read_data(config().reader(), own_set.parent).train_groups.tolist() == [0, 1, 2, 3, 3]
    (own_set / "captions.csv").write_text(
        "".join(",".join(row.split(",")[:2]) + "\n" for row in rows.splitlines())
    )
    decoded = read_data(config(clean="report").reader(), own_set.parent)
    assert (len(decoded.train_images), decoded.train_held.sum(), decoded.train_groups) == (7, 1, None)
    assert ["image 0 shows two discs ."] in decoded.train_captions + decoded.test_captions


@pytest.mark.parametrize(
    ("caption", "fields", "note"),
    [
        (
            "image 7 shows too many discs.",
            {"length": 26},
            "1 caption is longer than data.length (26 tokens): cut",
        ),
        # 11 of 7 x 5 + 4 words: the numbers, and all of another caption
        (
            "nothing like the others",
            {"tokenizer": "word"},
            "the tokenizer uses 8 of 1,000 ids; 28.2 % of the words are unknown (UNK)",
        ),
    ],
)
def test_cut_captions_and_unknown_words_are_counted(own_set, caption, fields, note):
    edit(own_set, "image 7 shows two discs.", caption)
    decoded = read_data(config(**fields).reader(), own_set.parent)

    assert (decoded.notes, decoded.test_captions[2]) == ((note,), [caption])


def test_words_and_pairs_are_learned_from_the_training_images_alone(own_set):
    rows = OWN_TABLE.replace("image 3 shows two discs.", "held " * 5).replace(
        "image 6 shows two discs.", "secret " * 5
    )
    (own_set / "captions.csv").write_text(rows)

    assert read_data(config(tokenizer="word").reader(), own_set.parent).tokenizer["contents"] == [
        "discs.",
        "image",
        "shows",
        "two",
    ]
    pairs = str(read_data(config(tokenizer="bpe", vocabulary=400).reader(), own_set.parent).tokenizer)
    assert "Ġshows" in pairs
    assert "held" not in pairs
    assert "secret" not in pairs


def test_cache_gives_labels_captions_and_tokenizer(own_set):
    data = load(config(tokenizer="word"), own_set.parent)
    decoded = read_data(config(tokenizer="word").reader(), own_set.parent)

    assert (data.train.rows.tolist(), data.validation.rows.tolist()) == ([0, 1, 2], [3, 4])
    assert np.array_equal(data.train.labels, decoded.train_labels)
    assert [data.validation.captions[row] for row in data.validation.rows] == decoded.train_captions[3:]
    assert data.tokenizer.checksum == text.restore(decoded.tokenizer).checksum
    edit(own_set, "0 shows two discs", "0 shows one disc")
    assert load(config(tokenizer="word"), own_set.parent).checksum != data.checksum


@pytest.mark.parametrize(
    ("change", "clean", "message", "left", "note"),
    [
        (lambda own_set: edit(own_set, "image 2 shows two discs.", "  "), "none",
         "captions.csv, line 4: the caption is missing. Write one, remove the row, or pass --allow-missing to leave out such images.",
         [0, 10, 30, 40], "1 image is without a caption: left out"),
        (lambda own_set: edit(own_set, "image 2 shows two discs.", "12mm xxxx"), "report",
         "captions.csv, line 4: the caption is empty after data.clean 'report'. Write one",
         [0, 10, 30, 40], "1 image is without a caption after cleaning: left out"),
        (lambda own_set: (own_set / "images/i1.png").unlink(), "none",
         "1 of 8 images is missing: images/i1.png (captions.csv, line 3). Add it, or pass --allow-missing to leave it out.",
         [0, 20, 30, 40], "1 image is named in a table but missing: left out"),
        (lambda own_set: (own_set / "images/i1.png").write_bytes(b"no image"), "none", "images/i1.png cannot be read as an image (",
         [0, 20, 30, 40], "1 image is not readable: left out"),
    ],
)  # fmt: skip
def test_row_without_image_or_caption_is_refused_or_left_out(own_set, change, clean, message, left, note):
    change(own_set)
    with pytest.raises(DataError, match=re.escape(message)):
        read_data(config(clean=clean).reader(), own_set.parent)
    decoded = read_data(config(allow_missing=True, clean=clean).reader(), own_set.parent)
    assert (brightness(decoded.train_images), decoded.notes) == (left, (note,))
    assert len(decoded.train_captions) == len(decoded.train_groups) == len(decoded.train_held) == len(left)


@pytest.mark.parametrize(("edit", "message"), refusals("bad table of captions"))
def test_a_bad_table_is_refused(own_set, edit, message):
    reader = config(allow_missing=True, split_by="image" if "3 images" in message else "group").reader()
    check_refusal(own_set, edit, message, lambda: read_data(reader, own_set.parent))


def test_several_captions_of_an_image_are_its_references(tmp_path):
    """As Flickr8k has them: five rows an image, columns `image` and `caption`, a folder `Images`, no
    split.
    """
    rows = [f"i{image}.png,caption {number} of image {image}\n" for image in range(10) for number in range(5)]
    table = "image,caption\n" + "".join(rows) + ",\n\n"
    for name in ("captions.csv", "captions.txt"):
        lay(tmp_path / name, {name: table}, " ".join(f"Images/i{image}.png" for image in range(10)))
        data = load(config(path=name), tmp_path)

        assert (len(data.train), len(data.validation), len(data.test)) == (8, 1, 1)
        image = data.test.images[0, 0, 0, 0] // 10
        assert data.test.captions[0] == [f"caption {number} of image {image}" for number in range(5)]
        assert data.tokenizer.decode(data.test.labels[0, 1:].tolist()) == f"caption 0 of image {image}"
        assert (
            data.notes[0]
            == "10 of 10 images have several captions: training uses the first one, and all are references"
        )


@pytest.mark.parametrize(
    "table", ["Flickr8k.token.txt", "results.csv", "train/metadata.jsonl", "dataset_coco.json"]
)
def test_a_table_of_another_format_is_named_with_the_formats_that_are_read(tmp_path, table):
    lay(
        tmp_path / "own",
        {table: "i0.png#0\tA caption.\n", "readme.txt": "About the images."},
        "images/i0.png",
    )
    message = (
        f"own has none of the tables captions.csv, captions.txt, annotation.json, but has {table}. "
        "Write captions.csv with the columns image and caption, one row per caption. The columns split and group are optional."
    )
    with pytest.raises(DataError, match=re.escape(message)):
        load(config(), tmp_path)


def reports(split, *entries):
    """A split of R2Gen's annotation.json: reports of one patient and of two images each."""
    return {split: [{"id": f"{split}{entry}", "subject_id": 7, "report": f"Report {entry}.", "split": split,
                     "image_path": [f"{split}{entry}/0.png", f"{split}{entry}/1.png"]} for entry in entries]}  # fmt: skip


def test_the_reports_of_r2gen_are_read(tmp_path):
    annotation = reports("train", 0, 1) | {
        "val": [],
        "test": [{"id": "c", "report": "Clear.", "image_path": "c.png"}],
    }
    images = "images/train0/0.png images/train0/1.png images/train1/0.png images/train1/1.png images/c.png"
    lay(tmp_path / "own", {"annotation.json": json.dumps(annotation)}, images)
    decoded = read_data(config().reader(), tmp_path)

    assert (brightness(decoded.train_images), brightness(decoded.test_images)) == ([0, 10, 20, 30], [40])
    assert decoded.train_captions == [["Report 0."], ["Report 0."], ["Report 1."], ["Report 1."]]
    assert (decoded.train_groups.tolist(), decoded.test_captions) == ([0, 0, 0, 0], [["Clear."]])

    for change, message in [
        ({"dev": []}, "annotation.json must only have lists named train, val, test, but has 'dev'."),
        ({"val": [{"id": 1, "report": "a"}]}, "val[0]: 'image_path' must be a list of the report's images."),
        ({"val": reports("val", 2)["val"]}, "group 7 is in train and val"),
        (
            {"val": [{"report": "half \ud83d", "image_path": ["c.png"]}]},
            "val[0]: '\\ud83d' is half of a surrogate pair",
        ),
    ]:
        (tmp_path / "own/annotation.json").write_text(json.dumps(annotation | change))
        with pytest.raises(DataError, match=re.escape(message)):
            config().reader().check(tmp_path)


@pytest.mark.parametrize(("edit", "message"), refusals("broken file of an official layout"))
def test_a_broken_file_of_an_official_layout_is_named_with_its_line(tmp_path, edit, message):
    name, _, file_edit = edit.partition("/")
    kind, (files, _) = next(
        (kind, parts) for kind, parts in (SPLIT_SETS | WHOLE_SETS).items() if kind.__name__ == name
    )
    place = lay(tmp_path / kind().path, files, "")
    check_refusal(place, file_edit, message, lambda: kind(**SMALL).reader().check(tmp_path))


def test_real_medpix(real_data):
    if not (real_data / "medpix2/captions.csv").exists():
        pytest.skip("RECSTUDY_DATA holds no medpix2/captions.csv")
    data = load(MedPix(size=32), real_data)

    assert (len(data.train), len(data.validation), len(data.test), data.group_count) == (1653, 197, 200, 671)
    assert data.notes == ("71 captions are longer than data.length (512 tokens): cut",)
