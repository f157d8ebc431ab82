"""What is nobody's business: values of keys that sound like a secret, or that were marked as one, are shown to nobody.

A key is marked by naming it in ``firesteel.redaction.keys``, or by `Configuration.set_secret`, which has an option of its own: one that
is given on the command line replaces that of a program, and must not take its marks away. Secrets also stand inside other values: in an address (``https://user:password@host``), in a list of pairs, in options for Java. Those are hidden where they stand.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

__all__ = [
    "HIDDEN",
    "MARKED_BY_PROGRAM",
    "MARKED_KEY",
    "is_sensitive",
    "marked_keys",
    "public_options",
    "redacted",
    "redacted_text",
    "secret_options",
    "sensitive_words",
]

T = TypeVar("T")

#: What stands in the place of a secret.
HIDDEN = "******"
#: The option that names further keys, or parts of keys, between semicolons.
MARKED_KEY = "firesteel.redaction.keys"
#: The same, for what a program marks.
MARKED_BY_PROGRAM = "firesteel.redaction.keys-of-program"

#: What a key has in it when its value is secret; Flink hides most of these, too.
_SENSITIVE = (
    "password",
    "passwd",
    "passphrase",
    "secret",
    "access-key",
    "access.key",
    "accesskey",
    "apikey",
    "api-key",
    "api.key",
    "api_key",
    "token",
    "account.key",
    "credential",
    "auth-params",
    "service-key",
    "basic-auth",
    "basic.auth",
    "jaas.config",
    "http-headers",
    "private-key",
    "private.key",
    "authorization",
)
#: Keys that only sound like a secret: they name a file, or a way, and people need to see which.
_HARMLESS = ("-file", ".file", "-dir", ".provider", ".enabled", "-enabled", "-type")

_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")
_PAIR = re.compile(
    r"(?i)([\w.\-]*(?:" + "|".join(map(re.escape, _SENSITIVE)) + r")[\w.\-]*['\"]?\s*[:=]\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s,;&'\"]+)"
)


def sensitive_words(marked: Iterable[str] = ()) -> tuple[str, ...]:
    """What makes a key secret: with the words that are ``marked``."""
    return (*_SENSITIVE, *(word.lower() for word in marked))


def redacted(values: Mapping[str, T], marked: Iterable[str] | None = None) -> dict[str, T | str]:
    """Values for people, without those that are secret; ``marked``: keys that are, unless the values say it themselves.

    >>> redacted({"s3.secret-key": "x", "parallelism.default": "2", "url": "http://a:b@host/", "to": "x:1,password:y"})
    {'s3.secret-key': '******', 'parallelism.default': '2', 'url': 'http://******@host/', 'to': 'x:1,password:******'}
    """
    also = tuple(marked_keys(values) if marked is None else marked)
    return {
        key: HIDDEN if is_sensitive(key, also) else redacted_text(value) if isinstance(value, str) else value
        for key, value in values.items()
    }


def marked_keys(values: Mapping[str, object]) -> list[str]:
    """The keys that a configuration marks as secret."""
    return [word for option in (MARKED_KEY, MARKED_BY_PROGRAM) for word in _words(values.get(option, ""))]


def _words(given: object) -> list[str]:
    words = given if isinstance(given, list | tuple) else str(given).strip("[]").replace(",", ";").split(";")
    return [word.strip(" '\"") for word in map(str, words) if word.strip(" '\"")]


def is_sensitive(key: str, marked: Iterable[str] = ()) -> bool:
    """Whether the value of an option must not be shown.

    >>> is_sensitive("sasl.jaas.config"), is_sensitive("firesteel.rest.tokens-file"), is_sensitive("my.pin", ["my.pin"])
    (True, False, True)
    """
    lower = key.lower()
    if any(word.lower() in lower for word in marked):
        return True
    return any(word in lower for word in _SENSITIVE) and not lower.endswith(_HARMLESS)


def redacted_text(text: str) -> str:
    """A text without the secrets that stand in it with their names, or in addresses.

    >>> redacted_text('-Dkey.password=x -Da=b; username="u" password="a b"')
    '-Dkey.password=****** -Da=b; username="u" password=******'
    """
    return _PAIR.sub(lambda pair: pair[1] + HIDDEN, _IN_ADDRESS.sub(HIDDEN, text))


def secret_options(given: Mapping[str, str]) -> dict[str, str]:
    """Those options that nobody else may see."""
    marked = marked_keys(given)
    return {key: value for key, value in given.items() if is_sensitive(key, marked)}


def public_options(given: Mapping[str, str]) -> dict[str, str]:
    """All other options.

    >>> public_options({"s3.secret-key": "x", "s3.endpoint": "http://localhost"})
    {'s3.endpoint': 'http://localhost'}
    """
    marked = marked_keys(given)
    return {key: value for key, value in given.items() if not is_sensitive(key, marked)}
