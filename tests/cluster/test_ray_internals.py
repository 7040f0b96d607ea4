"""What recstudy uses of Ray that Ray does not promise to keep: each test fails where a new Ray has changed it.

`pyproject.toml` names the newest Ray with which they pass. Draining has a test of its own in test_worker.py.
"""

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray
from ray import tune
from ray.dashboard.modules.metrics.grafana_dashboard_factory import GRAFANA_DASHBOARD_UID_OVERRIDE_ENV_VAR_TEMPLATE
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.search import Searcher

from recstudy.cluster.connection import MEANWHILE, SETTINGS
from recstudy.cluster.group import COORDINATOR, NEEDLESS, _lean
from recstudy.cluster.worker import Leave, titled

PACKAGE = Path(ray.__file__).parent
READS = "tune", "train", "air", "_private", "_common"  # the parts of Ray that read the variables below


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@ray.remote(num_cpus=0)
class Asked:
    """A process of Ray's."""

    def title(self) -> str:
        told: list[dict] = []
        titled("mine: a, seed 0", told.append)({"epoch": 0})
        return Path("/proc/self/cmdline").read_text().rstrip("\0")

    def drained(self) -> bool:
        return Leave()()

    def trains(self, folder: str) -> str:
        """What became of two groups, of which the second fails."""
        named = {"run_config": ray.train.RunConfig(storage_path=folder)}
        _lean(DataParallelTrainer)(print, **named).fit()
        try:
            _lean(DataParallelTrainer)(lambda: 1 / 0, **named).fit()
        except ray.train.WorkerGroupError as error:
            return str(error)
        return "nothing was raised"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray Data's own, of itself
def test_a_group_is_without_what_train_starts_for_nothing():
    """Both are among Train's own callbacks, by the method that gives them; the others stay."""
    theirs, ours = (kind(print)._create_default_callbacks() for kind in (DataParallelTrainer, _lean(DataParallelTrainer)))

    kinds = [type(one) for one in theirs]
    assert set(NEEDLESS) < set(kinds)
    assert [type(one) for one in ours] == [kind for kind in kinds if kind not in NEEDLESS]


@pytest.mark.whole
def test_a_group_is_controlled_in_the_process_that_it_belongs_to(tmp_path):
    """Train's own trainer has an actor for that, which would be in Ray's table of actors; what a worker raises is raised here."""
    before = set(ray._private.state.actors())

    assert "ZeroDivisionError" in ray.get(Asked.remote().trains.remote(str(tmp_path)))

    made = {actor["ActorClassName"] for name, actor in ray._private.state.actors().items() if name not in before}
    assert "RayTrainWorker" in made
    assert "TrainController" not in made


IMPORTED = """
import json, sys, recstudy.cluster.connection
before = set(sys.modules)
{}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
START = "import ray; ray.init(address='local', num_cpus=1, include_dashboard=True, log_to_driver=False)"


def imported(by: str) -> set[str]:
    """The modules that a program imports beside those that `connection.py` does."""
    output = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", IMPORTED.format(by)], capture_output=True, text=True, check=True
    )
    return set(json.loads(output.stdout.splitlines()[-1]))


@pytest.mark.whole
def test_what_is_imported_while_ray_starts_has_no_module_in_common_with_its_start():
    """Two threads that import one and the same module might wait for each other. Python's own are leaves: they import nothing back."""
    meanwhile, start = imported(f"import {MEANWHILE}"), imported(START)

    assert "ray.tune" in meanwhile
    assert {name for name in meanwhile & start if name.partition(".")[0] not in sys.stdlib_module_names} == set()


BEGUN = """
import os, sys, time, ray
from ray.tune.execution.class_cache import _ActorClassCache
from recstudy.cluster.group import without_environments
ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
class Asked:
    def process(self):
        return str(os.getpid())
def idle():
    return [name for name in os.listdir("/proc") if name.isdigit() and b"ray::IDLE" in command(name)]
def command(name):
    try:
        return open(f"/proc/{name}/cmdline", "rb").read()
    except OSError:
        return b""
deadline = time.monotonic() + 60
while not idle() and time.monotonic() < deadline:
    time.sleep(0.05)
ready = set(idle())
if sys.argv[1] == "without":
    without_environments()
actor = _ActorClassCache().get(Asked).remote()
print(ray.get(actor.process.remote()) in ready)
"""


@pytest.mark.whole
@pytest.mark.parametrize(("how", "taken"), [("without", "True"), ("as they come", "False")])
def test_a_process_that_tune_asks_for_is_one_that_has_begun_before(how, taken):
    output = subprocess.run([sys.executable, "-W", "ignore", "-c", BEGUN, how], capture_output=True, text=True, check=True)

    assert output.stdout.splitlines()[-1] == taken


def test_what_raylets_say_is_printed_by_a_function_that_can_be_replaced():
    assert "print_to_stdstream(" in inspect.getsource(ray._private.worker.listen_error_messages)


def test_a_process_of_ray_takes_a_title():
    assert ray.get(Asked.remote().title.remote()) == "mine: a, seed 0"


def test_a_worker_may_ask_which_nodes_are_drained():
    """Whose answers are by a node's id, as its own process knows it."""
    assert ray.get(Asked.remote().drained.remote()) is False
    assert ray._private.worker.global_worker.gcs_client.get_draining_nodes(timeout=5.0) == {}
    assert ray.get_runtime_context().get_node_id() == ray.nodes()[0]["NodeID"]


def test_a_head_is_asked_whether_it_is_there_and_a_mode_of_tokens_is_read_again():
    """The client and the reader of `connection.py`."""
    assert ray._raylet.GcsClient(ray.get_runtime_context().gcs_address).check_alive([], timeout=5.0) == []
    assert callable(ray._raylet.Config.initialize)


def test_a_node_that_has_not_come_up_is_ended_by_the_folder_that_its_processes_run_from():
    """As `connection.py` finds them: below this process, by their command lines."""
    shown = [" ".join(process.cmdline()) for process in psutil.Process().children(recursive=True)]

    for program in ("gcs_server", "raylet/raylet"):
        assert any(str(PACKAGE) in line and program in line for line in shown), shown


def test_every_head_node_has_the_coordinators_resource():
    assert COORDINATOR.keys() <= ray.cluster_resources().keys()


def test_ray_still_reads_every_variable_that_is_set_for_it():
    source = "".join(file.read_text(errors="replace") for part in READS for file in (PACKAGE / part).rglob("*.py"))
    own = GRAFANA_DASHBOARD_UID_OVERRIDE_ENV_VAR_TEMPLATE.format(name="DATA")

    assert own in SETTINGS
    others = {own, "PYTHONWARNINGS"}  # read by the dashboard and by Python
    names = {name for name in {*SETTINGS, "TUNE_MAX_PENDING_TRIALS_PG"} - others if not name.startswith("MALLOC_")}  # by glibc
    assert [name for name in names if name not in source] == []


def test_a_node_that_is_low_on_memory_says_so_in_the_words_that_are_looked_for():
    """In cluster/watch.py, which tells such a death from that of a lost node."""
    assert b"running low on memory" in (PACKAGE / "core/src/ray/raylet/raylet").read_bytes()


def test_tunes_hooks_have_the_names_and_arguments_that_are_overridden():
    """A searcher's and a callback's methods that Tune calls; another name would be passed over in silence."""
    hooks = {
        Searcher.suggest: ["self", "trial_id"],
        Searcher.on_trial_complete: ["self", "trial_id", "result", "error"],
        Searcher.save: ["self", "checkpoint_path"],
        Searcher.restore: ["self", "checkpoint_path"],
        tune.Callback.on_trial_start: ["self", "iteration", "trials", "trial", "info"],
        tune.Callback.on_trial_result: ["self", "iteration", "trials", "trial", "result", "info"],
        tune.Callback.on_trial_complete: ["self", "iteration", "trials", "trial", "info"],
        tune.Callback.on_trial_recover: ["self", "iteration", "trials", "trial", "info"],
        tune.Callback.on_trial_error: ["self", "iteration", "trials", "trial", "info"],
        tune.Callback.on_step_end: ["self", "iteration", "trials", "info"],
        tune.Stopper.stop_all: ["self"],
    }

    assert {hook.__qualname__: list(inspect.signature(hook).parameters) for hook in hooks} == {
        hook.__qualname__: names for hook, names in hooks.items()
    }
    assert isinstance(Searcher.FINISHED, str)
    assert isinstance(inspect.getattr_static(TuneTrial, "error_file"), property)
    assert isinstance(inspect.getattr_static(TuneTrial, "last_result"), property)
