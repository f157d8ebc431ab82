"""A cluster service is asked everything, by schemathesis and by hand, well and badly; a job that runs meanwhile takes no harm."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import schemathesis

from firesteel.service.folder import ServiceFolder
from firesteel.service.processes import end_driver, is_alive
from firesteel_support.cluster_service import ServiceClient, cluster_service, form, zipped
from firesteel_support.rest_schema import drive

WAITING = """
from firesteel.common import WatermarkStrategy
from firesteel.datastream import StreamExecutionEnvironment
from firesteel.testing import Emit, ScriptedSource, WaitForever

env = StreamExecutionEnvironment.get_execution_environment()
source = env.from_source(ScriptedSource([Emit([1, 2, 3]), WaitForever()]), WatermarkStrategy.no_watermarks(), "Numbers")
source.key_by(lambda number: number % 2).reduce(lambda one, other: one + other).print()
env.execute("driven")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("service") / "cluster"


@pytest.fixture(scope="module")
def service(folder: Path) -> Iterator[ServiceClient]:
    with cluster_service(folder, {"parallelism.default": "1"}) as client:
        yield client
    for submitted in ServiceFolder(folder).all_jobs():
        report = submitted.report()
        if report is not None:
            end_driver(report.process, by_force=True)


@pytest.fixture(scope="module")
def job(service: ServiceClient, folder: Path) -> str:
    """One that runs, with checkpoints."""
    options = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(folder.parent / "checkpoints"),
    }
    job = service.run(service.upload("driven.py", WAITING), flinkConfiguration=options)
    service.wait_for(f"/jobs/{job}/checkpoints", lambda answer: answer["counts"]["completed"] > 0)
    return job


@pytest.fixture(autouse=True)
def unharmed(service: ServiceClient, job: str, folder: Path) -> Iterator[None]:
    """The job goes on, in the same process, and takes checkpoints."""
    before = ServiceFolder(folder).job(job).report()
    yield
    assert before is not None
    taken = service.get(f"/jobs/{job}/checkpoints")["counts"]["completed"]
    service.wait_for(f"/jobs/{job}/checkpoints", lambda answer: answer["counts"]["completed"] > taken)
    assert service.get(f"/jobs/{job}")["timestamps"]["RESTARTING"] == 0
    after = ServiceFolder(folder).job(job).report()
    assert after is not None
    assert after.process == before.process


def does_harm(case: schemathesis.Case) -> bool:
    """Whether a request would end the job, or forget its program."""
    return case.method in ("PATCH", "DELETE") or case.path.endswith("/stop")


def test_answers_conform_to_the_description_whatever_is_asked(
    service: ServiceClient, job: str, folder: Path
) -> None:
    executor = service.get("/taskmanagers")["taskmanagers"][0]["id"]
    real = {
        "jobid": job,
        "vertexid": service.get(f"/jobs/{job}")["vertices"][0]["id"],
        "taskmanagerid": executor,
        "subtaskindex": 0,
        "attempt": 0,
        "checkpointid": 1,
        # It has no job: whatever it is run with, it ends soon, and its client is told.
        "jarid": service.upload("nothing.py", "print('no job')"),
        "logname": f"driver-{job}.log",
    }
    # What ends the service is tried in another test.
    left_out = frozenset({("DELETE", "/v1/cluster")})
    assert drive(service.url, real, does_harm, folder.parent, left_out) > 80


def test_a_service_is_ended_over_http_and_its_jobs_go_on(tmp_path: Path) -> None:
    folder = ServiceFolder(tmp_path / "cluster")
    with cluster_service(folder.path) as service:
        job = service.run(service.upload("driven.py", WAITING))
        service.await_state(job, "RUNNING")
        assert service.call("DELETE", "/cluster") == (200, {})
    report = folder.job(job).report()
    assert report is not None
    assert is_alive(report.process)
    end_driver(report.process, by_force=True)


def raw(service: ServiceClient, request: bytes) -> bytes:
    """The answer to bytes that no client library would send."""
    address = urlsplit(service.url)
    with socket.create_connection((address.hostname, address.port), 30) as connection:
        connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    ("request_line", "headers", "body", "code"),
    [
        ("GET /jobs/%ff%fe HTTP/1.1", {}, b"", 400),
        ("GET /jobs/../../etc/passwd HTTP/1.1", {}, b"", 404),
        ("GET /jobmanager/logs/..%2f..%2fservice.json HTTP/1.1", {}, b"", 404),
        ("GET /taskmanagers/%2e%2e/log HTTP/1.1", {}, b"", 404),
        ("PUT /jobs HTTP/1.1", {}, b"", 405),
        ("GET /jobs HTTP/1.1", {"Host": "evil.example"}, b"", 403),
        ("PATCH /jobs/{job} HTTP/1.1", {"Origin": "http://evil.example"}, b"", 403),
        ("POST /jobs/{job}/savepoints HTTP/1.1", {}, b"{", 400),
        ("POST /jobs/{job}/savepoints HTTP/1.1", {}, b"[" * 100_000, 400),
        ("POST /jobs/{job}/savepoints HTTP/1.1", {}, b'{"target-directory": 7}', 400),
        ("POST /jobs/{job}/savepoints HTTP/1.1", {}, b"\xff\xfe", 400),
        ("PATCH /jobs/{job}?mode=murder HTTP/1.1", {}, b"", 400),
        ("PATCH /jobs/{job}/rescaling HTTP/1.1", {}, b"", 400),
        ("PATCH /jobs/{job}/rescaling?parallelism=-1 HTTP/1.1", {}, b"", 400),
        ("PATCH /jobs/{job}/rescaling?parallelism=1e99 HTTP/1.1", {}, b"", 400),
        ("PUT /jobs/{job}/resource-requirements HTTP/1.1", {}, b'{"x": 1}', 400),
        ("POST /jars/upload HTTP/1.1", {"Content-Type": "multipart/form-data"}, b"x", 400),
        ("POST /jars/upload HTTP/1.1", {"Content-Type": "multipart/form-data; boundary=b"}, b"--b", 400),
        ("POST /jobs HTTP/1.1", {"Content-Type": "multipart/form-data; boundary=b"}, b"--b--", 400),
        ("PUT /log-levels HTTP/1.1", {}, b'{"logger": "x", "level": "LOUD"}', 400),
        ("PUT /log-levels?jobs=00000000000000000000000000000000 HTTP/1.1", {}, b'{"logger": "x"}', 404),
        ("NONSENSE", {}, b"", 400),
    ],
)
def test_bad_requests_are_refused_with_a_sentence(
    service: ServiceClient, job: str, request_line: str, headers: dict[str, str], body: bytes, code: int
) -> None:
    given = {"Host": urlsplit(service.url).netloc, "Content-Length": str(len(body)), **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in {**given, "Connection": "close"}.items())
    answer = raw(service, f"{request_line.replace('{job}', job)}\r\n{lines}\r\n".encode() + body)
    head, _, content = answer.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == str(code).encode(), answer[:1000]
    if request_line != "NONSENSE":  # which is no HTTP: what reads it answers before anybody else is asked
        assert json.loads(content)["errors"], content


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("../escaped.py", b"raise ValueError"),
        ("job.exe", b"MZ"),
        ("job.zip", b"this is no archive"),
        ("", b"raise ValueError"),
        ("job.zip", zipped({"../escaped.py": "print(1)"})),
    ],
)
def test_uploads_that_are_no_programs_do_no_harm(
    service: ServiceClient, folder: Path, name: str, content: bytes
) -> None:
    body, kind = form({}, {name: content}, "jarfile")
    status, answer = service.call("POST", "/jars/upload", body, {"Content-Type": kind})
    assert status in (200, 400), answer
    assert sorted(folder.parent.rglob("escaped.py")) == []
    if status == 200:
        jar = str(answer["filename"]).rpartition("/")[2]
        assert Path(answer["filename"]).parent == folder / "jars"
        refused, answer = service.call("POST", f"/jars/{jar}/run", {})
        assert refused == 400, answer
        assert service.call("DELETE", f"/jars/{jar}")[0] == 200
    assert sorted(folder.parent.rglob("escaped.py")) == []
