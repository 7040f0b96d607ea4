"""Whether the runs of a study are compiled (torch.compile): decided once for all of them, before the first begins.

A graph belongs to a network, the data, a batch size and a precision (`RunConfig.graph`), so that seeds, rates and many an axis
share one. The first time it takes a core about `FIRST_S`, and `KEPT_S` from then on (`recstudy.train.compiled`). On a GPU it
always pays. On a CPU it is worth a quarter of the training time, and changes the last digits of a number: so runs are compiled
there where those of a graph train for `PAYS_S` and more by the plan. Neither the cache nor what is finished has a say, so that a
command decides alike each time.
"""

import shutil
from collections.abc import Collection, Iterable
from math import ceil

from recstudy.config import Place, RunConfig
from recstudy.models.costs import total_pflop
from recstudy.report.names import plural
from recstudy.terminal import duration

CORE_FLOPS = 50e9  # dense float32 on a core of 2024, well below its peak
FIRST_S, KEPT_S = 33.0, 1.4  # of TRM-MLP on 6x6 Sudokus, one core, torch 2.15
PAYS_S = 1200.0  # where a first compilation in each of some processes is still little
FEW = 2000  # updates of a graph's runs that are far from it: FLOPs need not be counted, which takes torch


def with_compiling(place: Place, configs: Collection[RunConfig]) -> Place:
    """Return `place`, whose GPUs are decided, with `auto` decided for these runs where they have none."""
    if place.compile != "auto" or place.gpus_per_run or place.device == "mps":
        return place
    return place.model_copy(update={"compile": "on" if _worth(configs) and compiler() else "off"})


def _worth(configs: Collection[RunConfig]) -> bool:
    updates = sum(optimiser_steps(config) or 0 for config in configs)
    if updates < FEW * len({config.graph for config in configs}):
        return False
    seconds = _seconds_a_graph(configs)
    return seconds is not None and seconds >= PAYS_S


def _seconds_a_graph(configs: Collection[RunConfig]) -> float | None:
    """Return how long the runs of a graph train on a core, on average; None where only the files tell how many images."""
    spent, graphs = [total_pflop(config) for config in configs], {config.graph for config in configs}
    return None if None in spent else sum(1e15 * (pflop or 0.0) for pflop in spent) / CORE_FLOPS / len(graphs)


def optimiser_steps(config: RunConfig) -> int | None:
    """Count the optimiser steps of a whole run that never halts; None where only the files tell how many images there are."""
    images = config.training_images
    if images is None:
        return None
    whole = config.train.halting == "sample"  # which leaves out a short last batch
    batches = max(1, images // config.train.batch_size) if whole else ceil(images / config.train.batch_size)
    return batches * config.updates_a_batch * config.train.epochs


def compiler() -> str | None:
    """Return the C++ compiler that torch.compile needs on a CPU; None: there is none."""
    return next(filter(None, map(shutil.which, ("g++", "clang++", "c++"))), None)


def compiling(configs: Iterable[RunConfig]) -> str:
    """Say in a line what is decided of the runs of a plan, as far as it does not depend on the machine."""
    runs = list(configs)
    graphs, chosen = len({config.graph for config in runs}), {config.place.compile for config in runs}
    of = f"Compiling ({plural(graphs, 'graph')} for {plural(len(runs), 'run')}):"
    if chosen != {"auto"}:
        return f"{of} {' and '.join(sorted(chosen))}, as place.compile says."
    seconds = _seconds_a_graph(runs)
    if seconds is None:
        return f"{of} on a GPU; on a CPU not, as only the files tell how long a run takes."
    where = "and on a CPU" if seconds >= PAYS_S and compiler() else "on a CPU not"
    why = "" if compiler() or seconds < PAYS_S else ", where there is no C++ compiler"
    return (
        f"{of} on a GPU, {where}{why}: a graph's runs train for about {duration(seconds)} of a core, and it pays from "
        f"{duration(PAYS_S)} on. A graph takes {FIRST_S:.0f} s the first time, {KEPT_S:g} s with what is kept."
    )
