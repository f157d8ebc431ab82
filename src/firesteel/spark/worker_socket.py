"""The socket between Spark and a Python worker, for tasks that read and write it themselves.

PySpark gives a function an iterator over batches and takes batches from it. That is one object for a row after the other, and
reading blocks: a task that waits for other things, too, would need a thread for it, and every payload would change threads.
Where the worker was forked by our own daemon (`worker_daemon`), the task gets the socket instead: `taken`. It reads what is
there without waiting, and writes rows as Spark expects them (`arrow_rows`).

Before and behind the task's work PySpark reads and writes the same socket, so nothing of it may be lost: what was read beyond
the end of the stream is given back (`WorkerInput`).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from typing import Any, BinaryIO

from firesteel.spark.arrow_rows import END_OF_STREAM, PREFIX, BatchWriter, Row, body_length, payloads_in

__all__ = ["WorkerInput", "WorkerSocket", "hand_over_to", "taken"]

_AT_ONCE = 64 << 10
_MOST_AT_ONCE = 1 << 20
_START_ARROW_STREAM = struct.pack("!i", -6)  # PySpark's SpecialLengths


class WorkerInput:
    """What PySpark reads from: a file, and in front of it what was given back."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._given_back = b""

    def read(self, size: int = -1) -> bytes:
        """Bytes as a file gives them; what was given back comes first."""
        given = self._given_back
        if not given:
            content: bytes = self._file.read(size)
            return content
        if 0 <= size <= len(given):
            self._given_back = given[size:]
            return given[:size]
        self._given_back = b""
        return given + bytes(self._file.read(size - len(given) if size >= 0 else -1))

    def take_buffered(self) -> bytes:
        """What the file has read from the socket, and PySpark has not yet read from the file."""
        given, self._given_back = self._given_back, b""
        descriptor = self._file.fileno()
        os.set_blocking(descriptor, False)  # a look into the buffer would wait for more when it is empty
        try:
            ahead = self._file.read1() or b""
        finally:
            os.set_blocking(descriptor, True)
        return given + bytes(ahead)

    def give_back(self, content: bytes) -> None:
        """Put bytes in front of what is read next."""
        self._given_back = content + self._given_back

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class WorkerSocket:
    """Payloads in, rows out; `close` ends both, and PySpark goes on."""

    def __init__(self, file: WorkerInput, outfile: BinaryIO) -> None:
        self._file = file
        self._outfile = outfile
        self._socket = socket.socket(fileno=os.dup(file.fileno()))
        self._unread = bytearray()
        self._writer: BatchWriter | None = None
        self._is_new = True
        #: Whether Spark has sent everything, or has hung up.
        self.input_is_over = False

    def fileno(self) -> int:
        """The descriptor, for which ``select`` waits until Spark has sent something."""
        return self._socket.fileno()

    def receive(self) -> list[bytes]:
        """The payloads that have come, without waiting for any; of one that has begun to come, the rest is waited for."""
        if self._is_new:
            self._is_new = False
            self._unread += self._file.take_buffered()
        if not self._unread and not self._fill(_AT_ONCE, socket.MSG_DONTWAIT):
            return []
        payloads: list[bytes] = []
        while self._unread and not self.input_is_over:
            payloads += self._read_message()
        return payloads

    def _read_message(self) -> list[bytes]:
        """The payloads of the message that begins the unread bytes."""
        begin = PREFIX.size
        if not self._await(begin):
            return []
        size = PREFIX.unpack_from(self._unread)[1]
        if not size:
            self._end(self._unread[begin:])
            return []
        end = begin + size
        if not self._await(end):
            return []
        end_of_body = end + body_length(self._unread[begin:end])
        if not self._await(end_of_body):
            return []
        # Nothing but the payloads is copied: one may have a gigabyte.
        with (
            memoryview(self._unread) as unread,
            unread[begin:end] as metadata,
            unread[end:end_of_body] as body,
        ):
            payloads = list(payloads_in(metadata, body))
        del self._unread[:end_of_body]
        return payloads

    def _await(self, size: int) -> bool:
        """Whether that many bytes are there; waits for them, because Spark writes a message in one go."""
        while (missing := size - len(self._unread)) > 0:
            if not self._fill(min(missing, _MOST_AT_ONCE), socket.MSG_WAITALL):
                return False
        return True

    def _fill(self, size: int, flags: int) -> bool:
        """Whether something was there to read."""
        try:
            content = self._socket.recv(size, flags)
        except BlockingIOError:
            return False
        if not content:
            # Spark has hung up: whoever checks the ends of channels finds out whether that is too early.
            self._end(bytearray())
            return False
        self._unread += content
        return True

    def _end(self, rest: bytearray) -> None:
        self.input_is_over = True
        self._file.give_back(bytes(rest))
        self._unread = bytearray()

    def send(self, rows: list[Row]) -> None:
        """Write rows; waits while Spark does not take them."""
        if self._writer is None:
            self._writer = BatchWriter()
            self._outfile.flush()
            self._socket.sendall(_START_ARROW_STREAM + self._writer.schema)
        self._socket.sendall(self._writer.batch(rows))

    def close(self) -> None:
        """End the stream of rows, if there was one."""
        writer, self._writer = self._writer, None
        try:
            if writer is not None:
                self._socket.sendall(END_OF_STREAM)
        finally:
            self._socket.close()


# The worker of this process ---------------------------------------------------------------------------

_current: list[WorkerSocket] = []


def taken() -> WorkerSocket | None:
    """The socket of this worker, for the one task that it has; None where PySpark keeps it to itself."""
    return _current.pop() if _current else None


def hand_over_to(main: Callable[[Any, BinaryIO], None]) -> Callable[[Any, BinaryIO], None]:
    """PySpark's main function of a worker, with the socket in reach of the task that it runs."""

    def main_with_socket(infile: Any, outfile: BinaryIO) -> None:
        file = WorkerInput(infile)
        _current[:] = [WorkerSocket(file, outfile)]
        main(file, outfile)

    return main_with_socket
