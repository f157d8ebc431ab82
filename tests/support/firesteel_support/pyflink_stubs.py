"""Writes ``src/pyflink-stubs``: what type checkers read for ``import pyflink`` in programs that run with the alias.

    python -m firesteel_support.pyflink_stubs       (with tests/support on the path)

Each stub says that a module of PyFlink has the names of Firesteel's module. A test compares the files with `stubs`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from firesteel_support.public_line import PYFLINK, SOURCE, public_packages

__all__ = ["FOLDER", "main", "stubs"]

FOLDER = SOURCE / "pyflink-stubs"


def stubs() -> dict[Path, str]:
    """The text of every stub by its path below `FOLDER`: the public modules of the packages that PyFlink has, too."""
    modules = {"firesteel", *PYFLINK}
    for package, names in PYFLINK.items():
        modules |= {f"{package}.{name}" for name in names | public_packages().get(package, set())}
    return {_path(module): f"from {module} import *\n" for module in sorted(modules) if _is_there(module)}


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # what PyFlink has and Firesteel has a sentence for
        return False


def _path(module: str) -> Path:
    below = Path(*module.split(".")[1:])
    spec = importlib.util.find_spec(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    return below / "__init__.pyi" if is_package else below.with_suffix(".pyi")


def main() -> None:
    """Write them all, and remove what is none of them."""
    wanted = stubs()
    for path in FOLDER.rglob("*.pyi"):
        if path.relative_to(FOLDER) not in wanted:
            path.unlink()
    for path, text in wanted.items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
