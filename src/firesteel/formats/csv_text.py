"""One line of CSV: cut into its fields, and put together again by the rules of the library that Flink uses."""

from __future__ import annotations

import csv
from dataclasses import dataclass

from firesteel.common.errors import InvalidArgumentError

__all__ = ["CsvDialect"]

#: Longer texts are quoted without a look at them.
_LOOKED_AT = 24


@dataclass(frozen=True)
class CsvDialect:
    """The characters that mean something.

    >>> dialect = CsvDialect()
    >>> dialect.split('1,"x,y",2.5'), dialect.quoted("x,y")
    (['1', 'x,y', '2.5'], '"x,y"')
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None

    def __post_init__(self) -> None:
        for what, character in (
            ("delimiter", self.delimiter),
            ("quote", self.quote),
            ("escape", self.escape),
        ):
            if character is not None and len(character) != 1:
                raise InvalidArgumentError(
                    f"the {what} character of CSV must be one character, got {character!r}"
                )

    def split(self, line: str) -> list[str]:
        """The fields of a line; ValueError says what is wrong with it."""
        text = line.removesuffix("\n").removesuffix("\r")
        is_plain = (self.quote is None or self.quote not in text) and (
            self.escape is None or self.escape not in text
        )
        if is_plain:
            if "\n" in text or "\r" in text:
                raise ValueError("the message has more than one line")
            return text.split(self.delimiter)
        try:
            return self._parsed(text)
        except csv.Error as error:
            raise ValueError(_reason(str(error))) from None

    def _parsed(self, text: str) -> list[str]:
        reader = csv.reader(
            [text],
            delimiter=self.delimiter,
            quotechar=self.quote,
            escapechar=self.escape,
            quoting=csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE,
            strict=True,
        )
        return next(reader)

    def quoted(self, text: str) -> str:
        """A text as it stands in a line, in quotes where they are needed, or Jackson would write them."""
        quote = self.quote
        if quote is None or not self._needs_quotes(text):
            return text
        if self.escape is not None and self.escape != quote:
            text = text.replace(self.escape, self.escape * 2)
        return f"{quote}{text.replace(quote, quote * 2)}{quote}"

    def _needs_quotes(self, text: str) -> bool:
        if len(text) > _LOOKED_AT:
            return True
        least_safe = max(self.delimiter, self.quote or "", "\r")
        return any(character <= least_safe or character in ("\\", self.escape) for character in text)


def _reason(text: str) -> str:
    if "unexpected end" in text:
        return "a quote is not closed"
    if "new-line" in text:
        return "the message has more than one line"
    return text
