"""Progress on a terminal and the console it shares with what tasks print."""

from __future__ import annotations

import io
import sys
from dataclasses import replace

import pytest

from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.jobmaster.checkpoint_statistics import CheckpointStatistics, CheckpointSummary
from firesteel.jobmaster.console import CONSOLE
from firesteel.jobmaster.progress import ProgressDisplay, RateBlock, rate_lines
from firesteel.jobmaster.statistics import JobStatistics, OperatorTotals
from firesteel.plan.state_handles import CheckpointKind

ID = JobID("a" * 32)


def statistics(*counts: tuple[str, int, int]) -> JobStatistics:
    return JobStatistics(tuple(OperatorTotals(name, name, 2, into, out) for name, into, out in counts))


class Job:
    job_id = ID
    name = "words"

    def statistics(self) -> JobStatistics:
        return statistics(("Map", 1, 2))


def test_rates_are_records_per_second_by_operator() -> None:
    before = statistics(("Source", 0, 1_000), ("A name that is much too long for a terminal", 1_000, 10))
    after = statistics(("Source", 0, 5_000), ("A name that is much too long for a terminal", 2_001_000, 30))
    assert rate_lines(before, after, 2.0, 120) == [
        "  Source                                          2.0 k/s out    5.0 k in all",
        "  A name that is much too long fo…   1.0 M/s in      10/s out    2.0 M in all",
    ]


def test_lines_fit_the_terminal() -> None:
    lines = rate_lines(statistics(("Map", 1, 1)), statistics(("Map", 2, 2)), 1.0, 20)
    assert [len(line) for line in lines] == [19]


def test_checkpoints_have_a_line_of_their_own() -> None:
    map_only = statistics(("Map", 1, 1))
    begun = replace(map_only, checkpoints=CheckpointStatistics(begun=1))
    assert rate_lines(map_only, begun, 1.0, 120)[1] == "  no checkpoint is complete yet; 0 complete"
    newest = CheckpointSummary(7, CheckpointKind.CHECKPOINT, "/c/chk-7", 0, 41.6, 2_345_678, 1.0, 2.0)
    facts = CheckpointStatistics(begun=9, completed=6, failed=2, history=(newest,))
    assert rate_lines(begun, replace(map_only, checkpoints=facts), 1.0, 120)[1] == (
        "  checkpoint 7: 42 ms, 2.3 MB; 6 complete, 2 failed"
    )


def test_states_are_lines() -> None:
    stream = io.StringIO()
    display = ProgressDisplay(stream)
    display.status_changed(Job(), JobStatus.RUNNING)
    display.status_changed(Job(), JobStatus.FINISHED)
    assert stream.getvalue() == (
        f"job words ({ID}) switched to RUNNING\njob words ({ID}) switched to FINISHED\n"
    )


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
