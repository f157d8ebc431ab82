"""Whom a command speaks to: the service that ``-m`` names, or the jobs of this machine."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from firesteel.checkpoint.storage import absolute
from firesteel.cli.program_command import definition
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import REST_ADDRESS, REST_PORT
from firesteel.datastream._given_options import checked, configured_options
from firesteel.rest.client import RestAccess, RestClient
from firesteel.rest.client_settings import read_access, service_url

__all__ = ["Target", "target_options"]

F = TypeVar("F", bound=Callable[..., Any])


class Target:
    """``url`` is that of the one service whose jobs are meant; None: those of this machine, wherever they listen."""

    def __init__(self, url: str | None = None, access: RestAccess | None = None) -> None:
        self.url = url
        self._access = access or RestAccess()

    def client(self, url: str, timeout_seconds: float | None = None) -> RestClient:
        """A client of a service, which is let in as the options say."""
        access = self._access
        if timeout_seconds is not None:
            access = RestAccess(access.token, access.tls, timeout_seconds)
        return RestClient(url, access)

    def directory(self, given: str | None) -> str | None:
        """What a directory means to the service: a relative one is the caller's, if both are on the same machine."""
        if not given:
            return None
        return absolute(given) if self.url is None or _is_this_machine(self.url) else given


def target_options(command: F) -> F:
    """Options that say whom to speak to; the command gets a `Target` for them."""

    @click.option(
        "-m",
        "--jobmanager",
        "address",
        metavar="HOST:PORT",
        help="The driver or service to speak to; without it all jobs of this machine.",
    )
    @click.option(
        "-D",
        "definitions",
        metavar="KEY=VALUE",
        multiple=True,
        help="Any option, repeatable: rest.address and rest.port instead of -m, and how to be let in.",
    )
    @functools.wraps(command)
    def with_target(*, address: str | None, definitions: tuple[str, ...], **values: Any) -> Any:
        return command(target=_target(address, definitions), **values)

    return with_target  # type: ignore[return-value]


def _target(address: str | None, definitions: Sequence[str]) -> Target:
    try:
        given = checked(Configuration.from_dict(dict(definition(text) for text in definitions)))
        configuration = configured_options().add_all(given)
        if address is None and (given.contains(REST_ADDRESS) or given.contains(REST_PORT)):
            address = f"{given.get(REST_ADDRESS) or 'localhost'}:{given.get(REST_PORT)}"
        url = None if address is None else service_url(address, configuration)
        return Target(url, read_access(configuration))
    except InvalidOptionError as error:
        raise click.UsageError(str(error)) from error


def _is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
