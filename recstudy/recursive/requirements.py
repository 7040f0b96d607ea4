"""List the data sets, weight files and tools that runs need (`--check-setup`)."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from recstudy.base.errors import DataError
from recstudy.programs.base import Requirement
from recstudy.programs.metric import METRICS, NotInstalled
from recstudy.recursive.config.parts import DataConfig
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.models.caption import BACKBONES, CaptionModel, aligner_of
from recstudy.recursive.tasks.captioning.scores import RATES

PAGE = "docs/how-to/offline.md"  # on a node without a network
JAVA = "no `java` on the PATH. Install a Java runtime of version 8 or newer"


def list_requirements(
    configs: Sequence[RunConfig], metrics: Iterable[str], folder: Path
) -> list[Requirement]:
    """Return what runs need, each with its place, or with the problem and its fix.

    Args:
        configs: The settings of the runs.
        metrics: The metrics that the study shows, claims or selects by.
        folder: The folder with the data sets.
    """
    checks: dict[str, Callable[[], Path | str]] = {}
    for config in configs:
        data, model = config.data, config.model
        path = getattr(data, "path", data.title)
        name = f"data set {data.title}" + f" ({path})" * (path != data.title)
        checks[name] = partial(_data_set, data, folder)
        if getattr(data, "tokenizer", "") == "clip":
            checks["CLIP's tokenizer"] = partial(_clip, data, folder)
        if isinstance(model, CaptionModel) and model.weights == "pretrained":
            backbone = BACKBONES[model.backbone]
            if backbone.timm:
                checks[f"weights of {backbone.title}"] = partial(_timm_weights, backbone.timm)
        if (aligner := aligner_of(model)[0]) and aligner.files:
            checks[f"weights of FuseLIP ({aligner.files})"] = partial(_fuselip, folder / aligner.files)
    # A selection score is a metric too. It may not be registered, such as the loss.
    names = {*metrics, *(str(config.train.score) for config in configs)} & {*METRICS}
    if any(METRICS[name].of_words for name in names):
        checks["Java (Stanford's tokenizer, METEOR)"] = _java
    if "meteor_nltk" in names:
        checks["WordNet of NLTK"] = _wordnet
    if not names.isdisjoint(RATES):
        checks["models of RaTEScore"] = _rate_score
    found = []
    for name, check in checks.items():
        try:
            if place := check():
                found.append(Requirement(name, str(place)))
        except (DataError, NotInstalled) as problem:
            found.append(Requirement(name, "", str(problem)))
    return found


def _data_set(data: DataConfig, folder: Path) -> Path | str:
    """Return the folder of a data set; empty if it needs no files."""
    reader = data.reader()
    reader.check(folder)
    sources = reader.sources(folder)
    return (folder / sources[0]).parent if sources else ""


def _clip(data: DataConfig, folder: Path) -> Path:
    from recstudy.recursive.data.captioned import Captioned
    from recstudy.recursive.data.text import clip_files

    assert isinstance(data, Captioned)
    return clip_files(data, folder)[0].parent


def _timm_weights(model: str) -> str:
    import timm
    from huggingface_hub import try_to_load_from_cache

    source = timm.get_pretrained_cfg(model)
    repository = str(source and source.hf_hub_id)
    for name in ("model.safetensors", "pytorch_model.bin"):
        if isinstance(file := try_to_load_from_cache(repository, name), str):
            return file
    raise DataError(
        f"not in the Hugging Face cache. Run `hf download {repository}` on a machine with a network, and copy"
        f" its cache to HF_HOME ({PAGE}), or set model.weights=random"
    )


def _fuselip(folder: Path) -> Path:
    from recstudy.recursive.models.networks.fuselip_weights import weight_file

    return weight_file(folder)


def _java() -> str:
    if (java := shutil.which("java")) is None:
        raise NotInstalled(JAVA)
    return java


def _wordnet() -> str:
    with suppress(ImportError, LookupError):
        import nltk

        return str(nltk.data.find("corpora/wordnet.zip"))
    raise NotInstalled(
        f"not found. `pip install 'recstudy[rate]'` and `python -m nltk.downloader wordnet` ({PAGE})"
    )


def _rate_score() -> Path:
    from recstudy.recursive.tasks.captioning.rate_score import model_folder, read_weights

    folder = model_folder()
    read_weights(folder / "weights.json")
    for name in ("entities", "meanings"):
        if not (folder / name / "config.json").is_file():
            raise NotInstalled(f"{folder / name} holds no model ({PAGE})")
    if find_spec("transformers") is None:
        raise NotInstalled("the package transformers is not installed: pip install 'recstudy[rate]'")
    return folder
