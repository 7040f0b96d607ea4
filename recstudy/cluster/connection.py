"""The Ray cluster of a study: started here or joined, checked beforehand, and watched.

An address where nobody answers, other versions on a node, or more GPUs than there are would end in an endless
wait. Each is refused with one line instead.
"""

import logging
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partialmethod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ray
from ray.job_config import JobConfig

from recstudy.cluster.address import MODE, no_cluster
from recstudy.cluster.nodes import PACKAGE, alive, concurrent_runs, smallest_gpu
from recstudy.errors import ClusterError
from recstudy.plugins import sent_files
from recstudy.programs.settings import Resources, RunSettings
from recstudy.records.clean import SESSION
from recstudy.records.locks import locked
from recstudy.terminal import stop_on_sigterm

CONTEXT_BYTES = 600 * 10**6  # of GPU memory that each process takes for CUDA itself, before any tensor
PAUSE_S = 1.0  # between two questions to the head node
# after which Ray ends this process, and its default
RAYS_OWN, MINUTE = "RAY_gcs_rpc_server_reconnect_timeout_s", "60"
SHARE = 0.75  # of that time
FILES = 256  # that a process of Ray's has open: 70 with two runs under way on two cores, more with each run
SOCKET_PATH = 107 if sys.platform == "linux" else 103  # bytes that the path of a Unix socket may have
# Ray's longest, below its folder (2.60)
SOCKET = "/ray/session_2026-01-01_00-00-00_000000_{pid}/sockets/dash_TaskEventsHead"
VITAL = ("gcs_server", "raylet")  # processes of a cluster of our own without which nothing runs

# Tune's own tables, loggers and signal handler are ours to do; Train notices a lost worker in a fifth of a
# second.
SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a run's last report is its outcome, not an epoch
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # the driver asks which nodes are wanted back
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A run computes in a thread, whose own arena of glibc's gives nothing back: 10 GB after 3 epochs of 004's
    # CNN on MNIST.
    "MALLOC_ARENA_MAX": "1",
    # What a step frees is kept for the next one, up to 2 GiB: glibc gives it back, and each page is asked for
    # and zeroed anew, a quarter of a convolution's processor time (measured on 2 cores).
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**31),
    "PYTHONWARNINGS": "ignore",  # in a worker's log nobody reads them
    # The Metrics tab shows two Grafana dashboards by their uid: Ray's own, and this one in place of Ray
    # Data's.
    "RAY_GRAFANA_DATA_DASHBOARD_UID": "recstudy",
}


@contextmanager
def cluster(address: str | None, study: str, on_lost: Callable[[str], None]) -> Iterator[str]:
    """Connect for the length of the block, and yield a line with the dashboard's address.

    Args:
        address: A cluster to join, which answers (`check_address`). None starts one on this machine.
        study: The study's name, which the Jobs page shows.
        on_lost: Called with the reason, in a thread, if the cluster is lost. It ends this process.

    Raises:
        ClusterError: Ray does not start, or the cluster does not answer.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    context = _connected(address, study)
    stop_on_sigterm()
    with ExitStack() as opened:
        if address is None:  # the lock tells `recstudy clean` the folder of a cluster whose driver was killed
            opened.enter_context(locked(Path(context.address_info["session_dir"], SESSION)))
        try:
            with watched_head(ray.get_runtime_context().gcs_address, address is None, on_lost):
                token = (
                    " (its token: ray get-auth-token)" if os.environ.get(MODE, "").lower() == "token" else ""
                )
                yield f"http://{context.dashboard_url}{token}" if context.dashboard_url else ""
        finally:
            # in no other thread: one that lets go of an actor's handle meanwhile ends the process (2.60)
            ray.shutdown()


def count_gpus(address: str) -> float:
    """Return how many GPUs a cluster has that answers (`check_address`).

    Raises:
        ClusterError: It cannot be joined.
    """
    _connected(address, "recstudy")
    try:
        return sum(float(node["Resources"].get("GPU", 0)) for node in alive())
    finally:
        ray.shutdown()


def _connected(address: str | None, study: str) -> Any:
    """Return Ray's context of a cluster that was joined or started; a busy machine may need a second try."""
    options: dict[str, Any] = {"include_dashboard": True, "object_store_memory": 256 * 2**20}
    if address is None:
        _check_files()
        _check_sockets()
    else:  # joined processes get our settings, our code, whatever is installed there, and the study's files
        code = [str(PACKAGE), *filter(None, sent_files()[:1])]
        options = {"runtime_env": {"env_vars": SETTINGS, "py_modules": code, "excludes": ["__pycache__"]}}
    # Ray's processes get process groups of their own. `timeout`, a batch system or a closing terminal stop
    # the driver's whole group; the driver then ends its runs in order, and Ray ends with it.
    apart = patch.object(
        subprocess.Popen, "__init__", partialmethod(subprocess.Popen.__init__, process_group=0)
    )
    job = JobConfig(metadata={"job_name": study})
    for _ in range(2):
        try:
            with apart:
                return ray.init(
                    address=address or "local",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    job_config=job,
                    **options,
                )
        except Exception as error:  # also a bare one
            ray.shutdown()
            if address is None:
                _end_started()
            reason = " ".join(str(error).split()) or type(error).__name__
    raise ClusterError(
        no_cluster(address, reason)
        if address
        else (
            f"Ray does not start on this machine ({reason}). Where it is short of cores, memory or room in"
            " /tmp, free some, and give the same command again."
        )
    )


def _check_files() -> None:
    """Refuse a limit of open files with which Ray would be silent for minutes; raise it where that is
    allowed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < FILES:
        raise ClusterError(
            f"this process may have {hard} files open (ulimit -n), too few for Ray, which needs {FILES} and"
            " some more for each run. Raise the limit, such as by: ulimit -n 4096; or leave Ray out with"
            " --no-ray."
        )
    if 0 <= soft < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))


def _check_sockets() -> None:
    """Refuse a folder for temporary files whose path is too long for Ray's sockets (TMPDIR counts on Linux
    only).
    """
    tmpdir = os.environ.get("TMPDIR", "/tmp") if sys.platform == "linux" else "/tmp"
    variable, folder = ("RAY_TMPDIR", path) if (path := os.environ.get("RAY_TMPDIR")) else ("TMPDIR", tmpdir)
    most = SOCKET_PATH - len(SOCKET.format(pid=os.getpid()))
    if len(os.fsencode(folder)) > most:
        raise ClusterError(
            f"{variable} is too long for Ray, whose sockets lie in it: {folder} has"
            f" {len(os.fsencode(folder))} bytes, and {most} are possible. Set a shorter one, such as"
            f" {variable}=/tmp; or leave Ray out with --no-ray."
        )


def _end_started() -> None:
    """Kill the processes of a node that did not start, which Ray (2.60) leaves."""
    import psutil  # which Ray brings

    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(Path(word).is_relative_to(Path(ray.__file__).parent) for word in process.cmdline()):
                process.kill()


# ------------------------------------------------------------------------------------------------------------- resources


def fitting(resources: Resources, configs: Sequence[RunSettings]) -> Resources:
    """Return `resources` with the number of GPUs decided.

    Args:
        resources: The resources of each run.
        configs: The runs, which must fit into a GPU's memory where they share one.

    Raises:
        ClusterError: The cluster has fewer resources, which the message lists.
    """
    nodes = alive()
    capacities = [node["Resources"] for node in nodes]
    if resources.gpus is None:
        resources = resources.model_copy(
            update={"gpus": float(any(node.get("GPU", 0) >= 1 for node in capacities))}
        )
    gpus = resources.gpus or 0.0
    if not concurrent_runs(nodes, resources):
        asked = f"{resources.workers} x ({resources.cpus} CPU, {gpus:g} GPU)"
        has = "; ".join(f"{node.get('CPU', 0):g} CPU, {node.get('GPU', 0):g} GPU" for node in capacities)
        raise ClusterError(
            f"a run needs {asked} but the cluster has {len(nodes)} node{'s' * (len(nodes) > 1)}: {has}. "
            "Lower --gpus, --cpus or --workers."
        )
    needed = [
        bytes for config in configs if 0 < gpus < 1 and (bytes := config.program.memory(config)) is not None
    ]
    if needed and (memory := smallest_gpu(gpus, configs[0].program.free_gpu_bytes)) is not None:
        check_packing(gpus, max(needed), memory)
    return resources


def check_packing(gpus: float, needed: int, memory: int) -> None:
    """Refuse more runs on a GPU than its memory holds.

    Args:
        gpus: Share of a GPU that each run gets, below 1.
        needed: Bytes of the largest run, without its process's context.
        memory: Bytes of the smallest GPU.
    """
    packed, fit = int(1 / gpus), memory // (needed + CONTEXT_BYTES)
    if packed <= fit:
        return
    lower = f"--gpus {int(1000 / fit) / 1000:g} packs {fit}" if fit > 1 else "--gpus 1 gives each its own"
    raise ClusterError(
        f"--gpus {gpus:g} packs {packed} runs on a GPU, but one needs about"
        f" {(needed + CONTEXT_BYTES) / 1e9:.1f} GB and the smallest GPU has {memory / 1e9:.1f} GB. {lower};"
        " or lower train.batch_size."
    )


# -------------------------------------------------------------------------------------------------------------- watching


@contextmanager
def watched_head(address: str, own: bool, on_lost: Callable[[str], None]) -> Iterator[None]:
    """Call `on_lost`, in a thread, once the head has been silent for too long within the block.

    Ray (2.60) ends a process that has not reached its head for a minute with a line of its own, and waits
    without end for a head that is frozen, or for the node of a cluster of our own (`own`). Nothing can be
    cleaned up then, because each call to Ray waits too: the process ends as if it were killed.
    """
    from ray.autoscaler.v2.sdk import get_cluster_status

    over, answered = threading.Event(), threading.Event()
    patience = SHARE * float(os.environ.get(RAYS_OWN, MINUTE))
    ended_processes = _vital_processes() if own else str

    def keep_asking() -> None:  # in a thread of its own, because it may wait without end
        while not over.is_set():
            with suppress(Exception):  # of Ray's several kinds
                get_cluster_status(address, timeout=3)
                answered.set()
            over.wait(PAUSE_S)

    def watch() -> None:
        silence = 0.0  # counted in pauses: time in which this process is stopped is no silence
        while silence < patience:
            if over.wait(PAUSE_S):
                return
            if processes := ended_processes():
                on_lost(f"Ray's {processes} on this machine has ended")
                return
            silence = 0.0 if answered.is_set() else silence + PAUSE_S
            answered.clear()
        on_lost(f"the head node of the Ray cluster, {address}, does not answer any more")

    for target in (keep_asking, watch):
        threading.Thread(target=target, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _vital_processes() -> Callable[[], str]:
    """Return a function that names the vital processes of our own cluster that have ended."""
    import psutil  # which Ray brings

    names = {
        process: process.name()
        for process in psutil.Process().children(recursive=True)
        if process.name() in VITAL
    }
    return lambda: " and ".join(names[process] for process in psutil.wait_procs(names, timeout=0)[0])
