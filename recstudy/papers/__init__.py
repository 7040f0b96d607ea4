"""Published numbers, read from `recstudy/papers/`: the targets that a study's results stand beside; and the papers' names.

Files, ids and settings know a paper by its number; what a person reads has its name (`by_name`).
"""

import csv
import json
import re
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Any

from pydantic import Field

from recstudy.config import Config
from recstudy.errors import ConfigError, choices, nearest
from recstudy.explained import explained

# The papers' letters and the field that each one names. `model` and `data.name` stand for a row's model and data set.
FIELDS = {
    "batch_size": "train.batch_size",
    "n": "model.latent_steps",
    "n_sup": "train.supervision_steps",
    "backbone": "model.backbone",
    "K": "train.at_test.trajectories",
    "D": "train.at_test.segments",
    "sigma": "train.at_test.noise",
}
TOLD = (
    "hml",
    "paradigm",
    "effective_depth",
    "params_millions",
    "k",
    "attempts",
)  # the model's name or its other settings say them
# The letters of the TRM paper, by the beginning of a row's model: T and n are HRM's high and low cycles.
OF_TRM = {
    "TRM": {
        "T": "model.cycles", "n": "model.latent_steps", "layers": "model.layers", "mixing": "model.mixing", "act": "model.act",
        "networks": "model.networks", "ema": "train.ema_decay", "gradient": "model.gradient",
    },
    "HRM": {"T": "model.high_cycles", "n": "model.low_cycles", "layers": "model.high_layers"},
}  # fmt: skip
# What else a paper says about how its numbers were made: a result under another protocol is not comparable.
PROTOCOLS: dict[str, dict[str, Any]] = {
    "002": {"train.selection": "test"},  # section 4.1
    "004": {"train.selection": "last"},  # the final epoch's weights
    "000": {"data.size": 224, "data.length": 512, "model.weights": "pretrained", "model.tuned": False},  # sections III and V
    # section IV and the published code
    "003": {
        "data.size": 224, "data.tokenizer": "word", "data.clean": "report", "model.weights": "pretrained", "model.tuned": True,
        "train.selection": "validation",
    },
}  # fmt: skip
# How a paper calls its data sets, and what it sets on each (003, section IV).
DATA = {
    "covctr": "cov_ctr", "mmr": "mm_retinal", "pgross": "peir_gross", "sudoku_extreme_1k": "sudoku_extreme",
    "maze_hard_1k": "maze_hard", "arc_agi_1": "arc_agi", "arc_agi_2": "arc_agi",
}  # fmt: skip
SETS: dict[tuple[str, str], dict[str, Any]] = {
    ("003", "covctr"): {"data.length": 80},
    ("003", "mmr"): {"data.length": 60, "train.batch_size": 32},
    ("003", "pgross"): {"data.length": 30, "train.patience": 10},
    ("003", "roco"): {"data.length": 60, "train.patience": 10},
    ("trm", "sudoku_extreme_1k"): {"data.train_puzzles": 1000},
    ("ptrm", "sudoku_extreme_1k"): {"data.train_puzzles": 1000},
    **{
        ("trm", f"arc_agi_{version}"): {
            "data.version": version, "data.side": 30, "data.augmentations": 1000, "data.concept": True,
        }
        for version in (1, 2)
    },
}  # fmt: skip
# The variants that a table names in words.
VARIANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "w/o lb loss": {"model.balance": 0.0},
    "w/o moe": {"model.experts": 1, "model.top_k": 1},
    "w/o lenc": {"model.encoder_layers": 0},
    "w/o msve": {"model.msve": "off"},
}
# Settings by model that a study of that paper varies, and its tables do not print.
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("004", "HRM"): {"train.supervision_steps": 2},
    ("004", "CNN two-stage"): {"train.supervision_steps": 1, "train.evaluation_steps": 1},
    ("000", "ResNet+LSTM (Baseline)"): {
        "model.family": "image_lstm",
        "train.supervision_steps": 1,
        "train.evaluation_steps": 1,
    },
    # 000's "H/M/L Config" says which levels there are (contradiction 000-6); its cycles are blank, and 2 as in HRM.
    ("000", "ImageHRM (Dual)"): {"model.family": "image_hrm", "model.middle_cycles": 0},
    ("000", "ImageHRM (Triple)"): {"model.family": "image_hrm", "model.middle_cycles": 2},
    **{("000", f"ImageTRM ({name})"): {"model.family": "image_trm"} for name in ("ResNet", "Swin")},
    # Its integrated embedding stands for a token's (section III), and Table II is from after the leak was mended (000-7).
    ("000", "ImageTRM (FuseLIP)"): {"model.family": "image_trm", "model.fuselip.mode": "prefix_causal"},
    ("003", "MicarVLMoE"): {"model.family": "micar"},
    ("003", "ST"): {"model.family": "show_tell"},
    ("003", "SAT"): {
        "model.family": "show_attend_tell",
        "train.batch_size": 32,
        "train.learning_rate": 4e-4,
        "train.backbone_learning_rate": 1e-4,
        "train.gradient_clip": 5.0,
    },
    ("003", "Transformer"): {"model.family": "caption_transformer"},
    ("003", "R2Gen"): {"model.family": "r2gen"},
    **{("ptrm", name): {"model.family": "trm", "model.mixing": "mlp"} for name in ("TRM", "PTRM")},
}
# And those of one data set: 003 prints them for its own model.
OWN: dict[tuple[str, str, str], dict[str, Any]] = {
    ("003", "MicarVLMoE", "mmr"): {"model.activation": "gelu"},
    **{("003", "MicarVLMoE", name): {"model.encoder_layers": 3, "model.decoder_layers": 3} for name in ("pgross", "roco")},
}
OWN["003", "MicarVLMoE", "mmr"] |= OWN["003", "MicarVLMoE", "roco"]
# 000 names its backbones; the Swin of Table I is the Swin-Base of its sections III.B and V (contradiction 000-1).
WORDS = {"halt_only": "halt only", "q_continue": "continue"}  # of `act` in the TRM paper's table
BACKBONES = {"ResNet18": "resnet18", "Swin": "swin_b", "Swin-Tiny": "swin_t", "FuseLIP": "fuselip"}
# Why nothing of ours compares with a number, whatever its settings: by paper and the beginning of a model's name, or a unit.
LEAK = "from before the paper mended its leak of future words (000-7)"
AGAINST = {
    ("000", "ImageHRM"): LEAK,
    ("000", "ResNet+LSTM"): LEAK,
    ("000", "ImageTRM (FuseLIP)"): "the paper's FuseLIP was trained on CC3M before, with TiTok's codes of images",
}
# Scores of which 003 gives some as NLTK's METEOR and rouge_score's ROUGE-L, others as METEOR 1.5 and pycocoevalcap's (003-3).
SCORES = {("003", name): "the paper's table mixes two implementations of it (003-3)" for name in ("meteor", "rouge_l")}
SPLIT = "other test images: its split is drawn by image, ours by group"
SPLITS = {("003", name): SPLIT for name in ("covctr", "mmr", "pgross")}  # ROCO comes with its own
UNITS = {"cider (scale not stated)": "the paper states no scale of its CIDEr (000-13)"}
UNDEFINED = {"act_loss": "the paper does not define it, and gives one of a model without ACT (000-4)"}
METRICS = {  # the papers' names and ours
    "test_accuracy": "top1_accuracy",
    "test_accuracy_final": "top1_accuracy",
    "train_accuracy": "train_top1_accuracy",
    "seconds_per_epoch": "epoch_seconds",
    "ratescore": "rate_score",
    "best_q_at_100": "noisy_exact_accuracy.100",
    "params_imagehrm": "trained_params",  # the backbone is frozen
    "params_imagetrm": "trained_params",
}
# What a number belongs to where its row names several models: in 000's setup, "ImageHRM/ImageTRM".
OWNERS = {
    "params_imagehrm": "ImageHRM (Triple)",
    "params_imagetrm": "ImageTRM (ResNet)",
}
# 002 section 4.2, the author's repository of 004 and the setups of 000 and 003, by model or data set; "" is every other.
EPOCHS = {
    ("002", "ViTRM"): 1000, ("002", ""): 300, ("004", "mnist"): 3, ("004", ""): 25, ("000", ""): 50, ("003", "roco"): 30,
    ("003", ""): 100,
}  # fmt: skip

# A paper's number, by what stands before it or behind it.
NUMBER = re.compile(
    r"""
      ^(00[0-4]|trm|ptrm|arcprize)(?=:?\ \S)             # a source, a claim: 002 Table 1, 004: HRM is
    | (?<![\w.,#/+-])(?:
      [Pp]aper\ (00[0-4])\b(?![.,]\d)                    # paper 002
    | (?:(?<=\bof\ )|(?<=\bthat\ ))(00[0-4])\b(?![.,]\d) # Table III of 003, numbers that 003 takes over
    | (?<=\()(00[0-4])(?=[,;)])                          # (002), (000, section III.D)
    | (?<=:\ )(00[0-4])(?=\ [a-z]+s\b)                   # read with it: 003 scores
    | (00[0-4])(?=
          -\d{1,2}\b | 's\b | :\                         # contradiction 002-8, 003's, 004: HRM is
        | ,?\ (?:\d+\.\d | [IVX]+\b | [Ss]ections?\b | (?:TABLE|Table|Figure)s?\b | text\b | abstract\b | arithmetic\b | setup\b)
      )
    )""",
    re.VERBOSE,
)
TWICE = re.compile(r"((\S+) paper) \(\2(?:(, )|\))")  # the ViTRM paper (002, section 4.4)


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
    assumed: str = Field("", description="what its paper leaves blank and we take it to be, such as `N_sup was 16`")
    approximate: bool = Field(False, description="whether its paper gives it as about so much")
    decimals: int | None = Field(None, ge=0, description="as printed")
    margin: float = Field(description="results within this distance count as equal, in `unit`")

    @property
    def cited(self) -> str:
        """The source as a person reads it: `ViTRM Table 1 (002_table1_cifar10#3)`."""
        return by_name(self.source)


@explained
def published(table: str, margin: float = 0.5, only: Collection[str] = ()) -> tuple[Target, ...]:
    """The numbers of one published table.

    Args:
        table: file name in `recstudy/papers/` without its ending, such as `002_table1_cifar10`.
        margin: for the verdict `reproduced`: how far off still counts as equal, in the table's unit, or in percentage points
            of a fraction (default: half a point, about the spread between seeds that papers on these data sets report).
        only: these of its metrics, by their published names; all by default.

    Values that are no number (a split of `8:1:1`, an activation `silu`) are settings and no targets; they are left out.

    Raises:
        ConfigError: no such table, no such metric, or one that is a setting.
    """
    given = [row for row in rows(table) if row["value"]]
    numbers = [row for row in given if _is_number(row["value"])]
    metrics, settings = {row["metric"] for row in numbers}, {row["metric"]: row["value"] for row in given}
    for name in only:
        if name not in metrics:
            setting = (
                f"{name!r} in {table} is a setting ({settings[name]})" if name in settings else f"no metric {name!r} in {table}"
            )
            raise ConfigError(f"{setting}: there are {choices(sorted(metrics))}.{nearest(name, metrics)}")
    return tuple(_target(row, margin) for row in numbers if not only or row["metric"] in only)


def rows(table: str) -> list[dict[str, str]]:
    """A published table as it stands in its file.

    Raises:
        ConfigError: there is none of this name.
    """
    folder = files("recstudy").joinpath("papers")
    known = sorted(file.name.removesuffix(".csv") for file in folder.iterdir() if file.name.endswith(".csv"))
    if table not in known:
        raise ConfigError(f"no published table {table!r}: there are {choices(known)}.{nearest(table, known)}")
    return list(csv.DictReader(folder.joinpath(f"{table}.csv").read_text(encoding="utf-8").splitlines()))


@cache
def papers() -> dict[str, dict[str, str]]:
    """Name, title and address of each paper, by the number or word that files and sources begin with."""
    import yaml

    return yaml.safe_load(files("recstudy").joinpath("papers/index.yaml").read_text(encoding="utf-8"))["papers"]


def named(item: str) -> str:
    """`002 Figure 2` as `ViTRM, Figure 2`."""
    paper, _, place = item.partition(" ")
    return f"{papers()[paper]['name']}, {place}"


def by_name(text: str) -> str:
    """The text with the papers' names for their numbers: `002 4.4.2: more steps` as `ViTRM 4.4.2: more steps`, `002-8` as
    `ViTRM-8`. Numbers that stand for no paper stay: 0.002, 1,002, `seed 003`, and the row in `002_table1_cifar10#3`.
    """
    words = NUMBER.sub(lambda match: papers()[match[match.lastindex or 0]]["name"], text)
    return TWICE.sub(lambda match: match[1] + " (" * bool(match[3]), words)


def _is_number(text: str) -> bool:
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _target(row: dict[str, str], margin: float) -> Target:
    paper = row["id"].partition("_")[0]
    model = OWNERS.get(row["metric"], row["model"])
    keys = [(paper, row["model"]), (paper, row["dataset"]), (paper, "")]
    epochs = next((EPOCHS[key] for key in keys if key in EPOCHS), None)
    name = row["dataset"]
    settings = SETS.get((paper, name), {}) | SETTINGS.get((paper, model), {}) | OWN.get((paper, model, name), {})
    settings |= _of_trm(row) if paper == "trm" else {}
    where = {"data.name": DATA.get(name, name)} | ({} if "model.family" in settings else {"model": model})
    where |= PROTOCOLS.get(paper, {}) | settings | ({"train.epochs": epochs} if epochs else {})
    where |= {} if paper == "trm" else _stated(row)
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
        assumed=row.get("assumed", ""),
        approximate=row.get("approximate") == "yes",
        decimals=len(row["value"].partition(".")[2]),
        margin=margin / 100 if row["unit"] == "fraction" else margin,
    )


def _stated(row: dict[str, str]) -> dict[str, Any]:
    """What the row itself says of its settings, in our fields and words."""
    stated = {letter: value for letter, value in json.loads(row["config"] or "{}").items() if letter not in TOLD}
    variant = VARIANTS.get(stated.pop("variant", ""), {})
    named = {letter: BACKBONES.get(value, value) if isinstance(value, str) else value for letter, value in stated.items()}
    return {FIELDS.get(letter, letter): value for letter, value in named.items()} | variant


def _of_trm(row: dict[str, str]) -> dict[str, Any]:
    """What the TRM paper says of a row whose family is known, which is found by its settings and not by its name."""
    model, stated = row["model"], json.loads(row["config"] or "{}")
    family = next((name for name in OF_TRM if model.startswith(name)), "")
    if not family:
        return {}
    fields = OF_TRM[family]
    known = {
        fields.get(letter, f"model.{letter}"): WORDS.get(value, value) for letter, value in stated.items() if letter not in TOLD
    }
    if "model.high_layers" in known:
        known["model.low_layers"] = known["model.high_layers"]
    mixing = {"TRM-Att": {"model.mixing": "attention"}, "TRM-MLP": {"model.mixing": "mlp"}}.get(model, {})
    return {"model.family": family.lower(), **known, **mixing}


def _against(paper: str, row: dict[str, str]) -> tuple[str, ...]:
    old = [reason for (of, start), reason in AGAINST.items() if of == paper and row["model"].startswith(start)]
    old = old if row["item"].startswith("TABLE") else []
    mixed = SCORES.get((paper, row["metric"]))
    split = SPLITS.get((paper, row["dataset"]))
    return tuple(reason for reason in (UNDEFINED.get(row["metric"]), UNITS.get(row["unit"]), mixed, split, *old) if reason)
