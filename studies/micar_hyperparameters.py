"""How many experts, how many layers and which batch size are best for MicarVLMoE?

Figure 6 of the MicarVLMoE paper (003). Each setting is varied alone around the settings of its data set,
except that experts and top-k are crossed. The preset paper has both data sets of the figure, COVCTR and MMR,
and names its mixtures as Figure 6a: "8 experts, top 2".

Published: no number. More experts help, 8 with top-2 are best, and 2 with top-1 are named as worse (a). Two
layers are best and more are worse (b), although the paper trains three of its four data sets with 3 (003-5).
Batches of 20 to 30 are best (c), although the paper trains with 16 and 32 (003-6).

Caveats: in standard and paper, the peak of 8 experts with top-2 is claimed against each other mixture, and
each batch of 20 to 30 against each other batch. With top-2, 4 experts are claimed to exceed 2, and 8 to
exceed 4. Quick compares a batch of 24 with 8 and 32. All batch sizes and depths have one learning rate, as in
the paper. In the preset paper, images are split one by one, as in the paper, so images of one patient may be
in training and in test (003-13). Epochs are selected by captions of the validation split, with METEOR 1.5,
which needs Java. Quick uses generated captions, with 2 and 8 experts, and six epochs, in which a batch of 8
has three times the updates of 24. It demonstrates the run and shows nothing about the best batch of a full
training.

Cost: quick, 50 minutes on one core for 8 to 10 seeds (measured beside tests); standard (MedPix 2.0), hours of
a GPU; paper (100 epochs), see --dry-run.

    python studies/micar_hyperparameters.py
    python studies/micar_hyperparameters.py --preset standard --data DIR
"""

from dataclasses import replace
from itertools import product

from recstudy import Claim, Deviation, Resources, Study, Variant, deviations, grid, main
from recstudy.recursive import CovCtr, MedPix, MicarVLMoE, MmRetinal, PhantomCaptions, RunConfig, TrainConfig
from recstudy.report import Curve, Table

TRAIN = TrainConfig(
    epochs=100,
    batch_size=16,
    optimizer="adamw",
    amsgrad=True,
    learning_rate=1e-4,
    backbone_learning_rate=5e-5,
    schedule="step",
    caption_mean="batch",
    weight_decay=5e-5,
    patience=50,
    ema_decay=0.0,
)
# As in the published code: it writes all captions of the validation split after each epoch.
PAPER_TRAIN = TRAIN.model_copy(update={"score": "report_score"})
QUICK_TRAIN = TRAIN.model_copy(
    update={"epochs": 6, "learning_rate": 1e-3, "backbone_learning_rate": 1e-3, "patience": 0}
)
SMALL = MicarVLMoE(
    backbone="small",
    weights="random",
    pyramid_width=16,
    width=64,
    heads=4,
    latent=96,
    rope_dims=6,
    encoder_layers=1,
    decoder_layers=1,
    ffn_width=128,
    experts=8,
)
REPORTS = {"tokenizer": "word", "clean": "report", "length": 80}
# The paper's model and settings on MMR.
DEEPER = MicarVLMoE(encoder_layers=3, decoder_layers=3, activation="gelu")
ON_MMR = {
    "data": MmRetinal(**{**REPORTS, "length": 60}, vocabulary=20_000, split_by="image"),
    "model": DEEPER,
    "train.batch_size": 32,
}


def name_mixture(experts: int, top_k: int) -> str:
    """Return a category of Figure 6a."""
    return f"{experts} experts, top {top_k}"


def sweep(
    experts: list[int], depths: list[int], batches: list[int], is_named: bool = True, **data: dict
) -> list[Variant]:
    """Return the variants of Figure 6: experts and top-k crossed, then depths, then batch sizes.

    Args:
        experts: Numbers of experts.
        depths: Numbers of layers of encoder and decoder.
        batches: Batch sizes.
        is_named: Whether an axis `mixture` has the categories of Figure 6a, in place of two axes.
        data: The level of the axis `data`, with its changes of the preset.
    """
    axis = {"data": data} if data else {}
    layers = {str(depth): {"model.encoder_layers": depth, "model.decoder_layers": depth} for depth in depths}
    crossed = {"model.experts": experts, "model.top_k": [1, 2]}
    if is_named:
        named_mixtures = {
            name_mixture(count, top_k): {"model.experts": count, "model.top_k": top_k}
            for count, top_k in product(experts, [1, 2])
        }
        crossed = {"mixture": named_mixtures}
    mixtures = grid({**axis, **crossed})
    return [*mixtures, *grid({**axis, "layers": layers}), *grid({**axis, "train.batch_size": batches})]


def panels(model: MicarVLMoE, batch_size: int, data: str = "", is_named: bool = True) -> list:
    """Return the panels of Figure 6. Each keeps the other settings as in `model` and `batch_size`.

    Args:
        model: The model of the preset or of the data set.
        batch_size: Its batch size.
        data: The level of the axis `data`; empty if the preset has one data set.
        is_named: Whether there is an axis `mixture`.
    """
    layers, batch = {"model.decoder_layers": model.decoder_layers}, {"train.batch_size": batch_size}
    mixture = {"model.experts": model.experts, "model.top_k": model.top_k}
    level = {"data": data} if data else {}
    experts = {**level, **layers, **batch}
    parts: list = []
    for score in ("avg_bleu", "token_accuracy"):
        parts += [
            Curve(f"experts_{score}", x="model.experts", y=score, by="model.top_k", where=experts),
            *[Curve(f"mixtures_{score}", x="mixture", y=score, where=experts)] * is_named,
            Curve(f"depth_{score}", x="model.decoder_layers", y=score, where={**level, **mixture, **batch}),
            Curve(f"batch_{score}", x="train.batch_size", y=score, where={**level, **mixture, **layers}),
        ]
    if not data:
        return parts
    return [
        replace(part, name=f"{part.name}_{data.lower()}", title=f"{part.heading}, {data}") for part in parts
    ]


OPTIMUM = '"batch sizes of 20-30 yield optimal performance"'
SCORES = ("bleu_1", "bleu_4", "avg_bleu", "rouge_l", "token_accuracy", "params", "gflops")


def claims(
    model: MicarVLMoE,
    data_words: str,
    experts: int,
    depths: tuple[int, ...],
    batches: tuple[int, int, int],
    **preset: str | int,
) -> list[Claim]:
    """Return section V.C's sentences. The margin is half a point of Avg-BLEU; Figure 6 prints no number.

    Args:
        model: The model with the settings that a sentence is not about.
        data_words: The data set, in words.
        experts: The most experts, 8 or more.
        depths: The best depth, then the others.
        batches: The smallest batch size, one of 20 to 30, and the largest.
        preset: The batch size of the other sentences, 16 by default, and the level of the axis `data` if
            there is one.
    """
    settings = {
        "model.experts": model.experts,
        "model.top_k": model.top_k,
        "model.decoder_layers": model.decoder_layers,
    }
    settings |= {"train.batch_size": 16, **preset}

    def compare(text: str, lower: dict, higher: dict) -> Claim:
        return Claim(
            f"003 V.C: {text}, {data_words}",
            lower=settings | lower,
            higher=settings | higher,
            margin=0.005,
            metric="avg_bleu",
        )

    small_batch, medium_batch, large_batch = ({"train.batch_size": batch} for batch in batches)
    best_experts = {"model.experts": 8, "model.top_k": 2}
    statements = [
        compare(
            '"performance improves with more experts, peaking at Expert-8-TopK-2" (fewer)',
            {"model.experts": 2, "model.top_k": 1},
            best_experts,
        )
    ]
    if experts > 8:
        more_experts = {"model.experts": experts, "model.top_k": 2}
        statements.append(compare('"peaking at Expert-8-TopK-2" (more)', more_experts, best_experts))
    if depths[-2] > depths[0]:
        statements.append(
            compare(
                f'"deeper settings lead to degradation" ({depths[-1]} against {depths[-2]})',
                {"model.decoder_layers": depths[-1]},
                {"model.decoder_layers": depths[-2]},
            )
        )
    for depth in depths[1:]:
        statements.append(
            compare(
                f'"Depth-2 gives the best results" (against {depth})',
                {"model.decoder_layers": depth},
                {"model.decoder_layers": depths[0]},
            )
        )
    return [
        *statements,
        compare(f"{OPTIMUM} (smaller)", small_batch, medium_batch),
        compare(f"{OPTIMUM} (larger)", large_batch, medium_batch),
    ]


def strict_claims(
    model: MicarVLMoE,
    data_words: str,
    experts: list[int],
    medium_batches: list[int],
    other_batches: list[int],
    **level: str,
) -> list[Claim]:
    """Return the rise to 8 experts, then the peak and the range against all others of their panel.

    Args:
        model: The model with the settings that the range of batch sizes is not about.
        data_words: The data set, in words.
        experts: Numbers of experts.
        medium_batches: The batch sizes of 20 to 30.
        other_batches: All other batch sizes.
        level: The level of the axis `data`, if there is one.
    """
    best_mixture = name_mixture(8, 2)
    other_mixtures = [name_mixture(*pair) for pair in product(experts, [1, 2])]
    other_mixtures.remove(best_mixture)
    settings = {
        **level,
        "model.experts": model.experts,
        "model.top_k": model.top_k,
        "model.decoder_layers": model.decoder_layers,
    }
    return [
        *(
            Claim(
                '003 V.C: "performance improves with more experts",'
                f" from {count} to {2 * count}, {data_words}",
                lower={**level, "mixture": name_mixture(count, 2)},
                higher={**level, "mixture": name_mixture(2 * count, 2)},
                margin=0.005,
                metric="avg_bleu",
            )
            for count in (2, 4)
        ),
        Claim(
            f'003 V.C: "peaking at Expert-8-TopK-2", against each other mixture, {data_words}',
            lower={**level, "mixture": other_mixtures},
            higher={**level, "mixture": best_mixture},
            margin=0.005,
            metric="avg_bleu",
            each=True,
        ),
        Claim(
            f"003 V.C: {OPTIMUM}, each against each other, {data_words}",
            lower={**settings, "train.batch_size": other_batches},
            higher={**settings, "train.batch_size": medium_batches},
            margin=0.005,
            metric="avg_bleu",
            each=True,
        ),
    ]


study = Study(
    name="micar_hyperparameters",
    presets={
        "quick": RunConfig(
            data=PhantomCaptions(), model=SMALL, train=QUICK_TRAIN, resources=Resources(gpus=0)
        ),
        "standard": RunConfig(data=MedPix(**REPORTS, vocabulary=1600), model=MicarVLMoE(), train=TRAIN),
        "paper": RunConfig(data=CovCtr(**REPORTS, split_by="image"), model=MicarVLMoE(), train=PAPER_TRAIN),
    },
    variants={
        "quick": sweep([2, 8], [2], [8, 24, 32], is_named=False),
        "standard": sweep([2, 4, 8], [1, 3, 4], [8, 24, 32, 64]),
        "paper": [
            *sweep(
                [2, 4, 8, 16],
                [1, 3, 4],
                [8, 20, 24, 30, 32, 64],
                COVCTR={"data": CovCtr(**REPORTS, split_by="image")},
            ),
            *sweep([2, 4, 8, 16], [1, 2, 4], [8, 16, 20, 24, 30, 64], MMR=ON_MMR),
        ],
    },
    seeds={"quick": 3, "standard": 3, "paper": 3},
    max_seeds={"quick": 10},
    report={
        "quick": [Table("figure6", metrics=SCORES), *panels(SMALL, 16, is_named=False)],
        "standard": [Table("figure6", metrics=SCORES), *panels(MicarVLMoE(), 16)],
        "paper": [
            Table("figure6", metrics=SCORES, group="data"),
            *panels(MicarVLMoE(), 16, "COVCTR"),
            *panels(DEEPER, 32, "MMR"),
        ],
    },
    claims={
        "quick": claims(SMALL, "on synthetic captions", 8, (2, 1), (8, 24, 32)),
        "standard": [
            *claims(MicarVLMoE(), "on MedPix 2.0", 8, (2, 1, 3, 4), (8, 24, 64)),
            *strict_claims(MicarVLMoE(), "on MedPix 2.0", [2, 4, 8], [24], [8, 16, 32, 64]),
        ],
        "paper": [
            *claims(MicarVLMoE(), "COVCTR", 16, (2, 1, 3, 4), (8, 24, 64), data="COVCTR"),
            *strict_claims(
                MicarVLMoE(), "COVCTR", [2, 4, 8, 16], [20, 24, 30], [8, 16, 32, 64], data="COVCTR"
            ),
            *claims(DEEPER, "MMR", 16, (2, 1, 3, 4), (8, 24, 64), data="MMR", **{"train.batch_size": 32}),
            *strict_claims(DEEPER, "MMR", [2, 4, 8, 16], [20, 24, 30], [8, 16, 32, 64], data="MMR"),
        ],
    },
    deviations=[
        *deviations("003_code"),
        Deviation(field="data.vocabulary", paper=2046, ours=20_000, why="large enough for all words of MMR"),
    ],
)

if __name__ == "__main__":
    main(study)
