"""Mistakes in ``-m``: each is found before anything is started, and answered with a remedy."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, JobCancelledError, NotEnoughSlotsError, SetupError
from firesteel.spark.master_url import Address, check_environment, check_form, reach
from firesteel.spark.startup import check


@pytest.mark.parametrize(
    "master",
    [
        "embedded",
        "yarn",
        "local",
        "local[1]",
        "local[*]",
        "local[4,2]",
        "local[ * , 3 ]",
        "local-cluster[2, 1, 1024]",
        "k8s://https://host:6443",
        "k8s://host:6443",
        "k8s://https://kubernetes.default.svc/path",
    ],
)
def test_what_spark_understands_is_accepted(master: str) -> None:
    assert check_form(master) == []


def test_masters_of_a_standalone_cluster_are_found() -> None:
    assert check_form("spark://host:7077") == [Address("host", 7077)]
    assert check_form("spark://a.b:1,[fe80::1]:2") == [Address("a.b", 1), Address("fe80::1", 2)]
    assert str(Address("fe80::1", 2)) == "[fe80::1]:2"


@pytest.mark.parametrize(
    ("master", "advice"),
    [
        ("sparky://host:7077", "did you mean spark://host:7077?"),
        ("SPARK://host:7077", "did you mean spark://host:7077?"),
        ("spark://host", "lacks the port of the master, usually 7077: spark://host:7077"),
        ("spark://host:", "lacks the port of the master, usually 7077: spark://host:7077"),
        ("spark://one:7077,two", "lacks the port of the master, usually 7077: spark://two:7077"),
        ("spark://host:http", "a port is a number from 1 to 65535, got 'http'"),
        ("spark://host:70777", "a port is a number from 1 to 65535, got '70777'"),
        ("spark://host:7077/", "without the slash at the end: spark://host:7077"),
        ("spark://host:7077/ui", "behind the port nothing may follow, and here is '/ui'"),
        ("spark://", "wants host and port of the master, as in spark://host:7077"),
        ("spark://:7077", "wants host and port of the master, as in spark://host:7077"),
        ("host:7077", "the master of a Spark cluster is spark://host:7077"),
        (
            "localhost:8081",
            "is spark://localhost:7077 (8081 is usually the web page of a worker, or of Flink)",
        ),
        ("http://host:8080", "the address of a web page, which shows the URL of its master at the top"),
        ("k8s://", "'kubectl cluster-info' shows: k8s://https://host:port"),
        ("k8s://ftp://host", "'kubectl cluster-info' shows: k8s://https://host:port"),
        ("mesos://host:5050", "Spark 4 does not run on Mesos any more"),
        ("yarn-client", "one way to run on YARN: yarn"),
        ("yarn-cluster", "one way to run on YARN: yarn"),
        ("local[0]", "local[n] with n slots, at least one"),
        ("local[four]", "local[n] with n slots, at least one"),
        ("local[2", "local[n] with n slots, at least one"),
        ("local4", "local[n] with n slots, at least one"),
        ("", "it is empty"),
        (
            "nonsense",
            "possible are spark://host:7077, yarn, k8s://https://host:port, local[n], or nothing at all",
        ),
    ],
)
def test_what_it_does_not_understand_is_answered_with_a_remedy(master: str, advice: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        check_form(master)
    text = str(caught.value)
    assert text.startswith("option 'firesteel.spark.master' (-m): ")
    assert repr(master) in text
    assert advice in text
    assert "\n" not in text


def test_local_spark_with_fewer_threads_than_tasks_is_refused_with_what_helps() -> None:
    with pytest.raises(NotEnoughSlotsError) as caught:
        check(Configuration.from_dict({"firesteel.spark.master": "local[1]"}), 7)
    assert (caught.value.needed, caught.value.available) == (7, 1)
    assert "-m 'local[7]'" in str(caught.value)
    assert "firesteel.spark.slots" not in str(caught.value), "it has no effect on a master of the user's"
    check(Configuration.from_dict({"firesteel.spark.master": "local[7]"}), 7)


def test_embedded_spark_that_was_given_too_few_slots_says_where() -> None:
    with pytest.raises(NotEnoughSlotsError, match=r"has 2; .* or raise the option firesteel\.spark\.slots"):
        check(Configuration.from_dict({"firesteel.spark.slots": "2"}), 7)


def test_yarn_needs_the_description_of_the_cluster(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"set HADOOP_CONF_DIR to the directory with the core-site\.xml"):
        check_environment("yarn", Configuration(), {})
    with pytest.raises(SetupError, match=f"no yarn-site.xml in YARN_CONF_DIR={tmp_path}"):
        check_environment("yarn", Configuration(), {"YARN_CONF_DIR": str(tmp_path)})
    (tmp_path / "yarn-site.xml").touch()
    check_environment("yarn", Configuration(), {"YARN_CONF_DIR": str(tmp_path)})


def test_kubernetes_needs_an_image(tmp_path: Path) -> None:
    key = "spark.kubernetes.container.image"
    with pytest.raises(SetupError, match=f"-D {key}=NAME"):
        check_environment("k8s://https://host:443", Configuration(), {})
    check_environment("k8s://https://host:443", Configuration.from_dict({key: "x"}), {})
    (tmp_path / "spark-defaults.conf").write_text(f"{key} x\n")
    check_environment("k8s://https://host:443", Configuration(), {"SPARK_CONF_DIR": str(tmp_path)})


# Whether somebody is there.


@pytest.fixture
def port() -> Iterator[int]:
    """A port at which somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    """A port at which nobody listens; it was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_master_that_listens_is_reached(port: int) -> None:
    reach("spark://x", [Address("127.0.0.1", port)])


def test_one_of_several_masters_is_enough(port: int) -> None:
    reach("spark://x", [Address("127.0.0.1", free_port()), Address("127.0.0.1", port)])


def test_where_nobody_listens_the_url_and_the_reason_are_told() -> None:
    address = Address("127.0.0.1", free_port())
    with pytest.raises(SetupError) as caught:
        reach(f"spark://{address}", [address])
    text = str(caught.value)
    assert text.startswith(f"there is no Spark master at spark://{address}: nobody listens at {address}: ")
    assert "is it running" in text


def test_unknown_machine_is_named() -> None:
    with pytest.raises(
        SetupError, match=r"there is no Spark master at spark://nobody\.invalid:7077: .*nobody\.invalid"
    ):
        reach("spark://nobody.invalid:7077", [Address("nobody.invalid", 7077)])


def test_who_is_not_wanted_any_more_does_not_wait() -> None:
    ended = threading.Event()

    def look_up(*_: object) -> None:
        """As of a name that nobody answers for; it cannot be interrupted."""
        ended.wait()
        raise TimeoutError

    with (
        mock.patch.object(socket, "create_connection", look_up),
        pytest.raises(JobCancelledError, match="while it looked for the Spark master spark://x"),
    ):
        reach("spark://x", [Address("x", 7077)], is_wanted=lambda: False, seconds=600.0)
    ended.set()


def test_checking_does_not_import_spark() -> None:
    program = "import sys, firesteel.spark.startup; print([m for m in sys.modules if m.startswith(('pyspark', 'pyarrow'))])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
