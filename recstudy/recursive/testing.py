"""Builders for tests of plugins: tiny models and runs. `recstudy.study.testing` makes studies of them.

recstudy's own tests use them, and yours can, too:

    from recstudy.recursive.testing import tiny_run, trained
    from recstudy.study.testing import tiny_study, write_study

    def test_my_table_has_a_row_per_variant(tmp_path):
        study = tiny_study(report=[MyTable("mine")])
        results = write_study(tmp_path, study, score=lambda run: 90.0 + run.seed)
        assert "90.5" in str(recstudy.load(results.root)["mine"])

    def test_my_model_trains():
        assert trained(tiny_run(MyModel(width=8))).finish()["metrics"]["top1_accuracy"] > 10

`recstudy check FILE` checks a whole model family or task. Objects that a test registers in a block
`with gathering():` (`recstudy.plugins`) are removed after the block.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.programs.attempt import CodeVersion, Trial
from recstudy.programs.settings import Resources
from recstudy.records import Json
from recstudy.recursive.config.parts import FAMILIES, DataConfig, ModelConfig
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.train import TrainConfig
from recstudy.recursive.data.small_images import Digits

if TYPE_CHECKING:
    from recstudy.recursive.train.loop import Training

_HEADS: Json = {"width": 16, "heads": 2}
_CAPTIONER: Json = {"width": 16, "backbone": "small", "weights": "random", "tuned": False}
_DECODER: Json = _CAPTIONER | {"heads": 2, "ffn_width": 24, "dropout": 0.0}

TINY_MODELS: dict[str, Json] = {
    "vitrm": _HEADS | {"layers": 2, "patch": 2, "latent_tokens": 4, "latent_steps": 2},
    "hrm_image": _HEADS | {"low_layers": 1, "high_layers": 1, "patch": 4, "expansion": 2},
    "hrm": _HEADS | {"low_layers": 1, "high_layers": 1, "vocabulary": 17},
    "trm": _HEADS | {"layers": 1, "cycles": 2, "latent_steps": 2, "prefix": 2, "vocabulary": 17},
    "transformer": _HEADS | {"layers": 1, "vocabulary": 17},
    "cnn": {"width": 8},
    "densenet": {"growth": 4},
    "vit": _HEADS | {"layers": 2, "ffn_width": 16, "patch": 2},
    "resnet": {},
    "image_hrm": _CAPTIONER | {"heads": 2, "high_layers": 1, "middle_layers": 1, "low_layers": 1},
    "image_trm": _CAPTIONER | {"heads": 2, "layers": 1, "cycles": 2, "latent_steps": 2},
    "image_lstm": _CAPTIONER,
    "show_tell": _CAPTIONER,
    "show_attend_tell": _CAPTIONER | {"attention": 8, "dropout": 0.0},
    "caption_transformer": _DECODER | {"layers": 2},
    "r2gen": _DECODER | {"layers": 2, "image_dropout": 0.0, "slots": 2},
    "micar": _DECODER
    | {
        "latent": 24,
        "rope_dims": 4,
        "experts": 4,
        "pyramid_width": 8,
        "msve": "off",
        "attention_dropout": 0.0,
    },
    "fuselip": {
        "encoder": _HEADS
        | {"layers": 1, "text_vocabulary": 64, "bos": 1, "eos": 2, "codes": 4, "codebook": 16, "context": 40},
        "tokenizer": _HEADS | {"layers": 1, "size": 32, "patch": 16, "codes": 4, "codebook": 16},
        "tokenizer_epochs": 1,
    },
}  # family -> fields of its smallest sensible model, with every part of the full one


def tiny_model(family: str = "vitrm", **fields: Any) -> ModelConfig:
    """Return the smallest useful config of a model family. Fields can be changed; an object updates a part.

    Raises:
        ConfigError: There is no such family or field. A family that `TINY_MODELS` does not have uses its
            defaults.
    """
    values = dict(TINY_MODELS.get(family, {}))
    for name, value in fields.items():
        base = values.get(name)
        values[name] = base | value if isinstance(base, dict) and isinstance(value, dict) else value
    return FAMILIES[family](**values)


def tiny_run(model: ModelConfig | None = None, data: DataConfig | None = None, **train: Any) -> RunConfig:
    """Return a run of 3 epochs, by default of 32 digits with a ViTRM of 1,000 weights. `train` has fields of
    the training.
    """
    model = model or tiny_model(width=8, layers=1, patch=4, latent_tokens=2, latent_steps=1)
    train = {"epochs": 3, "batch_size": 16, "ema_decay": 0.9, **train}
    return RunConfig(
        data=data or Digits(limit=32), model=model, train=TrainConfig(**train), resources=Resources(gpus=0)
    )


def trained(config: RunConfig, root: Path | str = "data") -> "Training":
    """Return the training of a run after its last epoch. Its `finish()` returns the result."""
    from recstudy.recursive.contract import (
        checks,  # with torch, which a test of tables and figures does not need
    )

    return checks.trained(config, Path(root))


def make_trial(root: Path | str, config: RunConfig, **fields: Any) -> Trial:
    """Return the trial of a run on the CPU for `train.trial.run_trial`. Its data are in `root`."""
    folder = Path(root) / "runs" / config.run_id
    folder.mkdir(parents=True, exist_ok=True)
    settings = config.with_changes({"resources.gpus": 0}).model_dump(mode="json")
    values: Json = {"config": settings, "run_id": config.run_id, "version": CodeVersion("abc")}
    values |= {"folder": str(folder), "data": str(root), "scratch": str(root)}
    return Trial(**values | fields)
