"""What a task asks of the shell that drives it: time, output, randomness. The only seam to the outside."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from firesteel.checkpoint.local_copies import LocalCopies
    from firesteel.checkpoint.storage import Storage
    from firesteel.plan.results import ResultOutput
    from firesteel.runtime.call_loop import CallLoop
    from firesteel.runtime.pace import Pace


class TaskServices(Protocol):
    """Implemented by the Spark shell and by the simulator."""

    job_id: str
    attempt: int
    random: random.Random
    pace: Pace

    def now(self) -> float:
        """Time in seconds since the epoch, which never goes back; the simulator's own clock in tests."""
        ...

    def wake(self) -> None:
        """Look at the sources again soon. May be called from any thread."""
        ...

    def call_loop(self) -> CallLoop:
        """The event loop of the task; the same one for all its operators."""
        ...

    def write_text(self, text: str, to_stderr: bool = False) -> None:
        """Show complete lines to whoever started the job."""
        ...

    def open_collection(self, collect_id: str, subtask: int, start: int, origin: int) -> ResultOutput:
        """The way for results to the driver, the first with the offset ``start``; may block while the driver is busy.

        Results before it were confirmed in attempt ``origin``. Whoever drives the task closes the way, when the task
        has done everything.
        """
        ...

    def storage(self, root: str) -> Storage:
        """The directory below which the files of a checkpoint are."""
        ...

    @property
    def local_copies(self) -> LocalCopies | None:
        """The copies of keyed state on this machine; None when the job keeps none."""
        ...

    def cached_file(self, name: str) -> str:
        """Local path of a file registered with the environment under ``name``."""
        ...
