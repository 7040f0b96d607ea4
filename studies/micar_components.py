"""What does each part of MicarVLMoE contribute, also at equal compute?

Table III of the MicarVLMoE paper (003) removes one component at a time: load balancing, the mixture of
experts, the latent encoder, and the multiscale vision encoder (MSVE). Differences are paired by seed.

Published: Avg-BLEU on COVCTR: 0.638 with all parts; 0.609, 0.628, 0.608 and 0.595 without the four parts.

Three rows make the comparison fair. Without MSVE a model has 13 times fewer FLOPs (003-9), so one row
convolves a single scale at the same cost. Without the mixture a token passes one expert instead of two, so
one row has an expert of twice the width. One row adds the experts without weights, as the published code
does, whose router learns from the balance loss alone (003-1). On MedPix 2.0 and COVCTR, one row has no gate.

Caveats: the paper does not say what replaces the mixture and the MSVE, and its code has neither row. Here a
gated FFN of 2,048 and the last feature map of ResNet-101 replace them, and each verdict says so. BLEU has
jury's words, as in the published code, except in the preset quick. Our network follows the published code in
four settings in which the paper's text differs (003-8): fused projections, attention scores divided by the
root of a head's width, 24 rotary dimensions of 48, and a normalized input of the fusion. On MedPix 2.0 and
COVCTR, each of four rows has one of the text's values, and one row has all four: 155,416,768 parameters with
1,000 words, not 156,793,024. In the preset paper, images are split one by one, as in 003, so images of one
patient may be in training and in test (003-13). Epochs are selected by captions of the validation split, with
METEOR 1.5, which needs Java. Quick uses generated captions and a small model, without these six rows. Quick
demonstrates the run and decides no claim: its 95 % intervals are ±0.2, the claims' margin is 0.005. The
preset cpu asks about the experts and the gate on the reports of MedPix 2.0 at 64 pixels, with a network of
width 64 from random weights and greedy captions. It shows whether these two and the balance loss matter to a
small network that misses most findings, not the other parts and not the paper's scores.

Cost: quick, 15 minutes on one core (measured); cpu (MedPix 2.0, small), 28 minutes on 2 cores for 23 runs
(measured); standard (MedPix 2.0), hours of a GPU; paper (COVCTR and MMR, 100 epochs), see --dry-run.

    python studies/micar_components.py
    python studies/micar_components.py --preset cpu --data DIR
    python studies/micar_components.py --preset standard --data DIR
"""

from dataclasses import replace

from recstudy import Claim, Deviation, Resources, Study, Variant, deviations, leave_one_out, main, published
from recstudy.recursive import CovCtr, MedPix, MicarVLMoE, MmRetinal, PhantomCaptions, RunConfig, TrainConfig
from recstudy.report import Differences, LearningCurves, Table

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
    experts=4,
)
TABLE_III = published(
    "003_table3_ablation",
    margin=0.3,
    why="a third of the 1.0 points of Avg-BLEU that the mixture brings on COVCTR",
)
REPORTS = {"tokenizer": "word", "clean": "report"}
# Beam search with a small model writes a full stop for each image (tests/benchmarks/LOG.md).
SMALL_GREEDY = SMALL.model_copy(update={"decode": "greedy"})


def remove_parts(model: MicarVLMoE) -> dict[str, dict]:
    """Return the changes of Table III's rows, and of the rows that make them fair."""
    one_expert = {"model.experts": 1, "model.top_k": 1}
    return {
        "w/o lb loss": {"model.balance": 0.0},
        "w/o moe": one_expert,
        # A token passes one expert where it passed two; this expert has twice the width.
        "w/o moe, an expert as wide as two": {**one_expert, "model.ffn_width": 2 * model.ffn_width},
        "w/o lenc": {"model.encoder_layers": 0},
        "w/o msve": {"model.msve": "off"},
        # Without MSVE a model has 13 times fewer FLOPs (003-9); one scale costs as much as with MSVE.
        "w/o msve, as many FLOPs": {"model.msve": "one_scale"},
        # As in the published code, whose router learns from the balance loss alone (003-1).
        "experts unweighted": {"model.combine": "unweighted"},
    }


# Sections III-D and III-F of the text (003-8).
AS_IN_TEXT = {
    "projections apart": {"model.projections": "separate"},
    "scores over root 768": {"model.scale": "latent"},
    "48 rotary dimensions": {"model.rope_dims": 48},
    "fusion reads I_att": {"model.fusion_reads": "plain"},
}
ALL_AS_IN_TEXT = {field: value for changes in AS_IN_TEXT.values() for field, value in changes.items()}
# The paper's settings on MM-Retinal.
MMR = {
    "data": MmRetinal(**REPORTS, length=60, vocabulary=20_000, split_by="image"),
    "train.batch_size": 32,
    "model.activation": "gelu",
    "model.encoder_layers": 3,
    "model.decoder_layers": 3,
}


def on_mmr(variants: list[Variant]) -> list[Variant]:
    """Return the same design on MMR, with the paper's settings for MMR."""
    return [
        replace(
            variant,
            label=f"{variant.label}, MMR",
            changes={**MMR, **variant.changes},
            base=variant.base and f"{variant.base}, MMR",
        )
        for variant in variants
    ]


PARTS = {
    "w/o lb loss": "the balance loss",
    "w/o moe": "the mixture",
    "w/o lenc": "the latent encoder",
    "w/o msve": "the MSVE",
}


def claims(data: str, suffix: str = "", metric: str = "avg_bleu_jury") -> list[Claim]:
    """Return section V.B's sentences, with a margin of half a point of Avg-BLEU.

    Args:
        data: The data, in words.
        suffix: The end of the variants' labels on these data.
        metric: The metric that judges them.
    """
    rows = {label: {"variant": label + suffix} for label in ("full", *PARTS)}
    other_parts = [label + suffix for label in PARTS if label != "w/o msve"]
    return [
        *(
            Claim(
                '003 V.B: "each component of MicarVLMoE contributes to overall performance"'
                f" ({part}), {data}",
                lower=rows[label],
                higher=rows["full"],
                margin=0.005,
                metric=metric,
            )
            for label, part in PARTS.items()
        ),
        Claim(
            f'003 V.B: "Excluding the MoE module yields similar drops" to the balance loss\'s, {data}',
            within=0.005,
            lower=rows["w/o lb loss"],
            higher=rows["w/o moe"],
            metric=metric,
        ),
        Claim(
            '003 V.B: "The largest decline occurs when removing the multiscale vision encoder (msve)",'
            f" against each other part, {data}",
            lower=rows["w/o msve"],
            higher={"variant": other_parts},
            margin=0.005,
            metric=metric,
            each=True,
        ),
    ]


def gate_claim(data: str, metric: str, margin: float = 0.0) -> Claim:
    """Return section V.A's sentence about the gate."""
    return Claim(
        f'003 V.A: "This gain stems from its MDLA and gated fusion": cross-attention alone is worse, {data}',
        lower={"variant": "w/o gate"},
        higher={"variant": "full"},
        margin=margin,
        metric=metric,
    )


BLEU = ("bleu_1_jury", "bleu_2_jury", "bleu_3_jury", "bleu_4_jury", "avg_bleu_jury")


def report(metric: str) -> list:
    """Return the report, whose differences are of this metric."""
    return [
        Table(
            "table3",
            metrics=(*BLEU, "avg_bleu", "token_accuracy", "params", "gflops"),
            group="data",
            targets=TABLE_III,
            title="Table III: one component removed at a time",
        ),
        Differences("differences", metric=metric, targets=TABLE_III),
        Differences("differences_in_tokens", metric="token_accuracy"),
        LearningCurves(metrics=("train_loss", "extra_loss", "selection_loss", "selection_token_accuracy")),
    ]


TABLE_III_ROWS = remove_parts(MicarVLMoE())
NO_GATE = {"w/o gate": {"model.fusion": "attention"}}
CPU_ROWS = ("w/o lb loss", "w/o moe", "w/o moe, an expert as wide as two")
ALL_ROWS = leave_one_out(
    {
        **TABLE_III_ROWS,
        **NO_GATE,
        **AS_IN_TEXT,
        "all four as in the text": ALL_AS_IN_TEXT,
    }
)

study = Study(
    name="micar_components",
    presets={
        "quick": RunConfig(
            data=PhantomCaptions(), model=SMALL, train=QUICK_TRAIN, resources=Resources(gpus=0)
        ),
        "cpu": RunConfig(
            data=MedPix(**REPORTS, size=64, length=64, vocabulary=1600),
            model=SMALL_GREEDY,
            train=QUICK_TRAIN.model_copy(update={"epochs": 12}),
            resources=Resources(gpus=0),
        ),
        "standard": RunConfig(
            data=MedPix(**REPORTS, length=80, vocabulary=1600), model=MicarVLMoE(), train=TRAIN
        ),
        "paper": RunConfig(
            data=CovCtr(**REPORTS, length=80, split_by="image"), model=MicarVLMoE(), train=PAPER_TRAIN
        ),
    },
    variants={
        "quick": leave_one_out(remove_parts(SMALL)),
        "cpu": leave_one_out(
            {
                **{name: changes for name, changes in remove_parts(SMALL_GREEDY).items() if name in CPU_ROWS},
                **NO_GATE,
            }
        ),
        "standard": ALL_ROWS,
        "paper": [*ALL_ROWS, *on_mmr(leave_one_out(TABLE_III_ROWS))],
    },
    seeds={"quick": 3, "cpu": 3, "standard": 5, "paper": 5},
    max_seeds={"quick": 10, "cpu": 10},
    report={
        "quick": report("avg_bleu"),
        **dict.fromkeys(("cpu", "standard", "paper"), report("avg_bleu_jury")),
    },
    claims={
        "quick": claims("on synthetic captions", metric="avg_bleu"),
        # Without the latent encoder and the MSVE, whose rows are not in this preset.
        "cpu": [*claims("on MedPix 2.0")[:2], gate_claim("on MedPix 2.0", "avg_bleu_jury", margin=0.005)],
        "standard": claims("on MedPix 2.0"),
        "paper": [*claims("COVCTR"), *claims("MMR", ", MMR"), gate_claim("COVCTR", "rate_score")],
    },
    deviations=[
        *deviations("003_code"),
        Deviation(field="data.vocabulary", paper=2046, ours=20_000, why="large enough for all words of MMR"),
    ],
)

if __name__ == "__main__":
    main(study)
