"""The short form of ``scripts/verify``: each victim is killed once; and the verifier finds what it is there to find."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import verify
from verified_job import KEYS, WINDOW_MILLIS, Window, check

pytestmark = pytest.mark.timeout(3600)

COUNT = 1000


def delivered() -> list[Window]:
    """An output without a fault, in the order of event time."""
    windows: dict[tuple[int, int], list[int]] = {}
    for number in range(COUNT):
        windows.setdefault((number - number % WINDOW_MILLIS, number % KEYS), []).append(number)
    return [Window(key, start, tuple(numbers)) for (start, key), numbers in sorted(windows.items())]


def test_an_output_without_a_fault_is_accepted() -> None:
    check("it", [delivered()], COUNT)


def test_a_lost_record_is_found() -> None:
    windows = delivered()
    windows[7] = windows[7]._replace(numbers=windows[7].numbers[:-1])
    with pytest.raises(AssertionError, match="it: 1 of 1000 records are lost"):
        check("it", [windows], COUNT)


def test_a_repeated_record_is_found() -> None:
    windows = delivered()
    with pytest.raises(AssertionError, match="records are too many"):
        check("it", [windows, windows[3:4]], COUNT)


def test_a_record_in_the_wrong_window_is_found() -> None:
    windows = delivered()
    windows[0], windows[1] = (
        windows[0]._replace(numbers=windows[1].numbers),
        windows[1]._replace(numbers=windows[0].numbers),
    )
    with pytest.raises(AssertionError, match="to which they do not belong"):
        check("it", [windows], COUNT)


def test_records_out_of_order_are_found() -> None:
    windows = delivered()
    windows[2] = windows[2]._replace(numbers=windows[2].numbers[::-1])
    with pytest.raises(AssertionError, match="is out of order"):
        check("it", [windows], COUNT)


def test_windows_of_a_key_out_of_order_are_found() -> None:
    with pytest.raises(AssertionError, match="comes behind that of"):
        check("it", [delivered()[::-1]], COUNT)


@pytest.mark.spark
def test_every_record_arrives_once_from_files_to_files(tmp_path: Path) -> None:
    verifier = verify.files_only(tmp_path, seconds=0.0)
    verifier.run()
    assert verifier.count > 0
    assert set(verifier.happened) == {"worker", "driver"}


def _has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


if _has("firesteel_support.servers.kafka") and _has("firesteel_support.servers.postgres"):
    from firesteel_support.servers.kafka import KafkaBroker
    from firesteel_support.servers.postgres import TestDatabase

    @pytest.mark.spark
    def test_every_record_arrives_once_from_kafka_to_kafka_files_and_postgresql(
        tmp_path: Path, kafka: KafkaBroker, database: TestDatabase
    ) -> None:
        verifier = verify.everything(tmp_path, 0.0, kafka, database)
        verifier.run()
        assert verifier.count > 0
        assert set(verifier.happened) == {"worker", "driver", "broker", "database"}
