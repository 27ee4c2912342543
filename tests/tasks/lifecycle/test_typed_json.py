"""What a run directory keeps comes back exactly, as the declared type; a file that is something else runs nothing."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from typing_extensions import TypeAliasType

from privacy.noise.laws import DiscreteGaussian, Law, TwoSidedGeometric
from tasks.lifecycle.files import load_object, read_object, save_object
from tasks.lifecycle.typed_json import BadValue, decode, encode

T = TypeVar("T")


class Named(NamedTuple):
    """As a level: also a key."""

    name: str
    number: int


@dataclass(frozen=True)
class Part:
    """Arrays within a record."""

    values: NDArray[Any]
    share: Fraction | None
    law: Law


class Model(BaseModel):
    """As a configuration: what is read was validated, and is not again."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    budgets: dict[Named, Fraction | Literal["Infinity"]]
    word: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Record(Generic[T]):
    """One field of every kind."""

    given: T
    flag: bool
    number: int
    real: float
    text: str
    share: Fraction
    path: Path
    rows: slice
    nothing: None
    any: Any
    words: tuple[str, ...]
    pair: tuple[int, Path | None]
    names: list[Named]
    by_name: Mapping[str, Fraction]
    by_number: dict[int, float]
    by_key: dict[Named, tuple[str, ...]]
    parts: tuple[Part, ...]


TEXT = st.text()  # with line ends, quotes and half surrogates
FRACTIONS = st.fractions()
FLOATS = st.floats()
INTEGERS = st.integers(-(10**40), 10**40)
PATHS = st.text("ab./ é", min_size=1).map(Path)
NAMED = st.builds(Named, TEXT, INTEGERS)
ARRAYS = arrays_of.arrays(
    st.sampled_from(["int64", "int16", "uint8", "bool", "float64", "<U3", "S2"]),
    arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
)
LAWS = st.fractions(Fraction(1, 100), 100).flatmap(
    lambda x: st.sampled_from([DiscreteGaussian(x), TwoSidedGeometric(x)])
)
JSON = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXT, lambda of: st.lists(of) | st.dictionaries(TEXT, of)
)
RECORDS = st.builds(
    Record,
    st.builds(Model, budgets=st.dictionaries(NAMED, FRACTIONS | st.just("Infinity"))),
    st.booleans(),
    INTEGERS,
    FLOATS,
    TEXT,
    FRACTIONS,
    PATHS,
    st.builds(slice, st.none() | INTEGERS, INTEGERS),
    st.none(),
    JSON,
    st.lists(TEXT).map(tuple),
    st.tuples(INTEGERS, st.none() | PATHS),
    st.lists(NAMED),
    st.dictionaries(TEXT, FRACTIONS),
    st.dictionaries(INTEGERS, FLOATS),
    st.dictionaries(NAMED, st.lists(TEXT).map(tuple)),
    st.lists(st.builds(Part, ARRAYS, st.none() | FRACTIONS, LAWS)).map(tuple),
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same to the type and the bit, all the way down."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    if isinstance(one, dict):
        return list(one) == list(other) and all(map(same, one.values(), other.values()))
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other) or repr(one) == repr(other)  # nan is not itself


@given(RECORDS)
@settings(max_examples=20)  # each with all kinds
@pytest.mark.ci
def test_every_kind_of_value_comes_back_exactly(tmp_path_factory: pytest.TempPathFactory, value: Record[Model]) -> None:
    path = tmp_path_factory.getbasetemp() / "value"
    save_object(path, value)
    assert same(read_object(path, Record[Model]), value)
    text, _, _ = path.read_bytes().partition(b"\n")
    json.loads(text)


Item = TypeVar("Item")
LazyArray = TypeAliasType("LazyArray", np.ndarray[Any, np.dtype[Item]], type_params=(Item,))
LazyWord = TypeAliasType("LazyWord", Literal["a", "b"])
LazyAlias = TypeAliasType("LazyAlias", LazyWord)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (LazyArray[np.int64], np.arange(3)),
        (LazyAlias, "b"),
        (dict[str, LazyArray[Any] | None], {"a": np.ones(2), "b": None}),
    ],
)
def test_a_lazy_alias_is_read_as_the_type_that_it_names(tmp_path: Path, kind: Any, value: Any) -> None:
    """numpy's NDArray is one since 2.5, which needs Python 3.12."""
    save_object(tmp_path / "value", value)
    assert same(read_object(tmp_path / "value", kind), value)
    with pytest.raises(BadValue):
        decode(LazyAlias, "c", [])


def test_numbers_of_numpy_come_back_as_python_s(tmp_path: Path) -> None:
    save_object(tmp_path / "value", [np.int64(3), np.int16(-1)])
    assert same(load_object(tmp_path / "value", list[int]), [3, -1])
    save_object(tmp_path / "real", np.float64(0.1))
    assert same(load_object(tmp_path / "real", float), 0.1)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True),
        (int, 1.0),
        (bool, 1),
        (str, 1),
        (float, "nan"),
        (Fraction, 1),
        (Fraction, "1/0"),
        (Fraction, "1e999999999"),  # as a fraction, it would take all memory
        (Path, ["/etc"]),
        (Literal["a", "b"], "c"),
        (Literal[1], True),
        (int | None, "1"),
        (list[int], [1, "2"]),
        (list[int], {"1": 2}),
        (tuple[int, str], [1]),
        (tuple[int, ...], 3),
        (dict[str, int], {"a": "b"}),
        (dict[int, str], {"1": "b"}),
        (dict[Named, int], [[["a"], 1]]),
        (NDArray[np.int64], 0),
        (NDArray[np.int64], -1),
        (NDArray[np.int64], True),
        (Named, ["a"]),
        (Named, ["a", 1, 2]),
        (Named, [1, "a"]),
        (Part, ["a"]),
        (Part, {"values": 0, "share": None}),
        (Part, {"values": 0, "share": None, "law": {"scale": "1"}, "more": 1}),
        (Law, {"scale": "1", "sigma_squared": "1"}),
        (Law, {"scale": "-1"}),
    ],
    ids=str,
)
def test_a_value_of_another_type_is_not_taken(kind: Any, value: Any) -> None:
    with pytest.raises(BadValue):
        decode(kind, value, [])


@pytest.mark.parametrize("value", [object(), print, np.zeros, int, {1: object()}, b"bytes", 1j])
def test_what_is_no_data_is_not_kept(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be kept"):
        encode(value, [])


class Poison:
    """Runs a command when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("start", [b"", b"\n", b"0\n", b'{"values":0,"share":null,"law":{"scale":"1"}}\n'])
def test_a_pickle_is_never_unpickled(tmp_path: Path, protocol: int, start: bytes) -> None:
    """Whole, or after a line of JSON, where arrays are; also as an array of objects."""
    trace = tmp_path / "trace"
    (tmp_path / "value").write_bytes(start + pickle.dumps(Poison(trace), protocol))
    with open(tmp_path / "array", "wb") as file:
        file.write(start)
        np.save(file, np.array([Poison(trace)], object))
    for name in ("value", "array"):
        for read in (load_object, read_object):
            with pytest.raises(ValueError):  # noqa: PT011 - of many kinds
                read(tmp_path / name, Part)
    assert not trace.exists()
    pickle.loads((tmp_path / "value").read_bytes().removeprefix(start))  # it would have
    assert trace.exists()
