"""The run id: a digest of what decides a run's numbers, which outlives fields that are added later.

    the fields of the frozen table, always; younger ones where they differ from the default that they came with     (1)
    of parts from outside, which have no line in the table: what differs from their own defaults                    (2)
    `revision` of every part that computes (a config's class, a registered function), where it is above 1           (3)

So a field that is added with a default leaves every id as it was (1, 2), and changing what a default computes
is said by raising the part's revision (3), which gives its runs new ids.

Finished runs are found by the tables: lines are added to them and never changed. A field of `FIELDS` is
always part of the id, with its value. One of `YOUNGER` came after ids had been given out: it is part of the
id only where it differs from the value here, with which a run computes what it did before the field was
there. A field that is renamed must keep its old name in the id, and one that is removed the value that it
had: `deciding` is where to state either. A part is named `model.FAMILY`, `data.NAME`, or by its class.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, get_args

from pydantic_core import to_jsonable_python

from recstudy.config.functions import LOSSES, OPTIMIZERS, SCHEDULES
from recstudy.config.parts import DataConfig, ModelConfig
from recstudy.config.train import AUGMENTATIONS, Augment, TrainConfig
from recstudy.plugins import Registry
from recstudy.programs.settings import KINDS, Config

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
    "data.captions": (
        "name limit validation split_seed tokenizer vocabulary length size clean clip_files path"
        " allow_missing"
    ),
    "data.chest_xray14": "name limit validation split_seed findings path size allow_missing",
    "data.cifar10": "name limit validation split_seed statistics",
    "data.cifar100": "name limit validation split_seed statistics",
    "data.cov_ctr": (
        "name limit validation split_seed tokenizer vocabulary length size clean clip_files path"
        " allow_missing"
    ),
    "data.digits": "name limit validation split_seed",
    "data.dominoes": "name limit validation split_seed columns least_steps most_steps",
    "data.folder": "name limit validation split_seed path class_count size channels",
    "data.maze": (
        "name limit validation split_seed augmentations rounds side puzzles test_puzzles openings least_steps"
        " drawing_seed"
    ),
    "data.maze_hard": "name limit validation split_seed augmentations rounds path train_puzzles drawing_seed",
    "data.medpix": (
        "name limit validation split_seed tokenizer vocabulary length size clean clip_files path"
        " allow_missing"
    ),
    "data.mm_retinal": (
        "name limit validation split_seed tokenizer vocabulary length size clean clip_files path"
        " allow_missing"
    ),
    "data.mnist": "name limit validation split_seed",
    "data.peir_gross": (
        "name limit validation split_seed tokenizer vocabulary length size clean clip_files path"
        " allow_missing"
    ),
    "data.phantom_captions": (
        "name limit validation split_seed tokenizer vocabulary length size clean clip_files"
    ),
    "data.phantom_xray": "name limit validation split_seed findings size",
    "data.puzzle_folder": (
        "name limit validation split_seed augmentations rounds path vocabulary rows columns"
    ),
    "data.roco": (
        "name limit validation split_seed tokenizer vocabulary length size clean clip_files path"
        " allow_missing"
    ),
    "data.rocov2": (
        "name limit validation split_seed tokenizer vocabulary length size clean clip_files path"
        " allow_missing"
    ),
    "data.sudoku": (
        "name limit validation split_seed augmentations rounds side puzzles test_puzzles givens drawing_seed"
    ),
    "data.sudoku_extreme": (
        "name limit validation split_seed augmentations rounds path train_puzzles drawing_seed"
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

# Fields of data sets that keep the name of version 0.1 in ids.
RENAMED = {"resample": "drawing"}
_DRAWN_FROM_0 = ("digits", "dominoes", "phantom_captions", "phantom_xray")  # they had no `drawing_seed` once
_THOUGHT = {"start": "fixed", "noise": 0.0, "feedback": 0.0}

YOUNGER: dict[str, dict[str, Any]] = {
    **{part: {"drawing": "fixed"} for part in FIELDS if part.startswith("data.")},
    **{f"data.{name}": {"drawing": "fixed", "drawing_seed": 0} for name in _DRAWN_FROM_0},
    "data.dominoes": {"drawing": "fixed", "drawing_seed": 0, "noise": 0.0},
    "data.arc_agi": {"drawing": "fixed", "whole_tasks": False},
    "AtTest": {"noise_on": "latent", "halts": []},
    "Augment": {"more": []},
    "TrainConfig": {
        "amsgrad": False,
        "init_from": "",
        "backbone_learning_rate": None,
        "loss_options": {},
        "optimizer_options": {},
        "schedule_options": {},
        "score": None,
        "caption_mean": "caption",
        "supervised": "each",
        "decayed": "all",
        "at_test": {"segments": 16, "trajectories": 0, "noise": 0.3, "copies": 0, "puzzles": None},
    },
    "model.hrm": {"multiple": 256, "halt_bias": -5.0, "mixing": "attention", **_THOUGHT},
    "model.transformer": {"halt_bias": -5.0, "mixing": "attention", **_THOUGHT},
    "model.trm": {
        "multiple": 256,
        "halt_bias": -5.0,
        "networks": 1,
        "states": "answer and latent",
        "act": "halt only",
        **_THOUGHT,
        "curriculum": "none",
    },
}


def part_name(config: Config) -> str:
    """Return a part's name in the frozen table: `model.vitrm`, `data.digits`, `TrainConfig`; an outsider's
    stands nowhere.
    """
    if isinstance(config, ModelConfig):
        return f"model.{config.family}"
    if isinstance(config, DataConfig):
        return f"data.{config.name}"
    kind = type(config)
    return kind.__name__ if kind.__module__.startswith("recstudy.") else f"{kind.__module__}.{kind.__name__}"


def deciding(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return of a config's values, dumped as JSON, those that its id is made of."""
    part = part_name(config)
    younger, nested = _rule(type(config), part)
    renamed = RENAMED if isinstance(config, DataConfig) else {}
    original = {renamed.get(name, name): value for name, value in values.items()}
    kept = dict(original)
    for name in nested:
        if name in kept:
            kept[name] = _inside(getattr(config, name), kept[name])
    for name, default in younger.items():
        if name in kept and default in (kept[name], original[name]):
            del kept[name]
    # a part that computes something else than it did, and so the registered functions that it names
    if config.revised > 1:
        kept["revision"] = config.revised
    if isinstance(config, TrainConfig | Augment):
        counts = {name: getattr(registry.get(name), "revision", 1) for registry, name in _functions(config)}
        if revisions := {name: count for name, count in counts.items() if count > 1}:
            kept["revisions"] = revisions
    return kept


def _functions(config: TrainConfig | Augment) -> list[tuple[Registry[Any], str]]:
    if isinstance(config, TrainConfig):
        return [(OPTIMIZERS, config.optimizer), (LOSSES, config.loss), (SCHEDULES, config.schedule)]
    own = {"crop": config.crop, "flip": config.flip, "randaugment": config.randaugment_ops}
    return [(AUGMENTATIONS, name) for name in (*(name for name, used in own.items() if used), *config.more)]


def _inside(own: Any, value: Any) -> Any:
    """Return the same for the configs that a field holds."""
    if isinstance(own, Config):
        return deciding(own, value)
    if isinstance(own, tuple | list):
        return [_inside(one, dumped) for one, dumped in zip(own, value, strict=True)]
    if isinstance(own, Mapping):
        return {
            name: _inside(one, dumped)
            for one, (name, dumped) in zip(own.values(), value.items(), strict=True)
        }
    return value


@lru_cache(maxsize=256)
def _rule(kind: type[Config], part: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields that count only where they have another value than this one, and fields that hold configs."""
    always = {*FIELDS.get(part, "").split(), *(KINDS if issubclass(kind, ModelConfig | DataConfig) else ())}
    renamed = RENAMED if issubclass(kind, DataConfig) else {}
    younger = {
        renamed.get(name, name): (
            YOUNGER.get(part, {}).get(
                renamed.get(name, name),
                to_jsonable_python(about.get_default(call_default_factory=True, validated_data={})),
            )
        )
        for name, about in kind.model_fields.items()
        if name not in always and not about.is_required()
    }
    return younger, tuple(name for name, about in kind.model_fields.items() if _holds(about.annotation))


def _holds(annotation: Any) -> bool:
    """Return whether a value of this type may be or hold a config."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return True
    return any(_holds(inner) for inner in get_args(annotation))
