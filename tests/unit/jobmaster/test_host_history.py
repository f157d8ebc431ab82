"""Hosts that were lost and are back."""

from __future__ import annotations

from firesteel.jobmaster.host_history import HostHistory


def test_host_that_was_never_lost_is_no_news() -> None:
    history = HostHistory()
    assert history.seen("a", 1.0) is None
    assert history.seen("a", 2.0) is None
    (record,) = history.records
    assert (record.seen, record.losses, record.is_lost) == (2000, 0, False)


def test_several_tasks_of_a_host_are_one_loss_and_one_return() -> None:
    history = HostHistory()
    history.seen("a", 1.0)
    history.lost("a", 5.0, "first task")
    history.lost("a", 5.5, "second task")
    (record,) = history.records
    assert (record.losses, record.lost, record.reason) == (1, 5500, "second task")
    news = [history.seen("a", 8.0), history.seen("a", 8.5)]
    assert [bool(each) for each in news] == [True, False]
    history.lost("a", 9.0, "again")
    (record,) = history.records
    assert (record.losses, record.is_lost, record.returned) == (2, True, None)


def test_tasks_in_this_process_have_no_host() -> None:
    history = HostHistory()
    assert history.seen("", 1.0) is None
    history.lost("", 2.0, "x")
    assert history.records == ()


def test_hosts_that_were_not_heard_of_for_longest_are_forgotten() -> None:
    history = HostHistory()
    for number in range(300):
        history.seen("stays", float(number))
        history.seen(f"node-{number:03}", float(number))
    names = {record.host for record in history.records}
    assert len(names) == 200
    assert "stays" in names
    assert "node-299" in names
    assert "node-000" not in names
