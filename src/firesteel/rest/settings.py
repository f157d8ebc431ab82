"""Where the REST interface of a driver listens, whom it lets in and with what it is encrypted, read from its options."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

from firesteel.common import options
from firesteel.common._tls import TlsFiles, server_context
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.plan.executor import LOOPBACK
from firesteel.rest.access import read_tokens

__all__ = ["RestSettings", "read_rest_settings"]

#: How many ports after the default one are tried: drivers on one machine get one after the other.
_NEXT_PORTS = 100


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Listen at the first of the ``ports`` that is free. ``names``: what clients may call this machine.

    ``is_asked_for``: somebody has said where, so it is there whatever runs the job. ``tls``: with which files it is encrypted,
    None when it is not; ``verifies_clients``: only clients with a certificate get in. ``tokens_file``: the tokens that are let
    in, None when none is asked for.
    """

    ports: tuple[int, ...] = (0,)
    bind_address: str = LOOPBACK
    address: str = "localhost"
    names: frozenset[str] = frozenset({"localhost"})
    is_asked_for: bool = True
    tls: TlsFiles | None = None
    verifies_clients: bool = False
    tokens_file: str | None = None
    most_body_bytes: int = options.REST_MOST_BODY_BYTES.default

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return _is_loopback(self.bind_address)

    @property
    def knows_clients(self) -> bool:
        """Whether clients have to prove who they are, so that where they come from does not matter."""
        return self.verifies_clients or self.tokens_file is not None


def read_rest_settings(configuration: Configuration) -> RestSettings | None:
    """The settings; None when there is to be no REST interface. Addresses that others can reach are refused.

    Files of certificates and tokens are looked at: a job that cannot be protected as it says does not start.
    """
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
    address = configuration.get(options.REST_ADDRESS) or ("localhost" if not is_remote else bind_address)
    names = {"localhost", address.lower(), bind_address.lower()}
    if is_remote:
        names |= {socket.gethostname().lower(), socket.getfqdn().lower()}
    tls = _tls(configuration)
    settings = RestSettings(
        _ports(configuration, port),
        bind_address,
        address,
        frozenset(names),
        _is_asked_for(configuration),
        tls,
        tls is not None and configuration.get(options.SSL_REST_AUTHENTICATION),
        configuration.get(options.REST_TOKENS_FILE),
        _most_body_bytes(configuration),
    )
    if is_remote and not settings.knows_clients and not configuration.get(options.REST_ALLOW_REMOTE):
        raise _open_to_everybody(bind_address)
    _check_files(settings)
    return settings


def _tls(configuration: Configuration) -> TlsFiles | None:
    if not configuration.get(options.SSL_REST):
        if configuration.get(options.SSL_REST_AUTHENTICATION):
            raise InvalidOptionError(
                f"option '{options.SSL_REST_AUTHENTICATION.key}': certificates of clients are a part of TLS, which "
                f"'{options.SSL_REST.key}' has to switch on"
            )
        return None
    return TlsFiles(
        configuration.get(options.SSL_REST_CERT_FILE),
        configuration.get(options.SSL_REST_KEY_FILE),
        configuration.get(options.SSL_REST_CA_FILE),
        configuration.get(options.SSL_REST_KEY_PASSWORD),
    )


def _check_files(settings: RestSettings) -> None:
    if settings.tls is not None:
        server_context(settings.tls, verifies_clients=settings.verifies_clients)
    if settings.tokens_file is not None:
        read_tokens(settings.tokens_file)


def _open_to_everybody(bind_address: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"option '{options.REST_BIND_ADDRESS.key}': {bind_address!r} can be reached from other machines, and whoever reaches the "
        f"REST interface can read and end jobs; have it ask for tokens ('{options.REST_TOKENS_FILE.key}') or for certificates "
        f"('{options.SSL_REST_AUTHENTICATION.key}'), leave the option out to listen on this machine only, or set "
        f"'{options.REST_ALLOW_REMOTE.key}' to true if the network is yours"
    )


def _most_body_bytes(configuration: Configuration) -> int:
    most = configuration.get(options.REST_MOST_BODY_BYTES)
    if most <= 0:
        raise InvalidOptionError(
            f"option '{options.REST_MOST_BODY_BYTES.key}': expected a number of bytes above 0, got {most}"
        )
    return most


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
