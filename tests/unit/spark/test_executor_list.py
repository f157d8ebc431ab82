"""Asking Spark about its executors: one question at a time, and nobody waits long for a driver that does not answer."""

from __future__ import annotations

import threading

from firesteel.spark.executor_list import PatientQuestion


def test_an_answer_is_given_again_while_it_is_fresh() -> None:
    question = PatientQuestion(0, fresh_seconds=60.0, seconds=60.0)
    assert question.get(lambda: 1) == 1
    assert question.get(lambda: 2) == 1


def test_an_old_answer_is_replaced() -> None:
    question = PatientQuestion(0, fresh_seconds=0.0, seconds=60.0)
    assert question.get(lambda: 1) == 1
    assert question.get(lambda: 2) == 2


def test_what_fails_leaves_what_was_known() -> None:
    question = PatientQuestion(7, fresh_seconds=0.0, seconds=60.0)

    def fail() -> int:
        raise OSError("the JVM is gone")

    assert question.get(fail) == 7


def test_one_thread_waits_for_who_does_not_answer_however_often_he_is_asked() -> None:
    question = PatientQuestion(7, fresh_seconds=0.0, seconds=0.01)
    may_answer, asked = threading.Event(), []

    def ask() -> int:
        asked.append(threading.current_thread())
        may_answer.wait()
        return 8

    assert [question.get(ask) for _ in range(5)] == [7] * 5
    assert len(asked) == 1
    may_answer.set()
    asked[0].join()
    assert question.get(lambda: 9) in (8, 9), "the answer that came late is known, or a newer one"
