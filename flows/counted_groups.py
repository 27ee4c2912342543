"""Count records by declared groups, a block of records at a time. Confidential.

Records are a pandas frame, an Arrow table or a Parquet file. In each block every distinct value is looked up once, so
the memory does not grow with the number of records.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import prod
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
Coded: TypeAlias = tuple[NDArray[Any], tuple[pd.Index, ...]]  # the number of each record's value, and all values


def count_groups(records: Records, by: Mapping[str, Collection[Any]]) -> pd.Series[int]:
    """Return the number of records in each declared group, the cross of the values of `by`.

    Records with another value are in no group. Raises ValueError for an invalid `by`, for columns that are missing, are
    there twice or have another type than their values, and for a file that is not Parquet.
    """
    _check_groups(by)
    if not isinstance(records, Records):
        raise ValueError("groups are of a frame of records: measure(frame, …, by={column: values})")
    declared = [pd.Index(list(values), name=name) for name, values in by.items()]
    empty = _empty(records, [*by])
    columns = list(empty.columns)
    if wrong := [name for name in by if columns.count(name) != 1]:
        there = f"{columns.count(wrong[0])} columns" if wrong[0] in columns else "no column"
        raise ValueError(f"the frame has {there} {wrong[0]!r:.80}; it has {', '.join(map(str, columns)):.200}")
    if twice := [each.name for each in declared if each.has_duplicates]:
        raise ValueError(f"of the values declared of {twice[0]!r:.80} one is there twice")
    for each in declared:
        _check_type(each, empty[each.name])
    groups = pd.MultiIndex.from_product(declared) if len(declared) > 1 else declared[0]
    counts = np.zeros(len(groups), np.int64)
    for block in _blocks(records, [*by]):
        group, outside = np.zeros((), np.int64), np.zeros((), bool)
        for each, (number, values) in zip(declared, block, strict=True):
            place = np.concatenate([each.get_indexer(part) for part in values])
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
    except pa.ArrowException:
        raise ValueError(f"{records} cannot be read as a Parquet file") from None
    if any(schema.names.count(name) != 1 for name in names):
        return pd.DataFrame(columns=schema.names)
    empty: pd.DataFrame = pa.schema([schema.field(name) for name in names]).empty_table().to_pandas()
    return empty


def _blocks(records: Records, names: list[str]) -> Iterator[list[Coded]]:
    """Yield the columns of each block of records."""
    if isinstance(records, pd.DataFrame):
        for first in range(0, len(records), BLOCK):
            block = records.iloc[first : first + BLOCK]
            yield [_coded(block[name]) for name in names]
        return
    if isinstance(records, pa.Table):
        batches = iter(records.select(names).to_batches(BLOCK))
    else:  # text is read as the file's own dictionaries
        text = [field.name for field in pq.read_schema(records) if pa.types.is_string(field.type)]
        batches = pq.ParquetFile(records, read_dictionary=text).iter_batches(BLOCK, columns=names)
    for batch in batches:
        yield [_coded_arrow(batch[name]) for name in names]


def _coded(column: pd.Series[Any]) -> Coded:
    number, values = pd.factorize(column, use_na_sentinel=False)
    return number, (pd.Index(values),)


def _coded_arrow(column: pa.Array) -> Coded:
    """Return a column's numbers and distinct values; a missing one is the last."""
    column = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    values = column.dictionary
    number = column.indices.cast(pa.int64()).fill_null(len(values))
    return number.to_numpy(), tuple(pd.Index(part.to_pandas()) for part in (values, pa.nulls(1, values.type)))


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
    """Raise ValueError if declared values and a column have different types: no record would match them.

    This depends on the types of columns only, never on the records.
    """
    of_column = column.dtype.categories.dtype if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype
    kinds = [
        "numbers" if pd.api.types.is_numeric_dtype(kind) else "times" if kind.kind in "mM" else "text"
        for kind in (declared.dtype, of_column)
    ]
    if kinds[0] != kinds[1]:
        raise ValueError(
            f"the values declared of {declared.name!r:.80} are {kinds[0]}, its column's type is {kinds[1]}: convert one"
        )
