"""What recstudy uses of Ray and Ray does not document: each test fails where another version of Ray has
changed it.
"""

from pathlib import Path

import ray
from ray.dashboard.modules.metrics.grafana_dashboard_factory import (
    GRAFANA_DASHBOARD_UID_OVERRIDE_ENV_VAR_TEMPLATE,
)

from recstudy.cluster.connection import SETTINGS

PACKAGE = Path(ray.__file__).parent
READS = "tune", "train", "air", "_private", "_common"  # the parts of Ray that read the variables below


def test_ray_reads_every_variable_that_is_set_for_it():
    source = "".join(
        file.read_text(errors="replace") for part in READS for file in (PACKAGE / part).rglob("*.py")
    )
    grafana_variable = GRAFANA_DASHBOARD_UID_OVERRIDE_ENV_VAR_TEMPLATE.format(name="DATA")

    assert grafana_variable in SETTINGS
    other_names = {grafana_variable, "PYTHONWARNINGS"}  # read by the dashboard and by Python
    # by glibc
    names = {
        name
        for name in {*SETTINGS, "TUNE_MAX_PENDING_TRIALS_PG"} - other_names
        if not name.startswith("MALLOC_")
    }
    assert [name for name in names if name not in source] == []


def test_ray_reports_low_memory_in_the_expected_words():
    """In cluster/sweep.py, which tells such a death from that of a lost node."""
    assert b"running low on memory" in (PACKAGE / "core/src/ray/raylet/raylet").read_bytes()
