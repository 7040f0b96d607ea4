"""Run `recstudy check FILE`: check everything that a file registers and print one line for each check."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from recstudy.base.errors import ConfigError, RecstudyError, raised_at
from recstudy.plugins import Registry, loaded, module_files
from recstudy.recursive.config.functions import LOSSES, OPTIMIZERS, SCHEDULES
from recstudy.recursive.config.parts import FAMILIES
from recstudy.recursive.config.run import RunConfig
from recstudy.recursive.config.tasks import TASKS
from recstudy.recursive.config.train import AUGMENTATIONS
from recstudy.recursive.contract import promises
from recstudy.recursive.contract.checks import (
    JUDGE,
    Broken,
    compare,
    example,
    example_of_task,
    first_losses,
    small_run,
    switches,
)
from recstudy.recursive.models.caption import CaptionModel

Work = Callable[[], object]  # a check: it returns a note or raises an error
# Registry of functions -> the field of the training that names one.
FUNCTIONS = (
    (OPTIMIZERS, "optimizer"),
    (LOSSES, "loss"),
    (SCHEDULES, "schedule"),
    (AUGMENTATIONS, "augment.more"),
)


def check_file(file: Path, data: Path, write: bool, console: Console) -> int:
    """Check everything that a file and its imports from the same folder register.

    Args:
        file: A study's file, or a module.
        data: Folder with the data sets of the examples.
        write: Save the first losses of each family instead of comparing them.
        console: Console for the results.

    Returns:
        The exit status: 0 if every check passes, else 1.

    Raises:
        ConfigError: The file cannot be imported, or registers nothing that can be checked.
    """
    # Threads of small examples wait for each other: on a busy machine 457 s, but 17 s with one thread.
    torch.set_num_threads(1)
    golden = file.with_suffix(".golden.json")
    passes: list[bool] = []

    def check(title: str, checks: dict[str, Work]) -> None:
        console.print(Text(title, style="bold"), soft_wrap=True)
        passes.extend(_passes(words, work, console) for words, work in checks.items())

    with loaded(module_files(file)):
        for task in _outside(TASKS):
            if config := _example(example_of_task, task, check):
                title = f"{task}: task, with {config.model.title} on {config.data.title}"
                check(title, _described((*promises.OF_TASKS, *promises.OF_RUNS), config, data))
        for family in _outside(FAMILIES):
            if config := _example(example, family, check):
                title = f"{family}: {config.model.title}, on {config.data.title}"
                check(title, _of_family(config, data, golden, write))
        # A function is checked in the training of the fastest family.
        cnn = small_run({**JUDGE, "model": {"family": "cnn", "width": 8}})
        for registry, field in FUNCTIONS:
            for name in _outside(registry):
                config = cnn.with_changes({f"train.{field}": [name] if field == "augment.more" else name})
                title = f"{name}: {registry.kind}, with a small CNN on digits"
                check(title, _described(promises.OF_RUNS, config, data))
    if not passes:
        raise ConfigError(
            f"{file} registers nothing that can be checked. Register a task, model family, optimizer, loss,"
            " schedule or augmentation"
        )
    failures = passes.count(False)
    console.print(f"{len(passes)} checks: {f'{failures} failed' if failures else 'all passed'}")
    return min(failures, 1)


def _outside(registry: Registry[Any]) -> list[str]:
    return [name for name in registry if registry.modules[name].partition(".")[0] != "recstudy"]


def _example(
    make: Callable[[str], RunConfig], name: str, check: Callable[[str, dict[str, Work]], None]
) -> RunConfig | None:
    """Return the example of a task or family; if it has none, report that as a failed check."""
    try:
        return make(name)
    except RecstudyError:
        check(name, {"it has an example": partial(make, name)})
        return None


def _passes(words: str, work: Work, console: Console) -> bool:
    """Run one check, print its description with the note or error, and return whether it passes."""
    try:
        note, passes = work(), True
    except Exception as error:  # a user's code may raise any error
        note, passes = error if isinstance(error, Broken) else raised_at(error), False
    mark, style = ("ok", "") if passes else ("FAILED", "bold red")
    console.print(Text(f"  {mark:<8}{words}{f': {note}' if note else ''}", style=style), soft_wrap=True)
    return passes


def _described(checks: Iterable[Callable[..., None]], *values: Any) -> dict[str, Work]:
    """Return checks by their docstrings."""
    described: dict[str, Work] = {}
    for check in checks:
        sentence = " ".join((check.__doc__ or check.__name__).split()).rstrip(".")
        described[sentence[0].lower() + sentence[1:]] = partial(check, *values)
    return described


def _of_family(config: RunConfig, data: Path, golden: Path, write: bool) -> dict[str, Work]:
    family = config.model.family
    checks = _described(promises.OF_NETWORKS, config)
    if isinstance(config.model, CaptionModel):
        checks |= _described(promises.OF_CAPTIONERS, config)
        fixed, words = {"family", "backbone", "weights"}, "the same checks pass with {}={}"
    else:
        checks |= _described(promises.OF_RUNS, config, data)
        fixed, words = {"family"}, "{}={} trains"

    def switch(name: str, value: Any) -> str:
        try:
            switched = example(family, **{name: value})
        except ConfigError as error:  # a family may refuse a value in combination with others
            return f"skipped: the example cannot have it ({error})"
        if not isinstance(switched.model, CaptionModel):
            promises.trains_and_counts(switched, data)
            return ""
        for check in promises.OF_CAPTIONERS:
            check(switched)
        return ""

    for name, value in switches(type(config.model), fixed):
        checks[words.format(name, value)] = partial(switch, name, value)
    if not isinstance(config.model, CaptionModel):
        checks["the first twenty losses are unchanged"] = lambda: compare(
            golden, family, first_losses(config, data), write
        )
    return checks
