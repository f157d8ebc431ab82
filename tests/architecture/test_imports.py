"""The public API loads without Spark, and no package imports in circles; .importlinter has the other rules."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Collection
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from firesteel_support.public_line import public_packages

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = {"pandas", "py4j", "pyarrow", "pyspark"}


@pytest.mark.parametrize("name", ["firesteel", *public_packages()])
def test_public_package_loads_without_heavy_libraries(name: str) -> None:
    # A fresh interpreter: in this one other tests may have imported anything.
    program = f"import sys, {name}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY.intersection(done.stdout.split()) == set()


def top_level_imports(path: Path, modules: Collection[str]) -> set[str]:
    """Modules imported when this one is: not those for type checkers, and not those inside functions."""
    found: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found.update(name if name in modules else node.module for name in names)
    return found.intersection(modules)


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_import_cycles() -> None:
    modules = {module_name(path): path for path in SOURCE.rglob("*.py")}
    graph = {name: top_level_imports(path, modules) for name, path in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
