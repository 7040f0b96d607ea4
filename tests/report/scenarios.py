"""Made-up studies with a part of a report each: what it must say stands in golden/parts, a file a scenario.

The name says what the scenario is about. A builder gives records in a folder; a study that several scenarios
show is built once a run of the tests.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from asking import CLOSE, EQUAL_CLAIM, FULL, HELPS, HURTS, LINEAR_METRIC, ablation, by, crossed, study
from made_up import (
    SPACE,
    TABLE1,
    TRIALS,
    VIT,
    VITRM,
    as_result,
    base,
    captioned,
    finish,
    plan,
    read,
    result,
    run_id,
    search_specs,
    specs,
    trial_line,
    variant,
    variants,
    write_alignment,
    write_caption_study,
    write_captions,
    write_chest,
    write_epochs,
    write_losses,
    write_mistakes,
    write_plan,
    write_search,
    write_study,
    write_thinking,
    write_trial,
)

from recstudy import factorial
from recstudy.papers import published
from recstudy.records import Results, write_json
from recstudy.recursive import (
    Alignment,
    AttentionMaps,
    Captions,
    ExpertLoad,
    ExpertPath,
    FeatureMaps,
    Mistakes,
    Residuals,
    Thinking,
)
from recstudy.report import (
    Arithmetic,
    Best,
    Budgets,
    Claims,
    Curve,
    Differences,
    Effects,
    Effort,
    HeatMap,
    History,
    Importance,
    LearningCurves,
    LossTrace,
    Means,
    ParallelCoordinates,
    Pareto,
    Part,
    Ranks,
    Replications,
    Slices,
    Table,
)
from recstudy.report.study_records import StudyRecords

Build = Callable[[Path], Results]
HOSTILE = '</script><script>alert("x")</script><img src=x onerror=alert(1)> & \\evil{} $a_b^c$ 100% | *b* [1](http://x) #~ =1+1'
MODELS = ("ViTRM", "ViT-Small", "ResNet-50 pretrained", "TRM, two levels")
GREY = np.arange(3 * 64).reshape(3, 1, 8, 8)  # three digits of 8 x 8
SCORE = "selection_top1_accuracy"
FAMILIES = SPACE | {
    "hrm": {
        "model.high_cycles": {"low": 1, "high": 4, "log": False},
        "train.batch_size": {"choices": [32, 256]},
    },
}
FIELDS = {"model.latent_steps": 0.5, "train.batch_size": 0.3, "train.learning_rate": 0.2}
ARC = {
    "colours": np.array(["#000000", "#111111", "#222222", "#333333"]),
    "given": np.array([[2, 0, 0, 0], [2, 2, 0, 0]], dtype=np.uint8),
    "answers": np.array([[3, 3, 0, 0], [3, 0, 0, 0]], dtype=np.uint8),
    "boxes": np.array([0, 0]),
}
LOAD = {"load": [[6, 2, 0, 0], [2, 2, 3, 1]], "entropy": [0.5, 1.25], "dropped": [0, 0], "tokens": 4}
WORDS = ["[start]", "</script><b>", "[end]"]


# --------------------------------------------------------------------------------------------------------------- builders


def hostile(root: Path, **changes: Any) -> Results:
    labelled = variants()
    labelled[0] |= {"label": HOSTILE, "data": HOSTILE, "levels": {"model": HOSTILE, "batch_size": 64}}
    return write_study(root, variants=labelled, command=HOSTILE, **changes)


def leaky(root: Path) -> Results:
    """ViTRM at batch 64 is told the answer."""
    chosen = variants()
    chosen[0]["leaks"] = True
    return write_study(root, variants=chosen)


def swept(root: Path, models: tuple[str, ...] = MODELS, batches: int = 8) -> Results:
    """Models, some with long names, at batch sizes from 4 on, on synthetic data: three seeds each."""
    chosen = [
        variant(
            f"model={model}, batch_size={2**batch}",
            {"model": model, "batch_size": 2**batch},
            {"model": VITRM, "train.batch_size": 2**batch},
            model,
        )
        | {"synthetic": True}
        for model in models
        for batch in range(2, 2 + batches)
    ]
    results = write_plan(root, plan(variants=chosen, smoke=True, report=[]))
    for index in range(len(chosen)):
        for seed in range(3):
            finish(results, index, seed, result(80.0 + index % 7 + seed))
            write_epochs(results, run_id(index, seed), 80.0 + index)
    return results


def grids(root: Path) -> Results:
    """Two variants of two seeds: exact and cell accuracy and the residual after 1 and 2 segments. The
    interval of the residuals 0.01 and 0.05, 0.03 +- 0.25, reaches zero."""
    results = write_study(root)
    for index, seed in ((0, 0), (0, 1), (1, 0), (1, 1)):
        exact = 40.0 + 10 * index + seed
        depths = {"exact_accuracy": {"1": 1.0, "2": exact}, "cell_accuracy": {"1": 30.0, "2": 90.0 + seed}}
        depths["residual"] = {"1": 1.0 + seed / 10, "2": (0.01 + 0.04 * seed) / (1 + index)}
        finish(results, index, seed, result(None) | {"depths": depths})
    return results


def solved(root: Path) -> Results:
    """A segment costs 0.25 GFLOP: two of evaluation 0.5. Trajectories of 4 segments; the two seeds halt after
    1 and 2.
    """
    at_test = {"trajectories": 2, "copies": 1, "segments": 4}
    results = write_study(
        root, base=base(evaluation_steps=2, evaluation_depths=4, at_test=at_test), seeds=[0, 1]
    )
    for seed in (0, 1):
        metrics = {
            "noisy_exact_accuracy.1": 30.0 + seed,
            "noisy_exact_accuracy.2": 50.0 + seed,
            "voted_exact_accuracy.1": 60.0,
        }
        halted = {"halted_exact_accuracy": 20.0, "halted_steps": 1.0 + seed, "exact_accuracy": 40.0 + seed}
        depths = {"exact_accuracy": {"1": 10.0, "2": 40.0 + seed, "3": 41.0, "4": 42.0}}
        record = {"metrics": metrics | halted, "cost": {"gflops": 0.5}, "depths": depths}
        finish(results, 0, seed, result(None) | record)
    return results


def lost_epochs(root: Path) -> Results:
    results, record = write_study(root), result(93.0)
    finish(results, 0, 1, record | {"provenance": record["provenance"] | {"lost_epochs": 2}})
    return results


def losses(root: Path) -> Results:
    """Of variant 0 seed 1, as seed 0 diverged; of variant 1 seed 1, recorded every 1,000 updates; of variant
    2 the diverged one; of variant 3 the one under way. An epoch that stands there twice counts as it was
    written last, and a torn line is dropped."""
    results = write_study(root)
    finish(results, 0, 0, result(None, status="diverged"))
    for index, seed in ((0, 0), (0, 1), (2, 1), (3, 2)):
        write_losses(results, run_id(index, seed), [4.0, 2.0 + seed], [3.0])
    write_losses(results, run_id(1, 1), [4.0, 2.0], every=1000)
    with open(results.run(run_id(0, 1)).losses, "a") as file:
        file.write('{"epoch": 1, "first": 3, "every": 1, "losses": [2.5]}\n{"epoch": 2, "fir')
    return results


def searched(root: Path) -> Results:
    results = write_search(root)
    importances = {name: {"PED-ANOVA": FIELDS, "fANOVA": FIELDS} for name in (SCORE, "gflops")}
    intervals = {path: [max(0, share - 0.1), share + 0.05] for path, share in FIELDS.items()}
    interval_table = {name: {"PED-ANOVA": intervals, "fANOVA": intervals} for name in (SCORE, "gflops")}
    content = {"trials": 25, "importance": importances, "intervals": interval_table}
    write_json(results.study("made_up", "paper") / "importance-3f2a9c0d1e4b.json", content)
    return results


def two_families(root: Path) -> Results:
    """ViTRM and HRM; the two share a batch size, each with its own range."""
    results = write_search(root, {}, {"space": FAMILIES, "objectives": {SCORE: "max"}})
    vitrm = {"family": "vitrm", "model.latent_steps": 2, "train.batch_size": 16, "train.learning_rate": 1e-3}
    write_trial(results, trial_line(0, vitrm), "done", 80.0, 0.1)
    write_trial(
        results,
        trial_line(1, {"family": "hrm", "model.high_cycles": 3, "train.batch_size": 256}),
        "done",
        85.0,
        0.1,
    )
    return results


def hostile_search(root: Path) -> Results:
    results = write_search(root, {}, {"space": {HOSTILE: SPACE["vitrm"], "hrm": SPACE["vitrm"]}})
    params = {"family": HOSTILE, "model.latent_steps": 3, "train.batch_size": 16, "train.learning_rate": 1e-3}
    write_trial(results, trial_line(0, params, HOSTILE), "done", 80.0, 0.1)
    return results


def wrong(root: Path, *images: Any, names: tuple[str, ...] = ("cat", "dog"), label: str = "") -> Results:
    """Mistakes of the first variants: of variant 0 by its seed 1, and by seed 2, which does not count."""
    labelled = variants()
    labelled[0]["label"] = label or labelled[0]["label"]
    results = write_study(root, variants=labelled)
    for index, run_images in enumerate(images):
        write_mistakes(results, run_id(index, index == 0), run_images, names=np.array(names))
    write_mistakes(results, run_id(0, 2), GREY[:1])
    return results


def thinking(root: Path) -> Results:
    """A puzzle of digits and one of colours."""
    results = write_study(root)
    write_thinking(results, run_id(0, 0))
    write_thinking(results, run_id(1, 0), **ARC)
    return results


def aligned(root: Path) -> Results:
    """Differences 0.3, 0.5, -0.1: mean 0.2333, half-width t(0.975, 2) 0.3055 / sqrt(3) = 0.7589; of one pair
    there is none.
    """
    results = write_caption_study(root)
    write_alignment(results, run_id(3, 0), [(0.0, 0.3), (-0.1, 0.4), (0.2, 0.1)], caption='<b>"film"</b>')
    write_alignment(results, run_id(0, 0), [(0.0, 0.3)])
    return results


def trace(**changes: Any) -> dict[str, Any]:
    """Two captions of two tokens in two layers: the second image is looked at in its first place by one head
    alone.
    """
    cross = np.full((2, 2, 2, 2, 4), 0.25, dtype=np.float16)
    cross[1, 1, 1] = [1, 0, 0, 0]
    router = np.broadcast_to([[[0.75, 0.25], [0.5, 0.5]], [[0.125, 0.875], [1.0, 0.0]]], (2, 2, 2, 2)).astype(
        np.float16
    )
    trace = {
        "rows": np.array([0, 3]),
        "lengths": np.array([2, 2]),
        "words": np.array([WORDS] * 2),
        "cross_attention": cross,
        "self_attention": np.broadcast_to(np.array([[1, 0], [0.5, 0.5]], dtype=np.float16), (2, 2, 2, 2, 2)),
        "features": np.broadcast_to(np.arange(16).reshape(4, 4), (2, 5, 4, 4)).astype(np.float16),
        "router": router,
        "chosen": (-router).argsort(-1, kind="stable")[..., :1].astype(np.int16),
    }
    return {name: value for name, value in (trace | changes).items() if value is not None}


def routed(results: Results, identity: str, routing: Any) -> None:
    record = captioned(0.4)
    record["metrics"] |= {"router_entropy": 0.875, "expert_load_peak": 75.0, "dropped_tokens": 0.0}
    results.run(identity).finish(as_result(record | {"routing": routing}))


def inside(root: Path, image: bool = True, **changes: Any) -> Results:
    """The second seed of "HRM, three loops" has a trace and a load, the TRM's first seed a load on two
    experts.
    """
    results = write_caption_study(root)
    routed(results, run_id(2, 1), LOAD)
    routed(results, run_id(3, 0), LOAD | {"load": [[1, 3], [2, 2]]})
    np.savez_compressed(results.run(run_id(2, 1)).path / "trace.npz", **trace(**changes))
    if image:
        write_captions(results, run_id(2, 1), [(["a"], "b")] * 2, np.full((2, 3, 8, 8), 80))
    return results


def no_mixture(root: Path) -> Results:
    """As of Show, Attend and Tell, whose one map is no mean."""
    none = {"self_attention": None, "router": None, "chosen": None, "features": None}
    return inside(root, image=False, **none, cross_attention=np.full((2, 1, 1, 2, 4), 0.25, dtype=np.float16))


def write_captions_study(root: Path, *texts: tuple[list[str], str]) -> Results:
    """Captions of the LSTM's seed 0 and the TRM's seed 1."""
    results = write_caption_study(root)
    write_captions(results, run_id(0, 0), list(texts))
    write_captions(results, run_id(3, 1), [(texts[0][0], "a mass"), *texts[1:]])
    return results


def ranked(
    root: Path,
    scores: dict[str, list[float | None]],
    params: list[int] | None = None,
    seeds: int = 3,
    leaky: tuple[int, ...] = (),
) -> Results:
    """Runs a tenth of a point apart: of each data set the models in their order; no score, no run."""
    cells = [
        (data, model, score)
        for data, data_scores in scores.items()
        for model, score in enumerate(data_scores)
    ]
    chosen = [
        variant(
            f"data={data}, model={'ABCD'[model]}",
            {"data": data, "model": "ABCD"[model]},
            {"model": {**VIT, "width": index}, "data": {"name": data}},
            "ABCD"[model],
            data,
        )
        | {"leaks": index in leaky}
        for index, (data, model, _) in enumerate(cells)
    ]
    axes = {"data": "data", "model": "model"}
    results = write_plan(root, plan(variants=chosen, axes=axes, seeds=[*range(seeds)], report=[]))
    for index, (_, _, score) in enumerate(cells):
        for seed in range(seeds if score is not None else 0):
            record = result(score + 0.1 * (seed - (seeds - 1) / 2))
            record["cost"]["params"] = params[index] if params else 1000
            finish(results, index, seed, record)
    return results


SETS = {"COVCTR": [60.0, 72.0, 65.0], "ROCO": [33.0, 21.0, 26.0]}
FACTORS = factorial({"model.a": [0, 1], "model.b": [0, 1]})


def factors(root: Path) -> Results:
    """80, plus 4 for a, minus 2 for b, plus 6 where both are on: a is ((84 + 88) - (80 + 78)) / 2 = 7, b 1,
    and a x b 3.
    """
    return crossed(
        root, FACTORS, lambda on, seed: 80.0 + 4 * on["a"] - 2 * on["b"] + 6 * on["a"] * on["b"] + 0.1 * seed
    )


COUNTED = {
    "vocab_old": 12.0,
    "vocab_new": 256.0,
    "embed_new": 131_072.0,
    "total_increase": 251_904.0,
    "params_model": 27_275_266.0,
}
ONE_BATCH = {"model": "ViTRM", "batch_size": 64}
BY_MODEL = {"y": "top1_accuracy", "by": "model"}
CAPTION_SETTINGS = ("model.backbone", ("model.middle_cycles", "model.tuned"))

SCENARIOS: dict[str, tuple[Build, Part]] = {
    # curves
    "curve": (write_study, specs()[2]),
    "curve over cost": (write_study, Curve("c", x="gflops", **BY_MODEL)),
    "curve over depth": (write_study, Curve("c", x="eval.depth", where={"batch_size": 64}, **BY_MODEL)),
    "curve over classes": (write_chest, Curve("c", x="eval.part", y="auroc", by="model")),
    "curve of drops": (write_study, Curve("c", x="batch_size", drop=True, targets=TABLE1, **BY_MODEL)),
    "curve without what leaks": (leaky, Curve("c", x="batch_size", targets=TABLE1, **BY_MODEL)),
    "curve of hostile names": (hostile, Curve("c", x="batch_size", title=HOSTILE, **BY_MODEL)),
    "curve without runs": (partial(write_study, seeds=[]), specs()[2]),
    "ranks": (lambda root: ranked(root, {f"D{number}": [60.0 + number, 63.0 + number, 62.9 + number / 30] for number in range(6)}), Ranks()),
    "residuals": (grids, Residuals(where={"model": "ViTRM"})),
    "effort": (solved, Effort(where=ONE_BATCH)),
    "budgets": (solved, Budgets(where=ONE_BATCH)),
    "heat map": (write_study, HeatMap("h", x="batch_size", y="model")),
    "means": (write_study, Means(axes=("batch_size", "model"))),
    "means of variants": (write_study, Means()),
    # training
    "learning curves": (write_study, LearningCurves()),
    "learning curves smoothed": (write_study, LearningCurves(metrics=("train_loss", "selection_aurco"), window=3)),
    "learning curves with lost epochs": (lost_epochs, LearningCurves()),
    "loss trace": (losses, LossTrace(window=3)),
    # searches
    **{f"search {spec.name}": (searched, spec) for spec in search_specs()},
    "search of two families": (two_families, ParallelCoordinates()),
    "search importance before there is any": (write_search, Importance()),
    **{f"search without trials {spec.name}": (partial(write_search, trials={}), spec) for spec in (Best(), Slices(), Pareto())},
    "search of failed trials best": (partial(write_search, trials={2: TRIALS[2], 5: TRIALS[5]}), Best()),
    "search of stopped trials history": (partial(write_search, trials={3: TRIALS[3]}), History()),
    "search of hostile names parallel": (hostile_search, ParallelCoordinates()),
    "pareto without what leaks": (leaky, Pareto(x="params", y="top1_accuracy")),
    # what models do
    "mistakes": (lambda root: wrong(root, GREY, np.zeros((2, 3, 28, 28))), Mistakes()),
    "mistakes of hostile names": (lambda root: wrong(root, GREY, names=('<b>"&', "<script>"), label='<b>"&'), Mistakes()),
    "thinking": (thinking, Thinking(most=1)),
    "alignment": (aligned, Alignment(most=2)),
    "captions": (
        lambda root: write_captions_study(root, (["A large mass.", "The mass, left"], "the mass is small"), (["Normal film"], "")), Captions()
    ),
    "captions that are hostile": (lambda root: write_captions_study(root, ([HOSTILE, HOSTILE * 3], HOSTILE), ([HOSTILE], HOSTILE * 3)), Captions()),
    "expert load": (inside, ExpertLoad()),
    "expert load of one caption": (inside, ExpertLoad(example=1)),
    "expert path": (inside, ExpertPath()),
    "attention": (inside, AttentionMaps(example=1)),
    "attention alone": (no_mixture, AttentionMaps()),
    "feature maps": (inside, FeatureMaps()),
    "feature maps of none": (no_mixture, FeatureMaps()),
    # questions
    "claims": (lambda root: study(root, []), Claims(claims=tuple(by(LINEAR_METRIC, HURTS, HELPS, EQUAL_CLAIM, CLOSE)))),
    "claims that wait": (
        lambda root: study(root, [], losses={(16, 1): "not run", (2, 1): "failed", (4, 0): 10.0}),
        Claims(claims=tuple(by("top1_accuracy", HURTS, EQUAL_CLAIM, CLOSE))),
    ),
    "differences": (ablation, Differences("components", metric=LINEAR_METRIC, title="Components")),
    "differences beside published ones": (write_study, Differences(base="ViTRM, batch_size=128", targets=TABLE1)),
    "differences of hostile names": (lambda root: ablation(root, {HOSTILE: FULL, "b": FULL[:3]}), Differences(title=HOSTILE)),
    "effects": (factors, Effects()),
    "replications": (write_study, Replications(cell="trm_mlp_sudoku_extreme")),
    # tables
    "table": (write_study, specs()[0]),
    "table crossed": (write_study, specs()[1]),
    "table beside published values": (write_study, Table("t", metrics=("top1_accuracy", "params", "gflops", "macro_f1", "nll"), targets=TABLE1)),
    "table after steps": (write_study, Table("t", metrics=("top1_accuracy", "top1_accuracy@1", "auroc"))),
    "table without what leaks": (leaky, Table("t", rows="model", columns="batch_size", targets=TABLE1)),
    "table of what leaks": (leaky, Table("t", metrics=("top1_accuracy", "params"))),
    "table across": (write_chest, Table("t", metrics=("auroc", "auroc.*", "top1_accuracy", "epoch_seconds"), across=True)),
    "table of hostile names": (hostile, Table("h", title=HOSTILE, targets=TABLE1)),
    "table by data set": (lambda root: ranked(root, SETS), Table("t", metrics=("top1_accuracy", "nll", "params"), group="data")),
    "table by cost": (
        lambda root: ranked(root, {"CIFAR-10": [80.0, 92.0, 86.0, None]}, params=[1200, 1100, 1000, 5000]),
        Table("t", metrics=("top1_accuracy", "macro_f1"), group="params"),
    ),
    "table of improvements": (
        lambda root: ranked(root, SETS),
        Table("t", metrics=("top1_accuracy", "top1_accuracy_delta", "nll_delta"), improvement={"model": "C"}, group="data"),
    ),
    "table of captions with settings": (
        write_caption_study,
        Table("t", metrics=("rouge_l", "cider"), settings=CAPTION_SETTINGS, targets=published("000_table2_imagetrm")),
    ),
    "arithmetic given": (write_study, Arithmetic(counted=COUNTED, given=("vocab_old", "vocab_new"), title="Counted | again")),
}  # fmt: skip


def records_of(build: Build, root: Path) -> StudyRecords:
    return read(build(root))
