"""The settings of an embedded Spark session."""

from __future__ import annotations

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.spark.settings import session_settings

JAVA = "spark.driver.extraJavaOptions"


def test_java_options_of_the_user_come_last_and_so_win():
    configuration = Configuration.from_dict({JAVA: "-XX:TieredStopAtLevel=4"})
    options = session_settings(configuration, local=True)[JAVA].split()
    assert options[-1] == "-XX:TieredStopAtLevel=4"
    assert options.index("-XX:TieredStopAtLevel=1") < len(options) - 1


def test_netty_prints_nothing_of_buffers_that_spark_leaves_when_a_worker_dies():
    assert (
        "-Dio.netty.leakDetection.level=disabled"
        in session_settings(Configuration(), local=True)[JAVA].split()
    )


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


def test_heaps_of_flink_are_heaps_of_spark():
    heaps = {"jobmanager.memory.heap.size": "3g", "taskmanager.memory.task.heap.size": "4g"}
    on_cluster = session_settings(Configuration.from_dict(heaps), local=False)
    assert (on_cluster["spark.driver.memory"], on_cluster["spark.executor.memory"]) == (
        "3072m",
        "4096m",
    )
    embedded = session_settings(Configuration.from_dict(heaps), local=True)
    assert embedded["spark.driver.memory"] == "3072m"
    assert "spark.executor.memory" not in embedded, "it has no executors"
    given = session_settings(Configuration.from_dict({**heaps, "spark.driver.memory": "5g"}), local=True)
    assert given["spark.driver.memory"] == "5g"


def test_java_options_of_flink_reach_the_jvms_they_are_for():
    given = {"env.java.opts": "-Da=1", "env.java.opts.jobmanager": "-Db=1", "env.java.opts.taskmanager": "-Dc=1",
             JAVA: "-Dd=1"}  # fmt: skip
    on_cluster = session_settings(Configuration.from_dict(given), local=False)
    assert on_cluster[JAVA].endswith(" -Da=1 -Db=1 -Dd=1")
    assert on_cluster["spark.executor.extraJavaOptions"] == "-Da=1 -Dc=1"
    assert session_settings(Configuration.from_dict(given), local=True)[JAVA].endswith(
        " -Da=1 -Db=1 -Dc=1 -Dd=1"
    )


def test_class_paths_reach_all_jvms():
    given = Configuration.from_dict({"pipeline.classpaths": "file:///a%20b/;/c.jar"})
    on_cluster = session_settings(given, local=False)
    assert (
        on_cluster["spark.driver.extraClassPath"]
        == on_cluster["spark.executor.extraClassPath"]
        == "/a b/:/c.jar"
    )
    assert session_settings(given, local=True)["spark.driver.extraClassPath"].endswith(":/a b/:/c.jar")
    with pytest.raises(InvalidOptionError, match=r"'http://host/c.jar' is neither a path nor a file: URL"):
        session_settings(Configuration.from_dict({"pipeline.classpaths": "http://host/c.jar"}), local=True)


def test_sockets_are_files_of_this_process_unless_their_path_would_be_too_long(monkeypatch):
    key = "spark.python.unix.domain.socket.dir"
    monkeypatch.setattr("firesteel.spark.settings.process_directory", lambda kind: f"/tmp/x/{kind}")
    assert session_settings(Configuration(), local=True)[key] == "/tmp/x/sockets"
    assert key not in session_settings(Configuration(), local=False)
    monkeypatch.setattr("firesteel.spark.settings.process_directory", lambda kind: f"/tmp/{'x' * 60}/{kind}")
    assert key not in session_settings(Configuration(), local=True)


def test_executors_of_a_cluster_give_signs_of_life_as_often_as_tasks() -> None:
    given = Configuration.from_dict({"heartbeat.interval": "2 s", "heartbeat.timeout": "20 s"})
    settings = session_settings(given, local=False)
    assert settings["spark.executor.heartbeatInterval"] == "2000ms"
    assert settings["spark.storage.blockManagerHeartbeatTimeoutMs"] == "20000ms"
    assert settings["spark.network.timeoutInterval"] == "2000ms"
    assert "spark.executor.heartbeatInterval" not in session_settings(given, local=True)


def test_what_spark_submit_was_given_wins_over_what_is_recommended_and_loses_to_the_program():
    submitted = {
        "spark.ui.enabled": "true",
        "spark.driver.memory": "3g",
        "spark.sql.adaptive.enabled": "true",
    }
    configuration = Configuration.from_dict({"spark.driver.memory": "4g"})
    settings = session_settings(configuration, local=True, submitted=submitted)
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.memory"] == "4g"
    assert settings["spark.sql.adaptive.enabled"] == "false", "streaming does not work without it"
    assert session_settings(configuration, local=True)["spark.ui.enabled"] == "false"
