"""Configuration, the map from option keys to values."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

from firesteel.common import _option_types as option_types
from firesteel.common._java_numbers import format_float64
from firesteel.common._override import override
from firesteel.common._redaction import MARKED_BY_PROGRAM, redacted
from firesteel.common.config_options import ConfigOption
from firesteel.common.errors import InvalidOptionError, short_repr

__all__ = ["Configuration"]

T = TypeVar("T")


class Configuration:
    """Option keys and their values, each kept with the type it was set with.

    >>> configuration = Configuration().set_string("pipeline.name", "demo").set_integer("parallelism.default", 2)
    >>> configuration.get_integer("parallelism.default", 1)
    2
    >>> configuration.to_dict()
    {'pipeline.name': 'demo', 'parallelism.default': '2'}
    >>> str(configuration)
    '{pipeline.name=demo, parallelism.default=2}'
    """

    __slots__ = ("_values",)

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, Any] = {} if other is None else dict(other._values)

    @classmethod
    def from_dict(cls, map: Mapping[str, Any]) -> Configuration:
        """Return a configuration with the pairs of a dict."""
        configuration = cls()
        configuration._values.update(map)
        return configuration

    # By option: the typed face, as in Java Flink.

    def get(self, option: ConfigOption[T]) -> T:
        """Return the value of an option, typed, or its default; fallback keys are read too."""
        for key in (option.key, *option.fallback_keys):
            if key in self._values:
                return option.parse(self._values[key])
        default: T = option.default
        return default

    def set(self, option: ConfigOption[T], value: T | str) -> Configuration:
        """Set the value of an option, typed or as text; a value that does not fit is refused at once."""
        self._values[option.key] = option.parse(value)
        return self

    def contains(self, option: ConfigOption[Any]) -> bool:
        """Tell whether an option was given, under its key or a fallback key."""
        return any(key in self._values for key in (option.key, *option.fallback_keys))

    # By key: PyFlink's face.

    def get_string(self, key: str, default_value: str) -> str:
        """Return the value as text, or the default."""
        return _to_text(self._values[key]) if key in self._values else default_value

    def set_string(self, key: str, value: str) -> Configuration:
        """Set an option to a text, in place of what it had; its type is checked where it is read."""
        self._values[key] = value
        return self

    def set_secret(self, key: str, value: str) -> Configuration:
        """Set a text that is shown to nobody: no page, plan or log has it. Keys that sound like a secret need no such mark.

        >>> print(Configuration().set_secret("bank.pin", "1234"))
        {bank.pin=******, firesteel.redaction.keys-of-program=bank.pin}
        """
        self._values[key] = value
        before = [word for word in str(self._values.get(MARKED_BY_PROGRAM, "")).split(";") if word]
        self._values[MARKED_BY_PROGRAM] = ";".join(dict.fromkeys([*before, key]))
        return self

    @staticmethod
    def parse_list_value(value: str) -> list[Any]:
        """Read a list written as ``[a, b]``, as lines ``- a``, or as ``a;b``."""
        return option_types.parse_list(value)

    def get_integer(self, key: str, default_value: int) -> int:
        """Return the value as a whole number, or the default."""
        return self._read(key, default_value, option_types.INTEGER)

    def set_integer(self, key: str, value: int) -> Configuration:
        """Set an option to a whole number, in place of what it had."""
        self._values[key] = value
        return self

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """Return the value as true or false, or the default."""
        return self._read(key, default_value, option_types.BOOLEAN)

    def set_boolean(self, key: str, value: bool) -> Configuration:
        """Set an option to true or false, in place of what it had."""
        self._values[key] = value
        return self

    def get_float(self, key: str, default_value: float) -> float:
        """Return the value as a number, or the default."""
        return self._read(key, default_value, option_types.FLOAT)

    def set_float(self, key: str, value: float) -> Configuration:
        """Set an option to a number, in place of what it had."""
        self._values[key] = value
        return self

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """Return the value set with `set_bytearray`, or the default."""
        if key not in self._values:
            return default_value
        value = self._values[key]
        if not isinstance(value, bytes | bytearray):
            raise InvalidOptionError(f"option '{key}': expected bytes, got {short_repr(value)}")
        return bytearray(value)

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        """Set an option to a copy of bytes, which `get_bytearray` alone gives back."""
        self._values[key] = bytes(value)
        return self

    # As a whole.

    def key_set(self) -> AbstractSet[str]:
        """Return the keys that have a value; defaults are not among them."""
        return set(self._values)

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Copy all pairs into a dict; values keep their Python types."""
        target_dict.update(self._values)

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Copy all pairs of another configuration, with `prefix` put before each key."""
        self._values.update({f"{prefix or ''}{key}": value for key, value in other._values.items()})
        return self

    def contains_key(self, key: str) -> bool:
        """Tell whether there is a value for the key."""
        return key in self._values

    def to_dict(self) -> dict[str, str]:
        """Return all pairs as text."""
        return {key: _to_text(value) for key, value in self._values.items()}

    def remove_config(self, key: str) -> bool:
        """Remove a key; tells whether it was there."""
        if key not in self._values:
            return False
        del self._values[key]
        return True

    def _read(self, key: str, default: T, kind: option_types.OptionType[T]) -> T:
        if key not in self._values:
            return default
        option: ConfigOption[T] = ConfigOption(key, kind)
        return option.parse(self._values[key])

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self._typed() == other._typed()

    @override
    def __hash__(self) -> int:
        return hash(frozenset((key, str(value)) for key, value in self._values.items()))

    def _typed(self) -> dict[str, tuple[type, Any]]:
        """Values with their types: True, 1 and 1.0 are equal in Python, but not as options."""
        return {key: (type(value), value) for key, value in self._values.items()}

    @override
    def __str__(self) -> str:
        return (
            "{" + ", ".join(f"{key}={_to_text(value)}" for key, value in redacted(self._values).items()) + "}"
        )

    @override
    def __repr__(self) -> str:
        return f"Configuration({redacted(self._values)!r})"


def _to_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float64(value)
    if isinstance(value, bytes | bytearray):
        return f"!!binary |-\n  {base64.b64encode(value).decode()}"
    if isinstance(value, list | tuple):
        return _list_text([_to_text(item) for item in value])
    if isinstance(value, dict):
        return ",".join(f"{_quoted(str(key))}:{_quoted(_to_text(item))}" for key, item in value.items())
    return str(value)


def _list_text(items: list[str]) -> str:
    """Write a list so that `parse_list` reads the same one."""
    if any(";" in item for item in items):
        return f"[{', '.join(map(_quoted, items))}]"
    return ";".join(items)


def _quoted(text: str) -> str:
    """Put quotes around a text that would otherwise end early or be read as something else."""
    if text and text == text.strip() and not set(text) & set("'\",:;[]{}"):
        return text
    return "'" + text.replace("'", "''") + "'"
