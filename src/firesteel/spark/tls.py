"""What ``security.ssl.internal.enabled`` means: for Spark's own connections, and for those between tasks and job master.

Spark's RPC, its blocks and its streaming shuffle all read ``spark.ssl.rpc.*``: the shuffle, too, which knows no other protection.
They encrypt and check the server's certificate, but let in clients without one. `guard/ChannelGuard.java` has them ask for it: in
the embedded Spark, and in executors that find it beside their key store.
"""

from __future__ import annotations

import functools
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from firesteel.common import options
from firesteel.common._private_files import create_secret
from firesteel.common._tls import TlsFiles, server_context
from firesteel.common.config_options import ConfigOption
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError
from firesteel.control.certificates import Made, make_certificates
from firesteel.plan.tls_identity import TlsIdentity
from firesteel.spark.process_directory import process_directory

__all__ = ["ENABLED", "GUARD", "GUARD_OPTIONS", "control_identity", "guard_of_executors", "spark_settings"]

#: The name of the guard beside the key store of a cluster's machines.
GUARD = "guard.jar"
#: For JVMs that have the guard on their class path: Netty shows it their channels, and it asks clients for a certificate.
GUARD_OPTIONS = ["-Dio.netty.bootstrap.extensions=serviceload", "-Dfiresteel.client.certificates=true"]

#: Switches it on, in Spark.
ENABLED = "spark.ssl.rpc.enabled"
#: Of what is made for one process.
_DAYS = 3650


@dataclass(frozen=True, slots=True)
class _Stores:
    key_store: str
    key_store_password: str = field(repr=False)
    key_password: str = field(repr=False)
    trust_store: str
    trust_store_password: str = field(repr=False)


def spark_settings(configuration: Configuration, *, local: bool) -> dict[str, str]:
    """Spark's settings that encrypt all that it sends; none where nobody asks for it."""
    if not configuration.get(options.SSL_INTERNAL):
        return {}
    stores = _stores(configuration, local=local)
    return {
        ENABLED: "true",
        "spark.ssl.rpc.protocol": "TLSv1.3",
        "spark.ssl.rpc.keyStore": stores.key_store,
        "spark.ssl.rpc.keyStorePassword": stores.key_store_password,
        "spark.ssl.rpc.keyPassword": stores.key_password,
        "spark.ssl.rpc.trustStore": stores.trust_store,
        "spark.ssl.rpc.trustStorePassword": stores.trust_store_password,
    }


def guard_of_executors(configuration: Configuration) -> str:
    """Where executors find the guard: beside their key store."""
    store = configuration.get(options.SSL_INTERNAL_KEYSTORE)
    assert store is not None, "checked with the other stores"
    guard = os.path.join(os.path.dirname(os.path.abspath(store)), GUARD)
    if not os.path.isfile(guard):
        raise InvalidOptionError(
            f"option '{options.SSL_INTERNAL_KEYSTORE.key}': there is no {guard!r}, without which executors would send records to "
            "clients that have no certificate; 'firesteel certificates' writes it with the other files, and every machine needs "
            "them all at the same path"
        )
    return guard


def control_identity(configuration: Configuration) -> TlsIdentity | None:
    """What job master and tasks show each other; None where nobody asks for it."""
    if not configuration.get(options.SSL_INTERNAL):
        return None
    files = TlsFiles(
        configuration.get(options.SSL_INTERNAL_CERT_FILE),
        configuration.get(options.SSL_INTERNAL_KEY_FILE),
        configuration.get(options.SSL_INTERNAL_CA_FILE),
        option="security.ssl.internal",
    )
    if files.certificate is None and files.key is None and files.authority is None:
        made, _ = _made(os.getpid())
        return TlsIdentity(made.authority, made.certificate, made.key)
    server_context(files, verifies_clients=True)  # says what is wrong with them
    assert files.authority is not None
    assert files.certificate is not None
    assert files.key is not None
    return TlsIdentity(*(Path(path).read_bytes() for path in (files.authority, files.certificate, files.key)))


def _stores(configuration: Configuration, *, local: bool) -> _Stores:
    needed = (
        options.SSL_INTERNAL_KEYSTORE,
        options.SSL_INTERNAL_KEYSTORE_PASSWORD,
        options.SSL_INTERNAL_TRUSTSTORE,
        options.SSL_INTERNAL_TRUSTSTORE_PASSWORD,
    )
    if not any(configuration.contains(option) for option in needed):
        if local:
            return _made_stores(os.getpid())
        raise _missing(
            needed[0], "the machines of a cluster need a key store each, at the same path, that you put there"
        )
    for option in needed:
        if configuration.get(option) is None:
            raise _missing(option, "key store and trust store come together, each with its password")
    store, password, trusted, trusted_password = (str(configuration.get(option)) for option in needed)
    for option, path in ((needed[0], store), (needed[2], trusted)):
        if not os.path.isfile(path):
            raise InvalidOptionError(f"option '{option.key}': there is no file {path!r} on this machine")
    key_password = configuration.get(options.SSL_INTERNAL_KEY_PASSWORD) or password
    return _Stores(store, password, key_password, trusted, trusted_password)


def _missing(option: ConfigOption[str | None], reason: str) -> InvalidOptionError:
    return InvalidOptionError(
        f"option '{option.key}': it is not set, and '{options.SSL_INTERNAL.key}' is true; {reason} ('firesteel certificates' makes "
        "them, with the options that name them)"
    )


@functools.cache
def _made(process: int) -> tuple[Made, str]:
    """Certificates for this process and its tasks; by process, so that one that was forked makes its own."""
    password = secrets.token_urlsafe(24)
    return make_certificates([], _DAYS, password), password


@functools.cache
def _made_stores(process: int) -> _Stores:
    made, password = _made(process)
    directory = process_directory("tls")
    paths = [str(directory / name) for name in ("keystore.p12", "truststore.p12")]
    for path, content in zip(paths, (made.key_store, made.trust_store), strict=True):
        with create_secret(path) as file:
            file.write(content)
    return _Stores(paths[0], password, password, paths[1], password)
