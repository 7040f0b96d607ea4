"""Metrics and settings as scripts write and take them: real processes, without Ray."""

import re
from pathlib import Path

import pytest
from processes import run_python
from refusals import refused

from recstudy import Command, CsvFile, JsonFile, LastLine, Metric, Study, Variant, Wandb, Yaml, run
from recstudy.base.errors import ConfigError
from recstudy.plugins import gathering
from recstudy.programs.command_line import split_words
from recstudy.programs.sources import CommandOutput, read_step
from recstudy.records import EpochLine, read_log

ACCURACY, LOSS = {"accuracy": Metric("%")}, {"loss": Metric(better="lower")}
TWO = LOSS | ACCURACY


@pytest.fixture
def row(tmp_path):
    """The text of a script and the source of its metrics -> the row of its run."""

    def start(
        script: str, source, metrics=ACCURACY, line="python train.py {folder}", settings=None, **options
    ):
        Path("train.py").write_text(f"import json, os, sys\nfolder = sys.argv[1]\n{script}")
        with gathering():
            program = Command(line, folder=tmp_path, metrics=source, **options)
            values = settings or {}
            study = Study(
                "s", program=program, settings=values, metrics=metrics, variants=[Variant("one", {})]
            )
            (values,) = run(study, ray=False).runs.to_dict("records")
        return values

    return start


def curve() -> list[dict]:
    (log,) = Path("results/runs").glob("*/epochs.jsonl")
    return [{**line.values, "seconds": 0} for line in read_log(log, EpochLine)]


NESTED = """json.dump({"test": {"acc": 91.5}, "all/loss": "0.25"}, open(folder + "/out.json", "w"))"""


@pytest.mark.parametrize(
    ("script", "source", "metrics", "values"),
    [
        (NESTED, JsonFile("out.json", "test.acc"), ACCURACY, {"accuracy": 91.5}),
        (NESTED, JsonFile("out.json", "test/acc"), ACCURACY, {"accuracy": 91.5}),
        (NESTED, JsonFile("o*.json", {"accuracy": "test.acc", "loss": "all/loss"}), TWO, {"accuracy": 91.5, "loss": 0.25}),
        (f"folder += '/a'; os.mkdir(folder)\n{NESTED}", JsonFile("out.json", "test.acc"), ACCURACY, {"accuracy": 91.5}),
    ],
)  # fmt: skip
def test_nested_json_has_the_metrics(script, source, metrics, values, row):
    finished = row(script, source, metrics)

    assert {name: finished[name] for name in values} == values


# as Lightning's CSVLogger writes it
LIGHTNING = """
os.makedirs(folder + "/lightning_logs/version_0")
open(folder + "/lightning_logs/version_0/metrics.csv", "w").write(
'''epoch,step,train/loss,val/acc
0,9,0.9,
0,9,,80
1,19,0.5,
1,19,,90
2,29,0.4,
2,29,,85
''')
"""
SOURCES = {"loss": "train/loss", "accuracy": "val/acc"}
LOGGED = """
import wandb
wandb.init(project="p", config={"lr": 1}, settings=wandb.Settings(start_method="fork"))
for step, (loss, accuracy) in enumerate([(0.9, 80), (0.5, 90), (0.4, 85)]):
    wandb.log({"train": {"loss": loss}}, step=10 * step + 9)
    wandb.log({"val": {"acc": accuracy}, "image": wandb.Image([1])}, step=10 * step + 9)
wandb.finish()
"""


@pytest.mark.parametrize(
    ("step", "values"), [("last", (0.4, 85)), ("best", (0.5, 90)), (9, (0.9, 80))], ids=["last", "best", "9"]
)
@pytest.mark.parametrize(
    ("script", "source"),
    [
        (LIGHTNING, lambda sources, step: CsvFile("metrics.csv", sources, step)),
        (LIGHTNING, lambda sources, step: CsvFile("lightning_logs/*/metrics.csv", sources, step)),
        (LOGGED, Wandb),
    ],
    ids=["csv", "glob", "wandb"],
)
def test_logs_have_the_metrics_of_a_step_and_a_curve(script, source, step, values, row):
    metrics = {"accuracy": ACCURACY["accuracy"], "loss": LOSS["loss"]}
    finished = row(script, source(SOURCES, step), metrics)

    assert (finished["loss"], finished["accuracy"]) == values
    assert curve() == [
        {"epoch": 9, "loss": 0.9, "accuracy": 80, "seconds": 0},
        {"epoch": 19, "loss": 0.5, "accuracy": 90, "seconds": 0},
        {"epoch": 29, "loss": 0.4, "accuracy": 85, "seconds": 0},
    ]


def test_steps_are_reported_while_the_command_runs(row):
    script = LOGGED.replace("wandb.finish()", "import time; time.sleep(3); sys.exit(1)")

    assert row(script, Wandb("val/acc"))["status"] == "failed"
    seconds = [
        line.values["seconds"]
        for line in read_log(next(Path("results/runs").glob("*/epochs.jsonl")), EpochLine)
    ]
    assert seconds[0] < 3 < seconds[-1]


@pytest.mark.parametrize(
    ("log", "source"),
    [
        ("import wandb\nfor step, value in enumerate(values): wandb.log({'acc': value}, step=step)", Wandb("acc", "best")),
        (
            "version = len(os.listdir(folder))\nos.mkdir(f'{folder}/{version}')\n"
            "lines = ['step,acc', *(f'{step},{value}' for step, value in enumerate(values))]\n"
            "open(f'{folder}/{version}/metrics.csv', 'w').write('\\n'.join(lines))",
            CsvFile("metrics.csv", "acc", "best"),
        ),
    ],
    ids=["wandb", "csv"],
)  # fmt: skip
def test_an_attempt_that_starts_again_replaces_what_a_failed_one_logged(row, log, source):
    """The accuracy of the corrected script was 94, which the script that failed had logged."""
    failing = f"values = [90, 91, 92, 93, 94]\n{log}\nsys.exit(1)"
    assert row(failing, source)["status"] == "failed"
    finished = row(f"values = [10, 12, 11]\n{log}", source)

    assert finished["accuracy"] == 12
    assert [line["accuracy"] for line in curve()] == [10, 12, 11]


def test_what_a_failed_attempt_logged_is_no_metric_of_one_that_logs_none(row):
    failing = "import wandb\nwandb.init(config={'lr': 1})\nwandb.log({'acc': 94})\nsys.exit(1)"
    row(failing, Wandb("acc"))
    silent = "import wandb\nwandb.init(config={'lr': 1})\nwandb.finish()"

    finished = row(silent, Wandb("acc"))
    assert finished["status"] == "failed"
    assert "what wandb logged is from an earlier attempt, which failed" in finished["error"]


@pytest.mark.parametrize("first", ["wandb.log({'params': 1e6})", "wandb.summary['x'] = 1"])
def test_a_resumed_attempt_keeps_the_steps_before_it(first, row):
    log = "import wandb\nfor step, value in enumerate(values, start): wandb.log({'acc': value}, step=step)"
    row(f"start, values = 0, [90, 94, 91]\n{log}\nsys.exit(1)", Wandb("acc", "best"))
    finished = row(f"import wandb\n{first}\nstart, values = 3, [92, 86]\n{log}", Wandb("acc", "best"))

    assert finished["accuracy"] == 94
    assert [line["accuracy"] for line in curve()] == [90, 94, 91, 92, 86]


def test_a_log_of_any_size_is_read_up_to_its_last_whole_line(tmp_path, monkeypatch):
    monkeypatch.setattr("recstudy.base.opened.LOG", 9)
    (tmp_path / "wandb.jsonl").write_text('{"values": {"acc": 1}, "step": 0}\n{"val')

    assert Wandb("acc").rows(CommandOutput({}, {}, tmp_path, tmp_path)) == [{"acc": 1, "step": 0}]


def test_a_step_that_is_nan_is_counted(tmp_path):
    """As pandas writes a missing step with `na_rep="nan"`."""
    (tmp_path / "metrics.csv").write_text("step,epoch,acc\nnan,nan,70\nnan,4,71\n9,4,72\n")
    rows = CsvFile("metrics.csv", "acc").rows(CommandOutput(ACCURACY, {}, tmp_path, tmp_path))

    assert [(row["step"], row["acc"]) for row in rows] == [(0, 70), (4, 71), (9, 72)]
    assert read_step("(?P<step>.*) (?P<loss>.*)", "nan 0.5", 3) == {"step": 3, "loss": 0.5}


def test_two_files_of_one_name_in_one_attempt_are_both_read(row):
    script = "".join(
        f"os.makedirs(folder + '/{part}'); open(folder + '/{part}/metrics.csv', 'w').write('step,{name}\\n0,{value}')\n"
        for part, name, value in (("train", "loss", 0.5), ("val", "accuracy", 81))
    )
    finished = row(script, CsvFile("metrics.csv"), TWO)

    assert (finished["accuracy"], finished["loss"]) == (81, 0.5)


CALLS = """
import argparse, copy, wandb
from wandb.sdk.lib import RunDisabled
import wandb.sdk.wandb_run
from wandb.errors import CommError
wandb.login(key="no")
with wandb.init(project=None, name="mine", config=argparse.Namespace(lr=0.5), mode="online") as run:
    assert run is wandb.run and run.name == "mine" and run.project and wandb.config.lr == run.config["lr"] == 0.5
    wandb.config.update({"x": 1}, allow_val_change=True)
    wandb.watch([1], log="all"); wandb.define_metric("x", step_metric="y"); run.log_code("."); wandb.save("*.pt")
    wandb.alert(title="x", level=wandb.AlertLevel.WARN)
    artifact = wandb.Artifact("model", type="model"); artifact.add_file("x"); run.log_artifact(artifact).wait()
    assert isinstance(artifact, wandb.Artifact) and not isinstance(1, wandb.Table) and copy.deepcopy(artifact)
    try:
        raise CommError("x")
    except wandb.errors.CommError:
        pass
    assert os.path.isdir(run.dir)
    run.log({"a": 1, "text": "x", "table": wandb.Table(columns=["a"], data=[[1]]), "nan": float("nan")}, commit=False)
    run.log({"b": 2})
    run.log({"a": 3})
    assert run.step == 2 and wandb.summary["a"] == 3
    wandb.run.summary["best"] = 7
    run.summary.update({"accuracy": 92.5})
wandb.finish(exit_code=0)
assert wandb.run is None
"""


def test_the_stand_in_for_wandb_accepts_what_scripts_call(row):
    finished = row(CALLS, Wandb({"accuracy": "accuracy", "loss": "best"}), TWO, line="python train.py .")

    assert (finished["accuracy"], finished["loss"]) == (92.5, 7)
    (log,) = Path("results/runs").glob("*/wandb.jsonl")
    assert '{"config": {"lr": 0.5}}' in log.read_text()


def test_the_stand_in_runs_on_an_older_python_and_its_version_is_found():
    from recstudy.programs.sources import OFFLINE

    compile((OFFLINE / "wandb.py").read_text(), "wandb.py", "exec", dont_inherit=True)
    code = "from importlib.metadata import version; print(version('wandb'))"
    assert run_python("-c", code, PYTHONPATH=str(OFFLINE)).stdout == "0.99.0\n"


@pytest.mark.parametrize(
    ("script", "source", "message"),
    [
        (NESTED, JsonFile("out.json", "test.ac"), "out.json has no 'test.ac', but test.acc, all.loss. Did you mean 'test.acc'?"),
        ("json.dump([1], open(folder + '/out.json', 'w'))", JsonFile("out.json"), "out.json has no 'accuracy', but nothing."),
        (LIGHTNING, CsvFile("metrics.csv"), "metrics.csv has no 'accuracy', but epoch, step, train.loss, val.acc."),
        (LIGHTNING, CsvFile("metrics.csv", "val/acc", 20), "metrics.csv has accuracy at 9, 19, 29, but not at step 20"),
        ("", CsvFile("metrics.csv"), "the command wrote nothing to metrics.csv"),
        ("open(folder + '/metrics.csv', 'w').write('epoch,accuracy\\n1,71.2\\n2,84.6%')", CsvFile("metrics.csv"), "metrics.csv, line 3: accuracy is '84.6%', which is no number"),
        ("open(folder + '/metrics.csv', 'w').write('epoch,accuracy,accuracy\\n2,84.6,12')", CsvFile("metrics.csv"), "metrics.csv has two columns 'accuracy'"),
        (LOGGED, Wandb("val/ac"), "wandb has no 'val.ac', but train.loss, step, val.acc. Did you mean 'val.acc'?"),
        ("", Wandb(), "the command wrote nothing to wandb"),
    ],
)  # fmt: skip
def test_a_missing_metric_is_named_with_those_that_the_script_wrote(script, source, message, row):
    finished = row(script, source)

    assert finished["status"] == "failed"
    assert finished["error"].endswith(f"its metrics are missing: {message}")


def test_a_corrected_name_reads_the_kept_log_and_does_not_run_the_command_again(row):
    script = LOGGED + "\nopen('calls', 'a').write('x')"
    assert row(script, Wandb("val/ac"))["status"] == "failed"

    assert row(script, Wandb("val/acc"))["accuracy"] == 85
    assert Path("calls").read_text() == "x"


# ------------------------------------------------------------------------------------- settings and seeds

PRINT = "print('accuracy:', {'0': 1, '7': 9}[os.environ.get('SEED', '0')], *sys.argv[1:])"
LINE = LastLine(r"accuracy: (\S+) ")


def test_seeds_and_settings_reach_variables_flags_and_overrides(row):
    line = "python train.py {folder} --lr={lr} arch.depth={arch.depth} +seed={seed}"
    row(PRINT, LINE, line=line, settings={"lr": 0.1, "arch": {"depth": 2}}, environment={"SEED": "{seed}"})

    (log,) = Path("results/runs").glob("*/output.log")
    assert log.read_text().endswith(" --lr=0.1 arch.depth=2 +seed=0\n")


BASE = "# mine\nseed: 1\ntrain:\n  lr: 1e-4\n  betas: [0.9, 0.95]\n  name: '08'\nout: '{folder}/logs'\n"
READ = """
import yaml
config = yaml.safe_load(open(sys.argv[1]))
os.mkdir(config["out"])
open("seen", "w").write(json.dumps(config))
print("accuracy: 1 ")
"""


def test_a_config_is_written_for_each_run(row, tmp_path):
    (tmp_path / "base.yaml").write_text(BASE)
    settings = {"train": {"lr": 0.01}}
    row(READ, LINE, line="python train.py {config}", settings=settings, config=Yaml("base.yaml"))

    config = Path("seen").read_text()
    (folder,) = Path("results/runs").resolve().iterdir()
    out = f'"out": "{folder}/files/logs"'
    assert config == f'{{"seed": 0, "train": {{"lr": 0.01, "betas": [0.9, 0.95], "name": "08"}}, {out}}}'
    assert (tmp_path / "base.yaml").read_text() == BASE


@refused(globals(), "text settings", "a config of a command")
def test_a_config_without_a_key_is_refused_before_the_first_run(text, settings, message, row, tmp_path):
    if text:
        (tmp_path / "base.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        row(READ, LINE, line="python train.py {config}", settings=settings, config=Yaml("base.yaml"))
    assert not Path("results/runs").exists()


# ------------------------------------------------------------------------------------------------- no shell


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("python a.py --out $HOME/o", "$H"),
        ('python a.py "$HOME/o"', "$H"),
        ("python a.py `date`", "`"),
        ("python a.py {x} > log.txt", ">"),
        ("python a.py {x} >log.txt", ">log.txt"),
        ("python a.py {x} 2>&1", "2>&1"),
        ("python a.py | tee log.txt", "|"),
        ("cd a && python a.py", "&&"),
        ("python a.py; python b.py", ";"),
        ("python a.py &", "&"),
    ],
)
def test_a_sign_of_a_shell_is_named(line, sign):
    message = f"No shell is used, so {sign!r} would be an argument of "
    with pytest.raises(ConfigError, match=re.escape(message)):
        split_words(line)


def test_quoted_signs_continued_lines_and_the_home_folder_are_accepted():
    words = split_words("~/bin/python \\\n a.py '$HOME | x' \"a > b; c\" x=~/y {x}>=1 a;b")

    home = str(Path.home())
    assert words == [f"{home}/bin/python", "a.py", "$HOME | x", "a > b; c", "x=~/y", "{x}>=1", "a;b"]
