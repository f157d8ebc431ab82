"""The client of the REST interface, against servers that answer as they are told."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.rest import job_requests
from firesteel.rest.client import (
    NotReachableError,
    NotRestError,
    OperationFailedError,
    RequestRefusedError,
    RestAccess,
    RestClient,
)
from firesteel.rest.client_settings import read_access, service_url
from firesteel_support.scripted_server import ScriptedServer
from firesteel_support.servers.certificates import Certificates


def nothing(seconds: float) -> None:
    """Nobody waits in tests."""


def get(url: str, access: RestAccess | None = None, path: str = "/jobs") -> Any:
    with RestClient(url, access) as rest:
        return rest.get(path)


# Requests.


def test_an_answer_is_read_from_json_and_bodies_are_written_so() -> None:
    with (
        ScriptedServer((200, {"x": 1}), (202, {"request-id": "ab"})) as server,
        RestClient(server.url) as rest,
    ):
        assert rest.get("/a b", {"get": "n,m"}) == {"x": 1}
        assert rest.post("/c", {"d": None}) == {"request-id": "ab"}
    assert server.asked == [("GET", "/a%20b?get=n%2Cm", ""), ("POST", "/c", '{"d": null}')]
    assert server.headers[1]["Content-Type"] == "application/json"


def test_questions_share_a_connection_and_changes_have_their_own() -> None:
    with ScriptedServer((200, {})) as server, RestClient(server.url) as rest:
        for _ in range(3):
            rest.get("/a")
        assert len(server.connections) == 1
        rest.patch("/a")
        assert len(server.connections) == 2


def test_a_connection_that_was_ended_meanwhile_is_made_again() -> None:
    with ScriptedServer((200, {})) as server, RestClient(server.url) as rest:
        rest.get("/a")
        assert rest._kept is not None
        assert rest._kept.sock is not None
        rest._kept.sock.shutdown(socket.SHUT_RDWR)
        assert rest.get("/a") == {}


def test_the_token_is_sent_and_never_shown() -> None:
    access = RestAccess("very secret")
    with ScriptedServer((200, {})) as server, RestClient(server.url, access) as rest:
        rest.get("/a")
    assert server.headers[0]["Authorization"] == "Bearer very secret"
    assert "very secret" not in repr(access)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 500, 501])
def test_a_refusal_has_the_sentences_of_the_service(status: int) -> None:
    answer = (status, {"errors": ["no such job", "look again"]})
    with ScriptedServer(answer) as server, pytest.raises(RequestRefusedError) as refused:
        get(server.url)
    assert str(refused.value) == "no such job\nlook again"
    assert (refused.value.status, refused.value.sentences) == (status, ("no such job", "look again"))


@pytest.mark.parametrize(
    ("answer", "media_type"),
    [("<html>\nhello", "text/html"), ("{", "application/json"), ('{"x": 1}', "text/plain")],
)
@pytest.mark.parametrize("status", [200, 404])
def test_what_is_no_rest_interface_is_called_so(answer: str, media_type: str, status: int) -> None:
    expected = f"is no REST interface of Firesteel: .* answers with {status}"
    script = ScriptedServer((status, answer), media_type=media_type)
    with script as server, pytest.raises(NotRestError, match=expected):
        get(server.url)


def test_another_service_with_json_has_no_jobs() -> None:
    with (
        ScriptedServer((200, {"jobs": 3})) as server,
        RestClient(server.url) as rest,
        pytest.raises(NotRestError, match="its jobs cannot be read"),
    ):
        job_requests.jobs(rest)


# Nobody there.


def test_nothing_listens() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(NotReachableError, match=f"nothing listens at {url}; 'firesteel list'"):
            get(url)


@pytest.fixture
def peer() -> Iterator[Callable[[bytes | None], str]]:
    """Somebody who accepts a connection, says something - or, for None, nothing at all - and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()
    threads: list[threading.Thread] = []

    def start(said: bytes | None) -> str:
        def converse() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                if said is None:
                    done.wait(300)
                else:
                    connection.sendall(said)

        threads.append(threading.Thread(target=converse))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    done.set()
    for thread in threads:
        thread.join(300)
    listener.close()


def test_who_says_nothing_is_waited_for_as_long_as_was_said(peer: Callable[[bytes | None], str]) -> None:
    with pytest.raises(
        NotReachableError, match=r"does not answer within 0\.05 s; is it stopped, or very busy"
    ):
        get(peer(None), RestAccess(timeout_seconds=0.05))


def test_who_hangs_up_may_have_ended(peer: Callable[[bytes | None], str]) -> None:
    with pytest.raises(NotReachableError, match="has ended the connection without an answer"):
        get(peer(b""))


def test_who_speaks_something_else_is_no_rest_interface(peer: Callable[[bytes | None], str]) -> None:
    with pytest.raises(NotRestError, match="does not speak HTTP"):
        get(peer(b"220 mail.example ESMTP\r\n"))


def test_a_name_that_nobody_has() -> None:
    with pytest.raises(NotReachableError, match=r"no machine of the name 'nobody\.invalid' is known here"):
        get("http://nobody.invalid:8081")


# TLS.


def access(**files: Path) -> RestAccess:
    options = {f"security.ssl.rest.{name.replace('_', '-')}": str(path) for name, path in files.items()}
    return read_access(Configuration.from_dict(options), {})


def test_a_certificate_is_trusted_by_its_authority(tmp_path: Path) -> None:
    files = Certificates.made_in(tmp_path)
    server = ScriptedServer((200, {"jobs": []}))
    url = server.encrypt(files)
    with server:
        with pytest.raises(NotReachableError, match=r"is not trusted: .*'security\.ssl\.rest\.ca-file'"):
            get(url)
        with RestClient(url, access(ca_file=files.authority)) as rest:
            assert rest.get("/jobs") == {"jobs": []}


def test_a_service_may_want_a_certificate_of_the_client(tmp_path: Path) -> None:
    files = Certificates.made_in(tmp_path)
    server = ScriptedServer((200, {"jobs": []}))
    url = server.encrypt(files, mutual=True)
    with server:
        with pytest.raises(NotReachableError):
            get(url, access(ca_file=files.authority))
        with RestClient(url, access(ca_file=files.authority, cert_file=files.client)) as rest:
            assert rest.get("/jobs") == {"jobs": []}


def test_https_where_plain_http_is_spoken() -> None:
    with ScriptedServer((200, {})) as server, pytest.raises(NotReachableError, match="no TLS connection to"):
        get(server.url.replace("http", "https"))


# Operations.


def test_an_operation_is_asked_for_until_it_is_complete() -> None:
    running = (200, {"status": {"id": "IN_PROGRESS"}, "operation": None})
    done = (200, {"status": {"id": "COMPLETED"}, "operation": {"location": "/s/1"}})
    waits: list[float] = []
    with ScriptedServer(running, running, running, done) as server, RestClient(server.url) as rest:
        assert rest.outcome("/jobs/ab/savepoints", "0f", waits.append) == {"location": "/s/1"}
    assert [path for _, path, _ in server.asked] == ["/jobs/ab/savepoints/0f"] * 4
    assert waits == sorted(waits)
    assert len(waits) == 3


@pytest.mark.parametrize("field", ["failure-cause", "failureCause"])
@pytest.mark.parametrize(
    "text",
    [
        "CheckpointError: the disk\nis full",
        "Traceback (most recent call last):\n  File ...\nfiresteel.common.errors.CheckpointError: the disk\nis full\n",
    ],
)
def test_a_failed_operation_raises_what_the_service_says(field: str, text: str) -> None:
    cause = {"class": "firesteel.common.errors.CheckpointError", "stack-trace": text}
    done = (200, {"status": {"id": "COMPLETED"}, "operation": {field: cause}})
    with (
        ScriptedServer(done) as server,
        RestClient(server.url) as rest,
        pytest.raises(OperationFailedError, match=r"^the disk\nis full$") as failed,
    ):
        rest.outcome("/jobs/ab/savepoints", "0f", nothing)
    assert failed.value.error_class == "firesteel.common.errors.CheckpointError"


def test_requests_about_jobs_are_those_of_flink() -> None:
    with ScriptedServer((202, {"request-id": "0f"})) as server, RestClient(server.url) as rest:
        assert job_requests.start_savepoint(rest, "ab", "/s", form="CANONICAL") == "0f"
        job_requests.start_savepoint(rest, "ab", None, cancel_job=True)
        job_requests.start_stop(rest, "ab", None, drain=True)
        job_requests.start_checkpoint(rest, "ab", "FULL")
        job_requests.start_disposal(rest, "/s/1")
        job_requests.start_rescaling(rest, "ab", 4)
        job_requests.cancel(rest, "ab")
    assert [(method, path, json.loads(body or "null")) for method, path, body in server.asked] == [
        ("POST", "/jobs/ab/savepoints", {"target-directory": "/s", "formatType": "CANONICAL"}),
        ("POST", "/jobs/ab/savepoints", {"cancel-job": True}),
        ("POST", "/jobs/ab/stop", {"drain": True}),
        ("POST", "/jobs/ab/checkpoints", {"checkpointType": "FULL"}),
        ("POST", "/savepoint-disposal", {"savepoint-path": "/s/1"}),
        ("PATCH", "/jobs/ab/rescaling?parallelism=4", None),
        ("PATCH", "/jobs/ab?mode=cancel", None),
    ]


def test_the_end_of_a_job_is_waited_for() -> None:
    states = ["RUNNING", "CANCELLING", "CANCELED"]
    with (
        ScriptedServer(*((200, {"status": state}) for state in states)) as server,
        RestClient(server.url) as rest,
    ):
        assert job_requests.await_end(rest, "ab", nothing) == "CANCELED"


# Settings.


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("spark://host:7077", "spark:// is no address"),
        ("host:port", "Port could not be cast"),
        ("host:99999", "out of range"),
        ("", "got ''"),
        ("user@host:1", "got 'user@host:1'"),
        ("http://host/?x=1", r"got 'http://host/\?x=1'"),
    ],
)
def test_what_is_no_address_is_refused(address: str, why: str) -> None:
    with pytest.raises(InvalidOptionError, match=f"such as localhost:8081 or https://host.*{why}"):
        service_url(address)


def test_addresses_mean_https_where_rest_has_tls() -> None:
    configuration = Configuration.from_dict({"security.ssl.rest.enabled": "true"})
    assert service_url("host:8081", configuration) == "https://host:8081"
    assert service_url("http://host:8081", configuration) == "http://host:8081"


def test_a_token_comes_from_the_environment_or_from_a_file_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("from-file\n")
    path.chmod(0o600)
    options = Configuration.from_dict({"firesteel.rest.token-file": str(path)})
    assert read_access(options, {}).token == "from-file"
    assert read_access(options, {"FIRESTEEL_REST_TOKEN": "from-environment"}).token == "from-environment"
    assert read_access(Configuration(), {}).token == ""
    path.chmod(0o640)
    with pytest.raises(InvalidOptionError, match="others than its owner can read"):
        read_access(options, {})


@pytest.mark.parametrize("content", ["", "two words", "ü"])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    path.chmod(0o600)
    with pytest.raises(InvalidOptionError, match=r"option 'firesteel\.rest\.token-file'"):
        read_access(Configuration.from_dict({"firesteel.rest.token-file": str(path)}), {})


def test_files_of_certificates_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    options = Configuration.from_dict({"security.ssl.rest.ca-file": str(tmp_path / "no")})
    with pytest.raises(InvalidOptionError, match=r"'security\.ssl\.rest\.ca-file'.*cannot be used"):
        read_access(options, {})
