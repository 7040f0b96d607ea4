"""The chest X-ray sets: what can be set about each. Reading stands in `chest.py`, drawing in `phantom.py`."""

from typing import ClassVar, Literal

from pydantic import Field

from recstudy.config import DATASETS, DataConfig, Shape, Task

# torchxrayvision's default_pathologies, in its order. NIH labels the first 14; the other four are unknown there.
NIH_FINDINGS = (
    "Atelectasis", "Consolidation", "Infiltration", "Pneumothorax", "Edema", "Emphysema", "Fibrosis",
    "Effusion", "Pneumonia", "Pleural_Thickening", "Cardiomegaly", "Nodule", "Mass", "Hernia",
)  # fmt: skip
FINDINGS = (*NIH_FINDINGS, "Lung Lesion", "Fracture", "Lung Opacity", "Enlarged Cardiomediastinum")


class _ChestXray(DataConfig):
    """Labels an image: 18 of 1 (yes), 0 (no) or -1 (unknown); or, with `findings` "single", one class of the 18."""

    findings: Literal["multilabel", "single"] = Field(
        "multilabel",
        description="every finding of an image; or one: only the images with exactly one known finding, which is the class "
        "(a single classification token needs that: contradiction 001-2)",
    )

    @property
    def classes(self) -> int:
        return len(FINDINGS)

    @property
    def class_names(self) -> tuple[str, ...]:
        return FINDINGS

    @property
    def task(self) -> Task:
        return "multilabel" if self.findings == "multilabel" else "multiclass"


@DATASETS.add("chest_xray14")
class ChestXray14(_ChestXray):
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

    name: Literal["chest_xray14"] = "chest_xray14"
    path: str = Field("nih_cxr64", description="below the data folder")
    size: int = Field(64, ge=16, le=1024, description="images are resized and centre-cropped to this many pixels a side")
    allow_missing: bool = Field(False, description="leave out the images that the table names and the folder lacks")

    @property
    def title(self) -> str:
        return "NIH ChestX-ray14"

    @property
    def shape(self) -> Shape:
        return (1, self.size, self.size)


@DATASETS.add("phantom_xray")
class PhantomXray(_ChestXray):
    """1,200 + 400 drawn chest-like images of 7 findings, several an image; synthetic: no result on them is a medical one.

    Body, lungs, ribs and heart are each patient's own; patients have one to three images and are in one split only. The
    11 findings that are not drawn are unknown. Which patient, image and label there is does not depend on `size`.
    """

    synthetic: ClassVar[bool] = True

    name: Literal["phantom_xray"] = "phantom_xray"
    size: int = Field(32, ge=16, le=256, description="pixels a side")

    @property
    def title(self) -> str:
        return "Phantom chest X-rays (synthetic)"

    @property
    def shape(self) -> Shape:
        return (1, self.size, self.size)

    @property
    def train_size(self) -> int:
        return 1200 if self.findings == "multilabel" else 437
