"""State back into the operators of a subtask, whatever the parallelism it was written with.

Keyed state is cut by key group: a subtask reads the segments of those old subtasks that owned some of its groups,
and leaves out the keys of other groups where an old one had more than it has now. Lists are dealt out by their
backend, which needs those of all old subtasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from firesteel.common.errors import IncompatibleStateError
from firesteel.plan.job_plan import VertexPlan
from firesteel.plan.key_groups import groups_of_subtask, key_group_of
from firesteel.plan.state_handles import OperatorRestore, Segment
from firesteel.state.keyed_backend import KeyedBackend
from firesteel.state.operator_state import OperatorStateBackend

#: The blocks of a segment, in order and checked.
SegmentReader = Callable[[Segment], Iterable[bytes]]


def restore_operator(
    found: OperatorRestore,
    plan: VertexPlan,
    subtask: int,
    keyed: KeyedBackend,
    lists: OperatorStateBackend,
    read: SegmentReader,
) -> None:
    """Fill the state of one operator's subtask with its share of what was found."""
    metas = [meta for old in found.subtasks for meta in old.states]
    keyed.expect(metas)
    lists.expect(metas)
    _restore_keyed(found, plan, subtask, keyed, read)
    blocks = [[] if old.lists is None else list(read(old.lists)) for old in found.subtasks]
    lists.restore(blocks, subtask, plan.parallelism)


def _restore_keyed(
    found: OperatorRestore, plan: VertexPlan, subtask: int, keyed: KeyedBackend, read: SegmentReader
) -> None:
    if not any(old.keyed for old in found.subtasks):
        return
    if found.max_parallelism != plan.max_parallelism:
        raise IncompatibleStateError(
            f"the keyed state of {plan.name!r} was written with max parallelism {found.max_parallelism} and cannot "
            f"be read with {plan.max_parallelism}: set_max_parallelism({found.max_parallelism}) keeps it readable"
        )
    mine = groups_of_subtask(subtask, plan.max_parallelism, plan.parallelism)
    for old in found.subtasks:
        theirs = groups_of_subtask(old.subtask, found.max_parallelism, found.parallelism)
        if theirs.stop <= mine.start or mine.stop <= theirs.start:
            continue
        whole = mine.start <= theirs.start and theirs.stop <= mine.stop
        accepts = None if whole else _in_groups(mine, plan.max_parallelism)
        for segment in old.keyed:
            is_newest = segment is old.keyed[-1]
            for block in read(segment):
                keyed.restore_block(block, accepts, is_newest=is_newest)


def _in_groups(groups: range, max_parallelism: int) -> Callable[[Any], bool]:
    return lambda key: key_group_of(key, max_parallelism) in groups
