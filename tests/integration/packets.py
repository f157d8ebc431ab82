"""What crosses the loopback interface of this machine: every packet, as somebody sees it who listens there."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import pytest

__all__ = ["Packets", "captured"]

_EVERYTHING = 0x0003
_LARGEST = 1 << 17


class Packets(threading.Thread):
    """Looks for words in all packets; keeps how often it saw which."""

    def __init__(self, sock: socket.socket, *words: bytes) -> None:
        super().__init__(name="packets", daemon=True)
        self._socket = sock
        self.seen = dict.fromkeys(words, 0)
        self.bytes = 0
        self.is_over = False

    def run(self) -> None:
        while not self.is_over:
            with contextlib.suppress(TimeoutError):
                packet = self._socket.recv(_LARGEST)
                self.bytes += len(packet)
                for word in self.seen:
                    self.seen[word] += word in packet


@contextlib.contextmanager
def captured(*words: bytes) -> Iterator[Packets]:
    """Packets for as long as the block lasts; skips where nobody lets one listen."""
    if os.geteuid() != 0 or not hasattr(socket, "AF_PACKET"):
        pytest.skip("only root can listen to an interface, on Linux")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERYTHING)) as sock:
        sock.bind(("lo", 0))
        sock.settimeout(0.2)
        with contextlib.suppress(OSError):
            sock.setsockopt(
                socket.SOL_SOCKET, 33, 64 << 20
            )  # SO_RCVBUFFORCE: a busy machine must not miss any
        packets = Packets(sock, *words)
        packets.start()
        try:
            yield packets
        finally:
            packets.is_over = True
            packets.join()
