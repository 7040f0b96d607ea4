"""List the data sets, weight files and tools that runs need (`--check-setup`)."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from recstudy.base.errors import DataError
from recstudy.base.lazy import LazyModule
from recstudy.programs.base import Requirement
from recstudy.programs.metric import METRICS, NotInstalled
from recstudy.recursive.config.reader import Reader
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.models.caption import BACKBONES, CaptionModel, aligner_of
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
        if isinstance(model, CaptionModel) and model.weights == "pretrained":
            backbone = BACKBONES[model.backbone]
            if backbone.timm:
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


def find_timm_weights(model: str) -> str:
    import timm  # takes 2 s
    from huggingface_hub import try_to_load_from_cache

    source = timm.get_pretrained_cfg(model)
    repository = str(source and source.hf_hub_id)
    for name in ("model.safetensors", "pytorch_model.bin"):
        if isinstance(file := try_to_load_from_cache(repository, name), str):
            return file
    raise DataError(
        f"not in the Hugging Face cache. Run `hf download {repository}` on a machine with a network, and copy"
        " its cache to HF_HOME (docs/how-to/offline.md), or set model.weights=random"
    )
