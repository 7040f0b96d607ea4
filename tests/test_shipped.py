"""The studies that come with recstudy, and the beginning of one's own."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recstudy.command import main
from recstudy.config import DATASETS, FAMILIES, TrainConfig
from recstudy.config.fields import described
from recstudy.shipped import shipped

STUDIES = Path(__file__).parents[1] / "studies"


def said(capsys, code: int, *words: str) -> str:
    with pytest.raises(SystemExit, match=rf"^{code}$"):
        main(words)
    output = capsys.readouterr()
    return output.err.strip() if code else output.out


def test_every_study_is_listed_with_what_it_asks(capsys):
    text = said(capsys, 0, "studies")

    assert set(shipped()) == {file.stem for file in STUDIES.glob("*_*.py")}
    assert all(name in text for name in shipped())
    assert "How deep should ViTRM think" in text


@pytest.mark.whole
def test_a_study_is_run_from_wherever_it_lies(tmp_path):
    words = ["run", "vitrm_depth_sweep", "--dry-run", "train.epochs=1"]
    code = f"from recstudy.command import main; main({words})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)

    assert done.stdout.startswith("vitrm_depth_sweep, preset quick: 20 runs")


def test_a_study_that_there_is_not_is_named_with_the_nearest(capsys):
    assert said(capsys, 2, "run", "vitrm_depth") == (
        "ConfigError: no study 'vitrm_depth'. Did you mean 'vitrm_depth_sweep'? `recstudy studies` lists them"
    )


@pytest.mark.whole
def test_a_new_study_runs_as_it_stands(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said(capsys, 0, "new", "mine") == "mine.py: run it with python mine.py\n"

    planned = subprocess.run([sys.executable, "mine.py", "--dry-run"], capture_output=True, text=True, check=True).stdout

    assert planned.startswith("mine, preset quick: 9 runs")
    assert "own_model" not in Path("mine.py").read_text()
    assert said(capsys, 2, "new", "mine").startswith("ConfigError: mine.py is there already")
    assert said(capsys, 2, "new", "My study").startswith("ConfigError: a study's name is that of a Python module")


def test_every_field_of_every_part_is_described(capsys):
    for kind in (TrainConfig, *FAMILIES.values(), *DATASETS.values()):
        assert all(field.kind and "<" not in field.kind for field in described(kind, ""))
    rows = {field.path: field for field in described(TrainConfig, "train.")}
    assert rows["train.batch_size"][1:4] == ("int from 1", "128", "16, 32, 64, 128, 256, 512")
    assert rows["train.halting"].kind == "batch, sample"
    assert rows["train.backbone_learning_rate"].default == "null"
    assert rows["train.augment.flip"].default == "false"
    assert "model.latent_steps" in said(capsys, 0, "fields", "vitrm")
    assert "Did you mean 'vitrm'?" in said(capsys, 2, "fields", "vitrmm")


TYPED = pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("stu",), {"studies"}),
        (("run", "vitrm_depth"), {"vitrm_depth_sweep"}),
        (("run", ""), set(shipped())),
        (("run", "vitrm_depth_sweep", "train.ep"), {"train.epochs="}),
        (("run", "vitrm_depth_sweep", "--seeds", "1", "model.latent_st"), {"model.latent_steps="}),
        (("run", "vitrm_depth_sweep", "--dry"), {"--dry-run"}),
        (("run", "vitrm_depth_sweep", "train.epochs", "=", "5"), set()),
        (("report", "--exp"), {"--export"}),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)


@TYPED
def test_bash_completes_studies_and_their_fields(typed, offered, capsys, tmp_path):
    """As it calls what `recstudy completion bash` printed, on words that it has split, at '=' too."""
    words = " ".join(f"'{word}'" for word in ("recstudy", *typed))
    asked = f"compopt() {{ :; }}; COMP_WORDS=({words}); COMP_CWORD={len(typed)}"  # outside of a terminal there is no compopt
    called = "$(complete -p recstudy | sed 's/.*-F //; s/ .*//')"
    (tmp_path / "asked").write_text(f"{said(capsys, 0, 'completion', 'bash')}\n{asked}\n{called}\necho ${{COMPREPLY[@]}}\n")

    done = subprocess.run(["bash", "--norc", tmp_path / "asked"], capture_output=True, text=True, check=True)

    assert set(done.stdout.split()) == offered, done.stderr


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh; CI installs one")
@TYPED
def test_zsh_completes_the_same(typed, offered, capsys, tmp_path):
    """As it calls what `recstudy completion zsh` printed. Zsh itself chooses among what is offered by what has been typed."""
    words = " ".join(f"'{word}'" for word in ("recstudy", *typed))
    stubs = "compdef() { asked=$1 }; compadd() { print -l -- ${@[${@[(i)--]} + 1, -1]} }; _describe() { print -l -- ${(P)2%%:*} }"
    called = f"words=({words}); CURRENT={len(typed) + 1}; $asked"
    (tmp_path / "asked").write_text(f"{stubs}\n{said(capsys, 0, 'completion', 'zsh')}\n{called}\n")

    done = subprocess.run(["zsh", "-f", tmp_path / "asked"], capture_output=True, text=True, check=True)

    assert {word for word in done.stdout.split() if word.startswith(typed[-1])} == offered, done.stderr
