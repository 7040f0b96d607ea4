"""How many latent steps does TRM need? Start the authors' training script per L_cycles and seed.

`pretrain.py` in this folder is a stand-in with the command line of the real script. It trains in a second and
logs its metrics to W&B only, as the script does. Cost: 8 runs, a second each.

    python studies/examples/trm_pretrain/l_cycles.py

For the real script (https://github.com/SamsungSAILMontreal/TinyRecursiveModels):

1. Set folder="~/TinyRecursiveModels" and the options of its README, such as
   data_paths=[data/sudoku-extreme-1k-aug-1000] epochs=50000 eval_interval=5000 lr=1e-4 puzzle_emb_lr=1e-4
   weight_decay=1.0 puzzle_emb_weight_decay=1.0 arch.mlp_t=True arch.pos_encodings=none. Keep seed={seed} and
   +checkpoint_path={folder}.
2. Use settings={"epochs": 50000, "arch": {"H_cycles": 3, "L_cycles": 6}} and Metric(items=422_786), the
   number of test puzzles of Sudoku-Extreme, without is_synthetic.
3. Set minutes=2400 and add --gpus 1, or --gpus 4 with torchrun --nproc-per-node 4. The README says up to 20
   hours of an L40S for a run.
4. Name the Python of its environment by its full path, such as ~/trm/bin/python.
5. `checkpoint_path` is removed when a run has ended; use another path to keep the weights. The script does
   not resume by itself, so an interrupted run starts again.
"""

from recstudy import Claim, Command, Metric, Study, Wandb, grid, main
from recstudy.report import Curve, LearningCurves, Table

program = Command(
    "python pretrain.py arch=trm data_paths=[rows] evaluators=[] epochs={epochs} eval_interval=10"
    " arch.L_layers=2 arch.H_cycles={arch.H_cycles} arch.L_cycles={arch.L_cycles} seed={seed}"
    " +checkpoint_path={folder} ema=True",
    folder=".",  # of this file
    metrics=Wandb("all/exact_accuracy"),  # the script needs no W&B
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
