"""The Kafka sink with EXACTLY_ONCE: every record is seen once, in order, whatever dies, times out or comes back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from firesteel.connectors.kafka import sink_committer
from firesteel.connectors.kafka.sink_client import Transactions, UnknownOutcomeError
from firesteel.connectors.kafka.sink_committer import TransactionCommitter
from firesteel.connectors.kafka.sink_staging import marker_numbers
from firesteel_support.kafka_sink_simulation import simulate
from firesteel_support.simulated_kafka import Mistakes

SEEDS = 500


def test_every_record_is_seen_once_and_in_order() -> None:
    happened: Counter[str] = Counter()
    for seed in range(SEEDS):
        try:
            happened += simulate(seed)
        except BaseException as error:
            error.add_note(f"with seed {seed}")
            raise
    assert happened["crash"] > SEEDS / 5
    assert happened["failure"] > SEEDS / 100


def is_found(mistakes: Mistakes | None = None) -> bool:
    for seed in range(SEEDS):
        try:
            simulate(seed, mistakes)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize(
    "mistakes",
    [Mistakes(no_fencing=True), Mistakes(marker_outside=True), Mistakes(no_marker=True)],
    ids=["no fencing", "marker outside of the transaction", "no marker"],
)
def test_a_cluster_that_breaks_its_promises_is_found(mistakes: Mistakes) -> None:
    assert is_found(mistakes)


def goes_on_after_an_unknown_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def note(self: TransactionCommitter, error: UnknownOutcomeError) -> None:
        self._trouble = str(error)

    monkeypatch.setattr(TransactionCommitter, "_note", note)


def looks_before_it_fences(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(self: sink_committer._Session, transactions: Transactions) -> None:
        text = transactions.marker()
        transactions.init()
        self._transactions, self.is_marked, self._written = transactions, bool(text), marker_numbers(text)

    monkeypatch.setattr(sink_committer._Session, "__init__", begin)


def does_not_look_at_the_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_committer._Session, "has_written", lambda self, chunk: False)


def writes_others_while_some_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be written is tried again later, and the rest is written at once."""
    tried = TransactionCommitter._try

    def is_committed(self: TransactionCommitter, of_one: list[sink_committer.CommitRequest]) -> bool:
        if not tried(self, of_one):
            for request in of_one:
                request.retry_later()
        return True

    monkeypatch.setattr(TransactionCommitter, "_is_committed", is_committed)


@pytest.mark.parametrize(
    "mistake",
    [
        goes_on_after_an_unknown_outcome,
        looks_before_it_fences,
        does_not_look_at_the_marker,
        writes_others_while_some_wait,
    ],
    ids=lambda mistake: mistake.__name__,
)
def test_a_mistake_in_the_committer_is_found(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mistake(monkeypatch)
    assert is_found()
