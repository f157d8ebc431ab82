"""What travels between driver, executors and tasks, as somebody sees it who listens to the network."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from cluster import SPARK_HOME, Cluster, standalone_cluster
from packets import captured
from support import PROGRAMS, Driver, until
from test_attacks import ports_of

import firesteel.spark
from firesteel.cli.main import main
from firesteel.common._tls import TlsFiles, client_context
from firesteel.control.certificates import write_certificates
from firesteel.spark.tls import GUARD_OPTIONS

Start = Callable[..., Driver]

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow]

#: What the options of Firesteel are for Spark's own daemons.
DAEMONS = {
    "security.ssl.internal.keystore": "spark.ssl.rpc.keyStore",
    "security.ssl.internal.keystore-password": "spark.ssl.rpc.keyStorePassword",
    "security.ssl.internal.truststore": "spark.ssl.rpc.trustStore",
    "security.ssl.internal.truststore-password": "spark.ssl.rpc.trustStorePassword",
}
GUARD_JAR = Path(firesteel.spark.__file__).parent / "guard" / "guard.jar"
LINES = 200  # some of them large chunks: Spark's buffers are used again and again


@contextmanager
def encrypted_cluster(directory: Path) -> Iterator[tuple[Cluster, Path]]:
    """A cluster as docs/security.md says, and where its certificates are."""
    certificates = directory / "certificates"
    made = CliRunner().invoke(main, ["certificates", str(certificates)])
    assert made.exit_code == 0, made.output
    lines = (certificates / "config.yaml").read_text().splitlines()
    options = dict(line.split(": ", 1) for line in lines if ".internal." in line)
    daemons = {DAEMONS[key]: value for key, value in options.items() if key in DAEMONS}
    daemons |= {
        "spark.ssl.rpc.enabled": "true",
        "spark.ssl.rpc.protocol": "TLSv1.3",
        "spark.ssl.rpc.keyPassword": daemons["spark.ssl.rpc.keyStorePassword"],
    }
    mark = uuid.uuid4().hex
    with standalone_cluster(directory / "cluster", mark, daemons=daemons, drivers=options) as running:
        yield running, certificates


def telling(start: Start, word: str, *options: str, **variables: str) -> Driver:
    """A job that sends a word over all its connections; returns when it has done so for a while."""
    program = [str(PROGRAMS / "telling.py"), word[::-1]]
    run = start("-m", "firesteel.cli.main", "run", "-p", "2", *options, *program, **variables)
    _goes_on(run, word)
    return run


def _goes_on(run: Driver, word: str) -> None:
    before = run.stdout().count(word)

    def told() -> bool:
        assert run.popen.poll() is None, run.stderr()
        return run.stdout().count(word) >= before + LINES

    until(told, "the word was printed often enough")


def test_no_record_crosses_in_clear(driver: Start, tmp_path: Path) -> None:
    word, plain_word = f"told-{uuid.uuid4().hex}", f"told-{uuid.uuid4().hex}"
    with captured(word.encode(), plain_word.encode()) as packets:
        telling(driver, plain_word).kill_family()
        with encrypted_cluster(tmp_path) as (cluster, certificates):
            run = telling(driver, word, "-m", cluster.url, **cluster.environment)
            _only_members_are_let_in(cluster, certificates)
            _goes_on(run, word)
            run.kill_family()
            logs = [path.read_text() for path in (tmp_path / "cluster").glob("*.log")]
            commands = [process.command for process in cluster.executors()]
    assert packets.seen[plain_word.encode()] > 0, "who listens sees what is not encrypted"
    assert packets.seen[word.encode()] == 0
    password = (certificates / "config.yaml").read_text().partition("keystore-password: ")[2].split()[0]
    assert not any(password in text for text in (run.stderr(), *logs, *commands))


def test_an_embedded_spark_is_encrypted_by_one_option_and_commands_show_their_certificate(
    driver: Start, tmp_path: Path
) -> None:
    certificates = tmp_path / "certificates"
    made = CliRunner().invoke(main, ["certificates", str(certificates)])
    assert made.exit_code == 0, made.output
    rest = [line for line in (certificates / "config.yaml").read_text().splitlines() if ".ssl.rest." in line]
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "config.yaml").write_text("\n".join([*rest, "security.ssl.internal.enabled: true"]))
    member = {"FIRESTEEL_CONF_DIR": str(tmp_path / "conf")}
    # Who trusts the server, and has nothing to show.
    (tmp_path / "stranger").mkdir()
    trusting = f"security.ssl.rest.enabled: true\nsecurity.ssl.rest.ca-file: {certificates / 'ca.pem'}\n"
    (tmp_path / "stranger" / "config.yaml").write_text(trusting)
    stranger = {"FIRESTEEL_CONF_DIR": str(tmp_path / "stranger")}
    word = f"told-{uuid.uuid4().hex}"
    with captured(word.encode()) as packets:
        run = telling(driver, word, "-D", "rest.port=0", **member)
        job = _id_in(_command(run, "list", **member), "RUNNING")
        assert _command(run, "cancel", job, **stranger).returncode != 0
        _goes_on(run, word)
        assert _command(run, "cancel", job, **member).returncode == 0
        run.wait()
    assert packets.bytes > 0
    assert packets.seen[word.encode()] == 0


def _command(run: Driver, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A command about the jobs of this driver."""
    environment = {**os.environ, "FIRESTEEL_HOME": str(run.directory / "home"), **variables}
    command = [sys.executable, "-m", "firesteel.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def _id_in(listed: subprocess.CompletedProcess[str], state: str) -> str:
    found = re.search(rf"\b([0-9a-f]{{32}})\b.*{state}", listed.stdout)
    assert found is not None, listed
    return found[1]


@pytest.mark.skipif(shutil.which("javac") is None, reason="the check is a Java program")
def test_the_guard_asks_for_certificates_and_lets_go_of_buffers(tmp_path: Path) -> None:
    """Spark's transport alone: what keeps the streaming shuffle from failing, and strangers from reading it."""
    write_certificates(tmp_path / "certificates", [], 2, "a password")
    store, trusted = (tmp_path / "certificates" / f"{name}.p12" for name in ("keystore", "truststore"))
    settings = {
        "enabled": "true",
        "protocol": "TLSv1.3",
        "keyStore": store,
        "keyStorePassword": "a password",
        "keyPassword": "a password",
        "trustStore": trusted,
        "trustStorePassword": "a password",
    }
    command = [
        *(
            "java",
            *GUARD_OPTIONS,
            "-cp",
            f"{GUARD_JAR}:{SPARK_HOME}/jars/*",
            str(PROGRAMS / "GuardCheck.java"),
        ),
        *(f"spark.ssl.rpc.{key}={value}" for key, value in settings.items()),
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as check:
        assert check.stdin is not None
        assert check.stdout is not None
        said = [check.stdout.readline().split(" ", 1) for _ in range(3)]
        assert [word for word, _ in said] == ["port", "held", "received"], said
        port = int(said[0][1])
        files = [str(tmp_path / "certificates" / name) for name in ("cert.pem", "key.pem", "ca.pem")]
        assert _is_turned_away(port, client_context(TlsFiles(None, None, files[2]), verifies_hostname=False))
        assert not _is_turned_away(port, client_context(TlsFiles(*files), verifies_hostname=False))
        check.stdin.close()
    assert [rest.strip() for _, rest in said[1:]] == ["{1=100}", "true"], "all are held by their owner alone"


def _only_members_are_let_in(cluster: Cluster, certificates: Path) -> None:
    """The streaming shuffle sends records to whoever asks: but for TLS, with a certificate."""
    files = [str(certificates / name) for name in ("cert.pem", "key.pem", "ca.pem")]
    member = client_context(TlsFiles(*files), verifies_hostname=False)
    stranger = client_context(TlsFiles(None, None, files[2]), verifies_hostname=False)
    shuffle = [port.number for port in ports_of(cluster.executors()) if port.address == "*"]
    assert shuffle, "tasks with receivers listen"
    with ThreadPoolExecutor(len(shuffle)) as pool:  # who is let in waits for a while to know it
        assert all(pool.map(lambda port: _is_turned_away(port, stranger), shuffle))
        assert not any(pool.map(lambda port: _is_turned_away(port, member), shuffle))


def _is_turned_away(port: int, context: ssl.SSLContext) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        try:
            with context.wrap_socket(sock) as encrypted:
                # With TLS 1.3 a client learns only with what it reads that the server wants a certificate. A member is
                # not told anything: the server waits for what it has to say.
                encrypted.settimeout(2.0)
                return encrypted.recv(1) == b""
        except TimeoutError:
            return False
        except (ssl.SSLError, ConnectionError):
            return True
