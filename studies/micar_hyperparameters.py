"""How many experts, how deep, and in which batches does MicarVLMoE write best?

Figure 6 of 003, which prints no number: more experts help, 8 with top-2 best and 2 with top-1 worst (a); 2 layers are best, more
are worse (b), although it trains three of its four data sets with 3 (003-5); batches of 20 to 30 are best (c), although it
trains with 16 (003-6). Each is swept alone around the preset, but for experts and top-k, which are crossed. Of its two data sets,
COVCTR and MMR, the first alone is asked.
Read with it: one learning rate for all batch sizes and depths, as in the paper. Quick asks it of synthetic captions, of 2 and 8
experts.
Cost: quick, 6 minutes on 2 cores; standard (MedPix 2.0), hours of a GPU; paper (COVCTR, 100 epochs), see --dry-run.

    python studies/micar_hyperparameters.py
    python studies/micar_hyperparameters.py --preset standard --data DIR
"""

from recstudy import Claim, Place, RunConfig, Study, TrainConfig, Variant, deviations, grid, main
from recstudy.data import CovCtr, MedPix, PhantomCaptions
from recstudy.models import MicarVLMoE
from recstudy.report import Curve, Interactions, Table

TRAIN = TrainConfig(
    epochs=100, batch_size=16, optimizer="adamw", amsgrad=True, learning_rate=1e-4, backbone_learning_rate=5e-5, schedule="step",
    caption_mean="batch", weight_decay=5e-5, patience=50, ema_decay=0.0,
)  # fmt: skip
SELECTED = TRAIN.model_copy(update={"score": "report_score"})  # its code; it writes all captions of the split, each epoch
QUICK = TRAIN.model_copy(update={"epochs": 6, "learning_rate": 1e-3, "backbone_learning_rate": 1e-3, "patience": 0})
SMALL = MicarVLMoE(
    backbone="small", weights="random", pyramid_width=16, width=64, heads=4, latent=96, rope_dims=6, encoder_layers=1,
    decoder_layers=1, ffn_width=128, experts=8,
)  # fmt: skip
REPORTS = {"tokenizer": "word", "clean": "report", "length": 80}


def swept(experts: list[int], depths: list[int], batches: list[int]) -> list[Variant]:
    """Experts x top-k; beside the preset, other depths of encoder and decoder, and other batches."""
    layers = {str(depth): {"model.encoder_layers": depth, "model.decoder_layers": depth} for depth in depths}
    mixtures = grid({"model.experts": experts, "model.top_k": [1, 2]})
    return [*mixtures, *grid({"layers": layers}), *grid({"train.batch_size": batches})]


def report(model: MicarVLMoE) -> list:
    """Each panel holds the other settings at the preset's."""
    layers, batch = {"model.decoder_layers": model.decoder_layers}, {"train.batch_size": 16}
    mixture = {"model.experts": model.experts, "model.top_k": model.top_k}
    return [
        Table("figure6", metrics=("bleu_1", "bleu_4", "avg_bleu", "rouge_l", "token_accuracy", "params", "gflops")),
        *(
            part
            for score in ("avg_bleu", "token_accuracy")
            for part in (
                Curve(f"experts_{score}", x="model.experts", y=score, by="model.top_k", where={**layers, **batch}),
                Curve(f"depth_{score}", x="model.decoder_layers", y=score, where={**mixture, **batch}),
                Curve(f"batch_{score}", x="train.batch_size", y=score, where={**mixture, **layers}),
            )
        ),
        Interactions(metric="avg_bleu", x="experts", by="top_k", where={**layers, **batch}),
    ]


def claims(model: MicarVLMoE, on: str, experts: int, depths: tuple[int, ...], batches: tuple[int, int, int]) -> list[Claim]:
    """Section V.C's sentences, by half a point of Avg-BLEU: Figure 6 prints no number.

    Args:
        model: the preset's, whose settings hold where a sentence is not of them.
        on: the data set; the figure has COVCTR and MMR.
        experts: the most that are tried, 8 or more.
        depths: the best and the others.
        batches: the smallest, one of 20 to 30, and the largest.
    """
    preset = {"model.experts": model.experts, "model.top_k": model.top_k, "model.decoder_layers": model.decoder_layers}

    def lower(text: str, less: dict, than: dict) -> Claim:
        rest = {**preset, "train.batch_size": 16}
        return Claim(f"003 V.C: {text}, asked of {on}", less=rest | less, than=rest | than, by=0.005, metric="avg_bleu")

    least, middle, most = ({"train.batch_size": batch} for batch in batches)
    few, best, many = ({"model.experts": count, "model.top_k": top} for count, top in ((2, 1), (8, 2), (experts, 2)))
    shallow, *others = ({"model.decoder_layers": depth} for depth in depths)
    return [
        lower('"performance improves with more experts, peaking at Expert-8-TopK-2" (fewer)', few, best),
        *([lower('"peaking at Expert-8-TopK-2" (more)', many, best)] if experts > 8 else []),
        *(lower(f'"Depth-2 gives the best results" (against {depth})', other, shallow)
          for depth, other in zip(depths[1:], others, strict=True)),
        lower('"batch sizes of 20-30 yield optimal performance" (smaller)', least, middle),
        lower('"batch sizes of 20-30 yield optimal performance" (larger)', most, middle),
    ]  # fmt: skip


study = Study(
    name="micar_hyperparameters",
    presets={
        "quick": RunConfig(data=PhantomCaptions(), model=SMALL, train=QUICK, place=Place(gpus_per_run=0)),
        "standard": RunConfig(data=MedPix(**REPORTS, vocabulary=1600), model=MicarVLMoE(), train=TRAIN),
        "paper": RunConfig(data=CovCtr(**REPORTS), model=MicarVLMoE(), train=SELECTED),
    },
    variants={
        "quick": swept([2, 8], [2], [8, 32]),
        "standard": swept([2, 4, 8], [1, 3, 4], [8, 24, 32, 64]),
        "paper": swept([2, 4, 8, 16], [1, 3, 4], [8, 20, 24, 30, 32, 64]),
    },
    seeds={"quick": 3, "standard": 3, "paper": 3},
    seeds_at_most={"quick": 10},
    report={"quick": report(SMALL), "standard": report(MicarVLMoE()), "paper": report(MicarVLMoE())},
    claims={
        "quick": claims(SMALL, "synthetic captions", 8, (2, 1), (8, 16, 32)),
        "standard": claims(MicarVLMoE(), "MedPix 2.0", 8, (2, 1, 3, 4), (8, 24, 64)),
        "paper": claims(MicarVLMoE(), "COVCTR", 16, (2, 1, 3, 4), (8, 24, 64)),
    },
    deviations=deviations("003_code"),
)

if __name__ == "__main__":
    main(study)
