"""How deep should a recursive model think, how many supervision steps does it need, and in which batches?

A TPE search over the settings that all recursive models share: latent steps, cycles (of each level if there
are several), supervision steps and batch size. It searches one family at a time, or several families that
read the same data (--family vitrm --family trm). MicarVLMoE is not recursive; its search is over its experts,
the experts per token, and the batch size. The score is measured on the held-out split. It is top-1 accuracy,
or the share of right tokens for ImageHRM and MicarVLMoE, which write captions. The ten best trials run again
with new seeds, because the best of many trials is lucky; the budget covers these runs too.

Published: single points of this space, which are tried first: n = 3, N_sup = 1 (002); N = 2, T = 3 (004); n =
6, T = 3 (TRM).

Caveats: quick's captions are synthetic. So are the Sudokus of the preset `puzzles`, whose score is the share
of solved puzzles. All batch sizes have one learning rate. If the budget allows, add train.learning_rate to
`vary`.

Cost: quick, 34 minutes in one process (measured); standard (MNIST, MedPix), hours of a GPU; paper (CIFAR-10,
ROCOv2), as --budget states.

    python studies/recursion_search.py
    python studies/recursion_search.py --family hrm --budget 30
    python studies/recursion_search.py --family micar --vary model.experts=4,8,16
    python studies/recursion_search.py --preset puzzles
    python studies/recursion_search.py --preset paper --family vitrm --stopping asha --budget 40gpuh --address
    auto
"""

from recstudy import Range, Resources, Search, main
from recstudy.recursive import (
    HRM,
    TRM,
    Cifar10,
    CovCtr,
    Digits,
    HRMImage,
    ImageHRM,
    MedPix,
    MicarVLMoE,
    Mnist,
    PhantomCaptions,
    RocoV2,
    RunConfig,
    Sudoku,
    TrainConfig,
    ViTRM,
)
from recstudy.report import Best, History, Importance, ParallelCoordinates, Pareto, Slices

QUICK_TRAIN = TrainConfig(epochs=12, batch_size=32, learning_rate=4e-3, warmup=0.1, ema_decay=0.9)
STANDARD_TRAIN = TrainConfig(epochs=10, learning_rate=1e-3, warmup=0.05, ema_decay=0.999)
PAPER_TRAIN = TrainConfig(epochs=100, learning_rate=3e-4, warmup=0.03, ema_decay=0.999, precision="bfloat16")
SMALL = {"width": 48, "heads": 4}
PATCHES = {"tokens": "patch", "positions": "learned"}
CAPTION_TRAIN = TrainConfig(
    epochs=8,
    batch_size=32,
    halt_weight=0.5,
    learning_rate=3e-3,
    warmup=0.1,
    gradient_clip=1.0,
    ema_decay=0.98,
)
MICAR_TRAIN = TrainConfig(
    epochs=6,
    batch_size=16,
    learning_rate=1e-3,
    backbone_learning_rate=1e-3,
    caption_mean="batch",
    ema_decay=0.0,
)
BACKBONE = {"backbone": "small", "weights": "random", "tuned": True}
PUZZLE_TRAIN = TrainConfig(
    halting="sample",
    supervision_steps=4,
    evaluation_steps=8,
    evaluation_depths=8,
    halt_weight=0.5,
    epochs=2,
    batch_size=32,
    learning_rate=4e-3,
    final_learning_rate=4e-4,
    warmup=0.03,
    schedule="update",
    weight_decay=0.1,
    beta2=0.95,
    ema_decay=0.99,
)
CELLS = {"tokens": "cell", "width": 64, "heads": 4, "expansion": 2, "multiple": 32}
REPORTS = {"tokenizer": "word", "clean": "report", "length": 80}
MIXTURE = MicarVLMoE(
    **BACKBONE,
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
                RunConfig(data=Digits(limit=600), model=model, train=QUICK_TRAIN, resources=Resources(gpus=0))
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
                    model=ImageHRM(**BACKBONE, **LOOPS, **SMALL),
                    train=CAPTION_TRAIN,
                    resources=Resources(gpus=0),
                ),
                RunConfig(
                    data=PhantomCaptions(), model=MIXTURE, train=MICAR_TRAIN, resources=Resources(gpus=0)
                ),
            ]
        ),
        "puzzles": [
            RunConfig(
                data=Sudoku(side=6, givens=10, rounds=8),
                model=model,
                train=PUZZLE_TRAIN,
                resources=Resources(gpus=0),
            )
            for model in (
                TRM(**CELLS, mixing="mlp", prefix=1, cycles=1, latent_steps=1),
                HRM(**CELLS, low_layers=1, high_layers=1),
            )
        ],
        "standard": (
            [
                RunConfig(data=Mnist(), model=model, train=STANDARD_TRAIN)
                for model in (
                    ViTRM(width=128, heads=4, layers=2),
                    HRMImage(width=128, heads=4, low_layers=2, high_layers=2),
                    HRM(**PATCHES, width=128, heads=4, low_layers=2, high_layers=2),
                    TRM(**PATCHES, width=128, heads=4),
                )
            ]
            + [
                RunConfig(data=MedPix(), model=ImageHRM(), train=STANDARD_TRAIN),
                RunConfig(data=MedPix(**REPORTS, vocabulary=1600), model=MicarVLMoE(), train=STANDARD_TRAIN),
            ]
        ),
        "paper": (
            [
                RunConfig(data=Cifar10(), model=model, train=PAPER_TRAIN)
                for model in (ViTRM(), HRMImage(), HRM(**PATCHES), TRM(**PATCHES))
            ]
            + [
                RunConfig(data=RocoV2(), model=ImageHRM(), train=PAPER_TRAIN),
                RunConfig(data=CovCtr(**REPORTS), model=MicarVLMoE(), train=PAPER_TRAIN),
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
    confirm=10,  # the best of many trials is lucky, so the best ten run again with new seeds
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
