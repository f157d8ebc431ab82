"""State that survives from record to record: what user code reads and writes, and how it asks for it.

A descriptor names a state and its type; handing it to the runtime context in ``open`` gives the live
state. Keyed state always belongs to the key of the record at hand.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic

from firesteel.common._override import override
from firesteel.common._serialized_type import SerializedTypeInfo
from firesteel.common._type_variables import TypeVar
from firesteel.common.errors import (
    ProgramError,
    WrongArgumentError,
    describe_function,
    short_repr,
)
from firesteel.common.serializer import TypeSerializer
from firesteel.common.typeinfo import TypeInformation, Types
from firesteel.contracts.functions import AggregateFunction, ReduceFunction
from firesteel.contracts.state_ttl import StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "OperatorStateStore",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

T = TypeVar("T", default=Any)
K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)
ACC = TypeVar("ACC", default=Any)
S = TypeVar("S", covariant=True, bound="State", default=Any)
IN = TypeVar("IN", default=Any)
OUT = TypeVar("OUT", default=Any)


# Live state -----------------------------------------------------------------------------------------


class State(ABC):
    """What all kinds of state have: it can be forgotten."""

    @abstractmethod
    def clear(self) -> None:
        """Forget what is stored for the current key."""


class ValueState(State, Generic[T]):
    """One value for each key."""

    @abstractmethod
    def value(self) -> T | None:
        """The value, None when nothing was stored."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Store ``value``; None clears."""


class AppendingState(State, Generic[IN, OUT]):
    """Something that values are added to."""

    @abstractmethod
    def get(self) -> OUT:
        """What the added values amount to."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Take one more value in; how depends on the kind of state."""


class MergingState(AppendingState[IN, OUT]):
    """An appending state of which two can become one, as merging session windows need."""


class ReducingState(MergingState[T, T | None]):
    """The reduction of all values added, None when there are none."""


class AggregatingState(MergingState[IN, OUT | None]):
    """The aggregate of all values added, None when there are none."""


class ListState(MergingState[T, Iterable[T]]):
    """A list for each key, in the order in which values were added."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace the list; an empty one clears."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Append several values."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class _Mapping(State, Generic[K, V]):
    """The reading half of a map, with Python's notation for it."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value under ``key``, None when there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether there is a value under ``key``."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Pairs of key and value."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """All keys that have a value."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """All values; `items` has them with their keys."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nothing is stored."""

    def __getitem__(self, key: K) -> V:
        # As lists and dicts are typed: who writes state[key] knows that it is there; get() is for who does not.
        return self.get(key)  # type: ignore[return-value]

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _MutableMapping(_Mapping[K, V]):
    """The writing half of a map, with Python's notation for it."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Store ``value`` under ``key``."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Store all pairs of a dict."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Forget the value under ``key``; nothing happens when there is none."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_MutableMapping[K, V]):
    """A map; reads and writes single entries without touching the rest."""


class ReadOnlyBroadcastState(_Mapping[K, V]):
    """Broadcast state as the side that is not broadcast sees it."""


class BroadcastState(_MutableMapping[K, V], ReadOnlyBroadcastState[K, V]):
    """A map with the same content in every subtask, provided that each one writes the same."""


class OperatorStateStore(ABC):
    """Hands out state that belongs to a subtask rather than to a key."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """Broadcast state of that name: a map that is the same in every subtask."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """A list of the subtask; when the parallelism changes the elements of all lists are dealt out evenly."""

    @abstractmethod
    def get_union_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """A list of the subtask; after a restart every subtask gets the elements of all lists, and picks its own."""


# Descriptors ----------------------------------------------------------------------------------------


#: What descriptors take: a type, or what writes values of the type into checkpoints and reads them back.
AnyType = TypeInformation[T] | TypeSerializer[T]


class StateDescriptor(ABC, Generic[S]):
    """Name and type of a state; states of one operator are told apart by name."""

    def __init__(self, name: str, type_info: AnyType[Any]) -> None:
        if not name:
            raise ProgramError(f"a state needs a name: {type(self).__name__}('count', ...)")
        self.name = name
        self.type_info = _declared(type(self), name, type_info)
        self._ttl_config: StateTtlConfig | None = None
        self._queryable_name: str | None = None
        self._version = 0
        self._migrate: Callable[[Any, int], Any] | None = None
        self._old_names: tuple[str, ...] = ()

    def get_name(self) -> str:
        """What the state is called, in savepoints too."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let values expire as the configuration says; the last call counts."""
        self._ttl_config = ttl_config

    def get_ttl_config(self) -> StateTtlConfig | None:
        """When values expire; None for never."""
        config = self._ttl_config
        return config if config is not None and config.is_enabled() else None

    def set_queryable(self, queryable_state_name: str) -> None:
        """Let others ask for this state while the job runs, under a name that no other state of the job has.

        See docs/queryable_state.md. It costs nothing, and does nothing unless 'queryable-state.enable' is true.
        """
        if not isinstance(queryable_state_name, str) or not queryable_state_name:
            raise WrongArgumentError(
                f"set_queryable() of {self!r} needs the name under which others ask for the state, got "
                f"{short_repr(queryable_state_name)}"
            )
        if self._queryable_name is not None:
            raise ProgramError(
                f"{self!r} is queryable as {self._queryable_name!r} already, and a state has one such name only; "
                f"set_queryable({queryable_state_name!r}) would be a second one"
            )
        self._queryable_name = queryable_state_name

    def is_queryable(self) -> bool:
        """Whether others may ask for this state."""
        return self._queryable_name is not None

    def get_queryable_state_name(self) -> str | None:
        """The name under which others ask for this state; None when they may not."""
        return self._queryable_name

    # Evolution: a job resumes from a savepoint that an older version of the program has written.

    def set_version(self, version: int, migrate: Callable[[Any, int], Any] | None = None) -> None:
        """Say which version the values of this state are; 0 when nothing is said.

        ``migrate(value, version)`` converts a value that was saved with another version, once, when the state is
        restored: the value of a value state, each element of a list, each value of a map, what a reducing state has
        reduced, the accumulator of an aggregating state. The type of the state may change with the version.

        >>> descriptor = ValueStateDescriptor("price", Types.DOUBLE())
        >>> descriptor.set_version(1, lambda cents, version: cents / 100)
        """
        if version < 0:
            raise ProgramError(f"the version of {self!r} must not be negative, got {version}")
        if migrate is not None and not callable(migrate):
            raise ProgramError(
                f"set_version() of {self!r} needs a function of value and version as migrate, got {short_repr(migrate)}"
            )
        self._version = version
        self._migrate = migrate

    def get_version(self) -> int:
        """The version of the values."""
        return self._version

    def get_migration(self) -> Callable[[Any, int], Any] | None:
        """What converts values of other versions."""
        return self._migrate

    def renamed_from(self, *old_names: str) -> None:
        """Names that the state had before: what was saved under one of them is restored into this one."""
        self._old_names = (*self._old_names, *old_names)

    def get_old_names(self) -> tuple[str, ...]:
        """Names that the state had before."""
        return self._old_names

    @override
    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ValueStateDescriptor(StateDescriptor[ValueState[T]], Generic[T]):
    """Name and type of a `ValueState`."""

    def __init__(self, name: str, value_type_info: AnyType[T]) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor[ListState[T]], Generic[T]):
    """Name of a `ListState` and type of its elements."""

    def __init__(self, name: str, elem_type_info: AnyType[T]) -> None:
        self.element_type_info = _declared(type(self), name, elem_type_info)
        super().__init__(name, Types.LIST(self.element_type_info))


class MapStateDescriptor(StateDescriptor[MapState[K, V]], Generic[K, V]):
    """Describes a `MapState` or a `BroadcastState`."""

    def __init__(self, name: str, key_type_info: AnyType[K], value_type_info: AnyType[V]) -> None:
        self.key_type_info = _declared(type(self), name, key_type_info)
        self.value_type_info = _declared(type(self), name, value_type_info)
        super().__init__(name, Types.MAP(self.key_type_info, self.value_type_info))


class _CallableReduce(ReduceFunction[Any]):
    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self._function = function

    @override
    def reduce(self, value1: Any, value2: Any) -> Any:
        """What the function makes of both."""
        return self._function(value1, value2)


class ReducingStateDescriptor(StateDescriptor[ReducingState[T]], Generic[T]):
    """Name and type of a `ReducingState`, and the function that makes one value of two."""

    def __init__(
        self,
        name: str,
        reduce_function: ReduceFunction[T] | Callable[[T, T], T],
        type_info: AnyType[T],
    ) -> None:
        super().__init__(name, type_info)
        if not isinstance(reduce_function, ReduceFunction):
            if not callable(reduce_function):
                raise _wrong_function(self, "a ReduceFunction or a function of two values", reduce_function)
            reduce_function = _CallableReduce(reduce_function)
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> ReduceFunction[T]:
        """The function, as an object with a ``reduce`` method."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor[AggregatingState[IN, OUT]], Generic[IN, OUT]):
    """Name of an `AggregatingState`, its function, and the type of accumulators."""

    def __init__(
        self, name: str, agg_function: AggregateFunction[IN, ACC, OUT], state_type_info: AnyType[ACC]
    ) -> None:
        super().__init__(name, state_type_info)
        if not isinstance(agg_function, AggregateFunction):
            raise _wrong_function(self, "an AggregateFunction", agg_function)
        self._agg_function = agg_function

    def get_agg_function(self) -> AggregateFunction[IN, Any, OUT]:
        """The function; savepoints have its accumulators alone."""
        return self._agg_function


class _WrongStateFunctionError(ProgramError, TypeError):
    """A descriptor was given something that is not the function it needs."""


def _declared(kind: type[StateDescriptor], name: str, type_info: AnyType[Any]) -> TypeInformation:
    """The type of a state, if it is one; None says nothing about the values."""
    if type_info is None or isinstance(type_info, TypeInformation):
        return type_info
    if isinstance(type_info, TypeSerializer):
        return SerializedTypeInfo(type_info)
    raise WrongArgumentError(
        f"{kind.__name__}({name!r}) needs types such as Types.STRING(), or a TypeSerializer, got "
        f"{short_repr(type_info)} ({type(type_info).__name__}); Types.PICKLED_BYTE_ARRAY() stands for any object"
    )


def _wrong_function(descriptor: StateDescriptor, expected: str, got: object) -> _WrongStateFunctionError:
    return _WrongStateFunctionError(f"{descriptor!r} needs {expected}, got {describe_function(got)}")
