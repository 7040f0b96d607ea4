"""A stand-in for the training script of TinyRecursiveModels: the same command line and log, in seconds.

    python pretrain.py arch=trm epochs=30 eval_interval=10 arch.H_cycles=1 arch.L_cycles=4 seed=1
    +checkpoint_path=out

Options are Hydra's overrides: `key=value` changes a known key, `+key=value` adds one.

The task: in a row of cells, mark every cell to the right of a marked one. The network is one rule for all
cells, which sees a cell and its left neighbor, and is applied H_cycles * L_cycles times. Each step passes a
mark on by one cell, so that few steps cannot solve a row with a far mark.
"""

import sys
from pathlib import Path

import numpy as np
import wandb

CELLS, TRAIN_ROWS, TEST_ROWS = 12, 512, 1000
DEFAULTS = {
    "arch": "trm",
    "arch.H_cycles": 3,
    "arch.L_cycles": 6,
    "arch.L_layers": 2,
    "checkpoint_every_eval": True,
    "data_paths": "[rows]",
    "ema": False,
    "epochs": 30,
    "eval_interval": 10,
    "evaluators": "[]",
    "global_batch_size": 64,
    "lr": 0.1,
    "seed": 0,
    "weight_decay": 0.0,
}


def read_config(overrides):
    """Return the defaults with overrides, as numbers where the defaults are numbers."""
    config = dict(DEFAULTS)
    for override in overrides:
        key, _, value = override.partition("=")
        if not key.startswith("+") and key not in config:
            sys.exit(
                f"Could not override '{key}'. Key is not in the config. To append to your config use"
                f" +{override}"
            )
        key = key.removeprefix("+")
        is_number = isinstance(config.get(key), (int, float)) and not isinstance(config.get(key), bool)
        config[key] = type(config[key])(value) if is_number else value
    return config


def draw_rows(random, count):
    """Return rows with few marks, and their answers."""
    rows = (random.random((count, CELLS)) < 0.1).astype(float)
    return rows, np.maximum.accumulate(rows, axis=1)


def apply_rule(weights, rows, steps):
    """Return the states before each step and after the last one, of every cell."""
    states = [np.zeros_like(rows)]
    for _ in range(steps):
        left = np.pad(states[-1], ((0, 0), (1, 0)))[:, :-1]
        states.append(
            1 / (1 + np.exp(-(weights[0] * rows + weights[1] * left + weights[2] * states[-1] + weights[3])))
        )
    return states


def gradient_of(weights, rows, answers, steps):
    """Return the gradient of the mean cross-entropy, through all steps."""
    states = apply_rule(weights, rows, steps)
    slope, gradient = (states[-1] - answers) / rows.size, np.zeros(4)
    for step in reversed(range(steps)):
        left = np.pad(states[step], ((0, 0), (1, 0)))[:, :-1]
        gradient += [np.sum(slope * value) for value in (rows, left, states[step], np.ones_like(rows))]
        to_left = np.pad(slope, ((0, 0), (0, 1)))[:, 1:]
        slope = (weights[2] * slope + weights[1] * to_left) * states[step] * (1 - states[step])
    return gradient


def main():
    config = read_config(sys.argv[1:])
    steps, batch = config["arch.H_cycles"] * config["arch.L_cycles"], config["global_batch_size"]
    random = np.random.default_rng(config["seed"])
    rows, answers = draw_rows(random, TRAIN_ROWS)
    test_rows, test_answers = draw_rows(random, TEST_ROWS)
    weights, speed, step = random.normal(0, 0.5, 4), np.zeros(4), 0
    wandb.init(project="rows", config=config)
    for epoch in range(0, config["epochs"], config["eval_interval"]):
        print(f"[Rank 0, World Size 1]: Epoch {epoch}")
        print("TRAIN")
        for _ in range(config["eval_interval"] * TRAIN_ROWS // batch):
            chosen = random.integers(TRAIN_ROWS, size=batch)
            gradient = gradient_of(weights, rows[chosen], answers[chosen], steps)
            speed = 0.9 * speed + gradient / max(1.0, float(np.linalg.norm(gradient)))
            weights = weights - config["lr"] * speed
            step += 1
        print(f"\r{step} steps", end="\r", file=sys.stderr)
        print("EVALUATE")
        exact = np.mean(
            np.all((apply_rule(weights, test_rows, steps)[-1] > 0.5) == (test_answers > 0.5), axis=1)
        )
        wandb.log({"all": {"exact_accuracy": exact}}, step=step)
        if "checkpoint_path" in config:
            print("SAVE CHECKPOINT")
            folder = Path(config["checkpoint_path"])
            folder.mkdir(parents=True, exist_ok=True)
            np.save(folder / f"step_{step}.npy", weights)
    wandb.finish()


if __name__ == "__main__":
    main()
