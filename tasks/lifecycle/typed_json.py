"""Values as JSON and arrays, read back as the type that the reader declares: reading runs no code from a file.

`encode` takes None, booleans, numbers, text, fractions, paths, slices, arrays, and lists, tuples, mappings,
dataclasses, named tuples and pydantic models of them. `decode` returns exactly the declared type, or raises BadValue.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path, PurePath
from types import UnionType
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from privacy.noise.exact import parse_exact
from tasks.lifecycle.annotations import resolve_alias

Arrays = list[NDArray[Any]]
Decoder = Callable[[Any, Arrays], Any]
FAULTS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError)  # which values of another type raise
PLAIN = frozenset({str, int, float, bool, type(None)})  # JSON has these types itself


class BadValue(ValueError):
    """A file does not hold a value of the declared type."""


def encode(value: Any, arrays: Arrays) -> Any:
    """Return a value in a form that JSON can hold. Its arrays are appended to `arrays`, and replaced by their indices.

    Raises TypeError for a value of another type.
    """
    kind: Any = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, Mapping):
        pairs = [[encode(key, arrays), encode(each, arrays)] for key, each in value.items()]
        return dict(pairs) if {str}.issuperset(map(type, value)) else pairs
    if isinstance(value, list | tuple):
        return list(value) if PLAIN.issuperset(map(type, value)) else [encode(each, arrays) for each in value]
    if names := _fields_of(kind):
        return {name: encode(getattr(value, name), arrays) for name in names}
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return len(arrays) - 1
    if isinstance(value, slice):
        return [value.start, value.stop, value.step]
    if isinstance(value, Fraction | PurePath):
        return str(value)
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {kind.__name__} cannot be kept")


@cache
def _fields_of(kind: type) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass or a pydantic model; empty for another type."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return tuple(getattr(kind, "model_fields", ()))


def decode(kind: Any, value: Any, arrays: Arrays) -> Any:
    """Return the value of a declared type from JSON and arrays. Raises BadValue."""
    try:
        return _decoder(kind)(value, arrays)
    except BadValue:
        raise
    except FAULTS as error:
        raise BadValue(f"no {_name(kind)}: {error}") from None


def _name(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _refuse(kind: Any, value: Any) -> NoReturn:
    raise BadValue(f"no {_name(kind)}: {type(value).__name__}")


def _refuse_word(known: Sequence[Any]) -> NoReturn:
    # sorted: two Literals of the same words are equal, so a decoder may be another's of other order
    raise BadValue(f"not one of {', '.join(sorted(map(str, known)))}")


@cache
def _decoder(kind: Any) -> Decoder:
    """Return what decodes values of a type. Raises TypeError for a type that no value is kept of."""
    kind = resolve_alias(kind)
    origin, of = get_origin(kind) or kind, get_args(kind)
    if kind is Any:
        return lambda value, _: value
    if origin is Literal:
        allowed = {(type(each), each) for each in of}
        return lambda value, _: value if (type(value), value) in allowed else _refuse_word(of)
    if origin in (Union, UnionType):
        return _first_of(kind, of)
    if origin in PLAIN:
        kinds = {float, int} if kind is float else {kind}
        return lambda value, _: value if type(value) in kinds else _refuse(kind, value)
    if origin in (dict, Mapping):
        return _mapping(*of)
    if origin is list or of[1:] == (...,):
        return _sequence(origin, of[0])
    if origin is tuple:
        return _tuple(tuple, of)
    if hasattr(origin, "_fields"):
        return _tuple(origin._make, tuple(get_type_hints(origin)[name] for name in origin._fields))
    if origin is np.ndarray:
        return lambda value, arrays: arrays[value] if type(value) is int and value >= 0 else _refuse(kind, value)
    if origin is slice:
        return lambda value, _: slice(*value)
    if origin is Fraction:
        return lambda value, _: -parse_exact(value[1:]) if value.startswith("-") else parse_exact(value)
    if origin is Path:
        return lambda value, _: Path(value) if type(value) is str else _refuse(kind, value)
    return _record(origin, dict(zip(getattr(origin, "__parameters__", ()), of, strict=False)))


def _first_of(kind: Any, alternatives: Sequence[Any]) -> Decoder:
    decoders = [_decoder(each) for each in alternatives]

    def first_of(value: Any, arrays: Arrays) -> Any:
        for decoder in decoders:
            with suppress(*FAULTS):
                return decoder(value, arrays)
        return _refuse(kind, value)

    return first_of


def _sequence(make: Callable[[Any], Any], item: Any) -> Decoder:
    decoder, plain = _decoder(item), PLAIN & {item}  # plain values need no decoding

    def sequence(value: Any, arrays: Arrays) -> Any:
        if type(value) is not list:
            _refuse(make, value)
        return make(value if plain.issuperset(map(type, value)) else [decoder(each, arrays) for each in value])

    return sequence


def _tuple(make: Callable[[Any], Any], items: tuple[Any, ...]) -> Decoder:
    """Decode a tuple with this many items, or a named tuple."""
    decoders = [_decoder(item) for item in items]

    def fixed(value: Any, arrays: Arrays) -> Any:
        if type(value) is not list:
            _refuse(make, value)
        return make([decoder(each, arrays) for decoder, each in zip(decoders, value, strict=True)])

    return fixed


def _mapping(key: Any, item: Any) -> Decoder:
    key_decoder, decoder = _decoder(key), _decoder(item)

    def mapping(value: Any, arrays: Arrays) -> Any:
        pairs = value.items() if type(value) is dict else value
        return {key_decoder(name, arrays): decoder(each, arrays) for name, each in pairs}

    return mapping


def _record(kind: Any, given: Mapping[Any, Any]) -> Decoder:
    """Decode a dataclass or a pydantic model; given: the types of its type variables."""
    names = _fields_of(kind)
    if not names:
        raise TypeError(f"no value of type {_name(kind)} is kept")
    if hasattr(kind, "model_construct"):
        hints = {name: kind.model_fields[name].annotation for name in names}
        make = kind.model_construct  # the value was validated before it was written
    else:
        hints, make = get_type_hints(kind), kind
    decoders = {
        name: _decoder(given[hints[name]] if isinstance(hints[name], TypeVar) else hints[name]) for name in names
    }

    def record(value: Any, arrays: Arrays) -> Any:
        if type(value) is not dict or value.keys() != decoders.keys():
            _refuse(kind, value)
        decoded = {}
        for name, each in value.items():
            try:
                decoded[name] = decoders[name](each, arrays)
            except FAULTS as fault:
                raise BadValue(f"{name}: {fault}") from None
        return make(**decoded)

    return record
