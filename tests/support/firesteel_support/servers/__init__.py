"""Real servers for integration tests: started by the tests on loopback, each in a directory of its own, and ended with them.

One module per server builds on what is here. `program` finds the server's executable, and installs
its Debian package where it may; a server that cannot be had skips its tests, and the end of the test run says so in a
section of its own (`MISSING`), so that nobody takes skipped for passed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

__all__ = [
    "MISSING",
    "RUNNING",
    "Server",
    "cache",
    "free_port",
    "missing",
    "one_at_a_time",
    "program",
    "running",
]

#: Servers that could not be had, and why; printed at the end of the test run.
MISSING: dict[str, str] = {}

#: The processes of all servers, for tests that look at what else this one has started.
RUNNING: set[int] = set()

#: Where Debian's packages put servers that are not on everybody's PATH.
_PLACES = ("/usr/sbin", "/usr/local/sbin", "/sbin")

#: For what will never happen: machines may be slow.
_PATIENCE = 300.0


def missing(server: str, reason: str) -> None:
    """Skip the test, because there is no such server here; the end of the run tells."""
    MISSING[server] = reason
    pytest.skip(f"{server} cannot be had here: {reason}")


def program(server: str, executable: str, package: str) -> str:
    """The path of a server's program; its Debian package is installed if that is allowed, else the test is skipped."""
    found = _find(executable)
    if found is None:
        with one_at_a_time("packages"):
            found = _find(executable)  # another process may have installed it meanwhile
            if found is None:
                _install(server, package)
                found = _find(executable)
    if found is None:
        missing(server, f"the package {package} has no program {executable}")
    assert found is not None
    return found


def cache() -> Path:
    """The directory of what is fetched once for all runs of the tests."""
    place = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "firesteel-tests"
    place.mkdir(parents=True, exist_ok=True)
    return place


@contextlib.contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Among all processes of this user: apt-get fails beside another one, and Maven shares a directory of the user's."""
    with (cache() / f"{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """The process of a server. It can be killed and started again, with the same command and directory."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        directory: Path,
        ready: Callable[[], bool],
        env: Mapping[str, str] | None,
        user: str | None = None,
    ) -> None:
        self.name = name
        self.directory = directory
        self._command = list(command)
        self._ready = ready
        self._env = {**os.environ, **(env or {})}
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What the process has printed."""
        return self.directory / f"{self.name}.log"

    def start(self) -> None:
        """Start the process, and return when it is ready."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self.directory,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
            )
        RUNNING.add(self._process.pid)
        deadline = time.monotonic() + _PATIENCE
        while not self._is_ready():
            ended = self._process.poll()
            if ended is not None or time.monotonic() > deadline:
                self.kill()
                text = self.log.read_text(errors="replace")[-4000:]
                raise RuntimeError(f"{self.name} did not start (exit status {ended}):\n{text}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End the process, giving it time to do so by itself."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Let the process stand still, as a machine does that is out of reach."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a process that stood still resume."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _is_ready(self) -> bool:
        try:
            return self._ready()
        except Exception:  # noqa: BLE001 - clients fail in all kinds of ways while a server starts
            return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        children = _children(self._process.pid)
        self._process.send_signal(how)
        if how is not signal.SIGKILL:
            self._process.send_signal(signal.SIGCONT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        RUNNING.discard(self._process.pid)
        self._process = None
        # PostgreSQL's notice a moment later that the first process is gone, and until then no other one may start.
        deadline = time.monotonic() + _PATIENCE
        while children & _processes().keys() and time.monotonic() < deadline:
            time.sleep(0.01)


@contextlib.contextmanager
def running(
    name: str,
    command: Sequence[str],
    directory: Path,
    ready: Callable[[], bool],
    env: Mapping[str, str] | None = None,
    user: str | None = None,
) -> Iterator[Server]:
    """A server that runs while the context lasts; ``ready`` says whether it answers, and may raise while it does not.

    ``user`` is whom it runs as, for servers that refuse to run as root.
    """
    server = Server(name, command, directory, ready, env, user)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _children(pid: int) -> set[int]:
    return {child for child, parent in _processes().items() if parent == pid}


def _processes() -> dict[int, int]:
    """The parent of every process that runs; those that have ended and wait for their parent to look do not."""
    listed = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return {int(pid): int(parent) for pid, parent, state in rows if not state.startswith("Z")}


def _find(executable: str) -> str | None:
    return shutil.which(executable, path=os.pathsep.join([os.environ.get("PATH", ""), *_PLACES]))


def _install(server: str, package: str) -> None:
    """Install a Debian package, without starting what it would start as a service."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        missing(
            server,
            f"install the package {package}: only root of a Debian or Ubuntu machine has it installed by the tests",
        )
    with _policy_against_services():
        for command in (["update"], ["install", "--yes", "--no-install-recommends", package]):
            done = subprocess.run(
                ["apt-get", "--quiet", *command],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                missing(server, f"apt-get {command[0]} failed: {(done.stderr or done.stdout).strip()[-300:]}")


@contextlib.contextmanager
def _policy_against_services() -> Iterator[None]:
    """While packages are installed, their services do not start (Debian's policy-rc.d)."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)
