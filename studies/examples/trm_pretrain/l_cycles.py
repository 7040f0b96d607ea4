"""How many latent steps does TRM need? The training script of its authors, started once for each L_cycles and
seed.

`pretrain.py` beside this file is a stand-in with the command line and the output of the real one, so that
this study runs anywhere. docs/how-to/own-program.md says what to change for the real one. Cost: 8 runs, a
second each.

    python studies/examples/trm_pretrain/l_cycles.py
"""

from recstudy import Claim, Command, LastLine, Metric, Study, grid, main
from recstudy.report import Curve, LearningCurves, Table

EVALUATION = r"step (?P<step>\d+): exact_accuracy (?P<exact_accuracy>\S+)"

program = Command(
    "python pretrain.py arch=trm data_paths=[rows] evaluators=[] epochs={epochs} eval_interval=10"
    " arch.L_layers=2 arch.H_cycles={arch.H_cycles} arch.L_cycles={arch.L_cycles} seed={seed}"
    " +checkpoint_path={folder} ema=True",
    folder=".",  # of this file
    metrics=LastLine(EVALUATION),
    progress=EVALUATION,
    environment={"WANDB_MODE": "offline"},
    minutes=60,
    title="TRM (stand-in)",
    data="Rows of cells",
    is_synthetic=True,
)

study = Study(
    "trm_l_cycles",
    program=program,
    settings={"epochs": 30, "arch": {"H_cycles": 1, "L_cycles": 6}},
    metrics={"exact_accuracy": Metric(items=1000)},
    variants=grid({"arch.L_cycles": [1, 2, 4, 8]}),
    seeds=2,
    claims=[
        Claim(
            "Eight latent steps solve more than four",
            lower={"L_cycles": 4},
            higher={"L_cycles": 8},
            margin=0.1,
        ),
    ],
    report=[
        Table("results"),
        Curve("exact_accuracy_by_latent_steps", x="L_cycles", y="exact_accuracy"),
        LearningCurves(),
    ],
)

if __name__ == "__main__":
    main(study)
