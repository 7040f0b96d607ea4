"""`--check-setup`: each data set, weight file and tool that runs need, found or missing."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub import constants

from recstudy.recursive import CaptionFolder, ImageTRM, PhantomCaptions, RunConfig
from recstudy.recursive.requirements import list_requirements
from recstudy.recursive.tasks.captioning.rate_score import FOLDER, TYPES

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
    pairs = {"_".join(pair).lower(): 0.5 for pair in itertools.product(TYPES, TYPES)}
    (tmp_path / "weights.json").write_text(json.dumps(pairs))
    note()
    for name in ("entities", "meanings"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").touch()
    note()

    assert [problem.partition(":")[0] for problem in problems[:3]] == [
        f"{FOLDER} names no folder with its models (docs/how-to/offline.md)",
        f"{tmp_path} has no weights.json, entities/config.json, meanings/config.json (docs/how-to/offline.md)",
        f"{tmp_path} has no entities/config.json, meanings/config.json (docs/how-to/offline.md)",
    ]
    assert problems[3] in (
        str(tmp_path),
        "the package transformers is not installed: install recstudy with its extra `rate`",
    )


@pytest.mark.parametrize(
    ("preset", "code", "last_line"),
    [("paper", 2, "1 of 1 requirement missing."), ("quick", 0, "The runs need no files.")],
)
def test_the_exit_code_of_check_setup_tells_whether_anything_is_missing(tmp_path, preset, code, last_line):
    study = Path(__file__).parents[2] / "studies/vitrm_depth_sweep.py"
    options = ["--preset", preset, "--check-setup", "--data", str(tmp_path)]
    done = subprocess.run([sys.executable, study, *options], capture_output=True, text=True, cwd=tmp_path)

    assert (done.returncode, done.stdout.splitlines()[-1]) == (code, last_line)
    assert not [*tmp_path.iterdir()]
