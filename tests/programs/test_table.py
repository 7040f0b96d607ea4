"""Tables of finished runs, as trackers and people write them: which columns are settings, seed and metrics,
and what is refused.
"""

import re

import pytest

from recstudy.errors import ConfigError
from recstudy.programs.metric import Metric
from recstudy.programs.own import OwnSettings
from recstudy.programs.table import (
    METRIC,
    PROGRAM,
    SEED,
    SETTING,
    TableProgram,
    assign,
    finished_runs,
    read_table,
)

GRID = "lr,depth,seed,accuracy\n0.1,1,0,90.1\n0.1,1,1,90.4\n0.1,2,0,91.1\n0.1,2,1,91.8\n"
WANDB = """"Name","State","Notes","User","Tags","Created","Runtime","Sweep","GPU Type","ID","lr","optimizer","seed","accuracy","val/loss","_step","_runtime","_timestamp"
"calm-sun-1","finished","-","ann","","2024-05-01T12:00:00.000Z","61","","A100","x1","0.1","adamw","0","0.901","0.31","100","61.2","1714564861"
"calm-sun-2","finished","-","ann","","2024-05-01T12:10:00.000Z","62","","A100","x2","0.1","adamw","1","0.903","0.30","100","62.2","1714565461"
"calm-sun-3","crashed","-","ann","","2024-05-01T12:20:00.000Z","3","","A100","x3","0.01","adamw","0","","","4","3.1","1714565999"
"calm-sun-4","finished","-","ann","","2024-05-01T12:30:00.000Z","61","","A100","x4","0.01","adamw","0","0.871","0.41","100","61.0","1714566661"
"calm-sun-5","running","-","ann","","2024-05-01T12:40:00.000Z","30","","A100","x5","0.01","adamw","1","0.5","0.9","50","30.0","1714567261"
"calm-sun-6","finished","-","ann","","2024-05-01T12:50:00.000Z","61","","A100","x6","0.01","adamw","1","NaN","NaN","100","61.0","1714567861"
"""
MLFLOW = """run_id,experiment_id,status,artifact_uri,start_time,end_time,metrics.accuracy,metrics.val/loss,params.depth,params.out,params.seed,tags.mlflow.runName,tags.mlflow.user
a1,1,FINISHED,/x/a1,2026-11-27 20:27:39.098000+00:00,2026-11-27 20:27:39.214000+00:00,92.745,0.145,4,runs/4-1,1,d4,ann
a2,1,FINISHED,/x/a2,2026-11-27 20:27:39.098000+00:00,2026-11-27 20:27:39.214000+00:00,92.028,0.159,4,runs/4-0,0,d4,ann
a3,1,FINISHED,/x/a3,2026-11-27 20:27:39.098000+00:00,2026-11-27 20:27:39.214000+00:00,90.445,0.191,2,runs/2-1,1,d2,ann
a4,1,FINISHED,/x/a4,2026-11-27 20:27:39.098000+00:00,2026-11-27 20:27:39.214000+00:00,90.100,0.194,2,runs/2-0,0,d2,ann
a5,1,FAILED,/x/a5,2026-11-27 20:27:39.098000+00:00,2026-11-27 20:27:39.214000+00:00,,,8,,0,d8,ann
"""
PANDAS = "Unnamed: 0,config.lr,config.seed,summary.accuracy\n0,0.1,0.0,91.0\n1,0.1,1.0,92.5\n2,0.2,0.0,93.1\n3,0.2,1.0,93.6\n"
EXAMPLE = """,summary,config,name
0,"{'accuracy': 0.9, '_step': 5}","{'lr': 0.1, 'seed': 0, 'opt': {'name': 'sgd'}}",a
1,"{'accuracy': 0.8, '_step': 5}","{'lr': 0.1, 'seed': 1, 'opt': {'name': 'sgd'}}",b
"""


@pytest.fixture
def table(tmp_path):
    """Text of a CSV file -> the table."""

    def read(text: str | bytes, name: str = "runs.csv"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_table(tmp_path / name)

    return read


def assigned_columns(table, **roles) -> tuple[list[str], str, list[str]]:
    assign(table, **roles)
    settings, metrics = ([column.name for column in table.with_role(role)] for role in (SETTING, METRIC))
    return settings, table.heads(SEED), metrics


def imported(table, **roles):
    assign(table, **roles)
    return finished_runs(table, PROGRAM + "runs")


@pytest.mark.parametrize(
    ("text", "roles"),
    [
        (GRID, (["lr", "depth"], "seed", ["accuracy"])),
        (WANDB, (["lr", "optimizer"], "seed", ["accuracy", "val_loss"])),
        (MLFLOW, (["depth"], "params.seed", ["accuracy", "val_loss"])),
        (PANDAS, (["lr"], "config.seed", ["accuracy"])),
        (EXAMPLE, (["lr", "opt_name"], "config.seed", ["accuracy"])),
        (
            "﻿model;random_seed;mAP@0.5\nA;0;0.41\nA;1;0.42\nB;0;0.51\nB;1;0.55\n",
            (["model"], "random_seed", ["mAP_0_5"]),
        ),
        ("lr\tscore\n0.1\t3.25\n0.1\t3.5\n0.2\t4.125\n0.2\t4.5\n", (["lr"], "none", ["score"])),
        (
            "model,train_seed,Seed,f1\nA,10,0,0.4\nA,11,1,0.5\nB,10,0,0.6\nB,11,1,0.7\n",
            (["model"], "Seed", ["f1"]),
        ),
    ],
    ids=[
        "grid",
        "W&B",
        "MLflow",
        "pandas",
        "W&B's example",
        "semicolons and a mark",
        "tabs, no seed",
        "a second column of seeds",
    ],
)
def test_roles_follow_from_names_and_cells(table, text, roles):
    assert assigned_columns(table(text)) == roles


def test_states_and_numbers_of_a_tracker_decide_what_a_run_is(table):
    runs, lines = imported(table(WANDB))
    results = [(run.settings["lr"], run.seed, run.status, run.metrics) for run in runs.values()]
    assert results == [
        (0.1, 0, "done", {"accuracy": 0.901, "val_loss": 0.31}),
        (0.1, 1, "done", {"accuracy": 0.903, "val_loss": 0.30}),
        (0.01, 0, "done", {"accuracy": 0.871, "val_loss": 0.41}),
        (0.01, 1, "diverged", {}),
    ]
    assert lines == ["1 run left out: failed, and repeated", "1 run left out: not finished"]
    assert list(runs.values())[-1].error == "runs.csv, line 7: accuracy is nan"


def test_a_failed_run_has_the_settings_that_all_others_share(table):
    runs, _ = imported(
        table("opt,seed,state,f1\nsgd,0,done,0.5\nsgd,1,done,0.25\n,2,killed,\n"), settings=["opt"]
    )
    failed = next(run for run in runs.values() if run.status == "failed")
    assert (failed.settings, failed.error_class, failed.error) == (
        {"opt": "sgd"},
        "killed elsewhere",
        "runs.csv, line 4: its state is killed",
    )


def test_the_ids_are_those_of_own_settings(table):
    program = TableProgram("runs", {"accuracy": Metric()})
    program.register("")
    for run_id, run in imported(table(GRID))[0].items():
        settings = OwnSettings(program=program.name, settings=run.settings, seed=run.seed)
        assert settings.run_id == run_id


def test_an_empty_column_and_integers_written_as_floats_change_no_id(table):
    ids = set(imported(table(GRID))[0])
    wider_table = (
        GRID.replace("lr,", "dropout,lr,")
        .replace("\n0.1,1,", "\n,0.1,1.0,")
        .replace("\n0.1,2,", "\n,0.1,2.0,")
    )
    assert set(imported(table(wider_table), settings=["lr", "depth", "dropout"])[0]) == ids


def test_without_seeds_runs_are_numbered(table):
    runs, _ = imported(table("lr,f1\n0.1,0.5\n0.2,0.7\n0.1,0.6\n"), settings=["lr"])
    assert [(run.settings["lr"], run.seed) for run in runs.values()] == [(0.1, 0), (0.2, 0), (0.1, 1)]


WRONG = {
    "": "runs.csv is empty. It needs a header with the names of settings, seed and metrics, and a line for each run",
    "lr,seed,acc\n": "runs.csv has a header but no runs. It needs a header with",
    "lr,lr,acc\n1,2,3\n": "runs.csv, line 1, column 'lr': 2 columns have this name. Rename or remove one",
    "lr,acc\n1,2,3\n": "runs.csv, line 2: it has 3 cells, but the header has 2. Put cells that contain the separator in quotes",
    'lr,acc\n1,2\n1,"2\n1,3\n': "runs.csv, line 3: unexpected end of data. Close the quote of a cell, and double quotes inside it",
    b"lr,acc\n1,\xed\xa0\x80\n": "runs.csv, line 2: the text is not UTF-8. Export the file as CSV in UTF-8",
    GRID.replace(
        "90.1", '"90,1"'
    ): "runs.csv, line 2, column 'accuracy': '90,1' is not a number. Write numbers with a decimal point "
    "and without separators or units, such as 90.1",
    GRID.replace("90.1", '"1,290"'): "'1,290' is not a number. Write numbers with a decimal point "
    "and without separators or units, such as 1290 or 1.290",
    GRID.replace(
        "90.1", '"1,290.1"'
    ): "'1,290.1' is not a number. Write numbers with a decimal point and without separators or units, such as 1290.1",
    GRID.replace("91.1", "91.1%"): "line 4, column 'accuracy': '91.1%' is not a number",
    GRID.replace(
        "0.1,1,1,", "0.1,1,x,"
    ): "runs.csv, line 3, column 'seed': 'x' is not a seed. A seed is an integer of at least 0",
    GRID.replace(
        "0.1,1,1,", "0.1,1,0,"
    ): "runs.csv, lines 2 and 3: the same settings and seed (lr=0.1, depth=1, seed 0). Remove "
    "one of them, such as all but the last epoch of a run. If another column distinguishes them, add it: --settings lr,depth,COLUMN",
    "lr,seed,samples\n1,0,9123\n1,1,9140\n2,0,9200\n2,1,9201\n": "runs.csv: settings: lr; seed: seed; metrics: none; unclear: samples. "
    "Name the columns: --settings A,B --metrics C,D --seed S",
    "model,seed\nA,0\nB,0\n": "runs.csv: settings: model; seed: seed; metrics: none; no column is a metric. Name the",
    "model,seed,x,f1\nA,0,a,0.1\nA,1,b,0.2\nB,0,b,0.3\nB,1,a,0.4\n": "there are several seeds, but all runs have different settings",
    "model,0,1\nA,0.5,0.25\nB,0.75,0.5\n": "metrics: 0, 1; columns named by numbers look like seeds, but each run needs its own line",
    "lr,momentum,acc\n0.3,0.91,0.5\n0.2,0.93,0.6\n": "settings: lr; seed: none; metrics: momentum, acc; unclear: momentum. Name the",
    "model,val/f1,val f1\nA,0.1,0.3\nA,0.4,0.5\n": "metrics: val/f1, val f1; 2 of these columns would be named 'val_f1'",
}


@pytest.mark.parametrize("text", WRONG, ids=[str(problem)[:60] for problem in WRONG.values()])
def test_one_line_names_file_line_column_and_fix(table, text):
    with pytest.raises(ConfigError, match=re.escape(WRONG[text])) as error:
        imported(table(text))
    assert "\n" not in str(error.value)


def test_stated_columns_are_taken_in_their_order(table):
    roles = {"settings": ["lr"], "metrics": ["val/loss", "accuracy"], "seed": "seed"}
    assert assigned_columns(table(WANDB), **roles) == (["lr"], "seed", ["val_loss", "accuracy"])
    with pytest.raises(ConfigError, match=r"runs.csv has no column 'acuracy'.* Did you mean 'accuracy'"):
        assign(table(GRID), metrics=["acuracy"])
