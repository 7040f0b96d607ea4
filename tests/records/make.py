"""Writes the sample of this version's records: `python tests/records/make.py VERSION`, before that version is
released.

A study of two tiny runs, one done and one failed, without the weights. Samples of earlier versions are never
written again.
"""

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

import recstudy
from recstudy import Resources, Study, grid
from recstudy.programs.attempt import CodeVersion, Trial
from recstudy.programs.trial import run_trial
from recstudy.records import Results
from recstudy.recursive import Digits, RunConfig, TrainConfig, ViTRM
from recstudy.report import Curve, LearningCurves, Table
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan

STUDY = Study(
    name="sample",
    presets={
        "quick": RunConfig(
            data=Digits(limit=32),
            model=ViTRM(width=8, heads=2, layers=1, patch=4, latent_tokens=2, latent_steps=1),
            train=TrainConfig(epochs=3, batch_size=16, ema_decay=0.9),
            resources=Resources(gpus=0),
        )
    },
    variants=grid({"model.latent_steps": [1, 2]}),
    seeds=1,
    report=[Table("depths"), Curve("curve", x="model.latent_steps", y="top1_accuracy"), LearningCurves()],
)


def main(version: str) -> None:
    records_folder, code = Path(__file__).parent, Path(recstudy.__file__).parents[1]
    sys.argv = ["studies/sample.py"]
    os.chdir(tempfile.mkdtemp())
    results, plan = Results(Path("results")).create(), make_plan(STUDY)
    record_plan(plan, results)
    for run, path in ((run, Path("results/runs", run.id)) for run in plan.runs):
        if run.variant == 1:
            (path / "epochs.jsonl").mkdir(parents=True)  # a folder in a log's place: this run fails
        values = {**run.config.values, "resources": run.config.resources.model_dump()}
        run_trial(
            Trial(values, run.id, str(path), "data", version=CodeVersion("0" * 40)),
            lambda line: None,
        )
    for path in Path("results").rglob("*"):
        if path.name in ("weights.safetensors", "lock"):
            path.unlink()
        elif path.suffix in (".json", ".jsonl") and path.is_file():
            text = (
                path.read_text()
                .replace(f"{code}/", "")
                .replace(f"{sysconfig.get_path('stdlib')}/", "python/")
            )
            path.write_text(text.replace(os.uname().nodename, "node"))
    for folder in Path("results").glob("runs/*/epochs.jsonl/"):
        folder.rmdir()
    shutil.move("results", records_folder / version)


if __name__ == "__main__":
    main(sys.argv[1])
