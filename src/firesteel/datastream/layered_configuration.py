"""Options from three places, one above the other: the program's calls, the client, the configuration.

A call such as ``env.set_parallelism`` wins over ``firesteel run -p``, and that wins over the
configuration that the program was given. Keys are stored under their present name, so that an older
spelling in one place does not hide a newer one in another.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, TypeVar

from firesteel.common import options
from firesteel.common.config_options import ConfigOption
from firesteel.common.configuration import Configuration
from firesteel.common.errors import InvalidOptionError, short_repr

__all__ = ["CLIENT_VARIABLE", "LayeredConfiguration"]

#: Environment variable through which a client hands settings to a program, as a JSON object.
CLIENT_VARIABLE = "FIRESTEEL_CONFIG"

T = TypeVar("T")


class LayeredConfiguration:
    """The options of one environment.

    >>> layers = LayeredConfiguration(Configuration.from_dict({"parallelism.default": "2"}), client={})
    >>> layers.get(options.PARALLELISM_DEFAULT)
    2
    >>> layers.set(options.PARALLELISM_DEFAULT, 3)
    >>> layers.get(options.PARALLELISM_DEFAULT)
    3
    """

    def __init__(
        self, configuration: Configuration | None = None, client: Mapping[str, Any] | None = None
    ) -> None:
        self._given = Configuration()
        self._client = _checked(Configuration.from_dict(_client_settings() if client is None else client))
        self._calls = Configuration()
        if configuration is not None:
            self.configure(configuration)

    def configure(self, configuration: Configuration) -> None:
        """Add a configuration to the lowest layer; unknown keys and bad values are refused."""
        self._given.add_all(_checked(configuration))

    def get(self, option: ConfigOption[T]) -> T:
        """The value that counts."""
        for layer in (self._calls, self._client, self._given):
            if layer.contains(option):
                return layer.get(option)
        default: T = option.default
        return default

    def is_given(self, option: ConfigOption[Any]) -> bool:
        """Whether any layer has a value."""
        return any(layer.contains(option) for layer in (self._calls, self._client, self._given))

    def is_called(self, option: ConfigOption[Any]) -> bool:
        """Whether the program itself has set it by a call."""
        return self._calls.contains(option)

    def set(self, option: ConfigOption[T], value: T | str) -> None:
        """Set a value by a call of the program."""
        self._calls.set(option, value)

    def merged(self) -> Configuration:
        """All options as one configuration."""
        return Configuration(self._given).add_all(self._client).add_all(self._calls)


def _client_settings() -> dict[str, Any]:
    text = os.environ.get(CLIENT_VARIABLE)
    if not text:
        return {}
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise InvalidOptionError(f"{CLIENT_VARIABLE} must hold a JSON object, got {short_repr(text)}") from error
    if not isinstance(settings, dict):
        raise InvalidOptionError(f"{CLIENT_VARIABLE} must hold a JSON object, got {short_repr(text)}")
    return settings


def _checked(configuration: Configuration) -> Configuration:
    """A copy with present-day keys; refuses keys nobody reads and values nobody understands."""
    unknown = options.unknown_keys(configuration)
    if unknown:
        raise InvalidOptionError("; ".join(_sentence(key, similar) for key, similar in unknown.items()))
    values: dict[str, Any] = {}
    configuration.add_all_to_dict(values)
    checked: dict[str, Any] = {}
    for key, value in values.items():
        option = options.find_option(key)
        if option is None:
            checked[key] = value
        elif key == option.key or option.key not in values:
            option.parse(value)
            checked[option.key] = value
    return Configuration.from_dict(checked)


def _sentence(key: str, similar: str | None) -> str:
    hint = f"; did you mean {similar!r}?" if similar else "; firesteel.common.options lists all of them"
    return f"unknown option {key!r}{hint}"
