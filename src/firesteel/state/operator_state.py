"""State that belongs to a subtask rather than to a key: lists, and broadcast state.

A list is redistributed when the parallelism changes, a union list is given whole to everybody. Broadcast state is a
map that is the same in every subtask: the broadcast side of a function writes it, the other side gets a view
that refuses to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from firesteel.common._override import override
from firesteel.common.errors import CorruptStateError, ProgramError, UnsupportedOperationError, short_repr
from firesteel.contracts.state import (
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorStateStore,
    ReadOnlyBroadcastState,
    StateDescriptor,
)
from firesteel.plan.state_handles import StateMeta, StateMode
from firesteel.state.snapshot.keyed_snapshot import read_block, write_block
from firesteel.state.state_migration import migration
from firesteel.state.state_registry import meta_of, needs_migration
from firesteel.state.user_serializers import Encode, evolution, item_encoding

__all__ = ["HeapBroadcastState", "OperatorStateBackend", "ReadOnlyView", "SubtaskListState"]


class ReadOnlyView(ReadOnlyBroadcastState[Any, Any]):
    """Broadcast state as the side that is not broadcast sees it."""

    def __init__(self, name: str, table: dict[Any, Any]) -> None:
        self._name = name
        self._table = table

    @override
    def get(self, key: Any) -> Any:
        """The value under ``key``, None when there is none."""
        return self._table.get(key)

    @override
    def contains(self, key: Any) -> bool:
        """Whether there is a value under ``key``."""
        return key in self._table

    @override
    def items(self) -> Iterable[tuple[Any, Any]]:
        """Pairs of key and value; a copy."""
        return list(self._table.items())

    @override
    def keys(self) -> Iterable[Any]:
        return list(self._table)

    @override
    def values(self) -> Iterable[Any]:
        return list(self._table.values())

    @override
    def is_empty(self) -> bool:
        return not self._table

    @override
    def clear(self) -> None:
        """Only the broadcast side may."""
        self._refuse("clear()")

    def put(self, key: Any, value: Any) -> None:
        """Only the broadcast side may."""
        self._refuse("put()")

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Only the broadcast side may."""
        self._refuse("put_all()")

    def remove(self, key: Any) -> None:
        """Only the broadcast side may."""
        self._refuse("remove()")

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse("assignment")

    def __delitem__(self, key: Any) -> None:
        self._refuse("del")

    def _refuse(self, what: str) -> NoReturn:
        raise UnsupportedOperationError(
            f"{what} on broadcast state {self._name!r}: it is read only here, because only what arrives in every "
            "subtask may change it; change it in process_broadcast_element()"
        )


class HeapBroadcastState(ReadOnlyView, BroadcastState[Any, Any]):
    """Broadcast state as the broadcast side sees it."""

    @override
    def clear(self) -> None:
        self._table.clear()

    @override
    def put(self, key: Any, value: Any) -> None:
        self._table[key] = value

    @override
    def put_all(self, dict_value: dict[Any, Any]) -> None:
        """Store all pairs of a dict."""
        self._table.update(dict_value)

    @override
    def remove(self, key: Any) -> None:
        """Forget the value under ``key``; nothing happens when there is none."""
        self._table.pop(key, None)

    @override
    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    @override
    def __delitem__(self, key: Any) -> None:
        self.remove(key)


class SubtaskListState(ListState[Any]):
    """A list of one subtask."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    @override
    def get(self) -> Iterable[Any]:
        return list(self.items)

    @override
    def add(self, value: Any) -> None:
        self.items.append(value)

    @override
    def add_all(self, values: list[Any]) -> None:
        self.items.extend(values)

    @override
    def update(self, values: list[Any]) -> None:
        self.items = list(values)

    @override
    def clear(self) -> None:
        self.items = []


class OperatorStateBackend(OperatorStateStore):
    """The list, union list and broadcast states of one operator's subtask.

    ``descriptors`` are those that were given to ``broadcast()``. What was restored waits until its state is registered,
    and goes into snapshots as it is until then.
    """

    def __init__(self, descriptors: Iterable[MapStateDescriptor] = (), operator: str = "") -> None:
        self._operator = operator
        self._declared: set[str] = set()
        self._metas: dict[str, StateMeta] = {}
        self._encoders: dict[str, Encode] = {}  # of states for which the user has written a serializer
        self._lists: dict[str, SubtaskListState] = {}
        self._restored: dict[str, _RestoredState] = {}
        self._restored_metas: dict[str, StateMeta] = {}
        #: What each broadcast state holds.
        self.tables: dict[str, dict[Any, Any]] = {}
        self._states: dict[str, HeapBroadcastState] = {}
        self._views: dict[str, ReadOnlyView] = {}
        self.declare(descriptors)

    # States -------------------------------------------------------------------------------------------

    @override
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of this subtask; redistributed evenly when the parallelism changes."""
        return self._list(state_descriptor, StateMode.SPLIT)

    @override
    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """A list of this subtask; after a restart every subtask gets those of all."""
        return self._list(state_descriptor, StateMode.UNION)

    @override
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A map that is the same in every subtask."""
        name = state_descriptor.get_name()
        restored = self._register(state_descriptor, StateMode.BROADCAST, "map")
        if name not in self._states:
            table = self.tables[name] = dict(restored)
            self._states[name] = HeapBroadcastState(name, table)
            self._views[name] = ReadOnlyView(name, table)
        return self._states[name]

    def _list(self, descriptor: ListStateDescriptor, mode: StateMode) -> ListState[Any]:
        restored = self._register(descriptor, mode, "list")
        return self._lists.setdefault(descriptor.get_name(), SubtaskListState(restored))

    # Broadcast streams --------------------------------------------------------------------------------

    def declare(self, descriptors: Iterable[MapStateDescriptor]) -> None:
        """These were given to ``broadcast()``; only they can be had from the context of its functions."""
        self._declared.update(descriptor.get_name() for descriptor in descriptors)

    def get_declared_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
        """A broadcast state that was declared, writable."""
        name = state_descriptor.get_name()
        if name not in self._declared:
            raise ProgramError(
                f"there is no broadcast state {name!r}, only {', '.join(map(repr, sorted(self._declared)))}; "
                "give its descriptor to broadcast() as well"
            )
        return self.get_broadcast_state(state_descriptor)

    def get_read_only_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
        """A broadcast state that was declared, read only."""
        self.get_declared_state(state_descriptor)
        return self._views[state_descriptor.get_name()]

    # Snapshots ----------------------------------------------------------------------------------------

    def snapshot(self) -> list[bytes]:
        """All states, as blocks ``("list", name, mode, items)``; at once, because they are small."""
        items = {name: state.items for name, state in self._lists.items()}
        items |= {name: list(table.items()) for name, table in self.tables.items()}
        items |= {name: list(map(encode, items[name])) for name, encode in self._encoders.items()}
        modes = {name: meta.mode for name, meta in self._metas.items()}
        items |= {name: waiting.own for name, waiting in self._restored.items()}
        modes |= {name: waiting.mode for name, waiting in self._restored.items()}
        return [
            write_block(("list", name, modes[name].value, listed)) for name, listed in items.items() if listed
        ]

    def restore(self, blocks: Sequence[Sequence[bytes]], subtask: int, parallelism: int) -> None:
        """Restore this subtask's share of what all subtasks of an earlier run had; before the operator is opened.

        The lists stay with their subtasks when there are as many as before.
        """
        lists = [_lists_of(payloads) for payloads in blocks]
        for name, mode in {name: mode for by_name in lists for name, (mode, _) in by_name.items()}.items():
            items = [by_name.get(name, (mode, []))[1] for by_name in lists]
            self._restored[name] = _RestoredState.of(StateMode(mode), items, subtask, parallelism)

    def expect(self, metas: Iterable[StateMeta]) -> None:
        """Announce the states that are restored; registering one in another way is refused."""
        self._restored_metas.update({meta.name: meta for meta in metas if meta.mode is not StateMode.KEYED})

    def metas(self) -> tuple[StateMeta, ...]:
        """What a manifest says of the states, also of those that were restored and not registered yet."""
        return (*self._metas.values(), *self._restored_metas.values())

    def unregistered(self) -> list[str]:
        """Names of restored states that the program has not registered; to be looked at after it was opened."""
        return list(
            dict.fromkeys(
                [
                    *self._restored_metas,
                    *(name for name, restored in self._restored.items() if restored.items),
                ]
            )
        )

    def drop_unregistered(self) -> None:
        """Forget what `unregistered` lists."""
        self._restored.clear()
        self._restored_metas.clear()

    def _register(self, descriptor: StateDescriptor, mode: StateMode, kind: str) -> list[Any]:
        """Register a state that is asked for; returns what was restored for it, the first time."""
        declared = meta_of(descriptor, mode, kind)
        known = self._metas.setdefault(declared.name, declared)
        encode = item_encoding(descriptor)
        if encode is not None:
            self._encoders[declared.name] = encode
        if known.mode is not mode:
            raise ProgramError(
                f"state {declared.name!r} is declared twice in one function: as {known.mode.value} state and as "
                f"{mode.value} state; give each state a name of its own"
            )
        for name in (declared.name, *descriptor.get_old_names()):
            meta, restored = self._restored_metas.pop(name, None), self._restored.pop(name, None)
            if meta is not None or restored is not None:
                return self._converted(descriptor, declared, meta, [] if restored is None else restored.items)
        return []

    def _converted(
        self, descriptor: StateDescriptor, declared: StateMeta, meta: StateMeta | None, items: list[Any]
    ) -> list[Any]:
        if meta is None:
            return items
        migrates = needs_migration(self._operator, meta, declared, descriptor)
        migrate = (
            migration(self._operator, descriptor, meta.version)
            if migrates
            else evolution(descriptor, meta.type)
        )
        if migrate is None:
            return items
        if declared.mode is StateMode.BROADCAST:
            return [(key, migrate(value)) for key, value in items]
        return [migrate(item) for item in items]


class _RestoredState(NamedTuple):
    """What was restored for a state; ``own`` is what no other subtask will write of it."""

    mode: StateMode
    items: list[Any]
    own: list[Any]

    @classmethod
    def of(cls, mode: StateMode, lists: list[list[Any]], subtask: int, parallelism: int) -> _RestoredState:
        """The share of one subtask in the lists of the old ones."""
        items = _share(mode, lists, subtask, parallelism)
        # All have the whole union: if all wrote it, there would be more of it after every restart.
        is_union = mode is StateMode.UNION
        return cls(mode, items, _share(StateMode.SPLIT, lists, subtask, parallelism) if is_union else items)


def _lists_of(blocks: Sequence[bytes]) -> dict[str, tuple[str, list[Any]]]:
    """Mode and items by name."""
    by_name: dict[str, tuple[str, list[Any]]] = {}
    for payload in blocks:
        match read_block(payload):
            case ("list", str(name), str(mode), list(items)):
                by_name[name] = (mode, items)
            case unknown:
                raise CorruptStateError(f"a block of operator state begins with {short_repr(unknown[:1])}")
    return by_name


def _share(mode: StateMode, lists: list[list[Any]], subtask: int, parallelism: int) -> list[Any]:
    """What one of the new subtasks gets of the lists of the old ones."""
    if mode is StateMode.BROADCAST:
        return lists[subtask % len(lists)] or next((of_subtask for of_subtask in lists if of_subtask), [])
    if mode is StateMode.SPLIT and len(lists) == parallelism:
        return lists[subtask]
    items = [item for of_subtask in lists for item in of_subtask]
    if mode is StateMode.UNION:
        return items
    return items[subtask * len(items) // parallelism : (subtask + 1) * len(items) // parallelism]
