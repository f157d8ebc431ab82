"""``import pyflink`` means Firesteel: PyFlink programs run unchanged.

After `install`, importing ``pyflink.x.y`` gives the very module ``firesteel.x.y``, so that classes
imported under either name are the same. ``python -m firesteel.pyflink_alias job.py`` installs it and
runs a program.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from firesteel.common.errors import MissingModuleError

__all__ = ["OPTION", "install", "is_installed", "main", "run", "uninstall"]

#: Set to ``true`` in the options of a job whose program runs under the alias: its tasks must `install` it, too,
#: because functions and modules of the program may import ``pyflink`` there.
OPTION = "firesteel.pyflink-alias"

_ALIAS = "pyflink"
_PACKAGE = "firesteel"

_UNKNOWN = "Firesteel does not have it (yet)"


class _AliasLoader:
    """Hands out a module that exists under another name."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._own_spec: Any = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of Firesteel itself; its spec is kept for `exec_module`."""
        module = importlib.import_module(self._target)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to execute; the import system has put the alias's spec on the module, which is not its own."""
        module.__spec__ = self._own_spec


class _AliasFinder:
    """Finds ``pyflink`` and everything below it in Firesteel."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of an alias; a sentence for what Firesteel does not have."""
        package, _, rest = fullname.partition(".")
        if package != _ALIAS:
            return None
        own_name = f"{_PACKAGE}.{rest}" if rest else _PACKAGE
        reason = _UNKNOWN
        try:
            is_there = importlib.util.find_spec(own_name) is not None
        except ModuleNotFoundError as error:  # Firesteel itself has words for some
            is_there, reason = False, getattr(error, "reason", reason)
        if not is_there:
            raise MissingModuleError(fullname, reason)
        return ModuleSpec(fullname, _AliasLoader(own_name))  # type: ignore[arg-type]


_finder = _AliasFinder()


def is_installed() -> bool:
    """Whether ``import pyflink`` means Firesteel in this process."""
    return _finder in sys.meta_path


def install() -> None:
    """Let ``import pyflink`` mean Firesteel, also where Apache's PyFlink is installed."""
    if is_installed():
        return
    if _ALIAS in sys.modules:
        raise ImportError(
            "pyflink has already been imported in this process, and not as Firesteel; "
            "install the alias before the first import"
        )
    sys.meta_path.insert(0, _finder)


def uninstall() -> None:
    """Undo `install`; modules that were imported by the alias forget that name."""
    if is_installed():
        sys.meta_path.remove(_finder)
        for name in [name for name in sys.modules if name == _ALIAS or name.startswith(f"{_ALIAS}.")]:
            del sys.modules[name]


def run(script: str, arguments: Sequence[str] = ()) -> None:
    """Run a PyFlink program as ``python script arguments...`` would."""
    if not os.path.exists(script):
        raise FileNotFoundError(f"there is no program {os.path.abspath(script)}")
    install()
    sys.argv = [script, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    # As __main__, so that cloudpickle ships its functions by value: the tasks cannot import the script.
    runpy.run_path(script, run_name="__main__")


def main() -> None:
    """Run the program named on the command line."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit("usage: python -m firesteel.pyflink_alias job.py [argument ...]")
    run(sys.argv[1], sys.argv[2:])


if __name__ == "__main__":
    # The module runs under another name here; programs and tasks must see the one they can import.
    from firesteel.pyflink_alias import main as imported_main

    imported_main()
