"""`recstudy contract FILE`: every check of what a file registers, a line a check."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from recstudy.config import AUGMENTATIONS, FAMILIES, LOSSES, OPTIMIZERS, SCHEDULES, RunConfig, configure
from recstudy.contract import captioners, golden, judges, tasks
from recstudy.contract.checks import JUDGE, Broken, example, example_of_task, switches
from recstudy.errors import ConfigError, RecstudyError, raised_at
from recstudy.metrics import TASKS
from recstudy.models.captioners import CaptionModel
from recstudy.plugins import Registry, file_bundle, use

Check = Callable[[RunConfig], object]


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
            self._broken(f"{words}: {error}")
        except RecstudyError as error:
            self._broken(f"{words}: {type(error).__name__}: {error}")
        except Exception as error:  # of the family's own code
            self._broken(f"{words}: {raised_at(error)}")
        else:
            self.passed += 1
            self._line("ok", f"{words}: {said}" if isinstance(said, str) else words)

    def _broken(self, words: str) -> None:
        self.broken += 1
        self._line("FAILED", words, "bold red")

    def _line(self, mark: str, words: str, style: str = "") -> None:
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
    use(file_bundle(file))
    checked = Checked(out, data)
    for task in _outside(TASKS):
        _task(checked, task)
    for family in _outside(FAMILIES):
        _family(checked, family, file.with_suffix(".golden.json"), write)
    functions = (OPTIMIZERS, "optimizer"), (LOSSES, "loss"), (SCHEDULES, "schedule"), (AUGMENTATIONS, "augment.more")
    for registry, field in functions:
        for name in _outside(registry):
            _function(checked, registry.kind, name, field)
    if not checked.passed + checked.broken:
        raise ConfigError(f"{file} registers no task, model family, optimizer, loss, schedule or augmentation to be checked")
    failed = f"{checked.broken} failed" if checked.broken else "all hold"
    out.print(f"{checked.passed + checked.broken} checks: {failed}")
    return 1 if checked.broken else 0


def _outside(registry: Registry[Any]) -> list[str]:
    return [name for name in registry if registry.modules[name].partition(".")[0] != "recstudy"]


def _task(checked: Checked, task: str) -> None:
    try:
        config = example_of_task(task)
    except RecstudyError as error:
        checked.head(task)
        checked.check("it has an example", _raise, error)
        return
    checked.head(f"{task}: task, with {config.model.title} on {config.data.title}")
    for check in (*tasks.OF_TASKS, *judges.OF_RUNS):
        checked.check(_words(check), check, config, checked.data)


def _family(checked: Checked, family: str, kept: Path, write: bool) -> None:
    try:
        config = example(family)
    except RecstudyError as error:
        checked.head(family)
        checked.check("it has an example", _raise, error)
        return
    checked.head(f"{family}: {config.model.title}, on {config.data.title}")
    captions = isinstance(config.model, CaptionModel)
    for check in captioners.OF_NETWORKS if captions else judges.OF_NETWORKS:
        checked.check(_words(check), check, config)
    for run in () if captions else judges.OF_RUNS:
        checked.check(_words(run), run, config, checked.data)
    promises = captioners.OF_SWITCHES if captions else ()
    for check in promises:
        checked.check(_words(check), check, config)
    for name, value in switches(type(config.model), {"family", "backbone", "weights"} if captions else {"family"}):
        words = f"all of that holds with {name}={value}" if captions else f"{name}={value} trains"
        checked.check(words, _switched, checked, family, {name: value}, promises)
    if not captions:
        checked.check("the first twenty losses are as they were", _golden, checked, config, kept, write)


def _switched(checked: Checked, family: str, switch: dict[str, Any], promises: Sequence[Check]) -> str | None:
    try:
        config = example(family, **switch)
    except ConfigError as error:  # a family may refuse a value beside others
        return f"not with the example ({error})"
    for check in promises:
        check(config)
    if not promises:
        judges.trains_and_counts(config, checked.data)
    return None


def _golden(checked: Checked, config: RunConfig, kept: Path, write: bool) -> str | None:
    found = golden.first_losses(config, checked.data)
    if write:
        golden.keep(kept, config.model.family, found)
        return f"kept in {kept.name}"
    return None if golden.compare(kept, config.model.family, found) else f"none are kept yet; --write keeps them in {kept.name}"


def _function(checked: Checked, kind: str, name: str, field: str) -> None:
    """An optimiser, loss, schedule or augmentation trains a small CNN, and resumes."""
    checked.head(f"{name}: {kind}, with a small CNN on digits")
    cnn = configure(RunConfig, {**JUDGE, "model": {"family": "cnn", "width": 8}})
    change = {f"train.{field}": [name] if field == "augment.more" else name}
    for check in (judges.trains_and_counts, judges.resumes_to_the_bit):
        checked.check(_words(check), lambda check=check: check(cnn.with_changes(change), checked.data))


def _raise(error: Exception) -> None:
    raise error


def _words(check: Callable[..., object]) -> str:
    """What a check's docstring says, in its first sentence."""
    words = " ".join((check.__doc__ or check.__name__).split())
    return words[0].lower() + words[1:].rstrip(".")
