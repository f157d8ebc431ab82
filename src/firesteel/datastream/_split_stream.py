"""Split and select: each record goes to the outputs that a function names. A layer over side outputs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic

from firesteel.common._did_you_mean import SuggestsNames
from firesteel.common._override import override
from firesteel.common._type_variables import TypeVar
from firesteel.contracts.checkpointing import Wrapping
from firesteel.contracts.functions import Function, ProcessFunction
from firesteel.contracts.output_tag import OutputTag
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.datastream._stream import DataStream
from firesteel.datastream._user_functions import check_callable, wrong_argument
from firesteel.plan.operator_specs import ProcessSpec
from firesteel.plan.shipped import Shipped

__all__ = ["OutputSelector", "SplitStream"]

T = TypeVar("T", covariant=True, default=Any)
IN = TypeVar("IN", contravariant=True, default=Any)


class OutputSelector(Function, Generic[IN]):
    """Names the outputs of a record: none, one or several."""

    @abstractmethod
    def select(self, value: IN, /) -> Iterable[str]:
        """Return the names of the outputs that get ``value``."""


class SplitStream(SuggestsNames, Generic[T]):
    """A stream whose records carry the names of the outputs they go to.

    >>> from firesteel.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> split = env.from_collection([1, 2, 3]).split(lambda n: ["even"] if n % 2 == 0 else ["odd"])
    >>> split.select("odd")
    DataStream('Split')
    """

    def __init__(self, stream: DataStream[T], selector: Callable[[T], Any] | OutputSelector[T]) -> None:
        check_callable(selector, "split()", OutputSelector)
        self._selector = Shipped.of(selector, "split()")
        self._selections: list[tuple[str, ...]] = []
        self._stream = stream._add("Split", ProcessSpec(self._shipped()), stream._type)
        self._type = stream._type

    def select(self, *output_names: str) -> DataStream[T]:
        """The records that go to any of these outputs, each once."""
        for name in output_names:
            if not isinstance(name, str) or not name:
                raise wrong_argument("select()", "names of outputs", name)
        if not output_names:
            raise wrong_argument("select()", "at least one name", output_names)
        if output_names not in self._selections:
            self._selections.append(output_names)
            # The operator emits one side output per selection, so it must know them all.
            self._stream._change("select()", spec=ProcessSpec(self._shipped()))
        return self._stream.get_side_output(OutputTag(_tag(output_names), self._type))

    def _shipped(self) -> Shipped:
        function = _Split(self._selector, tuple(self._selections))
        return Shipped.of(function, "split()").described(self._selector.description)


def _tag(names: tuple[str, ...]) -> str:
    """What only these names have: a name may have a comma in it."""
    return ",".join(name.replace("\\", "\\\\").replace(",", "\\,") for name in names)


class _Split(ProcessFunction[Any, Any], Wrapping):
    """Sends each record to the side outputs of the selections that it belongs to."""

    def __init__(self, selector: Shipped, selections: tuple[tuple[str, ...], ...]) -> None:
        self._shipped = selector
        self._selections = [(OutputTag(_tag(names)), frozenset(names)) for names in selections]
        self._selector: Any = None
        self._select: Callable[[Any], Any] | None = None

    @property
    @override
    def wrapped(self) -> Any:
        """The selector, unpacked when it is first needed."""
        if self._selector is None:
            self._selector = self._shipped.load()
        return self._selector

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        self._select = self.wrapped
        if isinstance(self._selector, OutputSelector):
            self._selector.open(runtime_context)
            self._select = self._selector.select

    @override
    def close(self) -> None:
        if isinstance(self._selector, OutputSelector):
            self._selector.close()

    @override
    def process_element(
        self, value: Any, ctx: ProcessFunction.Context
    ) -> Iterator[tuple[OutputTag[Any], Any]]:
        """Send the record on, to each selection once."""
        assert self._select is not None
        names = self._select(value)
        if isinstance(names, str):
            names = (names,)
        for tag, wanted in self._selections:
            if not wanted.isdisjoint(names):
                yield tag, value
