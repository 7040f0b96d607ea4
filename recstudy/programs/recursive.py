"""The recursive models as a program. No other module of the platform imports their configs, data, tasks,
metrics or training.

torch is loaded by what computes, so that a driver and a reader do without it.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic.fields import FieldInfo

import recstudy.data
import recstudy.models
import recstudy.tasks  # noqa: F401  they fill the registries
from recstudy.config import DATASETS, FAMILIES, DataConfig, RunConfig, TrainConfig
from recstudy.data.cache import DataSet, known_checksum, load, unread
from recstudy.errors import ConfigError, DataError, RecstudyError
from recstudy.metrics import METRICS, TASKS, measured
from recstudy.metrics.kept import Kept, rounding_errors, unpacked
from recstudy.models.costs import cost, known_pflop, total_pflop, training_memory
from recstudy.plugins.registry import is_users
from recstudy.programs.base import Cost, Execution, Group, Program
from recstudy.programs.settings import Config, RunSettings, averaged_steps, configure
from recstudy.records import Json, Result, Results
from recstudy.tasks.captioning.scores import words

if TYPE_CHECKING:
    from recstudy.train.initial import Weights


LEAST_ITEMS = 2  # of each split: one item has no spread, and batch norm cannot train on it


class RecursiveModels(Program):
    """HRM, TRM, ViTRM, ImageHRM, ImageTRM, MicarVLMoE and their baselines, trained by our loop."""

    packages = ("torch", "torchvision", "ray", "numpy")

    def read(self, values: Json) -> RunConfig:
        return configure(RunConfig, values)

    def run(self, execution: Execution) -> Json:
        from recstudy.train.trial import train_run

        return train_run(execution)

    def group(self) -> Group:
        from recstudy.train.parallel import Workers

        return Workers()

    def check(
        self,
        settings: Sequence[RunSettings],
        results: Results,
        data: Path,
        download: bool,
        begin: "Weights | None",
    ) -> None:
        configs = [_config(one) for one in settings]
        for same_data in _by_data(configs):
            known = load(same_data[0].drawn.data, data, download=download)
            for config in {config.model: config for config in same_data}.values():
                if begin and config.train.init_from == begin.digest:
                    from recstudy.train.initial import check_rows

                    check_rows(begin, config, known.group_count)
            _check_loaded(same_data, known)
        if started := [config for config in configs if config.train.init_from]:
            from recstudy.train.initial import check_initial

            check_initial(started, results, begin)

    def check_data(self, settings: Sequence[RunSettings], folder: Path) -> list[str]:
        lines = []
        for same_data in _by_data(map(_config, settings)):
            data = same_data[0].drawn.data
            if not is_users(type(data)):
                continue
            if missing := data.reader().missing(folder):
                lines.append(f"Not checked: {data.reader().not_found(folder, missing)}")
            else:
                _check_loaded(same_data, load(data, folder))
        return lines

    def check_device(self, device: str) -> None:
        if device == "mps":
            from recstudy.train.process import check_apple

            check_apple()

    def sees_gpu(self) -> bool:
        import torch

        return torch.cuda.is_available()

    def weights(self, place: str, results: Results) -> "Weights":
        from recstudy.train.initial import taken_from

        return taken_from(place, results)

    def cost(self, settings: RunSettings) -> Cost:
        return cost(_config(settings))

    def pflop(self, settings: RunSettings, only_counted: bool = False) -> float | None:
        return known_pflop(_config(settings)) if only_counted else total_pflop(_config(settings))

    def memory(self, settings: RunSettings) -> int:
        return training_memory(_config(settings))

    def free_gpu_bytes(self) -> int:
        import torch

        return torch.cuda.mem_get_info()[0]

    def hints(self, settings: Iterable[RunSettings]) -> list[str]:
        return list(dict.fromkeys(line for one in settings for line in _hints(_config(one))))[:1]

    def reads_data(self, settings: Iterable[RunSettings], folder: Path) -> bool:
        for data in dict.fromkeys(_config(run).data for run in settings):
            try:
                sources = data.reader().sources(folder)
            except RecstudyError:  # a set whose files alone tell its sources, and they are not there
                return True
            if sources:
                return True
        return False

    def checksums(self, settings: Sequence[RunSettings], folder: Path, read: bool = False) -> list[str]:
        configs = [_config(one) for one in settings]
        known = {}
        for data in _fixed_data(configs):
            if read:
                with suppress(DataError):  # data that are not here: nothing can be said of them
                    load(data, folder)
            known[data] = known_checksum(data, folder)
        return [known.get(config.data, "") for config in configs]

    def unread_data(self, settings: Sequence[RunSettings], folder: Path) -> list[str]:
        return [data.title for data in _fixed_data(map(_config, settings)) if unread(data, folder)]

    def deciding(self, values: Json, changes: Json) -> Json:
        return self.read(values).with_changes(changes).deciding

    def answers(self, file: Path) -> Kept | None:
        return unpacked(file) if os.path.lexists(file) else None

    def recompute(self, file: Path, result: Result) -> dict[str, tuple[float, float] | str]:
        kept = self.answers(file)
        if kept is None or kept.cut:
            return dict.fromkeys(result.metrics, "not all answers are in the bundle")
        if kept.answers.task not in TASKS:
            why = "answers of a task that the study defines (what a study defines itself is not imported)"
            return dict.fromkeys(result.metrics, why)
        reasons = dict.fromkeys(result.metrics, "it does not follow from answers on the test set")
        # it loads torch, too
        reasons["rate_score"] = "a network computes it, whose last digits depend on the machine"
        names = [
            name for name in result.metrics if name in METRICS and METRICS[name].of and name != "rate_score"
        ]
        values, _, unavailable, _ = measured(kept.answers, names)
        cutter = result.tokenizer.get("metrics")
        for name in [name for name in values if name in METRICS and METRICS[name].of_words]:
            if words(kept.answers).tokenizer != cutter:
                unavailable[name] = f"its words were cut by {cutter}, which is not here"
                del values[name]
        reasons |= unavailable
        errors = rounding_errors(kept.answers, values)
        return {
            name: (values[name], errors.get(name, 0.0)) if name in values else reasons[name]
            for name in result.metrics
        }

    def published_fields(self) -> dict[str, list[FieldInfo]]:
        found: dict[str, list[FieldInfo]] = {}

        def walk(kind: type[Config], prefix: str) -> None:
            for name, field in kind.model_fields.items():
                if isinstance(field.annotation, type) and issubclass(field.annotation, Config):
                    walk(field.annotation, f"{prefix}{name}.")
                else:
                    found.setdefault(prefix + name, []).append(field)

        walk(TrainConfig, "train.")
        for prefix, kinds in (("data.", DATASETS), ("model.", FAMILIES)):
            for kind in kinds.complete().values():
                walk(kind, prefix)
        return found


def _by_data(configs: Iterable[RunConfig]) -> list[list[RunConfig]]:
    """Return the configs of each data set; of data drawn per seed, one seed's stand for all."""
    groups: dict[DataConfig, list[RunConfig]] = {}
    for config in configs:
        groups.setdefault(config.data, []).append(config)
    return list(groups.values())


def _check_loaded(configs: Sequence[RunConfig], data: DataSet) -> None:
    """Refuse (DataError, ConfigError) data that are too few, or that a model or an augmentation cannot
    read.
    """
    title = configs[0].data.title
    for split, images in (("training", data.train), ("test", data.test)):
        if len(images) < LEAST_ITEMS:
            items = f"{len(images)} {split} item{'s' * (len(images) != 1)}"
            validation = " besides those held out for validation" * (split == "training")
            raise DataError(
                f"{title} has {items}{validation}, but a run needs at least {LEAST_ITEMS}. Add others."
            )
    is_8_bit = str(data.train.images.dtype) == "uint8"
    for config in {(config.model, config.train.augment): config for config in configs}.values():
        config.model.check_groups(data.group_count, title)
        if is_users(type(config.model)):
            cost(config)  # counting it checks its outputs
        if config.model.reads_pixels and not is_8_bit:
            raise ConfigError(
                f"{config.model.title} reads 8-bit grey levels, but the images of {title} are float32 or"
                " uint16"
            )
        if config.train.augment.randaugment_ops and not is_8_bit:
            raise ConfigError(
                "train.augment.randaugment_ops must be 0: its operations are for 8-bit images, but those of"
                f" {title} are not"
            )


def _fixed_data(configs: Iterable[RunConfig]) -> list[DataConfig]:
    """Return the data sets that are the same for every seed, each once."""
    return list(dict.fromkeys(config.data for config in configs if not config.data.redrawn))


def _config(settings: RunSettings) -> RunConfig:
    assert isinstance(settings, RunConfig)
    return settings


def _hints(config: RunConfig) -> Iterator[str]:
    steps, span = optimizer_steps(config), averaged_steps(config.train.ema_decay)
    # A run of ten spans ends with an average that has forgotten its initial weights to exp(-10).
    if steps is not None and steps < 10 * span and not config.train.imported:
        yield (
            f"Note: train.ema_decay={config.train.ema_decay:g} averages the weights over {span:,.0f} of the"
            f" run's {steps:,} updates. The average lags behind the trained weights. Set train.ema_decay=0 to"
            " evaluate these."
        )


def optimizer_steps(config: RunConfig) -> int | None:
    """Count the optimizer steps of a whole run that never halts; None if only the files tell how many images
    there are.
    """
    images = config.training_images
    if images is None:
        return None
    whole = config.train.halting == "sample"  # which leaves out a short last batch
    batches = max(1, images // config.train.batch_size) if whole else ceil(images / config.train.batch_size)
    return batches * config.updates_a_batch * config.train.epochs


RECURSIVE_MODELS = RecursiveModels()
