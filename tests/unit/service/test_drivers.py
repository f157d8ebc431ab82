"""Spare drivers: those that are ready end in order with the service, and those that are not are not waited for."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from firesteel.service import drivers as module
from firesteel.service.drivers import READY, Drivers

#: In place of a driver: says when it is ready, and when its standard input has ended.
READY_SPARE = f"""
    import sys
    from pathlib import Path

    (Path(sys.argv[2]) / "{READY}").touch()
    sys.stdin.readline()
    (Path(sys.argv[2]) / "ended").touch()
"""
#: One that never gets so far.
STARTING_SPARE = """
    import threading

    threading.Event().wait()
"""

Spares = Callable[[str], Drivers]


@pytest.fixture
def spares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spares:
    """One spare that runs this program."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(module, "DRIVER_MODULE", "spare_of_this_test")
    monkeypatch.setattr(module, "_END_SECONDS", 100_000.0)  # a test that waits for one fails

    def start(program: str) -> Drivers:
        (tmp_path / "spare_of_this_test.py").write_text(textwrap.dedent(program))
        found = Drivers(work, tmp_path / "spares", 1)
        found.keep_spares()
        return found

    return start


def test_a_spare_that_is_ready_ends_in_order(spares: Spares, tmp_path: Path) -> None:
    found = spares(READY_SPARE)
    while not any(spare.is_ready for spare in found._spares):
        found.reap()
        assert found._spares, "it waits for a program"
    found.close()
    assert list((tmp_path / "spares").glob("*/ended")) != []


def test_a_spare_that_is_still_being_started_is_not_waited_for(spares: Spares) -> None:
    found = spares(STARTING_SPARE)
    (spare,) = found._spares
    found.close()
    assert spare.process.returncode == -9
