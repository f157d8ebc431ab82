"""A user's function inside a task: unpickled, opened once, closed once, called by its fastest name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from firesteel.common.errors import ProgramError
from firesteel.contracts.checkpointing import CheckpointedFunction
from firesteel.contracts.functions import Function
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.plan.shipped import Shipped


class UserFunction:
    """Plain callables and `Function` objects behind one face."""

    def __init__(self, shipped: Shipped) -> None:
        self.description = shipped.description
        self.instance: Any = _loaded(shipped)
        self._opened = False
        self._overrides: dict[str, Callable[..., Any]] = {}

    def override(self, name: str, call: Callable[..., Any]) -> None:
        """Let `method` answer ``call`` for ``name``."""
        self._overrides[name] = call

    def method(self, name: str) -> Callable[..., Any]:
        """The callable for ``name``: the object's method, or the object itself when it is a plain function."""
        if name in self._overrides:
            return self._overrides[name]
        attribute = getattr(self.instance, name, None)
        if isinstance(self.instance, Function) or (attribute is not None and not callable(self.instance)):
            assert callable(attribute), f"{self.description} has no method {name}"
            call: Callable[..., Any] = attribute
            return call
        return self.instance  # type: ignore[no-any-return]

    @property
    def is_rich(self) -> bool:
        """Whether it can have got hold of state: in an ``open`` of its own, or in ``initialize_state``."""
        has_open = isinstance(self.instance, Function) and type(self.instance).open is not Function.open
        return has_open or isinstance(self.instance, CheckpointedFunction)

    def open(self, runtime: RuntimeContext) -> None:
        """Call the function's ``open``, when it has one."""
        self._opened = True
        if isinstance(self.instance, Function):
            self.instance.open(runtime)

    def close(self) -> None:
        """Call the function's ``close``, when it has one and was opened."""
        if self._opened and isinstance(self.instance, Function):
            self._opened = False
            self.instance.close()


def _loaded(shipped: Shipped) -> Any:
    try:
        return shipped.load()
    except Exception as error:
        raise ProgramError(
            f"{shipped.description} cannot be loaded in this task: {type(error).__name__}: {error}; the modules that "
            "it needs must be there, too: ship them with env.add_python_file() or install them on the workers"
        ) from error
