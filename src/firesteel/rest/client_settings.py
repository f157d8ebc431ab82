"""How clients reach a REST interface: addresses as people write them, and what options say of TLS and tokens."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.common.options import REST_PORT, REST_TOKEN_FILE
from firesteel.rest.client import RestAccess

__all__ = ["TOKEN_VARIABLE", "read_access", "service_url"]

#: The token that a client proves itself with; it wins over the file of the option.
TOKEN_VARIABLE = "FIRESTEEL_REST_TOKEN"

_ENABLED = "security.ssl.rest.enabled"
_CA_FILE = "security.ssl.rest.ca-file"
_CERT_FILE = "security.ssl.rest.cert-file"
_KEY_FILE = "security.ssl.rest.key-file"
_KEY_PASSWORD = "security.ssl.rest.key-password"


def service_url(address: str, configuration: Configuration | None = None) -> str:
    """The URL that an address means, as in ``-m host:8081``; ``https`` where the configuration has TLS for REST.

    >>> service_url("localhost"), service_url("host:80"), service_url("[::1]:9000"), service_url("https://a/flink/")
    ('http://localhost:8081', 'http://host:80', 'http://[::1]:9000', 'https://a:443/flink')
    """
    configuration = configuration or Configuration()
    scheme = "https" if configuration.get_boolean(_ENABLED, False) else "http"
    parts = urlsplit(address if "://" in address else f"{scheme}://{address}")
    try:
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _not_an_address(address, str(error)) from None
    if parts.scheme not in ("http", "https"):
        raise _not_an_address(address, f"{parts.scheme}:// is no address of a REST interface")
    if not host or parts.username is not None or parts.query or parts.fragment:
        raise _not_an_address(address, "")
    if port is None:
        usual = {"http": 80, "https": 443}[parts.scheme]
        port = usual if "://" in address else REST_PORT.default
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}:{port}{parts.path.rstrip('/')}"


def _not_an_address(address: str, why: str) -> InvalidOptionError:
    detail = f" ({why})" if why else ""
    return InvalidOptionError(
        f"expected the address of a REST interface, such as localhost:8081 or https://host, got {address!r}{detail}"
    )


def read_access(configuration: Configuration, environment: Mapping[str, str] | None = None) -> RestAccess:
    """What the options and the environment say about how to be let in."""
    variables = os.environ if environment is None else environment
    token = variables.get(TOKEN_VARIABLE, "").strip() or _token_in(configuration.get(REST_TOKEN_FILE))
    return RestAccess(token, _tls(configuration))


def _token_in(path: str | None) -> str:
    if not path:
        return ""
    try:
        mode = os.stat(path).st_mode
        with open(path, encoding="ascii") as file:
            token = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidOptionError(f"option '{REST_TOKEN_FILE.key}': {path} cannot be read: {error}") from error
    if mode & 0o077:
        raise InvalidOptionError(
            f"option '{REST_TOKEN_FILE.key}': others than its owner can read {path}; chmod 600 keeps the token to yourself"
        )
    if not token or any(each.isspace() for each in token):
        raise InvalidOptionError(f"option '{REST_TOKEN_FILE.key}': expected one token in {path}")
    return token


def _tls(configuration: Configuration) -> ssl.SSLContext | None:
    ca_file = configuration.get_string(_CA_FILE, "")
    cert_file = configuration.get_string(_CERT_FILE, "")
    key_file = configuration.get_string(_KEY_FILE, "")
    if not (ca_file or cert_file):
        return None  # the authorities that this machine trusts
    try:
        context = ssl.create_default_context(cafile=ca_file or None)
        if cert_file:
            # An empty password instead of none: nobody shall be asked for one at the terminal.
            context.load_cert_chain(cert_file, key_file or None, configuration.get_string(_KEY_PASSWORD, ""))
    except (OSError, ssl.SSLError) as error:
        raise InvalidOptionError(
            f"options '{_CA_FILE}', '{_CERT_FILE}', '{_KEY_FILE}': the files cannot be used: {error}"
        ) from error
    return context
