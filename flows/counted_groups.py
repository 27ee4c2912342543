"""Count records by declared groups, a block of records at a time. Confidential.

Records are a pandas frame, an Arrow table or a Parquet file. In each block every distinct value is looked up once, so
the memory does not grow with the number of records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import inf, prod
from numbers import Integral
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

MOST_GROUPS = 1 << 24  # groups in one call: their index and counts take a GB
BLOCK = 1 << 20  # records
Records: TypeAlias = pd.DataFrame | pa.Table | str | Path
Column: TypeAlias = "pd.Series[Any] | pa.Array"
CAST = {pa.null(): pa.string(), pa.float16(): pa.float32()}  # types that a pandas index lacks
EXACT = 2**53  # below it a float holds every whole number


def count_groups(records: Records, by: Mapping[str, Collection[Any]]) -> pd.Series[int]:
    """Return the number of records in each declared group, the cross of the values of `by`.

    Records with another value are in no group; None, NaN, NA and NaT are one value. Raises ValueError for an invalid
    `by`, for columns that are missing, are there twice, have another type than their values or one whose values cannot
    be told apart exactly, and for a file that cannot be read as Parquet.
    """
    _check_groups(by)
    if not isinstance(records, Records):
        raise ValueError("groups are of a frame of records: measure(frame, …, by={column: values})")
    declared = [_declared(name, values) for name, values in by.items()]
    empty = _empty(records, [*by])
    columns = list(empty.columns)
    if wrong := [name for name in by if columns.count(name) != 1]:
        there = f"{columns.count(wrong[0])} columns" if wrong[0] in columns else "no column"
        raise ValueError(f"the frame has {there} {wrong[0]!r:.80}; it has {', '.join(map(str, columns)):.200}")
    if twice := [each.name for each in declared if each.has_duplicates or np.count_nonzero(each.isna()) > 1]:
        raise ValueError(f"of the values declared of {twice[0]!r:.80} one is there twice")
    for each in declared:
        _check_type(each, empty[each.name])
    groups = pd.MultiIndex.from_product(declared) if len(declared) > 1 else declared[0]
    counts = np.zeros(len(groups), np.int64)
    for block in _blocks(records, [*by]):
        group, outside = np.zeros((), np.int64), np.zeros((), bool)
        for each, column in zip(declared, block, strict=True):
            number, place = _places(each, column)
            group = group * len(each) + place[number]
            if (place < 0).any():
                outside = outside | (place < 0)[number]
        counts += np.bincount(group[~outside] if outside.any() else group, minlength=len(groups))
    return pd.Series(counts, groups)


def _empty(records: Records, names: list[str]) -> pd.DataFrame:
    """Return no record, with the columns of the records and their pandas types."""
    if isinstance(records, pd.DataFrame):
        return records.iloc[:0]
    try:
        schema = records.schema if isinstance(records, pa.Table) else pq.read_schema(records)
    except (pa.ArrowException, OSError):
        raise ValueError(f"{records} cannot be read as a Parquet file") from None
    if any(schema.names.count(name) != 1 for name in names):
        return pd.DataFrame(columns=schema.names)
    for name in names:  # no value yet: only whether values of the type can be compared
        _places(pd.Index([None], name=name), pa.nulls(0, schema.field(name).type))
    empty: pd.DataFrame = pa.schema([schema.field(name) for name in names]).empty_table().to_pandas()
    return empty


def _blocks(records: Records, names: list[str]) -> Iterator[list[Column]]:
    """Yield the columns of each block of records."""
    if isinstance(records, pd.DataFrame):
        for first in range(0, len(records), BLOCK):
            block = records.iloc[first : first + BLOCK]
            yield [block[name] for name in names]
        return
    if isinstance(records, pa.Table):
        batches = iter(records.select(names).to_batches(BLOCK))
    else:  # text is read as the file's own dictionaries
        text = [field.name for field in pq.read_schema(records) if pa.types.is_string(field.type)]
        batches = pq.ParquetFile(records, read_dictionary=text).iter_batches(BLOCK, columns=names)
    for batch in batches:
        yield [batch[name] for name in names]


def _places(declared: pd.Index[Any], column: Column) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the number of each record's value, and the place of each value among those declared: -1 for another.

    A missing value has the number -1, and the last place. Raises ValueError if the column's values cannot be compared.
    """
    try:
        number, values = _coded_arrow(column) if isinstance(column, pa.Array) else _coded(column)
        place = declared.get_indexer(values)
    except (TypeError, NotImplementedError):
        raise ValueError(f"the values of {declared.name!r:.80} cannot be counted: convert them to text") from None
    missing = next(iter(np.flatnonzero(declared.isna())), -1)
    place[values.isna()] = missing
    return number, np.append(place, missing)


def _coded(column: pd.Series[Any]) -> tuple[NDArray[Any], pd.Index[Any]]:
    number, values = pd.factorize(column)
    return number, pd.Index(values)


def _coded_arrow(column: pa.Array) -> tuple[NDArray[Any], pd.Index[Any]]:
    column = column.cast(CAST[column.type]) if column.type in CAST else column
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = column.dictionary.to_pandas(integer_object_nulls=True)
    return column.indices.cast(pa.int64()).fill_null(-1).to_numpy(), pd.Index(values)


def _declared(name: str, values: Collection[Any]) -> pd.Index[Any]:
    """Return declared values as an index, in which no whole number is rounded to a float."""
    index: pd.Index[Any] = pd.Index(list(values), name=name)
    if index.dtype.kind == "f" and any(isinstance(value, Integral) and abs(int(value)) >= EXACT for value in values):
        index = pd.Index(list(values), dtype=object, name=name)
    return index


def _check_groups(by: Mapping[str, Collection[Any]]) -> None:
    """Raise ValueError unless groups are declared as columns with their values, and are not too many."""
    example = 'by={"sex": ["f", "m"]}'
    if not isinstance(by, Mapping) or not by:
        raise ValueError(f"by is a dict of columns, each with the values that it can have: {example}")
    for name, values in by.items():
        if not isinstance(values, Collection) or isinstance(values, str) or not len(values):
            raise ValueError(f"by has no list of the values that {name!r:.80} can have: {example}")
    if (groups := prod(map(len, by.values()))) > MOST_GROUPS:
        raise ValueError(f"by declares {groups:,} groups; at most {MOST_GROUPS:,}")


def _check_type(declared: pd.Index[Any], column: pd.Series[Any]) -> None:
    """Raise ValueError if declared values and a column have different types, so that no record would match them.

    Also if one has floats where the other has whole numbers that floats round. This depends on the types of columns
    only, never on the records.
    """
    of_column = column.dtype.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    present = declared.dropna().infer_objects()
    if not len(present):
        return
    kinds = [_kind(present.dtype), _kind(of_column)]
    of_objects = pd.api.types.is_object_dtype(of_column)  # in pandas also a column of truth values that misses some
    if kinds[0] != kinds[1] and not (of_objects and kinds[0] == "truth values"):
        raise ValueError(
            f"the values declared of {declared.name!r:.80} are {kinds[0]}, its column's type is {kinds[1]}: convert one"
        )
    if kinds[0] == "numbers":
        of_floats = pd.api.types.is_float_dtype(of_column)
        large = [value for value in declared.dropna() if EXACT <= abs(value) < inf]
        if any(isinstance(value, Integral) == of_floats for value in large):
            raise ValueError(
                f"a value declared of {declared.name!r:.80} is 2^53 or more, where floats round whole numbers: "
                "convert both it and its column to whole numbers"
            )


def _kind(dtype: Any) -> str:
    """Return what values of a type are, in words."""
    if pd.api.types.is_bool_dtype(dtype):
        return "truth values"
    return "numbers" if pd.api.types.is_numeric_dtype(dtype) else "times" if dtype.kind in "mM" else "text"
