"""What a service decides about its submissions: who starts, who waits for slots, who is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firesteel.service.records import DriverReport, JobReport, Orders, ProcessMark
from firesteel.service.supervision import (
    MOST_DEATHS,
    Allow,
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


def seen(
    name: str,
    *jobs: JobReport,
    alive: bool = True,
    granted: bool | dict[str, int] = False,
    **orders: object,
) -> Seen:
    has = granted if isinstance(granted, dict) else {each.id: each.slots for each in jobs if granted}
    given = Orders(starts=1, granted=has)
    report = DriverReport(PROCESS, jobs=jobs)
    return Seen(name, 0, replace(given, **orders), report, alive, 0.0 if alive else LONG)  # type: ignore[arg-type]


def test_what_was_submitted_is_started_in_the_order_in_which_it_came() -> None:
    later, earlier = Seen("a", 2, Orders()), Seen("b", 1, Orders())
    assert decide([later, earlier], 8) == [Start("b"), Start("a")]


def test_jobs_get_slots_first_come_first_served() -> None:
    large, small = seen("a", job("a", slots=6, asked=1)), seen("b", job("b", slots=2, asked=2))
    assert decide([small, large], 8) == [Grant("a", "a", 6), Grant("b", "b", 2)]


def test_a_job_that_waits_is_not_overtaken_by_one_that_would_fit() -> None:
    running = seen("a", job("a", slots=4, status="RUNNING"), granted=True)
    large, small = seen("b", job("b", slots=6, asked=1)), seen("c", job("c", slots=2, asked=2))
    assert decide([running, small, large], 8) == []


def test_slots_of_a_job_that_is_over_are_free_before_its_driver_has_ended() -> None:
    over = seen("a", job("a", slots=8, status="FINISHED"), granted=True)
    assert slots_in_use([over]) == 0
    assert decide([over, seen("b", job("b", slots=8))], 8) == [Grant("b", "b", 8)]


def test_slots_of_a_driver_that_died_are_kept_for_its_next_one() -> None:
    dead = replace(seen("a", job("a", slots=8, status="RUNNING"), alive=False, granted=True), since_death=0.0)
    assert decide([dead, seen("b", job("b", slots=1))], 8) == []


def test_a_job_that_never_fits_is_refused_and_holds_up_nobody() -> None:
    assert decide([seen("a", job("a", slots=9)), seen("b", job("b", asked=1))], 8) == [
        Refuse("a", "a", 9),
        Grant("b", "b", 2),
    ]


def adaptive(name: str, slots: int, least: int, asked: int = 0) -> JobReport:
    return replace(job(name, slots, asked), least=least)


def test_an_adaptive_job_starts_with_the_slots_that_are_free() -> None:
    running = seen("a", job("a", slots=5, status="RUNNING"), granted=True)
    assert decide([running, seen("b", adaptive("b", 8, least=2))], 8) == [Grant("b", "b", 3)]
    assert decide([running, seen("b", adaptive("b", 2, least=1))], 8) == [Grant("b", "b", 2)]


def test_an_adaptive_job_that_has_what_it_makes_do_with_waits_for_nothing() -> None:
    has_some = seen("a", adaptive("a", 8, least=2), granted={"a": 3})
    assert decide([has_some, seen("b", job("b", slots=5, asked=1))], 8) == [Grant("b", "b", 5)]


def test_an_adaptive_job_waits_when_there_are_too_few_even_for_it() -> None:
    running = seen("a", job("a", slots=7, status="RUNNING"), granted=True)
    waits = seen("b", adaptive("b", 8, least=2, asked=1))
    assert decide([running, waits, seen("c", job("c", slots=1, asked=2))], 8) == []


def test_an_adaptive_job_does_not_overtake_one_that_waits_for_all_its_slots() -> None:
    running = seen("a", job("a", slots=4, status="RUNNING"), granted=True)
    waits, later = seen("b", job("b", slots=6, asked=1)), seen("c", adaptive("c", 8, least=2, asked=2))
    assert decide([running, waits, later], 8) == []
    assert decide([waits, later], 8) == [Grant("b", "b", 6), Grant("c", "c", 2)]


def test_an_adaptive_job_is_refused_only_when_the_service_has_too_few_even_for_it() -> None:
    assert decide([seen("a", adaptive("a", 20, least=2))], 8) == [Grant("a", "a", 8)]
    assert decide([seen("a", adaptive("a", 20, least=9))], 8) == [Refuse("a", "a", 9)]


def test_an_adaptive_job_that_runs_gets_more_when_so_many_are_free_that_they_are_of_use() -> None:
    hoping = replace(job("a", slots=4, status="RUNNING"), wanted=8, least=6, request=1)
    hopes, beside = seen("a", hoping, granted=True), job("b", slots=3, status="RUNNING")
    assert decide([hopes, seen("b", beside, granted=True)], 8) == [], "one more would be of no use"
    assert decide([hopes, seen("b", replace(beside, slots=1), granted=True)], 8) == [Allow("a", "a", 1, 7)]
    assert decide([hopes, seen("b", replace(beside, status="FINISHED"))], 8) == [Allow("a", "a", 1, 8)]
    assert decide([hopes, seen("b", job("b", slots=4))], 8) == [Grant("b", "b", 4)], "who waits comes first"
    assert decide([hopes, seen("b", job("b", slots=5))], 8) == [], "what there is, is kept for who waits"


def test_what_a_job_has_given_back_is_not_its_own_when_it_asks_anew() -> None:
    # It was allowed 7, runs with 6 of them, and has asked for 8 before the service has read that.
    asks = replace(job("a", slots=6, status="RUNNING"), wanted=8, least=8, request=2)
    given_back = seen("a", asks, granted={"a": 7}, answered={"a": 1})
    assert given_back.orders.held(asks) == 6
    assert decide([given_back, seen("b", job("b", slots=2))], 8) == [Grant("a", "a", 6), Grant("b", "b", 2)]


def test_the_report_of_a_driver_that_knows_of_no_least_asks_for_all_slots() -> None:
    found = DriverReport(PROCESS, jobs=(job("a", slots=9),)).to_json()
    for each in found["jobs"]:
        del each["least"]
    (older,) = DriverReport.from_json(found).jobs
    assert decide([seen("a", older)], 8) == [Refuse("a", "a", 9)]


def test_a_job_that_was_rescaled_down_gives_back_what_others_wait_for() -> None:
    smaller = seen("a", job("a", slots=3, status="RUNNING"), granted={"a": 8})
    assert decide([smaller, seen("b", job("b", slots=5))], 8) == [Grant("a", "a", 3), Grant("b", "b", 5)]


def test_a_job_that_asks_for_more_is_told_how_many_it_may_have() -> None:
    asking = replace(job("a", slots=2, status="RUNNING"), wanted=6, request=1)
    asks = seen("a", asking, granted={"a": 2})
    assert decide([asks], 8) == [Allow("a", "a", 1, 6)]
    assert decide([asks, seen("b", job("b", slots=4), granted=True)], 8) == [Allow("a", "a", 1, 4)]
    answered = replace(asks, orders=replace(asks.orders, granted={"a": 6}, answered={"a": 1}))
    assert decide([answered], 8) == [], "it keeps them until it says that it does not need them"
    assert slots_in_use([answered]) == 6
    settled = seen("a", replace(asking, wanted=0), granted={"a": 6}, answered={"a": 1})
    assert decide([settled], 8) == [Grant("a", "a", 2)], "it was not rescaled after all"


def test_a_job_that_asks_for_more_gets_none_of_what_another_one_waits_for() -> None:
    asks = seen("a", replace(job("a", slots=2, status="RUNNING"), wanted=4, request=3), granted={"a": 2})
    waits = seen("b", job("b", slots=7, asked=1))
    assert decide([asks, waits], 8) == [Allow("a", "a", 3, 2)]


def test_the_next_driver_of_a_rescaled_job_waits_for_what_it_needs_more() -> None:
    # It was rescaled from 6 to 2, and a driver that is started anew has the parallelism of its command line.
    again, other = seen("a", job("a", slots=6), granted={"a": 2}), seen("b", job("b", slots=4), granted=True)
    assert decide([again, replace(other, orders=replace(other.orders, granted={"b": 4}))], 8) == []
    assert decide([again], 8) == [Grant("a", "a", 6)]


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


def test_a_cancelled_submission_whose_driver_hears_of_it_first_is_cancelled_all_the_same() -> None:
    waiting = seen("a", job("a"), alive=False, is_cancelled=True)
    assert waiting.report is not None
    ended = replace(waiting, report=replace(waiting.report, exit_code=1))
    assert decide([ended], 8) == [Close("a", "CANCELED", "it was cancelled")]
