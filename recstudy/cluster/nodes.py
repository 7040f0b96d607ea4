"""The nodes of a cluster: what each must have before it gets runs, and how many runs they hold at once."""

import platform
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from recstudy.errors import ClusterError, RecstudyError, StorageError
from recstudy.programs.settings import Resources
from recstudy.programs.trial import versions_of
from recstudy.records import Results
from recstudy.records.files import write_whole
from recstudy.records.mirror import Mirror, scratch

PACKAGE = Path(__file__).parents[1]  # recstudy's own folder, here or where a node has unpacked it
PACKAGES = ("torch", "ray", "numpy", "optuna", "pydantic")  # which decide a run's numbers, or how it travels
# a node unpacks the code and starts Python before it answers: 3 s here, long on a network file system
ANSWER_S = 120
GPU_ANSWER_S = 20  # a GPU that others keep busy does not answer
LOOK_S = 5.0  # between two looks at the cluster's nodes

Node = dict[str, Any]  # Ray's description


def alive() -> list[Node]:
    """Return Ray's description of every node that is up."""
    return [node for node in ray.nodes() if node["Alive"]]


# -------------------------------------------------------------------------------------------------------------- the check


def check_nodes(results: Results) -> None:
    """Refuse a node with other versions than this process, or one that cannot write the results.

    Raises:
        ClusterError, StorageError: The node's name, and the reason.
    """
    probe = results.root / f".probe-{uuid.uuid4().hex}"
    write_whole(probe, "seen by every node")
    try:
        for node, answer in [
            (node, ask(node, check_this_node, versions(), results.store, str(probe))) for node in alive()
        ]:
            receive(node, answer, ANSWER_S)
    finally:
        probe.unlink(missing_ok=True)


def check_this_node(wanted: dict[str, str], store: str, probe: str) -> None:
    """Refuse this node; the caller puts its name before the reason.

    Args:
        wanted: The driver's `versions()`.
        store: The URI of the results; empty where they are a folder.
        probe: A path in the results folder, which every node must see.

    Raises:
        ClusterError: Other versions.
        StorageError: The results cannot be written here.
    """
    for package, installed in versions().items():
        if _minor(installed) != _minor(wanted[package]):
            raise ClusterError(
                f"has {package} {installed}, but this process has {wanted[package]}. Start Ray there from an"
                f" environment with {package} {_minor(wanted[package])}, as everywhere."
            )
    if store:
        try:
            Mirror(store, scratch(store)).check()
        except RecstudyError as error:
            raise StorageError(f"cannot use the results store. {error}") from None
        return
    try:
        Path(probe).stat()
        with NamedTemporaryFile(prefix=".probe-", dir=Path(probe).parent, buffering=0) as file:
            file.write(b"written by every node")
    except OSError as error:
        raise StorageError(
            f"cannot use the results folder {Path(probe).parent} ({error.strerror}). "
            "Give a folder that every node shares with --results."
        ) from None


def versions() -> dict[str, str]:
    """Return Python's version and those of `PACKAGES`."""
    installed = versions_of(*PACKAGES)
    return {"Python": platform.python_version()} | {
        package: installed.get(package, "(none)") for package in PACKAGES
    }


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])


def ask(node: Node, function: Callable[..., Any], *arguments: Any, gpus: float = 0) -> "ray.ObjectRef[Any]":
    """Call a function on a node, with a share of a GPU if needed."""
    on_node = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    task = ray.remote(num_cpus=0, num_gpus=gpus, max_retries=0)(function)
    return task.options(scheduling_strategy=on_node).remote(*arguments)


def receive(node: Node, answer: "ray.ObjectRef[Any]", seconds: float) -> Any:
    """Return a node's answer.

    Raises:
        RecstudyError: The function's error, with the node's name before it.
        ClusterError: The node does not answer, or cannot run our code.
    """
    name = node["NodeManagerAddress"]
    try:
        return ray.get(answer, timeout=seconds)
    except GetTimeoutError:
        ray.cancel(answer, force=True)
        raise ClusterError(
            f"node {name} did not answer in {seconds:g} s. Look at it with `ray status`, or remove it."
        ) from None
    except RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, RecstudyError):
            raise type(cause)(f"node {name} {cause}") from None
        raise ClusterError(
            f"node {name} cannot run our code ({str(error).strip().splitlines()[-1]}). "
            "Start Ray there from an environment with recstudy's packages."
        ) from None


# --------------------------------------------------------------------------------------------------------------- capacity


def smallest_gpu(share: float, free_bytes: Callable[[], int | None]) -> int | None:
    """Return the free bytes of the GPU with the fewest, one GPU a node; None if every GPU is busy.

    Args:
        share: The share of a GPU to ask for. Ray then shows the GPU to the task.
        free_bytes: Called on each node.
    """
    nodes = [node for node in alive() if node["Resources"].get("GPU", 0)]
    try:
        answers = [(node, ask(node, free_bytes, gpus=share)) for node in nodes]
        free = [receive(node, answer, GPU_ANSWER_S) for node, answer in answers]
        return min((bytes for bytes in free if bytes is not None), default=None)
    except ClusterError:
        return None


@dataclass
class ClusterCapacity:
    """Counts the runs that the cluster holds at once. A node that has joined counts once it has passed the
    check.

    Args:
        resources: The resources of every run.
        check: The arguments of `check_this_node`; empty if no node can join.
        say: Called with the reason why a node gets no runs.
        refused: Ids of nodes that get no runs, which a sweep keeps.
    """

    resources: Resources
    check: tuple[Any, ...]
    say: Callable[[str], None]
    refused: set[str]

    def __post_init__(self) -> None:
        self._nodes = {node["NodeID"] for node in alive()} - self.refused
        self._asked: dict[str, ray.ObjectRef[Any]] = {}
        self._looked = float("-inf")
        self._runs = 1

    def __call__(self) -> int:
        if time.monotonic() - self._looked >= LOOK_S:
            nodes = alive()
            if self.check:
                self._check_joined(
                    [node for node in nodes if node["NodeID"] not in self._nodes | self.refused]
                )
            usable = [node for node in nodes if node["NodeID"] in self._nodes]
            self._runs = max(1, concurrent_runs(usable, self.resources))
            self._looked = time.monotonic()
        return self._runs

    def _check_joined(self, nodes: list[Node]) -> None:
        for node in nodes:
            name = node["NodeID"]
            if name not in self._asked:
                self._asked[name] = ask(node, check_this_node, *self.check)
            elif ray.wait([self._asked[name]], timeout=0)[0]:
                try:
                    receive(node, self._asked.pop(name), ANSWER_S)
                    self._nodes.add(name)
                except RecstudyError as error:
                    self.refused.add(name)
                    self.say(f"A node that has come is not counted on: {error}")


def concurrent_runs(nodes: list[Node], resources: Resources) -> int:
    """Return how many runs these nodes hold at once. A worker's several GPUs are whole; a fraction shares
    one.
    """
    gpus = resources.gpus or 0.0
    workers = 0
    for node in nodes:
        fit = int(node["Resources"].get("CPU", 0) // resources.cpus)
        if gpus:
            available = int(node["Resources"].get("GPU", 0))
            fit = min(fit, available * int(1 / gpus) if gpus < 1 else int(available // gpus))
        workers += fit
    return workers // resources.workers
