"""Certificates for servers of tests: an authority, a server's and a client's, made anew for each directory."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

__all__ = ["Certificates"]

_LASTS = timedelta(days=2)


@dataclass(frozen=True)
class Certificates:
    """PEM files: ``authority`` has signed the others, and ``stranger`` nobody's; ``server`` and ``client`` have keys, too."""

    authority: Path
    server: Path
    client: Path
    stranger: Path

    @staticmethod
    def made_in(directory: Path) -> Certificates:
        """New ones."""
        made = Certificates(*(directory / f"{name}.pem" for name in ("ca", "server", "client", "stranger")))
        authority = _Authority("tests")
        made.authority.write_bytes(authority.pem)
        made.server.write_bytes(authority.signed("localhost"))
        made.client.write_bytes(authority.signed("client"))
        made.stranger.write_bytes(_Authority("stranger").pem)
        return made


class _Authority:
    """Signs certificates."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        builder = self._builder(self._name, self._key)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self._certificate = builder.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())

    @property
    def pem(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def signed(self, name: str) -> bytes:
        """A key that no password protects, and its certificate, for loopback."""
        key = ec.generate_private_key(ec.SECP256R1())
        places: list[x509.GeneralName] = [x509.DNSName("localhost")]
        places.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
        builder = self._builder(_name(name), key)
        builder = builder.add_extension(x509.SubjectAlternativeName(places), critical=False)
        form = serialization.PrivateFormat.PKCS8
        text = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        certificate = builder.sign(self._key, hashes.SHA256())
        return text + certificate.public_bytes(serialization.Encoding.PEM)

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _LASTS)
            .not_valid_after(now + _LASTS)
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
