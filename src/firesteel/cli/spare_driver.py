"""A driver that is ready before it knows its program: Spark is started, and one small job has been through everything."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from firesteel.common.configuration import Configuration
from firesteel.common.options import REST_PORT
from firesteel.common.watermark_strategy import WatermarkStrategy
from firesteel.datastream import DiscardingSink, StreamExecutionEnvironment
from firesteel.datastream._given_options import checked, configured_options
from firesteel.datastream.connectors.number_seq import NumberSequenceSource
from firesteel.launch import REGISTER_VARIABLE
from firesteel.service.drivers import READY
from firesteel.service.folder import read_json
from firesteel.spark import session
from firesteel.spark.startup import wanted_settings

__all__ = ["await_folder", "session_must_fit"]

_started_with: dict[str, str] = {}


def await_folder(spare: Path) -> str | None:
    """Start Spark, then wait for the folder of a submission; None when the service has ended."""
    _warm_up(read_json(spare.parent.parent / "defaults.json") or {})
    with contextlib.suppress(FileNotFoundError):  # it was given a program before it was ready
        (spare / READY).touch(mode=0o600)
    line = sys.stdin.readline()
    # The service has let go of it, and a program has nothing to read there.
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    return line.strip() or None


def _warm_up(defaults: dict[str, Any]) -> None:
    """Run a job of no use: classes are loaded, workers are there, and what comes next is fast."""
    configuration = configured_options().add_all(checked(Configuration.from_dict(defaults)))
    _started_with.update(wanted_settings(configuration, 1))
    configuration = Configuration.from_dict({**_spark_options(configuration), REST_PORT.key: "-1"})
    before = os.environ.get(REGISTER_VARIABLE)
    os.environ[REGISTER_VARIABLE] = "0"
    try:
        env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(2)
        source = NumberSequenceSource(1, 100)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers")
        numbers.key_by(lambda number: number % 7).map(lambda number: number + 1).add_sink(DiscardingSink())
        env.execute("warm up")
    finally:
        if before is None:
            del os.environ[REGISTER_VARIABLE]
        else:
            os.environ[REGISTER_VARIABLE] = before
    import firesteel.rest.app  # noqa: F401 - the first request need not wait for it


def _spark_options(configuration: Configuration) -> dict[str, str]:
    """Only what the session is made of: a job of no use writes no checkpoints and reports no metrics."""
    lasting = (
        "execution.",
        "state.",
        "metrics.",
        "pipeline.",
        "high-availability",
        "jobmanager.archive",
        "rest.",
    )
    return {key: value for key, value in configuration.to_dict().items() if not key.startswith(lasting)}


def session_must_fit(configuration: Configuration, slots: int) -> None:
    """Give up the Spark that was started early when the job wants one with other settings."""
    if _started_with:
        session.keep_if_started_with(_started_with, wanted_settings(configuration, slots))
        _started_with.clear()
