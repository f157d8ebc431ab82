"""Random programs with values that change give the same results wherever their state is, and however parallel they are.

What they must give says the interpreter, which knows neither backends nor parallelism. The disk and the custom backend
keep two keys in memory, so that state leaves memory and comes back all the time.
"""

from __future__ import annotations

import random
import sys

import pytest

from firesteel_support.effort import cases
from firesteel_support.record_by_record import interpret
from firesteel_support.value_programs import compile_program, difference, draw, run_program

TESTS = 10
PROGRAMS = cases(30, 1_000)  # of each test

BACKENDS = {
    "hashmap": {"state.backend.type": "hashmap"},
    "disk": {"state.backend.type": "disk", "state.backend.disk.cache-entries": "2"},
    "custom": {
        "state.backend.type": "firesteel.testing.state_stores:DictStore",
        "state.backend.disk.cache-entries": "2",
    },
}
PARALLELISMS = (1, 2, 5)


def combinations(rng: random.Random) -> list[tuple[int, str]]:
    """Every backend and every parallelism, not each with each."""
    backends = list(BACKENDS)
    rng.shuffle(backends)
    return [*zip(PARALLELISMS, backends, strict=True), (1, backends[1]), (1, backends[2])]


def check(seed: int) -> None:
    """Raises AssertionError with all there is to know, unless the program of a seed gives the same everywhere."""
    rng = random.Random(f"backends {seed}")
    program = draw(seed, parallel=True)
    expected = interpret(program)
    plans = {parallelism: compile_program(program, parallelism) for parallelism in PARALLELISMS}
    for parallelism, backend in combinations(rng):
        simulator_seed, chunk = rng.randrange(2**32), rng.choice((1, 3, 1024))
        options = {**BACKENDS[backend], "firesteel.chunk.records": chunk}
        got = run_program(program, plans[parallelism], options, simulator_seed)
        found = difference(program, expected, got)
        if found:
            where = (
                f"parallelism {parallelism}, {backend}, chunks of {chunk}, simulator seed {simulator_seed}"
            )
            raise AssertionError(f"{program}\n{where}:\n{found}")


@pytest.mark.parametrize("test", range(TESTS))
def test_backends_and_parallelism_change_nothing(test: int) -> None:
    for seed in range(test * PROGRAMS, (test + 1) * PROGRAMS):
        check(seed)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        check(int(argument))
