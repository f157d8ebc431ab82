import pytest

from firesteel.common import CompletableFuture
from firesteel.datastream import CloseableIterator


class Job:
    """A job whose results are scripted; an exception among them is raised."""

    def __init__(self, *script):
        self.script = script
        self.cancelled = 0

    def collect_results(self, collect_id):
        for step in self.script:
            if isinstance(step, BaseException):
                raise step
            yield step

    def cancel(self):
        self.cancelled += 1
        return CompletableFuture.completed(None)


def test_iterates_over_the_results_and_leaves_a_finished_job_alone():
    job = Job(1, 2, 3)
    results = CloseableIterator(job, "id")
    assert results.next() == 1
    assert list(results) == [2, 3]
    assert list(results) == []
    results.close()
    assert job.cancelled == 0


def test_closing_early_cancels_the_job_once():
    job = Job(1, 2, 3)
    with CloseableIterator(job, "id") as results:
        next(results)
    results.close()
    assert job.cancelled == 1
    with pytest.raises(StopIteration):
        next(results)


def test_the_jobs_failure_is_raised_and_nothing_is_cancelled():
    job = Job(1, ValueError("boom"))
    results = CloseableIterator(job, "id")
    next(results)
    with pytest.raises(ValueError, match="boom"):
        next(results)
    results.close()
    assert job.cancelled == 0


def test_ctrl_c_cancels_the_job():
    job = Job(1, KeyboardInterrupt())
    results = CloseableIterator(job, "id")
    next(results)
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert job.cancelled == 1
