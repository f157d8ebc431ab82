"""Every port that a job opens, every file that it writes, and somebody who has no business with any of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import recovery_job
from recovery_job import OPTIONS, announced, build, check, shown, tell_to_end
from support import PROGRAMS, Driver, Process, processes, until

from firesteel import launch
from firesteel.datastream import StreamExecutionEnvironment
from firesteel_support import servers

SparkEnvironment = Callable[..., StreamExecutionEnvironment]
Start = Callable[..., Driver]

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="ports are found through /proc"),
]

LOOPBACK = "127.0.0.1"
ATTACKER = (PROGRAMS / "attacker.py").read_text()
is_root = os.geteuid() == 0
needs_root = pytest.mark.skipif(
    not is_root, reason="only root can be another user, or make network namespaces"
)


# Ports ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Port:
    """A listening socket of a process."""

    address: str
    number: int
    process: Process


def ports_of(family: list[Process]) -> list[Port]:
    listening = _listening()
    found = []
    for process in family:
        found += [Port(*listening[inode], process) for inode in _sockets(process.pid) if inode in listening]
    return list({(port.address, port.number): port for port in found}.values())


def _listening() -> dict[str, tuple[str, int]]:
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":
                address, port = fields[1].split(":")
                found[fields[9]] = (_address(address), int(port, 16))
    return found


def _address(text: str) -> str:
    if text in ("00000000", "0" * 32):
        return "*"
    return (
        LOOPBACK if text in ("0100007F", "0000000000000000FFFF00000100007F", f"{'0' * 24}01000000") else text
    )


def _sockets(pid: int) -> Iterator[str]:
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(entry)
            if target.startswith("socket:["):
                yield target[8:-1]
    except OSError:
        return  # it has ended


def descendants(pid: int) -> list[Process]:
    """A process and all that come from it, without servers that tests of connectors have started."""
    everything = processes()
    found, new = [everything[pid]], [pid]
    while new:
        children = [p for p in everything.values() if p.parent in new and p.pid not in servers.RUNNING]
        found += children
        new = [child.pid for child in children]
    return found


# The attacker ---------------------------------------------------------------------------------------------


def attack(*words: object) -> Any:
    """Run a command of attacker.py, as another user where that is possible."""
    run = subprocess.run(_command(*words), capture_output=True, text=True, cwd="/", check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def _command(*words: object) -> list[str]:
    return [os.path.realpath(sys.executable), "-I", "-c", ATTACKER, *map(str, words)]


@contextmanager
def crowd(port: int, count: int) -> Iterator[None]:
    """So many silent connections for as long as the block lasts."""
    with subprocess.Popen(
        _command("crowd", port, count),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline().strip() == str(count)
        yield
        process.stdin.close()


# A job that is attacked -----------------------------------------------------------------------------------


@dataclass
class Attacked:
    client: Any
    output: Path
    checkpoints: Path

    def ports(self) -> list[Port]:
        return ports_of(descendants(os.getpid()))

    def goes_on(self) -> None:
        """Wait for output that was not there yet."""
        before = len(shown(self.output))

        def more() -> bool:
            assert not self.client.is_over(), self.client.wait()
            return len(shown(self.output)) > before

        until(more, "the next output")


@pytest.fixture(scope="module")
def attacked(spark: None) -> Iterator[Attacked]:
    """One job for all attacks, which it must survive in its first attempt; at the end its results must be right."""
    from firesteel.common import Configuration

    directory = Path(tempfile.mkdtemp(prefix="firesteel-attacked-"))
    directory.chmod(0o755)  # others may look around here; pytest's own directories are closed to them
    options = {**OPTIONS, "execution.checkpointing.dir": str(directory / "checkpoints"), "rest.port": "0"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    build(env.set_parallelism(2), directory, 500.0)
    with launch.register_jobs():
        client: Any = env.execute_async()
        job = Attacked(client, directory, directory / "checkpoints")
        try:
            job.goes_on()
            yield job
            job.goes_on()
            tell_to_end(directory)
            client.wait()
        finally:
            if not client.is_over():
                client.cancel().result()
    assert {process.attempt for process in announced(directory)} == {0}, "an attack ended an attempt"
    check(directory)
    shutil.rmtree(directory)


def test_everything_listens_on_loopback_only(attacked: Attacked) -> None:
    ports = attacked.ports()
    assert {port.address for port in ports} == {LOOPBACK}, [p for p in ports if p.address != LOOPBACK]
    assert sum("java" in port.process.command for port in ports) >= 4, (
        "Spark's own, and two tasks with two receivers"
    )
    assert sum(port.process.pid == os.getpid() for port in ports) >= 2, "control connections, and REST"


def test_noise_at_every_port_changes_nothing(attacked: Attacked) -> None:
    numbers = [port.number for port in attacked.ports()]
    assert attack("noise", *numbers) >= 200 * len(numbers)
    assert not Path("/tmp/firesteel-was-here").exists()
    attacked.goes_on()


def test_packet_that_the_streaming_shuffle_cannot_decode_changes_nothing(attacked: Attacked) -> None:
    numbers = [port.number for port in attacked.ports() if "java" in port.process.command]
    assert attack("undecodable", *numbers) >= 1
    attacked.goes_on()


def test_blocks_are_given_to_nobody(attacked: Attacked) -> None:
    numbers = [port.number for port in attacked.ports()]
    assert {given for given, _ in attack("blocks", "00", *numbers).values()} == {0}


def test_silent_crowd_at_the_driver_keeps_nobody_out(attacked: Attacked, tmp_path: Path) -> None:
    from firesteel.cli.running_jobs import found_jobs
    from firesteel.cli.target import Target

    own = [port.number for port in attacked.ports() if port.process.pid == os.getpid()]
    for number in own:
        with crowd(number, 600):
            attacked.goes_on()
            assert [job.state for job in found_jobs(Target()) if job.pid == os.getpid()] == ["RUNNING"]


@needs_root
def test_another_user_can_read_none_of_the_files_and_sockets(attacked: Attacked) -> None:
    checkpoints = [path for path in attacked.checkpoints.rglob("*") if path.is_file()]
    assert checkpoints
    sockets = _unix_sockets(descendants(os.getpid()))
    assert sockets, "tasks are connected to Spark by sockets"
    assert attack("read", *checkpoints, *sockets) == []


def _unix_sockets(family: list[Process]) -> list[Path]:
    """The sockets of processes that have a name."""
    inodes = {inode for process in family for inode in _sockets(process.pid)}
    rows = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:]]
    paths = {Path(row[7]) for row in rows if len(row) > 7 and row[6] in inodes and row[7].startswith("/")}
    return sorted(path for path in paths if path.exists())


def test_no_settings_on_the_command_line(attacked: Attacked) -> None:
    java = [process for process in descendants(os.getpid()) if "PythonGatewayServer" in process.command]
    assert len(java) == 1
    assert "--conf" not in java[0].command
    assert "secret" not in java[0].command.lower()


@needs_root
def test_nothing_answers_in_another_network(attacked: Attacked) -> None:
    """From a network namespace that reaches this one over a link of its own."""
    name = f"fs{uuid.uuid4().hex[:8]}"
    here, there = "198.18.77.1", "198.18.77.2"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces cannot be made here")
    try:
        for command in (
            f"link add {name} type veth peer name peer netns {name}",
            f"addr add {here}/30 dev {name}",
            f"link set {name} up",
            f"-n {name} addr add {there}/30 dev peer",
            f"-n {name} link set peer up",
        ):
            if subprocess.run(["ip", *command.split()], capture_output=True, check=False).returncode:
                pytest.skip(f"network namespaces cannot be connected here: ip {command}")
        inside = ["ip", "netns", "exec", name]
        numbers = [port.number for port in attacked.ports()]
        with _probe(here) as probe:
            reached = subprocess.run(
                [*inside, *_command("reach", here, probe, *numbers)],
                capture_output=True,
                text=True,
                check=True,
            )
        assert json.loads(reached.stdout) == [str(probe)], "only what this test has opened itself"
    finally:
        subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", name], check=True)


@contextmanager
def _probe(address: str) -> Iterator[int]:
    import socket

    with socket.create_server((address, 0)) as listener:
        yield listener.getsockname()[1]


# Without the guards -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_without_guards_an_attempt_ends_and_the_job_goes_on(driver: Start, tmp_path: Path) -> None:
    """As on a cluster whose network is open: blocks are there for the asking, but without the job's secret in them; a
    packet that cannot be decoded ends the attempt and not the job."""
    output = tmp_path / "output"
    options = {
        **OPTIONS,
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "spark.driver.extraJavaOptions": "-Dio.netty.bootstrap.extensions=none",
        "spark.authenticate": "false",
        "spark.network.crypto.enabled": "false",
        "spark.broadcast.compress": "false",
        "spark.local.dir": str(tmp_path / "local"),
    }
    given = [word for key, value in options.items() for word in ("-D", f"{key}={value}")]
    run = driver(
        "-m",
        "firesteel.cli.main",
        "run",
        "-p",
        "2",
        *given,
        str(PROGRAMS / "recovering.py"),
        str(output),
        "500",
    )
    until(lambda: run.popen.poll() is not None or shown(output), "the first output")
    assert run.popen.poll() is None, run.stderr()
    secrets = list(tmp_path.glob("local/**/secret"))
    assert [secret.stat().st_mode & 0o777 for secret in secrets] == [0o600]
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "local").iterdir()} == {0o700}
    ports = ports_of(run.family())
    shuffle = [port.number for port in ports if port.address == "*"]
    assert shuffle, "the streaming shuffle listens everywhere"
    others = [port.number for port in ports if port.address != "*"]
    given_away = attack("blocks", secrets[0].read_bytes().hex(), *others)
    assert sum(count for count, _ in given_away.values()) > 0, (
        "without guards Spark gives its blocks to everybody"
    )
    assert sum(with_secret for _, with_secret in given_away.values()) == 0
    first = {process.attempt for process in announced(output)}
    attack("undecodable", *shuffle)
    until(lambda: {process.attempt for process in announced(output)} > first, "the next attempt")
    seen = len(shown(output))
    until(lambda: len(shown(output)) > seen, "output of the next attempt")
    tell_to_end(output)
    assert run.wait() == 0, run.stderr()
    recovery_job.check(output)
