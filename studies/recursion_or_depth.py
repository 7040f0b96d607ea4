"""Is ViTRM's recursion useful, or would as many untied layers do the same?

The ViTRM paper (002) compares its recursion with ViTs of another width, and without ViTRM's moving average.
Its tables cannot separate recursion from depth. Here a ViT of the same width, heads and feed-forward size has
the same updates, schedule and average. Its training FLOPs equal those of ViTRM at each number of latent steps
n. On CIFAR-10 these are 9, 22 and 40 untied layers for 4.4, 10.4 and 19.3 GFLOP per image, within 2 %. A
further ViT has as many parameters as ViTRM: 3.6 million in three layers, which is ViTRM's block used once.
The preset `cpu` compares networks of width 64 on CIFAR-10 in the same way: ViTs of 4, 11 and 21 layers,
within 7 % (in quick 9 %), after 10 epochs. It shows what recursion is worth to a small network early in
training, not to a trained one of the paper's size. There ViTRM has most of its lead over the ViT with its
parameters at n=1 already. So most of it is due to other differences of the two networks, not to more steps.
The preset `puzzles` compares TRM in the same way on 6x6 Sudokus, with a transformer of TRM's layers; TRM's
paper (arXiv:2510.04871) makes this comparison too.

Published: nothing; the paper calls recursion an alternative to scale. If that is so, ViTRM is better than the
ViT with its parameters, and not worse than the ViTs with its FLOPs, which have up to 13 times as many
parameters.

Related work at matched compute: r recurrences of a block are worth r^0.46 untied blocks in language models
(arXiv:2604.21106), and an autoregressive TRM gains nothing on character-level tasks (arXiv:2603.08082).

Cost: quick, 11 minutes for five seeds in one process (measured); puzzles, 5 minutes; cpu, 13 core hours with
resources.compile=on (measured); standard, see --dry-run; paper, in float32 as the authors, 9.4 EFLOP of
training: 78 GPU hours at half of an H100's 67 TFLOP/s.

    python studies/recursion_or_depth.py
    python studies/recursion_or_depth.py --preset cpu --data DIR
    python studies/recursion_or_depth.py --preset puzzles
    python studies/recursion_or_depth.py --preset paper --address auto
"""

from recstudy import Claim, Deviation, Interaction, Resources, Study, Variant, deviations, main
from recstudy.recursive import (
    TRM,
    Augment,
    Cifar10,
    Dominoes,
    ModelConfig,
    RunConfig,
    Sudoku,
    TrainConfig,
    Transformer,
    ViT,
    ViTRM,
)
from recstudy.report import Curve, LearningCurves, Pareto, Part, Table

SMALL = ViTRM(width=64, heads=4, layers=1, latent_tokens=1, patch=6, dropout=0.0)
SMALL_VIT = ViT(width=64, heads=4, layers=1, ffn_width=128, patch=6, dropout=0.0)
VIT = ViT(width=384, heads=6, layers=3, ffn_width=768)
AUGMENT = Augment(crop=4, flip=True, randaugment_ops=2, randaugment_magnitude=9, mixup=0.2, cutmix=1.0)
# Untied layers by latent steps n, chosen so that the training FLOPs equal those of ViTRM. The comments give
# the GFLOP per image of the ViT and of ViTRM.
LAYERS = {1: 9, 3: 22, 6: 40}  # 4.32 and 4.41, 10.56 and 10.35, 19.19 and 19.26
SMALL_LAYERS = {3: 4, 6: 7}  # 0.0059 and 0.0054, 0.0101 and 0.0103
CPU_VIT = ViT(width=64, heads=4, layers=3, ffn_width=128, dropout=0.0)
CPU_LAYERS = {1: 4, 3: 11, 6: 21}  # 0.065 and 0.062, 0.178 and 0.172, 0.338 and 0.338
# On puzzles, TRM applies its two layers with attention n + 1 times in its one cycle; the transformer has the
# same layers untied.
GRIDS = {"tokens": "cell", "width": 64, "heads": 4, "expansion": 2, "multiple": 32, "prefix": 1, "layers": 2}
TINY, TINY_FLAT, TINY_LAYERS = TRM(**GRIDS, cycles=1), Transformer(**GRIDS), {1: 4, 3: 8, 6: 14}
PUZZLE_MODELS = ("TRM", "transformer")
PUZZLE_TRAIN = TrainConfig(
    halting="sample",
    supervision_steps=4,
    evaluation_steps=8,
    evaluation_depths=8,
    halt_weight=0.5,
    schedule="update",
    epochs=2,
    batch_size=32,
    learning_rate=4e-3,
    final_learning_rate=4e-4,
    warmup=0.03,
    weight_decay=0.1,
    beta2=0.95,
    ema_decay=0.99,
    selection="last",
)


def variants(
    flat: ModelConfig, layers: dict[int, int], names: tuple[str, str] = ("ViTRM", "ViT")
) -> list[Variant]:
    """Return the recursive model and the flat model with equal FLOPs at each n, and the flat model with equal
    parameters, whose depth does not depend on n.

    Args:
        flat: The model without recursion.
        layers: Its number of layers by latent steps n.
        names: The names of the recursive and of the flat model.
    """
    recursive_name, flat_name = names
    models = {(recursive_name, n): {"model.latent_steps": n} for n in layers}
    models |= {
        (f"{flat_name}, equal FLOPs", n): {"model": flat.model_copy(update={"layers": depth})}
        for n, depth in layers.items()
    }
    # The recursive block used once; n = 0 because its depth does not depend on n.
    models[f"{flat_name}, equal parameters", 0] = {"model": flat}
    return [
        Variant(
            f"model={model}, n={n}" if n else f"model={model}",
            changes,
            {"model": model, "n": n},
            {"model": "model", "n": "n"},
        )
        for (model, n), changes in models.items()
    ]


def claims(
    data: str, min_n: int, names: tuple[str, str] = ("ViTRM", "ViT"), margin: float = 0.5
) -> list[Claim]:
    """Return what the ViTRM paper would have to show on CIFAR-10.

    Args:
        data: The data, in words.
        min_n: The fewest latent steps of the preset.
        names: The names of the recursive and of the flat model.
        margin: Half a point, which the paper's figures call a difference. Puzzles have five points.
    """
    recursive_name, flat_name = names
    recursive, flat = {"model": recursive_name}, {"model": f"{flat_name}, equal FLOPs"}
    return [
        Claim(
            f"Recursion is more than its block used once: {recursive_name} at n=3 is ahead of a {flat_name}"
            f" with as many parameters, {data}",
            lower={"model": f"{flat_name}, equal parameters"},
            higher={**recursive, "n": 3},
            margin=margin,
        ),
        Claim(
            f"Recursion is as good as depth: at n=3 {recursive_name} and a {flat_name} with as many FLOPs are"
            f" the same, {data}",
            lower={**flat, "n": 3},
            higher={**recursive, "n": 3},
            within=margin,
        ),
        Claim(
            f"More recursion gains more than more depth: from n={min_n} to n=6, and of layers by as many"
            f" FLOPs, {data}",
            lower=Interaction(of={**flat, "n": 6}, over={**flat, "n": min_n}),
            higher=Interaction(of={**recursive, "n": 6}, over={**recursive, "n": min_n}),
            margin=margin,
        ),
    ]


def report(score: str, *curves: str) -> list[Part]:
    """Return the report. `curves` are the metrics that learning curves show besides the loss."""
    return [
        Table(
            "models",
            metrics=(score, "params", "train_gflops", "train_pflop"),
            group="train_pflop",
            title="Rows that cost about the same",
        ),
        Pareto("cost", x="train_gflops", y=score),
        Pareto("size", x="params", y=score),
        LearningCurves(metrics=("train_loss", *curves)),
    ]


REPORT = report("top1_accuracy", "selection_top1_accuracy")
PUZZLE_REPORT = report("exact_accuracy", "supervision_steps_used")
LEVELS = [
    Table("levels", metrics=("level_accuracy.*",), title="Accuracy (%) by difficulty level"),
    Curve(
        "by_level",
        x="eval.part",
        y="level_accuracy",
        by="variant",
        title="Accuracy by difficulty level",
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
            train=PUZZLE_TRAIN,
            resources=Resources(gpus=0),
        ),
        # The ViTRMs are runs of vitrm_depth_sweep.
        "cpu": RunConfig(
            data=Cifar10(),
            model=ViTRM(width=64, heads=4, latent_tokens=8, dropout=0.0),
            train=TrainConfig(
                epochs=10,
                batch_size=64,
                warmup=0.05,
                schedule="update",
                learning_rate=1e-3,
                ema_decay=0.99,
                augment=Augment(crop=4, flip=True),
            ),
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
            train=TrainConfig(epochs=1000, warmup=0.03, ema_decay=0.999, augment=AUGMENT),
        ),
    },
    variants={
        "quick": variants(SMALL_VIT, SMALL_LAYERS),
        "puzzles": variants(TINY_FLAT, TINY_LAYERS, PUZZLE_MODELS),
        "cpu": variants(CPU_VIT, CPU_LAYERS),
        "standard": variants(VIT, LAYERS),
        "paper": variants(VIT, LAYERS),
    },
    seeds={"quick": 3, "puzzles": 3, "cpu": 3, "standard": 2, "paper": 3},
    max_seeds={"quick": 10, "cpu": 5},
    report={
        "quick": [*REPORT, *LEVELS],
        "puzzles": PUZZLE_REPORT,
        **dict.fromkeys(("cpu", "standard", "paper"), REPORT),
    },
    claims={
        "quick": claims("synthetic boards", 3),
        "puzzles": claims("synthetic 6x6 Sudokus", 1, PUZZLE_MODELS, 5.0),
        **dict.fromkeys(("cpu", "standard", "paper"), claims("CIFAR-10", 1)),
    },
    deviations=[
        *deviations("002_code"),
        Deviation(
            field="train.selection", paper="test", ours="validation", why="so that no test image selects"
        ),
    ],
)

if __name__ == "__main__":
    main(study)
