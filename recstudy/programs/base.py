"""What the platform knows of a program: it makes metrics of settings and a seed. Everything else about it is
optional.

The recursive models are one program (`recstudy.programs.recursive`, the only module of the platform that
imports them). A user's function, command or table is another one (`recstudy.programs.own`), registered under
its name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recstudy.errors import ConfigError, raised_at
from recstudy.plugins.registry import Registry
from recstudy.programs.settings import RunSettings, set_at
from recstudy.records.files import Json
from recstudy.records.run_folder import RunFolder
from recstudy.records.study_schema import ImportedFile

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from recstudy.metrics.kept import Kept
    from recstudy.programs.trial import Report, Trial
    from recstudy.records.results import Results
    from recstudy.records.schema import Result
    from recstudy.train.initial import Weights

RECURSIVE = "recursive"


@dataclass(frozen=True)
class Cost:
    """Parameters and FLOPs of one run's settings."""

    params: int  # of everything that takes part
    trained_params: int  # without a frozen backbone
    gflops: float  # forward pass in evaluation, an image
    train_gflops: float  # forward and backward passes of all supervision steps on a batch, an image of it


class Group:
    """The workers that share one run: by default this process alone."""

    rank, world = 0, 1

    def first_says(self, value: bool) -> bool:
        """Return what the first worker says, on each of them."""
        return value

    def first_gives(self, value: Callable[[], Any]) -> Any:
        """Return what the first worker's `value` gives, on each of them; it is not called on the others."""
        return value()

    def any_says(self, value: bool) -> bool:
        """Return whether any worker says so, on each of them."""
        return value


@dataclass(frozen=True)
class Execution:
    """One attempt at a run.

    Args:
        trial: What the worker was given.
        settings: The settings of the run.
        records: The run's folder.
        report: Takes a line for each step, with `step` and `steps` or `epochs_done` and `epochs`.
        leave: Whether the run is to save its state and end early.
        group: The workers that share the run.
    """

    trial: "Trial"
    settings: Any
    records: RunFolder
    report: "Report"
    leave: Callable[[], bool]
    group: Group

    @property
    def writes(self) -> bool:
        """Whether this worker writes the records."""
        return self.group.rank == 0


class Program:
    """What a run executes. By itself it is a program that is not imported here: records are read, and nothing
    is run.

    Args:
        name: Part of the id of a run, except for the recursive models.
    """

    name: str = RECURSIVE
    # the files that its runs were imported from; none where they are run
    imported: tuple[ImportedFile, ...] = ()
    packages: tuple[str, ...] = ()  # whose versions the results of its runs have

    def read(self, values: Json) -> RunSettings:
        """Return settings of plain JSON values, as a record has them (ConfigError)."""
        raise ConfigError(f"the settings of {self.name} cannot be checked: the program is not imported here")

    def run(self, execution: Execution) -> Json:
        """Execute a run and return its outcome.

        Returns:
            `status`: `done`, `diverged` or `drained` (it left early, to resume later). Of the first two also
            what `result.json` has: `metrics`, `cost`, parts of `provenance` and `error`.

        Raises:
            ConfigError: The program is not imported here, or its runs were finished elsewhere.
        """
        raise ConfigError(
            f"{self.name} cannot run here: it is not imported, or its runs were finished elsewhere"
        )

    def explain(self, error: Exception) -> str:
        """Return an exception that ended a run, in one line."""
        return raised_at(error)

    def group(self) -> Group:
        """Return the workers that share a run, as seen by one of them."""
        return Group()

    def check(
        self,
        settings: Sequence[RunSettings],
        results: "Results",
        data: Path,
        download: bool,
        begin: "Weights | None",
    ) -> None:
        """Refuse (ConfigError, DataError) runs that could not start, before anything is written."""

    def check_device(self, device: str) -> None:
        """Refuse (ClusterError) a device that this machine does not have."""

    def sees_gpu(self) -> bool:
        """Whether this process sees a GPU."""
        return Path("/dev/nvidiactl").exists()

    def weights(self, place: str, results: "Results") -> "Weights":
        """Return the weights that `--init-from` names."""
        raise ConfigError(f"--init-from is for the recursive models. Let {self.name} load its own weights")

    def cost(self, settings: RunSettings) -> Cost | None:
        """Return parameters and FLOPs; None if they are unknown."""
        return None

    def pflop(self, settings: RunSettings, only_counted: bool = False) -> float | None:
        """Return the PFLOP of a run; None if unknown. `only_counted`: do not load torch to count them."""
        return None

    def memory(self, settings: RunSettings) -> int | None:
        """Return the bytes that one worker needs; None if unknown."""
        return None

    def free_gpu_bytes(self) -> int | None:
        """Return the free bytes of the GPU that this process sees; None if unknown."""
        return None

    def hints(self, settings: Iterable[RunSettings]) -> list[str]:
        """Return what a user should know before the runs start, a line each."""
        return []

    def reads_data(self, settings: Iterable[RunSettings], folder: Path) -> bool:
        """Return whether runs of these settings read a data set below `folder`, which `--data` names."""
        return False

    def user_files(self) -> dict[str, str]:
        """Return the SHA-256 of each file of the user's that runs execute, beside the modules of the study,
        by its path.
        """
        return {}

    def checksums(self, settings: Sequence[RunSettings], folder: Path, read: bool = False) -> list[str]:
        """Return for each of these settings the checksum of its data below `folder`; empty if it is not
        known.

        Args:
            settings: Of runs.
            folder: The folder with the data sets.
            read: Read the data sets that are there, so that their checksums are known.
        """
        return [""] * len(settings)

    def check_data(self, settings: Sequence[RunSettings], folder: Path) -> list[str]:
        """Check the data sets that the user defines: type, shape and labels of what their readers give.

        Returns:
            A line for each data set that is not below `folder`.

        Raises:
            DataError, ConfigError: The data cannot be used.
        """
        return []

    def unread_data(self, settings: Sequence[RunSettings], folder: Path) -> list[str]:
        """Return the titles of data sets below `folder` that have no checksum yet."""
        return []

    def deciding(self, values: Json, changes: Json) -> Json:
        """Return what run ids are made of, but for the seed: a record's settings with these changes.

        A user's program is not imported for this, because its records have every setting as it decided the
        id.

        Raises:
            ConfigError: the settings cannot be read here.
        """
        decided = {name: value for name, value in values.items() if name not in ("resources", "place")}
        for path, value in changes.items():
            set_at(decided, path, value)
        return decided

    def answers(self, file: Path) -> "Kept | None":
        """Return a run's answers on the test items, from its `answers.npz`; None if runs of this program keep
        none.

        Raises:
            StorageError: the file is damaged.
        """
        return None

    def recompute(self, file: Path, result: "Result") -> dict[str, tuple[float, float] | str]:
        """Compute a result's metrics again from the answers in the run's folder.

        Returns:
            Of each metric its value, and by how much it may differ because the answers were kept in half
            precision; or why it cannot be computed.

        Raises:
            StorageError: the file is damaged.
        """
        return dict.fromkeys(
            result.metrics, "its program keeps no answers, so that metrics are as it returned them"
        )

    def published_fields(self) -> "Mapping[str, Sequence[FieldInfo]]":
        """Return the settings that a published table may name, by path, with the field of each class that has
        it.
        """
        return {}


PROGRAMS: Registry[Program] = Registry("program")


def load_program(name: str = RECURSIVE) -> Program:
    """Return the program of this name (ConfigError: it is not here; the message names the file that defines
    it).
    """
    if name == RECURSIVE:
        program: Program = import_module("recstudy.programs.recursive").RECURSIVE_MODELS
        return program
    return PROGRAMS[name]


def reader_of(values: Json) -> Program:
    """Return the program of a record as readers need it: a user's own program is not imported, and has the
    defaults.
    """
    return Program() if values.get("program") else load_program()


def program_of(values: Json) -> Program:
    """Return the program whose settings a record has."""
    return load_program(str(values.get("program") or RECURSIVE))


def read_settings(values: Json) -> RunSettings:
    """Return the settings of plain JSON values, as a record has them (ConfigError)."""
    return program_of(values).read(values)
