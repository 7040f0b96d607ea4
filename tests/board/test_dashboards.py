"""The files beside the board: Grafana's dashboard, and the clusters on which the Metrics tab shows it."""

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from recstudy.cluster.connection import SETTINGS

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
NAME = "RAY_GRAFANA_DATA_DASHBOARD_UID"
PANELS = json.loads((DASHBOARDS / "grafana/recstudy.json").read_text())


def test_a_cluster_that_a_study_starts_shows_our_dashboard():
    assert SETTINGS[NAME] == PANELS["uid"]


@pytest.mark.parametrize("file", sorted((DASHBOARDS / "cluster").iterdir()), ids=lambda file: file.name)
def test_the_example_clusters_show_it_too(file):
    """It must be set for the head's `ray start`, whose child the Ray dashboard is."""
    before, _, _ = file.read_text().partition("ray start --head")

    assert f"{NAME}={PANELS['uid']}" in before


def test_the_metrics_tab_finds_the_variables_that_it_sets():
    """Ray's frontend opens the dashboard with var-SessionName and var-datasource (as of Ray 2.60)."""
    names = [variable["name"] for variable in PANELS["templating"]["list"]]
    sources = {target["datasource"]["uid"] for panel in PANELS["panels"] for target in panel["targets"]}

    assert {"SessionName", "datasource"} <= set(names)
    assert sources == {"${datasource}"}
    assert all("SessionName" in target["expr"] for panel in PANELS["panels"] for target in panel["targets"])


def test_grafana_understands_all_of_the_dashboard():
    """As far as its own model of one goes: what that does not know, it leaves out."""
    assert list(left_out(PANELS)) == []


def left_out(panels: dict[str, Any]) -> Iterator[str]:
    """Where a dashboard says something that is gone or other once Grafana's model has read it."""
    register_default_plugins()
    return differing(panels, json.loads(JSONEncoder().encode(Dashboard.from_json(deepcopy(panels)))), ())


def differing(ours: Any, theirs: Any, path: tuple[object, ...]) -> Iterator[str]:
    if isinstance(ours, dict | list) and type(ours) is type(theirs):
        for name, value in ours.items() if isinstance(ours, dict) else enumerate(ours):
            there = name in theirs if isinstance(ours, dict) else name < len(theirs)
            yield from differing(value, theirs[name] if there else None, (*path, name))
    elif ours != theirs:
        yield ".".join(map(str, path))
