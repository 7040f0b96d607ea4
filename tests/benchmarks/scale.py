"""A finished study of 10,000 runs: what it takes to start it again, and to report on it; and a report on 24
runs that kept what they answered on 10,000 test images, by which its intervals are over images too.

The records are made up, 25 epochs a run, in the form that a worker writes. Each command then runs in a
process of its own, imports included: `python studies/NAME.py` up to its report (it lays out every run, looks
for each result and writes the plan), and `recstudy report FOLDER`. Of 3,000 such runs, the board's pages:
from when a page is first asked for, the folder read but nothing of the page made, until its last table and
figure is there.
"""

import json
import runpy
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from figure import Figure, several

from recstudy.board.server import make_app
from recstudy.records import FORMAT, Results, Run, write_json
from recstudy.recursive import Answers
from recstudy.recursive.metrics.kept import pack_answers
from recstudy.study.plan import make_plan
from recstudy.study.record import record_plan

VARIANTS, SEEDS, EPOCHS, TIMES = 2000, 5, 25, 3
WATCHED = 600  # variants of a study on the board
FEW_VARIANTS, FEW_SEEDS, IMAGES, CLASSES = 12, 2, 10_000, 10  # variants and seeds that keep their answers
TEXT = '''"""Does a study of many runs stay quick to handle?"""

from recstudy.recursive import RunConfig, TrainConfig
from recstudy import Study, grid, main
from recstudy.report import Curve, Differences, LearningCurves, Table
from recstudy.recursive import Digits
from recstudy.recursive import ViTRM

study = Study(
    name="many",
    presets={{"quick": RunConfig(data=Digits(), model=ViTRM(width=64, heads=4, patch=2), train=TrainConfig(epochs={epochs}))}},
    variants=grid(
        {{
            "train.learning_rate": [round(1e-5 * step, 9) for step in range(1, {variants} // 4 + 1)],
            "model.latent_steps": [1, 2, 3, 6],
        }}
    ),
    seeds={seeds},
    report=[Table("rates"), {report}],
)

if __name__ == "__main__":
    main(study)
'''
CURVES = (
    'Curve("by_rate", x="train.learning_rate", y="top1_accuracy", by="model.latent_steps"), LearningCurves()'
)
DIFFERENCES = 'Differences(base="learning_rate=1e-05, latent_steps=1")'
STUDY = TEXT.format(variants=VARIANTS, seeds=SEEDS, epochs=EPOCHS, report=CURVES)
ON_BOARD = TEXT.format(variants=WATCHED, seeds=SEEDS, epochs=EPOCHS, report=CURVES)
ANSWERED = TEXT.format(variants=FEW_VARIANTS, seeds=FEW_SEEDS, epochs=EPOCHS, report=DIFFERENCES)
# The command as it is, but for the drawing: `recstudy report` draws it, and is measured by itself.
UP_TO_THE_REPORT = """
import runpy, sys
import recstudy.cli.study
recstudy.cli.study.draw_report = lambda *what: True
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
PAGES = {"first page": 300, "page of the study": 700, "list of its runs": 700}
REPORT = "from recstudy.cli import main; main()"


def measure() -> list[Figure]:
    """Seconds and peak memory of both commands, and of the report on few runs and their answers."""
    with tempfile.TemporaryDirectory() as folder:
        script, results = make_results(Path(folder), STUDY)
        resume, resumed = several(TIMES, "-c", UP_TO_THE_REPORT, script, "--results", results.root)
        report, reported = several(TIMES, "-c", REPORT, "report", results.root)
    with tempfile.TemporaryDirectory() as folder:
        _, results = make_results(Path(folder), ANSWERED, IMAGES)
        answered, _ = several(TIMES, "-c", REPORT, "report", results.root)
    with tempfile.TemporaryDirectory() as folder:
        pages = board_pages(make_results(Path(folder), ON_BOARD)[1].root)
    runs, answered_runs = f"{VARIANTS * SEEDS:,} runs", f"{FEW_VARIANTS * FEW_SEEDS} runs and their answers"
    return [
        Figure(f"plan and resume {runs}", "s", resume, maximum=3),
        Figure(f"plan and resume {runs}, peak memory", "MB", resumed, maximum=300),
        Figure(f"report on {runs}", "s", report, maximum=4, note=f"{EPOCHS} epochs a run"),
        Figure(f"report on {runs}, peak memory", "MB", reported, maximum=300),
        Figure(f"report on {answered_runs}", "s", answered, maximum=5, note=f"{IMAGES:,} test images"),
        *(
            Figure(f"board, {WATCHED * SEEDS:,} runs, {name}", "ms", pages[name], maximum=limit)
            for name, limit in PAGES.items()
        ),
    ]


def board_pages(root: Path) -> dict[str, list[float]]:
    """Return the milliseconds that each of `PAGES` takes on a board that has made none before, the folder
    read but once.
    """
    paths = ["/", "/study/many/quick", "/runs/many/quick"]
    took: dict[str, list[float]] = {name: [] for name in PAGES}
    for _ in range(TIMES + 1):
        client = make_app(Results(root)).test_client()
        client.get("/compare/many/quick")  # reads the folder, and is refused
        for name, path in zip(PAGES, paths, strict=True):
            start_time = time.perf_counter()
            assert client.get(path).status_code == 200
            took[name].append(1e3 * (time.perf_counter() - start_time))
    return {name: times[1:] for name, times in took.items()}  # the first one imports what draws


# --------------------------------------------------------------------------------------------------------
# made-up records


def make_results(folder: Path, study: str, images: int = 0) -> tuple[Path, Results]:
    """Write the study's file, and each run's folder with so many answers.

    Files are written straight: to flush 40,000 files one by one would take an hour.
    """
    script = folder / "many.py"
    script.write_text(study, encoding="utf-8")
    results = Results(folder / "results").create()
    plan = make_plan(runpy.run_path(str(script))["study"])
    for run in plan.runs:
        run_folder = results.run(run.id)
        run_folder.path.mkdir(parents=True)
        content = result(run)
        if images:
            content["answers"] = {"kept": images, "of": images}
            run_folder.answers.write_bytes(pack_answers(answers(run, images))[0])
        texts = {
            run_folder.attempts: '{"started": "2025-01-01T00:00:00+00:00", "host": "node", "process": 1}\n',
            run_folder.config: json.dumps(
                {**run.config.values, "resources": run.config.resources.model_dump()}, indent=1
            ),
            run_folder.epochs: "".join(json.dumps(epoch_line(run, epoch)) + "\n" for epoch in range(EPOCHS)),
            run_folder.result: json.dumps(content, indent=1),
        }
        for file, text in texts.items():
            file.write_text(text, encoding="utf-8")
    record_plan(plan, results)
    write_json(results.root / "recstudy.json", {"format": FORMAT, "what": "results of recstudy"})
    return script, results


def answers(run: Run, images: int) -> Answers:
    """Right on about as many images as its score says; runs differ on one in ten."""
    rng = np.random.default_rng([run.variant, run.seed])
    labels = np.arange(images) % CLASSES
    right = np.arange(images) < images * score(run, EPOCHS) / 100
    predictions = np.where(right ^ (rng.random(images) < 0.05), labels, (labels + 1) % CLASSES)
    logits = rng.normal(size=(images, CLASSES)) + 5 * np.eye(CLASSES)[predictions]
    return Answers("multiclass", logits, labels, tuple(map(str, range(CLASSES))), rows=np.arange(images))


def score(run: Run, epoch: int) -> float:
    return 90 - 60 / (epoch + 2) + (run.variant % 97) / 20 + run.seed / 5


def epoch_line(run: Run, epoch: int) -> dict[str, float]:
    return {
        "epoch": epoch,
        "learning_rate": run.config.train.learning_rate,
        "train_loss": 2.3 / (epoch + 1) + run.seed / 100,
        "supervision_steps_used": 1.0,
        "selection_loss": 2.4 / (epoch + 1) + run.seed / 100,
        "selection_top1_accuracy": score(run, epoch),
        "seconds": 0.1692640149999,
        "images_per_second": 7891.002515979,
    }


def result(run: Run) -> dict[str, Any]:
    final = score(run, EPOCHS)
    return {
        "format": FORMAT,
        "status": "done",
        "metrics": {"top1_accuracy": final, "macro_f1": final - 0.1, "nll": 0.25862331965867347, "ece": 3.95972298},
        "selected": {"split": "validation", "epoch": EPOCHS - 1, "top1_accuracy": final},
        "cost": {
            "params": 36085, "gflops": 0.002414208, "train_gflops": 0.028937728, "train_pflop": 0.000496368848384,
            "seconds": 8.387918584, "device_seconds": 8.387918584, "images_per_second": 4624.508405, "peak_memory_mb": 961.99,
            "supervision_steps_used": 1.0,
        },
        "attempts": 1,
        "provenance": {
            "commit": "86fba63d85eb615c346155832d547a9aff75f360", "dirty": False,
            "versions": {"recstudy": "0.1.0", "torch": "2.15.0", "torchvision": "0.29.2", "ray": "2.60.0", "numpy": "2.4.6"},
            "hardware": {"host": f"node-{run.seed}", "cpu": "a processor", "cores": 2, "gpu": None},
            "workers": 1, "data_checksum": "4c6ed7deef6608961a2c68a1d99de2a8800c1d56b4fe44c8cf78b1104863eaa2",
            "synthetic": False, "started": "2025-01-01T00:00:00+00:00", "finished": "2025-01-01T00:00:08+00:00",
        },
    }  # fmt: skip
