"""`recstudy contract FILE`: every check of what a file registers, a line a check."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text

from recstudy.config import AUGMENTATIONS, FAMILIES, LOSSES, OPTIMIZERS, SCHEDULES, RunConfig, configure
from recstudy.contract import promises
from recstudy.contract.checks import JUDGE, TRAIN, Broken, compare, example, example_of_task, first_losses, keep, switches
from recstudy.errors import ConfigError, RecstudyError, raised_at
from recstudy.metrics import TASKS
from recstudy.models.captioners import CaptionModel
from recstudy.plugins import Registry, file_bundle, use


@dataclass
class Checked:
    """How it went, told line by line."""

    out: Console
    data: Path
    passed: int = 0
    broken: int = 0

    def check(self, words: str, work: Callable[..., object], *values: Any) -> None:
        """One check, by its words; where `work` gives words too, they are told."""
        try:
            said = work(*values)
        except Broken as error:
            self._told(f"{words}: {error}", failed=True)
        except RecstudyError as error:
            self._told(f"{words}: {type(error).__name__}: {error}", failed=True)
        except Exception as error:  # of the family's own code
            self._told(f"{words}: {raised_at(error)}", failed=True)
        else:
            self._told(f"{words}: {said}" if isinstance(said, str) else words)

    def keeps(self, checks: Iterable[Callable[..., object]], *values: Any) -> None:
        """Hold each promise, by the first sentence of its docstring."""
        for check in checks:
            self.check(_words(check), check, *values)

    def example(self, name: str, make: Callable[[str], RunConfig], what: str = "") -> RunConfig | None:
        """The example that checks run on, with its headline; without one, that is what fails."""
        try:
            config = make(name)
        except RecstudyError:
            self.head(name)
            self.check("it has an example", make, name)
            return None
        self.head(f"{name}: {what}{config.model.title}{' on' if what else ', on'} {config.data.title}")
        return config

    def _told(self, words: str, failed: bool = False) -> None:
        self.broken, self.passed = self.broken + failed, self.passed + (not failed)
        mark, style = ("FAILED", "bold red") if failed else ("ok", "")
        self.out.print(Text(f"  {mark:<8}{words}", style=style), soft_wrap=True)

    def head(self, words: str) -> None:
        self.out.print(Text(words, style="bold"), soft_wrap=True)


def check_file(file: Path, data: Path, write: bool, out: Console) -> int:
    """Check what the file and the modules beside it register: 0 where all of it holds, 1 where something does not.

    Args:
        file: a study's file, or a module.
        data: the folder with the data sets that examples are on.
        write: keep the first losses of each family as they are now.

    Raises:
        ConfigError: the file cannot be imported, or registers nothing that can be checked.
    """
    torch.set_num_threads(1)  # of small examples more share nothing, and wait for each other: 457 s beside other work, for 17
    use(file_bundle(file))
    checked = Checked(out, data)
    for task in _outside(TASKS):
        if config := checked.example(task, example_of_task, "task, with "):
            checked.keeps((*promises.OF_TASKS, *promises.OF_RUNS), config, data)
    for family in _outside(FAMILIES):
        if config := checked.example(family, example):
            check = _captioner if isinstance(config.model, CaptionModel) else _judge
            check(checked, config, file.with_suffix(".golden.json"), write)
    cnn = configure(RunConfig, {**JUDGE, "model": {"family": "cnn", "width": 8}, "train": TRAIN})
    functions = (OPTIMIZERS, "optimizer"), (LOSSES, "loss"), (SCHEDULES, "schedule"), (AUGMENTATIONS, "augment.more")
    for registry, field in functions:
        for name in _outside(registry):
            checked.head(f"{name}: {registry.kind}, with a small CNN on digits")
            change = {f"train.{field}": [name] if field == "augment.more" else name}
            for one in (promises.trains_and_counts, promises.resumes_to_the_bit):
                checked.check(_words(one), lambda one=one, change=change: one(cnn.with_changes(change), data))
    if not checked.passed + checked.broken:
        raise ConfigError(f"{file} registers no task, model family, optimizer, loss, schedule or augmentation to be checked")
    failed = f"{checked.broken} failed" if checked.broken else "all hold"
    out.print(f"{checked.passed + checked.broken} checks: {failed}")
    return 1 if checked.broken else 0


def _words(check: Callable[..., object]) -> str:
    words = " ".join((check.__doc__ or check.__name__).split())
    return words[0].lower() + words[1:].rstrip(".")


def _outside(registry: Registry[Any]) -> list[str]:
    return [name for name in registry if registry.modules[name].partition(".")[0] != "recstudy"]


def _captioner(checked: Checked, config: RunConfig, kept: Path, write: bool) -> None:
    checked.keeps((*promises.OF_CAPTIONERS, *promises.OF_CAPTION_SWITCHES), config)

    def all_hold(config: RunConfig) -> None:
        for check in promises.OF_CAPTION_SWITCHES:
            check(config)

    for name, value in switches(type(config.model), {"family", "backbone", "weights"}):
        checked.check(f"all of that holds with {name}={value}", _switched, all_hold, config.model.family, {name: value})


def _judge(checked: Checked, config: RunConfig, kept: Path, write: bool) -> None:
    checked.keeps(promises.OF_JUDGES, config)
    checked.keeps(promises.OF_RUNS, config, checked.data)

    def trains(config: RunConfig) -> None:
        promises.trains_and_counts(config, checked.data)

    for name, value in switches(type(config.model), {"family"}):
        checked.check(f"{name}={value} trains", _switched, trains, config.model.family, {name: value})

    def golden() -> str | None:
        found = first_losses(config, checked.data)
        if write:
            keep(kept, config.model.family, found)
            return f"kept in {kept.name}"
        return None if compare(kept, config.model.family, found) else f"none are kept yet; --write keeps them in {kept.name}"

    checked.check("the first twenty losses are as they were", golden)


def _switched(check: Callable[[RunConfig], None], family: str, switch: dict[str, Any]) -> str | None:
    try:
        config = example(family, **switch)
    except ConfigError as error:  # a family may refuse a value beside others
        return f"not with the example ({error})"
    check(config)
    return None
