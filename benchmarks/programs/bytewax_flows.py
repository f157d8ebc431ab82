# ruff: noqa: D101, D102 - programs as a user writes them
"""The programs of the comparison as Bytewax dataflows: stateless, keyed_reduce and tumbling windows.

    python bytewax_flows.py stateless|keyed_reduce|tumbling COUNT[,COUNT ...]

Two processes of one worker each, because threads would share one interpreter lock, connected as ``python -m bytewax.run``
connects them. They stay for all jobs. Sources give a thousand numbers at a time. Keys are text, as Bytewax wants them.
"""

import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.inputs import (
    DynamicSource,
    FixedPartitionedSource,
    StatefulSourcePartition,
    StatelessSourcePartition,
)
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

KEYS = 1000
BATCH = 1000
WORKERS = 2
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# Sources and sink ------------------------------------------------------------------------------------


class Numbers(StatelessSourcePartition):
    def __init__(self, start, end):
        self.next, self.end = start, end

    def next_batch(self):
        if self.next >= self.end:
            raise StopIteration
        first = self.next
        self.next = min(first + BATCH, self.end)
        return range(first, self.next)


class SharedNumbers(DynamicSource):
    """The numbers below an end, a part for each worker."""

    def __init__(self, start, end):
        self.start, self.end = start, end

    def build(self, step_id, worker_index, worker_count):
        cuts = [self.start + (self.end - self.start) * n // worker_count for n in range(worker_count + 1)]
        return Numbers(cuts[worker_index], cuts[worker_index + 1])


class OrderedNumbers(FixedPartitionedSource):
    """The numbers below an end from one worker, so that time is in order."""

    def __init__(self, end):
        self.end = end

    def list_parts(self):
        return ["all"]

    def build_part(self, step_id, for_part, resume_state):
        return OrderedPart(Numbers(0, self.end))


class OrderedPart(StatefulSourcePartition):
    def __init__(self, numbers):
        self.numbers = numbers

    def next_batch(self):
        return self.numbers.next_batch()

    def snapshot(self):
        return None


class Printed(DynamicSink):
    #: When the workers had found each other, which may take them a second, and not always does.
    connected = 0.0

    def build(self, step_id, worker_index, worker_count):
        Printed.connected = time.perf_counter()
        return PrintedPart()


class PrintedPart(StatelessSinkPartition):
    def write_batch(self, items):
        for item in items:
            sys.stdout.write(f"result {item}\n")
        sys.stdout.flush()


# The programs ----------------------------------------------------------------------------------------


def halves(record):
    yield record[0], record[1] // 2
    yield record[0], record[1] - record[1] // 2


def stateless(flow, count):
    numbers = op.input("numbers", flow, SharedNumbers(1, count + 1))
    triples = op.map("triple", numbers, lambda n: (n, n * 3))
    kept = op.filter("some", triples, lambda r: r[0] % 4 != 1)
    both = op.flat_map("halves", kept, halves)
    last = op.filter("last", both, lambda r: r[0] == count)
    return op.map("shown", last, lambda r: r[1])


def keyed_reduce(flow, count):
    numbers = op.input("numbers", flow, SharedNumbers(1, count + 1))
    pairs = op.map("pair", numbers, lambda n: (str(n % KEYS), 1))
    sums = op.stateful_map("sum", pairs, running_sum)
    last = op.filter("last", sums, lambda r: r[0] == "0" and r[1] == count // KEYS)
    return op.map("shown", last, lambda r: r[1])


def running_sum(total, one):
    total = one if total is None else total + one
    return total, total


def tumbling(flow, count):
    numbers = op.input("numbers", flow, OrderedNumbers(count))
    pairs = op.map("pair", numbers, lambda n: (n % KEYS, EPOCH + timedelta(milliseconds=n)))
    # Its clock also goes on with the machine's: five seconds keep a busy machine from making records late.
    clock = win.EventClock(lambda r: r[1], wait_for_system_duration=timedelta(seconds=5))
    windows = win.TumblingWindower(length=timedelta(seconds=10), align_to=EPOCH)
    counts = win.count_window("count", pairs, clock, windows, lambda r: str(r[0])).down
    ends = op.map("end", counts, lambda r: (int(r[0]), (r[1][0] + 1) * 10_000, r[1][1]))
    first = op.filter("first", ends, lambda r: r[0] < 3 and r[1] <= 10_000)
    return op.map("shown", first, lambda r: f"{r[0]} {r[1]} {r[2]}")


PROGRAMS = {"stateless": stateless, "keyed_reduce": keyed_reduce, "tumbling": tumbling}


# Running ---------------------------------------------------------------------------------------------


def run(program, count, process, ports):
    flow = Dataflow(program)
    op.output("out", PROGRAMS[program](flow, count), Printed())
    cluster_main(flow, [f"127.0.0.1:{port}" for port in ports], process)
    if process == 0:
        print(f"seconds {time.perf_counter() - Printed.connected:.3f}", flush=True)


def free_ports(count):
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def main():
    program, sizes, *rest = sys.argv[1:]
    counts = [int(size) for size in sizes.split(",")]
    if rest:  # one of the other processes
        process, ports = int(rest[0]), [int(port) for port in rest[1].split(",")]
    else:
        process, ports = 0, free_ports(WORKERS * len(counts))
        words = [sys.executable, __file__, program, sizes]
        given = ",".join(map(str, ports))
        others = [subprocess.Popen([*words, str(number), given]) for number in range(1, WORKERS)]
    for index, count in enumerate(counts):
        run(program, count, process, ports[index * WORKERS : (index + 1) * WORKERS])
    if process == 0 and any(other.wait() for other in others):
        raise SystemExit("a worker process failed")


if __name__ == "__main__":
    main()
