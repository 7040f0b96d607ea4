"""Can a hierarchical reasoning model read chest X-rays, and does it help to read them in halves?

The paper (001) is a proposal without results. It proposes pixels as tokens, the image as two halves whose
states are carried over, one token after the last half as the answer, and puzzle embeddings for findings or
patients. This study compares the whole image with halves (with and without carry), patches with pixels,
puzzle embeddings with none, and the one token (001-2) with one sigmoid per finding. ResNet-18 and
DenseNet-121 show how well an ordinary network reads the images, in every preset.

Published: counts only, "approximately" 252,000 more parameters, "less than 1%". By counting, these are
251,904 and 0.93 %, and 57 % with an embedding for each patient (001-5). The paper also claims that halves
make the image affordable, without a number. By counting, a batch of eight needs 41 GB instead of 81, and an
image 93.4 TFLOP instead of 219.9. That is 2.35 times less with one answer after the last half, and 1.88 times
less with an answer after each half, not four times (contradiction 001-4).

The preset paper follows the proposal: 1,000 training images, and one answer after the right half. The whole
image and the halves then have one update per batch. HRM's modules and cycles are unchanged. No image has a
further segment, so HRM's adaptive computation time has no effect. The alternatives of this preset have an
answer after each half, and 18 sigmoids. `data.limit` also cuts the official test set, to 1,111 images. The
presets quick and standard have 18 sigmoids and an answer after each half, because X-rays have several
findings. There whole images have two updates per batch, too.

Caveats: quick demonstrates the run and decides no claim. Its intervals are more than ten times as wide as the
claims' margin of half a point. Standard has 1,000 real X-rays, reduced to 64 pixels, of which a fifth are for
test, and an HRM of 3.4 million parameters. Without the patient, its HRMs have an AUROC near 50 % even on
their training images, so it cannot show what a carry or a patient's embedding is worth to an HRM that learns.
Its rarest findings have one or two test images. It says nothing about the proposal at 224 pixels. A finding's
id at the input leaks the label, unless it is a question (001-3): one pass per finding, at 18 times the cost
(24 times in chunks). A patient's embedding teaches nothing about patients outside of the training set, which
are all patients of validation and test. The one token needs images with exactly one finding; its metric is
top-1 accuracy.

Cost: quick (generated X-rays), an hour in one process (measured); standard (1,000 real images of 64x64), 2.4
core hours (measured) or minutes of a GPU; paper (224x224 pixels, each a token), by --dry-run at 250 TFLOP/s
of an H100: 1.6 GPU hours per run in halves, 3.7 whole, and 38 with a query per finding; 150 GPU hours for
three seeds, 19 hours on eight GPUs. Every run fits GPUs of 80 GB; the whole image and the queries need two,
with 41 and 28 GB each; the states of all queries that are carried over add 7 GB. The queries compute most
activations twice, a third more FLOPs.

    python studies/hrm_chest_xray.py
    python studies/hrm_chest_xray.py --preset standard --data DIR
    python studies/hrm_chest_xray.py --preset paper --dry-run
"""

from recstudy import Claim, Deviation, Resources, Study, grid, main, published
from recstudy.recursive import (
    HRM,
    ChestXray14,
    DenseNet,
    PhantomXray,
    ResNet,
    RunConfig,
    TrainConfig,
    parameter_growth,
)
from recstudy.report import Arithmetic, Curve, LearningCurves, Part, Table

TRAIN = TrainConfig(
    epochs=14,
    batch_size=16,
    supervision_steps=2,
    evaluation_steps=2,
    halt_threshold=1.0,
    halt_weight=0.5,
    learning_rate=1e-3,
    warmup=0.1,
    weight_decay=0.1,
    beta2=0.95,
    gradient_clip=1.0,
    ema_decay=0.0,
)
# The paper is a proposal and does not state its training.
ASSUMED = (
    ("train.epochs", 14, "a guess"),
    ("train.batch_size", 8, "a guess; a batch of 16 whole images needs 161 GB"),
    ("train.optimizer", "adam_atan2", "HRM's"),
    ("train.learning_rate", 1e-4, "HRM's"),
    ("train.weight_decay", 0.1, "HRM's, on ARC-AGI"),
    ("train.beta2", 0.95, "HRM's"),
    ("train.warmup", 0.1, "a guess"),
    ("train.schedule", "epoch", "a cosine to the final rate; HRM's rate is constant"),
    ("train.final_learning_rate", 1e-6, "a guess; HRM's is that of the start"),
    ("train.gradient_clip", 1.0, "a guess; HRM has none"),
    ("train.loss", "softmax", "HRM has stablemax"),
)
# The paper leaves HRM's core unchanged, HierarchicalReasoningModel_ACTV1, and feeds each half once (4.1).
DEVIATIONS = (
    Deviation(field="train.halting", paper="sample", ours="batch", why="as section 4.1 feeds each half once"),
    Deviation(
        field="train.supervision_steps",
        paper=16,
        ours=2,
        why="one for each half, the left without a loss; 16 are HRM's",
    ),
    Deviation(field="train.evaluation_steps", paper=16, ours=2, why="as in training"),
)
# For networks without states to refine.
ONE_STEP = {"train.supervision_steps": 1, "train.evaluation_steps": 1}
QUICK = {
    "width": 64,
    "heads": 4,
    "high_layers": 1,
    "low_layers": 1,
    "tokens": "patch",
    "patch": 8,
    "head": "multilabel",
    "half_loss": "both",
}
STANDARD = {**QUICK, "width": 256, "high_layers": 2, "low_layers": 2}
XRAYS = ChestXray14(
    path="ChestX-ray14",
    size=224,
    findings="single",
    limit=1111,  # 1,000 training images (section 4.2) and 111 for validation
)
PATIENTS = 30_805  # of NIH ChestX-ray14; each has a row in the table of puzzle embeddings
FINDING_QUERY = {"puzzle_emb": "pathology_query"}


def claims(data: str, metric: str = "auroc", without_finding: str = "HRM, halves") -> list[Claim]:
    """Return the sentences of the proposal. It has no numbers, so the margin is half a point.

    Args:
        data: The X-rays, in words.
        metric: The metric of the carry and of the patient's embedding. The finding's embedding has AUROC.
        without_finding: The variant that reads the same image without a finding's embedding.
    """
    return [
        Claim(
            '001 4.1: the carry allows "the model to build a holistic understanding of the full image",'
            f" on {data}",
            lower={"model": "HRM, halves, no carry"},
            higher={"model": "HRM, halves"},
            margin=0.5,
            metric=metric,
        ),
        Claim(
            '001 4.2: a finding\'s embedding is "a strong, explicit signal about the classification target",'
            f" on {data}",
            lower={"model": without_finding},
            higher={"model": "HRM, halves, asked by finding"},
            margin=0.5,
            metric="auroc",
        ),
        Claim(
            '001 4.2: a patient\'s embedding helps to track "patient-specific anatomical features",'
            f" on {data}",
            lower={"model": "HRM, halves"},
            higher={"model": "HRM, halves, told the patient"},
            margin=0.5,
            metric=metric,
        ),
    ]


def report(score: str, title: str) -> list[Part]:
    """Return the report. Its curves show `score`, whose name is `title`."""
    return [
        Table(
            "models",
            metrics=(
                "auroc",
                "average_precision",
                "train_auroc",
                "top1_accuracy",
                "params",
                "train_gflops",
                "epoch_seconds",
            ),
        ),
        Table("findings", metrics=("auroc", "auroc.*"), across=True, title="AUROC by finding"),
        Curve(
            "depth",
            x="eval.depth",
            y=score,
            by="model",
            title=f"{title} by number of steps at test, same weights",
        ),
        LearningCurves(metrics=("train_loss", f"selection_{score}")),
        Arithmetic(
            "arithmetic",
            counted=parameter_growth(
                HRM(vocabulary=10), HRM(), old_shape=(1, 30, 30), new_shape=(1, 224, 224)
            ),
            given=("hidden_size", "vocab_old", "vocab_new", "seq_len_old", "seq_len_new", "seq_len_patch"),
            targets=published("001_parameter_arithmetic"),
            title="Parameters that 8-bit pixels add (001, section 3)",
        ),
    ]


study = Study(
    name="hrm_chest_xray",
    presets={
        "quick": RunConfig(
            data=PhantomXray(limit=600),
            model=HRM(**QUICK, halves="carry"),
            train=TRAIN,
            resources=Resources(gpus=0),
        ),
        "standard": RunConfig(data=ChestXray14(), model=HRM(**STANDARD, halves="carry"), train=TRAIN),
        "paper": RunConfig(
            data=XRAYS,
            model=HRM(halves="carry"),
            train=TRAIN.model_copy(
                update={
                    "batch_size": 8,  # a batch of 16 whole images needs 161 GB
                    "precision": "bfloat16",
                    "optimizer": "adam_atan2",
                    "learning_rate": 1e-4,
                }
            ),
        ),
    },
    variants={
        "quick": grid(
            {
                "model": {
                    "HRM, whole": {"model": HRM(**QUICK)},
                    "HRM, halves": {"model": HRM(**QUICK, halves="carry")},
                    "HRM, halves, no carry": {"model": HRM(**QUICK, halves="no_carry")},
                    "HRM, halves, asked by finding": {"model": HRM(**QUICK, halves="carry", **FINDING_QUERY)},
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
                    # The one token needs images with exactly one finding (001-2).
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
                    # A batch of eight whole images needs 81 GB, so two GPUs share it.
                    "HRM, whole": {"model": HRM(), **ONE_STEP, "resources.workers": 2},
                    "HRM, halves": {"model": HRM(halves="carry")},
                    "HRM, halves, no carry": {"model": HRM(halves="no_carry")},
                    "HRM, halves, told the patient": {
                        "model": HRM(halves="carry", puzzle_emb="patient", identifiers=PATIENTS)
                    },
                    "HRM, halves, an answer after each": {"model": HRM(halves="carry", half_loss="both")},
                    "HRM, halves, 18 sigmoids": {
                        "model": HRM(halves="carry", head="multilabel"),
                        "data.findings": "multilabel",
                    },
                    # An image has 18 passes, one per finding. Activations of four passes are in memory at a
                    # time, and two GPUs share the batch.
                    "HRM, halves, asked by finding": {
                        "model": HRM(halves="carry", head="multilabel", chunk=4, **FINDING_QUERY),
                        "data.findings": "multilabel",
                        "resources.workers": 2,
                    },
                    "ResNet-18": {"model": ResNet(depth=18), **ONE_STEP},
                    "DenseNet-121": {"model": DenseNet(), **ONE_STEP},
                }
            }
        ),
    },
    seeds=3,
    max_seeds={"quick": 10, "standard": 3, "paper": 6},
    claims={
        "quick": claims("synthetic X-rays"),
        # Without the finding's embedding: its row costs 18 times as much, 30 core hours for three seeds.
        "standard": claims("1,000 X-rays of 64x64")[::2],
        "paper": claims(
            "1,000 X-rays of ChestX-ray14", metric="top1_accuracy", without_finding="HRM, halves, 18 sigmoids"
        ),
    },
    report={
        "quick": report("auroc", "AUROC"),
        "standard": report("auroc", "AUROC"),
        "paper": report("top1_accuracy", "Top-1 accuracy"),
    },
    deviations=(*DEVIATIONS, *(Deviation(field=field, ours=ours, why=why) for field, ours, why in ASSUMED)),
)

if __name__ == "__main__":
    main(study)
