"""The driver's part of a `SparkSink`: a thread that writes what was released, one checkpoint after the other."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from firesteel.common._override import override
from firesteel.common.errors import NotEnoughSlotsError, ProgramError, describe_function
from firesteel.contracts.sink import DriverJob, DriverPart
from firesteel.spark import session as sessions
from firesteel.spark.frames.staging import Failure, Home, ReleasedCheckpoint, Staging, writers_at_once

_LOG = logging.getLogger(__name__)

_LOOK_SECONDS = 0.05
#: How long the last writes may take before whoever waits for the end of the job waits no more.
_LAST_SECONDS = 600.0

#: The staging directories that sinks of this process use now.
_in_use: set[Path] = set()


class CheckpointWriter(DriverPart):
    """Calls the program's function with the records of every checkpoint, as a DataFrame.

    What fails is reported to the tasks, whose job fails with it; the next attempt has it tried again.
    """

    def __init__(self, staging: Staging, write: Callable[[Any, int], object], schema: pa.Schema) -> None:
        self._staging = staging
        self._write = write
        self._schema = from_arrow_schema(schema, prefer_timestamp_ntz=True)
        self._over = threading.Event()
        self._is_started = False
        self._thread = threading.Thread(target=self._run, name="firesteel-spark-sink", daemon=True)

    @override
    def start(self, job: DriverJob) -> None:
        self._session = sessions.for_program(job.configuration, job.slots + 1, job.is_simulated)
        free = sessions.slots_of(self._session) - (0 if job.is_simulated else job.slots)
        if free < 1:
            raise NotEnoughSlotsError(
                f"a SparkSink writes with Spark while the job runs, and the job takes all {job.slots} slots that there are; "
                "give Spark at least one more, or lower the parallelism (env.set_parallelism)",
                needed=job.slots + 1,
                available=job.slots + free,
            )
        if self._staging.directory in _in_use:
            raise ProgramError(
                f"two sinks want to stage records in {self._staging.directory} at the same time; give each SparkSink a staging "
                "directory of its own"
            )
        _in_use.add(self._staging.directory)
        self._is_started = True
        self._staging.forget_failure()
        if job.is_simulated:
            writers_at_once[str(self._staging.directory)] = self._write_released
        else:
            self._thread.start()

    @override
    def stop(self) -> None:
        """Write what was released and wait for that: a job that was stopped with a savepoint has ended before."""
        self._over.set()
        if not self._is_started:
            return
        if self._thread.is_alive():
            self._thread.join(_LAST_SECONDS)
        _in_use.discard(self._staging.directory)
        writers_at_once.pop(str(self._staging.directory), None)

    def _run(self) -> None:
        is_over = False
        while not is_over:
            is_over = self._over.wait(_LOOK_SECONDS)  # once more after the end
            if self._staging.failure() is None:
                self._try_to_write(is_over)

    def _try_to_write(self, is_over: bool) -> None:
        try:
            self._write_released()
        except Exception as error:  # noqa: BLE001 - the job fails with it
            if is_over:
                _LOG.warning(
                    "records of a completed checkpoint could not be written through Spark; they are in %s, and the next job "
                    "with this staging directory writes them",
                    self._staging.directory,
                    exc_info=True,
                )
            reason = f"writing through Spark failed: {type(error).__name__}: {error}"
            function = describe_function(self._write)
            self._staging.report_failure(Failure(reason, function, traceback.format_exc()))

    def _write_released(self) -> None:
        for released in self._staging.released():
            if released.rows:
                self._write(self._frame(released), released.checkpoint_id)
            Home(released.home).mark_written(released)

    def _frame(self, released: ReleasedCheckpoint) -> DataFrame:
        session: SparkSession = self._session
        return session.read.schema(self._schema).parquet(*released.parts)
