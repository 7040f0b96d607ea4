"""The files beside the board: Grafana's dashboard, and the clusters on which the Metrics tab shows it."""

import json
import re
from pathlib import Path

import pytest

from recstudy.cluster.connection import SETTINGS

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
NAME = "RAY_GRAFANA_DATA_DASHBOARD_UID"
PANELS = json.loads((DASHBOARDS / "grafana/recstudy.json").read_text())


def test_a_cluster_that_a_study_starts_shows_our_dashboard():
    assert SETTINGS[NAME] == PANELS["uid"]


@pytest.mark.parametrize("file", sorted((DASHBOARDS / "cluster").iterdir()), ids=lambda file: file.name)
def test_the_example_clusters_show_it_too(file):
    """It must be set for the head's `ray start`, whose child the Ray dashboard is."""
    commands_before, starts_ray, _ = file.read_text().partition("ray start --head")
    setting = rf"{NAME}(=|: |, value: ){PANELS['uid']}\b"

    # array jobs are without Ray
    assert re.search(setting, commands_before) or (file.name == "slurm_array.sh" and not starts_ray)


def test_the_metrics_tab_finds_the_variables_that_it_sets():
    """Ray's frontend opens the dashboard with var-SessionName and var-datasource (as of Ray 2.60)."""
    names = [variable["name"] for variable in PANELS["templating"]["list"]]
    sources = {target["datasource"]["uid"] for panel in PANELS["panels"] for target in panel["targets"]}

    assert {"SessionName", "datasource"} <= set(names)
    assert sources == {"${datasource}"}
    assert all("SessionName" in target["expr"] for panel in PANELS["panels"] for target in panel["targets"])
