"""Encrypted connections: contexts made from files in PEM, which is what Python reads; key stores are Java's.

Every context wants TLS 1.2 or newer. What is wrong with a file is said before anything listens, with the option that named it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from firesteel.common._private_files import who_else_reads
from firesteel.common.errors import InvalidOptionError

if TYPE_CHECKING:
    import ssl  # late, where it is needed: most jobs never do, and it takes a while to load

__all__ = ["TlsFiles", "client_context", "server_context"]

_MAKE_SOME = "'firesteel certificates DIRECTORY' makes some"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A certificate with its key, and the authority that has signed those of peers; ``option`` begins their options' names.

    The certificate is followed in its file by those between it and the authority, if there are any.
    """

    certificate: str | None
    key: str | None
    authority: str | None = None
    key_password: str | None = field(default=None, repr=False)
    option: str = "security.ssl.rest"

    def wrong(self, kind: str, problem: str) -> InvalidOptionError:
        """The error about one of the files: ``kind`` ends the name of its option."""
        return InvalidOptionError(f"option '{self.option}.{kind}': {problem}")


def server_context(files: TlsFiles, *, verifies_clients: bool = False) -> ssl.SSLContext:
    """For the side that is connected to; with ``verifies_clients`` nobody gets in whose certificate was not signed by the CA."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_own(context, files)
    if verifies_clients:
        if files.authority is None:
            raise files.wrong(
                "ca-file",
                "it is not set, and clients cannot be told from others without the authority that signs their certificates; "
                + _MAKE_SOME,
            )
        _load_authority(context, files)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(files: TlsFiles, *, verifies_hostname: bool = True) -> ssl.SSLContext:
    """For the side that connects; without a certificate of its own it is nobody in particular."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = verifies_hostname
    if files.authority is None:
        context.load_default_certs()
    else:
        _load_authority(context, files)
    if files.certificate is not None:
        _load_own(context, files)
    return context


def _load_own(context: ssl.SSLContext, files: TlsFiles) -> None:
    for kind, path in (("cert-file", files.certificate), ("key-file", files.key)):
        if path is None:
            raise files.wrong(kind, f"it is not set, and TLS needs a certificate with its key; {_MAKE_SOME}")
        if not os.path.isfile(path):
            raise files.wrong(kind, f"there is no file {path!r}; {_MAKE_SOME}")
    assert files.certificate is not None
    assert files.key is not None
    if (readers := who_else_reads(files.key)) is not None:
        raise files.wrong("key-file", f"{readers}; a key is for its owner only: chmod 600 {files.key}")
    try:
        # With an empty password and not with none: OpenSSL would ask the terminal for one.
        context.load_cert_chain(files.certificate, files.key, files.key_password or "")
    except (OSError, ValueError) as error:  # errors of ssl are OSErrors
        raise files.wrong(
            "cert-file",
            f"{files.certificate!r} and the key {files.key!r} cannot be used: {error}; expected a certificate and its key, both "
            f"in PEM, and '{files.option}.key-password' if the key is encrypted",
        ) from error


def _load_authority(context: ssl.SSLContext, files: TlsFiles) -> None:
    assert files.authority is not None
    try:
        context.load_verify_locations(files.authority)
    except OSError as error:
        raise files.wrong(
            "ca-file", f"{files.authority!r} cannot be used: {error}; expected certificates in PEM"
        ) from error
