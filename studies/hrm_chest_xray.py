"""Can a hierarchical reasoning model read chest X-rays, and does it help to read them in halves?

The paper (001) is a proposal without results: pixels as tokens, the image as two halves with the states carried over, one token as
the answer, puzzle embeddings for findings or patients. Published are counts: 251,904 more parameters, 0.93 %; and a claim that
halves make it affordable: they save 1.88 times, not four (contradiction 001-4).
Asked here: whole image against halves with and without carry; patches against pixels; what the puzzle embedding knows; the one
token against a sigmoid a finding (001-2). ResNet-18 and DenseNet-121 say what an ordinary net reaches.
Read with it: asking for a finding by its id (001-3) is one pass a finding, 18 times the cost. A patient's row says nothing of
patients who were never trained on, which are all of those in validation and test.
Cost: quick (drawn images, synthetic), 5 minutes on 2 cores; standard (1,000 real images of 64x64), minutes on one GPU;
paper (112,120 images of 224x224 pixels, each a token), months: --dry-run is what it is for.

    python studies/hrm_chest_xray.py
    python studies/hrm_chest_xray.py --preset standard --data DIR
    python studies/hrm_chest_xray.py --preset paper --dry-run
"""

from recstudy import Place, RunConfig, Study, TrainConfig, grid, main, published
from recstudy.analysis import Arithmetic, Curve, LearningCurves, Table
from recstudy.data import ChestXray14, PhantomXray
from recstudy.models import HRM, DenseNet, ResNet, parameter_growth

TRAIN = TrainConfig(
    epochs=10, batch_size=32, supervision_steps=2, evaluation_steps=2, halt_threshold=1.0, halt_weight=0.5,
    learning_rate=1e-3, warmup=0.1, weight_decay=0.1, beta2=0.95, gradient_clip=1.0, ema_decay=0.0,
)  # fmt: skip
ONE_STEP = {"train.supervision_steps": 1, "train.evaluation_steps": 1}  # a net without states has nothing to refine

SMALL = HRM(width=64, heads=4, high_layers=1, low_layers=1, tokens="patch", patch=4, head="multilabel")
MIDDLE = HRM(width=256, heads=4, high_layers=2, low_layers=2, tokens="patch", patch=8, head="multilabel")
PIXELS = HRM(head="multilabel")  # the published net, a token a pixel


def arms(base: HRM, patients: int) -> dict[str, HRM]:
    """The question's variants of one net."""
    return {
        "HRM, whole": base,
        "HRM, halves": base.model_copy(update={"halves": "carry"}),
        "HRM, halves, no carry": base.model_copy(update={"halves": "no_carry"}),
        "HRM, asked by finding": base.model_copy(update={"puzzle_emb": "pathology_query"}),
        "HRM, told the patient": base.model_copy(update={"puzzle_emb": "patient", "identifiers": patients}),
    }
