"""A stand-in for the package `wandb`, which the script of a command with the metrics `Wandb(...)` imports.

It appends what the script logs to the file RECSTUDY_WANDB, a JSON object in each line, and accepts everything
else without an effect. It needs only the standard library of Python 3.8 and has no types, because scripts
have environments of their own.
"""

import json
import os
import sys
from contextlib import suppress
from importlib.machinery import ModuleSpec

__version__ = "0.99.0"
__path__ = []  # a package, so that its submodules are looked for
run = None


def thing(name):
    """Return what wandb may have under a name: a class, an exception, or an object."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name not in globals():
        base = Exception if name.endswith("Error") else Anything
        globals()[name] = type(base)(name, (base,), {}) if name[0].isupper() else Anything()
    return globals()[name]


__getattr__ = thing


class OpenClass(type):
    """A class that has every attribute, such as `wandb.AlertLevel.INFO`."""

    def __getattr__(cls, name):
        return thing(name)


class Anything(metaclass=OpenClass):
    """Accept every argument, call, attribute and item."""

    def __init__(self, *_, **__):
        pass

    def __call__(self, *_, **__):
        return Anything()

    def __getattr__(self, name):
        return thing(name)

    def __getitem__(self, _):
        return Anything()

    def __setitem__(self, *_):
        pass

    def __iter__(self):
        return iter(())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Values(dict):
    """The config or the summary of a run: a dictionary whose keys are attributes, too."""

    __getattr__ = dict.__getitem__

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        record(**{"config" if self is config else "values": {name: value}})

    __setattr__ = __setitem__

    def update(self, values=None, **_):
        """Replace values, given as a dictionary or as the namespace of argparse."""
        for name, value in (getattr(values, "__dict__", None) or dict(values or {})).items():
            self[name] = value


config, summary = Values(), Values()


def init(config=None, **options):
    """Start a run."""
    global run
    run = OfflineRun()
    vars(run).update({name: value for name, value in options.items() if value is not None})
    run.config.update(config)
    return run


def log(values, step=None, commit=True, **_):
    """Record numbers, at the next step by default."""
    current_run = run or init()
    current_run.step = current_run.step if step is None else int(step)
    dict.update(summary, values)
    record(values=values)
    current_run.step += step is None and commit is not False


def finish(exit_code=0, **_):
    """End the run."""
    global run
    record(finish=exit_code)
    run = None


class OfflineRun(Anything):
    """A run, which counts its steps."""

    step, id, name, project, url = 0, "offline", "offline", "offline", ""
    dir = os.environ.get("RECSTUDY_FOLDER", "")
    config, summary, log, finish = config, summary, staticmethod(log), staticmethod(finish)


def record(values=None, **line):
    """Append a line to the file."""
    if values is not None:
        line = {"step": run.step if run else 0, "values": numbers_in(values)}
        line.update({"attempt": os.environ["RECSTUDY_ATTEMPT"]} if "RECSTUDY_ATTEMPT" in os.environ else {})
    with open(os.environ.get("RECSTUDY_WANDB", os.devnull), "a") as file:
        file.write(json.dumps(line, default=str) + "\n")


def numbers_in(values):
    """Return the numbers among values by name, such as `all.accuracy` for a nested one."""
    numbers = {}
    for name, value in values.items():
        if hasattr(value, "keys"):
            numbers.update({f"{name}.{key}": number for key, number in numbers_in(value).items()})
            continue
        with suppress(Exception):  # an image, a table, a text
            numbers[str(name)] = float(value)
    return numbers


class Submodules:
    """Find every submodule, such as `wandb.sdk.lib`. It has the names of `wandb`."""

    def find_spec(self, name, *_):
        return ModuleSpec(name, self, is_package=True) if name.startswith("wandb.") else None

    def create_module(self, _):
        return None

    def exec_module(self, module):
        module.__getattr__ = thing


sys.meta_path.append(Submodules())
