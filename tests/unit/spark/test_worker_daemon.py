"""What the daemon prepares before it forks workers. In a process of its own, because it changes PySpark's classes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_PROGRAM = """
import os
from firesteel.spark import worker_daemon
worker_daemon._read_in_the_task()
from pyspark.sql.pandas.serializers import ArrowStreamSerializer
print(os.environ.get("SPARK_PIPELINED_UDF"), ArrowStreamSerializer(True)._flush_per_batch)
"""


@pytest.mark.parametrize(("asked", "found"), [("1", "None True"), (None, "None False")])
def test_a_task_that_reads_by_itself_still_has_every_batch_flushed(asked, found):
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_PIPELINED_UDF"}
    if asked is not None:
        environment["SPARK_PIPELINED_UDF"] = asked
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == found
