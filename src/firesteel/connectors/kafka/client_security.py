"""Security properties of Kafka's clients: Java's way to say a login or where keys are, for the client library that runs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from firesteel.common.errors import InvalidArgumentError

__all__ = ["is_secret", "security_properties"]

_JAAS = re.compile(r"""(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)')""", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_PASSWORD_MODULES = ("PlainLoginModule", "ScramLoginModule")
_VERIFICATION = "ssl.endpoint.identification.algorithm"
_SECRET_PARTS = ("password", "secret", "jaas", "key.pem", "keystore.key", "assertion.private.key")


def is_secret(key: str) -> bool:
    """Whether the value of a property is nobody's business."""
    return any(part in key for part in _SECRET_PARTS)


def security_properties(key: str, value: str, given: Mapping[str, str]) -> dict[str, str] | None:
    """What one of Java's security properties means to the client; None if this is not one of them.

    ``given`` are all properties, because some are about others.
    """
    if key == "sasl.jaas.config":
        return _login(value)
    if key == _VERIFICATION:
        return {key: value or "none"}
    if key.startswith(("ssl.truststore.", "ssl.keystore.")):
        return _store(key, value, given)
    return None


def _login(config: str) -> dict[str, str]:
    """User and password of Java's way to say them."""
    login = {
        match[1]: _ESCAPED.sub(r"\1", match[2] if match[2] is not None else match[3])
        for match in _JAAS.finditer(config)
    }
    if not any(module in config for module in _PASSWORD_MODULES) or login.keys() != {"username", "password"}:
        raise InvalidArgumentError(
            "the property sasl.jaas.config is Java's, and is understood here for PLAIN and SCRAM, with username and password "
            "in quotes; set sasl.username and sasl.password, or librdkafka's properties of your mechanism, instead"
        )
    return {"sasl.username": login["username"], "sasl.password": login["password"]}


def _store(key: str, value: str, given: Mapping[str, str]) -> dict[str, str]:
    """Java's stores of keys and certificates; those in formats of others can be read here, too."""
    kind, name = key.split(".", 3)[1:3]
    store_type = given.get(f"ssl.{kind}.type", "JKS").upper()
    if name == "type":
        return {}
    if kind == "truststore" and store_type == "PEM" and name in ("location", "certificates"):
        return {"ssl.ca.location" if name == "location" else "ssl.ca.pem": value}
    if kind == "keystore" and store_type == "PKCS12" and name in ("location", "password"):
        return {key: value}
    remedy = (
        "ssl.ca.location (a PEM file)"
        if kind == "truststore"
        else "ssl.certificate.location and ssl.key.location (PEM files), or a keystore with ssl.keystore.type PKCS12"
    )
    raise InvalidArgumentError(
        f"the property {key} is about a {store_type} store of Java, which cannot be read here; set {remedy}"
    )
