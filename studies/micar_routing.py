"""Where does a trained MicarVLMoE look, and which experts write which words?

Figures 3, 7 and 8 of the MicarVLMoE paper (003): feature maps of the multiscale encoder; self- and
cross-attention over image and words, on COVCTR and on MMR; experts by layer and token, on COVCTR. The figures
show single examples, so this study also reports loads and entropies over the whole test set. The preset paper
has a map of each layer, the load of one generated report, and the entropy of the attention to the image by
layer, by which "deeper layers exhibit more focused activations" is judged. The variants have the balance loss
or not. Their experts are weighted, as in the paper, or added as in the published code,
whose router learns from the balance loss alone (003-1).

Published: no number for load balancing.

Caveats: attention maps show where a layer reads, not why a word was chosen. In the preset paper, images are
split one by one, as in the paper, so images of one patient may be in training and in test (003-13). Epochs
are selected by captions of the validation split, with METEOR 1.5, which needs Java. Quick uses generated
captions. Quick demonstrates the run and decides no claim: its 95 % interval is ±2.8 points wide, the claim's
margin is 1.

Cost: quick, 24 minutes on one core (measured); standard (MedPix 2.0), an hour of a GPU; paper (COVCTR, and
one model on MMR), see --dry-run.

    python studies/micar_routing.py
    python studies/micar_routing.py --preset standard --data DIR --export pdf
"""

from recstudy import Claim, Deviation, Resources, Study, Variant, deviations, leave_one_out, main
from recstudy.recursive import (
    AttentionMaps,
    Captions,
    CovCtr,
    ExpertLoad,
    ExpertPath,
    FeatureMaps,
    MedPix,
    MicarVLMoE,
    MmRetinal,
    PhantomCaptions,
    RunConfig,
    TrainConfig,
)
from recstudy.report import LearningCurves, Table

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
    update={"epochs": 8, "learning_rate": 1e-3, "backbone_learning_rate": 1e-3, "patience": 0}
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
    decoder_layers=2,
    ffn_width=128,
    experts=4,
)
REPORTS = {"tokenizer": "word", "clean": "report", "length": 80}


def claim(data: str) -> Claim:
    """Return the claim about load balancing. The paper prints no number, so the margin is one point of the
    largest expert's share.
    """
    return Claim(
        f'003 V.D: "effective load balancing without expert overload" is the balance loss\'s, {data}',
        lower={"variant": "full"},
        higher={"variant": "w/o lb loss"},
        margin=1.0,
        metric="expert_load_peak",
    )


def focus(variant: str, layers: int, data: str) -> list[Claim]:
    """Return the sentence on deeper layers, for each layer after the first. The paper prints no number."""
    return [
        Claim(
            f'003 V.D: "Deeper layers exhibit more focused activations": attention of layer {layer} to the'
            f" image has a lower entropy than that of layer {layer - 1}, {data}",
            lower={"variant": variant, "metric": f"attention_entropy.{layer}"},
            higher={"variant": variant, "metric": f"attention_entropy.{layer - 1}"},
        )
        for layer in range(2, layers + 1)
    ]


ROWS = leave_one_out(
    {
        "w/o lb loss": {"model.balance": 0.0},
        # As in the published code, whose router learns from the balance loss alone (003-1).
        "experts unweighted": {"model.combine": "unweighted"},
        "experts unweighted, w/o lb loss": {"model.combine": "unweighted", "model.balance": 0.0},
    }
)
# The paper's model and settings on MM-Retinal.
ON_MMR = Variant(
    "full, MMR",
    {
        "data": MmRetinal(**{**REPORTS, "length": 60}, vocabulary=20_000, split_by="image"),
        "model": MicarVLMoE(encoder_layers=3, decoder_layers=3, activation="gelu"),
        "train.batch_size": 32,
    },
)
REPORT = [
    Table(
        "routing",
        metrics=("avg_bleu", "token_accuracy", "expert_load_peak", "router_entropy", "dropped_tokens"),
        title="Routing over the test set",
    ),
    ExpertLoad("load"),
    ExpertPath("experts"),
    AttentionMaps("attention"),
    FeatureMaps("features"),
    Captions("captions"),
    LearningCurves(metrics=("train_loss", "extra_loss", "selection_token_accuracy")),
]

study = Study(
    name="micar_routing",
    presets={
        "quick": RunConfig(
            data=PhantomCaptions(), model=SMALL, train=QUICK_TRAIN, resources=Resources(gpus=0)
        ),
        "standard": RunConfig(data=MedPix(**REPORTS, vocabulary=1600), model=MicarVLMoE(), train=TRAIN),
        "paper": RunConfig(data=CovCtr(**REPORTS, split_by="image"), model=MicarVLMoE(), train=PAPER_TRAIN),
    },
    variants={"quick": ROWS, "standard": ROWS, "paper": [*ROWS, ON_MMR]},
    seeds={"quick": 3, "standard": 3, "paper": 3},
    max_seeds={"quick": 10},
    report={
        **dict.fromkeys(("quick", "standard"), REPORT),
        "paper": [
            *REPORT,
            *[
                AttentionMaps(
                    f"attention_layer_{layer}", layer=layer, title=f"Figure 7b: COVCTR, layer {layer}"
                )
                for layer in (1, 2)
            ],
            AttentionMaps("attention_mmr", where={"variant": "full, MMR"}, title="Figure 7a: MMR"),
            *[
                AttentionMaps(
                    f"attention_mmr_layer_{layer}",
                    layer=layer,
                    where={"variant": "full, MMR"},
                    title=f"Figure 7a: MMR, layer {layer}",
                )
                for layer in (1, 2, 3)
            ],
            ExpertLoad(
                "load_of_one_report", example=0, where={"variant": "full"}, title="Figure 8b: one report"
            ),
        ],
    },
    claims={
        "quick": [claim("on synthetic captions")],
        "standard": [claim("on MedPix 2.0")],
        "paper": [claim("COVCTR"), *focus("full", 2, "COVCTR"), *focus("full, MMR", 3, "MMR")],
    },
    deviations=[
        *deviations("003_code"),
        Deviation(field="data.vocabulary", paper=2046, ours=20_000, why="large enough for all words of MMR"),
    ],
)

if __name__ == "__main__":
    main(study)
