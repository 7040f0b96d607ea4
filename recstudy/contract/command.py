"""`recstudy check FILE`: every check of what a file registers, a line a check."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from recstudy.config import AUGMENTATIONS, FAMILIES, LOSSES, OPTIMIZERS, SCHEDULES, RunConfig
from recstudy.contract import promises
from recstudy.contract.checks import (
    JUDGE,
    Broken,
    compare,
    example,
    example_of_task,
    first_losses,
    small_run,
    switches,
)
from recstudy.errors import ConfigError, RecstudyError, raised_at
from recstudy.metrics import TASKS
from recstudy.models.captioners import CaptionModel
from recstudy.plugins import Registry, loaded, module_files

# its words, and a function that returns a note or raises what is wrong
Check = tuple[str, Callable[[], object]]


def check_file(file: Path, data: Path, write: bool, out: Console) -> int:
    """Check what the file and the modules beside it register; return 0 if every check passes, else 1.

    Args:
        file: a study's file, or a module.
        data: the folder with the data sets of the examples.
        write: keep the first losses of each family as they are now.

    Raises:
        ConfigError: the file cannot be imported, or registers nothing that can be checked.
    """
    # threads of small examples wait for each other: 457 s beside other work, for 17 s with one
    torch.set_num_threads(1)
    passes = []
    with loaded(module_files(file)):
        for title, checks in _parts(file.with_suffix(".golden.json"), data, write):
            out.print(Text(title, style="bold"), soft_wrap=True)
            passes += [_passes(words, work, out) for words, work in checks]
    if not passes:
        raise ConfigError(
            f"{file} registers no task, model family, optimizer, loss, schedule or augmentation to be checked"
        )
    failures = passes.count(False)
    out.print(f"{len(passes)} checks: {f'{failures} failed' if failures else 'all hold'}")
    return min(failures, 1)


def _passes(words: str, work: Callable[[], object], out: Console) -> bool:
    """Make one check, and print its words with what `work` returns or raises."""
    try:
        note, passes = work(), True
    except Exception as error:  # of whatever kind: it may be a user's code
        note, passes = error if isinstance(error, Broken) else raised_at(error), False
    mark, style = ("ok", "") if passes else ("FAILED", "bold red")
    out.print(Text(f"  {mark:<8}{words}{f': {note}' if note else ''}", style=style), soft_wrap=True)
    return passes


def _parts(golden: Path, data: Path, write: bool) -> Iterator[tuple[str, Sequence[Check]]]:
    """Yield a title and the checks of each thing that is registered from outside of recstudy."""
    for make, names, what in (
        (example_of_task, _outside(TASKS), "task, with "),
        (example, _outside(FAMILIES), ""),
    ):
        for name in names:
            try:
                config = make(name)
            except RecstudyError:
                yield name, [("it has an example", partial(make, name))]
                continue
            title = f"{name}: {what}{config.model.title}{' on' if what else ', on'} {config.data.title}"
            checks = _described((*promises.OF_TASKS, *promises.OF_RUNS), config, data)
            yield title, checks if what else _of_family(config, data, golden, write)
    cnn = small_run({**JUDGE, "model": {"family": "cnn", "width": 8}})
    functions = (
        (OPTIMIZERS, "optimizer"),
        (LOSSES, "loss"),
        (SCHEDULES, "schedule"),
        (AUGMENTATIONS, "augment.more"),
    )
    for registry, field in functions:
        for name in _outside(registry):
            config = cnn.with_changes({f"train.{field}": [name] if field == "augment.more" else name})
            checks = _described((promises.trains_and_counts, promises.resumes_to_the_bit), config, data)
            yield f"{name}: {registry.kind}, with a small CNN on digits", checks


def _outside(registry: Registry[Any]) -> list[str]:
    return [name for name in registry if registry.modules[name].partition(".")[0] != "recstudy"]


def _described(checks: Sequence[Callable[..., None]], *values: Any) -> list[Check]:
    """Return checks with the first sentences of their docstrings."""
    sentences = [" ".join((check.__doc__ or check.__name__).split()).rstrip(".") for check in checks]
    return [
        (words[0].lower() + words[1:], partial(check, *values))
        for words, check in zip(sentences, checks, strict=True)
    ]


def _of_family(config: RunConfig, data: Path, golden: Path, write: bool) -> list[Check]:
    family = config.model.family
    switched: Sequence[Callable[..., None]]
    if isinstance(config.model, CaptionModel):
        own, switched = _described(promises.OF_CAPTIONERS, config), promises.OF_CAPTIONERS
        fixed, words = {"family", "backbone", "weights"}, "all of that holds with {}={}"
    else:
        own, switched = (
            _described(promises.OF_RUNS, config, data),
            [partial(promises.trains_and_counts, folder=data)],
        )
        fixed, words = {"family"}, "{}={} trains"

    def switch(name: str, value: Any) -> str:
        try:
            config = example(family, **{name: value})
        except ConfigError as error:  # a family may refuse a value beside others
            return f"not with the example ({error})"
        for check in switched:
            check(config)
        return ""

    def compare_losses() -> str:
        return compare(golden, family, first_losses(config, data), write)

    checks = [*_described(promises.OF_NETWORKS, config), *own]
    checks += [(words.format(*pair), partial(switch, *pair)) for pair in switches(type(config.model), fixed)]
    captions = isinstance(config.model, CaptionModel)
    return checks if captions else [*checks, ("the first twenty losses are as they were", compare_losses)]
