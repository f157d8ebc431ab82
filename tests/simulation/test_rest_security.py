"""The REST interface with TLS, with certificates of clients, with tokens, and with clients that mean no good."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from firesteel import launch
from firesteel.common import Configuration, WatermarkStrategy
from firesteel.common._tls import TlsFiles, client_context
from firesteel.control.certificates import write_certificates
from firesteel.jobmaster.job_client import MasterJobClient
from firesteel.rest import patient_protocol
from firesteel.rest.access import hashed, new_token
from firesteel.rest.listener import MOST_CONNECTIONS
from firesteel.rest.service import RestService
from firesteel.rest.settings import RestSettings
from firesteel.testing import ScriptedSource, WaitForever, simulated_environment

OPERATOR, READER = new_token(), new_token()
PATIENCE = 60.0


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("certificates")
    write_certificates(directory, [], 2, "a password")
    return directory


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of somebody else's authority."""
    directory = tmp_path_factory.mktemp("strangers")
    write_certificates(directory, [], 2, "a password")
    return directory


@pytest.fixture
def tokens_file(tmp_path: Path) -> str:
    path = tmp_path / "tokens"
    path.write_text(f"operator {hashed(OPERATOR)}\nread-only {hashed(READER)}\n")
    path.chmod(0o600)
    return str(path)


def tls_of(directory: Path) -> TlsFiles:
    return TlsFiles(*(str(directory / name) for name in ("cert.pem", "key.pem", "ca.pem")))


@contextmanager
def serving(settings: RestSettings) -> Iterator[RestService]:
    service = RestService(settings)
    try:
        with launch.observe_jobs(service):
            yield service
    finally:
        service.close()


@contextmanager
def a_job() -> Iterator[tuple[MasterJobClient, str]]:
    env = simulated_environment(configuration=Configuration.from_dict({"restart-strategy.type": "none"}))
    env.from_source(ScriptedSource([WaitForever()]), WatermarkStrategy.no_watermarks(), "Waiting").print()
    client = env.execute_async("a job")
    assert isinstance(client, MasterJobClient)
    try:
        yield client, f"/jobs/{client.get_job_id()}"
    finally:
        if not client.is_over():
            client.cancel().result()


def ask(
    service: RestService,
    path: str,
    method: str = "GET",
    token: str | None = None,
    context: ssl.SSLContext | None = None,
    body: Any = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, Any]:
    port = service.port
    connection = (
        http.client.HTTPConnection("localhost", port, timeout=PATIENCE)
        if context is None
        else http.client.HTTPSConnection("localhost", port, timeout=PATIENCE, context=context)
    )
    sent = {**(headers or {}), **({} if token is None else {"Authorization": f"Bearer {token}"})}
    with contextlib.closing(connection):
        connection.request(method, path, body, sent)
        answer = connection.getresponse()
        content = answer.read()
        kind = answer.headers.get("Content-Type", "")
        return answer.status, json.loads(content) if kind.startswith("application/json") else content


# TLS.


def test_what_is_said_is_encrypted_and_the_server_is_the_right_one(
    certificates: Path, strangers: Path
) -> None:
    with serving(RestSettings(tls=tls_of(certificates))) as service:
        assert service.url == f"https://localhost:{service.port}"
        with a_job() as (_, job):
            trusting = client_context(TlsFiles(None, None, str(certificates / "ca.pem")))
            assert ask(service, f"{job}/status", context=trusting)[0] == 200
            wary = client_context(TlsFiles(None, None, str(strangers / "ca.pem")))
            with pytest.raises(ssl.SSLCertVerificationError):
                ask(service, f"{job}/status", context=wary)
            with pytest.raises((http.client.HTTPException, OSError)):
                ask(service, f"{job}/status")  # who does not speak TLS gets nothing
            assert ask(service, "/config", context=trusting)[0] == 200, "none of them harms the others"


def test_who_has_no_certificate_of_the_authority_is_not_let_in(certificates: Path, strangers: Path) -> None:
    settings = RestSettings(tls=tls_of(certificates), verifies_clients=True)
    with serving(settings) as service, a_job() as (client, job):
        nobody = client_context(TlsFiles(None, None, str(certificates / "ca.pem")))
        stranger = client_context(
            TlsFiles(str(strangers / "cert.pem"), str(strangers / "key.pem"), str(certificates / "ca.pem"))
        )
        for context in (nobody, stranger):
            with pytest.raises((OSError, http.client.HTTPException)):
                ask(service, job, "PATCH", context=context)
        assert not client.is_over()
        known = client_context(tls_of(certificates))
        assert ask(service, job, "PATCH", context=known)[0] == 202


# Tokens.


def test_roles_say_who_may_look_and_who_may_change(tokens_file: str) -> None:
    with serving(RestSettings(tokens_file=tokens_file)) as service, a_job() as (client, job):
        for token in (None, "", "guess", hashed(OPERATOR)):
            status, answer = ask(service, f"{job}/status", token=token)
            assert (status, "token" in answer["errors"][0]) == (401, True)
        assert ask(service, "/nothing/of/the/kind")[0] == 401, "not even that it is not there"
        assert ask(service, f"{job}/status", token=READER)[0] == 200
        for method, path in (("PATCH", job), ("POST", f"{job}/stop"), ("POST", "/savepoint-disposal")):
            status, answer = ask(service, path, method, token=READER)
            assert (status, "for the role operator" in answer["errors"][0]) == (403, True)
        assert not client.is_over()
        features = [ask(service, "/config", token=token)[1]["features"] for token in (READER, OPERATOR)]
        assert [each["web-cancel"] for each in features] == [False, True]
        assert ask(service, job, "PATCH", token=OPERATOR)[0] == 202


def test_pages_and_the_description_are_there_before_a_token_is(tokens_file: str) -> None:
    with serving(RestSettings(tokens_file=tokens_file)) as service:
        for path in ("/", "/js/main.js", "/openapi.json", "/v1/openapi.json"):
            assert ask(service, path)[0] == 200
        description = ask(service, "/openapi.json")[1]
        roles = {
            (p, m): each["x-firesteel-role"]
            for p, ms in description["paths"].items()
            for m, each in ms.items()
        }
        assert roles["/v1/jobs/{jobid}", "patch"] == "operator"
        assert roles["/v1/jobs/{jobid}", "get"] == "read-only"


def test_a_token_in_the_address_counts_for_nothing(tokens_file: str) -> None:
    with serving(RestSettings(tokens_file=tokens_file)) as service:
        assert ask(service, f"/config?token={OPERATOR}&access_token={OPERATOR}")[0] == 401


def test_a_page_of_another_site_has_no_say_even_with_a_token(tokens_file: str) -> None:
    with serving(RestSettings(tokens_file=tokens_file)) as service, a_job() as (client, job):
        status, _ = ask(service, job, "PATCH", OPERATOR, headers={"Origin": "https://evil.example"})
        assert status == 403
        assert not client.is_over()


# Clients that mean no good.


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_protocol.PatientProtocol, "request_seconds", 0.3)
    monkeypatch.setattr(patient_protocol.PatientProtocol, "answer_seconds", 0.3)


def talk(service: RestService, *parts: bytes) -> bytes:
    """All that is answered to these bytes, until the connection is closed."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as sock:
        with contextlib.suppress(ConnectionError):
            for part in parts:
                sock.sendall(part)
        return _rest(sock)


def _rest(sock: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionError):
        while part := sock.recv(1 << 16):
            received += part
    return received


HEAD = b"POST /jobs/0/stop HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "begun",
    [b"", b"GET /config HT", HEAD + b"X: ", HEAD + b"Content-Length: 10\r\n\r\n12345"],
    ids=["silent", "in the line", "in the head", "in the body"],
)
def test_who_begins_a_request_and_does_not_go_on_is_hung_up_on(begun: bytes) -> None:
    with serving(RestSettings()) as service:
        answer = talk(service, begun)
        assert answer.startswith(b"HTTP/1.1 408 "), answer
        assert "was not there" in json.loads(answer.partition(b"\r\n\r\n")[2])["errors"][0]
        assert ask(service, "/config")[0] == 200


@pytest.mark.usefixtures("impatient")
def test_who_does_not_read_what_he_asked_for_is_hung_up_on(tmp_path: Path) -> None:
    with serving(RestSettings()) as service, contextlib.ExitStack() as stack:
        sock = stack.enter_context(socket.socket())
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(PATIENCE)
        sock.connect(("127.0.0.1", service.port))
        wanted = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with contextlib.suppress(ConnectionError):
            while (
                True
            ):  # many answers, none of which is read; in the end nothing more is taken, and then it is cut
                sock.sendall(wanted)
        assert ask(service, "/config")[0] == 200


def test_a_silent_crowd_keeps_nobody_out(tokens_file: str) -> None:
    with serving(RestSettings(tokens_file=tokens_file)) as service, contextlib.ExitStack() as crowd:
        for _ in range(MOST_CONNECTIONS + 50):
            crowd.enter_context(socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE))
        assert ask(service, "/config", token=READER)[0] == 200


def test_bodies_have_a_limit_whether_clients_say_how_large_they_are_or_not() -> None:
    with serving(RestSettings(most_body_bytes=1000)) as service:
        said = talk(service, HEAD + b"Content-Length: 1001\r\n\r\n")
        chunk = b"3e8\r\n" + b"x" * 1000 + b"\r\n"
        unsaid = talk(service, HEAD + b"Transfer-Encoding: chunked\r\n\r\n", chunk, chunk)
        for answer in (said, unsaid):
            assert answer.startswith(b"HTTP/1.1 413 "), answer
            assert b"larger than 1,000 bytes" in answer


def test_heads_have_a_limit() -> None:
    with serving(RestSettings()) as service:
        parts = [b"x" * patient_protocol.LARGEST_HEAD] * 8
        answer = talk(service, HEAD + b"X: ", *parts)
        # Who goes on to send when he was hung up on may lose the answer.
        assert answer == b"" or b"its head is larger than 65,536 bytes" in answer, answer[:100]
        assert ask(service, "/config")[0] == 200


@pytest.mark.usefixtures("impatient")
def test_many_bad_clients_at_once_do_not_harm_a_job() -> None:
    shapes: list[bytes] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        HEAD + b"Content-Length: 2\r\n\r\n{]",
        HEAD
        + b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n",
        b"GET /jobs/%00%ff%2e%2e/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    ]
    with serving(RestSettings()) as service, a_job() as (client, _):
        answers: list[bytes] = []
        threads = [
            threading.Thread(target=_collect, args=(service, shape, answers.append))
            for shape in shapes
            for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(answers) == len(threads)
        for answer in answers:
            assert answer[:10] == b"HTTP/1.1 4", answer
            assert b'{"errors":' in answer
        assert not client.is_over()
        assert ask(service, "/config")[0] == 200


def _collect(service: RestService, shape: bytes, take: Callable[[bytes], None]) -> None:
    with socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE) as sock:
        sock.sendall(shape)
        take(_rest(sock))
