"""What the nodes of a joined cluster are asked before a study starts: their versions and code, the
results folder, their GPUs' memory.

One task a node asks each question, all nodes at once.
"""

import hashlib
import os
import platform
import uuid
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from recstudy.errors import ClusterError, RecstudyError, StorageError
from recstudy.records import Results
from recstudy.records.files import write_whole
from recstudy.records.mirror import Mirror, scratch

PACKAGE = Path(__file__).parents[1]  # recstudy's own folder, here or where a node has unpacked it
PACKAGES = ("torch", "ray", "numpy", "optuna", "pydantic")  # which decide a run's numbers, or how it travels
ANSWER_S = 120  # a node unpacks the code and starts Python before it answers: 3 s here, long on a network file system
GPU_ANSWER_S = 20  # a GPU that others keep busy does not answer


def alive() -> list[dict[str, Any]]:
    """Ray's description of every node that is up."""
    return [node for node in ray.nodes() if node["Alive"]]


def check_versions() -> None:
    """Refuse a node whose Python or packages differ from ours in more than the patch level."""
    ours = _versions()
    for name, theirs in _answers(alive(), _versions):
        for package, own in ours.items():
            if _minor(theirs[package]) != _minor(own):
                raise ClusterError(
                    f"node {name} has {package} {theirs[package]}, but this process has {own}. "
                    f"Start Ray there from an environment with {package} {_minor(own)}, as everywhere."
                )


def _versions() -> dict[str, str]:
    """Python's version and those of `PACKAGES`."""
    return {"Python": platform.python_version(), **{package: _version(package) for package in PACKAGES}}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(none)"


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])


def check_code() -> None:
    """Refuse a node whose processes import another recstudy than the one that was sent: a copy under our folder's name."""
    _, own = _code()
    for name, (path, theirs) in _answers(alive(), _code):
        if theirs != own:
            raise ClusterError(
                f"node {name} runs other code of recstudy than this process: {path}. "
                "Update that copy, or start the study in another folder."
            )


def _code() -> tuple[str, str]:
    """Where recstudy lies, and a digest of its code."""
    files = sorted(PACKAGE.rglob("*.py"), key=str)
    texts = (path.relative_to(PACKAGE).as_posix().encode() + path.read_bytes() for path in files)
    return str(PACKAGE), hashlib.sha256(b"".join(texts)).hexdigest()


def check_storage(results: Results) -> None:
    """Refuse a results folder or store that some node of the cluster does not see or cannot write."""
    if results.store:
        for name, error in _answers(alive(), _reach, results.store):
            if error:
                raise StorageError(f"node {name} cannot use the results store. {error}")
        return
    folder = results.root
    token = uuid.uuid4().hex
    probe = folder / f".probe-{token}"
    write_whole(probe, token)
    try:
        for name, error in _answers(alive(), _touch, str(probe), token):
            if error:
                raise StorageError(
                    f"node {name} cannot use the results folder {folder} ({error}). "
                    "Give a folder that every node shares with --results."
                )
    finally:
        probe.unlink(missing_ok=True)


def _touch(probe: str, token: str) -> str:
    """Why this node cannot read and write beside `probe`; nothing if it can."""
    try:
        if Path(probe).read_text() != token:
            return "it sees another folder under this name"
        mine = Path(f"{probe}-{os.getpid()}")
        mine.write_text(token)
        mine.unlink()
    except OSError as error:
        return str(error.strerror)
    return ""


def _reach(store: str) -> str:
    """Why this node cannot write and read an object there; nothing if it can."""
    try:
        Mirror(store, scratch(store)).check()
    except RecstudyError as error:
        return str(error)
    return ""


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
    """What each node answers, with its address."""
    task = ray.remote(num_cpus=0, num_gpus=gpus, max_retries=0)(question)
    pinned = [NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes]
    asked = [task.options(scheduling_strategy=strategy).remote(*values) for strategy in pinned]
    for node, answer in zip(nodes, asked, strict=True):
        name = node["NodeManagerAddress"]
        try:
            yield name, ray.get(answer, timeout=seconds)
        except GetTimeoutError:
            ray.cancel(answer, force=True)
            raise ClusterError(
                f"node {name} did not answer in {seconds:g} s. Look at it with `ray status`, or remove it."
            ) from None
        except RayError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ClusterError(
                f"node {name} cannot run our code ({reason}). Start Ray there from an environment with recstudy's packages."
            ) from None
