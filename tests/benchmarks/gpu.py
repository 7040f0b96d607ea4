"""What `gpu_day.sh` asks of a GPU: whether every family computes and resumes there, and how fast HRM, TRM and
ViTRM train.

    python tests/benchmarks/gpu.py contract | resume | trm | fast | hrm | vitrm [--results DIR] [--toy]

contract   every family on the small example of its contract, in float32: its logits beside the CPU's, and its weights after a
           stop beside those of a run that never stopped.
resume     a command, asked to leave after its first epoch, and the same command again, which goes on from its checkpoint.
the others the training loop itself, data and all, at paper size in bf16, without and with torch.compile
(fast: TRM with its
           CUDA graphs, `resources.compile_mode=reduce-overhead`, and with `max-autotune-no-cudagraphs` and
           states in bfloat16): images a second, what they are in TFLOP/s of
           the model as its paper writes it, their share of the card's peak (MFU), the peak memory beside the
           price that `--dry-run` gives, and where an epoch's time goes, a table of torch's profiler beside
           the figures.

Each side is written down once it is measured, so that a time limit costs the rest alone. `--toy`, on a CPU,
runs all of it in small. It needs neither Ray nor an installed recstudy (PYTHONPATH=.).
"""

import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np
import torch
import tyro
from figure import Figure, as_table, hardware, write_part

from recstudy.base.terminal import console
from recstudy.recursive import (
    FAMILIES,
    HRM,
    TASKS,
    TRM,
    Cifar10,
    PhantomCaptions,
    PhantomXray,
    RunConfig,
    Sudoku,
    TrainConfig,
    ViTRM,
)
from recstudy.recursive.contract.checks import example
from recstudy.recursive.data.cache import DataSet, Split, load
from recstudy.recursive.models.costs import cost, training_memory
from recstudy.recursive.testing import TINY_MODELS, tiny_model, tiny_run
from recstudy.recursive.train.loop import Training
from recstudy.recursive.train.peaks import peak_tflops
from recstudy.recursive.train.process import peak_memory_mb, reset_process
from recstudy.recursive.train.state import load_checkpoint, save_checkpoint

ON_GPU = torch.cuda.is_available()
A_THIRD = 100 / 3  # of that peak: 518 PFLOP, ViTRM's 1,000 epochs of CIFAR-10, in 26 minutes
CLOSE = 1e-3  # relative: float32 on two kinds of processors, and atomic additions in another order
UPDATES, ROUNDS = (20, 5) if ON_GPU else (2, 2)
SLOTS = TrainConfig(
    batch_size=768, halting="sample", supervision_steps=16, halt_weight=0.5, optimizer="adam_atan2", loss="stablemax",
    precision="bfloat16", selection="last",
)  # fmt: skip
CELLS = {"tokens": "cell", "puzzle_emb": "puzzle", "identifiers": 1}  # as in the presets
BATCH = TrainConfig(supervision_steps=16, halt_threshold=1.0, precision="bfloat16", selection="last")
MEASURED = {
    "hrm": [RunConfig(data=Sudoku(side=9), model=HRM(**CELLS), train=SLOTS)],
    "trm": [RunConfig(data=Sudoku(side=9), model=TRM(**CELLS, mixing="mlp"), train=SLOTS)],
    "vitrm": [
        RunConfig(data=Cifar10(), model=ViTRM(), train=BATCH.model_copy(update={"batch_size": n}))
        for n in (128, 1024)
    ],
}
FAST = (
    {"resources.compile_mode": "reduce-overhead", "train.optimizer": "muon"},
    {"resources.compile_mode": "max-autotune-no-cudagraphs", "train.state_precision": "bfloat16"},
)
MEASURED["fast"] = [MEASURED["trm"][0].with_changes(changes) for changes in FAST]
SMALL = {"model.width": 32, "model.heads": 2, "train.batch_size": 16, "train.supervision_steps": 2}
TOY = {
    "hrm": SMALL | {"model.high_layers": 1, "model.low_layers": 1},
    "trm": SMALL | {"model.layers": 1, "model.cycles": 1, "model.latent_steps": 1},
    "vitrm": SMALL | {"model.layers": 1, "model.latent_steps": 1},
}
TOY["fast"] = TOY["trm"]
SWEEP, ONE_VARIANT = (
    Path(__file__).parents[2] / "studies" / "vitrm_depth_sweep.py",
    "latent_steps=1, supervision_steps=1",
)
# families without an example of their contract
UNLIKE = {"densenet": PhantomXray(size=32), "micar": PhantomCaptions()}


@dataclass(frozen=True)
class Options:
    """What is measured, and where its figures go."""

    part: tyro.conf.Positional[Literal["contract", "resume", "trm", "fast", "hrm", "vitrm"]]
    results: Path = Path("results")
    """The folder that gets bench/overhead.json and bench/profile-*.txt."""
    toy: bool = False
    """All of it in small, on whatever there is."""


def main(options: Options) -> int:
    if not (ON_GPU or options.toy):
        print("gpu.py: torch sees no GPU here. --toy runs all of it in small on a CPU.", file=sys.stderr)
        return 2
    terminal, start_time, figures = console(), time.perf_counter(), list[Figure]()
    terminal.print("  ".join(f"{name}: {value}" for name, value in hardware().items()))
    parts = {"contract": contract, "resume": left}.get(options.part, trained)(options)
    for figure in parts:
        figures.append(figure)
        write_part(options.results, f"gpu {options.part}", figures, time.perf_counter() - start_time)
    terminal.print(as_table(f"{options.part}, {time.perf_counter() - start_time:.0f} s", figures))
    return 0


def place(compile: str) -> dict[str, Any]:
    return {"resources.gpus": int(ON_GPU), "resources.compile": compile}


# --------------------------------------------------------------------------------------------------------------- contract


def contract(options: Options) -> Iterator[Figure]:
    """How far a GPU's logits are from the CPU's, and a resumed run from a straight one, by the largest number
    of either.
    """
    failed = list[str]()
    ours = [
        name
        for name, kind in FAMILIES.items()
        if kind.__module__.startswith("recstudy.") and name != "fuselip"
    ]
    for family in ours:  # fuselip trains its tokenizer first
        fields = TINY_MODELS.get(family, {})
        small = (
            tiny_run(tiny_model(family), UNLIKE[family]) if family in UNLIKE else example(family, **fields)
        )
        config = small.with_changes({"train.precision": "float32", "data.limit": 32, **place("off")})
        try:
            yield Figure(f"{family}: logits beside the CPU's", "", [beside_the_cpu(config)], maximum=CLOSE)
            yield Figure(f"{family}: resumed beside straight", "", [resumed(config)], maximum=CLOSE)
        except Exception:  # of one family: the others are asked, too
            traceback.print_exc()
            failed.append(family)
    assert not failed, f"failed: {', '.join(failed)}"


def beside_the_cpu(config: RunConfig) -> float:
    gpu_training = start(config)
    cpu_training = Training(config, gpu_training.data, torch.device("cpu"))
    cpu_training.state.network.load_state_dict(gpu_training.state.network.state_dict())
    with torch.no_grad():
        logits = []
        for training in (gpu_training, cpu_training):
            network, batch = training.state.network.eval(), next(training._train.epoch(0))
            output, _ = network(batch.images, network.start(batch.images, batch.context))
            logits.append({"logits": output.logits.cpu()})
    return relative_difference(*logits)


def resumed(config: RunConfig) -> float:
    straight, stopped = start(config), start(config)
    for _ in straight.epochs():
        pass
    next(stopped.epochs())
    with tempfile.TemporaryDirectory() as saved:
        save_checkpoint(stopped, Path(saved))
        resumed_training = start(config)
        assert load_checkpoint(resumed_training, Path(saved)), "its checkpoint is not found"
    assert [line["epoch"] for line in resumed_training.epochs()] == [*range(1, config.train.epochs)]
    return relative_difference(
        *(training.state.network.state_dict() for training in (straight, resumed_training))
    )


def left(options: Options) -> Iterator[Figure]:
    """A run that SIGTERM asks to leave, and that the same command goes on with."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [
            "--no-ray",
            "--seeds",
            "1",
            "--only",
            ONE_VARIANT,
            "--gpus",
            str(int(ON_GPU)),
            "--results",
            folder,
        ]
        flags += ["--smoke"] * options.toy
        command, logs = [sys.executable, str(SWEEP), *flags], Path(folder, "runs")
        with subprocess.Popen(command) as first:
            while first.poll() is None and not any(log.stat().st_size for log in logs.glob("*/epochs.jsonl")):
                time.sleep(0.05)
            first.terminate()
        subprocess.run(command, check=True)
        lines = [log.read_text(encoding="utf-8").count("\n") for log in logs.glob("*/attempts.jsonl")]
        yield Figure(
            "attempts of a run that was asked to leave", "", lines, minimum=2, note=f"of {len(lines)} run"
        )


def start(config: RunConfig) -> Training:
    device = reset_process(config)
    return Training(
        config, load(config.data, Path("data"), hold_out=config.train.selection == "validation"), device
    )


def relative_difference(tensors: dict[str, torch.Tensor], reference: dict[str, torch.Tensor]) -> float:
    """Return the largest difference of two sets of tensors, over the largest number in them."""
    pairs = [(tensors[name].double(), reference[name].double()) for name in tensors if tensors[name].numel()]
    assert all(bool(torch.isfinite(tensor).all()) for pair in pairs for tensor in pair), (
        "a number is not finite"
    )
    return max(float((a - b).abs().max()) for a, b in pairs) / max(float(a.abs().max()) for a, _ in pairs)


# --------------------------------------------------------------------------------------------------------------- training


def trained(options: Options) -> Iterator[Figure]:
    """Every size of a family, without and with torch.compile."""
    peak = matrix_peak()
    yield Figure("matrix product", "TFLOP/s", [peak], note="bf16, random values")
    for config in MEASURED[options.part]:
        for compile in ("on",) if options.part == "fast" else ("off", "on"):
            small = TOY[options.part] if options.toy else {}
            mode = config.resources.compile_mode if compile == "on" else "off"
            name = f"profile-{options.part}-{config.train.batch_size}-{mode}.txt"
            profile = options.results / "bench" / name
            yield from epochs(config.with_changes(small | place(compile)), peak, profile)


def epochs(config: RunConfig, peak: float, profile: Path) -> Iterator[Figure]:
    """An epoch of some updates at a time; the first one compiles, the last one is profiled."""
    compiles, size = config.resources.compiles, config.train.batch_size
    title = f"{config.model.title}, batch {size}, {'compiled' if compiles else 'eager'}"
    device = reset_process(config)
    base_memory = 0.0 if ON_GPU else peak_memory_mb(device) or 0.0  # a process's own, with torch and all
    training = Training(config, generate_data(config, UPDATES * size), device, compiles)
    title += ", CUDA graphs" * training.state.network.has_graphs
    title += ", states in bfloat16" * (config.train.state_precision == "bfloat16")
    first, *seconds = [one_epoch(training) for _ in range(1 + ROUNDS)]
    images = UPDATES * size
    gflops = cost(config).train_gflops
    teraflops = [images / duration * gflops / 1e3 for duration in seconds]
    yield Figure(
        f"{title}: the first {UPDATES} updates", "s", [first], note="with all that is compiled" * compiles
    )
    yield Figure(
        title,
        "images/s",
        [images / duration for duration in seconds],
        note=f"epochs of {UPDATES} updates, data and all",
    )
    yield Figure(title, "TFLOP/s", teraflops)
    yield from of_peak(title, teraflops, peak)
    used_memory, priced = (peak_memory_mb(device) or 0.0) - base_memory, training_memory(config) / 2**20
    # a compiled graph may save less; malloc may keep more
    marked = {"maximum": 1.25} if ON_GPU and not compiles else {}
    yield Figure(
        f"{title}: peak memory / price of --dry-run",
        "x",
        [used_memory / priced],
        **marked,
        note=f"{used_memory:,.0f} MB",
    )
    activities = [torch.profiler.ProfilerActivity.CPU, *[torch.profiler.ProfilerActivity.CUDA] * ON_GPU]
    with torch.profiler.profile(activities=activities) as watched:
        one_epoch(training)
    order = "self_cuda_time_total" if ON_GPU else "self_cpu_time_total"
    profile.parent.mkdir(parents=True, exist_ok=True)
    profile.write_text(
        watched.key_averages().table(sort_by=order, row_limit=30, max_name_column_width=70), encoding="utf-8"
    )


def one_epoch(training: Training) -> float:
    start_time = time.perf_counter()
    training.one_epoch()  # which waits for the device at its end
    return time.perf_counter() - start_time


def generate_data(config: RunConfig, images: int) -> DataSet:
    """Random pixels, or tokens, and labels of the kind that `config` trains on."""
    random, kind, classes = np.random.default_rng(0), TASKS[config.task].labels, config.data.classes
    tokens = config.data.task == "grid"
    pixels = random.integers(tokens, classes if tokens else 256, (images, *config.data.shape), dtype=np.uint8)
    labels = random.integers(tokens, int(kind.bound(config.data) or 256), (images, *kind.sides(config.data)))
    rows, channels = np.arange(images), config.data.shape[0]
    ids = (
        random.integers(config.model.identifiers, size=images)
        if getattr(config.model, "identifiers", 0)
        else None
    )
    split = Split(pixels, labels.astype(kind.dtype), rows, "random/train", ids=ids)
    mean, std = config.data.moments or ((0.5,) * channels, (0.25,) * channels)
    return DataSet(split, split, split, mean, std, "random")


def of_peak(title: str, teraflops: list[float], peak: float) -> Iterator[Figure]:
    """TFLOP/s as a share of the data sheet's, where that is known, and of what a matrix product reached."""
    name = torch.cuda.get_device_name() if ON_GPU else ""
    if spec := peak_tflops(name, "bfloat16"):
        yield Figure(
            f"{title}: MFU of {spec} TFLOP/s (data sheet)",
            "%",
            [100 * value / spec for value in teraflops],
            minimum=A_THIRD,
        )
    yield Figure(
        f"{title}: MFU of the matrix product above", "%", [100 * value / peak for value in teraflops]
    )


def matrix_peak(products: int = 20) -> float:
    """TFLOP/s of a large bf16 matrix product: what this processor gives today."""
    size, device = (8192, "cuda") if ON_GPU else (512, "cpu")
    a, b = torch.randn(2, size, size, device=device, dtype=torch.bfloat16)
    times = []
    for _ in range(5):
        start_time = time.perf_counter()
        for _ in range(products):
            c = a @ b
        c[0, 0].item()
        times.append(time.perf_counter() - start_time)
    return 2 * size**3 * products / median(times[1:]) / 1e12


if __name__ == "__main__":
    sys.exit(main(tyro.cli(Options, description=__doc__.split("\n\n    python")[0])))
