"""Keys as key_by() gives them to the tasks, and the one rule for them that holds in every operator and router.

1. A key is converted to the declared type of the keys, when there is one.
2. What has a hash that is the same in every process is a key as it is. Lists, dicts, sets and what contains them are
   keys by their value: a `ValueKey` stands for them.
3. Everything else is refused: NaN, which is not equal to itself, and objects that are equal to themselves only.

Equal keys are one key, whatever their types: 1, 1.0 and True. So the rule may be applied to the first of them only,
and what was found out about it holds for the others.
"""

from __future__ import annotations

import datetime
import inspect
import struct
import types
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

from firesteel.common._values import MISSING, is_immutable, private
from firesteel.common.errors import TypeMismatchError
from firesteel.common.typeinfo import BasicType, BasicTypeInfo, TupleTypeInfo, TypeInformation
from firesteel.contracts.functions import KeySelector
from firesteel.plan.key_groups import stable_hash
from firesteel.plan.value_key import ValueKey

__all__ = ["AsksOthers", "KeyForm", "KeyOf", "KeyRule", "fast_reader", "keys_of", "subscript"]

#: Gives the key of a record, as state knows it.
KeyOf = Callable[[Any], Any]

#: How many keys are remembered to which the rule was applied.
_REMEMBERED = 100_000

#: Exact types of which every value is a key as it is.
_PLAIN: frozenset[type] = frozenset(
    {str, int, bytes, bool, type(None), datetime.date, datetime.datetime, datetime.time, datetime.timedelta, uuid.UUID}
)  # fmt: skip

_PLAIN_BASICS: dict[BasicType, type] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: bool,
    BasicType.BYTE: int,
    BasicType.SHORT: int,
    BasicType.INT: int,
    BasicType.LONG: int,
    BasicType.CHAR: str,
    BasicType.BIG_INT: int,
}
_BITS: dict[BasicType, int] = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
_CODES: dict[int, str] = {8: "b", 16: "h", 32: "i", 64: "q"}
_WHOLE: dict[BasicType, type] = {BasicType.STRING: str, BasicType.BOOLEAN: bool, BasicType.BIG_INT: int}


class AsksOthers:
    """A selector that is made of others: ``asks`` are those, and nothing else of it looks at records."""

    asks: tuple[Callable[[Any], Any], ...]


@dataclass(frozen=True, slots=True)
class KeyRule:
    """A selector, and what is known about the keys that it gives; what key_by() ships to its tasks.

    ``fits`` says that keys have the type already, because they are fields of records that were converted to theirs.
    """

    selector: KeySelector | Callable[[Any], Any]
    type: TypeInformation | None = None
    fits: bool = False

    @staticmethod
    def of(loaded: Any) -> KeyRule:
        """The rule that was shipped; a selector alone is a rule without a type."""
        return loaded if isinstance(loaded, KeyRule) else KeyRule(loaded)


class KeyForm:
    """Turns what a selector returned into the key that state knows, or refuses it.

    >>> from firesteel.common.typeinfo import Types
    >>> KeyForm(Types.DOUBLE())(1), KeyForm(None)(1), KeyForm(None)([1])
    (1.0, 1, [1])
    """

    def __init__(self, type_info: TypeInformation | None) -> None:
        self._convert = None if type_info is None else type_info._nullable_converter()
        #: Keys that are known to be keys as they are. Without a type, 1 stays 1 and 1.0 stays 1.0: equal, so that
        #: what holds for one holds for the other, but not the same to look at.
        self.as_they_are: set[Any] = set()
        self._converted: dict[Any, Any] = {}

    def __call__(self, key: Any) -> Any:
        """The key that state knows; one without a hash is converted each time."""
        if self._convert is None and type(key) in _PLAIN:
            return key
        try:
            if key in self.as_they_are:
                return key
            converted = self._converted.get(key, MISSING)
        except TypeError:  # it has no hash
            return self._form(key)
        return self._remember(key, self._form(key)) if converted is MISSING else converted

    def _form(self, key: Any) -> Any:
        if self._convert is not None:
            try:
                (key,) = self._convert([key])
            except TypeMismatchError as error:
                raise error.at("key", None) from None
            if type(key) in _PLAIN:
                return key
        try:
            hash(key)
        except TypeError:
            stable_hash(ValueKey(key))  # refuses what has none
            return ValueKey(private(key))
        stable_hash(key)
        return private(key)

    def _remember(self, key: Any, formed: Any) -> Any:
        if is_immutable(key):
            known = self.as_they_are if self._convert is None else self._converted
            if len(known) >= _REMEMBERED:
                known.clear()
            if self._convert is None:
                self.as_they_are.add(key)
            else:
                self._converted[key] = formed
        return formed


def fast_reader(read: Callable[[Any], Any], rule: KeyRule) -> KeyOf:
    """A function from record to key that costs ordinary keys a look at their type, or nothing at all.

    ``read`` is the selector's function.
    """
    if rule.fits and _is_plain(rule.type):
        return read
    form = KeyForm(rule.type)
    if rule.type is None:
        return _with_batches(_reader_of_kinds(read, form, _PLAIN), read, form, _are_plain)
    if isinstance(rule.type, BasicTypeInfo):
        basic = rule.type.basic_type
        if basic in _BITS:
            bits = _BITS[basic]
            key_of = _reader_of_integers(read, form, bits - 1)
            return _with_batches(key_of, read, form, partial(_are_integers, _CODES[bits]))
        if basic in _WHOLE:
            kind = _WHOLE[basic]
            return _with_batches(_reader_of_kind(read, form, kind), read, form, partial(_are_of_kind, kind))
    return lambda value: form(read(value))


def keys_of(key_of: KeyOf, records: list[Any]) -> Iterable[Any]:
    """The keys of a batch, for a function from `fast_reader`: ordinary keys are looked at together, in C.

    When one of them cannot be read, they come one by one: then the error comes with its record.
    """
    of_batch = getattr(key_of, "of_batch", None)
    if of_batch is None:
        return map(key_of, records)
    try:
        keys: list[Any] | None = of_batch(records)
    except Exception:  # noqa: BLE001 - it is raised again by the record that is to blame
        return map(key_of, records)
    return map(key_of, records) if keys is None else keys


def _with_batches(
    key_of: Callable[[Any], Any],
    read: Callable[[Any], Any],
    form: KeyForm,
    fit: Callable[[list[Any]], bool],
) -> Callable[[Any], Any]:
    """The reader, with a way to read whole batches; ``fit`` tells whether all keys are keys as they are."""
    index = subscript(read)
    select = read if index is None else itemgetter(index)

    def of_batch(records: Iterable[Any]) -> list[Any]:
        keys = list(map(select, records))
        return keys if not keys or fit(keys) else list(map(form, keys))

    key_of.of_batch = of_batch  # type: ignore[attr-defined]
    return key_of


# A list of types is counted in half the time that it takes to make a set of them.


def _are_plain(keys: list[Any]) -> bool:
    kinds = [*map(type, keys)]
    if kinds.count(kinds[0]) == len(kinds):
        return kinds[0] in _PLAIN
    return _PLAIN.issuperset(kinds)


def _are_of_kind(kind: type, keys: list[Any]) -> bool:
    return [*map(type, keys)].count(kind) == len(keys)


def _are_integers(code: str, keys: list[Any]) -> bool:
    if not _are_of_kind(int, keys):
        return False
    try:
        struct.pack(f"{len(keys)}{code}", *keys)  # the cheapest look at the range there is
    except struct.error:
        return False
    return True


def _is_plain(type_info: TypeInformation | None) -> bool:
    """Whether every value of the type is a key as it is."""
    if isinstance(type_info, TupleTypeInfo):
        return all(map(_is_plain, type_info.get_field_types()))
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type in _PLAIN_BASICS


# One function for each check, because every step counts: they run for every record. Each check is there twice: a
# selector such as ``lambda record: record[0]`` is not called but read off and inlined, which saves a call.


def _reader_of_kinds(
    read: Callable[[Any], Any], form: KeyForm, kinds: frozenset[type]
) -> Callable[[Any], Any]:
    as_they_are = form.as_they_are
    index = subscript(read)

    def key_of(value: Any) -> Any:
        key = read(value)
        if type(key) in kinds:
            return key
        try:
            known = key in as_they_are
        except TypeError:  # it has no hash
            known = False
        return key if known else form(key)

    def key_of_subscript(value: Any) -> Any:
        try:
            key = value[index]
        except Exception:  # noqa: BLE001 - the user's function raises it again, from the line that is to blame
            key = read(value)
        return key if type(key) in kinds else form(key)

    return key_of if index is None else key_of_subscript


def _reader_of_kind(
    read: Callable[[Any], Any], form: Callable[[Any], Any], kind: type
) -> Callable[[Any], Any]:
    index = subscript(read)

    def key_of(value: Any) -> Any:
        key = read(value)
        return key if type(key) is kind else form(key)

    def key_of_subscript(value: Any) -> Any:
        try:
            key = value[index]
        except Exception:  # noqa: BLE001 - as above
            key = read(value)
        return key if type(key) is kind else form(key)

    return key_of if index is None else key_of_subscript


def _reader_of_integers(
    read: Callable[[Any], Any], form: Callable[[Any], Any], bits: int
) -> Callable[[Any], Any]:
    index = subscript(read)

    def key_of(value: Any) -> Any:
        key = read(value)
        # Shifting needs half the time of comparing with both ends of the range.
        return key if type(key) is int and key >> bits in _IN_RANGE else form(key)

    def key_of_subscript(value: Any) -> Any:
        try:
            key = value[index]
        except Exception:  # noqa: BLE001 - as above
            key = read(value)
        return key if type(key) is int and key >> bits in _IN_RANGE else form(key)

    return key_of if index is None else key_of_subscript


_IN_RANGE = (0, -1)


def subscript(function: Any) -> int | str | None:
    """The ``i`` of a function that is just ``lambda record: record[i]``; None for any other.

    >>> subscript(lambda record: record["name"]), subscript(lambda record: record[0] + 1)
    ('name', None)
    """
    if not isinstance(function, types.FunctionType) or function.__defaults__ or function.__kwdefaults__:
        return None
    code = function.__code__
    takes_one = code.co_argcount == 1 and not code.co_kwonlyargcount
    takes_more = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if code.co_code != _SUBSCRIPT.co_code or not takes_one or takes_more:
        return None
    index = code.co_consts[-1]
    return index if len(code.co_consts) == 2 and type(index) in (int, str) else None


_SUBSCRIPT = (lambda record: record[0]).__code__
