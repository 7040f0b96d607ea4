"""The Ray cluster a study runs on: started here or joined, asked beforehand whether it can do the work, and watched.

Whatever would otherwise end in an endless wait is refused with one line: an address where nobody answers, other versions
or other code on some node, more GPUs than there are, more runs on one than its memory holds.
"""

import logging
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import ray
import ray._common.usage.usage_lib
import ray.autoscaler._private.cli_logger
import ray.dashboard
from ray._private import services
from ray.job_config import JobConfig

from recstudy.cluster.nodes import PACKAGE, alive, smallest_gpu, workers_on
from recstudy.config import Place, RunConfig
from recstudy.errors import EXIT_CODES, ClusterError, ConfigError
from recstudy.records.clean import SESSION
from recstudy.records.locks import locked, this_process
from recstudy.study.plan import command
from recstudy.terminal import stop_on_sigterm

# Imports Ray Tune, most of a second, while Ray starts its processes. Once this module is imported, those that `ray.init` imports
# (2.60) have none in common with it but Python's own, so that the two threads never wait for each other.
MEANWHILE = "recstudy.cluster.sweep"

CONTEXT_BYTES = 600 * 10**6  # of GPU memory that each process takes for CUDA itself, before any tensor
ANSWER_S = 60  # an address that is silent for so long is refused: one that idles answers in 2 to 4 s
QUIET_S = 10  # without an answer, before it is said that there is none yet
MODE = "RAY_AUTH_MODE"  # `token` or `disabled`: whether this process shows a token, and asks for one
# Ends with 3 on a machine that is none of the cluster's nodes, whose sockets a driver looks for.
IS_NODE = """
import os, sys, ray
nodes = ray._raylet.GcsClient(address=sys.argv[1]).get_all_node_info().values()
sys.exit(0 if any(os.path.exists(node.raylet_socket_name) for node in nodes) else 3)
"""
Told = Callable[[str, float], None]
ASK_S = 3.0  # that an answer may take
PAUSE_S = 1.0  # before it is asked again
RAYS_OWN, MINUTE = "RAY_gcs_rpc_server_reconnect_timeout_s", "60"  # after which Ray ends this process, and its default
SHARE = 0.75  # of that time
FILES = 256  # that a process of Ray's has open: 70 with two runs under way on two cores, more with each run
VITAL = ("gcs_server", "raylet")  # of the processes of a cluster of our own: without them nothing runs

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
    """Connect for as long as the block runs; gives a line that says where the dashboard is.

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
    with ExitStack() as opened:
        if address is None:  # by its lock `recstudy clean` knows the folder of a cluster whose driver was killed
            opened.enter_context(locked(Path(ray._private.worker._global_node.get_session_dir_path(), SESSION), this_process()))
        try:
            with watched_head(head, address is None, partial(_leave, on_lost)):  # not while it is shut down: that is no loss
                token = " (its token: ray get-auth-token)" if os.environ.get(MODE, "").lower() == "token" else ""
                yield f"http://{dashboard}{token}" if dashboard else ""
        finally:
            ray.shutdown()  # in no other thread: one that lets go of an actor's handle meanwhile ends the process (2.60)


def _connected(address: str | None, study: str, tries: int = 2) -> Any:
    """Return what Ray says of a cluster that it has joined or started (on a busy machine it may give up too early)."""
    local: dict[str, Any] = {} if address else {"include_dashboard": True, "object_store_memory": 256 * 2**20}
    if address is None:
        _check_files()
    try:
        with _apart():
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


@contextmanager
def _apart() -> Iterator[None]:
    """Have what Ray starts meanwhile in process groups of its own.

    Who stops a whole group, such as `timeout`, a batch system or a terminal that is closed, then stops this process alone, which
    ends its runs in order; the others end with it in any case.
    """
    plain = services.ConsolePopen
    services.ConsolePopen = partial(plain, process_group=0)
    try:
        yield
    finally:
        services.ConsolePopen = plain


def _check_files() -> None:
    """Refuse a limit of open files with which Ray would be silent for minutes; where it may be raised, it is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= hard < FILES:
        raise ClusterError(
            f"this process may have {hard} files open (ulimit -n), too few for Ray, which needs {FILES} and some more for "
            "each run. Raise the limit, such as by: ulimit -n 4096; or leave Ray out with --no-ray."
        )
    if 0 <= soft < FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if hard > 0 else 4096, hard))


def _end_started() -> None:
    """End the processes of a node that has not come up, which Ray leaves (2.60): those of ours that run from its folder."""
    import psutil  # Ray's own, which is found once Ray is imported

    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if any(Path(word).is_relative_to(Path(ray.__file__).parent) for word in process.cmdline()):
                process.kill()


def _leave(on_lost: Callable[[str], None], what: str) -> None:
    on_lost(f"{what}. What was finished is kept, and this goes on from there: {command(left_out=())}")
    os._exit(EXIT_CODES["lost node"])


def _environment() -> dict[str, Any]:
    """Return what the study's processes start with on a cluster that others have started: our settings, and our code, whatever
    is installed there. On one of our own they start with this process's environment, and the first ones are up already."""
    return {"env_vars": SETTINGS, "py_modules": [str(PACKAGE)], "excludes": ["__pycache__"]}


def fitting(place: Place, configs: Sequence[RunConfig]) -> Place:
    """Return `place` with the GPUs decided, or a ClusterError that says what the cluster has instead.

    Args:
        place: what each of the runs asks for.
        configs: the runs, which must fit into a GPU's memory where they share one.
    """
    if place.device == "mps":
        from recstudy.train.process import check_apple  # brings torch

        check_apple()
    nodes = [node["Resources"] for node in alive()]
    if place.gpus_per_run is None:
        place = place.model_copy(update={"gpus_per_run": 1.0 if any(node.get("GPU", 0) >= 1 for node in nodes) else 0.0})
    gpus = place.gpus_per_run or 0.0
    workers = sum(workers_on(node, place.cpus_per_run, gpus) for node in nodes)
    if workers < place.workers_per_run:
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


def check_address(address: str | None, on_silence: Told) -> None:
    """Refuse an address where no cluster answers, instead of waiting for one, and before anything is written.

    From then on this process speaks as the cluster does, with the user's token or without one. Who shows a token asks for one
    too, so that a cluster without any would run our tasks, but no actor (Ray 2.60).

    Args:
        address: to join; None starts a cluster on this machine.
        on_silence: called, with the address and how many seconds it is given in all, where it takes long to answer.

    Raises:
        ConfigError, ClusterError: it is no address, nobody answers, or `RAY_AUTH_MODE` is set to what the cluster does not speak.
    """
    if address is None:
        return
    if address != "auto":
        _listens(address)
    given = os.environ.get(MODE, "").lower()
    asks = _refuses(address, "disabled", on_silence)
    if asks and given == "disabled":
        raise ClusterError(f"the Ray cluster at {address} asks for a token, but {MODE}=disabled is set here. Set {MODE}=token.")
    if asks and _refuses(address, "token", on_silence):
        raise ClusterError(no_cluster(address, "it asks for a token, and ours is missing or wrong"))
    if given == "token" and not asks:
        raise ClusterError(
            f"the Ray cluster at {address} asks for no token, but {MODE}=token is set here, with which no run would start. "
            f"Set {MODE}=disabled, or start the cluster with {MODE}=token."
        )
    os.environ[MODE] = "token" if asks else "disabled"
    ray._raylet.Config.initialize("")  # Ray has read the variable when it was imported


def no_cluster(address: str | None, why: str) -> str:
    return (
        f"no Ray cluster answers at {address or 'this machine'} ({why}). Start one with `ray start --head`, give it the token "
        "of `ray get-auth-token` if it asks for one, or leave --address out to run on this machine."
    )


def _refuses(address: str, mode: str, on_silence: Told) -> bool:
    """Return whether the cluster turns away who speaks so.

    Raises:
        ClusterError: it does not answer, or cannot be joined for another reason.
    """
    command = [sys.executable, "-c", "import ray, sys; ray.init(sys.argv[1], log_to_driver=False)", address]
    with TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        environment = os.environ | {MODE: mode}
        with open(said, "wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as attempt:
            try:
                code = _ended(attempt, said, QUIET_S)
                if code is None and not _refused(said):
                    _check_node(address, environment)
                    on_silence(address, ANSWER_S)
                    code = _ended(attempt, said, ANSWER_S - QUIET_S)
            finally:
                attempt.kill()
        told = said.read_text(encoding="utf-8", errors="replace").strip()
        refused, lines = _refused(said), told.splitlines() or ["no reason given"]
    if code is None and not refused:
        raise ClusterError(no_cluster(address, f"tried to join for {ANSWER_S} s"))
    if code and not refused:
        raise ClusterError(no_cluster(address, lines[-1]))
    return refused


def _check_node(address: str, environment: dict[str, str]) -> None:
    """Refuse a machine that is no node of the cluster, where Ray (2.60) would wait without a word."""
    command = [sys.executable, "-c", IS_NODE, address]
    with suppress(subprocess.TimeoutExpired):  # nobody answers
        asked = subprocess.run(command, env=environment, capture_output=True, timeout=QUIET_S, check=False)
        if asked.returncode == 3:
            raise ClusterError(
                f"this machine is no node of the Ray cluster at {address}. `ray start --address={address} --num-cpus=0` makes it "
                "one on which no run is placed; or submit a job (docs/how-to/cluster.md)."
            )


def _ended(attempt: subprocess.Popen[bytes], said: Path, patience: float) -> int | None:
    """Return its exit code; None if it goes on after so many seconds, or was refused, which Ray tries again without end."""
    deadline = time.monotonic() + patience
    while (code := attempt.poll()) is None and time.monotonic() < deadline and not _refused(said):
        time.sleep(0.1)
    return code


def _refused(said: Path) -> bool:
    text = said.read_text(encoding="utf-8", errors="replace")
    return "Unauthenticated" in text or "AuthenticationError" in text


def _listens(address: str) -> None:
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if address.startswith("ray://"):
        raise ConfigError(
            f"--address {address}: a study is driven from within its cluster. From outside, submit it as a job: "
            f"ssh -fNL 8265:127.0.0.1:8265 {host or 'HOST'} && "
            "ray job submit --address http://127.0.0.1:8265 --working-dir . -- python STUDY.py --address auto"
        )
    if not host or not port:
        raise ConfigError(f"--address must be auto or HOST:PORT, but got {address!r}")
    try:
        socket.create_connection((host, port), timeout=5).close()
    except OSError as error:
        raise ClusterError(no_cluster(address, f"TCP connection to {host}:{port}: {error}")) from None


@contextmanager
def watched_head(address: str, own: bool, on_lost: Callable[[str], None]) -> Iterator[None]:
    """Tell `on_lost`, in a thread, what is lost where the head has been silent for too long while the block runs.

    Ray (2.60) ends a process that has not reached its head for a minute with a line of its own, and with a head that is frozen it
    waits for ever; so it does on a cluster of our own (`own`) without the node. Nothing can be cleaned up then, as each call to
    Ray waits too: the process ends as if it were killed.
    """
    over = threading.Event()
    patience = SHARE * float(os.environ.get(RAYS_OWN, MINUTE))
    client = ray._raylet.GcsClient(address)
    silent = f"the head node of the Ray cluster, {address}, does not answer any more"
    ask = partial(_ask, client, _node() if own else None)
    threading.Thread(target=watch, args=(ask, patience, over, on_lost, silent), daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _node() -> tuple[Any, Any]:
    """Return the node that this process has started: Ray's own of its processes, and its id."""
    started = ray._private.worker._global_node
    return started, ray._raylet.NodeID.from_hex(started.node_id)


def _ask(client: Any, own: tuple[Any, Any] | None) -> str:
    """Return which processes have ended for good, and nothing while all is well; raises what Ray does where nobody answers."""
    if own is None:
        client.check_alive([], timeout=ASK_S)
        return ""
    started, node = own
    ended = [name for name, _ in started.dead_processes() if name in VITAL]
    if ended:
        return f"Ray's {' and '.join(ended)} on this machine has ended"
    known = client.check_alive([node], timeout=ASK_S)
    return "" if all(known) else "Ray's raylet on this machine does not answer any more"


def watch(ask: Callable[[], str], patience: float, over: threading.Event, on_lost: Callable[[str], None], silent: str) -> None:
    """Ask until it is over, until `ask` says what has ended, or has raised for so many seconds without an answer between.

    Time in which this process itself is stopped is no silence.
    """
    waited, ended = 0.0, ""
    while waited < patience:
        began = time.monotonic()
        try:
            ended, answered = ask(), True
        except Exception:  # of Ray's several kinds
            ended, answered = "", False
        if over.wait(PAUSE_S):
            return
        if ended:
            break
        waited = 0.0 if answered else waited + min(time.monotonic() - began, ASK_S + PAUSE_S)
    on_lost(ended or silent)
