"""Start or join the Ray cluster of a study, check its resources, and watch its head node.

An address without a cluster, different versions on a node, or too few GPUs would make Ray wait forever. Each
is refused with an error message instead.
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

from recstudy.base.errors import ClusterError
from recstudy.base.terminal import stop_on_sigterm
from recstudy.cluster.address import MODE, no_cluster
from recstudy.cluster.nodes import PACKAGE, concurrent_runs, live_nodes, smallest_gpu
from recstudy.plugins import sent_files
from recstudy.programs.base import RunSettings
from recstudy.programs.settings import Resources
from recstudy.records import locked
from recstudy.records.clean import SESSION

CONTEXT_BYTES = 600 * 10**6  # GPU memory of the CUDA context of each process, without tensors
PAUSE_S = 1.0  # time between two requests to the head node
# the time without the head node after which Ray ends this process, and its default
RECONNECT_TIMEOUT, MINUTE = "RAY_gcs_rpc_server_reconnect_timeout_s", "60"
PATIENCE_SHARE = 0.75  # our limit as a share of that time
FILES = 256  # open files of a Ray process: 70 with two runs on two cores, more with each run
SOCKET_PATH = 107 if sys.platform == "linux" else 103  # longest path of a Unix socket in bytes
# Ray's longest socket path below its folder (2.60)
SOCKET = "/ray/session_2026-01-01_00-00-00_000000_{pid}/sockets/dash_TaskEventsHead"
VITAL = ("gcs_server", "raylet")  # processes that a local cluster needs

# We replace Tune's tables, loggers and signal handler. Train notices a lost worker within 0.2 s.
SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a run's last report is its outcome, not an epoch
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # the driver asks which nodes are being drained
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A run computes in a thread. With its own arena, glibc would not return its memory: 10 GB after 3 epochs
    # of a CNN on MNIST.
    "MALLOC_ARENA_MAX": "1",
    # Keep up to 2 GiB of freed memory for the next step. Otherwise, requesting and zeroing pages takes a
    # quarter of the CPU time of a convolution (measured on 2 cores).
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**31),
    "PYTHONWARNINGS": "ignore",  # they would only fill the workers' logs
    # The Metrics tab shows two Grafana dashboards by uid: Ray's, and this one instead of Ray Data's.
    "RAY_GRAFANA_DATA_DASHBOARD_UID": "recstudy",
}


@contextmanager
def cluster(address: str | None, study: str, on_lost: Callable[[str], None]) -> Iterator[str]:
    """Connect to a cluster inside the block, and yield the dashboard's address.

    Args:
        address: The cluster to join (see `check_address`). None starts a cluster on this machine.
        study: The study's name, shown on the Jobs page of the dashboard.
        on_lost: Called in a thread with the reason if the cluster is lost. It must end this process.

    Raises:
        ClusterError: Ray does not start, or the cluster does not answer.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    context = _connect(address, study)
    stop_on_sigterm()
    with ExitStack() as stack:
        if address is None:  # `recstudy clean` finds folders of killed drivers by this lock
            stack.enter_context(locked(Path(context.address_info["session_dir"], SESSION)))
        try:
            with watched_head(ray.get_runtime_context().gcs_address, address is None, on_lost):
                has_token = os.environ.get(MODE, "").lower() == "token"
                token = " (token: ray get-auth-token)" if has_token else ""
                yield f"http://{context.dashboard_url}{token}" if context.dashboard_url else ""
        finally:
            # in this thread: if another one releases an actor handle meanwhile, Ray (2.60) ends the process
            ray.shutdown()


def count_gpus(address: str) -> float:
    """Return the number of GPUs of a cluster (see `check_address`).

    Raises:
        ClusterError: The cluster cannot be joined.
    """
    _connect(address, "recstudy")
    try:
        return sum(float(node["Resources"].get("GPU", 0)) for node in live_nodes())
    finally:
        ray.shutdown()


def _connect(address: str | None, study: str) -> Any:
    """Join or start a cluster and return Ray's context. A busy machine may need a second attempt."""
    options: dict[str, Any] = {"include_dashboard": True, "object_store_memory": 256 * 2**20}
    if address is None:
        _check_files()
        _check_sockets()
    else:  # workers get our settings, our code (even if another version is installed) and the study's files
        code = [str(PACKAGE), *filter(None, sent_files()[:1])]
        options = {"runtime_env": {"env_vars": SETTINGS, "py_modules": code, "excludes": ["__pycache__"]}}
    # Ray's processes get their own process groups, because `timeout`, a batch system or a closing terminal
    # stop the driver's whole group. The driver then ends its runs, and Ray ends with the driver.
    separate_groups = patch.object(
        subprocess.Popen, "__init__", partialmethod(subprocess.Popen.__init__, process_group=0)
    )
    job = JobConfig(metadata={"job_name": study})
    for _ in range(2):
        try:
            with separate_groups:
                return ray.init(
                    address=address or "local",
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    job_config=job,
                    **options,
                )
        except Exception as error:  # Ray also raises a plain Exception
            ray.shutdown()
            if address is None:
                _end_started()
            reason = " ".join(str(error).split()) or type(error).__name__
    raise ClusterError(
        no_cluster(address, reason)
        if address
        else (
            f"Ray does not start on this machine ({reason}). Free cores, memory or disk space in /tmp, and"
            " rerun the same command, or use --no-ray."
        )
    )


def _check_files() -> None:
    """Increase the limit of open files if allowed. With a low limit, Ray would hang for minutes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < FILES:
        raise ClusterError(
            f"This process may open {hard} files (ulimit -n), but Ray needs {FILES} and more for each run."
            " Increase the limit, such as by ulimit -n 4096, or use --no-ray."
        )
    if 0 <= soft < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))


def _check_sockets() -> None:
    """Check that the path of the temporary folder is short enough for Ray's sockets."""
    # Ray uses TMPDIR on Linux only
    tmpdir = os.environ.get("TMPDIR", "/tmp") if sys.platform == "linux" else "/tmp"
    variable, folder = ("RAY_TMPDIR", path) if (path := os.environ.get("RAY_TMPDIR")) else ("TMPDIR", tmpdir)
    max_bytes = SOCKET_PATH - len(SOCKET.format(pid=os.getpid()))
    if len(os.fsencode(folder)) > max_bytes:
        raise ClusterError(
            f"{variable} is too long for Ray's sockets: {folder} has {len(os.fsencode(folder))} bytes, but at"
            f" most {max_bytes} are possible. Set {variable}=/tmp, or use --no-ray."
        )


def _end_started() -> None:
    """Kill the processes of a node that did not start, because Ray (2.60) leaves them running."""
    import psutil  # a dependency of Ray

    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(Path(word).is_relative_to(Path(ray.__file__).parent) for word in process.cmdline()):
                process.kill()


# ------------------------------------------------------------------------------------------------------------
# resources


def resolve_gpus(resources: Resources, configs: Sequence[RunSettings]) -> Resources:
    """Set the number of GPUs of a run, and check that the cluster has enough resources.

    Args:
        resources: The resources of each run.
        configs: The settings of the runs. If runs share a GPU, they must fit into its memory.

    Raises:
        ClusterError: The cluster has too few resources. The message lists them.
    """
    nodes = live_nodes()
    capacities = [node["Resources"] for node in nodes]
    if resources.gpus is None:
        resources = resources.model_copy(
            update={"gpus": float(any(node.get("GPU", 0) >= 1 for node in capacities))}
        )
    gpus = resources.gpus or 0.0
    if not concurrent_runs(nodes, resources):
        request = f"{resources.workers} x ({resources.cpus} CPU, {gpus:g} GPU)"
        has = "; ".join(f"{node.get('CPU', 0):g} CPU, {node.get('GPU', 0):g} GPU" for node in capacities)
        raise ClusterError(
            f"A run needs {request}, but the cluster has {len(nodes)} node{'s' * (len(nodes) > 1)}: {has}."
            " Decrease --gpus, --cpus or --workers."
        )
    run_sizes: list[int] = []
    if 0 < gpus < 1:
        sizes = [config.program.memory(config) for config in configs]
        run_sizes = [size for size in sizes if size is not None]
    if run_sizes and (memory := smallest_gpu(gpus, configs[0].program.free_gpu_bytes)) is not None:
        check_packing(gpus, max(run_sizes), memory)
    return resources


def check_packing(gpus: float, run_bytes: int, gpu_bytes: int) -> None:
    """Check that the runs that share a GPU fit into its memory.

    Args:
        gpus: Share of a GPU for each run, below 1.
        run_bytes: GPU memory of the largest run in bytes, without the CUDA context.
        gpu_bytes: Memory of the smallest GPU in bytes.

    Raises:
        ClusterError: They do not fit.
    """
    packed, fit = int(1 / gpus), gpu_bytes // (run_bytes + CONTEXT_BYTES)
    if packed <= fit:
        return
    lower = f"--gpus {int(1000 / fit) / 1000:g} packs {fit}" if fit > 1 else "--gpus 1 gives each run a GPU"
    run_gb, gpu_gb = (run_bytes + CONTEXT_BYTES) / 1e9, gpu_bytes / 1e9
    raise ClusterError(
        f"--gpus {gpus:g} packs {packed} runs on a GPU, but a run needs about"
        f" {run_gb:.1f} GB and the smallest GPU has {gpu_gb:.1f} GB. {lower};"
        " or decrease train.batch_size."
    )


# ------------------------------------------------------------------------------------------------------------
# watching the head node


@contextmanager
def watched_head(address: str, is_local: bool, on_lost: Callable[[str], None]) -> Iterator[None]:
    """Call `on_lost` in a thread if the head node does not answer for too long inside the block.

    Ray (2.60) ends a process that has not reached its head node for a minute. It waits forever if the head
    node is frozen, or if the node of a local cluster has ended. Cleaning up is then impossible, because each
    call to Ray would also wait, so the process must end as if it were killed.

    Args:
        address: The address of the head node.
        is_local: Whether this process has started the cluster on this machine.
        on_lost: Called with the reason.
    """
    from ray.autoscaler.v2.sdk import get_cluster_status

    closed_event, answer_event = threading.Event(), threading.Event()
    patience = PATIENCE_SHARE * float(os.environ.get(RECONNECT_TIMEOUT, MINUTE))
    ended_processes = _vital_processes() if is_local else str

    def keep_asking() -> None:  # in a separate thread, because a request may wait forever
        while not closed_event.is_set():
            with suppress(Exception):  # Ray raises several types
                get_cluster_status(address, timeout=3)
                answer_event.set()
            closed_event.wait(PAUSE_S)

    def watch() -> None:
        silence = 0.0  # counted in pauses, so that time in which this process is suspended does not count
        while silence < patience:
            if closed_event.wait(PAUSE_S):
                return
            if processes := ended_processes():
                on_lost(f"Ray's {processes} on this machine has ended")
                return
            silence = 0.0 if answer_event.is_set() else silence + PAUSE_S
            answer_event.clear()
        on_lost(f"the head node of the Ray cluster, {address}, does not answer")

    for target in (keep_asking, watch):
        threading.Thread(target=target, daemon=True).start()
    try:
        yield
    finally:
        closed_event.set()


def _vital_processes() -> Callable[[], str]:
    """Return a function that returns the names of vital processes of the local cluster that have ended."""
    import psutil  # a dependency of Ray

    children = psutil.Process().children(recursive=True)
    names = {process: process.name() for process in children if process.name() in VITAL}
    return lambda: " and ".join(names[process] for process in psutil.wait_procs(names, timeout=0)[0])
