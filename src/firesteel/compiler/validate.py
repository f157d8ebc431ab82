"""First pass: reject what cannot run, naming the step and the remedy."""

from __future__ import annotations

import re
from collections.abc import Mapping

from firesteel.common.configuration import Configuration
from firesteel.common.errors import ProgramError
from firesteel.common.options import CHECKPOINTING_INTERVAL
from firesteel.compiler.settings import CompilerSettings
from firesteel.compiler.steps import Step
from firesteel.graph.names import is_sink, is_source, step_of
from firesteel.graph.parallelism import source_limit
from firesteel.graph.stream_graph import Edge, Node, StreamGraph
from firesteel.plan.exchange import Broadcast, Forward, KeyGroups
from firesteel.plan.key_groups import UPPER_BOUND
from firesteel.plan.operator_specs import RuntimeMode, SourceSpec, TwoInputTransformSpec
from firesteel.plan.shipped import Shipped

_UID_HASH = re.compile(r"[0-9A-Fa-f]{32}")


def check_graph(graph: StreamGraph, settings: CompilerSettings) -> None:
    """Reject graphs that mean nothing, whatever their parallelism."""
    if not graph.nodes:
        raise ProgramError(
            "the program has no steps to execute; create a stream first, for example with "
            "env.from_collection([1, 2, 3])"
        )
    known: dict[int, Node] = {}
    for node in graph:
        _check_ends(node, known)
        _check_keys(node)
        known[node.id] = node
    _check_uids(graph, settings)


def _check_ends(node: Node, known: Mapping[int, Node]) -> None:
    """Sources read nothing, everything else reads something that is there and is no sink."""
    if is_source(node.spec):
        if node.inputs:
            raise ProgramError(f"{step_of(node)} is a source and cannot read from another step")
        return
    if not node.inputs:
        raise ProgramError(f"{step_of(node)} has no input; a job starts at sources, add one and read from it")
    for edge in node.inputs:
        source = known.get(edge.source)
        if source is None:
            raise ProgramError(
                f"{step_of(node)} reads from a step that is not part of this program; "
                "streams of different environments cannot be combined"
            )
        if is_sink(source.spec):
            raise ProgramError(f"{step_of(node)} reads from {step_of(source)}, but sinks have no output")


def _check_keys(node: Node) -> None:
    """Every input of a keyed step is partitioned by its key; one that is broadcast may stay unkeyed."""
    if not any(node.key_selectors):
        return
    for edge in node.inputs:
        if edge.input_index < len(node.key_selectors):
            selector = node.key_selectors[edge.input_index]
        else:
            selector = None
        if selector is not None:
            _check_partitioning(node, edge, selector)
        elif not isinstance(edge.distribution, Broadcast):
            raise ProgramError(
                f"{step_of(node)} is keyed, but its input {edge.input_index + 1} is not; call key_by() on both "
                "connected streams, or broadcast() the one that every subtask shall see"
            )


def _check_partitioning(node: Node, edge: Edge, selector: Shipped) -> None:
    if isinstance(edge.distribution, KeyGroups):
        if edge.distribution.selector == selector:
            return
        how = f"partitioned by {edge.distribution.selector.description}"
    else:
        how = f"distributed by {edge.distribution.label}"
    raise ProgramError(
        f"{step_of(node)} is keyed by {selector.description}, but input {edge.input_index + 1} is {how}; "
        "call key_by() once, after combining and redistributing the streams"
    )


def _check_uids(graph: StreamGraph, settings: CompilerSettings) -> None:
    seen: dict[str, Node] = {}
    for node in graph:
        if node.uid_hash is not None and not _UID_HASH.fullmatch(node.uid_hash):
            raise ProgramError(
                f"{step_of(node)}: a uid hash has 32 hexadecimal digits, got {node.uid_hash!r}"
            )
        if node.uid is None:
            _check_uid_wanted(node, settings)
            continue
        if node.uid in seen:
            raise ProgramError(
                f"{step_of(node)} has the same uid as {step_of(seen[node.uid])}; a uid names one step, "
                "choose another for one of them"
            )
        seen[node.uid] = node


def _check_uid_wanted(node: Node, settings: CompilerSettings) -> None:
    if not settings.auto_generate_uids and node.uid_hash is None:
        raise ProgramError(
            f"{step_of(node)} has no uid and generated ones are switched off "
            "('pipeline.auto-generate-uids'); call uid('...') on it or switch them on"
        )


def check_steps(steps: Mapping[int, Step]) -> None:
    """Reject parallelisms that cannot be."""
    for step in steps.values():
        _check_range(step)
        _check_source(step)
        _check_forwards(step, steps)
    _check_operator_ids(steps)


def _check_range(step: Step) -> None:
    where = step_of(step.node)
    if step.parallelism < 1:
        raise ProgramError(f"{where} has parallelism {step.parallelism}; set_parallelism() needs at least 1")
    if not 1 <= step.max_parallelism <= UPPER_BOUND:
        raise ProgramError(
            f"{where} has max parallelism {step.max_parallelism}; set_max_parallelism() needs 1 to {UPPER_BOUND}"
        )
    if step.parallelism > step.max_parallelism:
        raise ProgramError(
            f"{where} has parallelism {step.parallelism} but max parallelism {step.max_parallelism}; "
            f"lower the first with set_parallelism() or raise the second with set_max_parallelism()"
        )


def _check_source(step: Step) -> None:
    limit = source_limit(step.node)
    if limit is not None and step.parallelism > limit:
        raise ProgramError(
            f"{step_of(step.node)} has parallelism {step.parallelism}, but its source can be read by at most "
            f"{limit} subtask{'s' if limit > 1 else ''}; use set_parallelism({limit}) on it and rebalance() after it"
        )


def _check_forwards(step: Step, steps: Mapping[int, Step]) -> None:
    for edge in step.inputs:
        source = steps[edge.source]
        if isinstance(edge.distribution, Forward) and source.parallelism != step.parallelism:
            raise ProgramError(
                f"forward() from {step_of(source.node)} with parallelism {source.parallelism} to {step_of(step.node)} "
                f"with parallelism {step.parallelism}: forward needs equal parallelism; "
                "use rebalance() or rescale(), or set the same parallelism on both"
            )


def _check_operator_ids(steps: Mapping[int, Step]) -> None:
    """A uid hash copied from another step, or the same one set twice, would mix up their states."""
    seen: dict[str, Step] = {}
    for step in steps.values():
        other = seen.setdefault(step.operator_id.lower(), step)
        if other is not step:
            raise ProgramError(
                f"{step_of(step.node)} and {step_of(other.node)} have the same operator id {step.operator_id}; "
                "set_uid_hash() needs a different value for each step"
            )


def choose_mode(graph: StreamGraph, settings: CompilerSettings) -> RuntimeMode:
    """STREAMING or BATCH, as asked for or, in AUTOMATIC mode, by whether all input ends."""
    endless = [node for node in graph if isinstance(node.spec, SourceSpec) and not node.spec.bounded]
    if settings.runtime_mode == "BATCH" and endless:
        raise ProgramError(
            f"{step_of(endless[0])} never ends, so the program cannot run in BATCH mode; "
            "use STREAMING or AUTOMATIC as 'execution.runtime-mode', or a bounded source"
        )
    if settings.runtime_mode == "STREAMING" or endless:
        return RuntimeMode.STREAMING
    return RuntimeMode.BATCH


def check_selections(graph: StreamGraph, mode: RuntimeMode, configuration: Configuration) -> None:
    """Reject operators that choose their inputs in a job with checkpoints.

    A barrier could come on the input that is not read while the operator waits for records behind the barrier on
    the other one.
    """
    interval = configuration.get(CHECKPOINTING_INTERVAL)
    if mode is RuntimeMode.BATCH or interval is None or interval.to_millis() <= 0:
        return
    for node in graph:
        if isinstance(node.spec, TwoInputTransformSpec) and node.spec.selects:
            raise ProgramError(
                f"{step_of(node)} is InputSelectable, which does not go together with checkpoints: what waits on the "
                "input that is not selected would be in no checkpoint; switch checkpoints off "
                f"('{CHECKPOINTING_INTERVAL.key}'), or read both inputs and keep in state what has to wait"
            )
