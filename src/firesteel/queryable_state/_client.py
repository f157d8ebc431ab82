"""The client: a few threads with a connection each, through which look-ups go to the REST interface of a job's driver."""

from __future__ import annotations

import http.client
import json
import queue
import ssl
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

from firesteel.common import errors
from firesteel.common.completable_future import CompletableFuture
from firesteel.common.errors import (
    InvalidArgumentError,
    QueryableStateError,
    TypeMismatchError,
    UnknownLocationError,
    WrongArgumentError,
    short_repr,
)
from firesteel.common.job_id import JobID
from firesteel.common.typeinfo import TypeInformation
from firesteel.contracts.state import State, StateDescriptor
from firesteel.formats.json_values import writer
from firesteel.queryable_state._read_only_states import state_of

__all__ = ["QueryableStateClient"]

_THREADS = 8
#: Between two attempts to ask a job that cannot answer now; doubled from one to the next.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
#: Answers that mean: not now.
_LATER = (503, 504)


class QueryableStateClient:
    """Asks jobs for the states that their programs have made queryable; may be used from any thread.

    ``remote_hostname`` and ``remote_port`` are those of the REST interface of the job's driver. A look-up may take
    ``timeout`` seconds altogether. When the job restarts meanwhile, it is asked again until then; 0 asks once.
    ``token`` is sent with every request (``Authorization: Bearer``); with ``tls`` connections are encrypted.
    """

    def __init__(
        self,
        remote_hostname: str = "localhost",
        remote_port: int = 8081,
        *,
        timeout: float = 10.0,
        token: str = "",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not isinstance(remote_hostname, str) or not remote_hostname:
            raise InvalidArgumentError(f"a host has a name or an address, got {short_repr(remote_hostname)}")
        if not isinstance(remote_port, int) or not 0 < remote_port < 65536:
            raise InvalidArgumentError(f"a port is a number from 1 to 65535, got {short_repr(remote_port)}")
        self._host = remote_hostname
        self._port = remote_port
        self._timeout = timeout
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = tls
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="firesteel-queries")
        self._idle: queue.SimpleQueue[http.client.HTTPConnection] = queue.SimpleQueue()

    def get_kv_state(
        self,
        job_id: JobID | str,
        queryable_state_name: str,
        key: Any,
        key_type_info: TypeInformation,
        state_descriptor: StateDescriptor,
    ) -> CompletableFuture:
        """Ask what a state holds for a key. The future has a state that can be read, or a `QueryableStateError`.

        The descriptor says what kind of state it is and of which type; its name does not matter. Types must be those
        that the program has declared.
        """
        if not isinstance(key_type_info, TypeInformation):
            raise WrongArgumentError(
                f"get_kv_state() needs the type of the key, such as Types.STRING(), got {short_repr(key_type_info)}"
            )
        if not isinstance(state_descriptor, StateDescriptor):
            raise WrongArgumentError(
                f"get_kv_state() needs a descriptor such as ValueStateDescriptor, got {short_repr(state_descriptor)}"
            )
        try:
            shown = json.dumps(writer(key_type_info)(key))
        except TypeMismatchError as error:
            raise error.at("key", None) from None
        query = urlencode({"name": queryable_state_name, "key": shown})
        path = f"/v1/jobs/{job_id}/queryable-states/lookup?{query}"
        future: Future[State] = self._threads.submit(self._look_up, path, state_descriptor)
        return CompletableFuture(future)

    def shutdown_and_handle(self) -> CompletableFuture:
        """Take no more look-ups; the future is complete when those under way have ended."""
        ended = CompletableFuture()
        closing = ThreadPoolExecutor(1, thread_name_prefix="firesteel-queries-end")
        closing.submit(self.shutdown_and_wait).add_done_callback(lambda _: ended.complete(None))
        closing.shutdown(wait=False)
        return ended

    def shutdown_and_wait(self) -> None:
        """Wait for the look-ups under way, and close all connections."""
        self._threads.shutdown(wait=True)
        while not self._idle.empty():
            self._idle.get().close()

    def __enter__(self) -> QueryableStateClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown_and_wait()

    # In the threads.

    def _look_up(self, path: str, descriptor: StateDescriptor) -> State:
        deadline = time.monotonic() + self._timeout
        pause = _FIRST_PAUSE
        while True:
            status, answer = self._ask(path, max(1.0, deadline - time.monotonic()))
            if status == 200:
                return state_of(descriptor, answer["value"])
            if status not in _LATER or time.monotonic() + pause > deadline:
                raise _error_in(status, answer)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _ask(self, path: str, seconds: float) -> tuple[int, Any]:
        connection, is_new = self._connection()
        try:
            return self._exchange(connection, path, seconds)
        except (http.client.HTTPException, OSError) as error:
            connection.close()
            if not is_new and not isinstance(error, TimeoutError):
                return self._ask(
                    path, seconds
                )  # the other side may have closed a connection that nobody used for a while
            scheme = "http" if self._tls is None else "https"
            raise UnknownLocationError(
                f"{scheme}://{self._host}:{self._port} does not answer: {type(error).__name__}: {error}; has the job ended? "
                "Its driver has the REST interface"
            ) from error

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        try:
            return self._idle.get_nowait(), False
        except queue.Empty:
            if self._tls is not None:
                return http.client.HTTPSConnection(self._host, self._port, context=self._tls), True
            return http.client.HTTPConnection(self._host, self._port), True

    def _exchange(self, connection: http.client.HTTPConnection, path: str, seconds: float) -> tuple[int, Any]:
        connection.timeout = seconds
        if connection.sock is not None:
            connection.sock.settimeout(seconds)
        connection.request("GET", path, headers=self._headers)
        with connection.getresponse() as response:
            content = response.read()
            status, is_json = response.status, "json" in response.headers.get("Content-Type", "")
        self._idle.put(connection)
        return status, json.loads(content) if is_json else {
            "errors": [content[:200].decode(errors="replace")]
        }


def _error_in(status: int, answer: Any) -> QueryableStateError:
    """The error that an answer stands for: its sentence begins with the name of its class."""
    sentences = answer.get("errors") if isinstance(answer, dict) else None
    sentence = "; ".join(sentences) if sentences else short_repr(answer)
    name, _, rest = sentence.partition(": ")
    kind = getattr(errors, name, None) if name.isidentifier() else None
    if isinstance(kind, type) and issubclass(kind, QueryableStateError):
        return kind(rest)
    return QueryableStateError(f"{sentence} (status {status})")
