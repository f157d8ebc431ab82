"""The Spark settings that make a DataFrame a low-latency stream, and why each of them is needed."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import firesteel
from firesteel.common.configuration import Configuration
from firesteel.common.options import PIPELINE_CLASSPATHS, PIPELINE_JARS, SHUFFLE_BUFFER, TASK_SLOTS

#: Fixed when the session starts; a session of the user's own must have them.
REQUIRED: dict[str, str] = {
    # JVM and Python worker exchange data in both directions at once; without it nothing flows until the
    # input has ended.
    "spark.python.udf.pipelined.enabled": "true",
    # Over TCP every Python stage pays 40 ms of delayed acknowledgements.
    "spark.python.unix.domain.socket.enabled": "true",
    # Adaptive execution would materialise the exchanges.
    "spark.sql.adaptive.enabled": "false",
}

#: Good for latency; a session of the user's own may differ.
RECOMMENDED: dict[str, str] = {
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
    "spark.buffer.size": "64",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    # A failed attempt is over at once; who restarts it is the job master.
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
}

#: Read by tasks from local properties: executing a physical plan directly does not propagate SQL settings.
TASK: dict[str, str] = {
    # Every row goes to Python on its own, at once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.python.udf.buffer.size": "64",
    "spark.sql.execution.pandas.udf.buffer.size": "64",
}

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


def session_settings(configuration: Configuration, *, local: bool) -> dict[str, str]:
    """Everything for a session of our own; ``spark.*`` options of the configuration win."""
    buffer = str(configuration.get(SHUFFLE_BUFFER))
    derived = {
        "spark.shuffle.streaming.readerMaxMemory": buffer,
        "spark.shuffle.streaming.writerMaxMemory": buffer,
    }
    if jars := configuration.get(PIPELINE_JARS):
        derived["spark.jars"] = ",".join(jars)
    if class_paths := configuration.get(PIPELINE_CLASSPATHS):
        derived["spark.driver.extraClassPath"] = ":".join(class_paths)
    if not local and (slots := configuration.get(TASK_SLOTS)) is not None:
        derived["spark.executor.cores"] = str(slots)
    asked = {key: value for key, value in configuration.to_dict().items() if key.startswith("spark.")}
    settings = {**RECOMMENDED, **derived, **(_LOCAL if local else {}), **asked, **REQUIRED}
    ours = [_log_option(), *(_LOCAL_JAVA_OPTIONS if local else [])]
    # Of an option that is given twice Java takes the last: the user's.
    settings[_JAVA_OPTIONS] = " ".join([*ours, asked.get(_JAVA_OPTIONS, "")]).strip()
    return settings


#: Only where the workers are processes of this machine and this Python.
_LOCAL: dict[str, str] = {
    "spark.python.daemon.module": "firesteel.spark.worker_daemon",
    # A worker that served another job has that job's modules, threads and directory. A new one is forked in
    # milliseconds; with PySpark's own daemon it would cost a second.
    "spark.python.worker.reuse": "false",
    "spark.executorEnv.PYTHONPATH": str(Path(firesteel.__file__).parent.parent),
}

#: For the JVM that is driver and executor in one.
_LOCAL_JAVA_OPTIONS = [
    # Only the quick compiler. All this JVM does is to move chunks of records; the slow compiler makes that hardly
    # faster, but takes half a core from the tasks during the first ten seconds of every job.
    "-XX:TieredStopAtLevel=1",
]


def _log_option() -> str:
    file = resources.files("firesteel.spark") / "log4j2.properties"
    return f"-Dlog4j2.configurationFile=file:{file}"
