"""What a program must give, worked out on plain lists; and whether a run gave it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from firesteel.plan.operator_specs import RuntimeMode
from firesteel_support import program_functions as functions
from firesteel_support.program_functions import Record
from firesteel_support.programs import Input, OperatorStep, Program, SourceStep, sink_id

__all__ = ["check_results", "expected_values", "order_violations"]

Outputs = dict[tuple[int, bool], list[int]]


def expected_values(program: Program, mode: RuntimeMode = RuntimeMode.STREAMING) -> dict[str, Counter[int]]:
    """The values at each sink, as multisets: order across channels is nobody's promise."""
    outputs: Outputs = {}
    for index, step in enumerate(program.steps):
        if isinstance(step, SourceStep):
            outputs[index, False] = [value for values in step.values for value in values]
        else:
            main, side = _operate(step, outputs, mode)
            outputs[index, False], outputs[index, True] = main, side
    return {sink_id(output): Counter(outputs[output.step, output.side]) for output in program.sinks}


def check_results(
    program: Program, collected: Mapping[str, Iterable[Record]], mode: RuntimeMode = RuntimeMode.STREAMING
) -> None:
    """Raise AssertionError unless the collected records are what the model says, in order per channel."""
    wanted = expected_values(program, mode)
    got = {sink: Counter(record[0] for record in collected.get(sink, ())) for sink in wanted}
    for sink, values in wanted.items():
        if got[sink] != values:
            missing, surplus = values - got[sink], got[sink] - values
            raise AssertionError(f"sink {sink}: missing {dict(missing)}, surplus {dict(surplus)}")
    if mode is RuntimeMode.STREAMING:
        violations = [found for sink in wanted for found in order_violations(collected.get(sink, ()))]
        if violations:
            raise AssertionError(f"order per channel is broken: {violations[:3]}")


def order_violations(records: Iterable[Record]) -> list[tuple[Record, int]]:
    """Records that arrived behind a later one of the same origin and path, with that one's number."""
    newest: dict[Any, int] = {}
    found = []
    for record in records:
        _, origin, sequence, path = record
        last = newest.get((origin, path), -1)
        if sequence < last:
            found.append((record, last))
        newest[origin, path] = max(sequence, last)
    return found


def _operate(step: OperatorStep, outputs: Outputs, mode: RuntimeMode) -> tuple[list[int], list[int]]:
    """Main and side output of an operator."""
    first, second = _read(step, step.inputs, outputs), _read(step, step.second_inputs, outputs)
    number = step.number
    match step.kind:
        case "map":
            return [functions.mapped(v, number) for v in first], []
        case "filter":
            return [v for v in first if functions.kept(v, number)], []
        case "flat_map":
            return [r for v in first for r in functions.expanded(v, number)], []
        case "process":
            aside = [v for v in first if functions.goes_aside(v, number)]
            return [v for v in first if not functions.goes_aside(v, number)], aside
        case "co_map":
            results = [
                functions.co_mapped(v, number, i) for i, values in enumerate((first, second)) for v in values
            ]
            return [r for r in results if r is not None], []
        case "co_flat_map":
            both = enumerate((first, second))
            return [r for i, values in both for v in values for r in functions.co_expanded(v, number, i)], []
    only_last = step.kind == "count" and mode is RuntimeMode.BATCH
    return _counts([functions.key_of_value(v, number) for v in first + second], only_last), []


def _counts(keys: list[int], only_last: bool) -> list[int]:
    """Running counts: whatever the order, a key that comes n times is counted 1, 2 ... n."""
    return [
        functions.counted(key, count)
        for key, total in Counter(keys).items()
        for count in ([total] if only_last else range(1, total + 1))
    ]


def _read(step: OperatorStep, inputs: tuple[Input, ...], outputs: Outputs) -> list[int]:
    found: list[int] = []
    for source in inputs:
        copies = step.parallelism if source.distribution == "broadcast" and not _keyed(step) else 1
        found += outputs[source.step, source.side] * copies
    return found


def _keyed(step: OperatorStep) -> bool:
    return step.kind.startswith("keyed")
