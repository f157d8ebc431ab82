"""The driver's side of ``firesteel list``, ``cancel``, ``savepoint`` and ``stop``: answers questions about one job.

A connection carries one request and one answer, both JSON, after both sides have proved that they know the secret of
the registry's file (the challenge is that of the control plane). It listens on the loopback interface only.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing import AuthenticationError
from typing import Any

from firesteel.common.job_client import JobClient
from firesteel.common.time import to_millis
from firesteel.jobmaster.job_registry import RegistryEntry, register, unregister
from firesteel.plan.control_protocol import Channel, accept_channel

__all__ = ["LOOPBACK", "JobEndpoint"]

_LOG = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_SECRET_BYTES = 32


class JobEndpoint:
    """Listens for requests about one job; registered from the beginning until `withdraw` or `close`."""

    def __init__(self, client: JobClient, name: str) -> None:
        self._client = client
        self._listener = socket.create_server((LOOPBACK, 0))
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self.entry = RegistryEntry(
            str(client.get_job_id()),
            name,
            os.getpid(),
            socket.gethostname(),
            self._listener.getsockname()[1],
            self._secret.hex(),
            to_millis(time.time()),
        )
        self._lock = threading.Lock()
        self._answering: set[threading.Thread] = set()
        self._channels: set[Channel] = set()
        self._closed = False
        self._acceptor = threading.Thread(target=self._accept, name="firesteel-job-endpoint", daemon=True)
        self._acceptor.start()
        register(self.entry)

    def withdraw(self) -> None:
        """The job is over: nobody shall find it any more. Who has asked still gets an answer."""
        with contextlib.suppress(OSError):
            unregister(self.entry)

    def close(self, linger_seconds: float = 2.0) -> None:
        """Answer no new requests; give those that wait for an answer so long to get it."""
        self.withdraw()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            answering = list(self._answering)
        self._wake_acceptor()
        self._acceptor.join(linger_seconds)
        self._listener.close()
        deadline = time.monotonic() + linger_seconds
        for thread in answering:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            for channel in self._channels:
                channel.abort()

    def _wake_acceptor(self) -> None:
        # Closing a socket does not wake a thread that waits in accept() on it; a connection does.
        with (
            contextlib.suppress(OSError),
            socket.create_connection(self._listener.getsockname(), timeout=1.0),
        ):
            pass

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._closed:
                    sock.close()
                    return
                thread = threading.Thread(
                    target=self._serve, args=(sock,), name="firesteel-job-answer", daemon=True
                )
                self._answering.add(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            channel = accept_channel(sock, self._secret)
        except (AuthenticationError, EOFError, OSError):
            sock.close()
        else:
            self._converse(channel)
        finally:
            with self._lock:
                self._answering.discard(threading.current_thread())

    def _converse(self, channel: Channel) -> None:
        with self._lock:
            self._channels.add(channel)
        try:
            request = channel.receive()
            if request is not None:
                channel.send(json.dumps(self._answer(json.loads(request))).encode())
        except OSError:
            pass  # whoever asked does not want to know any more
        finally:
            with self._lock:
                self._channels.discard(channel)
            channel.close()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"result": self._actions()[request["do"]](request)}
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who asked shall know
            _LOG.debug("request %s about job %s failed", request, self.entry.job_id, exc_info=True)
            return {"error": str(error) or type(error).__name__}

    def _actions(self) -> dict[str, Callable[[dict[str, Any]], Any]]:
        return {
            "status": lambda _: self._status(),
            "cancel": lambda _: self._cancel(),
            "savepoint": lambda request: self._client.trigger_savepoint(request["directory"]).result(),
            "stop": lambda request: self._client.stop_with_savepoint(
                request["drain"], request["directory"]
            ).result(),
        }

    def _status(self) -> str:
        return str(self._client.get_job_status().result().name)

    def _cancel(self) -> str:
        self._client.cancel().result()
        return self._status()
