"""Asynchronous calls: how long many of them take that need 10 ms each, 1,000 at a time.

10,000 calls of 10 ms, 1,000 in flight, cannot take less than 100 ms. The peer is bare asyncio: one event loop, as many
coroutines behind a semaphore of the same size. Firesteel's time is from the first call to the last answer, in one
subtask on Spark; setting up the job is left out on both sides.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from _harness import at_most, environment, parser
from _results import begin
from firesteel.common import Time
from firesteel.datastream import AsyncDataStream

CALLS, CAPACITY, SECONDS = 10_000, 1_000, 0.01


async def call(value: int) -> list[tuple[float, float]]:
    """What is awaited for every record."""
    began = time.time()
    await asyncio.sleep(SECONDS)
    return [(began, time.time())]


async def bare(calls: int) -> float:
    """Seconds for the same calls on a bare event loop."""
    free = asyncio.Semaphore(CAPACITY)

    async def one(value: int) -> list[tuple[float, float]]:
        async with free:
            return await call(value)

    began = time.perf_counter()
    await asyncio.gather(*(one(value) for value in range(calls)))
    return time.perf_counter() - began


def firesteel(calls: int, ordered: bool) -> float:
    """Seconds from the first call to the last answer."""
    env = environment(1)
    wait = AsyncDataStream.ordered_wait if ordered else AsyncDataStream.unordered_wait
    answers = wait(env.from_collection(range(calls)), call, Time.minutes(1), capacity=CAPACITY)
    with answers.execute_and_collect() as results:
        times = list(results)
    assert len(times) == calls
    return max(end for _, end in times) - min(begin for begin, _ in times)


def main() -> None:
    """Measure in turns."""
    arguments = parser(__doc__).parse_args()
    least = CALLS / CAPACITY * SECONDS
    question = f"{CALLS:,} calls of {SECONDS * 1000:.0f} ms, {CAPACITY:,} at a time: {least:.1f} s at least"
    results = begin(__file__, question, arguments)
    firesteel(CALLS, True)  # warm
    sides: dict[str, list[float]] = {"bare asyncio": [], "ordered": [], "unordered": []}
    for _ in range(3 if arguments.quick else 9):
        sides["bare asyncio"].append(asyncio.run(bare(CALLS)))
        sides["ordered"].append(firesteel(CALLS, True))
        sides["unordered"].append(firesteel(CALLS, False))
    peer = statistics.median(sides["bare asyncio"])
    rows = []
    for name, seconds in sides.items():
        median = statistics.median(seconds)
        target = "" if name == "bare asyncio" else at_most(median / peer, 2.0, "x bare asyncio")
        rows.append([name, f"{median:.3f}", f"{min(seconds):.3f}", f"{max(seconds):.3f}", target])
    results.table(["side", "median s", "least", "most", "target"], rows)


if __name__ == "__main__":
    main()
