"""Settings of writers by the keys that Hadoop's formats have for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError

S = TypeVar("S")


class Property(NamedTuple):
    """A key's setting, and how its value is read."""

    setting: str
    read: Callable[[Configuration, str], Any]


def as_int(configuration: Configuration, key: str) -> int:
    """A whole number, for `Property.read`."""
    return configuration.get_integer(key, 0)


def as_bool(configuration: Configuration, key: str) -> bool:
    """True or false, for `Property.read`."""
    return configuration.get_boolean(key, False)


def as_name(configuration: Configuration, key: str) -> str:
    """A name, in small letters; ``none`` is another one for ``uncompressed``."""
    name = configuration.get_string(key, "").lower()
    return "uncompressed" if name == "none" else name


def settings_from(
    kind: Callable[..., S],
    properties: Mapping[str, Property],
    configuration: Configuration | None,
    given: Mapping[str, Any],
) -> S:
    """Settings from a configuration and from arguments, which win unless they are None."""
    configuration = configuration or Configuration()
    unknown = sorted(set(configuration.key_set()) - set(properties))
    if unknown:
        raise InvalidOptionError(
            f"unknown property {unknown[0]!r} of a file format; known are {', '.join(sorted(properties))}"
        )
    settings = {
        entry.setting: entry.read(configuration, key)
        for key, entry in properties.items()
        if configuration.contains_key(key)
    }
    return kind(**settings | {name: value for name, value in given.items() if value is not None})
