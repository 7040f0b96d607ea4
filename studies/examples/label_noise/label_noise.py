"""How much do wrong labels cost a perceptron?

Cost: 15 runs, a second in total.

    python studies/examples/label_noise/label_noise.py --no-ray
"""

from recstudy import Claim, Command, JsonFile, Metric, Study, grid, main
from recstudy.report import Curve, LearningCurves, Table

program = Command(
    "python perceptron.py --noise {noise} --seed {seed} --out {folder}",
    metrics=JsonFile("metrics.json"),
    progress=r"epoch (?P<epoch>\d+) accuracy (?P<accuracy>\S+)",
    minutes=10,
    data="Generated points",
    is_synthetic=True,
)
study = Study(
    "label_noise",
    program=program,
    settings={"noise": 0.0},
    metrics={"accuracy": Metric("%", items=1000)},
    variants=grid({"noise": [0.0, 0.2, 0.4]}),
    seeds=5,
    claims=[
        Claim("40 % of wrong labels cost five points", lower={"noise": 0.4}, higher={"noise": 0.0}, margin=5)
    ],
    report=[Table("results"), Curve("accuracy_by_noise", x="noise", y="accuracy"), LearningCurves()],
)

if __name__ == "__main__":
    main(study)
