"""Checkpoints of HRM and TRM as their authors' code writes them, as weights of our networks.

Their names were read from `sapientinc/HRM` (models/hrm/hrm_act_v1.py) and `SamsungSAILMontreal/TinyRecursiveModels`
(models/recursive_reasoning/trm.py). What is stored otherwise there than here:

    gate_up_proj    gate, then up; our SwiGLU has (u, g), so that the halves change places
    puzzle_emb      rows of at most D numbers, which their code fills up with zeros to D x prefix; ours has rows of D
    H_init, L_init  in the precision of the forward pass
    all names       plain, or behind `_orig_mod.` (torch.compile), `module.` and `model.` (the loss around it)

The order of qkv_proj (queries, keys, values, each head by head), the rotary pairs and the scale of the embeddings are ours.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import torch
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor, nn

from recstudy.errors import ConfigError, DataError, choices
from recstudy.models.networks.sequence import SequenceNetwork
from recstudy.models.networks.weight_files import check_names, check_shape, public_names, read_weights
from recstudy.models.sequence import HRM, TRM
from recstudy.records.reading import fault

Family = Literal["hrm", "trm"]
WRAPPED = re.compile(r"^(?:(?:_orig_mod|module|model)\.)*(?:inner\.)?")
NAMES = {
    r"^embed\.weight$": "embed_tokens.embedding_weight",
    r"^places$": "embed_pos.embedding_weight",
    r"^puzzle\.weight$": "puzzle_emb.weights",
    r"^answer\.": "lm_head.",
    r"^core\.z_high$": "H_init",
    r"^core\.z_low$": "L_init",
    r"^core\.f_high\.": "H_level.layers.",
    r"^core\.f(_low)?\.": "L_level.layers.",
    r"\.mix\.qkv\.": ".self_attn.qkv_proj.",
    r"\.mix\.out\.": ".self_attn.o_proj.",
    r"\.mix\.(?=up|down)": ".mlp_t.",
    r"\.ffn\.": ".mlp.",
    r"\.up\.": ".gate_up_proj.",
    r"\.down\.": ".down_proj.",
}  # our names to theirs, by pattern, one after another
MODULES = {"hrm": ("hrm_act_v1", "hrm"), "trm": ("trm",)}  # of their code, by which an `arch` is named
COUNTS: dict[Family, dict[str, int]] = {
    "hrm": {"H_cycles": 2, "L_cycles": 2, "H_layers": 4, "L_layers": 4},
    "trm": {"H_cycles": 3, "L_cycles": 6, "H_layers": 0, "L_layers": 2},
}  # of the authors' config/arch/*.yaml


class Arch(BaseModel):
    """The `arch` block of the authors' configs, with its defaults; what only trains stands in `loss` and the like."""

    model_config = ConfigDict(extra="allow")

    name: str = ""
    H_cycles: int
    L_cycles: int
    H_layers: int
    L_layers: int
    hidden_size: int = 512
    num_heads: int = 8
    expansion: float = 4
    pos_encodings: str = "rope"
    mlp_t: bool = False
    puzzle_emb_len: int = 16  # of TRM
    no_ACT_continue: bool = True
    halt_max_steps: int = 16
    rms_norm_eps: float = Field(1e-5, ge=1e-5, le=1e-5)
    rope_theta: float = Field(10_000, ge=10_000, le=10_000)


UNREAD = ("loss", "halt_exploration_prob", "forward_dtype", "puzzle_emb_ndim", "causal")  # of training, or told by the file


def read_arch(path: Path | None, family: Family) -> Arch:
    """Return the `arch` of an `all_config.yaml`, or of the authors' own file of it; their defaults without a file.

    Raises:
        ConfigError: no such file, another model, or a setting that ours has not.
    """
    if path is None:
        return Arch(**COUNTS[family])
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        block = found.get("arch", found)
        arch = Arch(**{**COUNTS[family], **block})
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. Give the all_config.yaml beside the checkpoint.") from None
    except ValidationError as error:
        raise ConfigError(f"{path}: arch: {fault(error)}") from None
    except (yaml.YAMLError, AttributeError, TypeError, ValueError) as error:
        said = " ".join(str(error).split())
        raise ConfigError(f"{path} has no arch of a model ({said}). Give the all_config.yaml beside the checkpoint.") from None
    module = arch.name.partition("@")[0].rpartition(".")[2]
    if module and module not in MODULES[family]:
        raise ConfigError(f"{path}: arch.name is {arch.name!r}, but --as {family} reads {choices(MODULES[family])}")
    others = {name: value for name, value in (arch.model_extra or {}).items() if value and name not in UNREAD}
    if others:
        told = ", ".join(f"{name}={value}" for name, value in others.items())
        raise ConfigError(f"{path}: {told}: our {family.upper()} has no such setting, and would compute something else")
    return arch


def official_model(family: Family, arch: Arch, found: Mapping[str, Tensor]) -> HRM | TRM:
    """Return the config of our network that computes what theirs did.

    Raises:
        ConfigError, DataError: ours cannot.
    """
    table = found.get("puzzle_emb.weights")
    if table is None or table.ndim != 2 or table.shape[1] > arch.hidden_size:
        shape = "is missing" if table is None else f"is of shape {tuple(table.shape)}"
        raise DataError(
            f"puzzle_emb.weights {shape}, but must be (puzzles, 1 to {arch.hidden_size}): our sequences begin with one such row"
        )
    if arch.expansion != int(arch.expansion):
        raise ConfigError(f"arch.expansion must be a whole number, but got {arch.expansion}")
    known = ("rope", "learned", *(["none"] if arch.mlp_t else []))
    if arch.pos_encodings not in known:
        raise ConfigError(f"arch.pos_encodings must be {choices(known)}, but got {arch.pos_encodings!r}")
    shared: dict[str, Any] = {
        "tokens": "cell",
        "width": arch.hidden_size,
        "heads": arch.num_heads,
        "expansion": int(arch.expansion),
        "positions": "learned" if arch.pos_encodings == "learned" else "rotary",
        "mixing": "mlp" if arch.mlp_t else "attention",
        "puzzle_emb": "puzzle",
        "identifiers": len(table),
    }
    if family == "hrm":
        layers = {"high_layers": arch.H_layers, "low_layers": arch.L_layers}
        return HRM(**shared, **layers, prefix=1, high_cycles=arch.H_cycles, low_cycles=arch.L_cycles)
    act = "halt only" if arch.no_ACT_continue else "continue"
    prefix = arch.puzzle_emb_len or 1
    return TRM(**shared, layers=arch.L_layers, prefix=prefix, cycles=arch.H_cycles, latent_steps=arch.L_cycles, act=act)


def read_official(path: Path) -> dict[str, Tensor]:
    """Return the weights of a checkpoint by their plain names, such as `L_level.layers.0.mlp.down_proj.weight`.

    Raises:
        DataError: the file cannot be read, or holds other things than tensors.
    """
    return {WRAPPED.sub("", str(name)): value for name, value in read_weights(path).items()}


def from_official(network: SequenceNetwork, found: Mapping[str, Tensor], path: object) -> dict[str, Tensor]:
    """Return the state of our network from weights by the authors' plain names.

    Args:
        network: HRM or TRM on cells; its shapes are what is asked for.
        found: as `read_official` gives them.
        path: named in messages.

    Raises:
        DataError: a weight is missing, unknown, or of another shape.
    """
    names = public_names(network, NAMES)
    check_names(path, f"a checkpoint of {network.config.title} as set here", names.values(), found)
    state = {}
    for own, value in network.state_dict().items():
        theirs = found[names[own]]
        if own == "puzzle.weight" and theirs.ndim == 2 and theirs.shape[1] < value.shape[1]:
            theirs = nn.functional.pad(theirs, (0, value.shape[1] - theirs.shape[1]))
        check_shape(path, names[own], value, theirs)
        if own.endswith(".up.weight"):
            theirs = torch.cat(theirs.chunk(2)[::-1])
        state[own] = theirs.to(value.dtype)
    return state
