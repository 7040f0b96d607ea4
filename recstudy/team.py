"""The commands of people who share results: `recstudy note`, `tag`, `log`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from recstudy.analysis.status import studies_at
from recstudy.errors import ConfigError
from recstudy.records import Results
from recstudy.records.stores import is_uri
from recstudy.terminal import say

Run = tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="RUN")]]
Where = Annotated[str, tyro.conf.arg(metavar="DIR|URI")]
By = Annotated[str, tyro.conf.arg(metavar="NAME")]


@dataclass(frozen=True)
class Note:
    """Write a note to a run. It stands beside the run's records, on the board and in reports, and no number changes.

    Such as: recstudy note 3f0c... "diverges where the warm-up is shorter"
    """

    run_id: Run
    """The run, by its id or the first six letters of it: its page and `recstudy explain` name it."""
    text: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="TEXT")]]
    """One line."""
    results: Where = "results"
    """Where its records are."""
    by: By = ""
    """Who says so. Default: nobody is recorded."""

    def run(self) -> int:
        from recstudy.records.notes import note

        say(f"run {note(Results(self.results).pull(), self.run_id, self.text, self.by)}: noted")
        return 0


@dataclass(frozen=True)
class Tag:
    """Give tags to a run, by which the board filters, or take them off."""

    run_id: Run
    """The run, by its id or the first six letters of it."""
    tags: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="TAG")]]
    """Letters, digits and . _ : + -."""
    remove: bool = False
    """Take them off."""
    results: Where = "results"
    """Where its records are."""
    by: By = ""
    """Who says so. Default: nobody is recorded."""

    def run(self) -> int:
        from recstudy.records.notes import notes_of, tag

        results = Results(self.results).pull()
        run = tag(results, self.run_id, self.tags, self.remove, self.by)
        say(f"run {run}: tags: {', '.join(notes_of(results.run(run)).tags) or 'none'}")
        return 0


@dataclass(frozen=True)
class Log:
    """Send finished runs to a tracker after the fact, under the names that `--log` gives them; no run is sent twice.

    Such as: recstudy log results --to mlflow --uri http://127.0.0.1:5000
    """

    path: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DIR")]]
    """A results folder, or a study's folder in it (results/studies/NAME/PRESET)."""
    to: Annotated[Literal["mlflow", "wandb", "tensorboard"], tyro.conf.arg(metavar="mlflow|wandb|tensorboard")]
    """The tracker, whose package must be installed."""
    uri: Annotated[str, tyro.conf.arg(metavar="URI|DIR")] = ""
    """Its address, or the folder that it writes to. Default: as its own variables say, else logs/ in the results."""
    losses: bool = False
    """Also the losses of updates."""

    def run(self) -> int:
        from recstudy.cluster.sent import send  # with Ray, whose loggers tell MLflow

        if is_uri(str(self.path)) or ":/" in str(self.path):
            raise ConfigError(f"recstudy log reads folders, and {self.path} is on an object store: copy it to a folder first")
        for results, name, preset in studies_at(self.path):
            sent, had = send(results, name, preset, self.to, self.uri, self.losses)
            say(f"{name} ({preset}): {sent:,} finished runs sent to {self.to}, {had:,} were there")
        return 0
