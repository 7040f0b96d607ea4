"""Compute the content of a run id: the settings that decide a run's numbers.

    (1)  the fields of the frozen table FIELDS, always; a younger field if it differs from its first default
    (2)  for a user's part, which has no line in the table: the fields that differ from their defaults
    (3)  the `revision` of every part that computes (a config class, a registered function), if it is above 1

A new field with a default therefore keeps every id (1, 2). If a default computes something else than before,
raise the revision of its part (3), and its runs get new ids.

Finished runs are found by these tables: add lines, but never change one. A field in `FIELDS` is always part
of the id. A field in `YOUNGER` was added later: it is part of the id only if it differs from the value here,
which reproduces the runs from before the field existed. A renamed field keeps its old name in the id, and a
field of `FIELDS` that is removed keeps its last value: state both in `deciding`. The tables name a part
`model.FAMILY`, `data.NAME`, or by its class.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_args

from pydantic_core import to_jsonable_python

from recstudy.plugins import Registry
from recstudy.programs.settings import KINDS, Config
from recstudy.records.files import Json
from recstudy.recursive.config.functions import LOSSES, OPTIMIZERS, SCHEDULES
from recstudy.recursive.config.parts import DataConfig, ModelConfig
from recstudy.recursive.config.train import AUGMENTATIONS, Augment, TrainConfig

CAPTION_FILES = "captions", "cov_ctr", "medpix", "mm_retinal", "peir_gross", "roco", "rocov2"
FIELDS: dict[str, str] = {
    "RunConfig": "data model train seed",
    "model.caption_transformer": (
        "family backbone fuselip weights tuned decode beam length_normalisation width heads layers ffn_width"
        " dropout"
    ),
    "model.cnn": "family width",
    "model.densenet": "family growth",
    "model.fuselip": "family encoder tokenizer tokenizer_epochs files",
    "model.hrm": (
        "family tokens patch vocabulary width heads expansion positions prefix head puzzle_emb identifiers"
        " halves half_steps half_loss high_layers low_layers high_cycles low_cycles gradient"
    ),
    "model.hrm_image": (
        "family patch width heads low_layers high_layers high_cycles low_cycles expansion gradient"
    ),
    "model.image_hrm": (
        "family backbone fuselip weights tuned decode beam length_normalisation width heads expansion"
        " image_norm halt_read halt_target high_layers middle_layers low_layers high_cycles middle_cycles"
        " low_cycles top_down gradient"
    ),
    "model.image_lstm": "family backbone fuselip weights tuned decode beam length_normalisation width image",
    "model.image_trm": (
        "family backbone fuselip weights tuned decode beam length_normalisation width heads expansion"
        " image_norm halt_read halt_target layers cycles latent_steps gradient"
    ),
    "model.micar": (
        "family backbone fuselip weights tuned decode beam length_normalisation msve pyramid_width width"
        " heads latent projections scale rope_dims encoder_layers decoder_layers fusion fusion_reads"
        " ffn_width activation experts top_k combine balance attention_dropout dropout"
    ),
    "model.r2gen": (
        "family backbone fuselip weights tuned decode beam length_normalisation width heads layers ffn_width"
        " dropout image_dropout slots"
    ),
    "model.resnet": "family depth stem",
    "model.show_attend_tell": (
        "family backbone fuselip weights tuned decode beam length_normalisation width attention dropout"
        " alpha_c"
    ),
    "model.show_tell": "family backbone fuselip weights tuned decode beam length_normalisation width",
    "model.transformer": (
        "family tokens patch vocabulary width heads expansion multiple positions prefix head puzzle_emb"
        " identifiers halves half_steps half_loss layers"
    ),
    "model.trm": (
        "family tokens patch vocabulary width heads expansion positions prefix head puzzle_emb identifiers"
        " halves half_steps half_loss mixing layers cycles latent_steps gradient"
    ),
    "model.vit": "family size patch width layers heads ffn_width dropout",
    "model.vitrm": (
        "family patch width heads layers latent_tokens latent_steps cycles test_cycles blocks ffn ffn_width"
        " norm dropout latent_init image_in_answer gradient"
    ),
    "data.arc_agi": (
        "name limit validation split_seed augmentations rounds version side concept drawing_seed path"
    ),
    "data.chest_xray14": "name limit validation split_seed findings path size allow_missing",
    "data.cifar10": "name limit validation split_seed statistics",
    "data.cifar100": "name limit validation split_seed statistics",
    "data.digits": "name limit validation split_seed",
    "data.dominoes": "name limit validation split_seed columns least_steps most_steps",
    "data.folder": "name limit validation split_seed path class_count size channels",
    "data.maze": (
        "name limit validation split_seed augmentations rounds side puzzles test_puzzles openings least_steps"
        " drawing_seed"
    ),
    "data.maze_hard": "name limit validation split_seed augmentations rounds path train_puzzles drawing_seed",
    "data.mnist": "name limit validation split_seed",
    "data.phantom_captions": (
        "name limit validation split_seed tokenizer vocabulary length size clean clip_files"
    ),
    "data.phantom_xray": "name limit validation split_seed findings size",
    "data.puzzle_folder": (
        "name limit validation split_seed augmentations rounds path vocabulary rows columns"
    ),
    "data.sudoku": (
        "name limit validation split_seed augmentations rounds side puzzles test_puzzles givens drawing_seed"
    ),
    "data.sudoku_extreme": (
        "name limit validation split_seed augmentations rounds path train_puzzles drawing_seed"
    ),
    **dict.fromkeys(
        [f"data.{name}" for name in CAPTION_FILES],
        "name limit validation split_seed tokenizer vocabulary length size clean clip_files path"
        " allow_missing",
    ),
    "TrainConfig": (
        "epochs batch_size supervision_steps evaluation_steps evaluation_depths halting exploration"
        " halt_threshold halt_weight halting_target detach_carry loss optimizer learning_rate"
        " final_learning_rate warmup schedule weight_decay puzzle_learning_rate puzzle_weight_decay beta1"
        " beta2 label_smoothing gradient_clip ema_decay precision selection patience augment"
    ),
    "AtTest": "segments trajectories noise copies puzzles",
    "Augment": "crop flip randaugment_ops randaugment_magnitude mixup cutmix",
    "FuseLIPBackboneConfig": "aligner mode epochs batch_size learning_rate",
    "FuseLIP": (
        "size width heads layers text_vocabulary pad bos eos codes codebook context mask_rate mask_weight"
    ),
    "Options": "",
    "VQ": (
        "name size patch codes width layers heads codebook token_size normalised legacy commitment"
        " gradient_weight usage_decay"
    ),
}

# Data set fields whose ids keep their first name.
RENAMED = {"resample": "drawing"}
_FIRST_DRAWING_SEED_0 = (
    "digits",
    "dominoes",
    "phantom_captions",
    "phantom_xray",
)  # `drawing_seed` was added later
_STATE_DEFAULTS = {"start": "fixed", "noise": 0.0, "feedback": 0.0, "chunk": 0}

YOUNGER: dict[str, Json] = {
    **{part: {"drawing": "fixed"} for part in FIELDS if part.startswith("data.")},
    **{f"data.{name}": {"drawing": "fixed", "drawing_seed": 0} for name in _FIRST_DRAWING_SEED_0},
    **{f"data.{name}": {"drawing": "fixed", "split_by": "group"} for name in CAPTION_FILES},
    "data.dominoes": {"drawing": "fixed", "drawing_seed": 0, "noise": 0.0},
    "data.arc_agi": {"drawing": "fixed", "whole_tasks": False},
    "AtTest": {"halts": []},
    "Augment": {"more": []},
    "TrainConfig": {
        "amsgrad": False,
        "init_from": "",
        "backbone_learning_rate": None,
        "optimizer_options": {},
        "schedule_options": {},
        "score": None,
        "caption_mean": "caption",
        "supervised": "each",
        "passes": 1,
        "decayed": "all",
        "state_precision": "float32",
        "at_test": {"segments": 16, "trajectories": 0, "noise": 0.3, "copies": 0, "puzzles": None},
    },
    "model.hrm": {"multiple": 256, "halt_bias": -5.0, "mixing": "attention", **_STATE_DEFAULTS},
    "model.transformer": {"halt_bias": -5.0, "mixing": "attention", **_STATE_DEFAULTS},
    "model.trm": {
        "multiple": 256,
        "halt_bias": -5.0,
        "networks": 1,
        "states": "answer and latent",
        "act": "halt only",
        **_STATE_DEFAULTS,
        "curriculum": "none",
    },
}


def part_name(config: Config) -> str:
    """Return a part's name in the frozen table: `model.vitrm`, `data.digits`, `TrainConfig`.

    A user's class gets its module as a prefix, so it never matches a line of the table.
    """
    if isinstance(config, ModelConfig):
        return f"model.{config.family}"
    if isinstance(config, DataConfig):
        return f"data.{config.name}"
    kind = type(config)
    return kind.__name__ if kind.__module__.startswith("recstudy.") else f"{kind.__module__}.{kind.__name__}"


def deciding(config: Config, values: Mapping[str, Any]) -> Json:
    """Return the part of a config's values that its run id is made of.

    Args:
        config: The config.
        values: Its values, dumped as JSON.
    """
    part = part_name(config)
    younger, nested = _rule(type(config), part)
    renamed = RENAMED if isinstance(config, DataConfig) else {}
    original = {renamed.get(name, name): value for name, value in values.items()}
    id_values = dict(original)
    for name in nested:
        if name in id_values:
            id_values[name] = _inside(getattr(config, name), id_values[name])
    for name, default in younger.items():
        # A nested config equals its first default either as dumped or after its own younger fields are left
        # out.
        if name in id_values and default in (id_values[name], original[name]):
            del id_values[name]
    # (3): the part's own revision, then those of the registered functions that it names.
    if config.revised > 1:
        id_values["revision"] = config.revised
    if isinstance(config, TrainConfig | Augment):
        counts = {name: getattr(registry.get(name), "revision", 1) for registry, name in _functions(config)}
        if revisions := {name: count for name, count in counts.items() if count > 1}:
            id_values["revisions"] = revisions
    return id_values


def _functions(config: TrainConfig | Augment) -> list[tuple[Registry[Any], str]]:
    """Return the registered functions that a config uses, each with its registry."""
    if isinstance(config, TrainConfig):
        return [(OPTIMIZERS, config.optimizer), (LOSSES, config.loss), (SCHEDULES, config.schedule)]
    builtin_settings = {"crop": config.crop, "flip": config.flip, "randaugment": config.randaugment_ops}
    names = [name for name, setting in builtin_settings.items() if setting]
    return [(AUGMENTATIONS, name) for name in (*names, *config.more)]


def _inside(setting: Any, value: Any) -> Any:
    """Apply `deciding` to the configs in a setting, which may be a config, a list or a mapping of them."""
    if isinstance(setting, Config):
        return deciding(setting, value)
    if isinstance(setting, tuple | list):
        return [_inside(item, dumped) for item, dumped in zip(setting, value, strict=True)]
    if isinstance(setting, Mapping):
        return {
            name: _inside(item, dumped)
            for item, (name, dumped) in zip(setting.values(), value.items(), strict=True)
        }
    return value


@lru_cache(maxsize=256)
def _rule(kind: type[Config], part: str) -> tuple[Json, tuple[str, ...]]:
    """Return the younger fields of a class with their first default, and its fields that hold configs."""
    frozen_fields = set(FIELDS.get(part, "").split())
    if issubclass(kind, ModelConfig | DataConfig):
        frozen_fields |= set(KINDS)
    renamed = RENAMED if issubclass(kind, DataConfig) else {}
    first_defaults = YOUNGER.get(part, {})
    younger = {}
    for name, field in kind.model_fields.items():
        if name in frozen_fields or field.is_required():
            continue
        id_name = renamed.get(name, name)
        # (2): a field that is in neither table counts if it differs from the default of its class.
        default = field.get_default(call_default_factory=True, validated_data={})
        younger[id_name] = first_defaults.get(id_name, to_jsonable_python(default))
    return younger, tuple(name for name, field in kind.model_fields.items() if _holds(field.annotation))


def _holds(annotation: Any) -> bool:
    """Return whether a value of this type may be or hold a config."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return True
    return any(_holds(inner) for inner in get_args(annotation))
