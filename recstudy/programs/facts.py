"""What a program states about its runs: titles, cost, price, requirements and initial weights."""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from recstudy.records import Results
from recstudy.records.schema import Initial


@dataclass(frozen=True)
class Cost:
    """Parameters and FLOPs of one run's settings."""

    params: int  # of all networks in the run
    trained_params: int  # without a frozen backbone
    gflops: float  # forward pass in evaluation, per image
    train_gflops: float  # forward and backward passes of all supervision steps, per image


class RunPrice(NamedTuple):
    """The computation of a run in PFLOP, and the seconds that it is assumed to take on one GPU."""

    training: float
    evaluation: float
    training_s: float
    evaluation_s: float

    @property
    def pflop(self) -> float:
        return self.training + self.evaluation

    @property
    def gpu_s(self) -> float:
        return self.training_s + self.evaluation_s


class InitialWeights(Protocol):
    """Weights from which runs start (`--init-from`)."""

    @property
    def about(self) -> Initial: ...

    @property
    def digest(self) -> str: ...

    def keep(self, results: Results) -> str:
        """Store the weights in the results folder and return their digest."""


class Requirement(NamedTuple):
    """A data set, a weight file or a tool that runs need."""

    name: str
    place: str
    """where it is; empty if it is missing"""
    problem: str = ""
    """why it cannot be used, with the fix"""


@dataclass(frozen=True)
class Description:
    """The titles and properties of a run's settings for tables and verdicts.

    Args:
        model: The title of the model or program.
        data: The title of the data set.
        is_synthetic: Whether the data are generated.
        leaks: Whether the model's input contains the answer, so that its metrics are not comparable.
        has_batch_norm: Whether the model is trained with batch norm.
        is_imported: Whether the weights or the metrics are imported, so that nothing is trained.
    """

    model: str = ""
    data: str = ""
    is_synthetic: bool = False
    leaks: bool = False
    has_batch_norm: bool = False
    is_imported: bool = False
