"""What a task asks of the shell that drives it: time, output, randomness. The only seam to the outside."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from firesteel.checkpoint.local_copies import LocalCopies
    from firesteel.checkpoint.storage import Storage


class TaskServices(Protocol):
    """Implemented by the Spark shell and by the simulator."""

    job_id: str
    attempt: int
    random: random.Random

    def now(self) -> float:
        """Time in seconds since the epoch; the simulator's own clock in tests."""
        ...

    def wake(self) -> None:
        """Look at the sources again soon. May be called from any thread."""
        ...

    def write_text(self, text: str, to_stderr: bool = False) -> None:
        """Show complete lines to whoever started the job."""
        ...

    def collect(self, collect_id: str, blob: bytes) -> None:
        """Hand a pickled list of records to the driver; may block while the driver is busy."""
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
