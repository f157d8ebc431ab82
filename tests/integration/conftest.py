"""One embedded Spark for most tests; drivers in processes of their own and a standalone cluster for the rest."""

from __future__ import annotations

import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent

# A shell that starts the tests in the background has them ignore SIGINT, and whatever they start, too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # so does nohup with SIGHUP

# Functions and classes of test modules are pickled by reference: tasks must find them where the tests do.
for _place in (str(HERE.parent.parent), str(HERE)):
    if _place not in sys.path:
        sys.path.insert(0, _place)

from cluster import Cluster, standalone_cluster  # noqa: E402
from support import Driver, start_driver  # noqa: E402

from firesteel.common import Configuration  # noqa: E402
from firesteel.datastream import StreamExecutionEnvironment  # noqa: E402
from firesteel_support import servers  # noqa: E402

SparkEnvironment = Callable[..., StreamExecutionEnvironment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark those that can run in another process than those that share an embedded Spark, beside them."""
    for item in items:
        if HERE in item.path.parents and "spark" not in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.apart)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what was not tested, because its server could not be had here."""
    for server, reason in servers.MISSING.items():
        terminalreporter.write_line(
            f"NOT TESTED: {server} cannot be had here: {reason}", yellow=True, bold=True
        )


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps what jobs note about themselves away from the jobs of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRESTEEL_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="session")
def spark() -> Iterator[None]:
    """Stops the embedded Spark, which the first job started, when all tests are done."""
    yield
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    if session is not None:
        session.stop()


@pytest.fixture
def environment(spark: None) -> SparkEnvironment:
    """Makes environments on the embedded Spark: ``environment(parallelism, **options)``."""

    def make(parallelism: int = 2, **options: object) -> StreamExecutionEnvironment:
        configuration = Configuration.from_dict({key: str(value) for key, value in options.items()})
        return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(
            parallelism
        )

    return make


@pytest.fixture
def env(environment: SparkEnvironment) -> StreamExecutionEnvironment:
    """An environment of parallelism 2."""
    return environment()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A standalone cluster with two workers, for all tests that want one: they leave no application behind."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), uuid.uuid4().hex) as running:
        yield running


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Callable[..., Driver]]:
    """Starts programs in processes of their own and leaves none behind."""
    started: list[Driver] = []

    def start(*command: str, cwd: Path | None = None, **variables: str) -> Driver:
        directory = tmp_path / f"driver-{len(started)}"
        started.append(start_driver(directory, command, cwd=cwd, **variables))
        return started[-1]

    yield start
    for each in started:
        each.kill_family()
