"""Progress on a terminal and the console it shares with what tasks print."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from datetime import datetime

import pytest

from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.common.time import MAX_WATERMARK
from firesteel.jobmaster.checkpoints.statistics import (
    CheckpointStatistics,
    CheckpointSummary,
    SubtaskAcknowledgement,
)
from firesteel.jobmaster.statistics import JobStatistics, OperatorTotals
from firesteel.jobmaster.terminal.console import CONSOLE
from firesteel.jobmaster.terminal.progress import ProgressDisplay, RateBlock
from firesteel.jobmaster.terminal.progress_lines import block_lines, summary_lines
from firesteel.metrics import JobMetrics, MetricKind, MetricValue
from firesteel.plan.state_handles import CheckpointKind

ID = JobID("a" * 32)
NOW = 1_704_067_200_000


def statistics(*counts: tuple[str, int, int]) -> JobStatistics:
    return JobStatistics(tuple(OperatorTotals(name, name, 2, into, out) for name, into, out in counts))


class Job:
    job_id = ID
    name = "words"

    def statistics(self) -> JobStatistics:
        return statistics(("Map", 1, 2))


def shown(before: JobStatistics, after: JobStatistics, seconds: float = 1.0, width: int = 120) -> list[str]:
    return block_lines(before, after, seconds, width, 40, NOW)


def test_rates_are_records_per_second_by_operator() -> None:
    before = statistics(("Source", 0, 1_000), ("Map", 1_000, 10))
    after = statistics(("Source", 0, 5_000), ("Map", 2_001_000, 30))
    assert shown(before, after, 2.0) == [
        "  running 0.0 s",
        "  Source                2.0 k/s out    5.0 k in all",
        "  Map      1.0 M/s in      10/s out    2.0 M in all",
    ]


def test_at_eighty_columns_everything_is_there() -> None:
    long_name = "A name that is much too long for a terminal of eighty columns"
    before, after = statistics((long_name, 5, 1)), statistics((long_name, 2_001_000, 30))
    after = replace(after, watermark=NOW - 3_200, restarts=2, elapsed=192.0, checkpoints=completed())
    lines = shown(before, after, width=80)
    at = f"{datetime.fromtimestamp((NOW - 3_200) / 1000):%H:%M:%S}"
    assert lines == [
        f"  running 3 min 12 s, 2 restarts, watermark 3.2 s behind, at {at}",
        "  A name that is much too long for…   2.0 M/s in      29/s out    2.0 M in all",
        "  checkpoint 7: 42 ms, 2.3 MB, 5.0 s ago; 6 checkpoints complete, 2 failed",
    ]
    assert max(map(len, lines)) < 80


@pytest.mark.parametrize("width", [1, 2, 10, 20, 33, 40, 47, 60, 79, 80, 81, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    full = replace(
        statistics(("Source: Clicks", 0, 7), ("Map", 1, 1)),
        watermark=NOW,
        restarts=1,
        checkpoints=completed(),
        metrics=JobMetrics((counter("Map", "hits", 3), counter("Map", "misses", 4))),
    )
    for lines in (shown(full, full, width=width), summary_lines(full, width)):
        assert all(len(line) <= max(1, width - 1) for line in lines)


def test_narrow_terminals_see_fewer_columns_and_no_halves_of_them() -> None:
    before, after = statistics(("Map", 1, 1)), statistics(("Map", 2, 2))
    assert shown(before, after, width=33)[1] == "  Map       1/s in       1/s out"
    assert shown(before, after, width=32)[1] == "  Map       1/s in"


def test_low_terminals_see_fewer_operators() -> None:
    many = statistics(*((f"Map {number}", 1, 1) for number in range(30)))
    lines = block_lines(many, many, 1.0, 80, 10, NOW)
    assert len(lines) < 10
    assert lines[-1] == "  ... and 23 more operators"


def test_what_is_called_strangely_does_not_move_the_cursor() -> None:
    after = replace(
        statistics(("a\x1b[2Jb\n", 1, 1)), metrics=JobMetrics((counter("a\x1b[2Jb\n", "x\ty", 3),))
    )
    lines = [*shown(after, after), *summary_lines(after)]
    assert all(line.isprintable() for line in lines)


def test_checkpoints_have_a_line_of_their_own() -> None:
    map_only = statistics(("Map", 1, 1))
    begun = replace(map_only, checkpoints=CheckpointStatistics(begun=1))
    assert shown(map_only, begun)[-1] == "  no checkpoint is complete yet; 0 checkpoints complete"


def completed() -> CheckpointStatistics:
    written = (SubtaskAcknowledgement(0, 0, NOW - 5_002, 2_345_678, 1.0, 2.0, 40.0),)
    newest = CheckpointSummary(
        7, CheckpointKind.CHECKPOINT, NOW - 5_042, ended=NOW - 5_000, acknowledgements=written
    )
    return CheckpointStatistics(begun=9, completed=6, failed=2, newest=newest)


def counter(operator: str, name: str, count: int, subtask: int = 0) -> MetricValue:
    return MetricValue(operator, operator, subtask, (), name, MetricKind.COUNTER, count)


def test_event_time_that_has_not_come_to_the_end_of_the_job_is_told() -> None:
    source = OperatorTotals("a", "Source", 1, 0, 5, watermark=NOW)
    assert shown(JobStatistics((source,)), JobStatistics((source,)))[0] == (
        "  running 0.0 s, no watermark has come to the end of the job yet"
    )


@pytest.mark.parametrize(
    ("watermark", "text"),
    [
        (MAX_WATERMARK, "watermark at the end of time"),
        (NOW + 60_000, "1 min 0 s ahead"),
        (10**17, "ahead, at 100000000000000000 ms"),
        (
            NOW - 100 * 86_400_000,
            f"watermark 100 d 0 h behind, at {datetime.fromtimestamp(NOW / 1000 - 100 * 86_400):%Y-%m-%d}",
        ),
    ],
)
def test_unusual_watermarks(watermark: int, text: str) -> None:
    job = replace(statistics(("Map", 1, 1)), watermark=watermark)
    assert text in shown(job, job)[0]


def test_back_pressure_names_the_last_operator_that_waits() -> None:
    def job(share: float | None) -> JobStatistics:
        source = OperatorTotals("a", "Source", 1, 0, 5, back_pressure=share)
        sink = OperatorTotals("c", "Sink", 1, 5, 0, back_pressure=None if share is None else 0.0)
        return JobStatistics((source, replace(source, operator_id="b", name="Map"), sink))

    assert shown(job(0.834), job(0.834))[-1] == (
        "  back pressure: 83 % of the time Map waits for what follows"
    )
    for share in (None, 0.05):
        assert not any("back pressure" in line for line in shown(job(share), job(share)))


def test_metrics_of_functions_are_shown_as_far_as_they_fit() -> None:
    values = tuple(counter("Map", f"metric_{n}", 10**n, subtask) for n in range(9) for subtask in range(2))
    own = MetricValue("Map", "Map", 0, (), "currentInputWatermark", MetricKind.GAUGE, 5)
    job = replace(statistics(("Map", 1, 1)), metrics=JobMetrics((own, *values)))
    assert shown(job, job, width=60)[-1] == "  Map: metric_0 2, metric_1 20, metric_2 200"
    assert summary_lines(job)[1:4] == ["  Map: metric_0 2", "  Map: metric_1 20", "  Map: metric_2 200"]
    assert summary_lines(job)[-1] == "  Map: metric_8 200,000,000"
    assert len(summary_lines(job)) == 10


def test_states_are_lines_and_the_last_has_a_summary() -> None:
    stream = io.StringIO()
    display = ProgressDisplay(stream)
    display.status_changed(Job(), JobStatus.RUNNING)
    display.status_changed(Job(), JobStatus.FINISHED)
    assert stream.getvalue() == (
        f"job words ({ID}) switched to RUNNING\njob words ({ID}) switched to FINISHED\n  after 0.0 s\n"
    )


@pytest.mark.parametrize(
    ("is_terminal", "kind", "draws"), [(True, "xterm", True), (True, "dumb", False), (False, "xterm", False)]
)
def test_only_terminals_that_can_take_lines_back_get_control_characters(
    is_terminal: bool, kind: str, draws: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    monkeypatch.setenv("TERM", kind)
    display = ProgressDisplay(Stream())
    display.status_changed(Job(), JobStatus.RUNNING)
    try:
        assert (display._block is not None) is draws
    finally:
        display.status_changed(Job(), JobStatus.FINISHED)


def test_block_is_taken_away_before_anything_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()  # standard output and error of a person are the same terminal
    monkeypatch.setattr(sys, "stdout", terminal)
    block = RateBlock(Job(), terminal)
    block._draw(["one", "two"])
    CONSOLE.write("printed\n")
    block._draw(["three"])
    block._draw(["four"])
    block.stop()
    CONSOLE.write("end\n")
    assert (
        terminal.getvalue() == "one\ntwo\n\x1b[2A\x1b[Jprinted\nthree\n\x1b[1A\x1b[Jfour\n\x1b[1A\x1b[Jend\n"
    )


def test_live_display_starts_and_ends_with_running() -> None:
    stream = io.StringIO()
    display = ProgressDisplay(stream, live=True)
    for status in (JobStatus.RUNNING, JobStatus.CANCELLING, JobStatus.CANCELED):
        display.status_changed(Job(), status)
    assert stream.getvalue().count("switched to") == 3


def test_text_that_a_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    CONSOLE.write("naïve\n", "stderr")
    assert raw.getvalue() == b"na\\xefve\n"
