"""What ``key_by`` is given - functions, positions, field names, nested paths, several of them - as one selector."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from firesteel.common._override import override
from firesteel.common.errors import InvalidKeyError, TypeMismatchError, WrongArgumentError, describe_function
from firesteel.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from firesteel.contracts.functions import KeySelector
from firesteel.contracts.runtime_context import RuntimeContext
from firesteel.datastream._annotations import Annotation
from firesteel.datastream._fields import getter, resolve
from firesteel.datastream._user_functions import check_callable, refuse_checkpointed, wrong_argument
from firesteel.plan.keys import AsksOthers, KeyRule
from firesteel.plan.shipped import Shipped

__all__ = ["Key", "KeyLike", "key_of"]

#: One component of a key, as programs write it.
KeyLike = KeySelector | Callable[[Any], Any] | int | str

_EXPECTED = "a KeySelector, a function of one value, a field position or a field name"


class Key(NamedTuple):
    """A `KeyRule`, fit to travel, and the type of its keys when it is known."""

    selector: Shipped
    type: TypeInformation | None
    annotation: Annotation | None = None


class _Component(NamedTuple):
    selector: KeySelector | Callable[[Any], Any]
    type: TypeInformation | None
    position: int | None
    is_field: bool


def key_of(
    components: Sequence[KeyLike],
    record_type: TypeInformation | None,
    key_type: TypeInformation | None,
    used_by: str = "key_by()",
    annotation: Annotation | None = None,
) -> Key:
    """The selector for all ``components`` together; several of them make a tuple.

    ``annotation`` is what is known of records without a declared type.
    """
    if not components:
        raise wrong_argument(used_by, _EXPECTED, None)
    if key_type is not None and not isinstance(key_type, TypeInformation):
        raise wrong_argument(used_by, "a TypeInformation as its key type", key_type)
    chosen = [_component(component, record_type, used_by, annotation) for component in components]
    field_type = _type_of(chosen)
    known_type = field_type if key_type is None else key_type
    if not _may_fit(field_type, key_type):
        expected = f"a key type for values of {field_type}, the declared type of the key field,"
        raise WrongArgumentError(
            f"{used_by} needs {expected} got {key_type}; leave it out, or convert the field first"
        )
    if used_by != "partition_custom()":  # its keys say where records go, and are not those of any state
        _refuse_arrays(known_type, used_by)
    rule = KeyRule(_selector_of(chosen), known_type, fits=known_type is not None and known_type == field_type)
    shipped = Shipped.of(rule, used_by).described(describe_function(rule.selector))
    if all(component.is_field for component in chosen):
        shipped = shipped.described(f"key field {', '.join(map(repr, components))}")
    return Key(
        shipped, known_type, Annotation.of_results(components[0], "get_key") if len(components) == 1 else None
    )


def _component(
    component: KeyLike, record_type: TypeInformation | None, used_by: str, annotation: Annotation | None
) -> _Component:
    if isinstance(component, bool):
        raise wrong_argument(used_by, _EXPECTED, component)
    if isinstance(component, (int, str)):
        name = f"{used_by.removesuffix('()')}({component!r})"
        if record_type is None and annotation is not None:
            annotation.check_field(component, name)
        steps, field_type = resolve(component, record_type, name)
        position = steps[0] if len(steps) == 1 and isinstance(steps[0], int) else None
        return _Component(getter(steps), field_type, position, True)
    if not callable(component) and not isinstance(component, KeySelector):
        raise wrong_argument(used_by, _EXPECTED, component)
    check_callable(component, used_by, KeySelector)
    _refuse_identity(component, used_by)
    refuse_checkpointed(component, used_by, "a key must be the same whenever and wherever it is asked for")
    return _Component(component, None, None, False)


def _refuse_identity(selector: KeySelector | Callable[[Any], Any], used_by: str) -> None:
    """Refuse a selector whose annotation promises objects that are equal to nothing but themselves."""
    annotation = Annotation.of_results(selector, "get_key")
    kind = None if annotation is None else annotation.kind
    if annotation is None or not isinstance(kind, type) or not _has_identity_only(kind):
        return
    raise InvalidKeyError(
        f"{used_by}: {kind.__name__}, which {annotation.function} returns according to its annotation, cannot be a key: "
        "its objects are equal to nothing but themselves, so that records never meet; write @dataclass(frozen=True) "
        f"above class {kind.__name__}, or return what identifies it, such as a tuple or text"
    )


def _has_identity_only(kind: Any) -> bool:
    """Whether all objects that a selector can mean by this class are equal to themselves only."""
    by_identity = kind.__eq__ is object.__eq__ and kind.__hash__ is object.__hash__
    is_of_program = kind.__module__ != "builtins" and not inspect.isabstract(kind)
    return by_identity and is_of_program and not kind.__subclasses__() and not _is_protocol(kind)


def _is_protocol(kind: type) -> bool:
    return bool(getattr(kind, "_is_protocol", False))


def _type_of(components: list[_Component]) -> TypeInformation | None:
    types = [component.type for component in components if component.type is not None]
    if len(types) != len(components):
        return None
    return types[0] if len(types) == 1 else TupleTypeInfo(types)


#: A value of each type that others may refuse.
_SAMPLES: dict[BasicType, Any] = {
    BasicType.STRING: "a",
    BasicType.CHAR: "a",
    BasicType.BOOLEAN: True,
    BasicType.BYTE: 1,
    BasicType.SHORT: 1,
    BasicType.INT: 1,
    BasicType.LONG: 1,
    BasicType.BIG_INT: 1,
    BasicType.DOUBLE: 1.5,
    BasicType.FLOAT: 1.5,
}


def _may_fit(field_type: TypeInformation | None, key_type: TypeInformation | None) -> bool:
    """Whether values of a declared type can be keys of another; what is not known may."""
    if not isinstance(field_type, BasicTypeInfo) or not isinstance(key_type, BasicTypeInfo):
        return True
    convert, sample = key_type.batch_converter(), _SAMPLES.get(field_type.basic_type)
    if convert is None or sample is None or key_type.basic_type is BasicType.BIG_DEC:  # which reads texts
        return True
    try:
        convert([sample])
    except TypeMismatchError:
        return False
    return True


def _refuse_arrays(key_type: TypeInformation | None, used_by: str) -> None:
    if isinstance(key_type, (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)):
        raise InvalidKeyError(
            f"{used_by}: {key_type} cannot be the type of keys, as in Flink, where arrays are equal to themselves only; "
            "use Types.LIST, or tuples and rows"
        )


def _selector_of(components: list[_Component]) -> KeySelector | Callable[[Any], Any]:
    if len(components) == 1:
        return components[0].selector
    positions = [component.position for component in components if component.position is not None]
    if len(positions) == len(components):
        return itemgetter(*positions)
    selectors = tuple(component.selector for component in components)
    plain = [selector for selector in selectors if not isinstance(selector, KeySelector)]
    if len(plain) == len(selectors):
        return partial(_composite, tuple(plain))
    return _CompositeKeySelector(selectors)


def _composite(readers: tuple[Callable[[Any], Any], ...], value: Any) -> tuple[Any, ...]:
    return tuple([read(value) for read in readers])


class _CompositeKeySelector(KeySelector[Any, Any], AsksOthers):
    """Several selectors of which some want to be opened."""

    def __init__(self, components: tuple[KeySelector | Callable[[Any], Any], ...]) -> None:
        self._rich = [component for component in components if isinstance(component, KeySelector)]
        self.asks = tuple(
            component.get_key if isinstance(component, KeySelector) else component for component in components
        )

    @override
    def open(self, runtime_context: RuntimeContext) -> None:
        """Open those that want it."""
        for component in self._rich:
            component.open(runtime_context)

    @override
    def close(self) -> None:
        """Close those that were opened."""
        for component in self._rich:
            component.close()

    @override
    def get_key(self, value: Any) -> tuple[Any, ...]:
        """The keys of all components."""
        return _composite(self.asks, value)
