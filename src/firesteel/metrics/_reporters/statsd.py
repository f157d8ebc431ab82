"""Sends metrics to StatsD by UDP: gauges, as Flink's reporter does."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence

from firesteel.common._override import override
from firesteel.metrics._numbers import parts
from firesteel.metrics._reported import MetricReporter, ReportedMetric

__all__ = ["StatsDReporter"]

_CLEAN = str.maketrans({":": "-", "|": "-", "@": "-", " ": "_", "\n": "_"})


class StatsDReporter(MetricReporter):
    """A packet for each number; options ``host`` (localhost) and ``port`` (8125)."""

    @override
    def open(self, settings: Mapping[str, str]) -> None:
        host, port = settings.get("host", "localhost"), int(settings.get("port", "8125"))
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        self._address = address
        self._socket = socket.socket(family, kind, protocol)

    @override
    def report(self, metrics: Sequence[ReportedMetric]) -> None:
        for metric in metrics:
            for line in _lines(metric):
                self._socket.sendto(line.encode(), self._address)

    @override
    def close(self) -> None:
        self._socket.close()


def _lines(metric: ReportedMetric) -> Iterator[str]:
    name = metric.identifier.translate(_CLEAN)
    for part, number in parts(metric.value).items():
        full = f"{name}.{part}" if part else name
        if number < 0:  # with a sign it would be added to what was there
            yield f"{full}:0|g"
        yield f"{full}:{number}|g"
