"""HTTP as the service speaks it: clients that are slow to ask, slow to send or slow to read are hung up on.

uvicorn waits for a first request, for the rest of one, and for a client that does not read, as long as the client likes. Each of
them holds a descriptor and memory of a process that has a job to run. This adds what it lacks; nothing else differs.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from firesteel.common._override import override
from firesteel.rest.listener import Listener, raw_answer

__all__ = ["LARGEST_HEAD", "PatientProtocol", "protocol_for"]

#: How long the head of a request may take; what follows it must go on at least as often.
REQUEST_SECONDS = 20.0
#: How long a client may take nothing of an answer.
ANSWER_SECONDS = 60.0
#: Bytes of the head of a request: paths with many names of metrics are long.
LARGEST_HEAD = 1 << 16


class PatientProtocol(H11Protocol):
    """One connection. ``listener`` is told when a whole request has come."""

    listener: ClassVar[Listener]
    request_seconds: ClassVar[float] = REQUEST_SECONDS
    answer_seconds: ClassVar[float] = ANSWER_SECONDS

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._request_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None
        self._has_asked = False

    @override
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self._stop(self._request_timer)
        self._stop(self._answer_timer)
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_part_of_head = self.conn.their_state is h11.IDLE
        if not is_part_of_head:  # with one, the time for the whole of it goes on
            self._look_at_request()

    @override
    def on_response_complete(self) -> None:
        super().on_response_complete()  # the next request may have come with this one
        self._look_at_request()

    def _look_at_request(self) -> None:
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._expect_request()
            return
        self._stop(self._request_timer)
        if not self._has_asked and not self.transport.is_closing():
            self._has_asked = True
            self.listener.has_asked(self.transport.get_extra_info("socket").fileno())

    @override
    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop(self._answer_timer)
        self._answer_timer = self.loop.call_later(self.answer_seconds, self.transport.abort)

    @override
    def resume_writing(self) -> None:
        self._stop(self._answer_timer)
        super().resume_writing()

    @override
    def send_400_response(self, msg: str) -> None:
        self._refuse(
            HTTPStatus.BAD_REQUEST,
            f"this is no request of HTTP/1.1, or its head is larger than {LARGEST_HEAD:,} bytes",
        )

    def _expect_request(self) -> None:
        self._stop(self._request_timer)
        self._request_timer = self.loop.call_later(self.request_seconds, self._lose_patience)

    def _lose_patience(self) -> None:
        self._refuse(
            HTTPStatus.REQUEST_TIMEOUT,
            f"the request, or the next part of it, was not there after {self.request_seconds:g} s",
        )

    def _refuse(self, status: HTTPStatus, reason: str) -> None:
        if self.transport.is_closing():
            return
        cycle = self.cycle
        is_answering = cycle is not None and cycle.response_started and not cycle.response_complete
        if not is_answering:
            if cycle is not None:
                cycle.disconnected = True  # whoever waits for the rest of the request must not answer, too
            self.transport.write(raw_answer(status, reason))
        self.transport.close()

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


def protocol_for(served: Listener) -> type[PatientProtocol]:
    """The protocol for the connections of one listener."""

    class ListenersProtocol(PatientProtocol):
        listener = served

    return ListenersProtocol
