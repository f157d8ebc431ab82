"""Lines of text from a TCP server: ``socket_text_stream``.

The reader never waits for the network: every poll reads what has arrived. What was sent while nobody
listened is lost, and after a failure nothing can be read again: at most once.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Any

from firesteel.common._override import override
from firesteel.common.errors import JobExecutionError, ProgramError
from firesteel.connectors.backlog import Backlog
from firesteel.contracts.source import Boundedness, Polled, Source, SourceReader, SourceReaderContext

RECEIVE_BYTES = 1 << 16
#: Of one text; a server that sends more without a delimiter speaks another language.
MAX_TEXT_BYTES = 64 << 20
#: How soon an idle connection is looked at again: at first, and at the longest.
FIRST_PAUSE_SECONDS = 0.001
LONGEST_PAUSE_SECONDS = 0.005
RECONNECT_SECONDS = 0.5
CONNECT_TIMEOUT_SECONDS = 30.0


class SocketTextSource(Source[str]):
    """Connects to a server and emits what it sends, cut at ``delimiter``.

    The stream ends when the server closes the connection, unless ``max_retry`` allows connecting
    again (-1: without limit); a refused or broken connection counts as a retry too.
    """

    def __init__(self, host: str, port: int, delimiter: str = "\n", max_retry: int = 0) -> None:
        if not 0 < port < 65536:
            raise ProgramError(f"a socket text stream needs a port between 1 and 65535, got {port}")
        if not delimiter:
            raise ProgramError("a socket text stream needs a delimiter of at least one character")
        if max_retry < -1:
            raise ProgramError(f"max_retry is how often to connect again (-1: always), got {max_retry}")
        self.host = host
        self.port = port
        self.delimiter = delimiter
        self.max_retry = max_retry

    @property
    @override
    def boundedness(self) -> Boundedness:
        """Unbounded: nobody knows when the server will close."""
        return Boundedness.CONTINUOUS_UNBOUNDED

    @property
    @override
    def max_subtasks(self) -> int:
        return 1

    @override
    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        """The reader with the only connection."""
        return _SocketReader(self, context)


class _SocketReader(SourceReader):
    gives_away = True

    def __init__(self, source: SocketTextSource, context: SourceReaderContext) -> None:
        self._source = source
        self._now = context.now
        self._connection = _Connection(source.host, source.port)
        self._lines = Backlog()
        self._text = Delimited(source.delimiter, MAX_TEXT_BYTES)
        self._retries = 0
        self._pause = FIRST_PAUSE_SECONDS
        self._connect_at = 0.0
        self._ended = False

    @override
    def poll(self, limit: int) -> Polled:
        """The lines that have arrived completely."""
        if not self._lines and not self._ended:
            self._advance()
        values = self._lines.pop(limit)
        if values or self._ended:
            self._pause = FIRST_PAUSE_SECONDS
            return Polled(values, ended=self._ended and not self._lines)
        return Polled([], retry_at=self._next_look())

    def _next_look(self) -> float:
        now = self._now()
        if now < self._connect_at:
            return self._connect_at
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        return now + pause

    def _advance(self) -> None:
        """Connect, or receive, as far as that goes without waiting."""
        now = self._now()
        if now < self._connect_at:
            return
        try:
            data = self._connection.receive(now)
        except OSError as error:
            self._lost(error)
            return
        if data:
            self._lines.refill(self._texts(data))
        elif data is not None:
            self._lost(None)

    def _texts(self, data: bytes) -> list[str]:
        try:
            return self._text.add(data)
        except ValueError as error:
            raise JobExecutionError(
                f"{self._source.host}:{self._source.port} has sent {error}, more than the {MAX_TEXT_BYTES} that a record may "
                "have; is that what it sends between records? (socket_text_stream takes another delimiter)"
            ) from error

    def _lost(self, error: OSError | None) -> None:
        """The connection is over: connect again later, or end."""
        self._connection.close()
        self._lines.refill(self._text.rest())
        if self._source.max_retry == -1 or self._retries < self._source.max_retry:
            self._retries += 1
            self._connect_at = self._now() + RECONNECT_SECONDS
        elif error is None:
            self._ended = True
        else:
            raise JobExecutionError(
                f"cannot read from {self._source.host}:{self._source.port}: {error.strerror or error}; "
                "is a server listening there? (try: nc -lk PORT; max_retry allows connecting again)"
            ) from error

    @override
    def stop(self) -> None:
        """End at the lines that have arrived."""
        self._ended = True

    @override
    def close(self) -> None:
        self._connection.close()


class Delimited:
    """Bytes in pieces -> texts between delimiters; a delimiter or a character may span pieces.

    What has no delimiter yet is kept in pieces: adding each to those before would take time that grows with the
    square of their number. ``limit`` is how many bytes may wait for a delimiter.
    """

    def __init__(self, delimiter: str, limit: int) -> None:
        self._delimiter = delimiter
        self._mark = delimiter.encode()
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> list[str]:
        """The texts that ``data`` completes; raises ValueError when none was completed for too long."""
        if self._mark not in self._seam() + data:
            self._keep(data)
            return []
        complete, _, rest = b"".join([*self._pieces, data]).rpartition(self._mark)
        self._pieces, self._size = [], 0
        self._keep(rest)
        return self._without_returns(complete.decode("utf-8", "replace").split(self._delimiter))

    def _keep(self, data: bytes) -> None:
        if data:
            self._pieces.append(data)
            self._size += len(data)
        if self._size > self._limit:
            raise ValueError(f"{self._size} bytes without the delimiter {self._delimiter!r}")

    def _seam(self) -> bytes:
        """The end of what is kept in which a delimiter may begin."""
        missing = len(self._mark) - 1
        seam = b""
        for piece in reversed(self._pieces):
            if len(seam) >= missing:
                break
            seam = piece[-missing:] + seam
        return seam[-missing:] if missing else b""

    def rest(self) -> list[str]:
        """What came after the last delimiter, if anything did."""
        rest, self._pieces, self._size = b"".join(self._pieces), [], 0
        return self._without_returns([rest.decode("utf-8", "replace")]) if rest else []

    def _without_returns(self, texts: list[str]) -> list[str]:
        return [text.removesuffix("\r") for text in texts] if self._delimiter == "\n" else texts


class _Connection:
    """A TCP connection that is made and read without ever waiting."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._addresses: list[tuple[Any, ...]] = []
        self._socket: socket.socket | None = None
        self._connected = False
        self._deadline = 0.0

    def receive(self, now: float) -> bytes | None:
        """What has arrived; None when nothing has yet; nothing at all when the server has closed."""
        if self._socket is None:
            self._addresses = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            self._deadline = now + CONNECT_TIMEOUT_SECONDS
            self._connect_next(errno.EHOSTUNREACH)
        if not self._connected and not self._finish_connecting(now):
            return None
        assert self._socket is not None
        try:
            return self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return None

    def _connect_next(self, error: int) -> None:
        """Start with the host's next address; when there is none left, ``error`` is why all failed."""
        while self._addresses:
            family, kind, protocol, _, address = self._addresses.pop(0)
            self.close()
            self._socket = socket.socket(family, kind, protocol)
            self._socket.setblocking(False)
            error = self._socket.connect_ex(address)
            if error in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                return
        raise OSError(error, os.strerror(error))

    def _finish_connecting(self, now: float) -> bool:
        """Whether the connection stands."""
        assert self._socket is not None
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._connect_next(error)
        elif _has_peer(self._socket):
            self._connected = True
        elif now > self._deadline:
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        return self._connected

    def close(self) -> None:
        """Close it; `receive` connects again."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._connected = None, False


def _has_peer(connection: socket.socket) -> bool:
    # Cheaper than select(), which also fails for file numbers above 1023.
    try:
        connection.getpeername()
    except OSError:
        return False
    return True
