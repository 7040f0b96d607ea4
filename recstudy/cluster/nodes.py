"""What the nodes of a joined cluster are asked: their versions and code, the results folder, their GPUs' memory; and how many
runs they hold at once, while they come and go.

One task a node asks each question, all nodes at once.
"""

import hashlib
import platform
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from recstudy.config import Place
from recstudy.errors import ClusterError, RecstudyError, StorageError
from recstudy.records import Results
from recstudy.records.files import write_whole
from recstudy.records.mirror import Mirror, scratch

PACKAGE = Path(__file__).parents[1]  # recstudy's own folder, here or where a node has unpacked it
PACKAGES = ("torch", "ray", "numpy", "optuna", "pydantic")  # which decide a run's numbers, or how it travels
ANSWER_S = 120  # a node unpacks the code and starts Python before it answers: 3 s here, long on a network file system
GPU_ANSWER_S = 20  # a GPU that others keep busy does not answer
LOOK_S = 5.0  # between two looks at the cluster's nodes


def alive() -> list[dict[str, Any]]:
    """Return Ray's description of every node that is up."""
    return [node for node in ray.nodes() if node["Alive"]]


@dataclass(frozen=True)
class Ours:
    """What a node must have as this process has it.

    Args:
        versions: of Python and `PACKAGES`.
        code: a digest of recstudy's.
        store: the URI of the results; empty where they are a folder.
        probe: lies in the results folder, where a node must see it and be able to write.
    """

    versions: dict[str, str]
    code: str
    store: str
    probe: str


def ours(results: Results, probe: Path) -> Ours:
    """Return what this process has."""
    return Ours(_versions(), _code(), results.store, str(probe))


def check_nodes(results: Results) -> None:
    """Refuse a node with other versions or other code than this process, or one that cannot write the results.

    Raises:
        ClusterError, StorageError: which node, and why.
    """
    probe = results.root / f".probe-{uuid.uuid4().hex}"
    write_whole(probe, "seen by every node")
    try:
        for _ in _answers(alive(), may_work, ours(results, probe)):
            pass
    finally:
        probe.unlink(missing_ok=True)


def may_work(theirs: Ours) -> None:
    """Refuse this node, whose name comes before the reason.

    Args:
        theirs: what the driver has.

    Raises:
        ClusterError: other versions or other code.
        StorageError: its results cannot be written here.
    """
    for (package, wanted), here in zip(theirs.versions.items(), _versions().values(), strict=True):
        if _minor(here) != _minor(wanted):
            raise ClusterError(
                f"has {package} {here}, but this process has {wanted}. "
                f"Start Ray there from an environment with {package} {_minor(wanted)}, as everywhere."
            )
    if _code() != theirs.code:
        raise ClusterError(
            f"runs other code of recstudy than this process: {PACKAGE}. Update that copy, or start the study in another folder."
        )
    if theirs.store:
        try:
            Mirror(theirs.store, scratch(theirs.store)).check()
        except RecstudyError as error:
            raise StorageError(f"cannot use the results store. {error}") from None
        return
    try:
        Path(theirs.probe).stat()
        with NamedTemporaryFile(prefix=".probe-", dir=Path(theirs.probe).parent, buffering=0) as file:
            file.write(b"written by every node")
    except OSError as error:
        raise StorageError(
            f"cannot use the results folder {Path(theirs.probe).parent} ({error.strerror}). "
            "Give a folder that every node shares with --results."
        ) from None


def _versions() -> dict[str, str]:
    """Return Python's version and those of `PACKAGES`."""
    return {"Python": platform.python_version(), **{package: _version(package) for package in PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(none)"


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])


def _code() -> str:
    """Return a digest of recstudy's code."""
    files = sorted(PACKAGE.rglob("*.py"), key=str)
    texts = (path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes() for path in files)
    return hashlib.sha256(b"".join(texts)).hexdigest()


def smallest_gpu(share: float) -> int | None:
    """Bytes that are free on the GPU with the fewest, of one a node; None where every GPU is at work for others.

    Args:
        share: of a GPU that is asked for; Ray then shows it to the task.
    """
    nodes = [node for node in alive() if node["Resources"].get("GPU", 0)]
    try:
        return min((free for _, free in _answers(nodes, _free_memory, gpus=share, seconds=GPU_ANSWER_S)), default=None)
    except ClusterError:
        return None


def _free_memory() -> int:
    import torch  # slow to load, and only a GPU's node needs it

    return torch.cuda.mem_get_info()[0]


def _answers(
    nodes: list[dict[str, Any]], question: Callable[..., Any], *values: Any, gpus: float = 0, seconds: float = ANSWER_S
) -> Iterator[tuple[str, Any]]:
    """Yield what each node answers, with its address."""
    for asked in [Asked(node, question, *values, gpus=gpus, seconds=seconds) for node in nodes]:
        yield asked.name, asked.answer()


class Asked:
    """A node that was asked a question.

    Args:
        node: Ray's description of it.
        question: a function that is called there with `values`.
        gpus: the share of a GPU that it needs.
        seconds: after which the node counts as silent.
    """

    def __init__(
        self, node: dict[str, Any], question: Callable[..., Any], *values: Any, gpus: float = 0, seconds: float = ANSWER_S
    ) -> None:
        self.name, self.seconds = node["NodeManagerAddress"], seconds
        self._until = time.monotonic() + seconds
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task = ray.remote(num_cpus=0, num_gpus=gpus, max_retries=0)(question)
        self._answer = task.options(scheduling_strategy=there).remote(*values)

    @property
    def over(self) -> bool:
        """Whether `answer` does not wait."""
        return bool(ray.wait([self._answer], timeout=0)[0]) or time.monotonic() > self._until

    def answer(self) -> Any:
        """Return what the node says.

        Raises:
            RecstudyError: what the question has raised, with the node's name before it.
            ClusterError: it does not answer, or cannot run our code.
        """
        try:
            return ray.get(self._answer, timeout=max(0.0, self._until - time.monotonic()))
        except GetTimeoutError:
            ray.cancel(self._answer, force=True)
            raise ClusterError(
                f"node {self.name} did not answer in {self.seconds:g} s. Look at it with `ray status`, or remove it."
            ) from None
        except RayTaskError as error:
            if isinstance(error.cause, RecstudyError):
                raise type(error.cause)(f"node {self.name} {error.cause}") from None
            raise self._cannot(error) from None
        except RayError as error:
            raise self._cannot(error) from None

    def _cannot(self, error: RayError) -> ClusterError:
        reason = str(error).strip().splitlines()[-1]
        return ClusterError(
            f"node {self.name} cannot run our code ({reason}). Start Ray there from an environment with recstudy's packages."
        )


class ClusterCapacity:
    """Called, it says how many runs the cluster holds now. Nodes that have come are counted once they were asked, and may work.

    Args:
        place: of every run.
        ask: puts its question to a node that has come; None where none can come.
        refuse: is told why a node may not work.
        refused: the ids of nodes that may not, of a sweep's earlier runs too.
    """

    def __init__(
        self,
        place: Place,
        ask: Callable[[dict[str, Any]], Asked] | None,
        refuse: Callable[[str], None],
        refused: set[str],
    ) -> None:
        self.place, self.ask, self.refuse, self._refused = place, ask, refuse, refused
        nodes = [node for node in alive() if node["NodeID"] not in refused]
        self._may_work = {node["NodeID"] for node in nodes}
        self._asked: dict[str, Asked] = {}
        self._count, self._looked = concurrent_runs(nodes, place), time.monotonic()

    def __call__(self) -> int:
        if self.ask is not None and time.monotonic() - self._looked >= LOOK_S:
            nodes = alive()
            self._meet(nodes, self.ask)
            self._count = concurrent_runs([node for node in nodes if node["NodeID"] in self._may_work], self.place)
            self._looked = time.monotonic()
        return self._count

    def _meet(self, nodes: list[dict[str, Any]], ask: Callable[[dict[str, Any]], Asked]) -> None:
        for node in nodes:
            if node["NodeID"] not in self._may_work | self._refused | set(self._asked):
                self._asked[node["NodeID"]] = ask(node)
        for node_id in [node_id for node_id, asked in self._asked.items() if asked.over]:
            try:
                self._asked.pop(node_id).answer()
                self._may_work.add(node_id)
            except RecstudyError as error:
                self._refused.add(node_id)
                self.refuse(str(error))


def concurrent_runs(nodes: list[dict[str, Any]], place: Place) -> int:
    """Return how many runs these nodes hold at once; an elastic one takes all workers that it may have, the last what is left."""
    workers = sum(workers_on(node["Resources"], place.cpus_per_run, place.gpus_per_run or 0.0) for node in nodes)
    return max(1, min(workers // place.workers_per_run, -(-workers // place.most_workers)))


def workers_on(node: dict[str, float], cpus: int, gpus: float) -> int:
    """Workers that fit on a node, by its resources. Several GPUs a worker must be whole; a fraction shares one."""
    by_cpu = int(node.get("CPU", 0) // cpus)
    if not gpus:
        return by_cpu
    return min(by_cpu, int(node.get("GPU", 0)) * int(1 / gpus) if gpus < 1 else int(node.get("GPU", 0) // gpus))
