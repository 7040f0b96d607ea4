"""A made-up study with known numbers: two models at two batch sizes and a recursion axis, three seeds.

variant 0  ViTRM, batch 64       93.0 93.1 93.2   all done: mean 93.1, half-width 0.248
variant 1  ViTRM, batch 128      92.9 93.3, seed 2 failed (code)
variant 2  ViT-Small, batch 64   94.1, seed 1 diverged, seed 2 not run
variant 3  ViT-Small, batch 128  not run, seed 2 begun
"""

from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from recstudy.papers import published
from recstudy.records import Failure, Result, Results, append_line, write_json
from recstudy.records.reading import record_of
from recstudy.recursive import Answers
from recstudy.recursive.metrics.kept import LIMIT, pack_answers
from recstudy.report import (
    Best,
    Curve,
    History,
    Importance,
    LearningCurves,
    ParallelCoordinates,
    Pareto,
    Slices,
    Table,
    dump_report,
)
from recstudy.report.cells import Cell
from recstudy.report.study_records import StudyRecords, load_study
from recstudy.report.tables.render import verdicts
from recstudy.report.venues import ARTICLE
from recstudy.report.writing import show_report

SCORES: dict[tuple[int, int], float] = {
    (0, 0): 93.0,
    (0, 1): 93.1,
    (0, 2): 93.2,
    (1, 0): 92.9,
    (1, 1): 93.3,
    (2, 0): 94.1,
}
VITRM = {"family": "vitrm", "width": 384, "latent_steps": 3}
VIT = {"family": "vit", "width": None, "depth": 9}
PARAMS = {"ViTRM": 3_624_971, "ViT-Small": 16_876_138}
TABLE1 = published("002_table1_cifar10", margin=0.5, why="made up")


def base(**train: Any) -> dict[str, Any]:
    """The paper's protocol."""
    return {
        "data": {"name": "cifar10", "limit": None, "validation": 0.1},
        "model": VITRM,
        "train": {"epochs": 1000, "batch_size": 128, "supervision_steps": 1, "selection": "test", **train},
        "seed": 0,
        "resources": {"cpus": 1},
    }


def variants() -> list[dict[str, Any]]:
    return [
        variant(
            f"{title}, batch_size={batch}",
            {"model": title, "batch_size": batch},
            {"model": model, "train.batch_size": batch},
            title,
        )
        for title, model in (("ViTRM", VITRM), ("ViT-Small", VIT))
        for batch in (64, 128)
    ]


def specs() -> list[Any]:
    return [
        Table(
            "scores", metrics=("top1_accuracy", "params", "gflops"), targets=TABLE1, title="Accuracy and cost"
        ),
        Table(
            "table1",
            rows="model",
            columns="batch_size",
            targets=TABLE1,
            title="Table 1: models by batch size",
        ),
        Curve("by_batch", x="batch_size", y="top1_accuracy", by="model", targets=TABLE1),
        LearningCurves(),
    ]


def plan(**changes: Any) -> dict[str, Any]:
    fields = {
        "format": 1,
        "study": "made_up",
        "preset": "paper",
        "question": "Does the batch size matter?",
        "description": "Table 1 of the ViTRM paper.\nCost: none, the numbers are made up.",
        "created": "2025-01-01T00:00:00Z",
        "command": "python studies/made_up.py --preset paper",
        "smoke": False,
        "base": base(),
        "axes": {"model": "model", "batch_size": "train.batch_size"},
        "variants": variants(),
        "seeds": [0, 1, 2],
        "report": dump_report(specs()),
    }
    fields |= changes
    fields.setdefault("reference", {"preset": "paper", "base": fields["base"], "axes": fields["axes"]})
    runs = [
        [index, seed, run_id(index, seed)]
        for seed in fields["seeds"]
        for index in range(len(fields["variants"]))
    ]
    return {"runs": runs} | fields


def published_beside(cell: Cell) -> tuple[str, str]:
    """What is published beside a cell, as it is printed, and the verdicts on it."""
    return ", ".join(dict.fromkeys(match.text for match in cell.matches)), ", ".join(verdicts(cell))


def run_id(variant: int, seed: int) -> str:
    return f"{variant:010x}{seed:010x}"


def result(
    score: float | None, title: str = "ViTRM", status: str = "done", synthetic: bool = False
) -> dict[str, Any]:
    metrics, depths = {}, {}
    if score is not None:
        metrics = {"top1_accuracy": score, "macro_f1": score - 0.2, "nll": 0.31, "ece": 4.2}
        depths = {"top1_accuracy": {"1": score - 2, "2": score}}
    return {
        "status": status,
        "metrics": metrics,
        "depths": depths,
        "selected": {"epoch": 4, "split": "test", "top1_accuracy": score},
        "cost": {
            "params": PARAMS.get(title, 1000),
            "gflops": 0.34512,
            "train_pflop": 1.5,
            "seconds": 90.0,
            "images_per_second": 800.0,
            "epoch_seconds": 15.5,
        },
        "attempts": 1,
        "provenance": {
            "commit": "0123abc",
            "dirty": False,
            "versions": {"recstudy": "0.1.0", "torch": "2.15.0"},
            "hardware": {"host": "node-1", "cpu": "a processor", "gpu": None},
            "data_checksum": "feedbeef",
            "data_notes": [],
            "synthetic": synthetic,
            "started": "2025-01-01T00:00:00Z",
            "finished": "2025-01-01T00:01:30Z",
        },
    }


def as_result(values: dict[str, Any]) -> Result:
    return record_of(Result, values)


def as_failure(values: dict[str, Any]) -> Failure:
    return record_of(Failure, values)


def failure() -> dict[str, Any]:
    trace = 'Traceback (most recent call last):\n  File "model.py", line 3, in forward\nValueError: heads must divide width'
    return {
        "class": "code",
        "error": "ValueError: heads must divide width",
        "traceback": trace,
        "attempts": 2,
    }


def finish(results: Results, variant: int, seed: int, values: dict[str, Any]) -> None:
    """Write the result of one run."""
    results.run(run_id(variant, seed)).finish(as_result(values))


def variant(
    label: str, levels: dict[str, Any], changes: dict[str, Any], model: str = "ViTRM", data: str = "CIFAR-10"
) -> Any:
    """Return a variant of a plan."""
    return {"label": label, "levels": levels, "changes": changes, "model": model, "data": data}


def write_plan(root: Path, study_plan: dict[str, Any]) -> Results:
    """Write a plan into an empty results folder."""
    results = Results(root).create()
    write_json(results.study(study_plan["study"], study_plan["preset"]) / "plan.json", study_plan)
    return results


def write_epochs(results: Results, identity: str, score: float, epochs: int = 5) -> None:
    for epoch in range(epochs):
        line = {
            "epoch": epoch,
            "train_loss": 2.3 / (epoch + 1),
            "selection_top1_accuracy": score - 20 / (epoch + 1),
            "seconds": 18.0,
        }
        append_line(results.run(identity).epochs, line)


FINDINGS = {"Effusion": 88.04, "Pleural_Thickening": 71.5}


def findings(auroc: float, seed: int, **changes: Any) -> dict[str, Any]:
    """A result on chest X-rays: `auroc` and 2 points more a seed; Hernia has no positive test image."""
    finding_scores = {f"auroc.{name}": value + 2 * seed for name, value in FINDINGS.items()}
    metrics = {"auroc": auroc + 2 * seed, "average_precision": 40.0, "nll": 0.2, **finding_scores}
    record = result(None) | {"metrics": metrics, "depths": {"auroc": {"1": auroc}}, "undefined": ["Hernia"]}
    return record | changes


def write_chest(root: Path, **changes: Any) -> Results:
    """Two models on chest X-rays, two seeds: an HRM at 80 and 82, and a CNN at 84 (its seed 1 has not
    run).
    """
    chosen = [
        variant(title, {"model": title}, {"model": model}, title, "NIH chest X-rays")
        for title, model in (("HRM", VITRM), ("CNN", VIT))
    ]
    results = write_plan(
        root, plan(**{"variants": chosen, "axes": {"model": "model"}, "seeds": [0, 1], **changes})
    )
    for index, seed, auroc in ((0, 0, 80.0), (0, 1, 80.0), (1, 0, 84.0)):
        finish(results, index, seed, findings(auroc, seed))
    return results


def write_losses(results: Results, identity: str, *epochs: list[float], every: int = 1) -> None:
    """Each epoch's losses; the first is update 1."""
    first = 1
    for epoch, losses in enumerate(epochs):
        append_line(
            results.run(identity).losses, {"epoch": epoch, "first": first, "every": every, "losses": losses}
        )
        first += every * len(losses)


def write_mistakes(results: Results, identity: str, images: np.ndarray, /, **changes: Any) -> None:
    """A cat taken for a dog, a dog for a cat, and so on: `images` are (M, C, H, W)."""
    count = len(images)
    arrays = {
        "rows": 3 * np.arange(count),
        "labels": np.arange(count) % 2,
        "predicted": 1 - np.arange(count) % 2,
        "images": images.astype(np.uint8),
        "names": np.array(["cat", "dog"]),
    }
    results.run(identity).path.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(results.run(identity).mistakes, **(arrays | changes))


def thinking(**changes: Any) -> dict[str, Any]:
    """Two puzzles of 2x2 tokens (PAD, blank, 1, 2) with boxes of 1x2, over three segments; `changes` replace
    arrays.

    The first is 1 . / . 1 with the answer 1 2 / 2 1: its cells are 1 1 / 1 1, then 1 2 / 1 1, after which the
    model would halt, then all right. The second stays as it is, with two cells wrong of which one was given.
    """
    arrays = {
        "rows": np.array([0, 3]),
        "shape": np.array([2, 2]),
        "symbols": np.array([" ", ".", "1", "2"]),
        "colours": np.array([], dtype=str),
        "boxes": np.array([1, 2]),
        "given": np.array([[2, 1, 1, 2], [1, 1, 2, 3]], dtype=np.uint8),
        "answers": np.array([[2, 3, 3, 2], [3, 2, 2, 3]], dtype=np.uint8),
        "cells": np.array([[[2, 2, 2, 2], [2, 3, 2, 2], [2, 3, 3, 2]], [[2, 2, 2, 3]] * 3], dtype=np.uint8),
        "halt": np.array([[-2, 1, 3], [-3, -2, -1]], dtype=np.float32),
    }
    return arrays | changes


def write_thinking(results: Results, identity: str, **changes: Any) -> None:
    results.run(identity).path.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(results.run(identity).path / "thinking.npz", **thinking(**changes))


CAPTION_MODELS = {
    "LSTM": ("image_lstm", None, "small"),
    "HRM, two loops": ("image_hrm", 0, "resnet18"),
    "HRM, three loops": ("image_hrm", 2, "resnet18"),
    "TRM": ("image_trm", None, "swin_t"),
}
CIDER = {"LSTM": 0.31, "HRM, two loops": 0.42, "HRM, three loops": 0.48, "TRM": 0.45}


def captioner(family: str, middle: int | None, backbone: str) -> dict[str, Any]:
    """`middle`: an HRM's cycles of the middle level."""
    changes = {"family": family, "backbone": backbone, "weights": "pretrained", "tuned": False}
    return changes | ({} if middle is None else {"middle_cycles": middle})


def captioned(cider: float, **changes: Any) -> dict[str, Any]:
    """A captioner's result on a machine without Java."""
    metrics = {
        "bleu_1": 0.579,
        "bleu_4": 0.191,
        "rouge_l": 0.199,
        "cider": cider,
        "token_accuracy": 61.25,
        "caption_loss": 1.5,
    }
    record = result(None) | {
        "metrics": metrics,
        "depths": {},
        "unavailable": {"meteor": "no Java on this machine"},
        "tokenizer": {"text": "byte (260)", "metrics": "PTB (Stanford CoreNLP 3.4.1)"},
        "decode": "beam 3",
    }
    record["cost"] |= {"params": 18_500_000, "trained_params": 7_350_000}
    return record | changes


def caption_plan(**changes: Any) -> dict[str, Any]:
    """Table II of 000 as a study: four models, two seeds, on data that are not the paper's unless `data` says
    so.
    """
    data = changes.pop("data", {"name": "phantom_captions", "size": 64, "length": 96, "limit": None})
    chosen = [
        variant(label, {"model": label}, {"model": captioner(*scores_of_model)}, label, "Phantoms")
        for label, scores_of_model in CAPTION_MODELS.items()
    ]
    first = {
        "data": data,
        "model": captioner(*CAPTION_MODELS["TRM"]),
        "train": {"epochs": 50, "selection": "validation"},
    }
    fields = {"variants": chosen, "axes": {"model": "model"}, "seeds": [0, 1], "base": base() | first}
    return plan(**fields | changes)


def write_captions(
    results: Results, identity: str, texts: list[tuple[list[str], str]], images: np.ndarray | None = None
) -> None:
    """Each text is an example's references and hypothesis; `images` are (n, C, H, W)."""
    folder = results.run(identity).path
    rows = [3 * index for index in range(len(texts))]
    examples = [
        {"row": row, "references": references, "hypothesis": hypothesis}
        for row, (references, hypothesis) in zip(rows, texts, strict=True)
    ]
    write_json(folder / "captions.json", {"format": 1, "examples": examples})
    pixels = np.zeros((len(texts), 3, 8, 8)) if images is None else images
    np.savez_compressed(
        folder / "captions.npz", rows=np.array(rows)[: len(pixels)], images=pixels.astype(np.uint8)
    )


def write_alignment(
    results: Results, identity: str, cosines: list[tuple[float, float]], caption: str = "a chest film"
) -> None:
    folder = results.run(identity).path
    pairs = [
        {"row": index, "caption": caption, "before": old, "after": new}
        for index, (old, new) in enumerate(cosines)
    ]
    write_json(folder / "alignment.json", {"format": 1, "pairs": pairs})
    images = np.zeros((len(pairs), 3, 8, 8), dtype=np.uint8)
    np.savez_compressed(folder / "captions.npz", rows=np.arange(len(pairs)), images=images)


def write_caption_study(root: Path, **changes: Any) -> Results:
    """Every model finished on both seeds, a hundredth of a CIDEr apart."""
    study_plan = caption_plan(**changes)
    results = write_plan(root, study_plan)
    for index, (_, cider) in enumerate(CIDER.items()):
        for seed in study_plan["seeds"]:
            finish(results, index, seed, captioned(cider + 0.01 * seed))
    return results


def write_study(root: Path, **changes: Any) -> Results:
    """Records of the study above; `changes` replace parts of its plan."""
    study_plan = plan(**changes)
    results = write_plan(root, study_plan)
    for (index, seed), score in SCORES.items():
        finish(results, index, seed, result(score, study_plan["variants"][index]["model"]))
        write_epochs(results, run_id(index, seed), score + seed)
    write_json(results.run(run_id(1, 2)).failure, failure())
    finish(results, 2, 1, result(None, "ViT-Small", status="diverged"))
    write_json(results.run(run_id(3, 2)).config, {})
    append_line(results.run(run_id(3, 2)).attempts, {"attempt": 1})
    return results


SPACE = {
    "vitrm": {
        "model.latent_steps": {"low": 1, "high": 6, "log": False},
        "train.batch_size": {"choices": [16, 32, 64]},
        "train.learning_rate": {"low": 1e-5, "high": 1e-2, "log": True},
    }
}
# number -> latent steps, batch size, learning rate, how it ended, selection score, GFLOP
TRIALS: dict[int, tuple[int, int, float, str, float | None, float]] = {
    0: (3, 32, 1e-3, "done", 80.0, 0.3),
    1: (1, 16, 1e-4, "done", 70.0, 0.1),
    2: (6, 64, 1e-2, "diverged", None, 0.6),
    3: (2, 32, 5e-4, "stopped", 60.5, 0.2),
    4: (4, 16, 2e-3, "done", 90.0, 0.4),
    5: (5, 64, 3e-3, "failed", None, 0.5),
    6: (3, 64, 1e-3, "done", 85.0, 0.3),
    7: (6, 32, 5e-5, "done", 75.0, 0.6),
    8: (2, 16, 1e-3, "not run", None, 0.2),
}
# trial -> seed -> test score
FRESH: dict[int, dict[int, float | None]] = {4: {1: 88.0, 2: 86.0, 3: None}, 6: {1: 87.0}}


def write_answers(
    results: Results, identity: str, logits: Any, labels: Any, limit: int = LIMIT, groups: Any = None
) -> Answers:
    """Of two classes, as a run keeps them; `groups`: the patient of each image."""
    rows = np.arange(len(labels))
    answers = Answers(
        "multiclass", np.asarray(logits, float), np.asarray(labels), ("cat", "dog"), groups, rows
    )
    results.run(identity).answers.write_bytes(pack_answers(answers, limit)[0])
    return answers


def search_specs() -> list[Any]:
    return [
        Best(metrics=("top1_accuracy", "params", "gflops")),
        History(),
        Importance(),
        ParallelCoordinates(),
        Slices(),
        Pareto(),
    ]


def search_plan(**changes: Any) -> dict[str, Any]:
    fields = {
        "objectives": {"selection_top1_accuracy": "max", "gflops": "min"},
        "sampler": "tpe",
        "stopping": "asha",
        "budget": "24 runs",
        "space": SPACE,
        "confirm": {"best": 2, "seeds": [1, 2, 3]},
    }
    return fields | changes


def trial_line(number: int, params: dict[str, Any], label: str = "") -> dict[str, Any]:
    levels = {path.rpartition(".")[2]: value for path, value in params.items()}
    words = ", ".join(f"{name}={value}" for name, value in levels.items() if name != "family")
    changes = {path: value for path, value in params.items() if path != "family"}
    return {
        "number": number,
        "params": params,
        "variant": variant(label or words, levels, changes),
        "seed": 0,
        "id": run_id(number, 0),
    }


def searched(score: float, gflops: float, test: float | None = None) -> dict[str, Any]:
    """A result with this score on the selection split; on the test set five points less, unless it is
    given.
    """
    record = result(score - 5 if test is None else test)
    return record | {
        "selected": {"epoch": 4, "split": "validation", "top1_accuracy": score},
        "cost": record["cost"] | {"gflops": gflops},
    }


def end(results: Results, identity: str, ending: str, score: float | None, gflops: float) -> None:
    """Write the folder of a run that ended like this."""
    folder = results.run(identity)
    if ending == "done":
        folder.finish(as_result(searched(score or 0.0, gflops)))
    elif ending == "diverged":
        folder.finish(as_result(result(None, status="diverged")))
    elif ending == "stopped":
        write_json(folder.stopped, {"epoch": 5, "score": score, "by": "asha"})
    elif ending == "failed":
        write_json(folder.failure, failure())


def write_search(
    root: Path, trials: Mapping[int, Any] = TRIALS, search: Mapping[str, Any] | None = None, **changes: Any
) -> Results:
    """Records of the search above; `changes` replace parts of its plan."""
    report = dump_report(search_specs())
    study_plan = plan(
        **{
            "variants": [],
            "axes": {},
            "seeds": [0],
            "base": base(selection="validation"),
            "report": report,
            **changes,
        }
    )
    results = write_plan(
        root, study_plan | {"definition": "3f2a9c0d1e4b", "search": search_plan(**(search or {}))}
    )
    folder = results.study("made_up", "paper")
    for number, (steps, batch, rate, ending, score, gflops) in trials.items():
        params = {"model.latent_steps": steps, "train.batch_size": batch, "train.learning_rate": rate}
        write_trial(results, trial_line(number, params), ending, score, gflops)
    for number, seeds in FRESH.items():
        for seed, score in seeds.items() if number in trials else ():
            append_line(
                folder / "trials-3f2a9c0d1e4b.jsonl",
                {"confirms": number, "seed": seed, "id": run_id(number, seed)},
            )
            if score is not None:
                finish(results, number, seed, searched(0.0, trials[number][5], score))
    return results


def write_trial(
    results: Results, line: dict[str, Any], ending: str, score: float | None, gflops: float
) -> None:
    append_line(results.study("made_up", "paper") / "trials-3f2a9c0d1e4b.jsonl", line)
    end(results, line["id"], ending, score, gflops)


def read(results: Results) -> StudyRecords:
    """The records of the made-up study."""
    return load_study(results, "made_up", "paper")


def write_report(
    results: Results, name: str, preset: str, export: Any = (), paper: Any = ARTICLE, trust: bool = False
) -> Path:
    """Write a study's report without printing it."""
    return show_report(results, name, preset, export, Console(quiet=True), paper, trust)


def printed(show: Any, *arguments: Any) -> str:
    """What a command prints on a terminal of 160 columns."""
    terminal = Console(width=160, record=True, file=StringIO())
    show(*arguments, terminal)
    return terminal.export_text()
