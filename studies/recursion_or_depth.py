"""Does ViTRM recur to any end, or would as many layers of their own do the same?

The ViTRM paper (002) sets its recursion beside ViTs of another width, without its moving average, so that its
tables cannot tell recursion from depth. Here a ViT of the same width, heads and feed-forward size has the
same updates, schedule and average. It is trained with as many FLOPs as ViTRM takes at each number of latent
steps n: on CIFAR-10 9, 22 and 40 layers of their own for 4.4, 10.4 and 19.3 GFLOP an image, within 2 %. And
once with as many parameters, 3.6 million in three layers: ViTRM's block, used once.
Elsewhere, at matched compute: r recurrences of a block are worth r^0.46 blocks of their own in language
models (arXiv:2604.21106), and an autoregressive TRM gains nothing on character-level tasks
(arXiv:2603.08082). Published: nothing; the paper calls recursion an alternative to scale. If it is one, ViTRM
is ahead of the ViT with its weights and not behind those with its FLOPs, which have up to 13 times as many.
The preset `puzzles` asks it of TRM, whose paper (arXiv:2510.04871) does so too: 6x6 Sudokus, and a
transformer of TRM's layers. Cost: quick, 6 minutes on 2 cores (measured); puzzles, 5; standard and paper, see
--dry-run.

    python studies/recursion_or_depth.py
    python studies/recursion_or_depth.py --preset puzzles
    python studies/recursion_or_depth.py --preset paper --address auto
"""

from recstudy import Augment, Claim, Interaction, Resources, RunConfig, Study, TrainConfig, Variant, main
from recstudy.config import ModelConfig
from recstudy.data import Cifar10, Dominoes, Sudoku
from recstudy.models import TRM, Transformer, ViT, ViTRM
from recstudy.report import Curve, LearningCurves, Pareto, Part, Table

SMALL = ViTRM(width=64, heads=4, layers=1, latent_tokens=1, patch=6, dropout=0.0)
SMALL_VIT = ViT(width=64, heads=4, layers=1, ffn_width=128, patch=6, dropout=0.0)
VIT = ViT(width=384, heads=6, layers=3, ffn_width=768)
AUGMENT = Augment(crop=4, flip=True, randaugment_ops=2, randaugment_magnitude=9, mixup=0.2, cutmix=1.0)
# By latent steps n: untied layers whose training FLOPs are those of ViTRM; GFLOP an image.
LAYERS = {1: 9, 3: 22, 6: 40}  # 4.32 to 4.41, 10.56 to 10.35, 19.19 to 19.26
SMALL_LAYERS = {3: 4, 6: 7}  # 0.0059 to 0.0054, 0.0101 to 0.0103
# Of puzzles: TRM's two layers with attention, n + 1 times in its one cycle, and the same layers untied.
GRIDS = {"tokens": "cell", "width": 64, "heads": 4, "expansion": 2, "multiple": 32, "prefix": 1, "layers": 2}
TINY, TINY_FLAT, TINY_LAYERS = TRM(**GRIDS, cycles=1), Transformer(**GRIDS), {1: 4, 3: 8, 6: 14}
PUZZLERS = ("TRM", "transformer")
SLOTS = TrainConfig(
    halting="sample", supervision_steps=4, evaluation_steps=8, evaluation_depths=8, halt_weight=0.5, schedule="update",
    epochs=2, batch_size=32, learning_rate=4e-3, final_learning_rate=4e-4, warmup=0.03, weight_decay=0.1, beta2=0.95,
    ema_decay=0.99, selection="last",
)  # fmt: skip


def variants(
    flat: ModelConfig, layers: dict[int, int], names: tuple[str, str] = ("ViTRM", "ViT")
) -> list[Variant]:
    """The recursive model and its equal in FLOPs at each n, and the one with its parameters, whose depth does
    not go by n.
    """
    deep, wide = names
    models = {(deep, n): {"model.latent_steps": n} for n in layers}
    models |= {
        (f"{wide}, equal FLOPs", n): {"model": flat.model_copy(update={"layers": depth})}
        for n, depth in layers.items()
    }
    models |= {(f"{wide}, equal parameters", 0): {"model": flat}}
    return [
        Variant(
            f"model={model}, n={n}" if n else f"model={model}",
            changes,
            {"model": model, "n": n},
            {"model": "model", "n": "n"},
        )
        for (model, n), changes in models.items()
    ]


def claims(on: str, few: int, names: tuple[str, str] = ("ViTRM", "ViT"), by: float = 0.5) -> list[Claim]:
    """What 002 would have to show of CIFAR-10, with half a point, which its figures call a difference; of
    puzzles with five.
    """
    deep, wide = names
    three = {"model": deep, "n": 3}

    def gain(model: str) -> Interaction:
        return Interaction(of={"model": model, "n": 6}, over={"model": model, "n": few})

    return [
        Claim(f"Recursion is more than its block used once: {deep} at n=3 is ahead of a {wide} with as many parameters, {on}",
              lower={"model": f"{wide}, equal parameters"}, higher=three, margin=by),
        Claim(f"Recursion is as good as depth: at n=3 {deep} and a {wide} with as many FLOPs are the same, {on}",
              lower={"model": f"{wide}, equal FLOPs", "n": 3}, higher=three, within=by),
        Claim(f"More recursion gains more than more depth: from n={few} to n=6, and of layers by as many FLOPs, {on}",
              lower=gain(f"{wide}, equal FLOPs"), higher=gain(deep), margin=by),
    ]  # fmt: skip


def report(score: str, *told: str) -> list[Part]:
    """`told` are what learning curves show beside the loss."""
    return [
        Table("models", metrics=(score, "params", "train_gflops", "train_pflop"), group="train_pflop",
              title="Rows that cost about the same"),
        Pareto("cost", x="train_gflops", y=score),
        Pareto("size", x="params", y=score),
        LearningCurves(metrics=("train_loss", *told)),
    ]  # fmt: skip


REPORT, SOLVED = (
    report("top1_accuracy", "selection_top1_accuracy"),
    report("exact_accuracy", "supervision_steps_used"),
)
LEVELS = [
    Table("levels", metrics=("level_accuracy.*",), title="Accuracy (%) by the steps that an image takes"),
    Curve(
        "by_level",
        x="eval.part",
        y="level_accuracy",
        by="variant",
        title="Accuracy against the steps that an image takes",
    ),
]

study = Study(
    name="recursion_or_depth",
    presets={
        "quick": RunConfig(
            data=Dominoes(),
            model=SMALL,
            train=TrainConfig(
                epochs=14, warmup=0.05, schedule="update", learning_rate=2e-3, ema_decay=0.98, halt_weight=0.0
            ),
            resources=Resources(gpus=0),
        ),
        "puzzles": RunConfig(
            data=Sudoku(side=6, givens=10, rounds=8),
            model=TINY,
            train=SLOTS,
            resources=Resources(gpus=0),
        ),
        "standard": RunConfig(
            data=Cifar10(),
            model=ViTRM(),
            train=TrainConfig(
                epochs=100,
                warmup=0.05,
                ema_decay=0.999,
                precision="bfloat16",
                augment=Augment(crop=4, flip=True, randaugment_ops=2),
            ),
        ),
        "paper": RunConfig(
            data=Cifar10(),
            model=ViTRM(),
            train=TrainConfig(
                epochs=1000, warmup=0.03, ema_decay=0.999, precision="bfloat16", augment=AUGMENT
            ),
        ),
    },
    variants={
        "quick": variants(SMALL_VIT, SMALL_LAYERS),
        "puzzles": variants(TINY_FLAT, TINY_LAYERS, PUZZLERS),
        "standard": variants(VIT, LAYERS),
        "paper": variants(VIT, LAYERS),
    },
    seeds={"quick": 3, "puzzles": 3, "standard": 2, "paper": 3},
    max_seeds={"quick": 10},
    report={"quick": [*REPORT, *LEVELS], "puzzles": SOLVED, "standard": REPORT, "paper": REPORT},
    claims={
        "quick": claims("synthetic boards", 3),
        "puzzles": claims("synthetic 6x6 Sudokus", 1, PUZZLERS, 5.0),
        "standard": claims("CIFAR-10", 1),
        "paper": claims("CIFAR-10", 1),
    },
)

if __name__ == "__main__":
    main(study)
