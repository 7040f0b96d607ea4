"""Where a run runs, which decides none of its numbers."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from recstudy.config.base import Config


class Place(Config):
    """Where and with how much a run runs. Never part of the run id."""

    cpus_per_run: int = Field(1, ge=1, description="CPU cores a worker may use")
    gpus_per_run: float | None = Field(
        None, ge=0, description="GPUs a worker gets; a fraction shares one; by default 1 where there are any"
    )
    workers_per_run: int = Field(
        1, ge=1, le=64, description="workers that share each batch of one run; 1-4: one at least, up to four where there is room"
    )
    max_workers_per_run: int | None = Field(None, ge=1, le=64, description="of an elastic run: the 4 of workers_per_run 1-4")
    trainer: Literal["auto", "inline", "train"] = Field(
        "auto", description="in Tune's process, or on Ray Train workers; auto: Train for several workers or a GPU"
    )
    compile: Literal["auto", "on", "off"] = Field("auto", description="torch.compile the network; auto: where a run has a GPU")
    checkpoint_seconds: float = Field(30.0, ge=0, description="least time between two checkpoints; 0: one each epoch")
    silent_minutes: float = Field(
        30.0, ge=0, description="a run that shows no sign for so long is stopped and marked hung; 0: never"
    )

    @property
    def most_workers(self) -> int:
        return self.max_workers_per_run or self.workers_per_run

    @property
    def uses_train(self) -> bool:
        if self.trainer == "auto":
            return self.most_workers > 1 or bool(self.gpus_per_run)
        return self.trainer == "train"

    @property
    def compiles(self) -> bool:
        return self.compile == "on" or (self.compile == "auto" and bool(self.gpus_per_run))

    @model_validator(mode="before")
    @classmethod
    def _range_of_workers(cls, values: Any) -> Any:
        """`{"workers_per_run": "1-4"}` as the two fields that it means; a plain number has no second."""
        if not isinstance(values, Mapping) or not isinstance(values.get("workers_per_run"), str):
            return values
        least, dash, most = values["workers_per_run"].partition("-")
        return {**values, "workers_per_run": least, "max_workers_per_run": most if dash else None}

    @model_validator(mode="after")
    def _inline_is_one_worker(self) -> Self:
        if self.most_workers < self.workers_per_run:
            raise ValueError(
                f"workers_per_run must be a number or LEAST-MOST, but got {self.workers_per_run}-{self.max_workers_per_run}"
            )
        if self.trainer == "inline" and self.most_workers > 1:
            raise ValueError("trainer 'inline' runs one worker; use 'train' or 'auto' for several")
        if self.gpus_per_run is not None and self.gpus_per_run > 1 and self.gpus_per_run != int(self.gpus_per_run):
            raise ValueError(f"gpus_per_run must be a whole number above 1, but got {self.gpus_per_run}")
        return self
