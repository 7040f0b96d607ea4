"""`recstudy contract FILE`: every check of what a file registers, a line a check."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from recstudy.config import AUGMENTATIONS, FAMILIES, LOSSES, OPTIMIZERS, SCHEDULES, RunConfig
from recstudy.contract import promises
from recstudy.contract.checks import JUDGE, Broken, compare, example, example_of_task, first_losses, keep, small_run, switches
from recstudy.errors import ConfigError, RecstudyError, raised_at
from recstudy.metrics import TASKS
from recstudy.models.captioners import CaptionModel
from recstudy.plugins import Registry, file_bundle, use


@dataclass
class Checked:
    """How many checks passed and failed; each is printed as it ends."""

    out: Console
    data: Path
    passed: int = 0
    broken: int = 0

    def check(self, words: str, work: Callable[..., object], *values: Any) -> None:
        """Make one check, and print its words with what `work` returns or raises."""
        failed = True
        try:
            said = work(*values)
            failed = False
        except Broken as error:
            said = str(error)
        except RecstudyError as error:
            said = f"{type(error).__name__}: {error}"
        except Exception as error:  # of the family's own code
            said = raised_at(error)
        self.broken, self.passed = self.broken + failed, self.passed + (not failed)
        mark, style = ("FAILED", "bold red") if failed else ("ok", "")
        words = f"{words}: {said}" if isinstance(said, str) else words
        self.out.print(Text(f"  {mark:<8}{words}", style=style), soft_wrap=True)

    def check_all(self, checks: tuple[Callable[..., object], ...], *values: Any) -> None:
        """Make checks, each by the first sentence of its docstring."""
        for check in checks:
            words = " ".join((check.__doc__ or check.__name__).split())
            self.check(words[0].lower() + words[1:].rstrip("."), check, *values)

    def example(self, name: str, make: Callable[[str], RunConfig], what: str = "") -> RunConfig | None:
        """Return the example that checks run on, after a headline; without one, that is what fails."""
        try:
            config = make(name)
        except RecstudyError:
            self.head(name)
            self.check("it has an example", make, name)
            return None
        self.head(f"{name}: {what}{config.model.title}{' on' if what else ', on'} {config.data.title}")
        return config

    def head(self, words: str) -> None:
        self.out.print(Text(words, style="bold"), soft_wrap=True)


def check_file(file: Path, data: Path, write: bool, out: Console) -> int:
    """Check what the file and the modules beside it register; return 0 if every check passes, else 1.

    Args:
        file: a study's file, or a module.
        data: the folder with the data sets of the examples.
        write: keep the first losses of each family as they are now.

    Raises:
        ConfigError: the file cannot be imported, or registers nothing that can be checked.
    """
    torch.set_num_threads(1)  # threads of small examples wait for each other: 457 s beside other work, for 17 s with one
    use(file_bundle(file))
    checked = Checked(out, data)
    for task in _outside(TASKS):
        if config := checked.example(task, example_of_task, "task, with "):
            checked.check_all((*promises.OF_TASKS, *promises.OF_RUNS), config, data)
    for family in _outside(FAMILIES):
        if config := checked.example(family, example):
            _check_family(checked, config, file.with_suffix(".golden.json"), write)
    cnn = small_run({**JUDGE, "model": {"family": "cnn", "width": 8}})
    functions = (OPTIMIZERS, "optimizer"), (LOSSES, "loss"), (SCHEDULES, "schedule"), (AUGMENTATIONS, "augment.more")
    for registry, field in functions:
        for name in _outside(registry):
            checked.head(f"{name}: {registry.kind}, with a small CNN on digits")
            changed = cnn.with_changes({f"train.{field}": [name] if field == "augment.more" else name})
            checked.check_all((promises.trains_and_counts, promises.resumes_to_the_bit), changed, data)
    if not checked.passed + checked.broken:
        raise ConfigError(f"{file} registers no task, model family, optimizer, loss, schedule or augmentation to be checked")
    failed = f"{checked.broken} failed" if checked.broken else "all hold"
    out.print(f"{checked.passed + checked.broken} checks: {failed}")
    return 1 if checked.broken else 0


def _outside(registry: Registry[Any]) -> list[str]:
    return [name for name in registry if registry.modules[name].partition(".")[0] != "recstudy"]


def _check_family(checked: Checked, config: RunConfig, golden: Path, write: bool) -> None:
    model = config.model
    captions = isinstance(model, CaptionModel)
    checked.check_all(promises.OF_NETWORKS, config)
    if captions:
        checked.check_all(promises.OF_CAPTIONERS, config)
    else:
        checked.check_all(promises.OF_RUNS, config, checked.data)

    def switched(**switch: Any) -> str | None:
        try:
            config = example(model.family, **switch)
        except ConfigError as error:  # a family may refuse a value beside others
            return f"not with the example ({error})"
        for check in promises.OF_CAPTIONERS if captions else ():
            check(config)
        if not captions:
            promises.trains_and_counts(config, checked.data)
        return None

    for name, value in switches(type(model), {"family", "backbone", "weights"} if captions else {"family"}):
        words = f"all of that holds with {name}={value}" if captions else f"{name}={value} trains"
        checked.check(words, lambda switch={name: value}: switched(**switch))

    def first_twenty() -> str | None:
        losses = first_losses(config, checked.data)
        if write:
            keep(golden, model.family, losses)
            return f"kept in {golden.name}"
        known = compare(golden, model.family, losses)
        return None if known else f"none are kept yet; --write keeps them in {golden.name}"

    if not captions:
        checked.check("the first twenty losses are as they were", first_twenty)
