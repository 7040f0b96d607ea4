"""List the data sets, weight files and tools that runs need (`--check-setup`), without a network or torch."""

import os
import shutil
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

from recstudy.base.errors import RecstudyError
from recstudy.programs.base import SetupItem
from recstudy.recursive.config.parts import DataConfig
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.data.captioned import Captioned
from recstudy.recursive.data.text import FILES, REPOSITORY, clip_files
from recstudy.recursive.models.caption import BACKBONES, CaptionModel

PAGE = "docs/data/tools.md"
# The weights that timm loads for a name without a tag.
TAGS = {
    "resnet18": "a1_in1k",
    "swin_tiny_patch4_window7_224": "ms_in1k",
    "swin_base_patch4_window7_224": "ms_in22k_ft_in1k",
}
RATESCORE = ("entities/config.json", "meanings/config.json", "weights.json")
COCO = ("meteor/meteor-1.5.jar", "meteor/data/paraphrase-en.gz", "tokenizer/stanford-corenlp-3.4.1.jar")


def setup_items(configs: Iterable[RunConfig], folder: Path) -> Iterator[SetupItem]:
    """Yield each data set, weight file and tool of these runs once.

    Args:
        configs: The configs of the runs.
        folder: The folder with the data sets.
    """
    configs = list(configs)
    for data in dict.fromkeys(config.data for config in configs):
        yield _data_item(data, folder)
        if isinstance(data, Captioned) and data.tokenizer == "clip":
            try:
                yield _files_item("CLIP's tokenizer", clip_files(data, folder), "")
            except RecstudyError as error:
                path = folder / data.clip_files
                yield SetupItem(
                    "CLIP's tokenizer", str(path), f"{error} hf download {REPOSITORY} {' '.join(FILES)}"
                )
    names = {
        config.model.backbone: None
        for config in configs
        if isinstance(config.model, CaptionModel) and config.model.weights == "pretrained"
    }
    for name in names:
        if timm_name := BACKBONES[name].timm:
            yield _weights_item(BACKBONES[name].title, timm_name)
    if any(TASKS[config.task].output == "caption" for config in configs):
        java, coco = shutil.which("java"), find_spec("pycocoevalcap")
        fix = f"apt-get install openjdk-17-jre-headless ({PAGE})"
        yield SetupItem("Java of METEOR", java or "java", "" if java else fix)
        places = (coco and coco.submodule_search_locations) or ["pycocoevalcap"]
        place = Path(next(iter(places)))
        yield _files_item("METEOR", [place / name for name in COCO], f"pip install pycocoevalcap ({PAGE})")
    if any(TASKS[config.task].output == "caption" and not config.data.synthetic for config in configs):
        place = Path(os.environ.get("RECSTUDY_RATESCORE") or "RECSTUDY_RATESCORE (not set)")
        yield _files_item("RaTEScore", [place / name for name in RATESCORE], f"see {PAGE}")
        is_installed = find_spec("transformers") is not None
        fix = f"pip install 'recstudy[rate]' ({PAGE})"
        yield SetupItem("RaTEScore's package", "transformers", "" if is_installed else fix)


def _data_item(data: DataConfig, folder: Path) -> SetupItem:
    reader = data.reader()
    try:
        reader.check(folder)
        files = [folder / name for name in reader.sources(folder)]
    except RecstudyError as error:
        return SetupItem(data.title, str(folder / getattr(data, "path", "")), str(error))
    place = os.path.commonpath(files) if files else "generated, or part of a package"
    return SetupItem(data.title, str(place), "", sum(file.stat().st_size for file in files))


def _weights_item(title: str, name: str) -> SetupItem:
    from huggingface_hub import constants, try_to_load_from_cache

    repository = f"timm/{name}" if "." in name else f"timm/{name}.{TAGS[name]}"
    file = try_to_load_from_cache(repository, "model.safetensors")
    fix = f"hf download {repository} model.safetensors config.json ({PAGE})"
    path = (
        Path(file)
        if isinstance(file, str)
        else Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
    )
    return _files_item(f"weights of {title}", [path], fix)


def _files_item(name: str, files: Iterable[Path], fix: str) -> SetupItem:
    """Return an item for files that must all exist."""
    files = list(files)
    if missing := [file for file in files if not file.is_file()]:
        return SetupItem(name, str(missing[0]), fix)
    return SetupItem(name, str(files[0].parent), "", sum(file.stat().st_size for file in files))
