import asyncio
import itertools
from concurrent.futures import CancelledError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firesteel.common import CompletableFuture, JobClient, JobExecutionResult, JobID, JobStatus


def test_job_ids_are_random_and_32_hex_digits():
    first, second = JobID.generate(), JobID.generate()
    assert first != second
    assert JobID.from_hex_string(str(first).upper()) == first
    assert len(first.to_hex_string()) == 32
    with pytest.raises(ValueError, match="32 hexadecimal"):
        JobID("xyz")


def test_ended_states_are_terminal():
    ended = {JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED}
    assert {s for s in JobStatus if s.is_globally_terminal_state()} == ended
    assert {s for s in JobStatus if s.is_terminal_state()} == ended | {JobStatus.SUSPENDED}


@given(st.sampled_from(JobStatus), st.sampled_from(JobStatus))
def test_nothing_follows_a_terminal_state_and_nothing_repeats(state, other):
    assert not (state.is_terminal_state() and state.can_become(other))
    assert not state.can_become(state)


@pytest.mark.parametrize(
    "path",
    [
        "CREATED RUNNING FINISHED",
        "CREATED RUNNING FAILING FAILED",
        "CREATED RUNNING FAILING RESTARTING CREATED RUNNING CANCELLING CANCELED",
        "RUNNING RESTARTING RUNNING SUSPENDED",
        "RESTARTING CANCELLING CANCELED",
    ],
)
def test_ordinary_lives_are_legal(path):
    states = [JobStatus[name] for name in path.split()]
    assert all(a.can_become(b) for a, b in itertools.pairwise(states))


def test_result_gives_accumulators_by_name():
    result = JobExecutionResult(JobID("a" * 32), 12, {"n": 3})
    assert result.get_accumulator_result("n") == 3
    assert result.get_accumulator_result("other") is None
    assert result.get_all_accumulator_results() == {"n": 3}
    assert result.get_job_id() == JobID("a" * 32)
    assert "12 ms" in str(result)


def test_future_takes_the_first_completion_only():
    future = CompletableFuture()
    assert future.complete(1)
    assert not future.complete(2)
    assert not future.complete_exceptionally(ValueError())
    assert (future.result(), future.exception(), future.done()) == (1, None, True)


def test_failed_future_raises_and_shows_its_error():
    error = ValueError("boom")
    future = CompletableFuture.failed(error)
    assert future.exception() is error
    with pytest.raises(ValueError, match="boom"):
        future.result()


def test_pending_future_shows_no_error_and_can_be_cancelled():
    future, called = CompletableFuture(), []
    future.add_done_callback(called.append)
    assert future.exception() is None
    assert future.cancel()
    assert future.cancelled()
    assert isinstance(future.exception(), CancelledError)
    assert called == [future]


def test_future_converts_its_result():
    assert CompletableFuture(CompletableFuture.completed("5")._future, int).result() == 5


def test_job_client_cannot_be_used_by_itself():
    with pytest.raises(TypeError):
        JobClient()


def test_a_future_can_be_awaited():
    async def wait_for(future):
        return await future

    assert asyncio.run(wait_for(CompletableFuture(CompletableFuture.completed("5")._future, int))) == 5
    with pytest.raises(ValueError, match="no"):
        asyncio.run(wait_for(CompletableFuture.failed(ValueError("no"))))
