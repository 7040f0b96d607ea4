"""The settings of a run, and the interface of a program, which computes metrics from them and a seed.

A user's function, command or table is a program with `OwnSettings` (`recstudy.programs.own`), which is
registered under its name. The recursive models are another one (`recstudy.recursive.program`), which the
registry finds as an entry point of the package.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from recstudy.base.errors import ConfigError, raised_at
from recstudy.base.values import set_at
from recstudy.plugins import Registry
from recstudy.programs.attempt import Group, Trial
from recstudy.programs.facts import Cost, Description, InitialWeights, Requirement, RunPrice
from recstudy.programs.metric import Metric
from recstudy.programs.settings import Config, Range, Resources, run_ids
from recstudy.records import Json, Result, Results
from recstudy.records.study_schema import ImportedFile

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from pydantic.fields import FieldInfo


RECURSIVE = "recursive"


class ItemScores(NamedTuple):
    """Scores of the items of one test set.

    Args:
        rows: (M,) Positions in the test set.
        scores: (n, M) Scores of n runs, or (M,) of one run.
        clusters: (M,) The patient of each item, whose items count as one draw; None without patients.
    """

    rows: "npt.NDArray[np.int64]"
    scores: "npt.NDArray[np.float64]"
    clusters: "npt.NDArray[np.int64] | None"


class RunSettings(Config):
    """All settings of a run of a program, and its resources (`resources`)."""

    if TYPE_CHECKING:  # subclasses define these fields, because their order is the order in records
        seed: int
        resources: Resources

    @property
    @abstractmethod
    def program(self) -> "Program":
        """The program of these settings."""

    @property
    @abstractmethod
    def description(self) -> Description:
        """The titles and properties for tables."""

    @property
    @abstractmethod
    def score(self) -> str:
        """The name of the metric that selects checkpoints, ranks runs and is shown during a run."""

    @property
    def objective(self) -> str:
        """The name of the metric that a search optimizes."""
        return self.score

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics that the program declares; empty if all of them are in the registry."""
        return {}

    @property
    def ranges(self) -> Mapping[str, Range]:
        """The search range of each field that has one, by path."""
        return {}

    @property
    def kind(self) -> Hashable:
        """A value that is equal for settings with the same fields."""
        return type(self)

    @property
    def family(self) -> str:
        """The name of the program or model family among the choices of a search."""
        return self.program.name

    @property
    def parts(self) -> Mapping[str, Config]:
        """The nested configs that differ between families, by name."""
        return {}

    @property
    def steps(self) -> int | None:
        """The number of steps that a run reports; None if unknown."""
        return None

    @property
    def values(self) -> dict[str, Any]:
        """All settings but the resources, as JSON values."""
        return self.model_dump(mode="json", exclude={"resources"})

    @property
    def deciding(self) -> dict[str, Any]:
        """The subset of `values` that the run id is the digest of."""
        return self.values

    @property
    def run_id(self) -> str:
        """20 hex digits of the SHA-256 of canonical JSON.

        80 bits: the probability of a collision among a billion runs is one in a million.
        """
        return run_ids(self.deciding, [self.seed])[0]

    def path(self, name: str) -> str:
        """Return the path of a field in records for a name that a user types."""
        return name

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """Return a copy of these settings with other values at some paths."""
        return self.with_each([changes])[0]

    @abstractmethod
    def with_each(self, several: Iterable[Mapping[str, Any]]) -> list[Self]:
        """Return `with_changes(changes)` for each of several changes."""

    def smaller(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changes for a smoke run, without the fields in `changes`."""
        return {}

    def refuse_search(self, objectives: Collection[str]) -> None:
        """Raise a ConfigError if a search cannot compare runs with these settings by its objectives."""


class Program:
    """A program that runs execute.

    The base class represents a program that is not imported in this process: its records can be read, but it
    cannot run.

    Attributes:
        name: Part of the id of a run, except for the recursive models.
        imported: The files from which its runs were imported; empty if the program itself runs.
        committed: The date of the git commit of claims on imported runs; empty without one.
        packages: Packages whose versions are recorded in the results.
        step_name: The unit of its progress, as tables and figures name it.
    """

    name: str = RECURSIVE
    imported: tuple[ImportedFile, ...] = ()
    committed: str = ""
    packages: tuple[str, ...] = ()
    step_name = "step"

    def bind(self, settings: Any, metrics: Mapping[str, Metric]) -> "Program":
        """Return the program of a study with its settings and metrics, for a program that lacks them.

        Raises:
            ConfigError: The settings or metrics are invalid, or this cannot be the program of a study.
        """
        raise ConfigError(f"program must be a function, a Function or a Command, but got {self!r}")

    def read(self, values: Json) -> RunSettings:
        """Parse the settings of a record.

        Raises:
            ConfigError: The settings are invalid, or the program is not imported in this process.
        """
        raise ConfigError(f"The settings of {self.name} cannot be checked: the program is not imported")

    def run(self, trial: Trial) -> Json:
        """Execute a run and return its outcome.

        Returns:
            `status`: `done`, `diverged` or `drained` (the run left early and can resume). If the run is done
            or diverged, also fields of `result.json`: `metrics`, `cost`, parts of `provenance` and `error`.

        Raises:
            ConfigError: The program is not imported in this process, or its runs were imported from a table.
        """
        raise ConfigError(
            f"{self.name} cannot run: it is not imported, or its runs were imported from a table"
        )

    def explain(self, error: Exception) -> str:
        """Describe an exception that ended a run in one line."""
        return raised_at(error)

    def group(self) -> Group:
        """Return the group of workers to which this process belongs."""
        return Group()

    def check(
        self,
        settings: Sequence[RunSettings],
        results: Results,
        data: Path,
        download: bool,
        begin: "InitialWeights | None",
    ) -> None:
        """Check that runs can start, before any record is written.

        Raises:
            ConfigError, DataError: A run cannot start.
        """

    def check_device(self, device: str) -> None:
        """Raise a ClusterError if this machine lacks the device."""

    def sees_gpu(self) -> bool:
        """Whether this process sees a GPU."""
        return Path("/dev/nvidiactl").exists()

    def weights(self, place: str, results: Results) -> "InitialWeights":
        """Return the weights at the path of `--init-from`."""
        raise ConfigError(f"--init-from is for the recursive models. Let {self.name} load its own weights")

    def cost(self, settings: RunSettings) -> Cost | None:
        """Return the number of parameters and FLOPs; None if they are unknown."""
        return None

    def train_pflop(self, settings: RunSettings, image_steps: float) -> float | None:
        """Return the PFLOP of a training, by its supervision steps summed over images; None if unknown."""
        return None

    def price(self, settings: RunSettings) -> RunPrice | None:
        """Return the computation of a run and its time on a GPU; None if unknown."""
        return None

    def known_pflop(self, settings: RunSettings) -> float | None:
        """Return the PFLOP of a run's training by FLOPs counted earlier; None if unknown."""
        return None

    def memory(self, settings: RunSettings) -> int | None:
        """Return the bytes that one worker needs; None if unknown."""
        return None

    def memory_fix(self, settings: RunSettings, gpu_bytes: float) -> str:
        """Return in words how a run that needs more can fit into so many bytes of a GPU."""
        return ""

    def free_gpu_bytes(self) -> int | None:
        """Return the free bytes of the GPU that this process sees; None if unknown."""
        return None

    def hints(self, settings: Iterable[RunSettings]) -> list[str]:
        """Return notes to print before the runs start, one line each."""
        return []

    def reads_data(self, settings: Iterable[RunSettings], folder: Path) -> bool:
        """Return whether runs with these settings read a data set below `folder` (`--data`)."""
        return False

    def user_files(self) -> dict[str, str]:
        """Return the SHA-256 of each user file that runs execute, by path, without the study's modules."""
        return {}

    def checksums(self, settings: Sequence[RunSettings], folder: Path, read: bool = False) -> list[str]:
        """Return the checksum of the data of each run; an empty string if it is unknown.

        Args:
            settings: The settings of the runs.
            folder: The folder with the data sets.
            read: Read data sets without a known checksum to compute it.
        """
        return [""] * len(settings)

    def requirements(
        self, settings: Sequence[RunSettings], metrics: Sequence[str], folder: Path
    ) -> list[Requirement]:
        """Return the data sets, weight files and tools that the runs need.

        Args:
            settings: The settings of the runs.
            metrics: The metrics that the study shows or claims.
            folder: The folder with the data sets.
        """
        return []

    def check_data(
        self, settings: Sequence[RunSettings], folder: Path, begin: "InitialWeights | None" = None
    ) -> list[str]:
        """Check the items that user-defined readers return, and the shapes of weights in files.

        Args:
            settings: The settings of the runs.
            folder: The folder with the data sets.
            begin: The weights of `--init-from`.

        Returns:
            A line for each data set or weight file that is missing in `folder`.

        Raises:
            DataError, ConfigError: The data or weights cannot be used.
        """
        return []

    def unread_data(self, settings: Sequence[RunSettings], folder: Path) -> list[str]:
        """Return the titles of data sets below `folder` that have no checksum yet."""
        return []

    def deciding(self, values: Json, changes: Json) -> Json:
        """Return the values that a run id is the digest of, without the seed.

        A user's program need not be imported, because its records contain every setting that decides the id.

        Args:
            values: The settings of a record.
            changes: Changes of these settings by path.

        Raises:
            ConfigError: The settings cannot be read.
        """
        id_values = {name: value for name, value in values.items() if name != "resources"}
        for path, value in changes.items():
            set_at(id_values, path, value)
        return id_values

    def item_scores(self, file: Path, metric: str) -> ItemScores | None:
        """Return the score of each test item from a run's `answers.npz`; None if it lacks some of them.

        Raises:
            StorageError: The file is damaged.
        """
        return None

    def quotes_data(self, file: Path) -> bool:
        """Return whether a run's `answers.npz` contains texts of its data set."""
        return False

    def recompute(self, file: Path, result: Result) -> dict[str, tuple[float, float] | str]:
        """Recompute a result's metrics from the answers in the run's folder.

        Returns:
            For each metric its value and the possible rounding error, since answers are saved in half
            precision; or the reason why it cannot be computed.

        Raises:
            StorageError: The file is damaged.
        """
        return dict.fromkeys(
            result.metrics, "its program saves no answers, so its metrics cannot be recomputed"
        )

    def tool(self, name: str) -> Callable[..., Any]:
        """Return what `recstudy check`, `evaluate`, `fields` or `weights` calls."""
        raise ConfigError(f"recstudy {name} is for the recursive models, and not for {self.name}")

    def example(self) -> RunSettings:
        """Return settings that run in a second, for tests."""
        raise ConfigError(f"{self.name} has no example")

    def published_fields(self) -> "Mapping[str, Sequence[FieldInfo]]":
        """Return the settings that a published table may name, by path, with the field of each class."""
        return {}


PROGRAMS: Registry[Program] = Registry("program")


def load_program(name: str = RECURSIVE) -> Program:
    """Return the program with this name.

    Raises:
        ConfigError: It is not imported. The message names the file that defines it.
    """
    return PROGRAMS[name]


def reader_of(values: Json) -> Program:
    """Return the program of a record for reading. A user's program is not imported; `Program` replaces it."""
    return Program() if values.get("program") else load_program()


def program_of(values: Json) -> Program:
    """Return the program of a record."""
    return load_program(str(values.get("program") or RECURSIVE))


def read_settings(values: Json) -> RunSettings:
    """Parse the settings of a record with its program (ConfigError if they are invalid)."""
    return program_of(values).read(values)
