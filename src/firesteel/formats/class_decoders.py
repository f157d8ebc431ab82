"""Decoders of msgspec for classes of the user.

msgspec keeps what it has learnt of a class as an attribute of the class. That cannot be pickled, and classes of a program's main
module travel by value: so it is taken away as soon as the decoder has it.
"""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import msgspec

from firesteel.formats.avro_types import field_names

__all__ = ["json_decoder", "plain_converter", "text_converter"]

_CACHE = "__msgspec_cache__"


def json_decoder(kind: Any, strict: bool) -> msgspec.json.Decoder[Any]:
    """Makes objects of JSON; unless it is ``strict``, texts may stand for numbers."""
    try:
        return msgspec.json.Decoder(kind, strict=strict, dec_hook=_from_plain)
    finally:
        _forget(kind, set())


def text_converter(kind: Any) -> Any:
    """Makes objects of dicts and lists of texts."""
    decode, encode = json_decoder(kind, strict=False).decode, msgspec.json.Encoder().encode
    return lambda texts: decode(encode(texts))


def plain_converter(kind: Any) -> Any:
    """Makes objects of dicts and lists of plain values, by a detour that is faster than a way through Python."""
    try:
        decode = msgspec.msgpack.Decoder(kind, dec_hook=_from_plain).decode
    finally:
        _forget(kind, set())
    encode = msgspec.msgpack.Encoder().encode
    return lambda plain: decode(encode(plain))


def _from_plain(kind: type, value: Any) -> Any:
    if kind.__module__ == "numpy":
        return kind(value)
    raise NotImplementedError(f"{kind.__name__} objects have no form there")


def _forget(hint: Any, seen: set[int]) -> None:
    for part in get_args(hint):
        _forget(part, seen)
    if not isinstance(hint, type) or id(hint) in seen or not field_names(hint):
        return
    seen.add(id(hint))
    if _CACHE in vars(hint):
        delattr(hint, _CACHE)
    for part in get_type_hints(hint).values():
        _forget(part, seen)
