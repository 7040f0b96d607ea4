"""Read checkpoints of the authors' code of HRM and TRM, and write weights in their format.

The names come from `sapientinc/HRM` (models/hrm/hrm_act_v1.py) and `SamsungSAILMontreal/TinyRecursiveModels`
(models/recursive_reasoning/trm.py, trm_singlez.py, and trm_hier6.py with a multi-scale z). They differ from
recstudy's in:

    gate_up_proj    has (gate, up); our SwiGLU has (u, g), so the halves are exchanged
    puzzle_emb      has rows of at most D numbers, which their code pads with zeros to D x prefix; ours have D
    H_init, L_init  have the precision of the forward pass; a single z has only L_init, which is our z_high;
                    a multi-scale z has L1_init to L6_init, which are our z_low one after another
    all names       are plain, or follow `_orig_mod.` (torch.compile), `module.` and `model.` (the loss)

The order of qkv_proj (queries, keys, values, each by head), the rotary pairs and the scale of the embeddings
are the same. `recstudy weights` calls these functions.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError
from torch import Tensor, nn

from recstudy.base.errors import ConfigError, DataError, choices
from recstudy.base.strict_yaml import read_yaml
from recstudy.records.files import Json
from recstudy.records.reading import fault
from recstudy.recursive.config.parts import Count
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.models.hrm import HRM
from recstudy.recursive.models.networks.sequence import SequenceNetwork
from recstudy.recursive.models.networks.weight_files import check_weights, public_names, read_weights
from recstudy.recursive.models.trm import TRM

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
}  # pattern of our name -> their name; the rules are applied in order
PREFIX = (
    "_orig_mod.model.inner."  # prefix of names in a file: their trainer saves the compiled loss and model
)
# Module of their code -> states of our TRM.
STATES = {"trm": "answer and latent", "trm_singlez": "single", "trm_hier6": "multi-scale"}
MODULES = {"hrm": ("hrm_act_v1", "hrm"), "trm": tuple(STATES)}  # family -> allowed modules in `arch.name`
FIXED = {"rms_norm_eps": 1e-5, "rope_theta": 10_000}  # their settings that are constants in our layers
COUNTS: dict[Family, dict[str, int]] = {
    "hrm": {"H_cycles": 2, "L_cycles": 2, "H_layers": 4, "L_layers": 4},
    "trm": {"H_cycles": 3, "L_cycles": 6, "H_layers": 0, "L_layers": 2},
}  # defaults of the authors' config/arch/*.yaml
SIZES = {"hidden_size": "width", "num_heads": "heads", "expansion": "expansion"}
FIELDS: dict[Family, dict[str, str]] = {
    "hrm": SIZES
    | {
        "H_cycles": "high_cycles",
        "L_cycles": "low_cycles",
        "H_layers": "high_layers",
        "L_layers": "low_layers",
    },
    "trm": SIZES
    | {"H_cycles": "cycles", "L_cycles": "latent_steps", "L_layers": "layers", "puzzle_emb_len": "prefix"},
}  # their setting -> field of our model
TABLE = "puzzle_emb.weights"


class Arch(BaseModel):
    """The `arch` block of the authors' configs, with its defaults.

    Settings that only affect training, such as `loss`, are extra fields.
    """

    model_config = ConfigDict(extra="allow")

    name: str = ""
    H_cycles: Count
    L_cycles: Count
    H_layers: NonNegativeInt
    L_layers: Count
    hidden_size: Count = 512
    num_heads: Count = 8
    expansion: float = 4
    pos_encodings: str = "rope"
    mlp_t: bool = False
    puzzle_emb_len: int = 16  # of TRM
    no_ACT_continue: bool = True
    halt_max_steps: Count = 16
    rms_norm_eps: float = FIXED["rms_norm_eps"]
    rope_theta: float = FIXED["rope_theta"]

    @property
    def module(self) -> str:
        """The module in `name`: `trm` of `recursive_reasoning.trm@TinyRecursiveReasoningModel_ACTV1`."""
        return self.name.partition("@")[0].rpartition(".")[2]


# Settings that only affect training, or that follow from the file.
UNREAD = ("loss", "halt_exploration_prob", "forward_dtype", "puzzle_emb_ndim", "causal")


def read_arch(path: Path | None, family: Family) -> Arch:
    """Return the `arch` block of an `all_config.yaml`, or of a file of config/arch.

    Args:
        path: The file; None for the authors' defaults.
        family: The model family.

    Raises:
        ConfigError: There is no such file, it describes another model, or our network lacks a setting.
    """
    if path is None:
        return Arch(**COUNTS[family])
    fix = "Give the all_config.yaml in the checkpoint's folder."
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}. {fix}") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not YAML ({' '.join(str(error).split())}). {fix}") from None
    block = content.get("arch", content) if isinstance(content, dict) else None
    if not isinstance(block, dict):
        raise ConfigError(f"{path} has no arch block of a model. {fix}")
    try:
        arch = Arch(**{**COUNTS[family], **{str(name): value for name, value in block.items()}})
    except ValidationError as error:
        raise ConfigError(f"{path}: arch: {fault(error)}") from None
    if arch.module and arch.module not in MODULES[family]:
        raise ConfigError(
            f"{path}: arch.name is {arch.name!r}, but --as {family} reads {choices(MODULES[family])}"
        )
    for name, value in FIXED.items():
        if getattr(arch, name) != value:
            raise ConfigError(
                f"{path}: arch.{name} must be {value}, the constant of recstudy's layers, but got"
                f" {getattr(arch, name)}"
            )
    unknown_settings = {
        name: value for name, value in (arch.model_extra or {}).items() if value and name not in UNREAD
    }
    if unknown_settings:
        listed = ", ".join(f"{name}={value}" for name, value in unknown_settings.items())
        raise ConfigError(
            f"{path}: {listed}: recstudy's {family.upper()} has no such setting and would compute other"
            " results"
        )
    return arch


def official_model(family: Family, arch: Arch, weights: Mapping[str, Tensor]) -> HRM | TRM:
    """Return the config of recstudy's network that computes the same as theirs.

    Args:
        family: The model family.
        arch: Their settings.
        weights: Their weights, by plain name.

    Raises:
        ConfigError: A setting has no counterpart.
        DataError: The puzzle embeddings are missing or have another shape.
    """
    table = weights.get(TABLE)
    if table is None or table.ndim != 2 or table.shape[1] > arch.hidden_size:
        problem = "is missing" if table is None else f"has the shape {tuple(table.shape)}"
        raise DataError(
            f"{TABLE} {problem}, but must have the shape (puzzles, 1 to {arch.hidden_size}),"
            " because a sequence begins with one such row"
        )
    if arch.expansion != int(arch.expansion):
        raise ConfigError(f"arch.expansion must be a whole number, but got {arch.expansion}")
    allowed_positions = ("rope", "learned", *(["none"] if arch.mlp_t else []))
    if arch.pos_encodings not in allowed_positions:
        raise ConfigError(
            f"arch.pos_encodings must be {choices(allowed_positions)}, but got {arch.pos_encodings!r}"
        )
    fields: Json = {
        "tokens": "cell",
        "positions": "learned" if arch.pos_encodings == "learned" else "rotary",
        "mixing": "mlp" if arch.mlp_t else "attention",
        "puzzle_emb": "puzzle",
        "identifiers": len(table),
        **{ours: getattr(arch, theirs) for theirs, ours in FIELDS[family].items()},
    }
    if family == "hrm":
        return HRM(**fields)
    scales = sum(re.fullmatch(r"L\d+_init", name) is not None for name in weights)
    module = arch.module
    if not module:  # the initial states in the file show which module wrote it
        module = "trm_singlez" if "L_init" in weights and "H_init" not in weights else "trm"
        module = "trm_hier6" if scales else module
    if module == "trm_hier6" and scales != arch.L_cycles:
        raise ConfigError(
            f"arch.L_cycles must be {scales}, the number of latents in the file (L1_init, ...), but got"
            f" {arch.L_cycles}"
        )
    act = "halt only" if arch.no_ACT_continue else "continue"
    return TRM(**{**fields, "prefix": arch.puzzle_emb_len or 1, "act": act, "states": STATES[module]})


def read_official(path: Path) -> dict[str, Tensor]:
    """Return a checkpoint's weights by plain name, such as `L_level.layers.0.mlp.down_proj.weight`.

    Raises:
        DataError: The file cannot be read, contains other objects than tensors, or has a weight twice with
            different prefixes.
    """
    weights: dict[str, Tensor] = {}
    wrapped_names: dict[str, str] = {}
    for wrapped, value in read_weights(path).items():
        name = WRAPPED.sub("", str(wrapped))
        if name in weights:
            raise DataError(
                f"{path} has {name} twice: as {wrapped_names[name]} and as {wrapped}. Remove one of the two."
            )
        weights[name], wrapped_names[name] = value, str(wrapped)
    return weights


def from_official(network: SequenceNetwork, weights: Mapping[str, Tensor], path: object) -> dict[str, Tensor]:
    """Convert the authors' weights to a state of recstudy's network.

    Args:
        network: HRM or TRM on cells, which has the expected shapes.
        weights: The result of `read_official`.
        path: The file, for messages.

    Raises:
        DataError: A weight is missing, unknown, or has another shape.
    """
    weights = dict(weights)
    table, width = weights.get(TABLE), network.config.width
    if table is not None and table.ndim == 2 and table.shape[1] < width:
        weights[TABLE] = nn.functional.pad(table, (0, width - table.shape[1]))
    state = network.state_dict()
    title = f"a checkpoint of {network.config.title} as set here"
    check_weights(path, title, to_official(network, state), weights)
    for own_name, names in _names(network).items():
        if names:
            value = torch.cat([weights[name] for name in names]).to(state[own_name].dtype)
            state[own_name] = _swapped(own_name, value)
    return state


def to_official(network: SequenceNetwork, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Convert a state of recstudy's network to the authors' weights, by plain name."""
    weights: dict[str, Tensor] = {}
    for own_name, names in _names(network).items():
        if names:
            weights |= zip(names, _swapped(own_name, state[own_name]).chunk(len(names)), strict=True)
    return weights


def _names(network: SequenceNetwork) -> dict[str, list[str]]:
    """Return the authors' plain names of each of our weights.

    A weight has several names if they store its parts separately, and none if it is empty.
    """
    names = {own_name: [name] for own_name, name in public_names(network, NAMES).items()}
    states = getattr(network.config, "states", "")
    if states == "single":
        names |= {"core.z_high": ["L_init"], "core.z_low": []}
    if isinstance(network.config, TRM) and states == "multi-scale":
        names["core.z_low"] = [f"L{scale}_init" for scale in range(1, 1 + network.config.latent_steps)]
    return names


def _swapped(own_name: str, value: Tensor) -> Tensor:
    """Exchange the halves (u, g) of a SwiGLU's first weight; return any other weight unchanged."""
    return torch.cat(value.chunk(2)[::-1]) if own_name.endswith(".up.weight") else value


# Model fields that only affect training.
LEARNING = {"gradient", "start", "noise", "halt_bias", "curriculum"}


def official_arch(config: RunConfig, family: Family) -> Json:
    """Return the `arch` block with which the authors' code builds the network of a run.

    Args:
        config: The run's config.
        family: The model family of the file.

    Raises:
        ConfigError: Their code has no such network.
    """
    model = config.model
    if not isinstance(model, HRM | TRM) or model.family != family:
        raise ConfigError(
            f"a run of {model.title} cannot be written with --as {family}. Only runs of HRM and TRM can be"
            " written, with their own family"
        )
    is_mlp = model.mixing == "mlp"
    loss = "stablemax_cross_entropy" if config.train.loss == "stablemax" else "softmax_cross_entropy"
    arch: Json = {theirs: getattr(model, ours) for theirs, ours in FIELDS[family].items()}
    arch |= {
        "name": "hrm.hrm_act_v1@HierarchicalReasoningModel_ACTV1",
        "pos_encodings": {"learned": "learned", "rotary": "none" if is_mlp else "rope"}[model.positions],
        "puzzle_emb_ndim": model.width,
        "halt_max_steps": config.train.evaluation_steps,
        "halt_exploration_prob": 0.1,
        "forward_dtype": config.train.precision,
        "loss": {"name": "losses@ACTLossHead", "loss_type": loss},
    }
    if isinstance(model, TRM):
        module = next(module for module, states in STATES.items() if states == model.states)
        arch |= {
            "name": f"recursive_reasoning.{module}@TinyRecursiveReasoningModel_ACTV1",
            "H_layers": 0,
            "mlp_t": is_mlp,
            "no_ACT_continue": model.act == "halt only",
        }
    table = {TABLE: torch.empty(model.identifiers or 1, model.width)}
    if getattr(model, "states", "") == "multi-scale":  # their code has six latents for any L_cycles
        table |= {f"L{scale}_init": torch.empty(model.width) for scale in range(1, 7)}
    # Read the block back as a config of ours: any field that differs has no counterpart in their code.
    theirs = official_model(family, Arch(**arch), table)
    ours = model
    if model.puzzle_emb == "none":  # a table with a single zero row computes the same
        ours = model.model_copy(update={"puzzle_emb": "puzzle", "identifiers": 1})
    for name in set(type(model).model_fields) - LEARNING:
        if getattr(ours, name) != getattr(theirs, name):
            raise ConfigError(
                f"model.{name} is {getattr(ours, name)!r}, but the network of the authors' code has"
                f" {getattr(theirs, name)!r}. With these weights it would compute other results"
            )

    return arch
