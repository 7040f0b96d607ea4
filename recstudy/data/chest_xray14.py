"""NIH ChestX-ray14, and what it shares with `PhantomXray`: the findings."""

from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import DATASETS, DataConfig, Shape
from recstudy.data.decoded import Decoded
from recstudy.data.reader import Reader

# torchxrayvision's default_pathologies, in its order. NIH labels the first 14; the other four are unknown there.
NIH_FINDINGS = (
    "Atelectasis", "Consolidation", "Infiltration", "Pneumothorax", "Edema", "Emphysema", "Fibrosis",
    "Effusion", "Pneumonia", "Pleural_Thickening", "Cardiomegaly", "Nodule", "Mass", "Hernia",
)  # fmt: skip
FINDINGS = (*NIH_FINDINGS, "Lung Lesion", "Fracture", "Lung Opacity", "Enlarged Cardiomediastinum")


class Findings(DataConfig):
    """Labels an image: 18 of 1 (yes), 0 (no) or -1 (unknown); or, with `findings` "single", one class of the 18."""

    classes: ClassVar[int] = len(FINDINGS)
    class_names: ClassVar[tuple[str, ...]] = FINDINGS

    findings: Literal["multilabel", "single"] = Field(
        "multilabel",
        description="every finding of an image; or one: only the images with exactly one known finding, which is the class "
        "(a single classification token needs that: contradiction HRM-ChestXRay-2)",
    )

    @property
    def task(self) -> str:
        return "multilabel" if self.findings == "multilabel" else "multiclass"


@DATASETS.add("chest_xray14")
class ChestXray14(Findings):
    """NIH ChestX-ray14 (Wang et al. 2017), or any set in its layout, with its labels of 14 of the 18 findings.

    Below the data folder, either as NIH gives it,

        PATH/Data_Entry_2017*.csv    columns `Image Index`, `Finding Labels` (joined by |) and `Patient ID`
        PATH/train_val_list.txt      the official split with test_list.txt; both files or none
        PATH/images/*.png            or images_001/images/*.png to images_012/images/*.png

    or with a table of one column a finding,

        PATH/labels.csv              columns `id`, `patient_id`, findings (0, 1 or blank), and `split` (train, val, test)
        PATH/images/ID.png

    Given splits are used, and then a `val` split is the validation split, whatever `validation` and `split_seed` say.
    Without given splits 20 % of the images are for test, and `validation` of the rest are held out. Every split keeps all
    images of a patient together; given ones that do not are refused. `limit` takes whole patients, a given validation
    split's in proportion.

    Colour images become grey, and 16-bit ones 8-bit by value / 257; the notes of the data set say how many.
    """

    title: ClassVar[str] = "NIH ChestX-ray14"

    name: Literal["chest_xray14"] = "chest_xray14"
    path: str = Field("nih_cxr64", description="below the data folder")
    size: int = Field(64, ge=16, le=1024, description="images are resized and centre-cropped to this many pixels a side")
    allow_missing: bool = Field(False, description="leave out the images that the table names and the folder lacks")

    @property
    def shape(self) -> Shape:
        return (1, self.size, self.size)

    def reader(self) -> "ChestReader":
        return ChestReader(self)


class ChestReader(Reader):
    """Everything but the pixels is read and checked before a run starts: see `chest_choosing.py`."""

    def __init__(self, config: ChestXray14) -> None:
        from recstudy.data import chest_choosing

        super().__init__(config)
        self._choose = lru_cache(maxsize=1)(partial(chest_choosing.choose, config))

    def sources(self, folder: Path) -> Sequence[str]:
        return self._choose(folder).sources

    def check(self, folder: Path) -> None:
        self._choose(folder)

    def decode(self, folder: Path) -> Decoded:
        from recstudy.data.chest_choosing import decode_chosen

        return decode_chosen(self.config, folder, self._choose(folder))
