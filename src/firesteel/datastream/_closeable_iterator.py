"""Results of a job that comes back to the program while the job runs."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol

from firesteel.common._type_variables import TypeVar

if TYPE_CHECKING:
    from firesteel.common.completable_future import CompletableFuture

__all__ = ["CloseableIterator", "CollectingJob"]

T = TypeVar("T", covariant=True, default=Any)


class CollectingJob(Protocol):
    """What the iterator needs of a job client."""

    def collect_results(self, collect_id: str) -> Iterator[Any]:
        """The results as they come; ends with the job, raises what failed it."""
        ...

    def cancel(self) -> CompletableFuture:
        """End the job; done when it has ended."""
        ...


class CloseableIterator(Generic[T]):
    """Iterates over results as the job produces them; closing it early cancels the job.

    ::

        with stream.execute_and_collect() as results:
            for result in results:
                ...
    """

    def __init__(self, job: CollectingJob, collect_id: str) -> None:
        self._job = job
        self._results = job.collect_results(collect_id)
        self._open = True

    def __iter__(self) -> CloseableIterator[T]:
        return self

    def __next__(self) -> T:
        return self.next()

    def next(self) -> T:
        """The next result; waits for it, and raises StopIteration after the last."""
        if not self._open:
            raise StopIteration
        try:
            result: T = next(self._results)
            return result
        except KeyboardInterrupt:
            self.close()
            raise
        except BaseException:  # the last result or the job's failure: either way the job is over
            self._open = False
            raise

    def close(self) -> None:
        """Cancel the job if it still runs, and wait for its end."""
        if self._open:
            self._open = False
            self._job.cancel().result()

    def __enter__(self) -> CloseableIterator[T]:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
