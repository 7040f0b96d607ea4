"""Does ViTRM keep its accuracy over batch sizes where ViTs and ResNets lose theirs?

Tables 1 and 2 of the ViTRM paper (002, section 4.3): seven models, five batch sizes, CIFAR-10 and CIFAR-100, one learning rate.
Published, CIFAR-10: ViTRM 92.6 to 91.2 %, ViT-Base 93.7 to 94.0 %, ResNet-50 92.0 to 84.2 % from batch 64 to 1024.
Read with it: the ResNets have the ImageNet stem on 32x32 images (the fair one, ResNet(stem="cifar"), is another question), and a
ViTRM costs 47 times the FLOPs of ResNet-18 an image, over 1,000 epochs instead of 300.
Cost: quick, about 4 minutes on 2 cores; standard, an hour or two on one GPU; paper, about 100 GPU hours: see --dry-run.

    python studies/vitrm_batch_size.py
    python studies/vitrm_batch_size.py --preset paper --address auto --only "data=CIFAR-10, model=ViTRM*"
"""

from recstudy import Augment, Place, RunConfig, Study, TrainConfig, grid, main, published
from recstudy.data import Cifar10, Cifar100, Digits
from recstudy.models import ResNet, ViT, ViTRM
from recstudy.report import Curve, LearningCurves, Table

TABLE1, TABLE2 = published("002_table1_cifar10"), published("002_table2_cifar100")

BASELINE = {"train.epochs": 300, "train.warmup": 1 / 30, "train.ema_decay": 0.0}  # section 4.2; 10 epochs of warm-up
MODELS = {
    "ViTRM": {"model": ViTRM()},
    "ViT-Small": {"model": ViT(size="small"), **BASELINE},
    "ViT-Base": {"model": ViT(size="base"), **BASELINE},
    "ViT-Large": {"model": ViT(size="large"), **BASELINE},
    "ResNet-18": {"model": ResNet(depth=18), **BASELINE},
    "ResNet-34": {"model": ResNet(depth=34), **BASELINE},
    "ResNet-50": {"model": ResNet(depth=50), **BASELINE},
}
SMALL = {
    "ViTRM": {"model": ViTRM(width=64, heads=4, layers=1, latent_tokens=8, patch=2, dropout=0.0)},
    "ViT": {"model": ViT(width=64, heads=4, layers=3, ffn_width=128, patch=2, dropout=0.0), "train.ema_decay": 0.0},
    "ResNet-18": {"model": ResNet(stem="imagenet"), "train.ema_decay": 0.0, "train.learning_rate": 1e-3},
}
ACROSS = {"x": "train.batch_size", "y": "top1_accuracy", "by": "model"}
BY_BATCH = [
    Curve("batch_sizes", **ACROSS, title="Top-1 accuracy against batch size"),
    Curve("robustness", **ACROSS, drop=True, title="What each model loses away from its best batch size"),
]

study = Study(
    name="vitrm_batch_size",
    presets={
        "quick": RunConfig(
            data=Digits(),
            model=ViTRM(width=64, heads=4, layers=1, latent_tokens=8, patch=2, dropout=0.0),
            train=TrainConfig(epochs=24, warmup=0.1, learning_rate=5e-3, ema_decay=0.98, augment=Augment(mixup=0.4)),
            place=Place(gpus_per_run=0),
        ),
        "standard": RunConfig(
            data=Cifar10(),
            model=ViTRM(),
            train=TrainConfig(
                epochs=100, warmup=0.05, precision="bfloat16", augment=Augment(crop=4, flip=True, randaugment_ops=2)
            ),
        ),
        "paper": RunConfig(
            data=Cifar10(),
            model=ViTRM(),
            train=TrainConfig(
                epochs=1000,
                warmup=0.03,
                precision="bfloat16",
                selection="test",
                augment=Augment(crop=4, flip=True, randaugment_ops=2, randaugment_magnitude=9, mixup=0.2, cutmix=1.0),
            ),
        ),
    },
    variants={
        "quick": grid({"model": SMALL, "train.batch_size": [32, 64, 128]}),
        "standard": grid(
            {
                "model": {name: {"model": MODELS[name]["model"]} for name in ("ViTRM", "ViT-Small", "ResNet-18")},
                "train.batch_size": [64, 256, 1024],
            }
        ),
        "paper": grid(
            {
                "data": {"CIFAR-10": Cifar10(), "CIFAR-100": Cifar100(statistics="cifar10")},
                "model": MODELS,
                "train.batch_size": [64, 128, 256, 512, 1024],
            }
        ),
    },
    seeds={"quick": 3, "standard": 1, "paper": 3},
    report={
        "quick": [Table("table1", rows="model", columns="batch_size", targets=TABLE1), *BY_BATCH, LearningCurves()],
        "standard": [Table("table1", rows="model", columns="batch_size", targets=TABLE1), *BY_BATCH, LearningCurves()],
        "paper": [
            Table("table1_cifar10", rows="model", columns="batch_size", where={"data": "CIFAR-10"}, targets=TABLE1),
            Table("table2_cifar100", rows="model", columns="batch_size", where={"data": "CIFAR-100"}, targets=TABLE2),
            Curve("cifar10", **ACROSS, where={"data": "CIFAR-10"}, targets=TABLE1),
            Curve("cifar100", **ACROSS, where={"data": "CIFAR-100"}, targets=TABLE2),
            Curve("robustness_cifar10", **ACROSS, drop=True, where={"data": "CIFAR-10"}, targets=TABLE1),
            Curve("robustness_cifar100", **ACROSS, drop=True, where={"data": "CIFAR-100"}, targets=TABLE2),
            LearningCurves(),
        ],
    },
)

if __name__ == "__main__":
    main(study)
