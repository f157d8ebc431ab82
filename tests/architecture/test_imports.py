"""The public API loads without Spark, and no package imports in circles; .importlinter has the other rules."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import grimp
import pytest

PUBLIC = ["firesteel", "firesteel.common", "firesteel.datastream", "firesteel.testing"]
HEAVY = {"pandas", "py4j", "pyarrow", "pyspark"}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_package_loads_without_heavy_libraries(name: str) -> None:
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} does not exist yet")
    # A fresh interpreter: in this one other tests may have imported anything.
    program = f"import sys, {name}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY.intersection(done.stdout.split()) == set()


def test_no_import_cycles() -> None:
    # Imports for type checkers only do not count: they are how two modules may name each other's types.
    graph = grimp.build_graph("firesteel", exclude_type_checking_imports=True, cache_dir=None)
    packages = [name for name in graph.modules if graph.find_children(name)]
    assert {name: found for name in packages if (found := graph.nominate_cycle_breakers(name))} == {}
