"""Several machines on this one: network namespaces on a switch, with names of their own and links that can be spoiled.

Every machine has an address, a host name and a file of hosts, and sees the others over Ethernet. Nothing of it is in the
network of the machine that runs the tests, so nothing there can get in the way. Needs root, ``ip`` and ``tc``.

What a link does to packets is up to the queue at either of its ends, so the two directions are spoiled one by one. Whoever
sends is told nothing: packets get lost, connections stay.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from support import run_as_root

#: Where ``ip netns exec`` looks for files that stand for those in /etc.
_ETC = Path("/etc/netns")
_NETWORK = "10.213.0"
_CARD = "eth0"  # the end of a link inside its machine
#: No packet fits into a bucket of one byte, so each of them is dropped.
_NOTHING = ("tbf", "rate", "8bit", "burst", "1b", "limit", "1b")


@dataclass(frozen=True)
class Machine:
    """A host of its own, as far as networks are concerned."""

    name: str
    address: str
    namespace: str
    switch: str

    def command(self, *words: str) -> list[str]:
        """The command that runs these words there; the process keeps its number."""
        named = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', self.name)
        return ["ip", "netns", "exec", self.namespace, *named, *words]

    # Its link -----------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Nothing passes."""
        self.deafen()
        self.mute()

    def deafen(self) -> None:
        """Nothing reaches it any more; what it sends arrives."""
        _queue(self.switch, self.name, *_NOTHING)

    def mute(self) -> None:
        """Nothing that it sends arrives; what others send reaches it."""
        _queue(self.namespace, _CARD, *_NOTHING)

    def slow(self, rate: str) -> None:
        """So much passes, in each direction, as in ``1mbit``; what comes faster waits for up to a second."""
        limits = ("tbf", "rate", rate, "burst", "8kb", "latency", "1s")
        _queue(self.switch, self.name, *limits)
        _queue(self.namespace, _CARD, *limits)

    def mend(self) -> None:
        """The link is as it was."""
        for namespace, device in ((self.switch, self.name), (self.namespace, _CARD)):
            # Where there is none it is mended already.
            subprocess.run(
                ["tc", "-n", namespace, "qdisc", "del", "dev", device, "root"],
                check=False,
                capture_output=True,
            )

    # Its processes ------------------------------------------------------------------------------------

    def processes(self) -> list[int]:
        """Those that run there."""
        words = ["ip", "netns", "pids", self.namespace]
        return [int(pid) for pid in subprocess.run(words, capture_output=True, text=True).stdout.split()]

    def freeze(self) -> None:
        """Every process stops, also those that were started meanwhile: one that is stopped starts nothing."""
        stopped: set[int] = set()
        while new := set(self.processes()) - stopped:
            self._send(new, signal.SIGSTOP)
            stopped |= new

    def wake(self) -> None:
        self._send(self.processes(), signal.SIGCONT)

    def _send(self, pids: Iterable[int], number: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _queue(namespace: str, device: str, *words: str) -> None:
    run_as_root("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", *words)


@contextmanager
def machines(*names: str) -> Iterator[Mapping[str, Machine]]:
    """Machines by name, all on one switch; gone afterwards. Raises `NotPermittedError` where they cannot be made."""
    prefix = f"fs{os.getpid()}"
    switch = f"{prefix}-switch"
    made = {
        name: Machine(name, f"{_NETWORK}.{number}", f"{prefix}-{name}", switch)
        for number, name in enumerate(names, 1)
    }
    try:
        _make_switch(switch)
        for machine in made.values():
            _attach(machine)
        _introduce(list(made.values()))
        for machine in made.values():  # what cannot be done here is known before anything depends on it
            machine.cut()
            machine.mend()
        yield made
    finally:
        for machine in made.values():
            for pid in machine.processes():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            shutil.rmtree(_ETC / machine.namespace, ignore_errors=True)
        for namespace in (*(machine.namespace for machine in made.values()), switch):
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def _make_switch(switch: str) -> None:
    run_as_root("ip", "netns", "add", switch)
    run_as_root("ip", "-n", switch, "link", "add", "bridge", "type", "bridge")
    run_as_root("ip", "-n", switch, "link", "set", "bridge", "up")


def _attach(machine: Machine) -> None:
    here = ("ip", "-n", machine.namespace)
    there = ("ip", "-n", machine.switch, "link", "set", "dev", machine.name)
    run_as_root("ip", "netns", "add", machine.namespace)
    ends = (_CARD, "netns", machine.namespace, "type", "veth", "peer", "name", machine.name)
    run_as_root("ip", "link", "add", *ends, "netns", machine.switch)
    run_as_root(*there, "master", "bridge", "up")
    run_as_root(*here, "addr", "add", f"{machine.address}/24", "dev", _CARD)
    run_as_root(*here, "link", "set", _CARD, "up")
    run_as_root(*here, "link", "set", "lo", "up")
    # Nobody is there, but a machine without a default route has no address of its own to tell others.
    run_as_root(*here, "route", "add", "default", "via", f"{_NETWORK}.254")


def _introduce(everybody: Sequence[Machine]) -> None:
    """Tell all of them the names of all, and where their cards are: a mute machine is not to be forgotten by the others."""
    hosts = "127.0.0.1 localhost\n" + "".join(f"{each.address} {each.name}\n" for each in everybody)
    for number, machine in enumerate(everybody, 1):
        run_as_root("ip", "-n", machine.namespace, "link", "set", _CARD, "address", _card(number))
        directory = _ETC / machine.namespace
        directory.mkdir(parents=True)
        (directory / "hosts").write_text(hosts)
        (directory / "resolv.conf").write_text("")
    for machine in everybody:
        for number, other in enumerate(everybody, 1):
            if other is not machine:
                entry = ("neigh", "replace", other.address, "lladdr", _card(number), "dev", _CARD)
                run_as_root("ip", "-n", machine.namespace, *entry, "nud", "permanent")


def _card(number: int) -> str:
    return f"02:00:00:00:02:{number:02x}"
