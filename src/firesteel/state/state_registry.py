"""Which states there are, in the program and in what was restored, and whether the two fit.

A state is found by its name. Asking for one that was restored as another kind or type is refused, unless its
descriptor knows how to migrate old values; a state that was renamed is found through its descriptor, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

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
from firesteel.state.key_space import TableId

__all__ = ["INTERNAL", "StateKind", "StateRegistry", "checked", "is_internal", "meta_of"]

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
    """The ``kind`` of a `StateMeta` in parts: ``window list with ttl`` is a list per key and window that expires.

    ``asked_late``: the function asked for it with a record, not when it was opened. Such a state may have no
    taker yet when a program goes on, and belongs to it all the same.
    """

    base: str
    namespaced: bool = False
    has_ttl: bool = False
    asked_late: bool = False

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

    def __str__(self) -> str:
        window, ttl, late = (
            _WINDOW if self.namespaced else "",
            _TTL if self.has_ttl else "",
            _LATE if self.asked_late else "",
        )
        return f"{window}{self.base}{ttl}{late}"


def is_internal(name: str) -> bool:
    """Whether the name is one of an operator's own: those begin with a character that no user types."""
    return name.startswith("\0")


def meta_of(descriptor: StateDescriptor, mode: StateMode, kind: str) -> StateMeta:
    """What a manifest says of the state that a descriptor describes."""
    return StateMeta(descriptor.get_name(), mode, kind, str(descriptor.type_info), descriptor.get_version())


def checked(operator: str, found: StateMeta, wanted: StateMeta, descriptor: StateDescriptor) -> bool:
    """Whether old values have to be migrated; refuses what does not fit."""
    same_kind = _shape(found) == _shape(wanted)
    same_type = not found.type or found.type == wanted.type
    if same_kind and same_type and found.version == wanted.version:
        return False
    if same_kind and found.version != wanted.version and descriptor.get_migration() is not None:
        return True
    of_operator = f" of operator {operator!r}" if operator else ""
    raise IncompatibleStateError(
        f"state {wanted.name!r}{of_operator} does not fit what was saved: expected {_text(wanted)}, found "
        f"{_text(found)}; go back to what it was, give the state another name, or - when only its values have "
        "changed - tell how to convert them: descriptor.set_version(version, migrate)"
    )


def _shape(meta: StateMeta) -> tuple[str, StateMode]:
    return StateKind.parse(meta.kind).base, meta.mode


def _text(meta: StateMeta) -> str:
    mode = f"{meta.mode.value} " if meta.mode in (StateMode.UNION, StateMode.BROADCAST) else ""
    kind = replace(StateKind.parse(meta.kind), asked_late=False)
    return f"a {mode}{kind} state of {meta.type or 'unknown type'}, version {meta.version}"


class StateRegistry:
    """The keyed states of one operator's subtask."""

    def __init__(self, operator: str) -> None:
        self.operator = operator
        #: Whether the function was opened; what it asks for from now on it asks for late.
        self.is_open = False
        self._claimed: dict[TableId, StateMeta] = {}
        self._found: dict[TableId, StateMeta] = {}

    def expect(self, metas: Iterable[StateMeta]) -> None:
        """These states were restored."""
        for meta in metas:
            if meta.mode is StateMode.KEYED:
                self._found[TableId(meta.name, StateKind.parse(meta.kind).namespaced)] = meta

    def claim_internal(self, table_id: TableId) -> None:
        """An operator uses a table for itself."""
        if table_id not in self._claimed:
            kind = StateKind(INTERNAL, table_id.namespaced)
            self._claimed[table_id] = StateMeta(table_id.name, StateMode.KEYED, str(kind))

    def claim(self, descriptor: StateDescriptor, table_id: TableId) -> tuple[TableId, StateMeta] | None:
        """A function asks for a state: where its restored values are and what they are, None for nowhere."""
        known = self._claimed.get(table_id)
        first_time = known is None or StateKind.parse(known.kind).base == INTERNAL
        late = self.is_open if known is None or first_time else StateKind.parse(known.kind).asked_late
        kind = replace(StateKind.of(descriptor, table_id.namespaced), asked_late=late)
        self._claimed[table_id] = meta_of(descriptor, StateMode.KEYED, str(kind))
        if not first_time:
            return None
        for name in (table_id.name, *descriptor.get_old_names()):
            old = TableId(name, table_id.namespaced)
            found = self._found.pop(old, None)
            if found is not None:
                return old, found
        return None

    def meta(self, table_id: TableId) -> StateMeta:
        """What is known of a state that was asked for."""
        return self._claimed[table_id]

    def metas(self) -> tuple[StateMeta, ...]:
        """All states, also those that were restored and not asked for yet."""
        return (*self._claimed.values(), *(m for i, m in self._found.items() if i not in self._claimed))

    def is_claimed(self, table_id: TableId) -> bool:
        """Whether the program uses a table."""
        return table_id in self._claimed

    def may_be_claimed_late(self, table_id: TableId) -> bool:
        """Whether a restored state is one that functions asked for with a record."""
        found = self._found.get(table_id)
        return found is not None and StateKind.parse(found.kind).asked_late

    def unclaimed(self) -> list[TableId]:
        """What was restored and nobody has asked for."""
        return [table_id for table_id in self._found if table_id not in self._claimed]

    def drop(self, table_id: TableId) -> None:
        """Forget a restored state."""
        self._found.pop(table_id, None)
