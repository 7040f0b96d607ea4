"""What recstudy uses of Ray and Ray does not document: each test fails where another version of Ray has changed it."""

import inspect
from pathlib import Path

import ray
from ray import tune
from ray.dashboard.modules.metrics.grafana_dashboard_factory import GRAFANA_DASHBOARD_UID_OVERRIDE_ENV_VAR_TEMPLATE
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.search import Searcher

from recstudy.cluster.connection import SETTINGS

PACKAGE = Path(ray.__file__).parent
READS = "tune", "train", "air", "_private", "_common"  # the parts of Ray that read the variables below


def test_ray_reads_every_variable_that_is_set_for_it():
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
