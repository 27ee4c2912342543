"""The rows of tables/ (tidy.py): made of the other files of a release, written, and compared by `das check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from privacy.tables.histogram import sums
from tasks.releases.check import Check
from tasks.releases.description import TIDY_FOLDER, Description
from tasks.releases.manifest import file_names
from tasks.releases.received import NotOfRelease, path_in
from tasks.releases.text_twin import CODED, TYPES, by_dictionary, differing, read_batches, write_twins
from tasks.releases.tidy import STATISTIC, Listing, TidyColumn, TidyFile, Words, tidy_files

ROWS = 1 << 17  # that are made at once
MOST_COMBINATIONS = 1 << 24  # of values whose words are looked up together
MOST_CELLS = 1 << 24  # cells of a histogram
MOST_NUMBERED = 1 << 62  # combinations of texts that have a number each
Held = Mapping[str, pa.Array]  # by name the columns of a table, texts by their dictionaries


def write_tidy(release: Path, made: TidyFile, parquet: Path, text: Path) -> None:
    """Write a table of tables/ to two paths."""
    schema = pa.schema([(each.column.name, TYPES[each.column.type]) for each in made.columns])
    write_twins(schema, tidy_rows(release, made), parquet, text, delimiter=",", sought=False)


def tidy_rows(release: Path, made: TidyFile) -> Iterator[pa.Table]:
    """Yield the rows of a table of tables/, some at a time."""
    rows = _rows(release, made)
    yield from _sums_by_geounit(rows, made) if made.summed else rows


def _sums_by_geounit(rows: Iterator[pa.Table], made: TidyFile) -> Iterator[pa.Table]:
    """Add up the numbers of rows with the same texts, some geounits at a time: the rows of each are neighbours."""
    geounit, waiting = [each.column.name for each in made.columns if each.column.level], None
    for each in rows:
        own = _summed(pa.concat_tables([waiting, each]) if waiting else each)
        others = np.zeros(len(own), bool)  # than those of the last geounit, which may go on
        for name in geounit:
            number = own[name].combine_chunks().indices.to_numpy(zero_copy_only=False)
            others |= number != number[-1:]
        first = int(np.flatnonzero(others).max(initial=-1)) + 1
        if first:
            yield own.slice(0, first)
        waiting = own.slice(first)
    if waiting:
        yield waiting


def _rows(release: Path, made: TidyFile) -> Iterator[pa.Table]:
    words = [each.words.read(release) if isinstance(each.words, Listing) else each.words for each in made.columns]
    for path, where in made.sources:
        stored = _named_sums(release, made, path) if made.cells else _stored_rows(path_in(release, path), made.only)
        for rows, held in stored:
            of_file = {f"{{{name}}}": _constant(value, rows) for name, value in where.items()}
            columns = zip(made.columns, words, strict=True)
            yield pa.table({each.column.name: _values(each, own, {**held, **of_file}, rows) for each, own in columns})


def _summed(rows: pa.Table) -> pa.Table:
    """Add up the numbers of rows with the same texts; each sum has the place of its first row.

    Arrow's groups come in an order of its own.
    """
    key, combinations = np.zeros(len(rows), np.int64), 1
    texts = {name: rows[name].combine_chunks() for name in rows.column_names if rows.schema.field(name).type == CODED}
    for own in texts.values():
        if combinations * len(own.dictionary) > MOST_NUMBERED:
            distinct, key = np.unique(key, return_inverse=True)
            combinations = len(distinct)
        key = key * len(own.dictionary) + own.indices.to_numpy(zero_copy_only=False)
        combinations *= len(own.dictionary)
    _, first, place = np.unique(key, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    taken = pa.array(first[order])

    def column(name: str) -> pa.Array:
        if name in texts:
            return texts[name].take(taken)
        sums_of = np.bincount(rank[place], rows[name].to_numpy(), len(order))  # whole numbers below 2^53
        return pa.array(sums_of).cast(rows.schema.field(name).type)

    return pa.table({name: column(name) for name in rows.column_names})


def check_tidy(release: Path, description: Description) -> Iterator[Check]:
    """Make tables/ again from the other files of a release, and compare it; other files in tables/ are faults."""
    tables = tidy_files(release, description)
    known = {name for made in tables for name in (made.parquet, made.text)}
    strange = [name for name in file_names(release) if name.startswith(f"{TIDY_FOLDER}/") and name not in known]
    faults = tuple(f"{name} is made from no table of the release" for name in strange)
    yield Check(f"names in {TIDY_FOLDER}/", f"{len(known)} files", faults)
    for made in tables:
        path = path_in(release, made.parquet)
        types = {each.column.name: TYPES[each.column.type] for each in made.columns}
        again = chain.from_iterable(rows.to_batches() for rows in tidy_rows(release, made))
        differ = differing(read_batches(path, [*types]), again, types)
        over = f"{pq.read_metadata(path).num_rows:,} rows"
        yield Check(f"{made.parquet}, made again", over, (f"{differ:,} rows differ",) * bool(differ))


def _stored_rows(path: Path, only: Mapping[str, Sequence[str]]) -> Iterator[tuple[int, Held]]:
    """Yield the rows of a Parquet file with these values, some at a time."""
    for batch in read_batches(path, pq.read_schema(path).names):
        for name, values in only.items():
            batch = batch.filter(pc.is_in(batch[name].cast(pa.string()), pa.array(values, pa.string())))
        yield len(batch), dict(zip(batch.schema.names, batch.columns, strict=True))


def _values(made: TidyColumn, words: Words | None, held: Held, rows: int) -> pa.Array:
    """Return a column of this many rows. held: the columns of its table, and the placeholders of its file."""
    if words is not None:
        return _in_words([by_dictionary(held[name]) for name in made.sources], words, rows)
    values, column = held[made.sources[0]], made.column
    if column.type == "string":
        return by_dictionary(values)
    if pa.types.is_dictionary(values.type):  # text, since some rows have no number
        numbers = [
            int(text) if text.lstrip("-").isdecimal() else column.whole for text in values.dictionary.to_pylist()
        ]
        return pa.array(numbers, pa.int64()).take(values.indices)
    return values.cast(TYPES[column.type])


def _in_words(sources: Sequence[pa.DictionaryArray], words: Words, rows: int) -> pa.Array:
    """Return the text for the values of some columns together, or "" for unknown values."""
    if not sources:
        return _constant(words[()], rows)
    sizes, number = [len(each.dictionary) for each in sources], np.zeros(rows, np.int64)
    if prod(sizes) > MOST_COMBINATIONS:
        raise NotOfRelease(f"{' and '.join(f'{size:,}' for size in sizes)} values that have words together")
    for each in sources:
        number = number * len(each.dictionary) + each.indices.to_numpy(zero_copy_only=False)
    used = np.arange(prod(sizes))
    if len(used) > rows:
        used, number = np.unique(number, return_inverse=True)
    places = np.unravel_index(used, sizes)
    keys = (each.dictionary.take(pa.array(place)).to_pylist() for each, place in zip(sources, places, strict=True))
    texts = [words.get(key, "") for key in zip(*keys, strict=True)]
    coded = pa.array(texts, pa.string()).dictionary_encode()  # Parquet wants each value once
    return pa.DictionaryArray.from_arrays(coded.indices.take(pa.array(number)), coded.dictionary)


def _constant(value: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([value], pa.string()))


def _named_sums(release: Path, made: TidyFile, path: str) -> Iterator[tuple[int, Held]]:
    """Yield the named sums of the cells of each geounit, with their margins and estimates if the release has some.

    A geounit without a row in the histogram has 0 everywhere; it is known only if it has estimates.
    """
    histogram, errors = pq.read_table(path_in(release, path)), made.estimates.get(path)
    estimates = pq.read_table(path_in(release, errors)) if errors else histogram.slice(0, 0)
    unquoted = pa.csv.ParseOptions(delimiter="|", quote_char=False)
    listing = pa.csv.read_csv(path_in(release, made.cells), parse_options=unquoted)
    names, cells = listing[0].unique(), listing[1].to_numpy()
    if len(cells) and not 0 <= cells.min() <= cells.max() < MOST_CELLS:
        raise NotOfRelease(f"{made.cells} has cells that are not from 0 to {MOST_CELLS:,}")
    estimates = estimates.filter(pc.is_in(estimates[1].cast(pa.string()), names)) if errors else estimates
    counted = np.zeros((int(cells.max(initial=0)) + 1, len(names)), np.int64)
    counted[cells, pc.index_in(listing[0], names).to_numpy()] = 1
    keys, of_estimates = (_codes(table[0], made.digits) for table in (histogram, estimates))
    units = pa.chunked_array([*keys.chunks, *of_estimates.chunks], pa.string()).unique()
    row = pc.index_in(keys, units).to_numpy()
    counts = sums(row, histogram[1].to_numpy(), histogram[2].to_numpy(), len(units), counted)
    numbers: dict[str, NDArray[np.generic]] = {histogram.column_names[2]: counts.ravel()}
    for name in (each.sources[0] for each in made.columns if each.column.optional):
        numbers[name] = np.full(counts.size, np.nan)
    if errors:
        at = pc.index_in(of_estimates, units).to_numpy() * len(names)
        at = at + pc.index_in(estimates[1].cast(pa.string()), names).to_numpy()
        for name in estimates.column_names[3:]:
            numbers[name][at] = estimates[name].to_numpy()
    step = max(ROWS // len(names), 1) * len(names)
    for first in range(0, counts.size, step):
        of = np.arange(first, min(first + step, counts.size))
        unit, name = (pa.array(place, pa.int32()) for place in np.divmod(of, len(names)))
        held: dict[str, pa.Array] = {
            histogram.column_names[0]: pa.DictionaryArray.from_arrays(unit, units),
            STATISTIC: pa.DictionaryArray.from_arrays(name, names),
        }
        yield len(of), held | {each: pa.array(own[of], from_pandas=True) for each, own in numbers.items()}


def _codes(geounits: pa.ChunkedArray, digits: int) -> pa.ChunkedArray:
    texts = geounits.cast(pa.string())
    return pc.utf8_slice_codeunits(texts, -digits) if digits else texts
