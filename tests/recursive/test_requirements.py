"""`--check-setup`: each data set, weight file and tool that runs need, found or missing."""

import sys
from pathlib import Path

import pytest
from huggingface_hub import constants
from processes import run_python
from rate_weights import write_weights

from recstudy.recursive import CaptionFolder, Cifar10, ImageTRM, PhantomCaptions, RunConfig
from recstudy.recursive.program import RECURSIVE_MODELS
from recstudy.recursive.requirements import list_requirements
from recstudy.recursive.tasks.captioning.rate_score import FOLDER

CAPTIONER = RunConfig(data=CaptionFolder(path="own"), model=ImageTRM())
CLIP = RunConfig(data=PhantomCaptions(tokenizer="clip"), model=ImageTRM(weights="random", backbone="small"))
NO_FILES = CLIP.model_copy(update={"data": PhantomCaptions()})


def found(config, folder, *metrics):
    return {need.name: need.problem or need.place for need in list_requirements([config], metrics, folder)}


def test_a_data_set_is_missing_until_its_files_are_there(tmp_path):
    before = found(CAPTIONER, tmp_path)["data set own"]
    (tmp_path / "own/images").mkdir(parents=True)
    rows = [f"{split}.png,a dot,{split}" for split in ("train", "val", "test")]
    for split in ("train", "val", "test"):
        (tmp_path / f"own/images/{split}.png").touch()  # images are not opened
    (tmp_path / "own/captions.csv").write_text("\n".join(["image,caption,split", *rows]))

    assert "(own is missing)" in before
    assert "docs/data/captions.md" in before
    assert found(CAPTIONER, tmp_path)["data set own"] == str(tmp_path / "own")
    assert found(NO_FILES, tmp_path) == {}


def test_weights_of_timm_are_found_in_the_cache_of_the_hub(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    before = found(CAPTIONER, tmp_path)["weights of ResNet-18"]
    repository = tmp_path / "models--timm--resnet18.a1_in1k"
    weights = repository / "snapshots/1/model.safetensors"
    weights.parent.mkdir(parents=True)
    weights.touch()
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text("1")

    assert "`hf download timm/resnet18.a1_in1k`" in before
    assert found(CAPTIONER, tmp_path)["weights of ResNet-18"] == str(weights)


def test_clip_s_tokenizer_is_found_in_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    before = found(CLIP, tmp_path)["CLIP's tokenizer"]
    (tmp_path / "clip").mkdir()
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / "clip" / name).touch()

    assert "openai/clip-vit-base-patch32" in before
    assert found(CLIP, tmp_path) == {"CLIP's tokenizer": str(tmp_path / "clip/vocab.json")}


def test_java_is_needed_by_metrics_of_words_only(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.touch(mode=0o755)
    name = "Java (Stanford's tokenizer, METEOR)"
    monkeypatch.setenv("PATH", str(tmp_path))
    before = found(NO_FILES, tmp_path, "bleu_4")[name]
    monkeypatch.setenv("PATH", str(java.parent))

    assert before == "Java is not installed (no `java` on the PATH)"
    assert found(NO_FILES, tmp_path, "bleu_4") == {name: str(java)}
    assert found(NO_FILES, tmp_path, "params") == {}


def test_a_selection_score_is_a_metric_too(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    train = NO_FILES.train.model_copy(update={"score": "report_score"})

    assert [*found(NO_FILES.model_copy(update={"train": train}), tmp_path)] == [
        "Java (Stanford's tokenizer, METEOR)"
    ]


def test_models_of_rate_score_are_missing_one_by_one(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv(FOLDER, raising=False)
    problems = []

    def note():
        problems.append(found(NO_FILES, tmp_path, "rate_score")["models of RaTEScore"])

    note()
    monkeypatch.setenv(FOLDER, str(tmp_path))
    note()
    write_weights(tmp_path)
    note()
    for name in ("entities", "meanings"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").touch()
    monkeypatch.setitem(sys.modules, "transformers", None)
    note()
    monkeypatch.setitem(sys.modules, "transformers", pytest)  # any module, because it is not loaded
    note()

    assert [problem.partition(":")[0] for problem in problems[:3]] == [
        f"{FOLDER} names no folder with its models (docs/how-to/offline.md)",
        f"{tmp_path} has no weights.json, entities/config.json, meanings/config.json (docs/how-to/offline.md)",
        f"{tmp_path} has no entities/config.json, meanings/config.json (docs/how-to/offline.md)",
    ]
    assert problems[3:] == [
        "the package transformers is not installed: install recstudy with its extra `rate`",
        str(tmp_path),
    ]


STUDY = """
from recstudy import Study, Variant, main
from recstudy.recursive import ImageTRM, PhantomCaptions, RunConfig, TrainConfig

run = RunConfig(data=PhantomCaptions(), model=ImageTRM(), train=TrainConfig(epochs=1))
study = Study("captioner", presets={"quick": run}, variants=[Variant("TRM", {})])
if __name__ == "__main__":
    main(study)
"""


def test_a_start_without_weights_is_refused_in_one_line_and_a_dry_run_names_them(tmp_path):
    """Each run would ask the hub again and again, and fail. In another process, because the hub's client reads
    its settings once.
    """
    (tmp_path / "captioner.py").write_text(STUDY)

    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hf")}
    dry_run = run_python("captioner.py", "--dry-run", folder=tmp_path, **offline)
    assert dry_run.stdout.endswith("\nMissing: weights of ResNet-18. --check-setup lists sources.\n")
    (line,) = run_python("captioner.py", "--no-ray", code=2, folder=tmp_path, **offline).stderr.splitlines()
    assert line.startswith(
        "DataError: weights of ResNet-18: not in the Hugging Face cache. Run `hf download timm/"
    )
    assert not [*tmp_path.glob("results/runs/*")]


def test_a_dry_run_names_missing_data_once(tmp_path):
    data = [Cifar10(), Cifar10(limit=100)]
    runs = [NO_FILES, *(NO_FILES.model_copy(update={"data": cifar10}) for cifar10 in data)]

    assert RECURSIVE_MODELS.check_data(runs[:1], tmp_path) == []
    assert RECURSIVE_MODELS.check_data(runs, tmp_path) == ["Missing: CIFAR-10. --check-setup lists sources."]


@pytest.mark.parametrize(
    ("preset", "code", "last_line"),
    [("paper", 2, "1 of 1 requirement missing."), ("quick", 0, "The runs need no files.")],
)
def test_the_exit_code_of_check_setup_tells_whether_anything_is_missing(tmp_path, preset, code, last_line):
    study = Path(__file__).parents[2] / "studies/vitrm_depth_sweep.py"
    options = ["--preset", preset, "--check-setup", "--data", tmp_path]
    done = run_python(study, *options, code=code, folder=tmp_path)

    assert done.stdout.splitlines()[-1] == last_line
    assert not [*tmp_path.iterdir()]
