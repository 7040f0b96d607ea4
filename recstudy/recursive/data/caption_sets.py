"""The captioned data sets: public sets of medical images in their authors' layouts, and a generated set.

Each public set is one class. Its `tables` are in the folder PATH, and `rows` yields one row per caption. The
generated set is for tests, demonstrations and quick presets. It has shapes on a dark, mottled background:

    case      shape, size, brightness, side and tint: the same for all images of a case
    image     number of shapes, none to three; their positions; mottling and noise
    caption   a finding and an impression, with a random wording

A caption describes only what its image shows. Except for the noise, random numbers do not depend on the size
of the images. No step calls a function whose last digit depends on the processor.

Shapes: N images, S pixels per side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field, NonNegativeInt

from recstudy.base.errors import DataError
from recstudy.recursive.config.parts import DATASETS
from recstudy.recursive.config.reader import Array, Arrays, DrawingReader, Labels, generator, np
from recstudy.recursive.data.captions import CaptionFiles, CaptionReader, CaptionRow
from recstudy.recursive.data.phantom_xray import draw_groups, render
from recstudy.recursive.data.splits import SPLITS, Rows, caption_text, json_object, utf8
from recstudy.recursive.data.text import CLEANERS, Captioned, with_tokens

# The names of `SPLITS` in the files of a set.
MEDPIX_SPLITS = ("train", "dev", "test")
ROCO_SPLITS = ("train", "validation", "test")
ROCO_V2_SPLITS = ("train", "valid", "test")
MODALITIES = ("CFP", "FFA", "OCT")  # of MM-Retinal
FIGURE_PART = re.compile(r"(?<=\d)[A-Za-z]$")  # the A of 01-01A

SEED = 500
TRAIN_IMAGES, TEST_IMAGES = 1000, 200
GRID = 8  # points per side of the mottling
NOISE = 0.1  # width of the uniform noise of each pixel
SHAPES = ("disc", "ring", "square")
SIZES, LEVELS, SIDES = ("small", "large"), ("faint", "bright"), ("left", "right")
COUNTS = ("no", "one", "two", "three")
RADIUS = (0.11, 0.2)  # of SIZES, in half image sides
BRIGHTNESS = (0.28, 0.6)  # of LEVELS, above the background
NAMES = {"disc": ("nodule", "tumour"), "ring": ("cyst", "cavern"), "square": ("plate", "block")}  # by SIZES
TISSUES = ("soft", "calcified")  # by LEVELS
FINDINGS = (
    "{count} {size} {level} {shapes} on the {side} .",
    "on the {side} there {are} {count} {level} {shapes} , {size} in size .",
    "the {side} side : {count} {shapes} , {size} and {level} , {are} seen .",
)
EMPTY_FINDINGS = (
    "no shape on either side .",
    "there is nothing on the left or on the right .",
    "both sides : no shape is seen .",
)
IMPRESSIONS = ("impression : {what} .", "this suggests : {what} .", "conclusion : {what} .")


class CovCtrReader(CaptionReader):
    """Reader of COV-CTR."""

    tables = ("reports_ZH_EN.csv",)
    several = True

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        file = place / self.tables[0]
        for position, image, caption in Rows(file).pairs("image_id", "reports_En"):
            figure = image.partition("%")[0]
            yield CaptionRow(file, position, (image, f"images/{image}"), caption, group=figure)


@DATASETS.add("cov_ctr")
class CovCtr(CaptionFiles):
    """COV-CTR (Li et al. 2022): lung CT images with reports.

    Unpack the archive with English reports of github.com/mlii0117/COV-CTR.

    PATH/reports_ZH_EN.csv      columns `image_id` and `reports_En`, among others; no split
    PATH/IMAGE                  or PATH/images/IMAGE

    Six images have two reports. The first one is used for training, and both are references. The parts of one
    figure, whose names are equal up to a `%`, form a group. With `split_by='image'`,
    each image is split by itself, as in MicarVLMoE.
    """

    title: ClassVar = "COV-CTR"
    # Of 728 images (MicarVLMoE, IV.A), split 8:1:1.
    counts: ClassVar = (582, 73)
    test_size: ClassVar = 73

    name: Literal["cov_ctr"] = "cov_ctr"
    path: str = "COV-CTR"
    reader_type: ClassVar = CovCtrReader


class MedPixReader(CaptionReader):
    """Reader of MedPix 2.0."""

    tables = tuple(f"splitted_dataset/descriptions_{name}.jsonl" for name in MEDPIX_SPLITS)

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        for split, table in zip(SPLITS, self.tables, strict=True):
            file = place / table
            for line, text in enumerate(utf8(file).split("\n"), 1):
                if text.strip():
                    position, values = f"line {line}", dict(json_object(file, text, line))
                    for key, kind in (("image", str), ("U_id", str), ("Description", list)):
                        if not isinstance(values.get(key), kind):
                            fix = "Each line needs 'image', 'U_id' and 'Description'."
                            raise DataError(f"{file}, {position}: {key!r} is missing. {fix}")
                    caption = caption_text(file, position, dict(values["Description"]).get("Caption"))
                    yield CaptionRow(
                        file, position, (f"images/{values['image']}",), caption, split, values["U_id"]
                    )


@DATASETS.add("medpix")
class MedPix(CaptionFiles):
    """MedPix 2.0 (Siragusa et al. 2025): 2,050 CT and MR images of 671 cases.

    Use the folder of github.com/CHILab1/MedPix-2.0.

    PATH/splitted_dataset/descriptions_{train,dev,test}.jsonl      one object per line with `image`, `U_id`
                                                                   (case) and `Description.Caption`
    PATH/images/IMAGE.png
    """

    title: ClassVar = "MedPix 2.0"
    # Lines of its descriptions_train.jsonl and descriptions_dev.jsonl.
    counts: ClassVar = (1653, 197)
    test_size: ClassVar = 200

    name: Literal["medpix"] = "medpix"
    path: str = "medpix2"
    reader_type: ClassVar = MedPixReader


class MmRetinalReader(CaptionReader):
    """Reader of MM-Retinal."""

    tables = tuple(f"{name}_translated_v1.csv" for name in MODALITIES)

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        for modality, table in zip(MODALITIES, self.tables, strict=True):
            file = place / table
            for position, key, caption in Rows(file).pairs("Image_ID", "en_caption"):
                image = f"{modality}/{key}"
                yield CaptionRow(file, position, (image,), caption, group=FIGURE_PART.sub("", image))


@DATASETS.add("mm_retinal")
class MmRetinal(CaptionFiles):
    """MM-Retinal v1 (Wu et al. 2024): fundus images from books, github.com/lxirich/MM-Retinal.

    PATH/{CFP,FFA,OCT}_translated_v1.csv      columns `Image_ID` and `en_caption`, among others; no split
    PATH/{CFP,FFA,OCT}/ID.*

    The parts of a figure (01-01A, 01-01B), often of one patient, form a group. With
    `split_by='image'`, each image is split by itself. MicarVLMoE does so within each modality.
    """

    title: ClassVar = "MM-Retinal"
    # Of 2,169 + 1,947 + 233 images (MicarVLMoE, IV.A), split 8:1:1.
    counts: ClassVar = (3479, 435)
    test_size: ClassVar = 435

    name: Literal["mm_retinal"] = "mm_retinal"
    path: str = "MM_Retinal_dataset_v1"
    reader_type: ClassVar = MmRetinalReader


class PeirGrossReader(CaptionReader):
    """Reader of PEIR Gross."""

    tables = ("peir_gross_captions.json",)
    shares = (0.1, 0.2)  # MicarVLMoE, section IV.C

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        file = place / self.tables[0]
        for image, caption in json_object(file, utf8(file)):
            images = (f"peir_gross_images/{image}", f"images/{image}")
            yield CaptionRow(file, f"key {image!r}", images, caption_text(file, image, caption))


@DATASETS.add("peir_gross")
class PeirGross(CaptionFiles):
    """PEIR Gross: pathology photographs with captions.

    Download them with the script of github.com/wang-zhanyu/medical-reports-datasets.

    PATH/peir_gross_captions.json          image name to caption; no split, so 7:1:2 as in MicarVLMoE
    PATH/peir_gross_images/IMAGE           or PATH/images/IMAGE
    """

    title: ClassVar = "PEIR Gross"
    # Of 7,442 images (MicarVLMoE, IV.A), split 7:1:2.
    counts: ClassVar = (5209, 744)
    test_size: ClassVar = 1489

    name: Literal["peir_gross"] = "peir_gross"
    path: str = "peir_gross"
    reader_type: ClassVar = PeirGrossReader


class RocoReader(CaptionReader):
    """Reader of ROCO."""

    tables = tuple(
        f"data/{name}/radiology/{file}.txt" for name in ROCO_SPLITS for file in ("captions", "dlinks")
    )

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        for split, name in zip(SPLITS, ROCO_SPLITS, strict=True):
            folder, file_names = f"data/{name}/radiology", {}
            for _, key, (_, command, file_name) in _tabbed(place / folder / "dlinks.txt", 3):
                # scripts/fetch.py names the file a.jpg of PMC1.tar.gz `PMC1_a.jpg`.
                archive = re.search(r"([^/\s]+)\.tar\.gz", command)
                file_names[key] = f"{archive[1] if archive else ''}_{file_name.strip()}"
            captions = place / folder / "captions.txt"
            for line, key, (_, caption) in _tabbed(captions, 2):
                images = [f"{folder}/images/{image}" for image in (file_names.get(key), key) if image]
                yield CaptionRow(captions, f"line {line}", tuple(images), caption.strip(), split)


@DATASETS.add("roco")
class Roco(CaptionFiles):
    """The radiology part of ROCO (Pelka et al. 2018).

    Use a checkout of github.com/razorx89/roco-dataset with downloaded images.

    PATH/data/{train,validation,test}/radiology/
        captions.txt          lines of ID, tab, caption
        dlinks.txt            lines of ID, tab, command with PMC*.tar.gz, tab, NAME
        images/PMC*_NAME      as its scripts/fetch.py names them; or ID.jpg
    """

    title: ClassVar = "ROCO"
    # About 80 and 10 % of "over 81,000" images (MicarVLMoE, IV.A).
    counts: ClassVar = (64_800, 8_100)
    test_size: ClassVar = 8100

    name: Literal["roco"] = "roco"
    path: str = "roco-dataset"
    reader_type: ClassVar = RocoReader


def _tabbed(file: Path, count: int) -> Iterator[tuple[int, str, list[str]]]:
    """Yield line number, first cell and all cells of each non-blank line of a file with `count` columns."""
    for number, line in enumerate(utf8(file).split("\n"), 1):
        cells = line.rstrip("\r").split("\t", count - 1)
        if len(cells) == count:
            yield number, cells[0].strip(), cells
        elif line.strip():
            raise DataError(
                f"{file}, line {number} must have {count} cells separated by tabs, but has {len(cells)}."
            )


class RocoV2Reader(CaptionReader):
    """Reader of ROCOv2."""

    tables = tuple(f"{name}_captions.csv" for name in ROCO_V2_SPLITS)

    def rows(self, place: Path) -> Iterator[CaptionRow]:
        for split, name in zip(SPLITS, ROCO_V2_SPLITS, strict=True):
            file = place / f"{name}_captions.csv"
            for position, key, caption in Rows(file).pairs("ID", "Caption"):
                images = f"{name}/{key}", f"{name}_images/{key}", f"{name}_images/{name}/{key}"
                yield CaptionRow(file, position, images, caption, split)


@DATASETS.add("rocov2")
class RocoV2(CaptionFiles):
    """ROCOv2 (Rückert et al. 2024): 59,958 + 9,904 + 9,927 radiology images.

    Unpack the archives of zenodo.org/records/10821435.

    PATH/{train,valid,test}_captions.csv                columns `ID` and `Caption`
    PATH/{train,valid,test}/ID.jpg                      or in {train,valid,test}_images/, or both
    """

    title: ClassVar = "ROCOv2"
    # Of 79,789 images (ImageHRM, V).
    counts: ClassVar = (59_958, 9_904)
    test_size: ClassVar = 9927

    name: Literal["rocov2"] = "rocov2"
    path: str = "rocov2"
    reader_type: ClassVar = RocoV2Reader


@DATASETS.add("phantom_captions")
class PhantomCaptions(Captioned):
    """1,000 + 200 generated images of shapes with captions. Synthetic: results have no medical meaning.

    An image shows none to three discs, rings or squares: large or small, bright or faint, left or right. Each
    image has two or three captions with different wordings. A case has one to three images, all in the same
    split.
    """

    synthetic: ClassVar = True
    title: ClassVar = "Phantom captions (synthetic)"
    train_size: ClassVar = 1000

    name: Literal["phantom_captions"] = "phantom_captions"
    tokenizer: Literal["byte", "word", "bpe", "clip"] = "word"
    vocabulary: int = Field(64, ge=16, le=100_000)
    length: int = Field(32, ge=4, le=4096)
    size: int = Field(64, ge=16, le=256)
    drawing_seed: NonNegativeInt = 0
    """random seed of the images and their captions"""

    def reader(self) -> DrawingReader:
        return DrawingReader(self, partial(draw_set, self), "phantom captions", 1)


class DrawnShapes(NamedTuple):
    """The random numbers of all images except for their noise, one row per image."""

    groups: Labels  # (N,) case of each image
    case: Labels  # (N, 4) shape, size, brightness and side, as indices of the tuples above
    number: Labels  # (N,) number of shapes, 0 to 3
    tint: Array  # (N, 3) red, green and blue
    slots: Labels  # (N, 3) order in which the three positions of a side are filled
    shift: Array  # (N, 3, 2) shift of each position in x and y, -1 to 1
    mottling: Array  # (N, GRID, GRID)
    several: Labels  # (N,) number of captions, 2 or 3
    ways: Labels  # (N, 9) order in which the nine wordings are used


def draw_set(config: PhantomCaptions, folder: Path) -> Arrays:
    """Generate all images with their captions. Only CLIP's files are read from `folder`."""
    cases = draw_cases(config.drawing_seed)
    clean = CLEANERS[config.clean]
    captions = [list(map(clean, describe(cases, row))) for row in range(len(cases.groups))]
    images = render(cases, draw, NOISE, SEED, config)
    return with_tokens(config, folder, images, captions, TRAIN_IMAGES, cases.groups)


def draw_cases(seed: int) -> DrawnShapes:
    """Draw the random numbers of all images. A case has one to three images; one image in ten is empty."""
    random = generator(seed, SEED)
    count, groups = TRAIN_IMAGES + TEST_IMAGES, draw_groups(random, TRAIN_IMAGES, TEST_IMAGES)
    kinds = random.integers(0, (len(SHAPES), 2, 2, 2), (count, 4))
    return DrawnShapes(
        groups=groups,
        case=kinds[groups],
        number=np.where(random.random(count) < 0.1, 0, random.integers(1, 4, count)),
        tint=(0.8 + 0.2 * random.random((count, 3)))[groups],
        slots=random.permuted(np.tile(np.arange(3), (count, 1)), axis=1),
        shift=2 * random.random((count, 3, 2)) - 1,
        mottling=random.random((count, GRID, GRID)),
        several=random.integers(2, 4, count),
        ways=random.permuted(np.tile(np.arange(9), (count, 1)), axis=1),
    )


def describe(cases: DrawnShapes, row: int) -> list[str]:
    """Return two or three captions of one image, each a random combination of finding and impression."""
    shape, size, level, side = cases.case[row].tolist()
    count = int(cases.number[row])
    plural, verb, quantity = ("s", "are", "multiple ") if count > 1 else ("", "is", "")
    words = {
        "shapes": SHAPES[shape] + plural,
        "are": verb,
        "count": COUNTS[count],
        "size": SIZES[size],
        "level": LEVELS[level],
        "side": SIDES[side],
        "what": f"{quantity}{TISSUES[level]} {NAMES[SHAPES[shape]][size]}{plural}" if count else "normal",
    }
    findings = FINDINGS if count else EMPTY_FINDINGS
    ways = cases.ways[row, : cases.several[row]].tolist()
    return [f"{findings[way // 3]} {IMPRESSIONS[way % 3]}".format(**words) for way in ways]


def draw(cases: DrawnShapes, size: int) -> Array:
    """Render the brightness (N, 3, S, S) of images without noise."""
    # Lengths are in half image sides, coordinates from -1 (left, top) to 1.
    points = (2 * np.arange(size) + 1) / size - 1
    grid_cells = np.arange(size) * GRID // size
    bright = 0.1 + 0.15 * cases.mottling[:, grid_cells[:, None], grid_cells]
    shape, big, level, side = cases.case.T
    radius, extra = np.array(RADIUS)[big, None, None], np.array(BRIGHTNESS)[level]
    for number in range(3):
        x = (2 * side - 1) * 0.5 + 0.15 * cases.shift[:, number, 0]
        y = 0.6 * (cases.slots[:, number] - 1) + 0.08 * cases.shift[:, number, 1]
        offset_x, offset_y = (points - x[:, None])[:, None, :], (points - y[:, None])[:, :, None]
        # 1 inside the shape, 0 outside, with an edge a tenth of its radius wide.
        squared_distance = (offset_x**2 + offset_y**2) / radius**2
        disc, hole = (((limit - squared_distance) / 0.2).clip(0, 1) for limit in (1, 0.4))
        square = np.maximum(abs(offset_x), abs(offset_y)) / (0.9 * radius)
        masks = [disc, disc - hole, ((1 - square) / 0.1).clip(0, 1)]
        mask = np.choose(shape[:, None, None], masks)
        bright = bright + np.where(number < cases.number, extra, 0)[:, None, None] * mask
    return bright[:, None] * cases.tint[:, :, None, None]
