import socket
import threading

import pytest

from firesteel.common.errors import JobExecutionError, ProgramError
from firesteel.connectors.socket import Delimited, SocketTextSource
from firesteel.contracts.source import Boundedness


class Server:
    """Serves one scripted connection after another: each is a list of pieces to send, then it closes."""

    def __init__(self, *connections):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._connections = connections
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        for pieces in self._connections:
            connection, _ = self._listener.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for piece in pieces:
                    connection.sendall(piece)
        self._listener.close()

    def join(self):
        self._thread.join(300)
        assert not self._thread.is_alive()


@pytest.fixture
def serve():
    servers = []

    def start(*connections):
        servers.append(Server(*connections))
        return servers[-1].port

    yield start
    for server in servers:
        server.join()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def test_lines_are_read_until_the_server_closes(drive, serve):
    port = serve([b"one\ntw", b"o\r\n", b"three"])
    assert drive(SocketTextSource("127.0.0.1", port)).values() == ["one", "two", "three"]


def test_a_host_name_with_several_addresses_works(drive, serve):
    assert drive(SocketTextSource("localhost", serve([b"one\n"]))).values() == ["one"]


def test_lines_are_handed_over_in_slices(drive, serve):
    port = serve([b"".join(b"%d\n" % n for n in range(10_000))])
    batches = drive(SocketTextSource("127.0.0.1", port)).batches(limit=100)
    assert [line for batch in batches for line in batch] == [str(n) for n in range(10_000)]


@pytest.mark.parametrize("piece", [1, 2, 3, 5])
def test_delimiters_and_characters_may_span_pieces(piece):
    text = Delimited("<>", 1000)
    data = "é<>€€<><>😀>x<".encode()
    found = [line for at in range(0, len(data), piece) for line in text.add(data[at : at + piece])]
    assert found + text.rest() == ["é", "€€", "", "😀>x<"]


def test_a_text_without_an_end_is_kept_in_pieces_and_only_up_to_a_limit():
    text = Delimited("\n", limit=1000)
    for _ in range(10):
        assert text.add(b"x" * 100) == []
    assert max(map(len, text._pieces)) == 100, "nothing was put together that is not complete"
    assert text.add(b"y\nz") == ["x" * 1000 + "y"]
    with pytest.raises(ValueError, match=r"1001 bytes without the delimiter '\\n'"):
        text.add(b"z" * 1000)


def test_a_server_that_sends_no_delimiter_is_named_with_the_limit(drive, serve, monkeypatch):
    monkeypatch.setattr("firesteel.connectors.socket.MAX_TEXT_BYTES", 1000)
    driven = drive(SocketTextSource("127.0.0.1", serve([b"x" * 5000])))
    with pytest.raises(
        JobExecutionError, match=r"has sent \d+ bytes without the delimiter .* more than the 1000 that"
    ):
        driven.values()
    driven.reader.close()


def test_a_carriage_return_stays_with_another_delimiter(drive, serve):
    port = serve([b"a\r;b;"])
    assert drive(SocketTextSource("127.0.0.1", port, ";")).values() == ["a\r", "b"]


def test_it_connects_again_as_often_as_allowed(drive, serve):
    port = serve([b"first\nhalf"], [b"second\n"], [b"third\n"])
    driven = drive(SocketTextSource("127.0.0.1", port, max_retry=2))
    assert driven.values() == ["first", "half", "second", "third"]


def test_nothing_there_asks_to_be_polled_a_little_later(drive):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        driven = drive(SocketTextSource("127.0.0.1", listener.getsockname()[1]))
        for _ in range(5):
            polled = driven.poll()
            assert polled.values == []
            assert 0 < polled.retry_at - driven.clock.now <= 0.0051
        driven.reader.close()


def test_a_stopped_source_ends_although_the_server_does_not(drive):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        driven = drive(SocketTextSource("127.0.0.1", listener.getsockname()[1]))
        driven.poll()
        driven.reader.stop()
        assert driven.values() == []


def test_nobody_listening_is_an_error_that_names_the_address(drive):
    port = free_port()
    with pytest.raises(
        JobExecutionError, match=f"127.0.0.1:{port}: Connection refused; is a server listening"
    ):
        drive(SocketTextSource("127.0.0.1", port, max_retry=1)).values()


def test_it_is_unbounded_and_read_by_one_subtask():
    source = SocketTextSource("localhost", 9999)
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    assert source.max_subtasks == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("localhost", 0), "port between"),
        (("localhost", 1, ""), "delimiter"),
        (("localhost", 1, "\n", -2), "max_retry"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(arguments, message):
    with pytest.raises(ProgramError, match=message):
        SocketTextSource(*arguments)
