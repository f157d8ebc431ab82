"""Where the REST interface of a driver listens, read from its options."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from firesteel.common import options
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.plan.executor import LOOPBACK

__all__ = ["RestSettings", "read_rest_settings"]

#: How many ports after the default one are tried: drivers on one machine get one after the other.
_NEXT_PORTS = 100


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Listen at the first of the ``ports`` that is free. ``names``: what clients may call this machine.

    ``is_asked_for``: somebody has said where, so it is there whatever runs the job.
    """

    ports: tuple[int, ...] = (0,)
    bind_address: str = LOOPBACK
    address: str = "localhost"
    names: frozenset[str] = frozenset({"localhost"})
    is_asked_for: bool = True


def read_rest_settings(configuration: Configuration) -> RestSettings | None:
    """The settings; None when there is to be no REST interface. Addresses that others can reach are refused."""
    port = configuration.get(options.REST_PORT)
    if not -1 <= port <= 65535:
        raise InvalidOptionError(
            f"option '{options.REST_PORT.key}': expected a port from 0 (any free one) to 65535, or -1 for no REST "
            f"interface, got {port}"
        )
    if port == -1:
        return None
    bind_address = configuration.get(options.REST_BIND_ADDRESS) or LOOPBACK
    is_remote = not _is_loopback(bind_address)
    if is_remote and not configuration.get(options.REST_ALLOW_REMOTE):
        raise InvalidOptionError(
            f"option '{options.REST_BIND_ADDRESS.key}': {bind_address!r} can be reached from other machines, and whoever "
            "reaches the REST interface can read and end jobs, because it has neither TLS nor tokens yet; leave the option "
            f"out to listen on this machine only, or set '{options.REST_ALLOW_REMOTE.key}' to true if the network is yours"
        )
    address = configuration.get(options.REST_ADDRESS) or ("localhost" if not is_remote else bind_address)
    names = {"localhost", address.lower(), bind_address.lower()}
    if is_remote:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    return RestSettings(
        _ports(configuration, port), bind_address, address, frozenset(names), _is_asked_for(configuration)
    )


def _ports(configuration: Configuration, port: int) -> tuple[int, ...]:
    given = configuration.get(options.REST_BIND_PORT)
    if given is not None:
        return given
    if configuration.contains(options.REST_PORT):
        return (port,)
    return tuple(range(port, port + _NEXT_PORTS))


def _is_asked_for(configuration: Configuration) -> bool:
    return configuration.contains(options.REST_PORT) or configuration.contains(options.REST_BIND_PORT)


def _is_loopback(address: str) -> bool:
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False  # a name may mean something else tomorrow
