"""The REST interface of this process: listens at a port from the first job on and answers until the process ends.

To listen costs a job nothing: the web framework, which takes a third of a second to import, is imported when somebody connects,
in the thread that answers.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from typing import Any

from firesteel.common._tls import server_context
from firesteel.common.errors import SetupError
from firesteel.common.job_id import JobID
from firesteel.common.job_status import JobStatus
from firesteel.common.options import REST_BIND_PORT, SSL_REST
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.jobmaster.terminal.progress import ObservedJob
from firesteel.logs.log_book import LOGS
from firesteel.rest.listener import Listener
from firesteel.rest.operations import Operations
from firesteel.rest.served_jobs import ServedJobs
from firesteel.rest.settings import RestSettings

__all__ = ["RestService"]

_LOG = logging.getLogger(__name__)

#: How long those who have started something have to hear how it ended, when the process ends.
_LINGER_SECONDS = 2.0
_JOIN_SECONDS = 2.0
_BACKLOG = 64


class RestService:
    """Observes jobs and answers questions about them over HTTP. `close` it before the process ends.

    ``app``: makes what answers, if it is not the jobs of this process that are shown; called when somebody connects.
    """

    def __init__(self, settings: RestSettings, app: Callable[[], Any] | None = None) -> None:
        self._settings = settings
        self._app = app or self._app_of_jobs
        #: What it shows.
        self.jobs = ServedJobs()
        self._operations = Operations()
        self._lock = threading.Lock()
        self._server: Any = None  # uvicorn's, once there is one
        self._closed = False
        # Now, and not with the first request: the files may be gone by then.
        self._tls = (
            None
            if settings.tls is None
            else server_context(settings.tls, verifies_clients=settings.verifies_clients)
        )
        self._socket = _bind(settings)
        self._wake, self._wakes = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="firesteel-rest", daemon=True)
        self._thread.start()
        LOGS.keep_recent()
        _LOG.info("the REST interface is at %s", self.url)
        if settings.tls is None and settings.tokens_file is not None and not settings.is_loopback:
            _LOG.warning(
                "the REST interface at %s can be reached from other machines, and tokens travel to it unencrypted: set '%s', or "
                "have something in front of it that speaks TLS",
                self.url,
                SSL_REST.key,
            )

    @property
    def port(self) -> int:
        """The port at which it listens."""
        return int(self._socket.getsockname()[1])

    @property
    def url(self) -> str:
        """The address for clients: scheme, host and port, without a slash at its end."""
        scheme = "http" if self._settings.tls is None else "https"
        address = self._settings.address
        return f"{scheme}://{f'[{address}]' if ':' in address else address}:{self.port}"

    # What `launch.JobObserver` wants.

    def job_submitted(self, client: MasterJobClient) -> None:
        """Show a job from now on; one that cannot be shown runs nevertheless."""
        try:
            self.jobs.add(client)
        except Exception:  # noqa: BLE001 - who watches a job must not be able to end it
            _LOG.warning("job %s is not shown at %s", client.get_job_id(), self.url, exc_info=True)
        else:
            client.rest_url = self.url

    def standing_by(self, job_id: JobID) -> None:
        """There is nothing to show before this driver leads."""

    def engine_starting(self, job_id: JobID) -> None:
        """The job is shown already."""

    def status_changed(self, job: ObservedJob, status: JobStatus) -> None:
        """Whoever asks sees it."""

    # The thread.

    def _run(self) -> None:
        try:
            if self._await_connection():
                self._serve()
        except Exception:  # noqa: BLE001 - nobody who watches a job may end it
            _LOG.exception("the REST interface at %s has ended; jobs continue without it", self.url)
        finally:
            self._socket.close()

    def _await_connection(self) -> bool:
        """Whether somebody has connected before the end."""
        with selectors.DefaultSelector() as selector:
            for sock in (self._socket, self._wakes):
                selector.register(sock, selectors.EVENT_READ)
            return all(key.fileobj is not self._wakes for key, _ in selector.select())

    def _serve(self) -> None:
        import uvicorn

        from firesteel.rest.patient_protocol import LARGEST_HEAD, protocol_for

        config = uvicorn.Config(
            self._app(),
            access_log=False,
            h11_max_incomplete_event_size=LARGEST_HEAD,
            http=protocol_for(self._socket),
            lifespan="off",
            log_config=None,
            log_level=logging.ERROR,  # what strangers send must not fill the log
            loop="asyncio",
            server_header=False,
            timeout_graceful_shutdown=1,
            ws="none",
        )
        config.load()
        config.ssl = self._tls
        server = uvicorn.Server(config)
        with self._lock:
            if self._closed:
                return
            self._server = server
        server.run(sockets=[self._socket])

    def _app_of_jobs(self) -> Any:
        from firesteel.rest.app import make_app
        from firesteel.rest.endpoints import Context

        return make_app(Context(self.jobs, self._operations), self._settings)

    def close(self, linger_seconds: float = _LINGER_SECONDS) -> None:
        """Let those who have started something hear how it ended, for a moment; then answer no more."""
        self._operations.await_told(linger_seconds)
        with self._lock:
            self._closed = True
            if self._server is not None:
                self._server.should_exit = True
        with contextlib.suppress(OSError):
            self._wake.send(b"x")
        self._thread.join(_JOIN_SECONDS)
        self._wake.close()
        self._wakes.close()


def _bind(settings: RestSettings) -> Listener:
    """Listen at the first port that is free."""
    family = socket.AF_INET6 if ":" in settings.bind_address else socket.AF_INET
    for port in settings.ports:
        sock = Listener(family, knows_clients=settings.knows_clients)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((settings.bind_address, port))
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
        else:
            return sock
    first, last = settings.ports[0], settings.ports[-1]
    shown = str(first) if first == last else f"{first} to {last}"
    raise SetupError(
        f"the ports {shown} of {settings.bind_address} are taken; choose others with '{REST_BIND_PORT.key}'"
    )
