"""The programs of the comparison as plain Python loops, in two processes.

    python bare.py stateless|keyed_reduce|value_state|tumbling COUNT[,COUNT ...]

What somebody would write who needs nothing but the result: no framework, no exchange, no state that survives anything.
Every process has the numbers of its own keys - the even or the odd ones -, as if somebody had dealt them out for
nothing; without keys, each has a half. They stay for all jobs.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

KEYS = 1000  # even, so that the numbers of a key are all even or all odd
PROCESSES = 2


def stateless(count: int, part: int) -> Iterator[str]:
    for n in range(1 + count * part // PROCESSES, 1 + count * (part + 1) // PROCESSES):
        record = (n, n * 3)
        if record[0] % 4 != 1:
            half = record[1] // 2
            for piece in ((record[0], half), (record[0], record[1] - half)):
                if piece[0] == count:
                    yield f"{piece[1]}"


def keyed_reduce(count: int, part: int) -> Iterator[str]:
    sums: dict[int, tuple[int, int]] = {}
    for n in range(1 + part, count + 1, PROCESSES):
        record = (n % KEYS, 1)
        before = sums.get(record[0])
        if before is not None:
            record = (record[0], before[1] + record[1])
        sums[record[0]] = record
        if record[0] == 0 and record[1] == count // KEYS:
            yield f"{record[1]}"


def value_state(count: int, part: int) -> Iterator[str]:
    counts: dict[int, int] = {}
    for n in range(part, count, PROCESSES):
        record = (n % KEYS, n)
        seen = counts.get(record[0], 0) + 1
        counts[record[0]] = seen
        result = (record[0], seen)
        if result[0] < 5 and result[1] <= 4:
            yield f"{result[0]} {result[1]}"


def tumbling(count: int, part: int) -> Iterator[str]:
    counts: dict[int, int] = {}
    end = 10_000
    for n in range(part, count, PROCESSES):
        record = (n % KEYS, n)
        if record[1] >= end:
            yield from _first_windows(counts, end)
            counts, end = {}, record[1] // 10_000 * 10_000 + 10_000
        counts[record[0]] = counts.get(record[0], 0) + 1
    yield from _first_windows(counts, end)


def _first_windows(counts: dict[int, int], end: int) -> Iterator[str]:
    for key, found in counts.items():
        result = (key, end, found)
        if result[0] < 3 and result[1] <= 10_000:
            yield f"{result[0]} {result[1]} {result[2]}"


PROGRAMS: dict[str, Callable[[int, int], Iterator[str]]] = {
    "stateless": stateless,
    "keyed_reduce": keyed_reduce,
    "value_state": value_state,
    "tumbling": tumbling,
}


def work(program: str, part: int, tasks: Any, done: Any) -> None:
    """The life of a process: a size in, its results out, until there is no more."""
    while (count := tasks.get()) is not None:
        done.put(list(PROGRAMS[program](count, part)))


def main() -> None:
    program, sizes = sys.argv[1:3]
    context = multiprocessing.get_context("spawn")
    done = context.SimpleQueue()
    queues = [context.SimpleQueue() for _ in range(PROCESSES)]
    workers = [
        context.Process(target=work, args=(program, part, tasks, done), daemon=True)
        for part, tasks in enumerate(queues)
    ]
    for worker in workers:
        worker.start()
    for size in sizes.split(","):
        started = time.perf_counter()
        for tasks in queues:
            tasks.put(int(size))
        found = [done.get() for _ in queues]
        seconds = time.perf_counter() - started
        for line in sorted(line for lines in found for line in lines):
            print(f"result {line}")
        print(f"seconds {seconds:.3f}", flush=True)
    for tasks, worker in zip(queues, workers, strict=True):
        tasks.put(None)
        worker.join()


if __name__ == "__main__":
    main()
