"""Can a hierarchical reasoning model read chest X-rays, and does it help to read them in halves?

The paper (001) is a proposal without results: pixels as tokens, the image as two halves with the states carried over, one
token as the answer, puzzle embeddings for findings or patients. Published are counts: 251,904 more parameters, 0.93 %; and a
claim that halves make it affordable: they save 1.88 times, not four (contradiction 001-4).
Asked here: whole image against halves with and without carry; patches against pixels; what the puzzle embedding knows; the one
token (001-2) beside a sigmoid a finding. ResNet-18 and DenseNet-121 say what an ordinary net reaches.
Read with it: halves have the same two updates a batch as the whole, each on half of the image; the paper preset gives the
whole image one, a segment each, which is what 1.88 compares. A finding's id at the input is no leak only as a question (001-3),
one pass a finding, 18 times the cost. A patient's row says nothing of patients who were never trained on, which are all of those
in validation and test. The one token has images with one finding alone, and their top-1 accuracy.
Cost: quick (synthetic X-rays), 6 minutes on 2 cores; standard (1,000 real images of 64x64), 12 core hours or minutes of a
GPU; paper (224x224 pixels, each a token), 11 days of an H200 a run at 40 % of its peak: it is there for its --dry-run.

    python studies/hrm_chest_xray.py
    python studies/hrm_chest_xray.py --preset standard --data DIR
    python studies/hrm_chest_xray.py --preset paper --dry-run
"""

from recstudy import Claim, Deviation, Place, RunConfig, Study, TrainConfig, grid, main, published
from recstudy.data import ChestXray14, PhantomXray
from recstudy.models import HRM, DenseNet, ResNet, parameter_growth
from recstudy.report import Arithmetic, Curve, LearningCurves, Table

TRAIN = TrainConfig(
    epochs=14, batch_size=16, supervision_steps=2, evaluation_steps=2, halt_threshold=1.0, halt_weight=0.5, learning_rate=1e-3,
    warmup=0.1, weight_decay=0.1, beta2=0.95, gradient_clip=1.0, ema_decay=0.0,
)  # fmt: skip
ASSUMED = (  # the paper is a proposal, and leaves its training blank
    ("train.epochs", 14, "a guess"),
    ("train.batch_size", 16, "a guess"),
    ("train.learning_rate", 1e-4, "HRM's"),
    ("train.warmup", 0.1, "a guess"),
    ("train.gradient_clip", 1.0, "a guess; HRM has none"),
    ("model.half_loss", "both", "after each half; the text may mean the last alone"),
)
ONE_STEP = {"train.supervision_steps": 1, "train.evaluation_steps": 1}  # for a net without states to refine
QUICK = {
    "width": 64, "heads": 4, "high_layers": 1, "low_layers": 1, "tokens": "patch", "patch": 8, "head": "multilabel",
    "half_loss": "both",
}  # fmt: skip
STANDARD = {**QUICK, "width": 256, "high_layers": 2, "low_layers": 2}
PAPER = {"head": "multilabel", "half_loss": "both"}  # the published net, a token a pixel, an answer after each half
ASKED = {"puzzle_emb": "pathology_query"}


def claims(on: str) -> list[Claim]:
    """The sentences of a proposal, which has no numbers: by half a point of AUROC. `on`: of which X-rays they are asked."""

    def helps(text: str, less: str, than: str) -> Claim:
        return Claim(f"001 {text}, asked of {on}", less={"model": less}, than={"model": than}, by=0.5, metric="auroc")

    return [
        helps('4.1: the carry allows "the model to build a holistic understanding of the full image"',
              "HRM, halves, no carry", "HRM, halves"),
        helps('4.2: a finding\'s embedding is "a strong, explicit signal about the classification target"',
              "HRM, halves", "HRM, halves, asked by finding"),
        helps('4.2: a patient\'s embedding helps to track "patient-specific anatomical features"',
              "HRM, halves", "HRM, halves, told the patient"),
    ]  # fmt: skip


study = Study(
    name="hrm_chest_xray",
    presets={
        "quick": RunConfig(
            data=PhantomXray(limit=600), model=HRM(**QUICK, halves="carry"), train=TRAIN, place=Place(gpus_per_run=0)
        ),
        "standard": RunConfig(data=ChestXray14(), model=HRM(**STANDARD, halves="carry"), train=TRAIN),
        "paper": RunConfig(
            data=ChestXray14(path="ChestX-ray14", size=224),
            model=HRM(**PAPER, halves="carry"),
            train=TRAIN.model_copy(update={"precision": "bfloat16", "optimizer": "adam_atan2", "learning_rate": 1e-4}),
        ),
    },
    variants={
        "quick": grid(
            {
                "model": {
                    "HRM, whole": {"model": HRM(**QUICK)},
                    "HRM, halves": {"model": HRM(**QUICK, halves="carry")},
                    "HRM, halves, no carry": {"model": HRM(**QUICK, halves="no_carry")},
                    "HRM, halves, asked by finding": {"model": HRM(**QUICK, halves="carry", **ASKED)},
                    "HRM, halves, told the patient": {
                        "model": HRM(**QUICK, halves="carry", puzzle_emb="patient", identifiers=794)
                    },
                    "HRM, halves of 16x16, patches": {
                        "model": HRM(**QUICK | {"patch": 4}, halves="carry"),
                        "data.size": 16,
                    },
                    "HRM, halves of 16x16, pixels": {
                        "model": HRM(**QUICK | {"tokens": "pixel"}, halves="carry"),
                        "data.size": 16,
                    },
                    "HRM, halves, one token": {
                        "model": HRM(**QUICK | {"head": "single_token"}, halves="carry"),
                        "data.findings": "single",
                    },
                    "ResNet-18": {"model": ResNet(depth=18), **ONE_STEP},
                    "DenseNet-121": {"model": DenseNet(growth=8), **ONE_STEP},
                }
            }
        ),
        "standard": grid(
            {
                "model": {
                    "HRM, whole": {"model": HRM(**STANDARD)},
                    "HRM, halves": {"model": HRM(**STANDARD, halves="carry")},
                    "HRM, halves, no carry": {"model": HRM(**STANDARD, halves="no_carry")},
                    "HRM, halves, told the patient": {
                        "model": HRM(**STANDARD, halves="carry", puzzle_emb="patient", identifiers=264),
                    },
                    "ResNet-18": {"model": ResNet(depth=18), **ONE_STEP},
                    "DenseNet-121": {"model": DenseNet(), **ONE_STEP},
                }
            }
        ),
        "paper": grid(
            {
                "model": {
                    "HRM, whole": {"model": HRM(**PAPER), **ONE_STEP},
                    "HRM, halves": {"model": HRM(**PAPER, halves="carry")},
                    "HRM, halves, no carry": {"model": HRM(**PAPER, halves="no_carry")},
                    "HRM, halves, one token": {
                        "model": HRM(**PAPER | {"head": "single_token"}, halves="carry"),
                        "data.findings": "single",
                    },
                }
            }
        ),
    },
    seeds={"quick": 3, "standard": 3, "paper": 1},
    seeds_at_most={"quick": 10},
    claims={
        "quick": claims("synthetic X-rays"),
        # A row asked finding by finding costs 18 times as much: 30 core hours for three seeds.
        "standard": claims("1,000 X-rays of 64x64")[::2],
        "paper": claims("ChestX-ray14")[:1],
    },
    report=[
        Table(
            "models",
            metrics=("auroc", "average_precision", "train_auroc", "top1_accuracy", "params", "train_gflops", "epoch_seconds"),
        ),
        Table("findings", metrics=("auroc", "auroc.*"), across=True, title="AUROC by finding"),
        Curve("depth", x="eval.depth", y="auroc", by="model", title="AUROC against steps at test, same weights"),
        LearningCurves(metrics=("train_loss", "selection_auroc")),
        Arithmetic(
            "arithmetic",
            counted=parameter_growth(HRM(vocabulary=10), HRM(), old_shape=(1, 30, 30), new_shape=(1, 224, 224)),
            given=("hidden_size", "vocab_old", "vocab_new", "seq_len_old", "seq_len_new", "seq_len_patch"),
            targets=published("001_parameter_arithmetic"),
            title="What 8-bit pixels add to the net (001, section 3)",
        ),
    ],
    deviations=tuple(Deviation(field=field, ours=ours, why=why) for field, ours, why in ASSUMED),
)

if __name__ == "__main__":
    main(study)
