"""The nodes of a cluster: checks before a node gets runs, and the number of concurrent runs."""

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

from recstudy.base.errors import ClusterError, RecstudyError, StorageError
from recstudy.programs.settings import Resources
from recstudy.programs.trial import versions_of
from recstudy.records import Results, write_whole
from recstudy.records.mirror import Mirror, scratch

PACKAGE = Path(__file__).parents[1]  # the folder of recstudy on this node
PACKAGES = ("torch", "ray", "numpy", "optuna", "pydantic")  # they affect results or serialization
# a node unpacks the code and starts Python before it answers: 3 s on a local disk, long on a network disk
ANSWER_S = 120
GPU_ANSWER_S = 20  # a GPU that other processes use does not answer
LOOK_S = 5.0  # time between two checks of the cluster's nodes

NODE_ID = "ray.io/node-id"  # Ray's label of each node

Node = dict[str, Any]  # Ray's description


def live_nodes() -> list[Node]:
    """Return Ray's description of each running node."""
    return [node for node in ray.nodes() if node["Alive"]]


# ------------------------------------------------------------------------------------------------------------
# checks


def check_nodes(results: Results) -> None:
    """Check that all nodes have the versions of this process and can write the results.

    Raises:
        ClusterError, StorageError: A node does not. The message names the node and the reason.
    """
    probe = results.root / f".probe-{uuid.uuid4().hex}"
    write_whole(probe, "seen by every node")
    try:
        nodes = live_nodes()
        arguments = versions(), results.store, str(probe)
        answers = [call_on_node(node, check_this_node, *arguments) for node in nodes]
        for node, answer in zip(nodes, answers, strict=True):
            get_answer(node, answer, ANSWER_S)
    finally:
        probe.unlink(missing_ok=True)


def check_this_node(expected: dict[str, str], store: str, probe: str) -> None:
    """Check this node. The caller adds its name to the error message.

    Args:
        expected: The driver's `versions()`.
        store: The URI of the results; empty if they are in a folder.
        probe: A file in the results folder, which each node must see.

    Raises:
        ClusterError: The versions differ.
        StorageError: This node cannot write the results.
    """
    for package, installed in versions().items():
        if _minor(installed) != _minor(expected[package]):
            raise ClusterError(
                f"has {package} {installed}, but the driver has {expected[package]}. Start Ray on the node"
                f" from an environment with {package} {_minor(expected[package])}."
            )
    if store:
        try:
            Mirror(store, scratch(store)).check()
        except RecstudyError as error:
            raise StorageError(f"cannot write to the results store. {error}") from None
        return
    try:
        Path(probe).stat()
        with NamedTemporaryFile(prefix=".probe-", dir=Path(probe).parent, buffering=0) as file:
            file.write(b"written by every node")
    except OSError as error:
        raise StorageError(
            f"cannot write to the results folder {Path(probe).parent} ({error.strerror}). "
            "Set --results to a folder that all nodes share."
        ) from None


def versions() -> dict[str, str]:
    """Return the versions of Python and of `PACKAGES`."""
    installed = versions_of(*PACKAGES)
    return {"Python": platform.python_version()} | {
        package: installed.get(package, "(none)") for package in PACKAGES
    }


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])


def call_on_node(
    node: Node, function: Callable[..., Any], *arguments: Any, gpus: float = 0
) -> "ray.ObjectRef[Any]":
    """Start a function on a node, with a share of a GPU if needed."""
    on_node = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
    task = ray.remote(num_cpus=0, num_gpus=gpus, max_retries=0)(function)
    return task.options(scheduling_strategy=on_node).remote(*arguments)


def get_answer(node: Node, answer: "ray.ObjectRef[Any]", seconds: float) -> Any:
    """Return a node's answer.

    Raises:
        RecstudyError: The error of the function, with the node's name.
        ClusterError: The node does not answer, or it cannot run our code.
    """
    name = node["NodeManagerAddress"]
    try:
        return ray.get(answer, timeout=seconds)
    except GetTimeoutError:
        ray.cancel(answer, force=True)
        raise ClusterError(
            f"node {name} did not answer within {seconds:g} s. Check it with `ray status`, or remove it."
        ) from None
    except RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, RecstudyError):
            raise type(cause)(f"node {name} {cause}") from None
        raise ClusterError(
            f"node {name} cannot run recstudy ({str(error).strip().splitlines()[-1]}). "
            "Start Ray on the node from an environment with recstudy's packages."
        ) from None


# ------------------------------------------------------------------------------------------------------------
# capacity


def smallest_gpu(share: float, free_bytes: Callable[[], int | None]) -> int | None:
    """Return the least free GPU memory in bytes, with one GPU checked per node; None if all GPUs are busy.

    Args:
        share: The share of a GPU to request, so that Ray makes the GPU visible to the task.
        free_bytes: Called on each node.
    """
    nodes = [node for node in live_nodes() if node["Resources"].get("GPU", 0)]
    try:
        answers = [(node, call_on_node(node, free_bytes, gpus=share)) for node in nodes]
        free_memory = [get_answer(node, answer, GPU_ANSWER_S) for node, answer in answers]
        return min((bytes for bytes in free_memory if bytes is not None), default=None)
    except ClusterError:
        return None


@dataclass
class ClusterCapacity:
    """Counts the runs that the cluster can execute concurrently. New nodes count after they are checked.

    Args:
        resources: The resources of each run.
        check: The arguments of `check_this_node`; empty if no node can join.
        say: Called with the reason why a node gets no runs.
        refused: Ids of nodes that get no runs. The sweep keeps this set.
    """

    resources: Resources
    check: tuple[Any, ...]
    say: Callable[[str], None]
    refused: set[str]

    def __post_init__(self) -> None:
        self._nodes = {node["NodeID"] for node in live_nodes()} - self.refused
        self._pending_checks: dict[str, ray.ObjectRef[Any]] = {}
        self._check_time = float("-inf")
        self._runs = 1

    def __call__(self) -> int:
        if time.monotonic() - self._check_time >= LOOK_S:
            nodes = live_nodes()
            if self.check:
                self._check_joined(
                    [node for node in nodes if node["NodeID"] not in self._nodes | self.refused]
                )
            usable = [node for node in nodes if node["NodeID"] in self._nodes]
            self._runs = max(1, concurrent_runs(usable, self.resources))
            self._check_time = time.monotonic()
        return self._runs

    def labels(self) -> dict[str, str]:
        """Return the labels of the nodes where Ray may place a run: not those that failed the checks."""
        return {NODE_ID: f"!in({','.join(sorted(self.refused))})"} if self.refused else {}

    def _check_joined(self, nodes: list[Node]) -> None:
        for node in nodes:
            name = node["NodeID"]
            if name not in self._pending_checks:
                self._pending_checks[name] = call_on_node(node, check_this_node, *self.check)
            elif ray.wait([self._pending_checks[name]], timeout=0)[0]:
                try:
                    get_answer(node, self._pending_checks.pop(name), ANSWER_S)
                    self._nodes.add(name)
                except RecstudyError as error:
                    self.refused.add(name)
                    self.say(f"A new node gets no runs: {error}")


def concurrent_runs(nodes: list[Node], resources: Resources) -> int:
    """Return how many runs these nodes can execute concurrently.

    A worker with several GPUs gets whole GPUs; workers with a fraction share a GPU.
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
