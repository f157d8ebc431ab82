"""Payloads that leave a task, in order, and which receivers still have one stuck on the way.

Spark hands a row to a Python task only when it has seen the next row for the same task. So the last
payload before a pause is followed by an empty *flush* row; under load the next payload does that job.
"""

from __future__ import annotations

FLUSH = b""


class Outbox:
    """Rows of (task of the next stage, payload)."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, bytes]] = []
        self._stuck: set[int] = set()

    def add(self, row: int, payload: bytes) -> None:
        """Append a payload for task ``row`` of the next stage."""
        self._rows.append((row, payload))

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, flush: bool) -> list[tuple[int, bytes]]:
        """All rows so far; with ``flush`` also what pushes the last one of each receiver through."""
        rows, self._rows = self._rows, []
        self._stuck.update(row for row, _ in rows)
        if flush and self._stuck:
            rows += [(row, FLUSH) for row in sorted(self._stuck)]
            self._stuck.clear()
        return rows
