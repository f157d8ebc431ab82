"""How much keyed state an operator has, as its metrics tell, also when the state has been closed."""

from __future__ import annotations

from firesteel.metrics import MetricGroup
from firesteel.state.keyed_backend import KeyedBackend

__all__ = ["StateFigures"]


class StateFigures:
    """Entries of states and timers that are in memory, and about how many bytes they take."""

    def __init__(self, state: KeyedBackend, group: MetricGroup) -> None:
        self._state = state
        self._last: tuple[int, int] | tuple[None, None] | None = None
        group.gauge("stateEntries", lambda: self._read()[0])
        group.gauge("stateSize", lambda: self._read()[1])

    def settle(self) -> None:
        """The state is about to be closed: the last report of the task tells what there was."""
        if self._last is None:
            try:
                self._last = self._state.in_memory()
            except Exception:  # noqa: BLE001 - a task that fails because of its state has to close, too
                self._last = (None, None)

    def _read(self) -> tuple[int, int] | tuple[None, None]:
        return self._state.in_memory() if self._last is None else self._last
