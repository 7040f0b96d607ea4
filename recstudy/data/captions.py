"""The sets of captioned images: what can be set about each. Reading stands in `caption_tables.py`,
`caption_readers.py` and `caption_decoding.py`, drawing in `phantom_captions.py`, what a token is in `text.py`.
"""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from recstudy.config import DATASETS, PAD, DataConfig, Shape, Task

SPECIALS = 4  # PAD, BOS, EOS and UNK are the first ids
BYTES = 256
CLIP_VOCABULARY = 49_408
CLIP_BOS, CLIP_EOS = CLIP_VOCABULARY - 2, CLIP_VOCABULARY - 1  # its last ids


class Captioned(DataConfig):
    """Colour images with a text each. The labels are the tokens of an image's first caption: BOS, words, EOS, PAD."""

    tokenizer: Literal["byte", "word", "bpe", "clip"] = Field(
        "byte",
        description="a token a byte; a word of the training captions, where it is there 3 times (003); a piece of a word, "
        "by byte pairs of the training captions; or by CLIP's (FuseLIP), from its files",
    )
    vocabulary: int = Field(1000, ge=16, le=100_000, description="V of 'word' and 'bpe': most ids, with the 4 special ones")
    length: int = Field(512, ge=4, le=4096, description="tokens of a caption with BOS and EOS; a longer one is cut, and counted")
    size: int = Field(224, ge=16, le=1024, description="images are resized and centre-cropped to this many pixels a side")
    clean: Literal["none", "report"] = Field(
        "none", description="captions as they are, but for white space; or as 003 cleans reports: see `cleaning.py`"
    )
    clip_files: str = Field(
        "clip", description="below the data folder: CLIP's vocab.json and merges.txt; else the Hugging Face cache is asked"
    )

    @property
    def shape(self) -> Shape:
        return (3, self.size, self.size)

    @property
    def classes(self) -> int:
        """Ids that a model can give; a tokenizer of few training captions may use fewer."""
        fixed = {"byte": BYTES + SPECIALS, "clip": CLIP_VOCABULARY}
        return fixed.get(self.tokenizer, self.vocabulary)

    @property
    def task(self) -> Task:
        return "caption"

    @property
    def tokens(self) -> int:
        return self.length

    @property
    def special_tokens(self) -> tuple[int, int, int]:
        return (PAD, CLIP_BOS, CLIP_EOS) if self.tokenizer == "clip" else (PAD, 1, 2)

    @model_validator(mode="after")
    def _bytes_have_ids(self) -> Self:
        if self.tokenizer == "bpe" and self.vocabulary < BYTES + SPECIALS:
            raise ValueError(f"vocabulary must be at least {BYTES + SPECIALS} with tokenizer 'bpe', but got {self.vocabulary}")
        return self


class CaptionFiles(Captioned):
    """A set in files, in the official layout that its class states or in that of `CaptionFolder`, which comes first.

    Given splits are used, and then a validation split is the one that is given, whatever `validation` and `split_seed`
    say. Without them they are drawn by group, the same for every seed: 80 % of the images for training, 10 % for
    validation, 10 % for test. A group (patient, case) in two splits is refused.
    """

    path: str = Field(description="below the data folder")
    allow_missing: bool = Field(
        False, description="leave out what the table names and the folder lacks, what is no image, and rows without a caption"
    )


@DATASETS.add("captions")
class CaptionFolder(CaptionFiles):
    """Any images with a table.

    PATH/captions.csv      columns `image` and `caption`; `split` (train, val, test), else it is drawn; and the group:
                           `group`, `case_id` or `patient_id`, else each image is its own
    PATH/images/IMAGE      or PATH/IMAGE; the ending may be left out in the table
    """

    name: Literal["captions"] = "captions"

    @property
    def title(self) -> str:
        return self.path


@DATASETS.add("roco")
class Roco(CaptionFiles):
    """ROCO (Pelka et al. 2018), its radiology part: a checkout of github.com/razorx89/roco-dataset with fetched images.

    PATH/data/{train,validation,test}/radiology/captions.txt          lines of ID, tab, caption
    PATH/data/{train,validation,test}/radiology/dlinks.txt            lines of ID, tab, command with PMC*.tar.gz, tab, NAME
    PATH/data/{train,validation,test}/radiology/images/PMC*_NAME      as its scripts/fetch.py names them; or ID.jpg
    """

    name: Literal["roco"] = "roco"
    path: str = "roco-dataset"

    @property
    def title(self) -> str:
        return "ROCO"


@DATASETS.add("rocov2")
class RocoV2(CaptionFiles):
    """ROCOv2 (Rückert et al. 2024): 59,958 + 9,904 + 9,927 radiology images, zenodo.org/records/10821435 unpacked.

    PATH/{train,valid,test}_captions.csv                columns `ID` and `Caption`
    PATH/{train,valid,test}/ID.jpg                      or below {train,valid,test}_images/, or both
    """

    name: Literal["rocov2"] = "rocov2"
    path: str = "rocov2"

    @property
    def title(self) -> str:
        return "ROCOv2"


@DATASETS.add("cov_ctr")
class CovCtr(CaptionFiles):
    """COV-CTR (Li et al. 2022): lung CT with reports, github.com/mlii0117/COV-CTR, the archive with English reports unpacked.

    PATH/reports_ZH_EN.csv      columns `image_id` and `reports_En`, among others; without a split
    PATH/IMAGE                  or PATH/images/IMAGE

    Six images have two reports: the first is trained on, both are references. Parts of one figure, which share a name up
    to a `%`, are a group; 003 draws the split by image.
    """

    name: Literal["cov_ctr"] = "cov_ctr"
    path: str = "COV-CTR"

    @property
    def title(self) -> str:
        return "COV-CTR"


@DATASETS.add("mm_retinal")
class MmRetinal(CaptionFiles):
    """MM-Retinal v1 (Wu et al. 2024): fundus images from books, github.com/lxirich/MM-Retinal.

    PATH/{CFP,FFA,OCT}_translated_v1.csv      columns `Image_ID` and `en_caption`, among others; without a split
    PATH/{CFP,FFA,OCT}/ID.*

    The parts of a figure (01-01A, 01-01B), often of one patient, are a group; 003 draws the split by image and modality.
    """

    name: Literal["mm_retinal"] = "mm_retinal"
    path: str = "MM_Retinal_dataset_v1"

    @property
    def title(self) -> str:
        return "MM-Retinal"


@DATASETS.add("peir_gross")
class PeirGross(CaptionFiles):
    """PEIR Gross: pathology photographs, as the script of github.com/wang-zhanyu/medical-reports-datasets stores them.

    PATH/peir_gross_captions.json          image name to caption; without a split: drawn 7:1:2 as in 003
    PATH/peir_gross_images/IMAGE           or PATH/images/IMAGE
    """

    name: Literal["peir_gross"] = "peir_gross"
    path: str = "peir_gross"

    @property
    def title(self) -> str:
        return "PEIR Gross"


@DATASETS.add("medpix")
class MedPix(CaptionFiles):
    """MedPix 2.0 (Siragusa et al. 2025): 2,050 CT and MR images of 671 cases, the folder of github.com/CHILab1/MedPix-2.0.

    PATH/splitted_dataset/descriptions_{train,dev,test}.jsonl      `image`, `U_id` (case) and `Description.Caption` a line
    PATH/images/IMAGE.png
    """

    name: Literal["medpix"] = "medpix"
    path: str = "medpix2"

    @property
    def title(self) -> str:
        return "MedPix 2.0"


@DATASETS.add("phantom_captions")
class PhantomCaptions(Captioned):
    """1,000 + 200 drawn images of shapes, with findings and an impression; synthetic: no result on them is a medical one.

    An image shows none to three discs, rings or squares: large or small, bright or faint, left or right. Two or three
    captions say so, each in words of its own. Cases have one to three images and are in one split only.
    """

    synthetic: ClassVar[bool] = True

    name: Literal["phantom_captions"] = "phantom_captions"
    tokenizer: Literal["byte", "word", "bpe", "clip"] = "word"
    vocabulary: int = Field(64, ge=16, le=100_000)
    length: int = Field(32, ge=4, le=4096)
    size: int = Field(64, ge=16, le=256)

    @property
    def title(self) -> str:
        return "Phantom captions (synthetic)"

    @property
    def train_size(self) -> int:
        return 1000
