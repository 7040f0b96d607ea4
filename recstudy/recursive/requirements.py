"""List the data sets, weight files and tools that runs need (`--check-setup`)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from recstudy.base.errors import DataError
from recstudy.base.lazy import LazyModule
from recstudy.programs.facts import Requirement
from recstudy.programs.metric import METRICS, NotInstalled
from recstudy.recursive.config.reader import Reader, TableReader
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.models.caption import BACKBONES, Backbone, CaptionModel, aligner_of
from recstudy.recursive.tasks.captioning.scores import RATES

coco = LazyModule("recstudy.recursive.tasks.captioning.coco")
fuselip_weights = LazyModule("recstudy.recursive.models.networks.fuselip_weights")
rate_score = LazyModule("recstudy.recursive.tasks.captioning.rate_score")
text = LazyModule("recstudy.recursive.data.text")

# Returns the place of a file or a tool, the places of several files, or nothing if no file is needed.
Find = Callable[[], Path | str | tuple[Path, ...] | None]


def list_requirements(
    configs: Sequence[RunConfig], metrics: Iterable[str], folder: Path
) -> list[Requirement]:
    """Return what runs need, each with its place, or with the problem and its fix.

    Args:
        configs: The settings of the runs.
        metrics: The metrics that the study shows, claims or selects by.
        folder: The folder with the data sets.
    """
    needs = []
    for name, find in dict(searches(configs, metrics, folder)).items():
        try:
            if place := find():
                needs.append(Requirement(name, str(place[0] if isinstance(place, tuple) else place)))
        except (DataError, NotInstalled) as problem:
            needs.append(Requirement(name, "", str(problem)))
    return needs


def searches(
    configs: Sequence[RunConfig], metrics: Iterable[str], folder: Path
) -> Iterator[tuple[str, Find]]:
    """Yield the name of each requirement with a function that finds it or raises."""
    for config in configs:
        data, model = config.data, config.model
        path = getattr(data, "path", data.title)
        name = f"data set {data.title}" + f" ({path})" * (path != data.title)
        yield name, partial(find_data, data.reader(), folder)
        if getattr(data, "tokenizer", "") == "clip":
            yield "CLIP's tokenizer", partial(text.clip_files, data, folder)
        for backbone in pretrained_backbones([config]):
            yield f"weights of {backbone.title}", partial(find_timm_weights, backbone.timm)
        if (aligner := aligner_of(model)[0]) and aligner.files:
            place = folder / aligner.files
            yield f"weights of FuseLIP ({aligner.files})", partial(fuselip_weights.weight_file, place)
    # A selection score is a metric too. It may not be registered, such as the loss.
    names = {*metrics, *(str(config.train.score) for config in configs)} & {*METRICS}
    if any(METRICS[name].of_words for name in names):
        yield "Java (Stanford's tokenizer, METEOR)", coco.find_java
    if "meteor_nltk" in names:
        yield "WordNet of NLTK", coco.find_wordnet
    if not names.isdisjoint(RATES):
        yield "models of RaTEScore", rate_score.find_models


def find_data(reader: Reader, folder: Path) -> Path | None:
    reader.check(folder)
    sources = reader.sources(folder)
    return (folder / sources[0]).parent if sources else None


def pretrained_backbones(configs: Iterable[RunConfig]) -> list[Backbone]:
    """Return the vision encoders of timm that start from its weights."""
    models = [config.model for config in configs if isinstance(config.model, CaptionModel)]
    names = dict.fromkeys(model.backbone for model in models if model.weights == "pretrained")
    return [BACKBONES[name] for name in names if BACKBONES[name].timm]


def list_missing(configs: Sequence[RunConfig], folder: Path) -> list[str]:
    """Return the data sets and weights without which no run could start, by the names of files only."""
    missing = set()
    for data in {config.data for config in configs}:
        reader: Any = data.reader()
        is_table = isinstance(reader, TableReader)  # which would read all of its table
        if not (folder / reader.config.path).exists() if is_table else reader.find_missing(folder):
            missing.add(data.title)
    for backbone in pretrained_backbones(configs):
        try:
            find_timm_weights(backbone.timm)
        except DataError:
            missing.add(f"weights of {backbone.title}")
    return sorted(missing)


def check_weights(configs: Iterable[RunConfig]) -> None:
    """Check that weights of timm are in the cache, or that the hub has them and answers.

    Raises:
        DataError: They cannot be loaded. Every run would fail after 46 s, in which the hub is asked again.
    """
    for backbone in pretrained_backbones(configs):
        try:
            find_timm_weights(backbone.timm)
        except DataError as problem:
            from huggingface_hub import HfApi

            try:
                HfApi().model_info(f"timm/{backbone.timm}", timeout=10)
            except Exception as error:  # those of the network and the hub have no common base
                reason = (str(error).splitlines() or [type(error).__name__])[0]
                raise DataError(f"weights of {backbone.title}: {problem} ({reason})") from None


def find_timm_weights(model: str) -> str:
    from huggingface_hub import try_to_load_from_cache

    repository = f"timm/{model}"
    for name in ("model.safetensors", "pytorch_model.bin"):
        if isinstance(file := try_to_load_from_cache(repository, name), str):
            return file
    raise DataError(
        f"not in the Hugging Face cache. Run `hf download {repository}` on a machine with a network, and copy"
        " its cache to HF_HOME (docs/how-to/offline.md), or set model.weights=random"
    )
