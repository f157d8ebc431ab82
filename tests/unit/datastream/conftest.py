import pytest

from firesteel.datastream import StreamExecutionEnvironment
from firesteel.datastream._given_options import CLIENT_VARIABLE


@pytest.fixture(autouse=True)
def _no_client(monkeypatch):
    monkeypatch.delenv(CLIENT_VARIABLE, raising=False)


@pytest.fixture
def env():
    return StreamExecutionEnvironment.get_execution_environment()


@pytest.fixture
def node_of(env):
    """The graph node behind a stream or sink."""

    def find(thing):
        return env._graph[thing._settable_node("test")]

    return find
