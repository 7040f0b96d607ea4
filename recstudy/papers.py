"""Published numbers, read from `recstudy/papers/`: the targets that a study's results stand beside."""

import csv
import json
from collections.abc import Collection
from importlib.resources import files
from typing import Any

from pydantic import Field

from recstudy.config import Config
from recstudy.errors import ConfigError, choices, nearest

# The papers' letters and the field that each one names. `model` and `data.name` stand for a row's model and data set.
FIELDS = {
    "batch_size": "train.batch_size",
    "n": "model.latent_steps",
    "n_sup": "train.supervision_steps",
    "backbone": "model.backbone",
}
TOLD = ("hml", "paradigm")  # 000: the model's name says them
# What else a paper says about how its numbers were made: a result under another protocol is not comparable.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "002": {"train.selection": "test"},  # section 4.1
    "004": {"train.selection": "last"},  # the final epoch's weights
    "000": {"data.size": 224, "data.length": 512, "model.weights": "pretrained", "model.tuned": False},  # sections III and V
}
# Settings by model that a study of that paper varies, and its tables do not print.
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("004", "HRM"): {"train.supervision_steps": 2},
    ("004", "CNN two-stage"): {"train.supervision_steps": 1, "train.evaluation_steps": 1},
    ("000", "ResNet+LSTM (Baseline)"): {"model.family": "image_lstm"},
    # 000's "H/M/L config" says which levels there are (contradiction 000-6); its cycles are blank, and 2 as in HRM.
    ("000", "ImageHRM (Dual)"): {"model.family": "image_hrm", "model.middle_cycles": 0},
    ("000", "ImageHRM (Triple)"): {"model.family": "image_hrm", "model.middle_cycles": 2},
    **{("000", f"ImageTRM ({name})"): {"model.family": "image_trm"} for name in ("ResNet", "Swin", "FuseLIP")},
}
# 000 names its backbones; the Swin of Table I is the Swin-Base of its sections III.B and V (contradiction 000-1).
BACKBONES = {"ResNet18": "resnet18", "Swin": "swin_b", "Swin-Tiny": "swin_t", "FuseLIP": "fuselip"}
# Why nothing of ours compares with a number, whatever its settings: by paper and the beginning of a model's name, or a unit.
LEAK = "from before the paper mended its leak of future words (000-7)"
AGAINST = {("000", "ImageHRM"): LEAK, ("000", "ResNet+LSTM"): LEAK}
UNITS = {"cider (scale not stated)": "the paper states no scale of its CIDEr (000-13)"}
UNDEFINED = {"act_loss": "the paper does not define it, and gives one of a model without ACT (000-4)"}
METRICS = {  # the papers' names and ours
    "test_accuracy": "top1_accuracy",
    "test_accuracy_final": "top1_accuracy",
    "train_accuracy": "train_top1_accuracy",
    "seconds_per_epoch": "epoch_seconds",
    "params_imagehrm": "trained_params",  # the backbone is frozen
    "params_imagetrm": "trained_params",
}
# What a number belongs to where its row names several models: in 000's setup, "ImageHRM/ImageTRM".
OWNERS = {
    "params_imagehrm": "ImageHRM (Triple)",
    "params_imagetrm": "ImageTRM (ResNet)",
}
# 002 section 4.2 and the author's repository of 004, by model or data set; "" is every other.
EPOCHS = {("002", "ViTRM"): 1000, ("002", ""): 300, ("004", "mnist"): 3, ("004", ""): 25, ("000", ""): 50}


class Target(Config):
    """One published number, where it stands, and the settings it was obtained with."""

    source: str = Field(description="paper, place and row, such as `002 Table 1 (002_table1_cifar10#3)`")
    metric: str
    value: float = Field(description="in `unit`")
    unit: str
    kind: str = Field(description="reported, derived or author_repo")
    note: str = ""
    model: str = Field("", description="the name that the paper gives it")
    where: dict[str, Any] = Field(description="by dotted field; None where the paper leaves the value blank")
    against: tuple[str, ...] = Field((), description="why it compares with no result, whatever the settings")
    decimals: int | None = Field(None, ge=0, description="as printed")
    margin: float = Field(description="results within this distance count as equal, in `unit`")


def published(table: str, margin: float = 0.5, only: Collection[str] = ()) -> tuple[Target, ...]:
    """The numbers of one published table.

    Args:
        table: file name in `recstudy/papers/` without its ending, such as `002_table1_cifar10`.
        margin: for the verdict `reproduced`: how far off still counts as equal, in the table's unit, or in percentage points
            of a fraction (default: half a point, about the spread between seeds that papers on these data sets report).
        only: these of its metrics, by their published names; all by default.
    """
    folder = files("recstudy").joinpath("papers")
    known = sorted(file.name.removesuffix(".csv") for file in folder.iterdir() if file.name.endswith(".csv"))
    if table not in known:
        raise ConfigError(f"no published table {table!r}: there are {choices(known)}.{nearest(table, known)}")
    text = folder.joinpath(f"{table}.csv").read_text(encoding="utf-8")
    rows = [row for row in csv.DictReader(text.splitlines()) if row["value"]]
    metrics = {row["metric"] for row in rows}
    for name in only:
        if name not in metrics:
            raise ConfigError(f"no metric {name!r} in {table}: there are {choices(sorted(metrics))}.{nearest(name, metrics)}")
    return tuple(_target(row, margin) for row in rows if not only or row["metric"] in only)


def _target(row: dict[str, str], margin: float) -> Target:
    paper = row["id"][:3]
    model = OWNERS.get(row["metric"], row["model"])
    keys = [(paper, row["model"]), (paper, row["dataset"]), (paper, "")]
    epochs = next((EPOCHS[key] for key in keys if key in EPOCHS), None)
    settings = SETTINGS.get((paper, model), {})
    where = {"data.name": row["dataset"]} | ({} if "model.family" in settings else {"model": model}) | _stated(row)
    where |= PROTOCOLS.get(paper, {}) | settings | ({"train.epochs": epochs} if epochs else {})
    return Target(
        source=f"{paper} {row['item']} ({row['id']})",
        metric=METRICS.get(row["metric"], row["metric"]),
        value=float(row["value"]),
        unit=row["unit"],
        kind=row["kind"],
        note=row["note"],
        model=model,
        where=where,
        against=_against(paper, row),
        decimals=len(row["value"].partition(".")[2]),
        margin=margin / 100 if row["unit"] == "fraction" else margin,
    )


def _stated(row: dict[str, str]) -> dict[str, Any]:
    """What the row itself says of its settings, in our fields and words."""
    stated = {letter: value for letter, value in json.loads(row["config"] or "{}").items() if letter not in TOLD}
    return {FIELDS.get(letter, letter): BACKBONES.get(value, value) for letter, value in stated.items()}


def _against(paper: str, row: dict[str, str]) -> tuple[str, ...]:
    old = [reason for (of, start), reason in AGAINST.items() if of == paper and row["model"].startswith(start)]
    old = old if row["item"].startswith("TABLE") else []
    return tuple(reason for reason in (UNDEFINED.get(row["metric"]), UNITS.get(row["unit"]), *old) if reason)
