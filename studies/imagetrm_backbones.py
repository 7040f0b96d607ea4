"""Which vision encoder does a tiny recursive captioner need, how deep must it think, and how far must
gradients flow?

Table II of the captioning paper (000, section VI.A): ImageTRM with ResNet-18, Swin-Tiny and FuseLIP on
ROCOv2. Published: ROUGE-L 0.191, 0.199, 0.155; CIDEr 0.388, 0.449, 0.378, on a scale that is not stated
(000-13). The paper trains through the whole recursion, TRM's code through its last cycle (000-9): both are
here, and cycles T and latent steps n around TRM's 3 and 6. The abstract's claim is that ImageTRM with Swin
outperforms ImageHRM (triple) with FuseLIP. Its numbers say so by CIDEr (0.449 and 0.438) and not by ROUGE-L
(0.199 and 0.234), and those of ImageHRM are from before a leak was mended (000-7, 000-12). Read with it:
FuseLIP that is told the caption as it was trained (`leaky`, 000-7) is shown for what it is, and never
compared. FuseLIP starts from random weights here and is trained on the study's own captions, where the
paper's was trained on CC3M before. Quick runs on generated captions, with a small CNN that is trained along
and a frozen FuseLIP on a stand-in image tokenizer. It demonstrates the run and decides no claim: its 95 %
intervals are ±0.03 wide, the claims' margin is 0.005. How deep it must think, EMA and ImageHRM beside it are
asked by the preset standard. "~7M" parameters are counted: 7,345,154. Cost: quick, 16 minutes on 2 cores; cpu
(MedPix 2.0, small, 6 runs), 21 minutes; standard (MedPix 2.0) and paper (ROCOv2, 50 epochs), see --dry-run.

    python studies/imagetrm_backbones.py
    python studies/imagetrm_backbones.py --preset standard --data DIR
"""

from recstudy import (
    Claim,
    Deviation,
    Resources,
    RunConfig,
    Study,
    TrainConfig,
    deviations,
    grid,
    main,
    published,
)
from recstudy.data import MedPix, PhantomCaptions, RocoV2
from recstudy.models import (
    FUSELIP_ON_BYTES,
    VQ,
    Aligner,
    FuseLIP,
    FuseLIPBackboneConfig,
    ImageHRM,
    ImageLSTM,
    ImageTRM,
)
from recstudy.report import Arithmetic, Captions, LearningCurves, Table

TRAIN = TrainConfig(
    epochs=12, batch_size=32, halt_weight=0.5, learning_rate=3e-3, schedule="update", warmup=0.1, weight_decay=0.1, beta2=0.95,
    gradient_clip=1.0, ema_decay=0.98,
)  # fmt: skip
PAPER = TRAIN.model_copy(
    update={
        "epochs": 50, "batch_size": 64, "supervision_steps": 4, "evaluation_steps": 4, "halting": "sample", "learning_rate": 1e-4,
        "warmup": 0.043, "gradient_clip": 0.0, "ema_decay": 0.999, "precision": "bfloat16",
    }
)  # fmt: skip
ASSUMED = (  # what the paper leaves blank
    ("train.supervision_steps", 4, "at most; TRM has 16"),
    ("train.evaluation_steps", 4, "all of them, as TRM"),
    ("train.exploration", 0.1, "TRM's"),
    ("train.halt_weight", 0.5, "TRM's code; 1 in its text"),
    ("train.loss", "softmax", "TRM has stablemax"),
    ("train.caption_mean", "caption", "each caption counts the same, as a sequence does in TRM"),
    ("train.batch_size", 64, "TRM has 768, of much shorter sequences"),
    ("train.learning_rate", 1e-4, "TRM's"),
    ("train.weight_decay", 0.1, "TRM's"),
    ("train.beta2", 0.95, "TRM's"),
    ("train.gradient_clip", 0.0, "TRM has none"),
    ("train.warmup", 0.043, "TRM's 2,000 updates, of 46,850"),
    ("train.schedule", "update", "a cosine, where TRM stays at its rate"),
    ("train.ema_decay", 0.999, "TRM's"),
    ("train.precision", "bfloat16", "TRM's"),
    ("train.selection", "validation", "by token accuracy"),
    ("model.width", 512, "TRM's, as the heads and the width of feed-forward are"),
    ("model.cycles", 3, "TRM's T"),
    ("model.latent_steps", 6, "TRM's n"),
    (
        "model.halt_read",
        "mean",
        "of a caption's places; the first, which TRM reads, knows the image alone behind a causal mask",
    ),
    ("model.halt_target", "soft", "the share of right tokens: no caption is ever right in all, as TRM asks"),
    ("model.decode", "beam", "of 3"),
    ("data.tokenizer", "byte", "ASCII or BPE, of which only bytes leave the size that the paper prints"),
)
TABLE_II = (
    *published(
        "000_table2_imagetrm",
        margin=0.25,
        why="a third of the 0.8 points of ROUGE-L between ResNet and Swin",
        only=("rouge_l",),
    ),
    *published("000_table2_imagetrm", only=("cider",)),
)
PARAMETERS = published("000_setup", only=("params_imagetrm",))
# no states to refine
ONE_STEP = {"train.supervision_steps": 1, "train.evaluation_steps": 1, "train.halting": "batch"}
HRM = {"train.ema_decay": 0.0, "train.halt_threshold": 1.0}  # as in imagehrm_loops

TRAINED = {"backbone": "small", "weights": "random", "tuned": True}
# The likeliest caption of an unsure model is a full stop: after 4 epochs 200 of 200 by beam search, and none
# word by word.
GREEDY = {"decode": "greedy"}
# no twice as deep ones
QUICK = ("LSTM", "ImageTRM", "ImageTRM, last cycle", "ImageTRM, FuseLIP", "ImageTRM, FuseLIP, LEAKY")
SMALL = {"width": 64, "heads": 4, "layers": 1, "cycles": 2, "latent_steps": 3}
REPORTS = MedPix(size=64, length=64, tokenizer="word", vocabulary=1600, clean="report")
ALIGNER = Aligner(
    encoder=FuseLIP(
        width=64, heads=4, layers=3, text_vocabulary=64, bos=1, eos=2, codes=16, codebook=256, context=64
    ),
    tokenizer=VQ(codes=16, codebook=256, width=64, layers=2, heads=2),
    tokenizer_epochs=4,
)


def models(
    eyes: dict, size: dict, others: dict[str, dict], aligner: Aligner, epochs: int, tuned: bool
) -> dict[str, dict]:
    """ImageTRM on each backbone; on the first one, the other gradient mode, other depths and no EMA; LSTM and
    ImageHRM beside it.

    `epochs`: of FuseLIP before; `tuned`: whether it is trained with the captioner too.
    """

    def fused(mode: str) -> dict:
        settings = FuseLIPBackboneConfig(aligner=aligner, epochs=epochs, mode=mode)
        return {"backbone": "fuselip", "tuned": tuned, "fuselip": settings}

    depths = {"T": {"cycles": size.get("cycles", 3)}, "n": {"latent_steps": size.get("latent_steps", 6)}}
    deeper = {name: {field: 2 * value for field, value in fields.items()} for name, fields in depths.items()}
    return {
        "LSTM": {"model": ImageLSTM(**eyes), **ONE_STEP},
        "ImageTRM": {"model": ImageTRM(**eyes, **size)},
        "ImageTRM, last cycle": {"model": ImageTRM(**eyes, **size, gradient="last_cycle")},
        "ImageTRM, without EMA": {"model": ImageTRM(**eyes, **size), "train.ema_decay": 0.0},
        **{
            f"ImageTRM, twice the {name}": {"model": ImageTRM(**eyes, **size | more)}
            for name, more in deeper.items()
        },
        **{f"ImageTRM, {name}": {"model": ImageTRM(**other, **size)} for name, other in others.items()},
        "ImageTRM, FuseLIP": {"model": ImageTRM(**fused("prefix_causal"), **size)},
        "ImageTRM, FuseLIP of the image": {"model": ImageTRM(**fused("image_only"), **size)},
        "ImageTRM, FuseLIP, LEAKY": {"model": ImageTRM(**fused("leaky"), **size)},
        "ImageHRM (triple)": {"model": ImageHRM(**eyes), **HRM},
        "ImageHRM (triple), FuseLIP": {"model": ImageHRM(**fused("prefix_causal")), **HRM},
    }


def claims(on: str) -> list[Claim]:
    """Sentences about Table II, by ROUGE-L and half a point: of recursion, its gradient, EMA, Swin, and of
    ImageHRM beside it.

    The headline is asked by CIDEr too, which is all that bears it out in the paper. "Rivaling" is said there
    of a CIDEr of 0.388 against 0.478, so that a difference of 0.1 either way is within it.
    """

    def better(text: str, less: str, than: str) -> Claim:
        return Claim(
            f"000 {text}, {on}", lower={"model": less}, higher={"model": than}, margin=0.005, metric="rouge_l"
        )

    headline = (
        'abstract: "the tiny ImageTRM with a Swin backbone surprisingly outperforms" ImageHRM (triple) with'
        " FuseLIP"
    )
    rivals = {"less": {"model": "ImageHRM (triple)"}, "than": {"model": "ImageTRM"}}
    contest = {"less": {"model": "ImageHRM (triple), FuseLIP"}, "than": {"model": "ImageTRM, Swin-T"}}

    return [
        better("VI.A: recursion does better than a net of fixed depth, the LSTM", "LSTM", "ImageTRM"),
        better('IV.B: gradients through the whole recursion ensure "precise gradient flow and robust convergence"',
               "ImageTRM, last cycle", "ImageTRM"),
        better("VI.A: Swin's features \"are uniquely suited to seed\" the tiny recursive core", "ImageTRM", "ImageTRM, Swin-T"),
        better('VI.A: FuseLIP "was outperformed by the simpler Swin integration in the tiny regime"',
               "ImageTRM, FuseLIP", "ImageTRM, Swin-T"),
        better('IV.B: EMA "is critical for the convergence of tiny recursive networks"', "ImageTRM, without EMA", "ImageTRM"),
        Claim(f"000 {headline}, {on} (ROUGE-L)", **contest, margin=0.005, metric="rouge_l"),
        Claim(f"000 {headline}, {on} (CIDEr)", **contest, metric="cider"),
        Claim(f'000 VI.A: ImageTRM-ResNet is "rivaling the much larger ImageHRM (Triple) baseline", {on} (CIDEr)',
              **rivals, within=0.1, metric="cider"),
    ]  # fmt: skip


def report(*halting: str) -> list:
    """`halting`: what is drawn of runs that halt."""
    return [
        Table(
            "table2",
            settings=(
                "model.family",
                "model.backbone",
                ("model.cycles", "model.latent_steps"),
                "model.gradient",
            ),
            metrics=(
                "rouge_l",
                "cider",
                "bleu_1",
                "bleu_4",
                "meteor",
                "token_accuracy",
                "trained_params",
                "train_gflops",
            ),
            targets=(*TABLE_II, *PARAMETERS),
            title="Table II: backbones, gradients and depth",
        ),
        Arithmetic(
            "parameters",
            counted={"trained_params": 7_345_154},
            targets=PARAMETERS,
            title="How many parameters ImageTRM on ResNet-18 trains (section IV.A)",
        ),
        Captions("captions"),
        LearningCurves(metrics=("train_loss", "selection_loss", "selection_token_accuracy", *halting)),
    ]


study = Study(
    name="imagetrm_backbones",
    presets={
        "quick": RunConfig(
            data=PhantomCaptions(),
            model=ImageTRM(**TRAINED, **SMALL),
            train=TRAIN,
            resources=Resources(gpus=0),
        ),
        "cpu": RunConfig(
            data=REPORTS,
            model=ImageTRM(**TRAINED, **GREEDY, **SMALL),
            train=TRAIN,
            resources=Resources(gpus=0),
        ),
        "standard": RunConfig(data=MedPix(), model=ImageTRM(), train=PAPER),
        "paper": RunConfig(data=RocoV2(), model=ImageTRM(), train=PAPER),
    },
    variants={
        "quick": grid(
            {"model": {name: models(TRAINED, SMALL, {}, ALIGNER, 10, tuned=False)[name] for name in QUICK}}
        ),
        "cpu": grid(
            {
                "model": {
                    "LSTM": {"model": ImageLSTM(**TRAINED, **GREEDY)},
                    "ImageTRM": {"model": ImageTRM(**TRAINED, **GREEDY, **SMALL)},
                }
            }
        ),
        **{
            preset: grid(
                {
                    "model": models(
                        {}, {}, {"Swin-T": {"backbone": "swin_t"}}, FUSELIP_ON_BYTES, 20, tuned=True
                    )
                }
            )
            for preset in ("standard", "paper")
        },
    },
    seeds={"quick": 3, "cpu": 3, "standard": 2, "paper": 3},
    max_seeds={"quick": 10},
    claims={
        "quick": claims("asked of synthetic captions")[:2],
        "cpu": claims("asked of MedPix 2.0")[:1],
        "standard": claims("asked of MedPix 2.0"),
        "paper": claims("ROCOv2"),
    },
    report={
        **dict.fromkeys(("quick", "cpu"), report()),
        **dict.fromkeys(("standard", "paper"), report("supervision_steps_used")),
    },
    deviations=(
        *(Deviation(field=field, ours=ours, why=why) for field, ours, why in ASSUMED),
        *deviations("fuselip_fine_tuning"),
    ),
)

if __name__ == "__main__":
    main(study)
