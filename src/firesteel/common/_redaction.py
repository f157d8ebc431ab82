"""Which options are nobody's business: the value of a key that sounds like a secret is shown to nobody."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

__all__ = ["HIDDEN", "is_sensitive", "redacted"]

T = TypeVar("T")

#: What stands in the place of a secret.
HIDDEN = "******"

#: What a key has in it when its value is secret; Flink hides these, too.
_SENSITIVE = (
    "password",
    "secret",
    "access-key",
    "access.key",
    "apikey",
    "api-key",
    "token",
    "account.key",
    "credential",
)


def redacted(values: Mapping[str, T]) -> dict[str, T | str]:
    """Values for people, without those that are secret.

    >>> redacted({"s3.secret-key": "x", "parallelism.default": "2"})
    {'s3.secret-key': '******', 'parallelism.default': '2'}
    """
    return {key: HIDDEN if is_sensitive(key) else value for key, value in values.items()}


def is_sensitive(key: str) -> bool:
    """Whether the value of an option must not be shown."""
    return any(word in key.lower() for word in _SENSITIVE)
