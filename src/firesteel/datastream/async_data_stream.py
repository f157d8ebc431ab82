"""AsyncDataStream: slow calls for every record, many at a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import describe_function
from firesteel.common.time import AnyLength, millis_of
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.async_retry import AsyncRetryStrategy
from firesteel.contracts.functions import AsyncFunction
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.datastream._stream import DataStream, output_type_of
from firesteel.datastream._user_functions import refuse_checkpointed, ship_function, wrong_argument
from firesteel.plan.operator_specs import AsyncSpec
from firesteel.plan.shipped import Shipped

__all__ = ["AsyncDataStream"]

IN = TypeVar("IN", default=Any)
OUT = TypeVar("OUT", default=Any)

#: An `AsyncFunction`, an ``async def``, or a plain function, which is called in threads.
AnyAsyncFunction = AsyncFunction[IN, OUT] | Callable[[IN], Awaitable[list[OUT]]] | Callable[[IN], list[OUT]]


class AsyncDataStream:
    """Applies an `AsyncFunction` to a stream: up to ``capacity`` records wait for an answer at the same time.

    ``timeout`` is the time from the first call for a record to its results, with all attempts; 0 is no limit. Instead of
    an `AsyncFunction` there may be an ``async def``, or a plain function for a client that blocks: it is called in
    ``capacity`` threads.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream[IN],
        async_function: AnyAsyncFunction[IN, OUT],
        timeout: AnyLength,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results as they come; they do not overtake watermarks."""
        return _add("unordered_wait()", data_stream, async_function, timeout, None, capacity, output_type)

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream[IN],
        async_function: AnyAsyncFunction[IN, OUT],
        timeout: AnyLength,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results as they come; try failed calls again."""
        used_by = "unordered_wait_with_retry()"
        retry = _checked_strategy(used_by, async_retry_strategy)
        return _add(used_by, data_stream, async_function, timeout, retry, capacity, output_type)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream[IN],
        async_function: AnyAsyncFunction[IN, OUT],
        timeout: AnyLength,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results in the order of the records."""
        return _add("ordered_wait()", data_stream, async_function, timeout, None, capacity, output_type)

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream[IN],
        async_function: AnyAsyncFunction[IN, OUT],
        timeout: AnyLength,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream[OUT]:
        """Emit results in the order of the records; try failed calls again."""
        used_by = "ordered_wait_with_retry()"
        retry = _checked_strategy(used_by, async_retry_strategy)
        return _add(used_by, data_stream, async_function, timeout, retry, capacity, output_type)


def _add(
    used_by: str,
    stream: DataStream[Any],
    function: Any,
    timeout: AnyLength,
    retry: AsyncRetryStrategy[Any] | None,
    capacity: int,
    output_type: TypeInformation | None,
) -> DataStream[Any]:
    if not isinstance(stream, DataStream):
        raise wrong_argument(used_by, "a DataStream as its first argument", stream)
    if not isinstance(capacity, int) or isinstance(capacity, bool) or capacity < 1:
        raise wrong_argument(used_by, "a capacity of 1 or more records", capacity)
    refuse_checkpointed(retry, used_by, "keep what it needs in the AsyncFunction")
    spec = AsyncSpec(
        _ship(function, used_by, capacity),
        _millis(used_by, timeout),
        capacity,
        used_by.startswith("ordered"),
        None if retry is None else Shipped.of(retry, used_by),
    )
    name = "async wait operator"
    return stream._add(name, spec, output_type_of(used_by, output_type, function))


def _ship(function: Any, used_by: str, capacity: int) -> Shipped:
    if isinstance(function, AsyncFunction):
        if not inspect.iscoroutinefunction(function.async_invoke):
            raise wrong_argument(
                used_by,
                "an AsyncFunction whose async_invoke() is 'async def'",
                function,
                "declare it with 'async def', or give the plain function itself: it is called in threads then",
            )
        return ship_function(function, used_by, AsyncFunction)
    is_function = inspect.isfunction(function) or inspect.ismethod(function)
    if not is_function or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        expected = (
            "an AsyncFunction, an 'async def' of one value that returns a list, or a function that does"
        )
        raise wrong_argument(used_by, expected, function)
    try:
        inspect.signature(function).bind(None)
    except TypeError as error:
        raise wrong_argument(
            used_by, "a function of one value", function, f"it cannot be called so: {error}"
        ) from error
    adapter = _Awaited(function) if inspect.iscoroutinefunction(function) else _InThreads(function, capacity)
    return Shipped.of(adapter, used_by).described(describe_function(function))


def _millis(used_by: str, timeout: AnyLength) -> int:
    try:
        millis = millis_of(timeout)
    except TypeError:
        millis = -1
    if millis < 0:
        raise wrong_argument(used_by, "a time-out such as Time.seconds(5)", timeout)
    return millis


def _checked_strategy(used_by: str, strategy: Any) -> AsyncRetryStrategy[Any]:
    if not isinstance(strategy, AsyncRetryStrategy):
        raise wrong_argument(
            used_by, "an AsyncRetryStrategy", strategy, "for example AsyncRetryStrategy.fixed_delay(3, 100)"
        )
    return strategy


class _Awaited(AsyncFunction[Any, Any]):
    """An ``async def`` as an `AsyncFunction`."""

    def __init__(self, function: Callable[[Any], Awaitable[list[Any]]]) -> None:
        self._function = function

    @override
    async def async_invoke(self, value: Any) -> list[Any]:
        return await self._function(value)


class _InThreads(AsyncFunction[Any, Any]):
    """A function that blocks, called in threads."""

    def __init__(self, function: Callable[[Any], list[Any]], threads: int) -> None:
        self._function = function
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="firesteel-blocking-call")

    @override
    async def async_invoke(self, value: Any) -> list[Any]:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._function, value)

    @override
    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
