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


IN_BASH = """{completion}
compopt() {{ :; }}; COMP_WORDS=({words}); COMP_CWORD={last}  # outside of a terminal there is no compopt
$(complete -p recstudy | sed 's/.*-F //; s/ .*//')
echo ${{COMPREPLY[@]}}
"""
IN_ZSH = """compdef() {{ asked=$1 }}; compadd() {{ print -l -- ${{@[${{@[(i)--]}} + 1, -1]}} }}; _describe() {{ print -l -- ${{(P)2%%:*}} }}
{completion}
words=({words}); CURRENT=$(({last} + 1)); $asked
"""
has_zsh = pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh; CI installs one")


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        pytest.param(["bash", "--norc"], IN_BASH, id="bash"),
        pytest.param(["zsh", "-f"], IN_ZSH, id="zsh", marks=has_zsh),
    ],
)
@pytest.mark.parametrize(
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
def test_shells_complete_studies_and_their_fields(shell, script, typed, offered, capsys, tmp_path):
    """As each calls what `recstudy completion` printed: bash splits words at '=' too; zsh itself chooses among what is offered."""
    words = " ".join(f"'{word}'" for word in ("recstudy", *typed))
    completion = said(capsys, 0, "completion", shell[0])
    (tmp_path / "asked").write_text(script.format(completion=completion, words=words, last=len(typed)))

    done = subprocess.run([*shell, tmp_path / "asked"], capture_output=True, text=True, check=True)

    assert {word for word in done.stdout.split() if shell[0] == "bash" or word.startswith(typed[-1])} == offered, done.stderr
