"""The Ray cluster a study runs on: started here or joined, and asked beforehand whether it can do the work.

Whatever would otherwise end in an endless wait is refused with one line: an address where nobody answers, other versions
or other code on some node, more GPUs than there are, more runs on one than its memory holds.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import ray
import ray._common.usage.usage_lib
import ray.autoscaler._private.cli_logger
import ray.dashboard
from ray.job_config import JobConfig

from recstudy.cluster.address import MODE, no_cluster
from recstudy.cluster.head import watched_head
from recstudy.cluster.nodes import PACKAGE, alive, smallest_gpu
from recstudy.cluster.rooms import rooms_of
from recstudy.config import Place, RunConfig
from recstudy.errors import EXIT_CODES, ClusterError
from recstudy.study.plan import command
from recstudy.terminal import stop_on_sigterm

# Imports Ray Tune, most of a second, while Ray starts its processes. Once this module is imported, those that `ray.init` imports
# (2.60) have none in common with it but Python's own, so that the two threads never wait for each other.
MEANWHILE = "recstudy.cluster.sweep"

CONTEXT_BYTES = 600 * 10**6  # of GPU memory that each process takes for CUDA itself, before any tensor

# Tune's own tables, loggers and signal handler are ours to do; Train notices a lost worker in a fifth of a second, and after
# 15 s without room for a group it looks again how many workers there is room for.
SETTINGS = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # a run's last report is its outcome, not an epoch
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "15",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # workers ask themselves whether their node is wanted back
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    # A run computes in a thread, whose own arena of glibc's gives nothing back: 10 GB after 3 epochs of 004's CNN on MNIST.
    "MALLOC_ARENA_MAX": "1",
    # What a step frees is kept for the next one, up to 2 GiB: glibc gives it back, and each page is asked for and zeroed anew, a
    # quarter of a convolution's processor time (measured on 2 cores).
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**31),
    "PYTHONWARNINGS": "ignore",  # in a worker's log nobody reads them
    # The Metrics tab shows two Grafana dashboards by their uid: Ray's own, and this one in place of Ray Data's.
    "RAY_GRAFANA_DATA_DASHBOARD_UID": "recstudy",
}


@contextmanager
def cluster(address: str | None, study: str, on_lost: Callable[[str], None]) -> Iterator[str]:
    """A connection for as long as the block runs; gives a line that says where the dashboard is.

    Args:
        address: to join, which answers (`check_address`); None starts a cluster on this machine.
        study: its name, which the Jobs page shows.
        on_lost: is told why this process ends, before it does: the cluster's head does not answer any more.

    Raises:
        ClusterError: nobody answers, or a node has other versions or other code.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    # Where a node dies, Ray would print a page of its raylet's log (2.60); what became of the runs is said by us.
    ray._private.worker.print_to_stdstream = lambda data, ignore_prefix: None
    importing = threading.Thread(target=import_module, args=[MEANWHILE], daemon=True)
    importing.start()
    dashboard = _connected(address, study).dashboard_url
    importing.join()
    stop_on_sigterm()
    head = ray.get_runtime_context().gcs_address
    with watched_head(head, lambda: _leave(head, on_lost)):
        try:
            token = " (its token: ray get-auth-token)" if os.environ.get(MODE, "").lower() == "token" else ""
            yield f"http://{dashboard}{token}" if dashboard else ""
        finally:
            ray.shutdown()  # in no other thread: one that lets go of an actor's handle meanwhile ends the process (2.60)


def _connected(address: str | None, study: str, tries: int = 2) -> Any:
    """What Ray says of a cluster that it has joined or started; where a machine is busy, it gives up too early now and then."""
    local: dict[str, Any] = {} if address else {"include_dashboard": True, "object_store_memory": 256 * 2**20}
    try:
        return ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            runtime_env=_environment() if address else None,
            job_config=JobConfig(metadata={"job_name": study}),
            **local,
        )
    except Exception as error:  # also a bare one
        ray.shutdown()
        if address is None:
            _end_started()
        if tries > 1:
            return _connected(address, study, tries - 1)
        reason = " ".join(str(error).split()) or type(error).__name__
    raise ClusterError(
        no_cluster(address, reason)
        if address
        else f"Ray does not start on this machine ({reason}). Where it is short of cores, memory or room in /tmp, free some, "
        "and give the same command again."
    )


def _end_started() -> None:
    """End the processes of a node that has not come up, which Ray leaves (2.60): those of ours that run from its folder."""
    import psutil  # Ray's own, which is found once Ray is imported

    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(Path(word).is_relative_to(Path(ray.__file__).parent) for word in process.cmdline()):
                process.kill()


def _leave(head: str, on_lost: Callable[[str], None]) -> None:
    on_lost(
        f"the head node of the Ray cluster, {head}, does not answer any more. What was finished is kept, and this goes on from "
        f"there as soon as a cluster answers: {command(left_out=())}"
    )
    os._exit(EXIT_CODES["lost node"])


def _environment() -> dict[str, Any]:
    """What every process of the study starts with on a cluster that others have started: our settings, and our code, whatever
    is installed there. On one of our own they start with this process's environment, and the first ones are up already."""
    return {"env_vars": SETTINGS, "py_modules": [str(PACKAGE)], "excludes": ["__pycache__"]}


def fitting(place: Place, configs: Sequence[RunConfig]) -> Place:
    """`place` with the GPUs decided, or a ClusterError that says what the cluster has instead.

    Args:
        place: what each of the runs asks for.
        configs: the runs, which must fit into a GPU's memory where they share one.
    """
    nodes = [node["Resources"] for node in alive()]
    if place.gpus_per_run is None:
        place = place.model_copy(update={"gpus_per_run": 1.0 if any(node.get("GPU", 0) >= 1 for node in nodes) else 0.0})
    gpus = place.gpus_per_run or 0.0
    rooms = sum(rooms_of(node, place.cpus_per_run, gpus) for node in nodes)
    if rooms < place.workers_per_run:
        asked = f"{place.workers_per_run} x ({place.cpus_per_run} CPU, {gpus:g} GPU)"
        has = "; ".join(f"{node.get('CPU', 0):g} CPU, {node.get('GPU', 0):g} GPU" for node in nodes)
        raise ClusterError(
            f"a run needs {asked} but the cluster has {len(nodes)} node{'s' * (len(nodes) > 1)}: {has}. "
            "Lower --gpus-per-run, --cpus-per-run or --workers-per-run."
        )
    if 0 < gpus < 1 and (memory := smallest_gpu(gpus)) is not None:
        from recstudy.models.costs import training_memory

        check_packing(gpus, max(map(training_memory, configs), default=0), memory)
    return place


def check_packing(gpus: float, needed: int, memory: int) -> None:
    """Refuse more runs on a GPU than its memory holds.

    Args:
        gpus: share of a GPU that each run is given, below 1.
        needed: bytes of the largest run, beside its process's context.
        memory: bytes of the smallest GPU.
    """
    packed, fit = int(1 / gpus), memory // (needed + CONTEXT_BYTES)
    if packed <= fit:
        return
    lower = f"--gpus-per-run {int(1000 / fit) / 1000:g} packs {fit}" if fit > 1 else "--gpus-per-run 1 gives each its own"
    raise ClusterError(
        f"--gpus-per-run {gpus:g} packs {packed} runs on a GPU, but one needs about {(needed + CONTEXT_BYTES) / 1e9:.1f} GB "
        f"and the smallest GPU has {memory / 1e9:.1f} GB. {lower}; or lower train.batch_size."
    )
