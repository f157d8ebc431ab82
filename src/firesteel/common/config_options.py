"""ConfigOption, the description of one configuration parameter, and its builder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from firesteel.common import _option_types as option_types
from firesteel.common._option_types import OptionType
from firesteel.common._redaction import is_sensitive
from firesteel.common.errors import InvalidOptionError, short_repr
from firesteel.common.time import Duration

__all__ = ["ConfigOption", "ConfigOptions"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConfigOption(Generic[T]):
    """A configuration parameter: its key, the kind of its value, its default, what it is for.

    >>> option = ConfigOptions.key("app.rate").int_type().default_value(100)
    >>> option.key, option.default, option.parse("20")
    ('app.rate', 100, 20)
    """

    key: str
    type: OptionType[Any]
    default: Any = None
    description: str = ""
    #: Other spellings that are read when the key itself is absent.
    fallback_keys: tuple[str, ...] = ()

    def with_description(self, description: str) -> ConfigOption[T]:
        """Return the option with one line that says what it is for."""
        return replace(self, description=description)

    def with_fallback_keys(self, *keys: str) -> ConfigOption[T]:
        """Return the option with older spellings of its key."""
        return replace(self, fallback_keys=keys)

    def parse(self, value: object) -> T:
        """Read a value, given as text or already typed; a value that does not fit names the option."""
        try:
            parsed: T = self.type.parse(value)
        except ValueError as error:
            if is_sensitive(self.key):
                raise InvalidOptionError(
                    f"option '{self.key}': its value, which is not shown because it may be secret, does not fit (type: "
                    f"{self.type.name})"
                ) from None
            raise InvalidOptionError(
                f"option '{self.key}': cannot understand {short_repr(value)}: {error} (type: {self.type.name})"
            ) from error
        return parsed


class ConfigOptions:
    """Where building an option starts: ``ConfigOptions.key("a.b").string_type().no_default_value()``."""

    @staticmethod
    def key(key: str) -> ConfigOptions.OptionBuilder:
        """Start building the option with that key."""
        return ConfigOptions.OptionBuilder(key)

    class OptionBuilder:
        """Knows the key; asks for the kind of value."""

        def __init__(self, key: str) -> None:
            self._key = key

        def boolean_type(self) -> ConfigOptions.TypedConfigOptionBuilder[bool]:
            """The value is true or false."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, option_types.BOOLEAN)

        def int_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """The value is a whole number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, option_types.INTEGER)

        def long_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """The value is a whole number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, option_types.INTEGER)

        def float_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """The value is a number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, option_types.FLOAT)

        def double_type(self) -> ConfigOptions.TypedConfigOptionBuilder[float]:
            """The value is a number."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, option_types.FLOAT)

        def string_type(self) -> ConfigOptions.TypedConfigOptionBuilder[str]:
            """The value is a text."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, option_types.STRING)

        def duration_type(self) -> ConfigOptions.TypedConfigOptionBuilder[Duration]:
            """The value is a length of time (Java Flink has it, PyFlink does not)."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, option_types.DURATION)

        def memory_type(self) -> ConfigOptions.TypedConfigOptionBuilder[int]:
            """The value is a number of bytes (Java Flink has it, PyFlink does not)."""
            return ConfigOptions.TypedConfigOptionBuilder(self._key, option_types.MEMORY)

    class TypedConfigOptionBuilder(Generic[T]):
        """Knows the key and the kind of value; asks for the default."""

        def __init__(self, key: str, kind: OptionType[T]) -> None:
            self._key = key
            self._kind = kind

        def default_value(self, value: T) -> ConfigOption[T]:
            """Finish with the value that holds when none is given."""
            return ConfigOption(self._key, self._kind, value)

        def no_default_value(self) -> ConfigOption[T | None]:
            """Finish without a default: the option reads as None when it is not given."""
            return ConfigOption(self._key, self._kind, None)
