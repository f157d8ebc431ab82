"""``firesteel log-level`` against a job of another program on this machine; here of this process, over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from firesteel.cli.main import main
from firesteel.common import Configuration, WatermarkStrategy
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.logs.levels import levels, set_levels
from firesteel.testing import ScriptedSource, WaitForever, simulated_environment

Start = Callable[[str], str]


@pytest.fixture(autouse=True)
def levels_stay() -> Iterator[None]:
    before = levels()
    yield
    set_levels(before)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Start]:
    monkeypatch.setenv("FIRESTEEL_HOME", str(tmp_path))
    monkeypatch.setenv("FIRESTEEL_REGISTER", "1")
    clients: list[MasterJobClient] = []

    def start(rest_port: str) -> str:
        options = Configuration.from_dict({"rest.port": rest_port})
        env = simulated_environment(parallelism=1, configuration=options)
        source = ScriptedSource([WaitForever()])
        env.from_source(source, WatermarkStrategy.no_watermarks(), "Nothing").print()
        client = env.execute_async("logged")
        assert isinstance(client, MasterJobClient)
        clients.append(client)
        return str(client.get_job_id())

    yield start
    for client in clients:
        client.cancel().result()


def command(*words: str) -> Result:
    return CliRunner().invoke(main, ["log-level", *words])


def test_a_level_is_changed_and_taken_away(start: Start) -> None:
    job_id = start("0")
    changed = command(job_id[:8], "orders", "debug")
    assert changed.exit_code == 0, changed.output
    assert "DEBUG    orders\n" in changed.output
    assert logging.getLogger("orders").level == logging.DEBUG
    assert command(job_id, "root", "ERROR").output.startswith("ERROR    root\n")
    command(job_id, "orders", "default")
    assert logging.getLogger("orders").level == logging.NOTSET
    assert "orders" not in command(job_id).output


def test_what_cannot_be_is_said(start: Start) -> None:
    job_id = start("-1")
    assert "has no REST interface" in command(job_id, "orders", "DEBUG").output
    assert "expected one of OFF, CRITICAL" in command(job_id, "orders", "LOUD").output
    assert "which level?" in command(job_id, "orders").output
    assert "no job runs on this machine with id" in command("ffff").output
