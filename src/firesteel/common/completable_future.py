"""CompletableFuture, the result of something that a job client asked for and that takes time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from firesteel.common._override import override

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["CompletableFuture"]


class CompletableFuture:
    """A thin cover of `concurrent.futures.Future` with PyFlink's methods.

    >>> future = CompletableFuture()
    >>> future.done(), future.complete(3), future.result()
    (False, True, 3)
    """

    def __init__(
        self, future: Future[Any] | None = None, convert: Callable[[Any], Any] | None = None
    ) -> None:
        if future is None:
            from concurrent.futures import Future  # imported late: it loads logging, which costs 10 ms

            future = Future()
        self._future = future
        self._convert = convert

    @staticmethod
    def completed(value: Any) -> CompletableFuture:
        """Return a future that already has its result."""
        future = CompletableFuture()
        future.complete(value)
        return future

    @staticmethod
    def failed(error: BaseException) -> CompletableFuture:
        """Return a future that already has failed."""
        future = CompletableFuture()
        future.complete_exceptionally(error)
        return future

    def complete(self, value: Any) -> bool:
        """Set the result; tells whether this call was the one that did."""
        return self._finish(lambda: self._future.set_result(value))

    def complete_exceptionally(self, error: BaseException) -> bool:
        """Set the failure; tells whether this call was the one that did."""
        return self._finish(lambda: self._future.set_exception(error))

    def _finish(self, action: Callable[[], None]) -> bool:
        from concurrent.futures import InvalidStateError

        try:
            action()
        except InvalidStateError:
            return False
        return True

    def cancel(self) -> bool:
        """Give up waiting, unless it is done; tells whether the future is cancelled now."""
        return self._future.cancel()

    def cancelled(self) -> bool:
        """Tell whether it was cancelled before it was done."""
        return self._future.cancelled()

    def done(self) -> bool:
        """Tell whether it ended: with a result, a failure or cancelled."""
        return self._future.done()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result and return it; a failure is raised."""
        value = self._future.result(timeout)
        return value if self._convert is None else self._convert(value)

    def exception(self) -> BaseException | None:
        """Return the failure, or None when there is none (yet); does not wait."""
        if self._future.cancelled():
            from concurrent.futures import CancelledError

            return CancelledError()
        return self._future.exception() if self._future.done() else None

    def add_done_callback(self, callback: Callable[[CompletableFuture], None]) -> None:
        """Call `callback` with this future once it is done, at once if it is."""
        self._future.add_done_callback(lambda _: callback(self))

    def __await__(self) -> Generator[Any, None, Any]:
        """Wait for the result in a coroutine: ``await future``; not in PyFlink."""
        import asyncio

        value = yield from asyncio.wrap_future(self._future).__await__()
        return value if self._convert is None else self._convert(value)

    @override
    def __str__(self) -> str:
        return f"CompletableFuture({'done' if self.done() else 'pending'})"
