"""The commands of people who share results: `recstudy log`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from recstudy.analysis.status import studies_at
from recstudy.errors import ConfigError
from recstudy.records.stores import is_uri
from recstudy.terminal import say


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
