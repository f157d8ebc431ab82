"""Window joins: ``a.join(b).where(k).equal_to(k).window(w).apply(f)``, and the same with ``co_group``.

Both are written on windows of the united streams: records are tagged with their side, keyed by their own
key, and every firing of a window gives both sides. So windows, triggers, evictors and lateness work as on any
windowed stream, and see the tagged records `(side, record)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from firesteel.common.errors import ProgramError
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.checkpointing import Wrapping
from firesteel.contracts.functions import Function, RuntimeContext, WindowFunction
from firesteel.contracts.joins import CoGroupFunction, FlatJoinFunction, JoinFunction
from firesteel.datastream.key_selectors import KeyLike, key_of
from firesteel.datastream.user_functions import wrong_argument

if TYPE_CHECKING:
    from firesteel.contracts.evictors import Evictor
    from firesteel.contracts.windows import Trigger, WindowAssigner
    from firesteel.datastream.keyed_stream import KeyedStream
    from firesteel.datastream.stream import DataStream
    from firesteel.datastream.windowed_stream import WindowedStream

__all__ = ["CoGroupedStreams", "JoinedStreams", "WindowedPair"]

FIRST, SECOND = 0, 1


class JoinedStreams:
    """Two streams whose records are to be paired within windows."""

    co_groups = False

    def __init__(self, first: DataStream, second: DataStream) -> None:
        self._first = first
        self._second = second

    def where(self, key_selector: KeyLike) -> Where:
        """The key of the first stream's records."""
        return Where(self, key_selector)


class CoGroupedStreams(JoinedStreams):
    """Two streams whose records are to be grouped within windows."""

    co_groups = True


class Where:
    """Knows the first key."""

    def __init__(self, streams: JoinedStreams, first_key: KeyLike) -> None:
        self._streams = streams
        self._first_key = first_key

    def equal_to(self, key_selector: KeyLike) -> EqualTo:
        """The key of the second stream's records."""
        return EqualTo(self._streams, self._first_key, key_selector)


class EqualTo:
    """Knows both keys."""

    def __init__(self, streams: JoinedStreams, first_key: KeyLike, second_key: KeyLike) -> None:
        self._streams = streams
        self._keys = (first_key, second_key)

    def window(self, assigner: WindowAssigner[Any, Any]) -> WindowedPair:
        """The windows that records of both sides must share."""
        windowed = self._united().window(assigner)
        first, second = self._streams._first, self._streams._second
        windowed._kept_records = {
            "records of the first stream": first._type,
            "records of the second stream": second._type,
        }
        return WindowedPair(windowed, self._streams.co_groups)

    def _united(self) -> KeyedStream:
        first, second = self._streams._first, self._streams._second
        keys = [
            key_of((key,), stream._type, None)
            for key, stream in zip(self._keys, (first, second), strict=True)
        ]
        getters = [key.selector.load() for key in keys]
        tagged = [
            stream.map(_Tag(side)).name(name)
            for side, stream, name in ((FIRST, first, "First Side"), (SECOND, second, "Second Side"))
        ]
        # Keys of two types may still be equal, such as 1 and 1.0; then neither type is that of all keys.
        key_type = keys[0].type if keys[0].type == keys[1].type else None
        return tagged[0].union(tagged[1]).key_by(_KeyOfEither(*map(_call, getters)), key_type=key_type)


class WindowedPair:
    """Both sides within windows, waiting for a function."""

    def __init__(self, windowed: WindowedStream, co_groups: bool) -> None:
        self._windowed = windowed
        self._co_groups = co_groups

    def trigger(self, trigger: Trigger[Any, Any]) -> WindowedPair:
        """When windows fire."""
        self._windowed = self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> WindowedPair:
        """What is removed from windows when they fire."""
        self._windowed = self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> WindowedPair:
        """How long windows wait for late records."""
        self._windowed = self._windowed.allowed_lateness(time_ms)
        return self

    def apply(
        self,
        function: JoinFunction | FlatJoinFunction | CoGroupFunction | Callable[[Any, Any], Any],
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """What the function makes of each pair (join) or of both sides at once (co_group)."""
        if isinstance(function, type):
            raise wrong_argument("apply()", "an object", function, "create it: apply(MyFunction())")
        window_function = _CoGroupWindow(function) if self._co_groups else _JoinWindow(function)
        name = "Co-Group" if self._co_groups else "Window Join"
        return self._windowed.apply(window_function, output_type).name(name)


class _Tag:
    """``record -> (side, record)``."""

    def __init__(self, side: int) -> None:
        self._side = side

    def __call__(self, value: Any) -> tuple[int, Any]:
        return (self._side, value)


class _KeyOfEither:
    """The key of a tagged record, by the selector of its side."""

    def __init__(self, first: Callable[[Any], Any], second: Callable[[Any], Any]) -> None:
        self._selectors = (first, second)

    def __call__(self, tagged: tuple[int, Any]) -> Any:
        return self._selectors[tagged[0]](tagged[1])


class _PairWindow(WindowFunction[Any, Any, Any, Any], Wrapping):
    """Splits what a window holds into its two sides; opens and closes the user's function."""

    method = "join"

    def __init__(self, function: Any) -> None:
        self._function = function
        self._call = getattr(function, self.method) if isinstance(function, Function) else function
        if not callable(self._call):
            raise ProgramError(f"apply() needs a function of both sides, got {function!r}")

    @property
    def wrapped(self) -> Any:
        return self._function

    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self._function, Function):
            self._function.open(runtime_context)

    def close(self) -> None:
        if isinstance(self._function, Function):
            self._function.close()

    def _sides(self, inputs: Iterable[tuple[int, Any]]) -> tuple[list[Any], list[Any]]:
        sides: tuple[list[Any], list[Any]] = ([], [])
        for side, value in inputs:
            sides[side].append(value)
        return sides


class _JoinWindow(_PairWindow):
    """Every pair of a window."""

    def apply(self, key: Any, window: Any, inputs: Iterable[tuple[int, Any]]) -> Iterator[Any]:
        first, second = self._sides(inputs)
        flat = isinstance(self._function, FlatJoinFunction)
        for left in first:
            for right in second:
                result = self._call(left, right)
                if not flat:
                    yield result
                elif result is not None:
                    yield from result


class _CoGroupWindow(_PairWindow):
    """Both sides of a window at once."""

    method = "co_group"

    def apply(self, key: Any, window: Any, inputs: Iterable[tuple[int, Any]]) -> Iterator[Any]:
        found = self._call(*self._sides(inputs))
        if found is not None:
            yield from found


def _call(selector: Any) -> Callable[[Any], Any]:
    """A selector as a plain callable, whatever form the user gave it in."""
    get_key = getattr(selector, "get_key", None)
    found: Callable[[Any], Any] = selector if get_key is None else get_key
    return found
