"""The connection on which results for ``execute_and_collect`` travel; what they say to each other is `plan.results`."""

from __future__ import annotations

import contextlib
import threading

from firesteel.control.channel import Channel
from firesteel.control.protocol import CollectHello, open_channel
from firesteel.plan.executor import ControlEndpoint
from firesteel.plan.results import Results, ResultSender, decode_received

#: Last frame of a collector; no other frame is empty.
END_OF_COLLECTION = b""


class Collector:
    """A `plan.results.ResultOutput` on a connection; waits while the driver does not take what was sent.

    `close` must be called when all is sent: it waits until the driver holds everything, and in batch mode, where Spark
    may run a task again, only the results of a closed collector count.
    """

    def __init__(self, channel: Channel, start: int) -> None:
        self._channel = channel
        self._sender = ResultSender(start, channel.send)
        self._changed = threading.Condition()
        self._lost = False
        self._reader = threading.Thread(target=self._read, name="firesteel-collector", daemon=True)
        self._reader.start()

    def send(self, results: Results) -> None:
        """Send results, as soon as not too much is on its way. Raises OSError when the driver is gone."""
        with self._changed:
            while not (self._sender.has_room or self._lost):
                self._changed.wait()
            if self._lost:
                raise ConnectionResetError("the driver has ended the connection for collected results")
        self._sender.send(results)

    def covered(self, offset: int) -> None:
        """A complete checkpoint holds all results before this offset."""
        self._sender.covered(offset)

    def unconfirmed(self) -> tuple[int, list[Results]]:
        """What the driver has not confirmed, and the offset at which that begins."""
        return self._sender.unconfirmed()

    def close(self) -> None:
        """Wait until the driver has everything and disconnect."""
        with contextlib.suppress(OSError):  # the driver is gone; nobody wants the results any more
            self._channel.send(END_OF_COLLECTION)
        self._channel.end()
        self._reader.join()  # ends when the driver, having taken everything, ends its side, or is gone

    def _read(self) -> None:
        try:
            while (frame := self._channel.receive()) is not None:
                self._sender.received(decode_received(frame))
                with self._changed:
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._lost = True
                self._changed.notify_all()
            self._channel.close()


def open_collector(endpoint: ControlEndpoint, hello: CollectHello) -> Collector:
    """Open a connection for the results of one subtask of a collecting sink."""
    return Collector(open_channel(endpoint, hello), hello.start)
