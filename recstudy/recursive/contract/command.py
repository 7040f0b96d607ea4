"""Run `recstudy check FILE`: check everything that a file registers and print one line for each check."""

from collections.abc import Callable, Iterator, Sequence
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
from recstudy.recursive.models.captioners import CaptionModel

# Description of a check, and a function that returns a note or raises an error
Check = tuple[str, Callable[[], object]]


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
    passes = []
    with loaded(module_files(file)):
        for title, checks in _parts(file.with_suffix(".golden.json"), data, write):
            console.print(Text(title, style="bold"), soft_wrap=True)
            passes += [_passes(words, work, console) for words, work in checks]
    if not passes:
        raise ConfigError(
            f"{file} registers nothing that can be checked. Register a task, model family, optimizer, loss,"
            " schedule or augmentation"
        )
    failures = passes.count(False)
    console.print(f"{len(passes)} checks: {f'{failures} failed' if failures else 'all passed'}")
    return min(failures, 1)


def _passes(words: str, work: Callable[[], object], console: Console) -> bool:
    """Run one check, print its description with the note or error, and return whether it passes."""
    try:
        note, passes = work(), True
    except Exception as error:  # a user's code may raise any error
        note, passes = error if isinstance(error, Broken) else raised_at(error), False
    mark, style = ("ok", "") if passes else ("FAILED", "bold red")
    console.print(Text(f"  {mark:<8}{words}{f': {note}' if note else ''}", style=style), soft_wrap=True)
    return passes


def _parts(golden: Path, data: Path, write: bool) -> Iterator[tuple[str, Sequence[Check]]]:
    """Yield a title and the checks of everything that is registered from outside of recstudy."""
    for make, names, context in (
        (example_of_task, _outside(TASKS), "task, with "),
        (example, _outside(FAMILIES), ""),
    ):
        for name in names:
            try:
                config = make(name)
            except RecstudyError:
                yield name, [("it has an example", partial(make, name))]
                continue
            title = f"{name}: {context}{config.model.title}{' on' if context else ', on'} {config.data.title}"
            checks = _described((*promises.OF_TASKS, *promises.OF_RUNS), config, data)
            yield title, checks if context else _of_family(config, data, golden, write)
    # A function is checked in the training of the fastest family.
    # A function is checked in the training of the fastest family.
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
    """Return checks with their docstrings as descriptions."""
    sentences = [" ".join((check.__doc__ or check.__name__).split()).rstrip(".") for check in checks]
    return [
        (words[0].lower() + words[1:], partial(check, *values))
        for words, check in zip(sentences, checks, strict=True)
    ]


def _of_family(config: RunConfig, data: Path, golden: Path, write: bool) -> list[Check]:
    family = config.model.family
    switched: Sequence[Callable[..., None]]
    if isinstance(config.model, CaptionModel):
        family_checks, switched = _described(promises.OF_CAPTIONERS, config), promises.OF_CAPTIONERS
        fixed, words = {"family", "backbone", "weights"}, "the same checks pass with {}={}"
    else:
        family_checks, switched = (
            _described(promises.OF_RUNS, config, data),
            [partial(promises.trains_and_counts, folder=data)],
        )
        fixed, words = {"family"}, "{}={} trains"

    def switch(name: str, value: Any) -> str:
        try:
            config = example(family, **{name: value})
        except ConfigError as error:  # a family may refuse a value in combination with others
            return f"skipped: the example cannot have it ({error})"
        for check in switched:
            check(config)
        return ""

    def compare_losses() -> str:
        return compare(golden, family, first_losses(config, data), write)

    checks = [*_described(promises.OF_NETWORKS, config), *family_checks]
    checks += [(words.format(*pair), partial(switch, *pair)) for pair in switches(type(config.model), fixed)]
    captions = isinstance(config.model, CaptionModel)
    return checks if captions else [*checks, ("the first twenty losses are unchanged", compare_losses)]
