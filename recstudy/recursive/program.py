"""The recursive models as a program.

The platform calls it and imports nothing else of this folder. The methods that compute load torch and the
modules that import it; a driver and a reader do without.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo

from recstudy.base.errors import ConfigError, DataError, RecstudyError, choices
from recstudy.base.lazy import LazyModule
from recstudy.plugins import import_object
from recstudy.plugins.registry import is_users
from recstudy.programs.attempt import Group, Trial
from recstudy.programs.base import PROGRAMS, ItemScores, Program, RunSettings
from recstudy.programs.facts import Cost, InitialWeights, Requirement, RunPrice
from recstudy.programs.metric import METRICS, NotAvailable
from recstudy.programs.settings import Config, configure
from recstudy.records import Json, Result, Results
from recstudy.recursive.config.parts import DATASETS, FAMILIES, DataConfig
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.config.train import TrainConfig
from recstudy.recursive.data.cache import DataSet, known_checksum, load, needs_decoding
from recstudy.recursive.metrics.kept import SavedAnswers, rounding_errors, unpack_answers
from recstudy.recursive.metrics.registry import measured
from recstudy.recursive.models.caption import aligner_of
from recstudy.recursive.models.costs import cost, known_pflop, memory_fix, price, train_pflop, training_memory
from recstudy.recursive.tasks.captioning.scores import RATES, words

torch = LazyModule("torch")
counting = LazyModule("recstudy.recursive.models.networks.counting")
fuselip_weights = LazyModule("recstudy.recursive.models.networks.fuselip_weights")
requirements = LazyModule("recstudy.recursive.requirements")
initial = LazyModule("recstudy.recursive.train.initial")
parallel = LazyModule("recstudy.recursive.train.parallel")
process = LazyModule("recstudy.recursive.train.process")
training = LazyModule("recstudy.recursive.train.trial")

# Per split: one item has no variance, and batch normalization cannot train on it.
MIN_ITEMS = 2


TOOLS = {  # name -> what commands of `recstudy` call
    "check": "contract.command:check_file",
    "evaluate": "reevaluate:evaluate",
    "export": "weights:export_weights",
    "fields": "config.fields:describe_fields",
    "import": "weights:import_weights",
    "parts": "config.fields:kinds_of_parts",
}


class RecursiveModels(Program):
    """HRM, TRM, ViTRM, ImageHRM, ImageTRM, MicarVLMoE and their baselines, trained by our loop."""

    packages = ("torch", "torchvision", "ray", "numpy")
    step_name = "epoch"

    def read(self, values: Json) -> RunConfig:
        return configure(RunConfig, values)

    def run(self, trial: Trial) -> Json:
        return training.train_run(trial)

    def group(self) -> Group:
        return parallel.Workers()

    def check(
        self,
        settings: Sequence[RunSettings],
        results: Results,
        data: Path,
        download: bool,
        begin: InitialWeights | None,
    ) -> None:
        configs = [_config(run) for run in settings]
        for same_data in _by_data(configs):
            dataset = load(same_data[0].resolved_config.data, data, download=download)
            for config in {config.model: config for config in same_data}.values():
                if begin and config.train.init_from == begin.digest:
                    initial.check_rows(begin, config, dataset.group_count)
            _check_loaded(same_data, dataset)
        requirements.check_weights(configs)
        read = cache(fuselip_weights.read_weights)  # variants often share their weights
        for config in _with_public_weights(configs):
            fuselip_weights.load_public(config, data, read)
        if started := [config for config in configs if config.train.init_from]:
            initial.check_initial(started, results, begin)

    def requirements(
        self, settings: Sequence[RunSettings], metrics: Sequence[str], folder: Path
    ) -> list[Requirement]:
        return requirements.list_requirements([_config(run) for run in settings], metrics, folder)

    def check_data(
        self, settings: Sequence[RunSettings], folder: Path, begin: InitialWeights | None = None
    ) -> list[str]:
        lines: list[str] = []
        configs = [_config(run) for run in settings]
        read = cache(fuselip_weights.read_weights)  # variants often share their weights
        for config in _with_public_weights(configs):
            try:
                fuselip_weights.load_public(config, folder, read)
            except fuselip_weights.MissingWeights as error:
                lines += {f"Not checked: {error}"} - {*lines}
        if begin:
            started = [config for config in configs if config.train.init_from == begin.digest]
            initial.check_initial(started, Results("."), begin)
        for same_data in _by_data(configs):
            data = same_data[0].resolved_config.data
            if not is_users(type(data)):
                continue
            if missing_files := data.reader().find_missing(folder):
                lines.append(f"Not checked: {data.reader().not_found(folder, missing_files)}")
            else:
                _check_loaded(same_data, load(data, folder))
        if missing := requirements.list_missing(configs, folder):
            lines.append(f"Missing: {', '.join(missing)}. --check-setup lists sources.")
        return lines

    def check_device(self, device: str) -> None:
        if device == "mps":
            process.check_apple()

    def sees_gpu(self) -> bool:
        return torch.cuda.is_available()

    def weights(self, place: str, results: Results) -> InitialWeights:
        return initial.read_initial_weights(place, results)

    def cost(self, settings: RunSettings) -> Cost:
        return cost(_config(settings))

    def train_pflop(self, settings: RunSettings, image_steps: float) -> float:
        return train_pflop(_config(settings), image_steps)

    def price(self, settings: RunSettings) -> RunPrice | None:
        return price(_config(settings))

    def known_pflop(self, settings: RunSettings) -> float | None:
        return known_pflop(_config(settings))

    def memory(self, settings: RunSettings) -> int:
        return training_memory(_config(settings))

    def memory_fix(self, settings: RunSettings, gpu_bytes: float) -> str:
        return memory_fix(_config(settings), gpu_bytes)

    def free_gpu_bytes(self) -> int:
        return torch.cuda.mem_get_info()[0]

    def hints(self, settings: Iterable[RunSettings]) -> list[str]:
        for run in settings:
            if hint := _ema_hint(_config(run)):
                return [hint]
        return []

    def reads_data(self, settings: Iterable[RunSettings], folder: Path) -> bool:
        configs = [_config(run) for run in settings]
        if _with_public_weights(configs):
            return True
        for data in dict.fromkeys(config.data for config in configs):
            try:
                sources = data.reader().sources(folder)
            except RecstudyError:  # the sources are listed in the files of the data set, which are missing
                return True
            if sources:
                return True
        return False

    def checksums(self, settings: Sequence[RunSettings], folder: Path, read: bool = False) -> list[str]:
        configs = [_config(run) for run in settings]
        checksums = {}
        for data in _fixed_data(configs):
            if read:
                with suppress(DataError):  # missing data have no checksum
                    load(data, folder)
            checksums[data] = known_checksum(data, folder)
        return [checksums.get(config.data, "") for config in configs]

    def unread_data(self, settings: Sequence[RunSettings], folder: Path) -> list[str]:
        return [data.title for data in _fixed_data(map(_config, settings)) if needs_decoding(data, folder)]

    def deciding(self, values: Json, changes: Json) -> Json:
        return self.read(values).with_changes(changes).deciding

    def answers(self, file: Path) -> SavedAnswers | None:
        """Read a run's answers on the test items; None if there are none (StorageError: they are damaged)."""
        return unpack_answers(file) if os.path.lexists(file) else None

    def item_scores(self, file: Path, metric: str) -> ItemScores | None:
        saved, score = self.answers(file), METRICS[metric].each
        if saved is None or saved.is_truncated or score is None:
            return None
        answers = saved.answers
        with suppress(NotAvailable):
            return ItemScores(answers.rows, score(answers).astype("float32"), answers.groups)
        return None

    def quotes_data(self, file: Path) -> bool:
        saved = self.answers(file)
        return bool(saved and saved.answers.references)

    def recompute(self, file: Path, result: Result) -> dict[str, tuple[float, float] | str]:
        saved = self.answers(file)
        if saved is None or saved.is_truncated:
            return dict.fromkeys(result.metrics, "the bundle does not contain all answers")
        if saved.answers.task not in TASKS:
            reason = "the study defines the task itself, and its module is not imported"
            return dict.fromkeys(result.metrics, reason)
        reasons = dict.fromkeys(result.metrics, "it cannot be computed from answers on the test set")
        # not recomputed: it would also load torch
        reasons |= dict.fromkeys(RATES, "a network computes it, so its last digits depend on the machine")
        names = [
            name for name in result.metrics if name in METRICS and METRICS[name].of and name not in RATES
        ]
        values, _, unavailable, _ = measured(saved.answers, names)
        cutter = result.tokenizer.get("metrics")
        for name in [name for name in values if name in METRICS and METRICS[name].of_words]:
            if words(saved.answers).tokenizer != cutter:
                unavailable[name] = f"its words were split by {cutter}, which is not installed"
                del values[name]
        reasons |= unavailable
        errors = rounding_errors(saved.answers, values)
        return {
            name: (values[name], errors.get(name, 0.0)) if name in values else reasons[name]
            for name in result.metrics
        }

    def tool(self, name: str) -> Callable[..., Any]:
        return import_object(f"recstudy.recursive.{TOOLS[name]}")

    def example(self) -> RunConfig:
        return import_object("recstudy.recursive.testing:tiny_run")()

    def published_fields(self) -> dict[str, list[FieldInfo]]:
        fields: dict[str, list[FieldInfo]] = {}

        def walk(kind: type[Config], prefix: str) -> None:
            for name, field in kind.model_fields.items():
                if isinstance(field.annotation, type) and issubclass(field.annotation, Config):
                    walk(field.annotation, f"{prefix}{name}.")
                else:
                    fields.setdefault(prefix + name, []).append(field)

        walk(TrainConfig, "train.")
        for prefix, kinds in (("data.", DATASETS), ("model.", FAMILIES)):
            for kind in kinds.complete().values():
                walk(kind, prefix)
        return fields


def _by_data(configs: Iterable[RunConfig]) -> list[list[RunConfig]]:
    """Group the configs by data set."""
    groups: dict[DataConfig, list[RunConfig]] = {}
    for config in configs:
        groups.setdefault(config.data, []).append(config)
    return list(groups.values())


def _with_public_weights(configs: Iterable[RunConfig]) -> list[RunConfig]:
    """Return a config for each FuseLIP with public weights and its data set."""
    aligners = {(aligner_of(config.model), config.data): config for config in configs}
    return [config for ((aligner, *_), _), config in aligners.items() if aligner and aligner.files]


def _check_loaded(configs: Sequence[RunConfig], data: DataSet) -> None:
    """Check that the data set is large enough, and that models and augmentations can read its images.

    Raises:
        DataError, ConfigError: They cannot.
    """
    title = configs[0].data.title
    for split, images in (("training", data.train), ("test", data.test)):
        if len(images) < MIN_ITEMS:
            items = f"{len(images)} {split} item{'s' * (len(images) != 1)}"
            validation = " without the validation split" * (split == "training")
            raise DataError(
                f"{title} has {items}{validation}, but a run needs at least {MIN_ITEMS}. Add more items"
            )
    is_8_bit = str(data.train.images.dtype) == "uint8"
    for config in {(config.model, config.train.augment): config for config in configs}.values():
        config.model.check_groups(data.group_count, title)
        if is_users(type(config.model)):
            # Counting FLOPs runs the model and checks its outputs.
            cost(config)
        if config.model.reads_pixels and not is_8_bit:
            raise ConfigError(
                f"{config.model.title} needs 8-bit images, but the images of {title} are float32 or uint16"
            )
        if config.train.augment.randaugment_ops and not is_8_bit:
            raise ConfigError(
                "train.augment.randaugment_ops must be 0, because its operations need 8-bit images and the"
                f" images of {title} are float32 or uint16"
            )
    for config in configs:
        _check_batches(config, data)


def _check_batches(config: RunConfig, data: DataSet) -> None:
    """Check that batch norm can train on the smallest share of a batch.

    Raises:
        ConfigError: It cannot.
    """
    train, workers = config.train, config.resources.workers
    held_out_images = 0 if train.selection == "validation" else len(data.validation)
    images = (len(data.train) + held_out_images) * config.data.showings

    def is_good(size: int) -> bool:
        # Halting by sample skips a smaller last batch.
        return size >= 2 * workers and (train.halting == "sample" or images % size // workers != 1)

    if is_good(train.batch_size) or not config.model.batch_norm or train.imported:
        return
    if not counting.trains_on_one_image(config.model, config.data):
        sizes = filter(is_good, range(train.batch_size + 1, train.batch_size + 2 * workers + 9))
        raise ConfigError(
            f"train.batch_size={train.batch_size} gives a worker one of the {images:,} training images, on"
            f" which the batch norm of {config.model.title} cannot train. Choose another, such as"
            f" {choices(map(str, [*sizes][:3]))}"
        )


def _fixed_data(configs: Iterable[RunConfig]) -> list[DataConfig]:
    """Return the distinct data sets that do not depend on the seed."""
    return list(dict.fromkeys(config.data for config in configs if not config.data.is_regenerated))


def _config(settings: RunSettings) -> RunConfig:
    assert isinstance(settings, RunConfig)
    return settings


def _ema_hint(config: RunConfig) -> str:
    steps, decay = optimizer_steps(config), config.train.ema_decay
    span = 1 / (1 - decay) if 0 < decay < 1 else 0.0  # steps of the moving average
    # After ten spans, the initial weights have a share of exp(-10) in the average.
    if steps is None or steps >= 10 * span or config.train.imported:
        return ""
    return (
        f"Note: train.ema_decay={decay:g} averages the weights over {span:,.0f} of the"
        f" run's {steps:,} updates. The average lags behind the trained weights. Set train.ema_decay=0 to"
        " evaluate these."
    )


def optimizer_steps(config: RunConfig) -> int | None:
    """Count the optimizer steps of a run without early halting; None if the number of images is unknown."""
    images, batch_size = config.training_images, config.train.batch_size
    if images is None:
        return None
    drops_last = config.train.halting == "sample"  # it skips a smaller last batch
    batches = max(1, images // batch_size) if drops_last else ceil(images / batch_size)
    return batches * config.updates_a_batch * config.train.epochs


RECURSIVE_MODELS = RecursiveModels()
PROGRAMS[RECURSIVE_MODELS.name] = RECURSIVE_MODELS
