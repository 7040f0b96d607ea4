"""What imports what: no module of the package leads back to itself, not by way of imports in functions either."""

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def order(imports: dict[str, set[str]]) -> list[str]:
    """The modules, each behind those that it imports."""
    return list(TopologicalSorter(imports).static_order())


def test_no_module_imports_itself_by_way_of_others():
    graph = grimp.build_graph("recstudy", exclude_type_checking_imports=True)

    try:
        found = order({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    except CycleError as error:
        pytest.fail(" imports ".join(reversed(error.args[1])))

    assert found.index("recstudy.errors") < found.index("recstudy.config.run") < found.index("recstudy.cli")
