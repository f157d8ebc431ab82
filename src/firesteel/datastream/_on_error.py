"""``on_error``: what a program wants to become of records whose function raises."""

from __future__ import annotations

from dataclasses import replace

from firesteel.common.errors import ProgramError, UnsupportedOperationError
from firesteel.common.typeinfo import PickledBytesTypeInfo
from firesteel.contracts.output_tag import OutputTag
from firesteel.datastream._user_functions import wrong_argument
from firesteel.graph.names import is_source
from firesteel.graph.stream_graph import Node
from firesteel.plan.on_error import OnError
from firesteel.plan.operator_specs import (
    IntervalJoinSpec,
    OperatorSpec,
    RecordFunctionSpec,
    SourceSpec,
    WindowSpec,
)

__all__ = ["tolerant_spec"]

_ACTIONS = ("fail", "drop")


def tolerant_spec(node: Node, action: str | None, dead_letter: OutputTag | None) -> OperatorSpec:
    """The spec of an operator with what ``on_error(action, dead_letter=...)`` asks for."""
    wanted = _wanted(action, dead_letter)
    if isinstance(node.spec, SourceSpec) and node.spec.decodes:
        return replace(node.spec, on_error=wanted)
    if not isinstance(node.spec, RecordFunctionSpec):
        raise UnsupportedOperationError(
            f"on_error() is not supported on {node.name!r}: {_why_not(node)}; it is there for map(), flat_map(), filter() "
            "and process(), also of keyed, connected and broadcast streams"
        )
    return replace(node.spec, on_error=wanted)


def _wanted(action: str | None, dead_letter: OutputTag | None) -> OnError | None:
    if dead_letter is None:
        if action not in _ACTIONS:
            raise wrong_argument("on_error()", "'fail', 'drop' or dead_letter=OutputTag(...)", action)
        return None if action == "fail" else OnError()
    if action is not None:
        raise ProgramError(
            f"on_error() takes one of two: {action!r}, or dead_letter={dead_letter!r}; a record in a side output is not "
            "in the main output any more"
        )
    if not isinstance(dead_letter, OutputTag):
        raise wrong_argument("on_error()", "an OutputTag as dead_letter", dead_letter)
    if not isinstance(dead_letter.type_info, PickledBytesTypeInfo):
        raise ProgramError(
            f"on_error(): the records of side output {dead_letter.tag_id!r} are DeadLetter objects, and the tag declares "
            f"{dead_letter.type_info}; leave the type out: OutputTag({dead_letter.tag_id!r})"
        )
    return OnError(dead_letter.tag_id)


def _why_not(node: Node) -> str:
    if is_source(node.spec):
        return "a source makes records and has no function that is called with them; let it give what it reads and parse that in a map()"
    if isinstance(node.spec, WindowSpec):
        return "a window has no single record to leave out when its function raises; check records in a map() or filter() before it"
    if isinstance(node.spec, IntervalJoinSpec):
        return "a join pairs two records, and neither alone is to blame; check records in a map() or filter() before it"
    return "it does more than call a function for each record, and could not continue as if the record had never come"
