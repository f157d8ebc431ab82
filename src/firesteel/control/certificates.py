"""Certificates for those who have none: an authority of one's own, and one certificate that it has signed for all machines.

They serve both sides of a connection. The package ``cryptography`` makes them (``pip install "firesteel[tls]"``); nothing else here
needs it.
"""

from __future__ import annotations

import datetime
import importlib.util
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from firesteel.common._private_files import create_secret, make_private_directories
from firesteel.common.errors import SetupError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

__all__ = ["FILES", "Made", "make_certificates", "write_certificates"]

#: What `write_certificates` writes, and what each of them is.
FILES = {
    "ca.pem": "the authority: what peers check certificates against",
    "ca-key.pem": "its key: keep it elsewhere, whoever has it makes certificates that are trusted",
    "cert.pem": "the certificate of servers and clients",
    "key.pem": "its key",
    "keystore.p12": "certificate and key as Java, and so Spark, reads them",
    "truststore.p12": "the authority as Java reads it",
}
_AUTHORITY = "Firesteel authority"
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Made:
    """An authority and a certificate that it has signed, as the contents of files in the order of `FILES`."""

    authority: bytes
    authority_key: bytes = field(repr=False)
    certificate: bytes
    key: bytes = field(repr=False)
    key_store: bytes = field(repr=False)
    trust_store: bytes


def make_certificates(hosts: Sequence[str], days: int, store_password: str) -> Made:
    """New ones, for servers that are called so; with the stores that Java reads, under this password."""
    _check_installed()
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    authority_key, key = _new_key(), _new_key()
    authority = _signed(_AUTHORITY, authority_key, authority_key, days, None)
    names = [_alternative(host) for host in dict.fromkeys(["localhost", "127.0.0.1", "::1", *hosts])]
    certificate = _signed("Firesteel", key, authority_key, days, names)
    encryption = serialization.BestAvailableEncryption(store_password.encode())
    pem = serialization.Encoding.PEM

    def text(one: EllipticCurvePrivateKey) -> bytes:
        return one.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())

    return Made(
        authority.public_bytes(pem),
        text(authority_key),
        certificate.public_bytes(pem),
        text(key),
        pkcs12.serialize_key_and_certificates(b"firesteel", key, certificate, [authority], encryption),
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(authority, b"authority")], encryption),
    )


def write_certificates(directory: Path, hosts: Sequence[str], days: int, store_password: str) -> None:
    """New ones as files that only their owner can read; raises SetupError rather than replace one."""
    there = [name for name in FILES if (directory / name).exists()]
    if there:
        raise SetupError(
            f"{directory} has {', '.join(there)} already, which may be in use; name another directory"
        )
    made = make_certificates(hosts, days, store_password)
    make_private_directories(str(directory))
    contents = (
        made.authority,
        made.authority_key,
        made.certificate,
        made.key,
        made.key_store,
        made.trust_store,
    )
    for name, content in zip(FILES, contents, strict=True):
        with create_secret(os.path.join(directory, name)) as file:
            file.write(content)


def _check_installed() -> None:
    if importlib.util.find_spec("cryptography") is None:
        raise SetupError(
            "making certificates needs the package 'cryptography': pip install \"firesteel[tls]\"; certificates that you have "
            "are used without it"
        )


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _alternative(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(
    name: str,
    key: EllipticCurvePrivateKey,
    signing_key: EllipticCurvePrivateKey,
    days: int,
    hosts: list[x509.GeneralName] | None,
) -> x509.Certificate:
    """A certificate; without ``hosts`` that of an authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    def called(common_name: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])

    now = datetime.datetime.now(datetime.UTC)
    is_authority = hosts is None
    builder = (
        x509.CertificateBuilder()
        .subject_name(called(name))
        .issuer_name(called(_AUTHORITY))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)  # clocks differ
        .not_valid_after(now + days * _DAY)
        .add_extension(x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False
        )
        .add_extension(_usage(is_authority), critical=True)
    )
    if hosts is not None:
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
    return builder.sign(signing_key, hashes.SHA256())


def _usage(is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
