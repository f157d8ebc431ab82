"""The settings of an embedded Spark session."""

from __future__ import annotations

from firesteel.common.configuration import Configuration
from firesteel.spark.settings import session_settings

JAVA = "spark.driver.extraJavaOptions"


def test_java_options_of_the_user_come_last_and_so_win():
    configuration = Configuration.from_dict({JAVA: "-XX:TieredStopAtLevel=4"})
    options = session_settings(configuration, local=True)[JAVA].split()
    assert options[-1] == "-XX:TieredStopAtLevel=4"
    assert options.index("-XX:TieredStopAtLevel=1") < len(options) - 1


def test_the_driver_of_a_cluster_gets_no_options_for_moving_data():
    assert "Tiered" not in session_settings(Configuration(), local=False)[JAVA]


def test_settings_for_spark_win_over_ours_unless_streaming_needs_them():
    wanted = {"spark.driver.memory": "7g", "spark.python.udf.pipelined.enabled": "false"}
    settings = session_settings(Configuration.from_dict(wanted), local=True)
    assert settings["spark.driver.memory"] == "7g"
    assert settings["spark.python.udf.pipelined.enabled"] == "true"


def test_the_shuffle_buffer_bounds_both_ends():
    settings = session_settings(Configuration.from_dict({"firesteel.shuffle.buffer": "2 mb"}), local=True)
    ends = ("readerMaxMemory", "writerMaxMemory")
    assert {settings[f"spark.shuffle.streaming.{end}"] for end in ends} == {str(2 * 2**20)}


def test_task_slots_are_cores_of_the_executors_of_a_cluster():
    slots = Configuration.from_dict({"taskmanager.numberOfTaskSlots": "3"})
    assert session_settings(slots, local=False)["spark.executor.cores"] == "3"
    assert "spark.executor.cores" not in session_settings(slots, local=True), "it has none: slots are threads"
    slots.set_string("spark.executor.cores", "4")
    assert session_settings(slots, local=False)["spark.executor.cores"] == "4"
