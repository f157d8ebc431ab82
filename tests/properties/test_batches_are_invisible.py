"""Random programs with values that change give what a naive interpreter gives, however their records are cut.

Each program is interpreted record by record, and runs in the simulator with chunks of 1, 2, 7, 1024 and a random number
of records. Some seeds again, the first failures in full:

    python tests/properties/test_batches_are_invisible.py 17 300-400
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from typing import Any

import pytest

from firesteel.common import _values as values
from firesteel.common.errors import JobExecutionError
from firesteel.runtime import event_time, key_reader, router
from firesteel.runtime.operators import interval_join, stateless
from firesteel.runtime.operators.windows import general_operator
from firesteel_support import value_functions
from firesteel_support.effort import cases
from firesteel_support.record_by_record import interpret
from firesteel_support.value_programs import (
    KEYED,
    SourceStep,
    Step,
    compile_program,
    difference,
    draw,
    run_program,
)
from firesteel_support.value_shapes import SHAPES

TESTS = 20
PROGRAMS = cases(100, 2_000)  # of each test


def variants(seed: int) -> list[tuple[int, dict[str, Any]]]:
    """Simulator seeds and options."""
    rng = random.Random(f"variants {seed}")
    chunks = [1, 2, 7, 1024, rng.randint(1, 40)]
    return [
        (
            rng.randrange(2**32),
            {
                "firesteel.chunk.records": chunk,
                "firesteel.source.batch": rng.choice((chunk, chunk, 1, 3, 1024)),
                "execution.buffer-timeout.interval": rng.choice(("0 ms", "100 ms")),
            },
        )
        for chunk in chunks
    ]


def check(seed: int, **more: str) -> None:
    """Raises AssertionError with all there is to know, unless the program of a seed always gives what it must give."""
    program = draw(seed)
    expected = interpret(program)
    chained, tolerant = seed % 5 != 0, seed % 3 == 0
    plan = compile_program(program, chained=chained, tolerant=tolerant)
    for simulator_seed, options in variants(seed):
        got = run_program(program, plan, {**options, **more}, simulator_seed)
        found = difference(program, expected, got)
        if found:
            chains = ("" if chained else " without chains") + (" with on_error" if tolerant else "")
            raise AssertionError(f"{program}\n{options}{chains}, simulator seed {simulator_seed}:\n{found}")


@pytest.mark.parametrize("test", range(TESTS))
def test_programs_give_what_the_interpreter_gives(test: int) -> None:
    for seed in range(test * PROGRAMS, (test + 1) * PROGRAMS):
        check(seed)


def test_the_programs_have_everything() -> None:
    """Nothing that can be drawn is so rare that the tests do without it."""
    found: Counter[str] = Counter()
    for seed in range(2_000):
        for step in draw(seed).steps:
            if isinstance(step, SourceStep):
                found.update({type(value).__name__ for round in step.rounds for value, _ in round.records})
                continue
            found[step.operation] += 1
            if step.is_keyed:
                found.update(getattr(each, "__name__", type(each).__name__) for each in step.selectors)
            if isinstance(step.function, value_functions.Partitions):
                found[step.function.selector.__name__] += 1
            if isinstance(step.function, value_functions.TellsTimeAgain):
                assigner = step.function.assigner
                found[getattr(assigner, "__name__", type(assigner).__name__)] += 1
                found[f"generator {step.function.generator}"] += 1
            for function in (step.function, step.window_function):
                found[getattr(function, "__name__", type(function).__name__)] += 1
            if step.windows is not None:
                of = step.windows
                found.update(
                    [of.kind, f"{of.trigger} trigger", f"{of.evictor} evictor", f"late {of.late_aside}"]
                )
    user_code = [
        name
        for name, kind in vars(value_functions).items()
        if isinstance(kind, type) and issubclass(kind, value_functions.UserCode) and hasattr(kind, "open")
    ]
    wanted = {
        *user_code,
        *(name for name, each in vars(value_functions).items() if hasattr(each, "reads")),
        *(type(shape("a", 1, [])).__name__ for shape in SHAPES.values()),
        *KEYED,
        *("union", "co:map", "co:flat_map", "gather", "late True", "tumbling", "sliding", "session", "count"),
        *("assign", "partition", "change_and_tell_the_key", "RemembersWhileTellingTheKey", "parts_of"),
        *("change_and_tell_the_time", "tell_the_time_plainly", "RemembersWhileTellingTheTime"),
        *("generator ", "generator remembers", "generator punctuates", "remembering count trigger"),
        *("sliding count", "count trigger", "purging count trigger", "continuous trigger"),
        *("count evictor", "time evictor"),
    }
    assert {name for name in wanted if found[name] < 5} == set()


# The test itself can fail: without protection of values the first programs show it.


def fails(seed: int, **more: str) -> bool:
    try:
        check(seed, **more)
    except (AssertionError, JobExecutionError):
        return True
    return False


def test_an_engine_that_does_not_protect_values_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith("firesteel.") and vars(module).get("private") is values.private:
            monkeypatch.setattr(module, "private", lambda value: value)
    assert sum(map(fails, range(30))) >= 10


def as_it_is(value: Any, *more: Any) -> Any:
    return value


def never(*arguments: Any) -> bool:
    return False


@pytest.mark.parametrize(
    ("operations", "place", "name", "instead"),
    [
        ({"filter"}, stateless.FilterOperator, "_guards", never),
        ({"interval_join"}, interval_join, "protection", lambda protects: as_it_is),
        (KEYED, key_reader, "asked", as_it_is),
        ({"partition"}, router, "private", as_it_is),
        ({"assign"}, event_time, "private", as_it_is),
        ({"process", "reduce", "aggregate"}, general_operator, "touches_elements", never),
    ],
)
def test_a_single_place_without_protection_is_found(
    monkeypatch: pytest.MonkeyPatch, operations: set[str], place: Any, name: str, instead: Any
) -> None:
    def is_about(seed: int) -> bool:
        return any(isinstance(step, Step) and step.operation in operations for step in draw(seed).steps)

    monkeypatch.setattr(place, name, instead)
    assert any(fails(seed) for seed in range(400) if is_about(seed))


def test_object_reuse_switches_the_protection_off() -> None:
    assert sum(fails(seed, **{"pipeline.object-reuse": "true"}) for seed in range(30)) >= 10


def survey(arguments: list[str]) -> None:
    failed = []
    for argument in arguments:
        first, _, last = argument.partition("-")
        for seed in range(int(first), int(last or first) + 1):
            try:
                check(seed)
            except Exception as error:  # noqa: BLE001 - all kinds of failures are shown
                failed.append(seed)
                if len(failed) <= 3:
                    print(f"seed {seed}: {type(error).__name__}: {error}\n")
    print(f"{len(failed)} failed: {failed}")


if __name__ == "__main__":
    survey(sys.argv[1:])
