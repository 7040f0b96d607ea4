"""What imports what: no module of the package leads back to itself, not by way of imports in functions or of
annotations either.
"""

import re
from graphlib import CycleError, TopologicalSorter

import grimp
import pytest
from processes import run_python

import recstudy


def order(imports: dict[str, set[str]]) -> list[str]:
    """The modules, each behind those that it imports."""
    return list(TopologicalSorter(imports).static_order())


def test_imports_have_no_cycles():
    graph = grimp.build_graph("recstudy", cache_dir=None)

    try:
        import_order = order(
            {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
        )
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))

    assert (
        import_order.index("recstudy.base.errors")
        < import_order.index("recstudy.recursive.config.run")
        < import_order.index("recstudy.cli.study")
    )


def test_every_public_name_is_imported_when_it_is_used():
    assert set(recstudy.__all__) <= set(dir(recstudy))
    assert all(getattr(recstudy, name) is not None for name in recstudy.__all__)


IN_FRONT = """
from recstudy import Metric
from recstudy.programs.metric import METRICS, using_metrics

with using_metrics({"top1_accuracy": Metric("points")}):
    assert METRICS.get("nobody's") is None  # which the recursive models are imported to look for
    assert METRICS["top1_accuracy"].unit == "points"
assert METRICS["top1_accuracy"].unit == "%"
"""


def test_a_users_metric_keeps_the_name_that_the_recursive_models_have_too():
    run_python("-c", IN_FRONT)


@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("from recstudy.data import Cifar10", "from recstudy.recursive import ..."),
        ("from recstudy.train.loop import Training", "from recstudy.recursive.train import ..."),
        ("from recstudy import RunConfig", "from recstudy.recursive import RunConfig"),
        ("from recstudy.report import Thinking", "from recstudy.recursive import Thinking"),
        ("from recstudy.errors import ConfigError", "from recstudy.base.errors import ..."),
        ("from recstudy.report import Interactions", "Curve(NAME, x=..., y=METRIC, by=...)"),
    ],
)
def test_an_import_of_an_old_place_names_the_new_one(line, place):
    with pytest.raises(ImportError, match=re.escape(f"(version 0.3): write {place}")):
        exec(line, {})
