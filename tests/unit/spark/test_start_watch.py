"""Ending a JVM in the middle of a call to it, when nobody wants the answer any more."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from firesteel.common.errors import JobCancelledError
from firesteel.spark.jvm import ended_unless_wanted


@pytest.fixture
def jvm(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process that PySpark takes for its JVM."""
    with subprocess.Popen(["sleep", "600"]) as process:
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        yield process
        process.kill()


def call(jvm: subprocess.Popen[bytes]) -> None:
    """As a call through py4j: it fails when the JVM is gone, and waits until then."""
    jvm.wait(600)
    raise ConnectionError("the JVM is gone")


def test_call_that_nobody_wants_is_ended_with_the_jvm_and_no_word(
    jvm: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    answers = iter([True])
    with (
        pytest.raises(JobCancelledError, match="while Spark started"),
        ended_unless_wanted(lambda: next(answers, False)),
    ):
        call(jvm)
    assert jvm.returncode == -9
    assert caplog.messages == []


def test_call_that_is_wanted_is_left_alone(jvm: subprocess.Popen[bytes]) -> None:
    with ended_unless_wanted(lambda: True):
        pass
    assert jvm.poll() is None


def test_failure_of_a_call_that_is_wanted_stays_what_it_is(jvm: subprocess.Popen[bytes]) -> None:
    with pytest.raises(ValueError, match="no"), ended_unless_wanted(lambda: True):
        raise ValueError("no")
    assert jvm.poll() is None
