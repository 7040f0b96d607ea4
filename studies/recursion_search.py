"""How deep should a recursive model think, how many supervision steps does it need, and in which batches?

A search by TPE over what all recursive models share: latent steps, cycles (of each level where there are
several), supervision steps and the batch size; one family at a time, or several that read the same data in
one search (--family vitrm --family trm). MicarVLMoE is not recursive: it is searched over its experts, how
many of them a token has, and the batch size. Papers state single points of this space (002: n = 3, N_sup = 1;
004: N = 2, T = 3; TRM: n = 6, T = 3), which are tried first. The score is the one on the held-out split:
top-1 accuracy; of ImageHRM and MicarVLMoE, which write captions, the share of tokens that they get right.
The best ten are run again with fresh seeds, because the best of many is lucky; the budget pays for these too.
Quick's captions are drawn (synthetic), and so are the Sudokus of the preset `puzzles`, whose score is the
share that is solved. Read with it: one learning rate for all batch sizes; add train.learning_rate to `vary`
where the budget allows. Cost: quick, 5 minutes on 2 cores; standard (MNIST, MedPix), hours of a GPU; paper
(CIFAR-10, ROCOv2), as --budget says.

    python studies/recursion_search.py
    python studies/recursion_search.py --family hrm --budget 30
    python studies/recursion_search.py --family micar --vary model.experts=4,8,16
    python studies/recursion_search.py --preset puzzles
    python studies/recursion_search.py --preset paper --family vitrm --stopping asha --budget 40gpuh --address
    auto
"""

from recstudy import Range, Resources, RunConfig, Search, TrainConfig, main
from recstudy.data import Cifar10, CovCtr, Digits, MedPix, Mnist, PhantomCaptions, RocoV2, Sudoku
from recstudy.models import HRM, TRM, HRMImage, ImageHRM, MicarVLMoE, ViTRM
from recstudy.report import Best, History, Importance, ParallelCoordinates, Pareto, Slices

QUICK = TrainConfig(epochs=12, batch_size=32, learning_rate=4e-3, warmup=0.1, ema_decay=0.9)
STANDARD = TrainConfig(epochs=10, learning_rate=1e-3, warmup=0.05, ema_decay=0.999)
PAPER = TrainConfig(epochs=100, learning_rate=3e-4, warmup=0.03, ema_decay=0.999, precision="bfloat16")
SMALL = {"width": 48, "heads": 4}
PATCHES = {"tokens": "patch", "positions": "learned"}
CAPTIONS = TrainConfig(
    epochs=8,
    batch_size=32,
    halt_weight=0.5,
    learning_rate=3e-3,
    warmup=0.1,
    gradient_clip=1.0,
    ema_decay=0.98,
)
WORDS = TrainConfig(
    epochs=6,
    batch_size=16,
    learning_rate=1e-3,
    backbone_learning_rate=1e-3,
    caption_mean="batch",
    ema_decay=0.0,
)
EYES = {"backbone": "small", "weights": "random", "tuned": True}
PUZZLES = TrainConfig(
    halting="sample", supervision_steps=4, evaluation_steps=8, evaluation_depths=8, halt_weight=0.5, epochs=2, batch_size=32,
    learning_rate=4e-3, final_learning_rate=4e-4, warmup=0.03, schedule="update", weight_decay=0.1, beta2=0.95, ema_decay=0.99,
)  # fmt: skip
CELLS = {"tokens": "cell", "width": 64, "heads": 4, "expansion": 2, "multiple": 32}
REPORTS = {"tokenizer": "word", "clean": "report", "length": 80}
MIXTURE = MicarVLMoE(
    **EYES,
    pyramid_width=16,
    width=64,
    heads=4,
    latent=96,
    rope_dims=6,
    encoder_layers=1,
    decoder_layers=1,
    ffn_width=128,
)
LOOPS = {"high_layers": 1, "middle_layers": 1, "low_layers": 1, "gradient": "full_bptt"}

study = Search(
    name="recursion_search",
    presets={
        "quick": (
            [
                RunConfig(data=Digits(limit=600), model=model, train=QUICK, resources=Resources(gpus=0))
                for model in (
                    ViTRM(**SMALL, layers=1, patch=2, latent_tokens=8, dropout=0.0),
                    HRMImage(**SMALL, patch=2, low_layers=1, high_layers=1),
                    HRM(**SMALL, **PATCHES, patch=2, low_layers=1, high_layers=1),
                    TRM(**SMALL, **PATCHES, patch=2, layers=1, latent_steps=3),
                )
            ]
            + [
                RunConfig(
                    data=PhantomCaptions(),
                    model=ImageHRM(**EYES, **LOOPS, **SMALL),
                    train=CAPTIONS,
                    resources=Resources(gpus=0),
                ),
                RunConfig(data=PhantomCaptions(), model=MIXTURE, train=WORDS, resources=Resources(gpus=0)),
            ]
        ),
        "puzzles": [
            RunConfig(
                data=Sudoku(side=6, givens=10, rounds=8),
                model=model,
                train=PUZZLES,
                resources=Resources(gpus=0),
            )
            for model in (
                TRM(**CELLS, mixing="mlp", prefix=1, cycles=1, latent_steps=1),
                HRM(**CELLS, low_layers=1, high_layers=1),
            )
        ],
        "standard": (
            [
                RunConfig(data=Mnist(), model=model, train=STANDARD)
                for model in (
                    ViTRM(width=128, heads=4, layers=2),
                    HRMImage(width=128, heads=4, low_layers=2, high_layers=2),
                    HRM(**PATCHES, width=128, heads=4, low_layers=2, high_layers=2),
                    TRM(**PATCHES, width=128, heads=4),
                )
            ]
            + [
                RunConfig(data=MedPix(), model=ImageHRM(), train=STANDARD),
                RunConfig(data=MedPix(**REPORTS, vocabulary=1600), model=MicarVLMoE(), train=STANDARD),
            ]
        ),
        "paper": (
            [
                RunConfig(data=Cifar10(), model=model, train=PAPER)
                for model in (ViTRM(), HRMImage(), HRM(**PATCHES), TRM(**PATCHES))
            ]
            + [
                RunConfig(data=RocoV2(), model=ImageHRM(), train=PAPER),
                RunConfig(data=CovCtr(**REPORTS), model=MicarVLMoE(), train=PAPER),
            ]
        ),
    },
    vary=(
        "model.latent_steps",
        "model.*cycles",
        "train.supervision_steps",
        "train.batch_size",
        "model.experts",
        "model.top_k",
    ),
    ranges={
        preset: {
            "model.latent_steps": Range(1, 4),
            "train.supervision_steps": Range(1, 4),
            "train.batch_size": Range([16, 32, 64, 128]),
        }
        for preset in ("quick", "puzzles")
    },
    first={
        "quick": (),
        "puzzles": (),
        "standard": (),
        "paper": ({"family": "vitrm", "train.supervision_steps": 16},),
    },
    budget={"quick": "44 runs", "puzzles": "24 runs", "standard": "90 runs", "paper": "130 runs"},
    confirm=10,
    seeds={"quick": 2, "puzzles": 2, "standard": 3, "paper": 3},
    report=[
        History(),
        Best("best", metrics=("score", "params", "gflops", "train_gflops")),
        Importance(),
        ParallelCoordinates(),
        Slices(),
        Pareto("score_against_flops", x="gflops"),
        Pareto("score_against_parameters", x="params"),
    ],
)

if __name__ == "__main__":
    main(study)
