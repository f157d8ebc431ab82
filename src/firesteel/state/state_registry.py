"""Which states there are, in the program and in what was restored, and whether the two fit.

A state is found by its name. Asking for one that was restored as another kind or type is refused, unless its
descriptor knows how to migrate old values; a state that was renamed is found through its descriptor, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from firesteel.common._override import override
from firesteel.common.errors import IncompatibleStateError
from firesteel.contracts.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from firesteel.plan.state_handles import StateMeta, StateMode
from firesteel.state.tracked_state import TableId
from firesteel.state.user_serializers import without_fingerprints

__all__ = ["INTERNAL", "StateKind", "StateRegistry", "is_internal", "meta_of", "needs_migration"]

#: The kind of a table that an operator keeps for itself.
INTERNAL = "internal"

_KINDS: dict[type[StateDescriptor], str] = {
    ValueStateDescriptor: "value",
    ListStateDescriptor: "list",
    MapStateDescriptor: "map",
    ReducingStateDescriptor: "reducing",
    AggregatingStateDescriptor: "aggregating",
}
_WINDOW, _TTL, _LATE = "window ", " with ttl", ", asked for late"


@dataclass(frozen=True, slots=True)
class StateKind:
    """The ``kind`` of a `StateMeta`, parsed: ``window list with ttl`` is a list per key and window that expires.

    ``registered_late``: the function asked for it with a record, not when it was opened. When a program resumes, such a
    state may not be registered yet, and must not be dropped.
    """

    base: str
    namespaced: bool = False
    has_ttl: bool = False
    registered_late: bool = False

    @classmethod
    def of(cls, descriptor: StateDescriptor, namespaced: bool = False) -> StateKind:
        """The kind that a descriptor describes."""
        return cls(_KINDS[type(descriptor)], namespaced, descriptor.get_ttl_config() is not None)

    @classmethod
    def parse(cls, text: str) -> StateKind:
        """From the text of a `StateMeta`."""
        shown = text.removesuffix(_LATE)
        has_ttl, namespaced = shown.endswith(_TTL), shown.startswith(_WINDOW)
        return cls(shown.removesuffix(_TTL).removeprefix(_WINDOW), namespaced, has_ttl, shown != text)

    @override
    def __str__(self) -> str:
        window, ttl, late = (
            _WINDOW if self.namespaced else "",
            _TTL if self.has_ttl else "",
            _LATE if self.registered_late else "",
        )
        return f"{window}{self.base}{ttl}{late}"


def is_internal(name: str) -> bool:
    """Whether the name is one of an operator's own: those begin with a character that no user types."""
    return name.startswith("\0")


def meta_of(descriptor: StateDescriptor, mode: StateMode, kind: str) -> StateMeta:
    """What a manifest says of the state that a descriptor describes."""
    return StateMeta(descriptor.get_name(), mode, kind, str(descriptor.type_info), descriptor.get_version())


def needs_migration(
    operator: str, saved: StateMeta, declared: StateMeta, descriptor: StateDescriptor
) -> bool:
    """Whether old values have to be migrated; refuses what does not fit."""
    same_kind = _shape(saved) == _shape(declared)
    same_type = not saved.type or without_fingerprints(saved.type) == without_fingerprints(declared.type)
    if same_kind and same_type and saved.version == declared.version:
        return False
    if same_kind and saved.version != declared.version and descriptor.get_migration() is not None:
        return True
    of_operator = f" of operator {operator!r}" if operator else ""
    raise IncompatibleStateError(
        f"state {declared.name!r}{of_operator} does not fit what was saved: expected {_text(declared)}, found "
        f"{_text(saved)}; go back to what it was, give the state another name, or - when only its values have "
        "changed - tell how to convert them: descriptor.set_version(version, migrate)"
    )


def _shape(meta: StateMeta) -> tuple[str, StateMode]:
    return StateKind.parse(meta.kind).base, meta.mode


def _text(meta: StateMeta) -> str:
    mode = f"{meta.mode.value} " if meta.mode in (StateMode.UNION, StateMode.BROADCAST) else ""
    kind = replace(StateKind.parse(meta.kind), registered_late=False)
    return f"a {mode}{kind} state of {meta.type or 'unknown type'}, version {meta.version}"


class StateRegistry:
    """The keyed states of one operator's subtask."""

    def __init__(self, operator: str) -> None:
        self.operator = operator
        #: Whether the function was opened; what it registers from now on it registers late.
        self.is_open = False
        self._registered: dict[TableId, StateMeta] = {}
        self._restored: dict[TableId, StateMeta] = {}

    def expect(self, metas: Iterable[StateMeta]) -> None:
        """These states were restored; those that are not keyed are left out."""
        for meta in metas:
            if meta.mode is StateMode.KEYED:
                self._restored[TableId(meta.name, StateKind.parse(meta.kind).namespaced)] = meta

    def register_internal(self, table_id: TableId) -> None:
        """An operator uses a table for itself."""
        if table_id not in self._registered:
            kind = StateKind(INTERNAL, table_id.namespaced)
            self._registered[table_id] = StateMeta(table_id.name, StateMode.KEYED, str(kind))

    def register(self, descriptor: StateDescriptor, table_id: TableId) -> tuple[TableId, StateMeta] | None:
        """A function asks for a state: the table and metadata of what was restored for it, None for nothing."""
        known = self._registered.get(table_id)
        first_time = known is None or StateKind.parse(known.kind).base == INTERNAL
        late = self.is_open if known is None or first_time else StateKind.parse(known.kind).registered_late
        kind = replace(StateKind.of(descriptor, table_id.namespaced), registered_late=late)
        self._registered[table_id] = meta_of(descriptor, StateMode.KEYED, str(kind))
        if not first_time:
            return None
        for name in (table_id.name, *descriptor.get_old_names()):
            old = TableId(name, table_id.namespaced)
            restored = self._restored.pop(old, None)
            if restored is not None:
                return old, restored
        return None

    def meta(self, table_id: TableId) -> StateMeta:
        """The metadata of a registered state."""
        return self._registered[table_id]

    def base_kind(self, table_id: TableId) -> str | None:
        """The kind of state that a table belongs to, such as ``list``; None when that is not known."""
        known = self._registered.get(table_id) or self._restored.get(table_id)
        return None if known is None else StateKind.parse(known.kind).base

    def metas(self) -> tuple[StateMeta, ...]:
        """The metadata of all states, also of those that were restored and not registered yet."""
        return (
            *self._registered.values(),
            *(m for i, m in self._restored.items() if i not in self._registered),
        )

    def is_registered(self, table_id: TableId) -> bool:
        """Whether the program or an operator has registered a table."""
        return table_id in self._registered

    def may_register_late(self, table_id: TableId) -> bool:
        """Whether a restored state is one that functions registered late, with a record."""
        restored = self._restored.get(table_id)
        return restored is not None and StateKind.parse(restored.kind).registered_late

    def unregistered(self) -> list[TableId]:
        """The tables that were restored and are not registered."""
        return [table_id for table_id in self._restored if table_id not in self._registered]

    def drop(self, table_id: TableId) -> None:
        """Forget a restored state; one that is not there is no error."""
        self._restored.pop(table_id, None)
