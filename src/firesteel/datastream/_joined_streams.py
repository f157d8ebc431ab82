"""Window joins: ``a.join(b).where(k).equal_to(k).window(w).apply(f)``, and the same with ``co_group``.

Both are written on windows of the united streams: records are tagged with their side, keyed by their own
key, and every firing of a window gives both sides. So windows, triggers, evictors and lateness work as on any
windowed stream, and see the tagged records `(side, record)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from firesteel.common._did_you_mean import SuggestsNames
from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import ProgramError
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.checkpointing import Wrapping
from firesteel.contracts.functions import Function, KeySelector, RuntimeContext, WindowFunction
from firesteel.contracts.joins import CoGroupFunction, FlatJoinFunction, JoinFunction
from firesteel.datastream._annotations import Annotation
from firesteel.datastream._key_selectors import KeyLike, key_of
from firesteel.datastream._user_functions import check_callable, wrong_argument
from firesteel.plan.keys import AsksOthers, KeyRule

if TYPE_CHECKING:
    from firesteel.contracts.evictors import Evictor
    from firesteel.contracts.windows import Trigger, WindowAssigner
    from firesteel.datastream._keyed_stream import KeyedStream
    from firesteel.datastream._stream import DataStream
    from firesteel.datastream._windowed_stream import WindowedStream

__all__ = ["CoGroupedStreams", "JoinedStreams", "WindowedGroups", "WindowedPair"]

T1 = TypeVar("T1", covariant=True, default=Any)
T2 = TypeVar("T2", covariant=True, default=Any)
K = TypeVar("K", default=Any)
OUT = TypeVar("OUT", default=Any)
#: What becomes of both sides in the end: a `WindowedPair` or `WindowedGroups`.
PAIR = TypeVar("PAIR", covariant=True, default=Any)

FIRST, SECOND = 0, 1


class JoinedStreams(SuggestsNames, Generic[T1, T2]):
    """Two streams whose records are to be paired within windows."""

    co_groups = False

    def __init__(self, first: DataStream[T1], second: DataStream[T2]) -> None:
        self._first = first
        self._second = second

    def where(
        self, key_selector: Callable[[T1], K] | KeySelector[T1, K] | int | str
    ) -> Where[T2, K, WindowedPair[T1, T2]]:
        """The key of the first stream's records."""
        return Where(self, key_selector)


class CoGroupedStreams(JoinedStreams[T1, T2]):
    """Two streams whose records are to be grouped within windows."""

    co_groups = True

    if TYPE_CHECKING:

        @override
        def where(
            self, key_selector: Callable[[T1], K] | KeySelector[T1, K] | int | str
        ) -> Where[T2, K, WindowedGroups[T1, T2]]: ...


class Where(SuggestsNames, Generic[T2, K, PAIR]):
    """Knows the first key."""

    def __init__(self, streams: JoinedStreams, first_key: KeyLike) -> None:
        self._streams = streams
        self._first_key = first_key

    def equal_to(self, key_selector: Callable[[T2], K] | KeySelector[T2, K] | int | str) -> EqualTo[PAIR]:
        """The key of the second stream's records."""
        return EqualTo(self._streams, self._first_key, key_selector)


class EqualTo(SuggestsNames, Generic[PAIR]):
    """Knows both keys."""

    def __init__(self, streams: JoinedStreams, first_key: KeyLike, second_key: KeyLike) -> None:
        self._streams = streams
        self._keys = (first_key, second_key)

    def window(self, assigner: WindowAssigner[Any, Any]) -> PAIR:
        """The windows that records of both sides must share."""
        windowed = self._united().window(assigner)
        first, second = self._streams._first, self._streams._second
        windowed._kept_records = {
            "records of the first stream": first._type,
            "records of the second stream": second._type,
        }
        kind: Any = WindowedGroups if self._streams.co_groups else WindowedPair
        pair: PAIR = kind(windowed, self._streams.co_groups)
        return pair

    def _united(self) -> KeyedStream:
        first, second = self._streams._first, self._streams._second
        keys = [
            key_of((key,), stream._type, None, annotation=stream._annotation)
            for key, stream in zip(self._keys, (first, second), strict=True)
        ]
        selectors = [KeyRule.of(key.selector.load()).selector for key in keys]
        tagged = [
            stream.map(_Tag(side)).name(name)
            for side, stream, name in ((FIRST, first, "First Side"), (SECOND, second, "Second Side"))
        ]
        # Keys of two types may still be equal, such as 1 and 1.0; then neither type is that of all keys.
        key_type = keys[0].type if keys[0].type == keys[1].type else None
        return tagged[0].union(tagged[1]).key_by(_KeyOfEither(*selectors), key_type=key_type)


class WindowedPair(SuggestsNames, Generic[T1, T2]):
    """Both sides within windows, waiting for a function of each pair."""

    def __init__(self, windowed: WindowedStream, co_groups: bool) -> None:
        self._windowed = windowed
        self._co_groups = co_groups

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """When windows fire."""
        self._windowed = self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """What is removed from windows when they fire."""
        self._windowed = self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> Self:
        """How long windows wait for late records."""
        self._windowed = self._windowed.allowed_lateness(time_ms)
        return self

    @overload
    def apply(
        self,
        function: JoinFunction[T1, T2, OUT] | FlatJoinFunction[T1, T2, OUT] | Callable[[T1, T2], OUT],
    ) -> DataStream[OUT]: ...

    @overload
    def apply(
        self,
        function: JoinFunction[T1, T2, Any] | FlatJoinFunction[T1, T2, Any] | Callable[[T1, T2], Any],
        output_type: TypeInformation[OUT] | None,
    ) -> DataStream[OUT]: ...

    def apply(self, function: Any, output_type: TypeInformation | None = None) -> DataStream[Any]:
        """What the function makes of each pair (join) or of both sides at once (co_group)."""
        if isinstance(function, type):
            raise wrong_argument("apply()", "an object", function, "create it: apply(MyFunction())")
        kind: type[Function] = CoGroupFunction if self._co_groups else JoinFunction
        if isinstance(function, FlatJoinFunction) and not self._co_groups:
            kind = FlatJoinFunction
        check_callable(function, "apply()", kind, arguments=2, may_yield=self._co_groups)
        window_function = _CoGroupWindow(function) if self._co_groups else _JoinWindow(function)
        name = "Co-Group" if self._co_groups else "Window Join"
        stream = self._windowed.apply(window_function, output_type).name(name)
        of_many = self._co_groups or isinstance(function, FlatJoinFunction)
        annotation = Annotation.of_each_result if of_many else Annotation.of_results
        return stream._annotated(annotation(function, window_function.method))


class WindowedGroups(WindowedPair[T1, T2]):
    """Both sides within windows, waiting for a function of both at once."""

    if TYPE_CHECKING:

        @overload  # type: ignore[override]  # a function of two lists, and not of two records
        def apply(
            self,
            function: CoGroupFunction[T1, T2, OUT] | Callable[[list[T1], list[T2]], Iterable[OUT] | None],
        ) -> DataStream[OUT]: ...
        @overload
        def apply(
            self,
            function: CoGroupFunction[T1, T2, Any] | Callable[[list[T1], list[T2]], Iterable[Any] | None],
            output_type: TypeInformation[OUT] | None,
        ) -> DataStream[OUT]: ...
        @override
        def apply(self, function: Any, output_type: Any = None) -> DataStream[Any]: ...


class _Tag:
    """``record -> (side, record)``."""

    def __init__(self, side: int) -> None:
        self._side = side

    def __call__(self, value: Any) -> tuple[int, Any]:
        return (self._side, value)


class _KeyOfEither(KeySelector[Any, Any], AsksOthers):
    """The key of a tagged record, by the selector of its side."""

    def __init__(self, first: Any, second: Any) -> None:
        self._rich = [part for part in (first, second) if isinstance(part, KeySelector)]
        self.asks = (_call(first), _call(second))

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        for part in self._rich:
            part.open(runtime_context)

    @override
    def close(self) -> None:
        with ExitStack() as last:
            for part in self._rich:
                last.callback(part.close)

    @override
    def get_key(self, tagged: tuple[int, Any]) -> Any:
        return self.asks[tagged[0]](tagged[1])


class _PairWindow(WindowFunction[Any, Any, Any, Any], Wrapping):
    """Splits what a window holds into its two sides; opens and closes the user's function."""

    method = "join"

    def __init__(self, function: Any) -> None:
        self._function = function
        self._call = getattr(function, self.method) if isinstance(function, Function) else function
        if not callable(self._call):
            raise ProgramError(f"apply() needs a function of both sides, got {function!r}")

    @property
    @override
    def wrapped(self) -> Any:
        return self._function

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        if isinstance(self._function, Function):
            self._function.open(runtime_context)

    @override
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

    @override
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

    @override
    def apply(self, key: Any, window: Any, inputs: Iterable[tuple[int, Any]]) -> Iterator[Any]:
        results = self._call(*self._sides(inputs))
        if results is not None:
            yield from results


def _call(selector: Any) -> Callable[[Any], Any]:
    """A selector as a plain callable, whatever form the user gave it in."""
    get_key = getattr(selector, "get_key", None)
    function: Callable[[Any], Any] = selector if get_key is None else get_key
    return function
