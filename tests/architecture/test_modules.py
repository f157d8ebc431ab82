"""Every module says what it is for, and exports what it says."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

SOURCE = Path(__file__).parents[2] / "src"
FACADES = ["firesteel.common", "firesteel.datastream", "firesteel.state_processor", "firesteel.testing"]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
WITH_EXPORTS = [name for name, path in MODULES.items() if "\n__all__" in path.read_text(encoding="utf-8")]


def test_source_is_found() -> None:
    assert "firesteel" in MODULES


@pytest.mark.parametrize("name", MODULES)
def test_module_has_a_docstring(name: str) -> None:
    assert ast.get_docstring(ast.parse(MODULES[name].read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", WITH_EXPORTS)
def test_all_names_exist_once(name: str) -> None:
    # The order is ruff's business (RUF022); a list grouped on purpose carries its noqa.
    module = importlib.import_module(name)
    assert [export for export in module.__all__ if not hasattr(module, export)] == []
    assert len(set(module.__all__)) == len(module.__all__)


def is_helper(attribute: str, value: object) -> bool:
    return attribute in {"annotations", "TYPE_CHECKING"} or getattr(value, "__module__", "") == "typing"


@pytest.mark.parametrize("name", FACADES)
def test_facade_exports_all_its_public_names(name: str) -> None:
    if name not in MODULES:
        pytest.skip(f"{name} does not exist yet")
    module = importlib.import_module(name)
    public = {
        attribute
        for attribute, value in vars(module).items()
        if not attribute.startswith("_")
        and not isinstance(value, ModuleType)
        and not is_helper(attribute, value)
    }
    assert sorted(public - set(module.__all__)) == []
