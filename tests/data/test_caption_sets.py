import json
import re
from pathlib import Path

import numpy as np
import pytest
from layouts import paint, write_table

from recstudy.data import CaptionFolder, CovCtr, MedPix, MmRetinal, PeirGross, Roco, RocoV2, text
from recstudy.data.cache import load
from recstudy.errors import DataError

SMALL = {"size": 16, "length": 32}


def config(**fields) -> CaptionFolder:
    return CaptionFolder(**{"path": "own", **SMALL, **fields})


def rows_of_eight() -> list[dict[str, str]]:
    groups, splits = "aabccdee", ("train", "train", "train", "val", "val", "test", "test", "test")
    named = [f"i{number}.png" for number in range(7)] + ["i7"]  # the last without its ending, which is .jpg
    captions = [f"image {number} shows two discs." for number in range(8)]
    keys = ("image", "caption", "split", "group")
    return [dict(zip(keys, cells, strict=True)) for cells in zip(named, captions, splits, groups, strict=True)]


def grey(file: Path, value: int, mode: str = "RGB") -> None:
    paint(file, np.full((16, 20), value), mode=mode)


@pytest.fixture
def own(tmp_path) -> Path:
    """own/captions.csv of 8 images in 5 groups (train, val, test) and own/images/i0.png to i7.jpg."""
    write_table(tmp_path / "own/captions.csv", rows_of_eight())
    for number in range(8):
        grey(tmp_path / f"own/images/i{number}.{'jpg' if number == 7 else 'png'}", 10 * number)
    return tmp_path / "own"


def edit(place: Path, row: int, **cells: str) -> None:
    rows = rows_of_eight()
    rows[row] |= cells
    write_table(place / "captions.csv", rows)


def brightness(images: np.ndarray) -> list[int]:
    return images[:, 0, 0, 0].tolist()


def roco(place: Path) -> None:
    """As razorx89/roco-dataset and its fetch.py write it; one image of each split is named by its id."""
    for split, first in (("train", 0), ("validation", 4), ("test", 6)):
        folder = place / f"data/{split}/radiology"
        captions, links = [], []
        for number in range(first, first + (4 if split == "train" else 2)):
            captions.append(f"ROCO_{number:05}\t Axial scan number {number}.\n")
            url = f"ftp://ftp.ncbi.nlm.nih.gov/pub/pmc/oa_package/d9/7d/PMC{number}.tar.gz"
            links.append(f"ROCO_{number:05}\twget -nd {url} -P out\tfig.{number}.jpg\n")
            grey(folder / f"images/{f'ROCO_{number:05}' if number == first else f'PMC{number}_fig.{number}'}.jpg", 10 * number)
        (folder / "captions.txt").write_text("".join(captions))
        (folder / "dlinks.txt").write_text("".join(links))


def rocov2(place: Path) -> None:
    """As the archives of zenodo.org/records/10821435 unpack, and two ways in which copies nest them."""
    for split, below, first in (("train", "train", 0), ("valid", "valid_images", 4), ("test", "test_images/test", 6)):
        numbers = range(first, first + (4 if split == "train" else 2))
        ids = [f"ROCOv2_2023_{split}_{number:06}" for number in numbers]
        write_table(
            place / f"{split}_captions.csv",
            [{"ID": key, "Caption": f"Scan, number {n}."} for key, n in zip(ids, numbers, strict=True)],
        )
        for key, number in zip(ids, numbers, strict=True):
            grey(place / below / f"{key}.jpg", 10 * number)


def cov_ctr(place: Path) -> None:
    """With the byte order mark, the line feeds in the reports and the second report of an image that the archive has."""
    header = "image_id,findings,terminologies,COVID,impression,reports_En\n"
    lines = [f'{n // 2}%{n % 2}.png,发现,术语,1,印象,"Lung {n} is clear.\n"\n' for n in range(20)]
    lines.append('3%1.png,发现,术语,1,印象,"A second report.\n"\n')
    place.mkdir(parents=True)
    (place / "reports_ZH_EN.csv").write_text("\ufeff" + header + "".join(lines))
    for number in range(20):
        grey(place / f"{number // 2}%{number % 2}.png", 10 * number, "RGBA")


def mm_retinal(place: Path) -> None:
    for modality, first in (("CFP", 0), ("FFA", 10), ("OCT", 18)):
        numbers = range(first, {0: 10, 10: 18, 18: 20}[first])
        ids = [f"figure01-{number // 2:02}{'AB'[number % 2]}" for number in numbers]
        more = {"is_multipic": "0"} if modality == "OCT" else {}
        rows = [
            {"Image_ID": key, "en_caption": f"Eye {n}", "cn_caption": "眼"} | more for key, n in zip(ids, numbers, strict=True)
        ]
        write_table(place / f"{modality}_translated_v1.csv", rows)
        for key, number in zip(ids, numbers, strict=True):
            grey(place / modality / f"{key}.{('jpg', 'png', 'jpeg')[number % 3]}", 10 * number)


def peir_gross(place: Path) -> None:
    """As get_peir_gross.py stores it."""
    names = {f"0000{number}.jpg": f"HEART: Infarct: Gross {number}" for number in range(20)}
    for number, name in enumerate(names):
        grey(place / f"peir_gross_images/{name}", 10 * number)
    (place / "peir_gross_captions.json").write_text(json.dumps(names))


def medpix(place: Path) -> None:
    for split, first in (("train", 0), ("dev", 4), ("test", 6)):
        lines = []
        for number in range(first, first + (4 if split == "train" else 2)):
            image = f"MPX{1000 + number // 2}_synpic{number}"
            described = {"Caption": f"CT\nnumber {number}.", "Figure Part": None}
            lines.append(json.dumps({"Type": "CT", "U_id": image[:7], "image": image, "Description": described}) + "\n")
            grey(place / f"images/{image}.png", 10 * number)
        (place / "splitted_dataset").mkdir(exist_ok=True)
        (place / f"splitted_dataset/descriptions_{split}.jsonl").write_text("".join(lines))


@pytest.mark.parametrize(
    ("kind", "write", "second", "groups"),
    [
        (Roco, roco, "Axial scan number 1.", None),
        (RocoV2, rocov2, "Scan, number 1.", None),
        (MedPix, medpix, "CT number 1.", [0, 0, 1, 1, 2, 2]),
    ],
)
def test_official_splits_are_read(tmp_path, kind, write, second, groups):
    """Images 0 to 3 train, 4 and 5 validate, 6 and 7 test; the brightness of an image is 10 times its number."""
    write(tmp_path / kind(**SMALL).path)
    decoded = kind(**SMALL).reader().read(tmp_path)

    assert np.allclose(brightness(decoded.train_images), [0, 10, 20, 30, 40, 50], atol=2)  # JPEG
    assert np.allclose(brightness(decoded.test_images), [60, 70], atol=2)
    assert decoded.train_held.tolist() == [False] * 4 + [True] * 2
    assert decoded.train_captions[1] == [second]
    assert text.restore(decoded.tokenizer).decode(decoded.train_labels[1].tolist()) == second[:30]
    assert (decoded.train_groups if groups is None else decoded.train_groups.tolist(), decoded.notes) == (groups, ())


@pytest.mark.parametrize(
    ("kind", "write", "captions", "counts"),
    [
        (CovCtr, cov_ctr, "Lung {} is clear.", (16, 2, 2)),
        (MmRetinal, mm_retinal, "Eye {}", (16, 2, 2)),
        (PeirGross, peir_gross, "HEART: Infarct: Gross {}", (14, 2, 4)),
    ],
)
def test_sets_without_splits_are_split_by_group(tmp_path, kind, write, captions, counts):
    """Of 20 images in pairs, but for PEIR Gross; each image keeps its caption. A second report is a reference."""
    write(tmp_path / kind(**SMALL).path)
    decoded = kind(**SMALL).reader().read(tmp_path)
    held, groups = decoded.train_held, decoded.train_groups
    shown = np.round(np.array(brightness(decoded.train_images) + brightness(decoded.test_images)) / 10).astype(int).tolist()
    texts = decoded.train_captions + decoded.test_captions

    assert ((~held).sum(), held.sum(), len(decoded.test_images)) == counts
    assert [own[0] for own in texts] == [captions.format(number) for number in shown]
    assert [own[1:] for own in texts if len(own) > 1] == ([["A second report."]] if kind is CovCtr else [])
    assert "no splits are given: drawn by group" in decoded.notes
    if groups is not None:
        splits = [set(groups[held]), set(groups[~held]), set(decoded.test_groups)]
        assert sum(map(len, splits)) == len(set.union(*splits)) == 10


@pytest.mark.parametrize("kind", [Roco, RocoV2, CovCtr, MmRetinal, PeirGross, MedPix])
def test_a_missing_set_is_named_with_its_first_file(tmp_path, kind):
    (tmp_path / kind().path).mkdir()
    missing = rf"^{re.escape(kind().title)} not found under .* \({kind().path}/[\w/]+\.(csv|txt|jsonl?) is missing\). Pass --data"
    with pytest.raises(DataError, match=missing):
        kind().reader().check(tmp_path)


def test_folder_is_read_by_its_table(own):
    """A copy of an official set may come with captions.csv alone. Columns of groups have several names, cells may be blank."""
    for kind in (CaptionFolder, MedPix):
        decoded = kind(path="own", **SMALL).reader().read(own.parent)
        assert decoded.train_images.shape == (5, 3, 16, 16)
        assert (brightness(decoded.train_images), brightness(decoded.test_images)) == ([0, 10, 20, 30, 40], [50, 60, 70])
        assert decoded.train_held.tolist() == [False, False, False, True, True]
        assert (decoded.train_groups.tolist(), decoded.test_groups.tolist()) == ([0, 0, 1, 2, 2], [3, 4, 4])
        assert (decoded.train_labels.dtype, decoded.train_labels.shape) == (np.int32, (5, 32))
        assert decoded.test_captions == [[f"image {number} shows two discs."] for number in (5, 6, 7)]

    rows = [{"patient_id": row.pop("group"), **row} for row in rows_of_eight()]
    rows[0]["patient_id"] = rows[5]["patient_id"] = ""
    write_table(own / "captions.csv", rows)
    assert config().reader().read(own.parent).train_groups.tolist() == [0, 1, 2, 3, 3]
    write_table(own / "captions.csv", [{"image": row["image"], "caption": row["caption"]} for row in rows])
    decoded = config(clean="report").reader().read(own.parent)
    assert (len(decoded.train_images), decoded.train_held.sum(), decoded.train_groups) == (7, 1, None)
    assert ["image 0 shows two discs ."] in decoded.train_captions + decoded.test_captions


@pytest.mark.parametrize(
    ("caption", "fields", "note"),
    [
        ("image 7 shows too many discs.", {"length": 26}, "1 caption is longer than data.length (26 tokens): cut"),
        # 11 of 7 x 5 + 4 words: the numbers, and all of another caption
        ("nothing like the others", {"tokenizer": "word"}, "8 of 1,000 ids are used; 28.2 % of the words have none of their own"),
    ],
)
def test_cut_captions_and_unknown_words_are_counted(own, caption, fields, note):
    edit(own, 7, caption=caption)
    decoded = config(**fields).reader().read(own.parent)

    assert (decoded.notes, decoded.test_captions[2]) == ((note,), [caption])


def test_words_and_pairs_are_learned_from_the_training_images_alone(own):
    rows = rows_of_eight()
    rows[3]["caption"], rows[6]["caption"] = "held " * 5, "secret " * 5
    write_table(own / "captions.csv", rows)

    assert config(tokenizer="word").reader().read(own.parent).tokenizer["contents"] == ["discs.", "image", "shows", "two"]
    pairs = str(config(tokenizer="bpe", vocabulary=400).reader().read(own.parent).tokenizer)
    assert "Ġshows" in pairs
    assert "held" not in pairs
    assert "secret" not in pairs


def test_cache_gives_labels_captions_and_tokenizer(own):
    data = load(config(tokenizer="word"), own.parent)
    decoded = config(tokenizer="word").reader().read(own.parent)

    assert (data.train.rows.tolist(), data.validation.rows.tolist(), data.classes) == ([0, 1, 2], [3, 4], 1000)
    assert np.array_equal(data.train.labels, decoded.train_labels)
    assert [data.validation.captions[row] for row in data.validation.rows] == decoded.train_captions[3:]
    assert data.tokenizer.checksum == text.restore(decoded.tokenizer).checksum
    edit(own, 0, caption="image 0 shows one disc.")
    assert load(config(tokenizer="word"), own.parent).checksum != data.checksum


def damage(own, *names):
    for name in names:
        (own / "images" / name).write_bytes(b"no image")


@pytest.mark.parametrize(
    ("change", "fields", "message", "left", "note"),
    [
        (lambda own: edit(own, 2, caption="  "), {},
         "captions.csv, line 4: no caption. Write one, remove the row, or go on without such images with --allow-missing.",
         [0, 10, 30, 40], "1 image is without a caption: left out"),
        (lambda own: edit(own, 2, caption="12mm xxxx"), {"clean": "report"},
         "captions.csv, line 4: nothing is left of the caption with data.clean 'report'. Write one",
         [0, 10, 30, 40], "1 image is without a caption once it is cleaned: left out"),
        (lambda own: (own / "images/i1.png").unlink(), {},
         "1 of 8 images is missing: images/i1.png (captions.csv, line 3). Put it there, or go on without it with --allow-missing.",
         [0, 20, 30, 40], "1 image is named in a table and missing: left out"),
        (lambda own: damage(own, "i1.png"), {}, "images/i1.png cannot be read as an image (", [0, 20, 30, 40], "1 image is not readable: left out"),
    ],
)  # fmt: skip
def test_what_lacks_an_image_or_a_caption_is_refused_or_left_out(own, change, fields, message, left, note):
    change(own)
    with pytest.raises(DataError, match=re.escape(message)):
        config(**fields).reader().read(own.parent)
    decoded = config(allow_missing=True, **fields).reader().read(own.parent)
    assert (brightness(decoded.train_images), decoded.notes) == (left, (note,))
    assert len(decoded.train_captions) == len(decoded.train_groups) == len(decoded.train_held) == len(left)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: edit(own, 1, image="i0"), "line 3: names 'i0' again, which line 2 has. Keep one of the two."),

        (lambda own: damage(own, "i5.png", "i6.png", "i7.jpg"),
         "PLACE has no images for the split 'test': none of its 3 images can be used. Give it some"),
        (lambda own: edit(own, 5, group="a"), "PLACE: group a is in train and test; 1 group is in more than one split."),
        (lambda own: write_table(own / "captions.csv", [row | {"split": "", "group": "a"} for row in rows_of_eight()]),
         "PLACE/captions.csv has fewer than 3 groups, too few to draw a split from. Add others, or give the split."),

    ],
)  # fmt: skip
def test_a_bad_table_is_refused(own, change, message):
    change(own)
    with pytest.raises(DataError, match=re.escape(message.replace("PLACE", str(own)))):
        config(allow_missing=True).reader().read(own.parent)


@pytest.mark.parametrize(
    ("kind", "write", "file", "content", "message"),
    [
        (Roco, roco, "data/validation/radiology/captions.txt", "ROCO_00009 no tab\n", "line 1: must be 2 cells with a tab between, but got 1"),
        (MedPix, medpix, "splitted_dataset/descriptions_dev.jsonl", "{\n", r"line 1: this is not JSON \(Expecting property name"),

        (MedPix, medpix, "splitted_dataset/descriptions_dev.jsonl", '{"image": "a", "U_id": "b"}\n', "line 1: 'Description' is missing"),
        (PeirGross, peir_gross, "peir_gross_captions.json", '{"00001.jpg": 3}', ".*a caption must be a text, but got '3'"),
        (PeirGross, peir_gross, "peir_gross_captions.json", '{"00001.jpg": "a", "00001.jpg": "b"}',
         "key '00001.jpg': names 'images/00001.jpg' again, which key"),
        (PeirGross, peir_gross, "peir_gross_captions.json", "{}", "has no rows"),
    ],
)  # fmt: skip
def test_a_broken_file_of_an_official_layout_is_named_with_its_line(tmp_path, kind, write, file, content, message):
    write(tmp_path / kind().path)
    (tmp_path / kind().path / file).write_text(content)
    with pytest.raises(DataError, match=f"{file}.* {message}|{file}, {message}"):
        kind(**SMALL).reader().check(tmp_path)


def test_real_medpix(real_data):
    if not (real_data / "medpix2/captions.csv").exists():
        pytest.skip("RECSTUDY_DATA holds no medpix2/captions.csv")
    data = load(MedPix(size=32), real_data)

    assert (len(data.train), len(data.validation), len(data.test), data.group_count) == (1653, 197, 200, 671)
    assert data.notes == ("71 captions are longer than data.length (512 tokens): cut",)
