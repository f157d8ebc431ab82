"""What is shown of a sample, in figures: rates and shares between two samples, or those of the last minute if there is one only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from firesteel.cli.live_view.samples import JobSample, OperatorSample, VertexSample
from firesteel.common.time import MAX_WATERMARK

__all__ = ["Figures", "OperatorFigures", "job_figures", "lag_ms", "vertex_figures"]

_SECOND = 1000.0


@dataclass(frozen=True, slots=True)
class OperatorFigures:
    """Records per second, and in all; None: not known."""

    name: str
    rate_in: float | None
    rate_out: float | None
    records_in: float | None
    records_out: float | None


@dataclass(frozen=True, slots=True)
class Figures:
    """Of a vertex or a whole job. Shares are from 0 to 1; ``lag_ms`` is minus infinity at the end of event time. None: not known."""

    rate_in: float | None = None
    rate_out: float | None = None
    busy: float | None = None
    back_pressured: float | None = None
    lag_ms: float | None = None
    operators: tuple[OperatorFigures, ...] = ()


def job_figures(before: JobSample | None, after: JobSample) -> Figures:
    """A job as a whole: what its sources take in, what comes to its sinks, and the share of its busiest and slowest vertex."""
    pairs = [(each, vertex_figures(before, after, each)) for each in after.vertices]
    sources = [figures.operators[0].rate_out for vertex, figures in pairs if vertex.is_source]
    sinks = [figures.operators[-1].rate_in for vertex, figures in pairs if vertex.is_sink]
    return Figures(
        _sum(sources),
        _sum(sinks),
        _greatest(figures.busy for _, figures in pairs),
        _greatest(figures.back_pressured for _, figures in pairs),
        _greatest(figures.lag_ms for vertex, figures in pairs if vertex.is_sink),
    )


def vertex_figures(before: JobSample | None, after: JobSample, vertex: VertexSample) -> Figures:
    """One vertex: records that come to its first operator and leave its last one, and what it does with its time."""
    earlier = None
    if before is not None and after.now > before.now:
        earlier = next((each for each in before.vertices if each.id == vertex.id), None)
    seconds = 0.0 if earlier is None or before is None else (after.now - before.now) / _SECOND
    old = earlier.operators if earlier is not None else (None,) * len(vertex.operators)
    operators = tuple(_operator(then, now, seconds) for then, now in zip(old, vertex.operators, strict=False))
    subtask_seconds = seconds * vertex.parallelism
    return Figures(
        operators[0].rate_in,
        operators[-1].rate_out,
        _share(None if earlier is None else earlier.busy_ms, vertex.busy_ms, subtask_seconds, vertex.busy),
        _share(
            None if earlier is None else earlier.back_pressured_ms,
            vertex.back_pressured_ms,
            subtask_seconds,
            vertex.back_pressured,
        ),
        lag_ms(vertex, after.now),
        operators,
    )


def _operator(before: OperatorSample | None, after: OperatorSample, seconds: float) -> OperatorFigures:
    return OperatorFigures(
        after.name,
        _rate(None if before is None else before.records_in, after.records_in, seconds, after.rate_in),
        _rate(None if before is None else before.records_out, after.records_out, seconds, after.rate_out),
        after.records_in,
        after.records_out,
    )


def _rate(
    before: float | None, after: float | None, seconds: float, of_last_minute: float | None
) -> float | None:
    """A restart resets counters: then what the tasks themselves say has to do."""
    if before is None or after is None or seconds <= 0 or after < before:
        return of_last_minute
    return (after - before) / seconds


def _share(
    before: float | None, after: float | None, seconds: float, of_last_minute: float | None
) -> float | None:
    # Not every sample has a new report of every task, so that a share can come out as more than there is.
    rate = _rate(before, after, seconds, None)
    if rate is None or of_last_minute is None:
        return of_last_minute
    return min(1.0, rate / _SECOND)


def lag_ms(vertex: VertexSample, now: int) -> float | None:
    """How far event time is behind the clock where the vertex ends; None before it begins."""
    if vertex.watermark is None:
        return None
    return float("-inf") if vertex.watermark >= MAX_WATERMARK else float(now - vertex.watermark)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _greatest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
