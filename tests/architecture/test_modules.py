"""Packages export what they say, and functions fit on a screen.

Ruff checks single modules: docstrings (D100, D104), `__all__` (F822, RUF022, RUF068).
"""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

from firesteel_support.public_line import public_packages

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
CHECKED = [SOURCE, ROOT / "tests" / "support"]
MOST_LINES = 60
FACADES = ["firesteel.common", "firesteel.datastream", "firesteel.state_processor", "firesteel.testing"]


def is_helper(attribute: str, value: object) -> bool:
    return attribute in {"annotations", "TYPE_CHECKING"} or getattr(value, "__module__", "") == "typing"


def test_packages_export_only_what_is_there() -> None:
    # Ruff leaves this out: in a package a name in __all__ may be a submodule that nobody has imported.
    packages = [".".join(path.parent.relative_to(SOURCE).parts) for path in SOURCE.rglob("__init__.py")]
    assert set(FACADES) <= set(packages) & public_packages().keys()
    modules = [importlib.import_module(name) for name in packages]
    missing = [
        f"{module.__name__}.{export}"
        for module in modules
        for export in getattr(module, "__all__", [])
        if not hasattr(module, export)
    ]
    assert missing == []


def test_facades_export_all_their_public_names() -> None:
    modules = [importlib.import_module(name) for name in FACADES]
    hidden = [
        f"{module.__name__}.{attribute}"
        for module in modules
        for attribute, value in vars(module).items()
        if not attribute.startswith("_")
        and not isinstance(value, ModuleType)
        and not is_helper(attribute, value)
        and attribute not in module.__all__
    ]
    assert hidden == []


def test_no_function_is_longer_than_a_screen() -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name} has {lines} lines"
        for folder in CHECKED
        for path in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > MOST_LINES
    ]
    assert long == []
