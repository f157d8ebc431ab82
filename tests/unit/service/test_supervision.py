"""What a service decides about its submissions: who starts, who waits for slots, who is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firesteel.service.records import DriverReport, JobReport, Orders, ProcessMark
from firesteel.service.supervision import (
    MOST_DEATHS,
    Close,
    Grant,
    Refuse,
    Seen,
    Start,
    decide,
    pause_after,
    slots_in_use,
)

PROCESS = ProcessMark(7, "here")
LONG = 1000.0


def job(name: str, slots: int = 2, asked: int = 0, status: str = "", resumable: bool = True) -> JobReport:
    return JobReport(name, name, slots, asked, resumable, status=status)


def seen(name: str, *jobs: JobReport, alive: bool = True, granted: bool = False, **orders: object) -> Seen:
    given = Orders(starts=1, granted=tuple(each.id for each in jobs) if granted else ())
    report = DriverReport(PROCESS, jobs=jobs)
    return Seen(name, 0, replace(given, **orders), report, alive, 0.0 if alive else LONG)  # type: ignore[arg-type]


def test_what_was_submitted_is_started_in_the_order_in_which_it_came() -> None:
    later, earlier = Seen("a", 2, Orders()), Seen("b", 1, Orders())
    assert decide([later, earlier], 8) == [Start("b"), Start("a")]


def test_jobs_get_slots_first_come_first_served() -> None:
    large, small = seen("a", job("a", slots=6, asked=1)), seen("b", job("b", slots=2, asked=2))
    assert decide([small, large], 8) == [Grant("a", "a"), Grant("b", "b")]


def test_a_job_that_waits_is_not_overtaken_by_one_that_would_fit() -> None:
    running = seen("a", job("a", slots=4, status="RUNNING"), granted=True)
    large, small = seen("b", job("b", slots=6, asked=1)), seen("c", job("c", slots=2, asked=2))
    assert decide([running, small, large], 8) == []


def test_slots_of_a_job_that_is_over_are_free_before_its_driver_has_ended() -> None:
    over = seen("a", job("a", slots=8, status="FINISHED"), granted=True)
    assert slots_in_use([over]) == 0
    assert decide([over, seen("b", job("b", slots=8))], 8) == [Grant("b", "b")]


def test_slots_of_a_driver_that_died_are_kept_for_its_next_one() -> None:
    dead = replace(seen("a", job("a", slots=8, status="RUNNING"), alive=False, granted=True), since_death=0.0)
    assert decide([dead, seen("b", job("b", slots=1))], 8) == []


def test_a_job_that_never_fits_is_refused_and_holds_up_nobody() -> None:
    assert decide([seen("a", job("a", slots=9)), seen("b", job("b", asked=1))], 8) == [
        Refuse("a", "a", 9),
        Grant("b", "b"),
    ]


def test_a_driver_that_died_is_started_again_from_the_newest_checkpoint_after_a_pause() -> None:
    dead = seen("a", job("a", status="RUNNING"), alive=False, granted=True)
    assert decide([dead], 8) == [Start("a", resume=True, after_death=True)]
    assert decide([replace(dead, since_death=0.5)], 8) == []
    again = replace(dead, since_death=1.5, orders=replace(dead.orders, deaths=3))
    assert decide([again], 8) == [], "the pause grows"
    assert pause_after(4) > 1.5


def test_a_driver_that_died_before_its_job_was_known_begins_anew() -> None:
    assert decide([seen("a", alive=False)], 8) == [Start("a", resume=False, after_death=True)]


def test_a_job_without_checkpoints_does_not_survive_its_driver() -> None:
    dead = seen("a", job("a", status="RUNNING", resumable=False), alive=False, granted=True)
    (close,) = decide([dead], 8)
    assert isinstance(close, Close)
    assert close.status == "FAILED"
    assert "no checkpoints in a directory" in close.sentence


def test_a_job_that_has_not_begun_needs_no_checkpoints_to_be_started_again() -> None:
    dead = seen("a", job("a", resumable=False), alive=False)
    assert decide([dead], 8) == [Start("a", resume=True, after_death=True)]


def test_a_program_in_the_middle_of_its_jobs_cannot_be_started_again() -> None:
    dead = seen("a", job("1", status="FINISHED"), job("2", status="RUNNING"), alive=False, granted=True)
    (close,) = decide([dead], 8)
    assert isinstance(close, Close)
    assert "cannot be started in its middle" in close.sentence


def test_a_driver_that_dies_again_and_again_is_given_up() -> None:
    dead = seen("a", job("a", status="RUNNING"), alive=False, granted=True, deaths=MOST_DEATHS)
    (close,) = decide([dead], 8)
    assert isinstance(close, Close)
    assert close.status == "FAILED"


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [
        ("FINISHED", 0, "FINISHED"),
        ("FAILED", 1, "FAILED"),
        ("CANCELED", 1, "CANCELED"),
        ("FINISHED", 3, "FAILED"),
    ],
)
def test_a_program_that_has_ended_by_itself_is_over(status: str, code: int, expected: str) -> None:
    ended = seen("a", job("a", status=status), alive=False, granted=True)
    assert ended.report is not None
    ended = replace(ended, report=replace(ended.report, exit_code=code))
    (close,) = decide([ended], 8)
    assert isinstance(close, Close)
    assert close.status == expected


def test_a_cancelled_submission_gets_no_slots_and_is_over_when_its_driver_is() -> None:
    waiting = seen("a", job("a"), is_cancelled=True)
    assert decide([waiting], 8) == []
    assert decide([replace(waiting, is_alive=False)], 8) == [Close("a", "CANCELED", "it was cancelled")]
