"""A second host on this machine: a network namespace, and a link to it that can be cut; needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from support import NotPermittedError, run_as_root

from firesteel.control.protocol import outward_address


@dataclass(frozen=True)
class Link:
    """``near`` is the address of this side, ``far`` that of the namespace."""

    namespace: str
    device: str
    near: str
    far: str

    @property
    def prefix(self) -> tuple[str, ...]:
        """Before a command: run it at the other end."""
        return ("ip", "netns", "exec", self.namespace)

    def cut(self) -> None:
        """Nothing passes, and nobody is told: packets get lost, connections stay."""
        run_as_root("ip", "link", "set", self.device, "down")

    def mend(self) -> None:
        run_as_root("ip", "link", "set", self.device, "up")


@contextmanager
def link() -> Iterator[Link]:
    """A namespace and the link to it; gone afterwards. Raises `NotPermittedError` where they cannot be made."""
    if outward_address().startswith("127."):
        raise NotPermittedError(
            "this machine has no address but the loopback one, which no namespace can reach"
        )
    number = os.getpid() % 250 + 1
    made = Link(f"firesteel-{number}", f"fs{number}", f"10.213.{number}.1", f"10.213.{number}.2")
    inner = f"{made.device}-in"
    try:
        run_as_root("ip", "netns", "add", made.namespace)
        run_as_root("ip", "link", "add", made.device, "type", "veth", "peer", "name", inner)
        run_as_root("ip", "link", "set", inner, "netns", made.namespace)
        run_as_root("ip", "addr", "add", f"{made.near}/30", "dev", made.device)
        run_as_root("ip", "link", "set", made.device, "up")
        run_as_root(*made.prefix, "ip", "addr", "add", f"{made.far}/30", "dev", inner)
        run_as_root(*made.prefix, "ip", "link", "set", inner, "up")
        run_as_root(*made.prefix, "ip", "link", "set", "lo", "up")
        run_as_root(*made.prefix, "ip", "route", "add", "default", "via", made.near)
        yield made
    finally:
        for command in (("link", "del", made.device), ("netns", "del", made.namespace)):
            subprocess.run(["ip", *command], check=False, capture_output=True)
