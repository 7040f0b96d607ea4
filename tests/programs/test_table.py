"""Tables of finished runs, as trackers and people write them: which columns are settings, seed and metrics,
and what is refused.
"""

import json
import re

import pandas as pd
import pytest

from recstudy.base.errors import ConfigError
from recstudy.programs.columns import METRIC, SEED, SETTING
from recstudy.programs.metric import Metric
from recstudy.programs.own import OwnSettings
from recstudy.programs.table import (
    PROGRAM,
    TableProgram,
    finished_runs,
)
from recstudy.programs.table_files import read_table
from recstudy.programs.table_metrics import table_metric
from recstudy.programs.table_options import TableOptions
from recstudy.programs.table_roles import assign

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
    assign(table, TableOptions(**roles))
    settings, metrics = ([column.name for column in table.with_role(role)] for role in (SETTING, METRIC))
    return settings, table.heads(SEED), metrics


def imported(table, **roles):
    assign(table, TableOptions(**roles))
    return finished_runs(table, PROGRAM + "runs", table.with_role(METRIC)[0].name)


def settings_and_seeds(table, **roles) -> list[tuple]:
    return [(*run.settings.values(), run.seed) for run in imported(table, **roles)[0].values()]


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
        (
            "model,reward,loss\nA,\N{MINUS SIGN}10,1.1\nB,\N{MINUS SIGN}20,2.1\n",
            (["model"], "none", ["reward", "loss"]),
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
        "a minus sign",
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
    assert lines == ["1 run left out: not finished (running)", "1 run left out: failed, and repeated"]
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
    # notations
    GRID.replace(
        "90.1", '"90,1"'
    ): "runs.csv, line 2, column 'accuracy': '90.4' and '90,1' have different notations. "
    "Write all numbers of the column alike and without units",
    GRID.replace(
        "91.1", "91.1%"
    ): "line 4, column 'accuracy': '91.1%' has a percent sign and '91.8' has none",
    "model;steps;acc\nA;1,234;5\nB;1,235;6\n": "line 2, column 'steps': '1,234' can be 1234 or 1.234",
    "model,latency_ms\nA,12ms\nB,13ms\n": "line 2, column 'latency_ms': '12ms' is not a number",
    GRID.replace(
        "0.1,1,1,", "0.1,1,x,"
    ): "runs.csv, line 3, column 'seed': 'x' is not a seed. A seed is an integer from 0 to 2^64",
    GRID.replace(
        "0.1,1,1,", "0.1,1,0,"
    ): "runs.csv, lines 2 and 3: they may be of one run (lr=0.1, depth=1, seed=0), and accuracy is '90.1' and '90.4'. "
    "Remove one of them, or choose: the last or the best line of each run counts (--last STEP, --best METRIC), each line is "
    "the result of a test item (--items COLUMN), another column distinguishes them (--settings lr,depth,COLUMN, or --seed "
    "COLUMN if it numbers runs), or each line is a run (--lines-are-runs)",
    "lr,seed,samples\n1,0,9123\n1,1,9140\n2,0,9200\n2,1,9201\n": "runs.csv: settings: lr; seed: seed; metrics: none; unclear: samples. "
    "Name the columns: --settings A,B --metrics C,D --seed S",
    "model,seed\nA,0\nB,0\n": "runs.csv: settings: model; seed: seed; metrics: none; no column is a metric. Name the",
    "model,seed,x,f1\nA,0,a,0.1\nA,1,b,0.2\nB,0,b,0.3\nB,1,a,0.4\n": "there are several seeds, but all runs have different settings",
    "model,0,1\nA,0.5,0.25\nB,0.75,0.5\n": "metrics: none; columns named by numbers look like seeds, but each run needs its own line",
    "model,alpha,beta,acc\nA,0.3,0.91,0.5\nA,0.2,0.93,0.6\n": "settings: model; seed: none; metrics: acc; unclear: alpha, beta. Name",
    "lr,seed,acc\n0.1,0,0.5\n0.2,1,0.6\n": "there are several seeds, but all runs have different settings",
    "model,note,acc\nA,x,0.1\nA,y,0.3\nB,z,0.4\n": "settings: model; seed: none; metrics: acc; unclear: note. Name",
    "lr,seed,acc,loss\n1,0,0.5,1\n1,1,OOM,2\n": "line 3, column 'acc': 'OOM' is not a number",
    "lr,seed,acc\n1,0,0.5\n1,99999999999999999999,0.5\n": "line 3, column 'seed': '99999999999999999999' is not a seed",
    # states
    "lr,State,acc\n1,done,0.5\n1,exploded,0.6\n": "runs.csv, line 3, column 'State': 'exploded' is no known state of a run. "
    "If it is a setting: --settings State,... States are finished, complete",
    "lr,status,acc\n1,done,0.5\n1,,0.6\n": "line 3, column 'status': '' is no known state",
    "lr,state,acc\n1,running,0.5\n1,queued,\n": "runs.csv has no finished run. 1 run left out: not finished (running); 1 run",
    # levels
    "rank,seed,acc\n1.1,0,0.9\n1.10,0,0.8\n": "line 3, column 'rank': '1.10' would be the same level as '1.1' in line 2. "
    "Write them alike, or keep them apart: --texts rank",
    "depth,seed,acc\n1,0,0.9\n1.0,1,0.8\n": "'1.0' would be the same level as '1' in line 2",
    "use_x,seed,acc\nTrue,0,0.9\n1,0,0.8\n": "'1' would be the same level as 'True' in line 2",
    "use_x,seed,acc\ntrue,0,0.9\nTRUE,1,0.8\n": "'TRUE' would be the same level as 'true' in line 2",
    "aug,seed,acc\nnone,0,0.9\n,0,0.8\nNA,0,0.8\n": "line 3, column 'aug': '' would be the same level as 'none' in line 2",
    "lr,seed,acc\n0.1,0,0.9\n0.3,0,0.8\n0.30000000000000004,1,0.8\n": "'0.30000000000000004' would be the same level as '0.3'",
    "model,dataset,acc\nA,x,1\nA,y,2\nA,Average,1.5\nB,x,1\nB,y,2\nB,Average,1.5\n": "line 4, column 'dataset': 'Average' "
    "may be the average of other levels, and would count as one. Remove these lines: 4, 7; or rename the level",
    # columns that are no settings, or that may be
    "model,seed,epoch,lr,wd,acc\nA,0,1,0.1,0.2,0.5\nA,0,2,0.05,0.1,0.6\nB,0,1,0.1,0.2,0.5\nB,0,2,0.05,0.1,0.6\n": "runs.csv: lr, wd: "
    "the numbers change with epoch within a run, so they are logged and no setting: --settings model --last epoch; or",
    "model,peak_lr,epoch,lr,acc\nA,0.2,1,0.2,0.5\nA,0.2,2,0.1,0.5\nA,0.4,1,0.4,0.5\nA,0.4,2,0.2,0.5\n": "--settings peak_lr --last epoch",
    "model,seed,acc,failed\nA,0,90,False\nA,1,10,True\nB,0,80,False\nB,1,81,False\n": "failed (False, True) may be a result of each "
    "run and no setting: --settings model; if it states which runs failed, rename it to state",
    "model,acc,outcome\nA,90,good\nA,10,bad\nB,80,good\n": "outcome (good, bad) may be a result of each run",
    "model,seed,acc,plateau\nA,0,90,no\nA,1,91,no\nA,2,10,yes\nB,0,80,no\nB,1,81,no\nB,2,82,no\n": "plateau (no, yes) may be a result",
    "model,noise_std,acc\nA,0.1,80\nA,0.5,77\nB,0.1,82\nB,0.5,79\n": "unclear: noise_std. Name",
    "model,gpu_count,fps\nA,1,10\nA,2,19\nB,1,12\nB,2,22\n": "gpu_count would be left out, so its 2 levels would count as repetitions. "
    "--settings model,gpu_count if it is a setting, else --settings model",
    "model,seed,tag,value\nA,0,acc,90\nA,0,loss,1\nB,0,acc,91\nB,0,loss,2\n": "tag (acc, loss) names what value is.",
    "model,seed,wer\nA,0,<0.1\nB,0,~1.1\n": "column 'wer': '<0.1' is not a number",
    "model,seed,acc\nA,0,**92**\nB,0,**93**\n": "column 'acc': '**92**' is not a number",
    "model,acc_0,acc_1,acc_2\nA,90,91,92\nB,92,93,94\n": "acc_0, acc_1, acc_2 look like seeds, but each run needs its own line",
    "model,seed0,seed1,seed2\nA,90,91,92\nB,92,93,94\n": "seed0, seed1, seed2 look like seeds, but each run needs its own line",
    # lines
    "epoch,acc\n1,0.5\n2,0.6\n": "they may be of one run, and epoch is '1' and '2'. Remove one of them, or choose: the last or the best "
    "line of each run counts (--last epoch, --best METRIC), each line is the result of a test item (--items COLUMN), another "
    "column distinguishes them (--settings COLUMN, or",
    "model,seed,epoch,step,train_loss,loss,acc\nA,0,0,9,1.0,,\nA,0,0,9,,1.1,0.5\n": "they may be of one run (model=A, seed=0), and have different metrics. "
    "Write these in one line, or name those of one line and the column that counts the lines: --metrics loss,acc --last epoch",
    "lr,epoch,acc\n1,1,0.5\n1,2,0.6\n": "lines 2 and 3: they may be of one run (lr=1), and epoch is '1' and '2'. "
    "Remove one of them, or choose: the last or the best line of each run counts (--last epoch, --best METRIC)",
    "lr,seed,Iteration,acc\n1,0,1,0.5\n1,0,2,0.6\n": "(lr=1, seed=0), and Iteration is '1' and '2'",
    "Run ID,lr,_step,acc\na,1,1,0.5\na,1,2,0.6\n": "(Run ID=a), and _step is '1' and '2'",
    "run_id,lr,acc\na,1,0.5\nb,1,0.7\na,1,0.6\n": "lines 2 and 4: they may be of one run (run_id=a), and acc is '0.5' and '0.6'",
    "Name,lr,acc\na,1,0.5\na,1,0.6\n": "(lr=1, Name=a), and acc is '0.5' and '0.6'",
    "model,run,acc\nA,1,0.5\nB,1,0.6\n": "(run=1), and model is 'A' and 'B'",
    "lr,acc\n1,0.5\n1,0.6\n1,0.5\n": "lines 2 and 4: they may be of one run (lr=1), and all cells are equal",
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
        assign(table(GRID), TableOptions(metrics={"acuracy": None}))


@pytest.mark.parametrize(
    ("heads", "metrics"),
    [
        ("precision,recall", ["precision", "recall"]),
        ("val_precision,test/mAP,kappa", ["val_precision", "test_mAP", "kappa"]),
        ("mcc,em,exact_match,Jaccard", ["mcc", "em", "exact_match", "Jaccard"]),
        ("ndcg@10,hits@1,MRR,pass@1", ["ndcg_10", "hits_1", "MRR", "pass_1"]),
        ("macro_f1,mAP50,top1_acc", ["macro_f1", "mAP50", "top1_acc"]),
        ("spearman,latency,throughput,episode_reward_mean", None),
    ],
)
def test_metrics_of_few_levels_are_known_by_their_names(table, heads, metrics):
    names = heads.split(",")
    rows = [f"{lr},{seed}" + ",0.5" * len(names) for lr in (0.1, 0.2) for seed in (0, 1, 2)]
    text = f"lr,seed,{heads}\n" + "\n".join(rows) + "\n"
    assert assigned_columns(table(text)) == (["lr"], "seed", metrics or names)


def test_a_precision_in_bits_is_asked_for(table):
    with pytest.raises(ConfigError, match="unclear: precision"):
        assign(table("precision,seed,acc\n16,0,0.5\n32,0,0.6\n"), TableOptions())
    assert assigned_columns(table("precision,seed,acc\nfp16,0,0.5\nbf16,0,0.6\n"))[0] == ["precision"]


def test_usual_hyperparameters_are_settings_and_unclear_numbers_are_asked_for(table):
    heads = ["hidden_size", "num_heads", "max_depth", "weight_decay", "warmup_steps", "n_estimators", "top_p"]
    text = f"{','.join(heads)},acc\n1,1,1,1,1,1,1,0.5\n2,2,2,2,2,2,2,0.75\n"
    assert assigned_columns(table(text))[0] == heads
    text = "lr,alpha,acc\n0.1,0.5,0.5\n0.1,0.25,0.75\n"
    with pytest.raises(ConfigError, match="unclear: alpha"):
        assign(table(text), TableOptions(metrics={"acc": None}))
    assert assigned_columns(table(text), settings=["alpha"]) == (["alpha"], "none", ["acc"])


def test_columns_of_ray_are_left_out_and_unfinished_trials_too(table):
    runs, lines = imported(
        table(
            "trial_id,mean_accuracy,done,training_iteration,date,time_total_s,pid,hostname,node_ip,config/lr,config/seed,logdir\n"
            "a,0.9,True,10,2024,0.5,120,h,10.0.0.1,0.1,0,x0\n"
            "b,0.8,True,9,2024,1.5,121,h,10.0.0.1,0.2,0,x1\n"
            "c,0.7,False,10,2024,2.5,122,h,10.0.0.2,0.1,1,x2\n"
            "d,,,,,,123,h,10.0.0.2,0.2,1,x3\n"
        )
    )
    assert [(run.settings, run.seed, run.metrics) for run in runs.values()] == [
        ({"lr": 0.1}, 0, {"mean_accuracy": 0.9}),
        ({"lr": 0.2}, 0, {"mean_accuracy": 0.8}),
    ]
    assert lines == ["2 runs left out: not finished (false)"]


def test_states_are_understood_with_their_class_and_in_any_case(table):
    runs, lines = imported(
        table(
            "lr,STATUS,acc\n1,TrialState.COMPLETE,0.5\n1,TrialState.PRUNED,0.1\n1,RunStatus.FAILED,\n2,stopped,0.2\n2,keep,0.6\n"
            "2,discard,0.7\n2,crash,\n"
        )
    )
    assert [(run.settings["lr"], run.status) for run in runs.values()] == [
        (1, "done"), (1, "failed"), (2, "done"), (2, "done"), (2, "failed"),
    ]  # fmt: skip
    assert lines == ["1 run left out: not finished (pruned)", "1 run left out: not finished (stopped)"]


def test_equal_lines_of_one_run_count_once(table):
    rows = "a,0.1,0.5\nb,0.1,0.6\nc,0.2,0.5\n"
    runs, lines = imported(table("Run ID,lr,accuracy\n" + rows + rows + rows))
    assert len(runs) == 3
    assert lines == ["equal lines of one run count once: lines 2=5=8, 3=6=9, 4=7=10"]
    rows = "0,0.1,1,0.5\n1,0.1,2,0.6\n"
    runs, lines = imported(
        table("Unnamed: 0,lr,seed,accuracy\n" + rows + rows.replace("\n1,", "\n7,")), settings=["lr"]
    )
    assert lines == ["equal lines of one run count once: lines 2=4, 3=5"]


EPOCHS = "{}lr,epoch,acc\n{}1,9,0.5\n{}1,10,0.6\n{}2,10,0.7\n{}2,9,0.8\n"


@pytest.mark.parametrize(
    "columns", [("",) * 5, ("seed,", "0,", "0,", "0,", "0,"), ("id,", "a,", "a,", "b,", "b,")]
)
def test_the_last_line_of_each_run_counts_if_that_is_stated(table, columns):
    runs, lines = imported(table(EPOCHS.format(*columns)), last="epoch")
    assert [(run.settings["lr"], run.metrics["acc"]) for run in runs.values()] == [(1, 0.6), (2, 0.7)]
    assert lines == ["--last epoch: of 4 lines, the last line of each run counts"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "lr,epoch,acc\n1,1,0.5\n1,2,0.6\n1,1,0.7\n1,2,0.8\n",
            "lines 2 and 4: .*lr=1, epoch=1.*--seed COLUMN",
        ),
        ("lr,epoch,acc\n1,1,0.5\n1,last,0.6\n", "line 3, column 'epoch': 'last' is not a number"),
    ],
)
def test_a_last_line_that_is_not_clear_is_refused(table, text, problem):
    with pytest.raises(ConfigError, match=problem):
        assign(table(text), TableOptions(last="epoch"))


def test_each_line_is_a_run_if_that_is_stated(table):
    text = "Run ID,lr,seed,epoch,acc\na,1,0,1,0.5\na,1,0,1,0.5\na,1,0,2,0.6\n"
    assert settings_and_seeds(table(text), lines_are_runs=True) == [(1, 0), (1, 1), (1, 2)]


def test_texts_stay_different_levels_if_that_is_stated(table):
    text = "version,seed,acc\n1.1,0,0.9\n1.10,0,0.8\n,0,0.7\nnone,0,0.6\n"
    levels = [level for level, _ in settings_and_seeds(table(text), texts=["version"])]
    assert levels == ["1.1", "1.10", "(empty)", "none"]


def test_large_integers_stay_exact_in_settings_and_seeds(table):
    text = "dim,seed,acc\n9007199254740993,9007199254740993,0.5\n9007199254740992,9007199254740993,0.6\n"
    text += "9007199254740992,18446744073709551615,0.7\n"
    assert settings_and_seeds(table(text)) == [
        (2**53 + 1, 2**53 + 1), (2**53, 2**53 + 1), (2**53, 2**64 - 1),
    ]  # fmt: skip


def test_a_text_that_differs_in_each_row_is_a_setting_unless_others_distinguish_runs(table):
    text = "model,lr,acc\nA,0.1,0.5\nB,0.1,0.6\nC,0.1,0.7\n"
    assert assigned_columns(table(text))[0] == ["model", "lr"]


DICTIONARIES = {
    "nan and inf": ("{'acc': 0.5, 'loss': nan, 'best': inf}", "{'depth': 2, 'low': -inf}"),
    "JSON": ('{""acc"": 0.5, ""loss"": NaN}', '{""depth"": 2, ""ema"": false, ""note"": null}'),
    "values": ('{""acc"": 0.5}', '{""depth"": {""value"": 2, ""desc"": null}}'),
    "dates": ("{'acc': np.float64(0.5)}", "{'depth': 2, 't': datetime.datetime(2024, 1, 1, 0, 0)}"),
}


@pytest.mark.parametrize("kind", DICTIONARIES)
def test_dictionaries_are_read_as_w_and_b_writes_them(table, kind):
    summary, config = DICTIONARIES[kind]
    runs, _ = imported(
        table(f'summary,config\n"{summary}","{config}"\n'), settings=["depth"], metrics=["acc"]
    )
    assert [(run.settings, run.metrics) for run in runs.values()] == [({"depth": 2}, {"acc": 0.5})]
    assert table(f'summary,config\n"{summary}","{config}"\n').find("config.depth").cells == ["2"]


def test_a_value_that_cannot_be_read_is_named_with_its_key(table):
    with pytest.raises(
        ConfigError, match=r"line 2, column 'config': it is not a dictionary after .*'opt': <"
    ):
        table("summary,config\n{'acc': 1},\"{'lr': 1, 'opt': <object at 0x1>}\"\n")


@pytest.mark.parametrize(
    ("cells", "number"),
    [
        ("84.7%;85 %", 84.7),
        ("84,7;85", 84.7),
        ("1,234,567;12", 1234567),
        ("1.234,5;1.234", 1234.5),
        ("12 345;7", 12345),
        ("12\N{NARROW NO-BREAK SPACE}345,5;7", 12345.5),
        ("1'234.5;7", 1234.5),
        ("0,123;0,4", 0.123),
        ("1,234;5.5", 1234),
        ("\N{MINUS SIGN}84,7;85", -84.7),
    ],
)
def test_a_column_is_read_in_its_notation(table, cells, number):
    first, second = cells.split(";")
    runs, lines = imported(table(f"model;seed;reward\nA;0;{first}\nB;0;{second}\n"))
    assert next(iter(runs.values())).metrics == {"reward": number}
    assert lines == [f"reward: {first!r} is read as {number:.15g}"]


def test_other_columns_decide_what_a_comma_means(table):
    text = "model;seed;steps;reward\nA;0;1,234;{}\nB;0;1,235;{}\n"
    for first, second, steps in (("0.5", "0.6", 1234), ("0,5", "0,6", 1.234)):
        options = {"settings": ["model", "steps"], "seed": "seed"}
        runs, _ = imported(table(text.format(first, second)), **options)
        assert next(iter(runs.values())).settings["steps"] == steps


JSON_ROWS = [
    {"params": {"lr": 0.1}, "seed": 0, "metrics": {"acc": 0.5}},
    {"params": {"lr": 0.2}, "seed": 0, "metrics": {"acc": None}},
]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("runs.jsonl", "".join(f"{json.dumps(row)}\n\n" for row in JSON_ROWS)),
        ("runs.json", json.dumps(JSON_ROWS)),
        ("runs.csv", 'seed,metrics,params\n0,"{""acc"": 0.5}","{""lr"": 0.1}"\n0,,"{""lr"": 0.2}"\n'),
        ("runs.tsv", "lr\tseed\tacc\n0.1\t0\t0.5\n0.2\t0\t\n".encode("utf-16")),
        ("runs.parquet", None),
    ],
)
def test_formats_give_the_same_runs(table, tmp_path, name, content):
    if content is None:
        pd.DataFrame({"lr": [0.1, 0.2], "seed": [0, 0], "acc": [0.5, None]}).to_parquet(tmp_path / name)
        content = (tmp_path / name).read_bytes()
    runs, _ = imported(table(content, name))
    results = [(run.settings, run.seed, run.status, run.metrics) for run in runs.values()]
    assert results == [({"lr": 0.1}, 0, "done", {"acc": 0.5}), ({"lr": 0.2}, 0, "failed", {"acc": None})]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("runs.jsonl", '{"lr": 1, "acc": 2}\n{"lr": 1,\n', "runs.jsonl, line 2: it is not JSON"),
        ("runs.json", '{"lr": 1}', "runs.json needs an object for each run"),
        ("runs.json", "5", "runs.json needs an object for each run"),
        ("runs.parquet", "lr,acc\n1,2\n", "runs.parquet is not a Parquet file"),
    ],
)
def test_a_file_of_another_format_is_refused(table, name, content, problem):
    with pytest.raises(ConfigError, match=problem):
        table(content, name)


def test_a_text_in_json_lines_may_contain_a_line_separator(table):
    assert table('{"note": "a\u2028b", "acc": 1}\n', "runs.jsonl").find("note").cells == ["a\u2028b"]


def test_the_best_line_of_each_run_counts_if_that_is_stated(table):
    text = "lr,seed,epoch,val_loss,acc\n1,0,1,0.5,80\n1,0,2,0.4,81\n1,0,3,0.6,82\n2,0,1,0.3,70\n2,0,2,,90\n"
    runs, lines = imported(table(text), best="val_loss")
    assert [run.metrics["acc"] for run in runs.values()] == [81, 70]
    assert lines == [
        "--best val_loss: of 5 lines, the line with the lowest val_loss of each run counts, "
        "so val_loss itself is the best of several lines"
    ]


@pytest.mark.parametrize("name", ["latency_ms", "train_time", "peak_memory_mb", "val_bpb"])
def test_costs_are_metrics_of_which_less_is_better(table, name):
    runs = table(f"model,seed,{name}\nA,0,3.5\nB,0,4.5\n")
    assert assigned_columns(runs) == (["model"], "seed", [name])
    assert table_metric(runs.find(name), {}).better == "lower"


def test_sizes_are_settings_and_less_is_better_if_they_are_stated_as_metrics(table):
    runs = table("model,seed,params,flops,acc\nA,0,3.5,1,90\nB,0,4.5,2,91\n")
    assert assigned_columns(runs) == (["model", "params", "flops"], "seed", ["acc"])
    assert {table_metric(runs.find(name), {}).better for name in ("params", "flops")} == {"lower"}


def test_results_of_an_agent_are_variants_by_their_commit(table):
    text = (
        "commit\tval_bpb\tmemory_gb\tstatus\tdescription\n1234567\t0.9979\t44.0\tkeep\tbaseline\n"
        "b2c3d4e\t1.005\t44.2\tdiscard\tGELU\n12e4567\t0.0\t0.0\tcrash\tdouble width\n"
    )
    runs, _ = imported(table(text, "results.tsv"))
    assert [(run.settings, run.status) for run in runs.values()] == [
        ({"commit": "1234567"}, "done"), ({"commit": "b2c3d4e"}, "done"), ({"commit": "12e4567"}, "failed"),
    ]  # fmt: skip


def test_lines_of_test_items_are_one_run(table):
    text = "item_id,method,seed,correct\n" + "".join(
        f"q{item},{method},{seed},{(item + seed) % 3 == 0}\n"
        for method in "AB"
        for seed in (0, 1)
        for item in range(6)
    )
    runs, _ = imported(table(text))
    assert [(run.settings["method"], run.seed) for run in runs.values()] == [
        ("A", 0),
        ("A", 1),
        ("B", 0),
        ("B", 1),
    ]
    first = next(iter(runs.values()))
    assert first.metrics["correct"] == pytest.approx(1 / 3)
    assert first.item_scores == {"correct": {f"q{item}": float(item % 3 == 0) for item in range(6)}}
    with pytest.raises(
        ConfigError, match=r"lines 2 and 26: they may be of one run \(method=A, seed=0, item_id=q0\)"
    ):
        imported(table(text + "q0,A,0,False\n"))


def test_columns_of_test_items_and_of_answers_are_no_settings(table):
    rows = [
        f"q{item},{method},{('algebra', 'logic')[item % 2]},{'ABCD'[(item * shift) % 4]},{20 + item},{item % shift == 0}"
        for method, shift in (("m1", 2), ("m2", 3))
        for item in range(40)
    ]
    text = "item_id,method,category,prediction,n_tokens,correct\n" + "\n".join(rows)
    assert assigned_columns(table(text)) == (["method"], "none", ["correct"])


def test_a_name_of_many_questions_is_an_item_and_one_of_few_is_a_setting(table):
    for count, settings in ((40, ["method"]), (3, ["question", "method"])):
        text = "question,method,score\n" + "".join(
            f"Why {item}?,{method},0.5\n" for method in "AB" for item in range(count)
        )
        assert assigned_columns(table(text))[0] == settings


ORDINARY = {
    "a final step that follows from a setting": "batch_size,seed,step,acc\n32,0,100,1\n32,1,100,2\n64,0,50,3\n64,1,50,4\n",
    "levels named mean and all": "pooling,layers,seed,acc\nmean,all,0,1\nmax,last,0,2\nmean,all,1,3\nmax,last,1,4\n",
    "an error message of a failed run": "model,state,error,acc\nA,done,,1\nA,failed,OOM,\nB,done,,2\n",
    "an environment with its own seeds": "algo,env,seed,reward\nA,x,0,1\nA,x,1,2\nA,y,2,2\nB,x,0,3\nB,x,1,4\nB,y,2,5\n",
    "a spread of a stated metric": "model,quality_mean,quality_std\nA,1.5,0.1\nB,2.5,0.2\n",
    "bleu-n": "model,bleu_1,bleu_2,bleu_3\nA,0.5,0.4,0.3\nB,0.6,0.5,0.4\n",
    "lists": 'hits,acc\n"[1, 2]",0.5\n"[1, 3]",0.6\n',
    "dates of repetitions": "model,date,acc\nA,2024-01-01,1\nA,2024-01-02,2\nB,2024-01-01,3\nB,2024-01-02,4\n",
    "row numbers of each method": ",model,acc\n0,A,1\n1,A,2\n0,B,3\n1,B,4\n",
    "the best epoch of each run": "lr,epoch,acc\n0.1,12,1\n0.01,20,2\n0.001,31,3\n",
    "years": "model,acc_2019,acc_2020,acc_2021\nA,0.5,0.6,0.7\nB,0.6,0.7,0.8\n",
    "criteria of trees": "criterion,max_depth,r2\nmse,1,0.5\nmae,1,0.6\n",
}


@pytest.mark.parametrize("text", ORDINARY.values(), ids=ORDINARY)
def test_ordinary_tables_are_read(table, text):
    metrics = {"quality_mean": None} if "quality_mean" in text else {}
    assert imported(table(text), metrics=metrics)[0]


@pytest.mark.parametrize(
    ("cells", "status", "metrics"),
    [
        ("90,nan,1", "done", {"acc": 90, "auc": None, "loss": 1}),
        ("nan,0.5,1", "diverged", {"auc": 0.5, "loss": 1}),
        ("90,0.5,nan", "diverged", {"acc": 90, "auc": 0.5}),
        ("90,inf,1", "diverged", {"acc": 90, "loss": 1}),
    ],
)
def test_an_undefined_metric_is_missing_and_an_undefined_score_or_loss_diverged(
    table, cells, status, metrics
):
    run = next(iter(imported(table(f"model,acc,auc,loss\nA,{cells}\nB,80,0.5,1\n"))[0].values()))
    assert (run.status, run.metrics) == (status, metrics)


def test_a_standard_error_belongs_to_its_metric(table):
    text = 'model,task,"acc,none","acc_stderr,none"\nA,arc,0.5,0.01\nB,arc,0.6,0.02\n'
    runs, _ = imported(table(text))
    assert [(run.metrics, run.errors) for run in runs.values()] == [
        ({"acc_none": 0.5}, {"acc_none": 0.01}), ({"acc_none": 0.6}, {"acc_none": 0.02}),
    ]  # fmt: skip
