"""What `recstudy new` writes runs as it stands. Starters of a model: tests/test_docs.py."""

import csv
import os
import subprocess
from pathlib import Path

import pytest
from processes import run_python

from recstudy.base.errors import StorageError
from recstudy.cli import main
from recstudy.cli.new import write_starter


@pytest.fixture
def new(capsys):
    """The words behind `recstudy new` -> exit code and output."""

    def write(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit, match=r"^(None|\d)?$") as end:
            main(["new", *words])
        output = capsys.readouterr()
        return end.value.code or 0, output.out + output.err

    return write


def test_without_ray_every_message_names_the_command_that_works():
    """As on a base install: `import ray` fails."""

    def run(words: str, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        without_ray = f"import sys; sys.modules['ray'] = None; sys.argv[1:] = {list(arguments)}; {words}"
        return run_python("-c", without_ray, code=code)

    new = run("from recstudy.cli import main; main(sys.argv[1:])", "new", "mine")
    assert new.stdout == "mine.py: run it with python mine.py --no-ray\n"
    assert "    python mine.py --no-ray --seeds 10   #" in Path("mine.py").read_text()
    study = "import runpy; sys.argv[0] = 'mine.py'; runpy.run_path('mine.py', run_name='__main__')"
    assert run(study, code=2).stderr == (
        'ray is not installed. In the clone of recstudy: pip install ".[train]". Without Ray: --no-ray (in'
        " Python: ray=False)\n"
    )
    run(study, "--no-ray")


@pytest.mark.parametrize(
    ("words", "scripts"),
    [([], []), (["--script"], ["train.py: the script that the study runs\n"])],
)
def test_a_starter_runs_and_its_claims_are_supported(words, scripts, new):
    assert new("mine", *words) == (0, "".join([*scripts, "mine.py: run it with python mine.py\n"]))

    run_python("mine.py", "--no-ray")

    with open("results/studies/mine/default/report/tables/claims.csv") as file:
        assert {claim["verdict"] for claim in csv.DictReader(file)} == {"supported"}
    assert "my_study" not in Path("mine.py").read_text()


def test_a_script_that_exists_is_left_as_it_is(new):
    Path("train.py").write_text("mine")

    assert new("study", "--command", "python -u train.py") == (0, "study.py: run it with python study.py\n")

    assert Path("train.py").read_text() == "mine"
    text = Path("study.py").read_text()
    assert '"python -u train.py --lr {lr} --seed {seed} --out {folder}"' in text
    assert "generated" not in text
    assert new("study")[1].startswith("ConfigError: study.py is there already")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["mine", "--function", "--model"], "a study has one program: give --function or --model"),
        (["mine", "--script", "--model"], "a study has one program: give --script or --model"),
        (
            ["mine", "--command", "python train.py --lr 0.1"],
            "train.py does not exist here. Give the command of an existing",
        ),
        (
            ["mine", "--command", "python {lr}"],
            "give the command with its numbers, such as 'python train.py --lr 0.1'",
        ),
        (["mine", "--command", "a > b"], "No shell is used, so '>' would be an argument of a"),
        (["My study"], "a study's name is that of a Python module"),
        (
            ["torch"],
            "torch.py would be imported wherever the module 'torch' is meant. Give another name, such as my_torch",
        ),
        (["class"], "class.py: 'class' is a keyword of Python"),
        (["conftest"], "conftest.py would be run by pytest"),
        (["random"], "random.py would be imported"),
        (["recstudy"], "recstudy.py would be imported"),
    ],
)
def test_new_refuses_a_study_that_it_cannot_write(words, message, new):
    code, output = new(*words)

    assert code == 2
    assert output.startswith(f"ConfigError: {message}")
    assert not list(Path().iterdir())


SAVES = """
import json, sys
values = dict(word.lstrip("-").split("=") for word in sys.argv[1:])
json.dump({"accuracy": float(values["lr"])}, open(values["out"] + "/metrics.json", "w"))
"""


@pytest.mark.parametrize(
    ("line", "command", "settings", "variants"),
    [
        (
            "--lr=0.1 --seed=3 --out=x",
            "--lr={lr} --seed={seed} --out={folder}",
            '{"lr": 0.1}',
            'grid({"lr": [0.05, 0.1]})',
        ),
        (
            "-v --n-layers 3 --name a --lr 1e-3",
            "-v --n-layers {n_layers} --name a --lr {lr}",
            '{"n_layers": 3, "lr": 0.001}',
            'grid({"n_layers": [3, 6]})',
        ),
        (
            "arch.depth=4 +train.seed=1 +checkpoint_path=x ema=True",
            "arch.depth={arch.depth} +train.seed={seed} +checkpoint_path={folder} ema=True",
            '{"arch": {"depth": 4}}',
            'grid({"arch.depth": [4, 8]})',
        ),
        ("--seed 3", "--seed {seed}", "{}", '[Variant("as_it_is", {})]'),
    ],
)
def test_the_numbers_of_a_command_become_settings(line, command, settings, variants, new):
    Path("run.py").write_text(SAVES)
    assert new("mine", "--command", f"python run.py {line}")[0] == 0

    text = Path("mine.py").read_text()
    assert f'    "python run.py {command}",\n' in text
    assert f"    settings={settings},\n" in text
    assert f"    variants={variants},\n" in text
    assert ('metrics=JsonFile("metrics.json"),' in text) == ("{folder}" in command)
    run_python("mine.py", "--no-ray" if "--out" in line else "--dry-run")


def test_options_of_a_launcher_stay_and_a_script_that_logs_to_wandb_is_read_there(new):
    Path("run.py").write_text("import wandb\n")
    assert new("mine", "--command", "torchrun --nproc_per_node 2 run.py --lr 0.1")[0] == 0

    text = Path("mine.py").read_text()
    assert '    "torchrun --nproc_per_node 2 run.py --lr {lr}",\n' in text
    assert "    metrics=Wandb(),\n" in text


@pytest.mark.skipif(os.getuid() != 0, reason="takes the rights of another user, as root alone may")
def test_new_in_a_folder_of_another_user_is_one_line(tmp_path):
    os.seteuid(65534)
    try:
        with pytest.raises(StorageError, match=r"cannot write .*mine.py: Permission denied. Use a writable"):
            write_starter("mine", tmp_path)
    finally:
        os.seteuid(0)
