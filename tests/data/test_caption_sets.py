import csv
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from clip_like import clip_files
from PIL import Image

from recstudy.config import DATASETS
from recstudy.data import CaptionFolder, CovCtr, MedPix, MmRetinal, PeirGross, Roco, RocoV2, text
from recstudy.data.cache import load
from recstudy.data.splits import draw
from recstudy.errors import DataError

SMALL = {"size": 16, "length": 32}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSTUDY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def own(tmp_path) -> Path:
    """own/captions.csv of 8 images in 5 groups (train, val, test) and own/images/i0.png to i7.jpg."""
    return own_layout(tmp_path)


def config(**fields) -> CaptionFolder:
    return CaptionFolder(**{"path": "own", **SMALL, **fields})


def paint(file: Path, value: int, mode: str = "RGB") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (20, 16), value).convert(mode).save(file)


def rows_of_eight() -> list[dict[str, str]]:
    groups, splits = "aabccdee", ("train", "train", "train", "val", "val", "test", "test", "test")
    named = [f"i{number}.png" for number in range(7)] + ["i7"]  # the last without its ending, which is .jpg
    captions = [f"image {number} shows two discs." for number in range(8)]
    keys = ("image", "caption", "split", "group")
    return [dict(zip(keys, cells, strict=True)) for cells in zip(named, captions, splits, groups, strict=True)]


def own_layout(folder: Path, rows: list[dict[str, str]] | None = None) -> Path:
    write_table(folder / "own/captions.csv", rows or rows_of_eight())
    for number in range(8):
        paint(folder / f"own/images/i{number}.{'jpg' if number == 7 else 'png'}", 10 * number)
    return folder / "own"


def write_table(file: Path, rows: list[dict[str, str]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with open(file, "w", newline="") as opened:
        table = csv.DictWriter(opened, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def edit(place: Path, row: int, **cells: str) -> None:
    rows = rows_of_eight()
    rows[row] |= cells
    write_table(place / "captions.csv", rows)


def brightness(images: np.ndarray) -> list[int]:
    return images[:, 0, 0, 0].tolist()


def message(place: Path, expected: str) -> str:
    return "^" + re.escape(expected.replace("PLACE", str(place))) + "$"


def fails(place: Path, expected: str, **fields) -> None:
    """Both before a run starts, without a look into an image, and when the set is read."""
    reader = config(**fields).reader()
    for check in (reader.check, reader.read):
        with pytest.raises(DataError, match=message(place, expected)):
            check(place.parent)


# ------------------------------------------------------------------------------------------------- the official layouts


def roco(place: Path) -> None:
    """As razorx89/roco-dataset and its fetch.py write it; one image of each split is named by its id."""
    for split, first in (("train", 0), ("validation", 4), ("test", 6)):
        folder = place / f"data/{split}/radiology"
        captions, links = [], []
        for number in range(first, first + (4 if split == "train" else 2)):
            captions.append(f"ROCO_{number:05}\t Axial scan number {number}.\n")
            url = f"ftp://ftp.ncbi.nlm.nih.gov/pub/pmc/oa_package/d9/7d/PMC{number}.tar.gz"
            links.append(f"ROCO_{number:05}\twget -nd {url} -P out\tfig.{number}.jpg\n")
            paint(folder / f"images/{f'ROCO_{number:05}' if number == first else f'PMC{number}_fig.{number}'}.jpg", 10 * number)
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
            paint(place / below / f"{key}.jpg", 10 * number)


def cov_ctr(place: Path) -> None:
    """With the byte order mark, the line feeds in the reports and the second report of an image that the archive has."""
    header = "image_id,findings,terminologies,COVID,impression,reports_En\n"
    lines = [f'{n // 2}%{n % 2}.png,发现,术语,1,印象,"Lung {n} is clear.\n"\n' for n in range(20)]
    lines.append('3%1.png,发现,术语,1,印象,"A second report.\n"\n')
    place.mkdir(parents=True)
    (place / "reports_ZH_EN.csv").write_text("\ufeff" + header + "".join(lines))
    for number in range(20):
        paint(place / f"{number // 2}%{number % 2}.png", 10 * number, "RGBA")


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
            paint(place / modality / f"{key}.{('jpg', 'png', 'jpeg')[number % 3]}", 10 * number)


def peir_gross(place: Path) -> None:
    """As get_peir_gross.py stores it."""
    names = {f"0000{number}.jpg": f"HEART: Infarct: Gross {number}" for number in range(20)}
    for number, name in enumerate(names):
        paint(place / f"peir_gross_images/{name}", 10 * number)
    (place / "peir_gross_captions.json").write_text(json.dumps(names))


def medpix(place: Path) -> None:
    for split, first in (("train", 0), ("dev", 4), ("test", 6)):
        lines = []
        for number in range(first, first + (4 if split == "train" else 2)):
            image = f"MPX{1000 + number // 2}_synpic{number}"
            described = {"Caption": f"CT\nnumber {number}.", "Figure Part": None}
            lines.append(json.dumps({"Type": "CT", "U_id": image[:7], "image": image, "Description": described}) + "\n")
            paint(place / f"images/{image}.png", 10 * number)
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
    assert (None if decoded.train_groups is None else decoded.train_groups.tolist()) == groups
    assert decoded.notes == ()


@pytest.mark.parametrize(
    ("kind", "write", "captions", "counts"),
    [
        (CovCtr, cov_ctr, "Lung {} is clear.", (16, 2, 2)),
        (MmRetinal, mm_retinal, "Eye {}", (16, 2, 2)),
        (PeirGross, peir_gross, "HEART: Infarct: Gross {}", (14, 2, 4)),
    ],
)
def test_sets_without_splits_are_split_by_group(tmp_path, kind, write, captions, counts):
    """Of 20 images in pairs, but for PEIR Gross; each image keeps its caption."""
    write(tmp_path / kind(**SMALL).path)
    decoded = kind(**SMALL).reader().read(tmp_path)
    held = decoded.train_held.sum()

    assert (len(decoded.train_images) - held, held, len(decoded.test_images)) == counts
    shown = np.round(np.array(brightness(decoded.train_images) + brightness(decoded.test_images)) / 10).astype(int).tolist()
    said = [texts[0] for texts in decoded.train_captions + decoded.test_captions]
    assert said == [captions.format(number) for number in shown]
    assert "no splits are given: drawn by group" in decoded.notes
    if decoded.train_groups is not None:
        assert list(dict.fromkeys([*decoded.train_groups, *decoded.test_groups])) == list(range(10))
        assert set(Counter([*decoded.train_groups, *decoded.test_groups]).values()) == {2}
        assert not set(decoded.train_groups) & set(decoded.test_groups)
        assert not set(decoded.train_groups[decoded.train_held]) & set(decoded.train_groups[~decoded.train_held])


def test_second_report_of_cov_ctr_is_a_reference(tmp_path):
    cov_ctr(tmp_path / "COV-CTR")
    decoded = CovCtr(**SMALL).reader().read(tmp_path)
    several = [texts for texts in decoded.train_captions + decoded.test_captions if len(texts) > 1]

    assert several == [["Lung 7 is clear.", "A second report."]]
    assert decoded.notes[0] == "1 of 20 images have several captions: the first is trained on, all are references"


def test_the_table_of_a_folder_comes_first(tmp_path):
    """A copy of an official set may come with captions.csv alone, as MedPix does in CI."""
    own_layout(tmp_path)
    decoded = MedPix(path="own", **SMALL).reader().read(tmp_path)

    assert brightness(decoded.train_images) == [0, 10, 20, 30, 40]
    assert decoded.train_groups.tolist() == [0, 0, 1, 2, 2]


@pytest.mark.parametrize("kind", [Roco, RocoV2, CovCtr, MmRetinal, PeirGross, MedPix])
def test_a_missing_set_is_named_with_its_first_file(tmp_path, kind):
    named = kind()
    with pytest.raises(
        DataError, match=f"^{re.escape(named.title)} not found under .* \\({named.path} is missing\\). Pass --data"
    ):
        named.reader().check(tmp_path)
    (tmp_path / named.path).mkdir()
    with pytest.raises(DataError, match=rf"\({named.path}/[\w/]+\.(csv|txt|jsonl?) is missing\)"):
        named.reader().check(tmp_path)


# ------------------------------------------------------------------------------------------------- any folder


def test_folder_is_read_by_its_table(own):
    decoded = config().reader().read(own.parent)

    assert decoded.train_images.shape == (5, 3, 16, 16)
    assert (brightness(decoded.train_images), brightness(decoded.test_images)) == ([0, 10, 20, 30, 40], [50, 60, 70])
    assert decoded.train_held.tolist() == [False, False, False, True, True]
    assert (decoded.train_groups.tolist(), decoded.test_groups.tolist()) == ([0, 0, 1, 2, 2], [3, 4, 4])
    assert (decoded.train_labels.dtype, decoded.train_labels.shape) == (np.int32, (5, 32))
    assert decoded.test_captions == [[f"image {number} shows two discs."] for number in (5, 6, 7)]


def test_folders_of_images_may_be_links(own, tmp_path):
    """As where a disk for images is not the one for tables: two links to one folder, and a link back, which has no end."""
    plain = load(config(), tmp_path)
    (own / "images").rename(tmp_path / "disk")
    (tmp_path / "disk/back").symlink_to(tmp_path / "disk")
    for name in ("images", "again"):
        (own / name).symlink_to(tmp_path / "disk")
    edit(own, 0, image="again/i0.png")

    linked = load(config(), tmp_path)

    assert np.array_equal(linked.test.images, plain.test.images)
    assert np.array_equal(linked.train.images, plain.train.images)


def test_split_and_group_may_be_missing(own):
    rows = [{"image": row["image"], "caption": row["caption"]} for row in rows_of_eight()]
    write_table(own / "captions.csv", rows)
    decoded = config().reader().read(own.parent)

    assert (len(decoded.train_images), decoded.train_held.sum(), len(decoded.test_images)) == (7, 1, 1)
    assert decoded.train_groups is None
    assert decoded.notes == ("no splits are given: drawn by group",)


def test_groups_have_three_names_and_may_be_blank(own):
    rows = [{"patient_id": row.pop("group"), **row} for row in rows_of_eight()]
    rows[0]["patient_id"] = rows[5]["patient_id"] = ""
    write_table(own / "captions.csv", rows)

    assert config().reader().read(own.parent).train_groups.tolist() == [0, 1, 2, 3, 3]


def test_words_and_pairs_are_learned_from_the_training_images_alone(own):
    rows = rows_of_eight()
    rows[3]["caption"], rows[6]["caption"] = "held " * 5, "secret " * 5
    write_table(own / "captions.csv", rows)

    assert config(tokenizer="word").reader().read(own.parent).tokenizer["contents"] == ["discs.", "image", "shows", "two"]
    pairs = str(config(tokenizer="bpe", vocabulary=400).reader().read(own.parent).tokenizer)
    assert "Ġshows" in pairs
    assert "held" not in pairs
    assert "secret" not in pairs


def test_long_captions_are_cut_and_counted(own):
    """24 letters fit 26 tokens; the captions of all other images have 24."""
    edit(own, 1, caption="image 1 shows too many discs.")
    decoded = config(length=26).reader().read(own.parent)

    assert decoded.notes == ("1 caption is longer than data.length (26 tokens): cut",)
    assert decoded.train_labels[1, -1] == 2
    assert decoded.train_captions[1] == ["image 1 shows too many discs."]


def test_unknown_words_are_told(own):
    """11 of 7 x 5 + 4 words: the numbers, and all of another caption."""
    edit(own, 7, caption="nothing like the others")
    note = config(tokenizer="word").reader().read(own.parent).notes[0]
    assert note == "8 of 1,000 ids are used; 28.2 % of the words have none of their own"


def test_reports_are_cleaned_on_request(own):
    assert config(clean="report").reader().read(own.parent).train_captions[1] == ["image 1 shows two discs ."]


# ------------------------------------------------------------------------------------------------- in the cache


def test_cache_gives_labels_captions_and_tokenizer(own, cache):
    data = load(config(tokenizer="word"), own.parent)
    decoded = config(tokenizer="word").reader().read(own.parent)

    assert (data.train.rows.tolist(), data.validation.rows.tolist(), data.test.rows.tolist()) == ([0, 1, 2], [3, 4], [0, 1, 2])
    assert np.array_equal(data.train.labels, decoded.train_labels)
    assert [data.validation.captions[row] for row in data.validation.rows] == decoded.train_captions[3:]
    assert (len(data.test.captions), data.test.captions[-1]) == (3, decoded.test_captions[-1])
    assert data.tokenizer.checksum == text.restore(decoded.tokenizer).checksum
    assert (data.classes, data.group_count) == (1000, 5)


def test_captions_are_read_when_they_are_asked_for(own, cache):
    data = load(config(), own.parent)
    for file in cache.glob("captions-*/*_captions.json"):
        file.write_text("{")

    assert len(data.train) == 3
    with pytest.raises(json.JSONDecodeError, match="Expecting property name"):
        data.train.captions[0]


@pytest.mark.parametrize(
    "change", [{"tokenizer": "word"}, {"length": 33}, {"clean": "report"}, {"tokenizer": "word", "vocabulary": 20}]
)
def test_what_decides_the_tokens_decides_the_entry(own, cache, change):
    load(config(), own.parent)
    load(config(tokenizer="word", vocabulary=30), own.parent)
    load(config(**change), own.parent)
    assert len(list(cache.glob("captions-*"))) == 3


def test_other_captions_are_another_checksum(own):
    """References of an image count, although no token of them is a label."""
    first = load(config(length=12), own.parent)
    edit(own, 0, caption="image 0 shows one disc.")
    second = load(config(length=12), own.parent)

    assert np.array_equal(first.train.labels, second.train.labels)
    assert first.checksum != second.checksum


def test_a_changed_tokenizer_of_clip_is_another_entry(own, cache):
    clip_files(own.parent)
    first = load(config(tokenizer="clip"), own.parent)
    (own.parent / "clip/merges.txt").write_text("#version: 0.2\nl e\n")
    second = load(config(tokenizer="clip"), own.parent)

    assert len(list(cache.glob("captions-*"))) == 2
    assert first.tokenizer.checksum != second.tokenizer.checksum
    assert (first.classes, first.train.labels[0, 0]) == (49_408, 515)


def test_warm_entry_loads_no_decoder_and_no_torch(own, cache):
    load(config(), own.parent)
    script = (
        "import sys; from pathlib import Path; from recstudy.data import CaptionFolder; from recstudy.data.cache import load\n"
        f"data = load(CaptionFolder(path='own', size=16, length=32), Path({str(own.parent)!r})); data.train.captions[0]\n"
        "print(sorted({'torch', 'tokenizers', 'huggingface_hub', 'PIL'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout.strip() == "[]"


# ------------------------------------------------------------------------------------------------- bad input


def test_columns_that_are_missing_are_named(own):
    for column in ("image", "caption"):
        rows = [{key: cell for key, cell in row.items() if key != column} for row in rows_of_eight()]
        write_table(own / "captions.csv", [{**row, "text": ""} for row in rows])
        others = ", ".join(key for key in ("image", "caption", "split", "group", "text") if key != column)
        fails(own, f"PLACE/captions.csv has no column {column!r}: there are {others}.")


def test_an_empty_caption_is_refused_or_left_out(own):
    edit(own, 2, caption="  ")
    fails(
        own,
        "PLACE/captions.csv, line 4: no caption. Write one, remove the row, or go on without such images with --allow-missing.",
    )
    decoded = config(allow_missing=True).reader().read(own.parent)
    assert brightness(decoded.train_images) == [0, 10, 30, 40]
    assert decoded.notes == ("1 image is without a caption: left out",)


def test_a_caption_of_which_nothing_is_left_is_refused_or_left_out(own):
    edit(own, 2, caption="12mm xxxx")
    with pytest.raises(DataError, match=r"line 4: nothing is left of the caption with data.clean 'report'. Write one"):
        config(clean="report").reader().read(own.parent)
    decoded = config(clean="report", allow_missing=True).reader().read(own.parent)
    assert decoded.notes == ("1 image is without a caption once it is cleaned: left out",)
    assert (len(decoded.train_images), decoded.train_groups.tolist()) == (4, [0, 0, 1, 1])


@pytest.mark.parametrize("again", ["i0.png", "i0"])
def test_an_image_named_twice_is_refused(own, again):
    edit(own, 1, image=again)
    fails(own, f"PLACE/captions.csv, line 3: names '{again}' again, which line 2 has. Keep one of the two.")


def test_a_missing_image_is_refused_or_left_out(own):
    (own / "images/i1.png").unlink()
    fails(
        own,
        "PLACE: 1 of 8 images is missing: images/i1.png (captions.csv, line 3). "
        "Put it there, or go on without it with --allow-missing.",
    )
    (own / "images/i3.png").unlink()
    with pytest.raises(DataError, match=r"2 of 8 images are missing, the first is images/i1.png .* without them with --allow"):
        config().reader().check(own.parent)
    decoded = config(allow_missing=True).reader().read(own.parent)
    assert brightness(decoded.train_images) == [0, 20, 40]
    assert decoded.notes == ("2 images are named in a table and missing: left out",)


def test_an_image_that_cannot_be_decoded_is_refused_or_left_out(own):
    (own / "images/i1.png").write_bytes(b"no image")
    with pytest.raises(
        DataError, match=r"i1.png cannot be read as an image \(.*\). Replace or remove it. captions.csv, line 3 names it; --allow"
    ):
        config().reader().read(own.parent)
    decoded = config(allow_missing=True).reader().read(own.parent)
    assert (brightness(decoded.train_images), decoded.train_held.tolist()) == ([0, 20, 30, 40], [False, False, True, True])
    assert decoded.train_captions[1] == ["image 2 shows two discs."]
    assert decoded.notes == ("1 image is not readable: left out",)


def test_a_split_without_readable_images_is_refused(own):
    for number in (5, 6):
        (own / f"images/i{number}.png").write_bytes(b"")
    (own / "images/i7.jpg").write_bytes(b"")
    with pytest.raises(
        DataError, match=r"own has no images for the split 'test': none of its 3 images can be used. Give it some"
    ):
        config(allow_missing=True).reader().read(own.parent)


def test_splits_that_are_none_are_refused(own):
    edit(own, 3, split="valid")
    fails(own, "PLACE/captions.csv, line 5, column 'split' must be train, val, test or blank in all rows, but got 'valid'.")


def test_an_empty_split_is_refused(own):
    write_table(own / "captions.csv", rows_of_eight()[:5])
    fails(own, "PLACE has no images for the split 'test': the tables name none. Give it some.")


def test_a_group_in_two_splits_is_refused(own):
    edit(own, 5, group="a")
    fails(
        own,
        "PLACE: group a is in train and test; 1 group is in more than one split. "
        "Give all images of a group the same split, or give no splits to have them drawn.",
    )


def test_too_few_groups_are_not_split(own):
    write_table(own / "captions.csv", [{**row, "split": "", "group": "ab"[int(row["group"] == "a")]} for row in rows_of_eight()])
    fails(own, "PLACE/captions.csv has fewer than 3 groups, too few to draw a split from. Add others, or give the split.")


def test_another_encoding_is_named_with_its_byte_and_line(own):
    lines = (own / "captions.csv").read_bytes().split(b"\r\n")
    lines[2] = "i1.png,caf\u00e9,train,a".encode("latin-1")
    (own / "captions.csv").write_bytes(b"\r\n".join(lines))
    fails(own, "PLACE/captions.csv, line 3: the byte 0xE9 is not UTF-8. Save the file with that encoding.")


def test_a_broken_table_is_named_with_its_line(tmp_path):
    roco(tmp_path / "roco-dataset")
    file = tmp_path / "roco-dataset/data/validation/radiology/captions.txt"
    file.write_text(file.read_text() + "\nROCO_00009 no tab\n")
    with pytest.raises(
        DataError, match=r"validation/radiology/captions.txt, line 4: must be 2 cells with a tab between, but got 1"
    ):
        Roco(**SMALL).reader().check(tmp_path)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("{", r"descriptions_dev.jsonl, line 2: this is not JSON \(Expecting property name"),
        ("[1]", r"descriptions_dev.jsonl, line 2: must be a JSON object"),
        ('{"image": "a", "U_id": "b"}', r"descriptions_dev.jsonl, line 2: 'Description' is missing"),
        ('{"image": "a", "U_id": "b", "Description": {"Caption": 3}}', r"line 2: a caption must be a text, but got '3'"),
        ('{"image": "a", "U_id": "b", "Description": {"Caption": null}}', r"line 2: no caption. Write one"),
    ],
)
def test_a_broken_line_of_medpix_is_named(tmp_path, line, expected):
    medpix(tmp_path / "medpix2")
    file = tmp_path / "medpix2/splitted_dataset/descriptions_dev.jsonl"
    file.write_text(file.read_text().split("\n")[0] + "\n" + line + "\n")
    with pytest.raises(DataError, match=expected):
        MedPix(**SMALL).reader().check(tmp_path)


def test_a_key_that_is_there_twice_is_refused(tmp_path):
    peir_gross(tmp_path / "peir_gross")
    (tmp_path / "peir_gross/peir_gross_captions.json").write_text('{"00001.jpg": "a", "00001.jpg": "b"}')
    with pytest.raises(DataError, match=r"peir_gross_captions.json, key '00001.jpg': names 'images/00001.jpg' again, which key"):
        PeirGross(**SMALL).reader().check(tmp_path)


def test_a_table_without_rows_is_refused(tmp_path):
    peir_gross(tmp_path / "peir_gross")
    (tmp_path / "peir_gross/peir_gross_captions.json").write_text("{}")
    with pytest.raises(DataError, match=r"peir_gross_captions.json has no rows"):
        PeirGross(**SMALL).reader().check(tmp_path)


# ------------------------------------------------------------------------------------------------- splits, real data


def test_drawn_splits_are_whole_groups_in_their_shares():
    groups = np.repeat(np.arange(100), 3)
    splits = draw(groups, 0.1, 0.2, seed=4)

    assert Counter(splits.tolist()) == {"train": 210, "val": 30, "test": 60}
    assert all(len(set(splits[groups == group].tolist())) == 1 for group in range(100))
    assert np.array_equal(splits, draw(groups, 0.1, 0.2, seed=4))
    assert np.array_equal(splits == "test", draw(groups, 0.3, 0.2, seed=4) == "test")
    assert not np.array_equal(splits, draw(groups, 0.1, 0.2, seed=5))


def test_captioned_sets():
    captioned = {name for name, kind in DATASETS.items() if "tokenizer" in kind.model_fields}
    assert captioned == {"captions", "roco", "rocov2", "cov_ctr", "mm_retinal", "peir_gross", "medpix", "phantom_captions"}


def real(folder: Path, name: str) -> Path:
    if not (folder / name / "captions.csv").exists():
        pytest.skip(f"RECSTUDY_DATA holds no {name}/captions.csv")
    return folder


def test_real_medpix(real_data):
    data = load(MedPix(size=32), real(real_data, "medpix2"))

    assert (len(data.train), len(data.validation), len(data.test), data.group_count) == (1653, 197, 200, 671)
    assert data.notes == ("71 captions are longer than data.length (512 tokens): cut",)
    row = int(data.test.rows[3])
    assert data.tokenizer.decode(data.test.labels[row].tolist()) == data.test.captions[row][0]


def test_real_covid_ct(real_data):
    data = load(CaptionFolder(path="covid_ct", size=32, tokenizer="word", clean="report"), real(real_data, "covid_ct"))

    assert (len(data.train), len(data.validation), len(data.test), data.group_count) == (260, 27, 49, 200)
    assert data.tokenizer.words[:3] == [".", "day", "the"]
