"""How connectors deserialize: many messages at a time, with those that do not fit apart from the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from firesteel.common._values import private_all
from firesteel.common.errors import DeserializationError, FiresteelError, ProgramError
from firesteel.common.serialization import DeserializationSchema

__all__ = ["Decoded", "decode", "end_of_stream"]

#: What a connector knows of the message with a number in the batch: topic, partition, offset.
Where = Callable[[int], Mapping[str, Any]]


class Decoded(NamedTuple):
    """The records of a batch of messages.

    ``origins`` runs parallel to ``values``: the number of the message that a record comes from. None: every message
    gave one record. ``bad`` are the messages that do not fit, ``ignored`` the number of errors that the schema passed over.
    """

    values: list[Any]
    origins: list[int] | None = None
    bad: list[DeserializationError] = []
    ignored: int = 0


def decode(schema: DeserializationSchema, messages: list[bytes], where: Where | None = None) -> Decoded:
    """Deserialize messages; a reader puts ``values``, ``bad`` and ``ignored`` into what a poll gives.

    Messages are asked about ``where`` they come from only when they do not fit.
    """
    bad: list[DeserializationError] = []
    try:
        records = _records(schema, messages)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - schemas are written by users
        schema.take_ignored()  # what the first try had counted comes again
        records, bad = _one_by_one(schema, messages, where)
    if len(records) != len(messages):
        raise ProgramError(
            f"deserialize_batch() of {type(schema).__name__} gives {len(records)} records for {len(messages)} messages; it must "
            "give one for each, None for those that it drops"
        )
    ignored = schema.take_ignored()
    if not bad and not schema.gives_many and _all_there(records):
        return Decoded(records, None, bad, ignored)
    return _without_gaps(records, schema.gives_many, bad, ignored)


def end_of_stream(schema: DeserializationSchema) -> Callable[[Any], bool] | None:
    """The schema's word on whether the stream ends with a record; None if it never does."""
    if type(schema).is_end_of_stream is DeserializationSchema.is_end_of_stream:
        return None
    return schema.is_end_of_stream


def _records(schema: DeserializationSchema, messages: list[bytes]) -> list[Any]:
    """What a schema gives, as values: the way of the base makes them values as they come."""
    records = schema.deserialize_batch(messages)
    if schema.gives_away or type(schema).deserialize_batch is DeserializationSchema.deserialize_batch:
        return records
    if schema.gives_many:
        return [None if several is None else private_all(several) for several in records]
    return private_all(records)


def _all_there(records: list[Any]) -> bool:
    return all(
        record is not None for record in records
    )  # not "in": records may have an equality of their own


def _one_by_one(
    schema: DeserializationSchema, messages: list[bytes], where: Where | None
) -> tuple[list[Any], list[DeserializationError]]:
    """One bad message must not take the others of its batch with it, however many are bad."""
    records: list[Any] = []
    bad: list[DeserializationError] = []
    for index, message in enumerate(messages):
        try:
            records += _records(schema, [message])
        except DeserializationError as error:
            bad.append(_at(error, index, where))
            records.append(None)
        except (FiresteelError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001
            reason = f"{type(schema).__name__} raised {type(error).__name__}: {error}"
            bad.append(_at(DeserializationError(message, reason), index, where))
            records.append(None)
    return records, bad


def _at(error: DeserializationError, index: int, where: Where | None) -> DeserializationError:
    error.at(index)
    return error if where is None else error.found(**where(index))


def _without_gaps(
    records: list[Any], gives_many: bool, bad: list[DeserializationError], ignored: int
) -> Decoded:
    values: list[Any] = []
    origins: list[int] = []
    for index, record in enumerate(records):
        if record is None:
            continue
        if gives_many:
            values += record
            origins += [index] * len(record)
        else:
            values.append(record)
            origins.append(index)
    return Decoded(values, origins, bad, ignored)
