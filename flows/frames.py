"""A release of any system as one tidy pandas table, by its datapackage.json: counts in rows, with names and margins."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from privacy.tables.histogram import sums
from tasks.errors import Refused
from tasks.geography.names import NAMES, Names, names_of_2020
from tasks.geography.regions import NATION, Region
from tasks.releases.datapackage import PACKAGE_FILE, Resource, read_package, slug
from tasks.releases.description import Column
from tasks.releases.manifest import read_manifest, require_release
from tasks.releases.received import path_in, reason_of

NUMBERS = ("count", "margin", "estimate", "standard error")


def read_release(release: str | Path, levels: Collection[str] = ()) -> pd.DataFrame:
    """Return the published counts of a release: one count per row, with names and 95% margins of error.

    Detailed DHC-A
        level, region_id, region, region_type, iteration_code, iteration, sex (missing: both), age_start, age_end
        (missing: all), count, margin; with estimates also estimate, estimate_margin.
    TopDown Algorithm
        product, level, state, code, name, statistic (total, voting age, Hispanic, …), count; with least squares also
        margin (missing where it would not be the release's), estimate, standard_error. Blocks are not included.
    Bottom-up
        the histogram: a column for each factor, count, margin.
    A declaration of your own
        level, the columns of the levels, a column for each axis, count; cells without a record are omitted.
    Supplemental DHC
        table (`ph1-num`, …), region_id, region, region_type, iteration_code, cell, count, margin; with estimates also
        estimate, estimate_margin.
    Any other system
        the tables that its datapackage.json calls counts, under the names that it gives (docs/spec/files.md).

    A negative count is noise that was not set to zero. Margins are those of the noise before suppression.

    Parameters
    ----------
    release
        the folder with manifest.json.
    levels
        the levels to read; all by default: `County, Detailed`; for the TopDown Algorithm `County`, `place`; for a
        declaration its own. All levels of a nation take gigabytes.

    Raises
    ------
    Refused
        if the folder holds no release, or the release lacks such a level.
    """
    folder = Path(release)
    require_release(folder)
    named = read_manifest(folder)["files"]
    tables = {table.name: table for table in read_package(folder, named)}
    counted = [table for table in tables.values() if table.counts and not table.twin]
    chosen = list(_tables_of_levels(counted, [levels] if isinstance(levels, str) else levels))
    if not chosen:
        raise Refused(f"{folder} has no table of published counts")
    try:
        nation = {Region("USA", NATION): "United States"}
        names = {**names_of_2020(), **NAMES.of_release(folder, named), **nation}
        unnamed = sum(not table.where for table in chosen) > 1  # several tables, by levels or products
        parts = []
        for table in chosen:
            for part in _parts(folder, tables, table, names):
                if unnamed:
                    part.insert(0, "table", pd.Series(table.name, part.index, "category"))
                parts.append(part)
        frame = pd.concat(parts, ignore_index=True)
    except Refused:
        raise
    except Exception as error:  # the release is untrusted
        raise Refused(f"{folder} is not what its {PACKAGE_FILE} says: {reason_of(error)}") from error
    # Each part has codes of its own.
    coded = {name for part in parts for name in part if part[name].dtype == "category"}
    numbers = {_name(column) for table in tables.values() for column in table.with_role(*NUMBERS)}
    order = sorted(frame, key=lambda name: name in numbers)
    return frame[order].astype(dict.fromkeys(coded, "category"))


def _tables_of_levels(tables: Sequence[Resource], levels: Collection[str]) -> Iterator[Resource]:
    """Yield the tables of these levels, named in words or as in file names; all by default. Raises Refused."""
    if not levels:
        yield from tables
    for level in levels:
        found = [table for table in tables if slug(level) in (slug(table.level), slug(table.where.get("level", "")))]
        if not found:
            there = "; ".join(dict.fromkeys(table.level for table in tables if table.level)) or "no levels"
            raise Refused(f"the release has no level {level!r:.80}; it has {there}")
        yield from found


def _parts(folder: Path, tables: Mapping[str, Resource], table: Resource, names: Names) -> Iterator[pd.DataFrame]:
    """Yield the parts of a table, one per file, with the estimates of its counts, and names of regions and codes."""
    others = [other for other in tables.values() if other.of == table.name and not other.twin]
    for path, where in table.files():
        frame = _read(folder, table, path)
        if table.sums:
            (sums_path,) = tables[table.sums].paths
            frame = _named_sums(frame, table, _read(folder, tables[table.sums], sums_path))
        for other in others:
            for other_path in (one for one, of in other.files() if of == where):
                estimates = _read(folder, other, other_path).drop(columns=map(_name, other.with_role("count")))
                keys = [name for name in estimates if name in frame]
                frame = frame.merge(estimates, on=keys, how="left", validate="many_to_one")
        _add_names(frame, table, names)
        _add_labels(frame, folder, tables, table)
        fixed = {name: pd.Categorical([value]).repeat(len(frame)) for name, value in where.items()}
        yield pd.DataFrame({**fixed, **frame})


def _read(folder: Path, table: Resource, path: str) -> pd.DataFrame:
    """Return a file of a table with the names, types and labels that users see."""
    file = path_in(folder, path)
    if table.is_text:
        quoting: Literal[0, 3] = csv.QUOTE_NONE if table.delimiter == "|" else csv.QUOTE_MINIMAL
        read = pd.read_csv(file, sep=table.delimiter, dtype=str, keep_default_na=False, quoting=quoting)
    else:
        read = pq.read_table(file).to_pandas()
    made = {}
    for column in table.columns:
        values = read[column.name]
        if column.type in ("integer", "number") and (table.is_text or column.missing):
            values = pd.to_numeric(values.replace(dict.fromkeys(column.missing)))
            values = values.astype("Int64") if column.missing and column.type == "integer" else values
        elif column.digits:
            values = values.astype(str).str[-column.digits :]
        elif column.labels:
            values = values.map(column.codes).astype("category")
        elif column.codes and column.unit != "text":
            values = values.astype("category")
        made[_name(column)] = values
    return pd.DataFrame(made)


def _named_sums(frame: pd.DataFrame, table: Resource, listing: pd.DataFrame) -> pd.DataFrame:
    """Return the named sums of the cells of each key; listing: one row for each cell of a name."""
    (count,) = map(_name, table.with_role("count"))
    (cell,) = (name for name in listing if name in frame and name != count)
    (key,), (name,) = ([each for each in one if each not in (cell, count)] for one in (frame, listing))
    row, keys = pd.factorize(frame[key].astype(str))
    number, names = pd.factorize(listing[name])
    counted = np.zeros((int(listing[cell].max()) + 1, len(names)), np.int64)
    counted[listing[cell], number] = 1
    found = sums(row, frame[cell].to_numpy(), frame[count].to_numpy(), len(keys), counted)
    return pd.DataFrame({key: np.repeat(keys, len(names)), name: np.tile(names, len(keys)), count: found.ravel()})


def _add_names(frame: pd.DataFrame, table: Resource, names: Names) -> None:
    """Insert the names of regions after their codes."""
    for column in table.columns:
        if column.names and column.region:
            codes = frame[_name(column)].astype(str)
            of = [_name(one) for one in table.columns if column.region == f"{{{one.name}}}"]
            types = frame[of[0]].astype(str) if of else pd.Series(column.region, frame.index)
            number, pairs = pd.factorize(pd.MultiIndex.from_arrays([types, codes]))
            regions = (Region(*pair) if of else Region.named(*pair) for pair in pairs)
            words = np.array([names.get(region, "") for region in regions], object)
            frame.insert(_behind(frame, column), column.names, pd.Series(words[number], frame.index, "category"))


def _add_labels(frame: pd.DataFrame, folder: Path, tables: Mapping[str, Resource], table: Resource) -> None:
    """Insert the labels that foreign keys refer to, such as the names of iterations, after the codes."""
    for reference in table.references:
        other = tables[reference.table]
        columns = [one for name in reference.columns for one in table.columns if one.name == name]
        for label in other.with_role("name") if not any(one.region for one in columns) else ():
            listing = _read(folder, other, other.paths[0])
            keys = [_name(one) for name in reference.key for one in other.columns if one.name == name]
            words = dict(zip(zip(*(listing[key] for key in keys), strict=True), listing[_name(label)], strict=True))
            number, codes = pd.factorize(pd.MultiIndex.from_frame(frame[[*map(_name, columns)]].astype(str)))
            named = np.array([words.get(each, "") for each in codes], object)[number]
            behind = _behind(frame, columns[-1])
            frame.insert(behind, _name(label), pd.Series(named, frame.index, "category"))


def _behind(frame: pd.DataFrame, column: Column) -> int:
    return list(frame).index(_name(column)) + 1


def _name(column: Column) -> str:
    return column.frame or column.name
