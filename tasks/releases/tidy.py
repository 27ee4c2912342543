"""The content of tables/: a release's published tables, tidy, one comma-separated file and one Parquet a level.

A row has its region by id and name, its group or category by code and in words, its count and its margin. All of it
follows from the other files of the release and from the system's Description. tidy_rows.py writes and checks the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

from tasks.releases.datapackage import Resource, resources_of
from tasks.releases.description import PLACEHOLDER, TIDY_FOLDER, Column, Description, Table, Tidy, fill
from tasks.releases.manifest import file_names
from tasks.releases.received import LARGEST_READ, path_in

WITH_NAMES = ", with names"  # at the end of a title
STATISTIC = "statistic"  # the name of a sum, where rows are named sums of cells
REGION_KEY = ("REGION_TYPE", "REGION_ID")  # key of the table of names
Words = Mapping[tuple[str, ...], str]


@dataclass(frozen=True)
class Listing:
    """A text table of the release with a text for each key; kind: the type of region, where ids alone are looked up."""

    file: str
    keys: tuple[str, ...]
    text: str
    kind: str = ""

    def read(self, release: Path) -> Words:
        """Return the texts by their keys; an empty mapping if the release lacks the file."""
        if not (release / self.file).exists():
            return {}
        columns = dict.fromkeys([*self.keys, self.text], pa.string())
        read = pa.csv.read_csv(
            path_in(release, self.file, LARGEST_READ),
            parse_options=pa.csv.ParseOptions(delimiter="|", quote_char=False),
            convert_options=pa.csv.ConvertOptions(column_types=columns, include_columns=[*columns]),
        )
        *keys, texts = (read[name].to_pylist() for name in columns)
        found = dict(zip(zip(*keys, strict=True), texts, strict=True))
        if not self.kind:
            return found
        return {key[1:]: text for key, text in found.items() if key[0].rpartition("-")[2] == self.kind}


@dataclass(frozen=True)
class TidyColumn:
    """A column of a tidy table.

    sources: the columns of the release's table that it is made of, and `{name}` for a placeholder in its files' names.
    words: the text for their values, which a Listing has in the release; None where the source's values are kept.
    key: the column of the table's key, or the placeholder, that it has the values of.
    """

    column: Column
    sources: tuple[str, ...]
    words: Words | Listing | None = None
    key: str = ""


@dataclass(frozen=True)
class TidyFile:
    """All that a worker needs to make a table of tables/ from the other files of a release.

    text, parquet: its files. sources: those of its table, each with the names in their placeholders.
    cells: the file with the cells that each named sum has, if the rows are named sums of cells; estimates: the file
    with margins and estimates of these sums, by source; digits: the last ones of geounits that are their codes, if
    not all are. only, summed: as in Tidy.
    """

    text: str
    parquet: str
    sources: tuple[tuple[str, Mapping[str, str]], ...]
    columns: tuple[TidyColumn, ...]
    cells: str = ""
    estimates: Mapping[str, str] = field(default_factory=dict)
    digits: int = 0
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    summed: bool = False


def with_tidy(description: Description) -> Description:
    """Return the description of a release that has its tables in tables/ too."""
    tables = (_tidy_table(description, table, tidy) for table in description.tables for tidy in table.tidy)
    return replace(description, tables=(*description.tables, *tables))


def _tidy_table(description: Description, table: Table, tidy: Tidy) -> Table:
    columns = _columns(description, tidy.columns or table.columns, table.key, tidy)
    named = {each.key: each.column.name for each in columns}
    key = tuple(
        named[name] for name in (*(f"{{{part}}}" for part in tidy.parts), *(tidy.key or table.key)) if name in named
    )
    return Table(
        f"{tidy.title or table.title}{WITH_NAMES}",
        tuple(each.column for each in columns),
        text=f"{TIDY_FOLDER}/{tidy.path}.csv",
        parquet=f"{TIDY_FOLDER}/{tidy.path}.parquet",
        delimiter=",",
        key=("*",) if table.key == ("*",) else key,
        dependent=table.dependent,
    )


def tidy_files(release: Path, description: Description) -> list[TidyFile]:
    """Return the tables of tables/ that follow from the other files of a release."""
    resources = resources_of(release, description, file_names(release))
    return [_tidy_file(description, each, resources, tidy) for each in resources if not each.twin for tidy in each.tidy]


def _tidy_file(description: Description, resource: Resource, others: Sequence[Resource], tidy: Tidy) -> TidyFile:
    path, sources = f"{TIDY_FOLDER}/{fill(tidy.path, resource.where)}", tuple(resource.files())
    columns = _columns(description, tidy.columns or resource.columns, resource.key, tidy)
    cells, estimates = "", {}
    if resource.sums:
        cells = next(each.paths[0] for each in others if each.name == resource.sums)
        of = [each for each in others if each.of == resource.name and each.twin == "" and not each.is_text]
        at = {tuple(where.items()): file for each in of for file, where in each.files()}
        estimates = {file: at[key] for file, where in sources if (key := tuple(where.items())) in at}
        columns = [each for each in columns if estimates or not each.column.optional]
    digits = resource.columns[0].digits
    return TidyFile(
        f"{path}.csv", f"{path}.parquet", sources, tuple(columns), cells, estimates, digits, tidy.only, tidy.summed
    )


def _columns(description: Description, columns: Sequence[Column], key: Sequence[str], tidy: Tidy) -> list[TidyColumn]:
    """Return the columns of a tidy table, in order: where, who, what, how many.

    columns, key: those of its table or file.
    """
    made = [_fixed("table", "the table", tidy.table)]
    for name in dict.fromkeys([*(match[1] for match in PLACEHOLDER.finditer(tidy.path)), *tidy.parts]):
        titles = _texts(description.names.get(name, {}))
        made.append(TidyColumn(Column(name, "text", f"the {name}"), (f"{{{name}}}",), titles, f"{{{name}}}"))
    if tidy.level:
        made.append(_fixed("level", "the level", tidy.level))
    shown = {column.name: column for column in columns if column.name not in tidy.left_out}
    keys = {name for name, each in shown.items() if name in (tidy.key or key) or (key == ("*",) and not each.role)}
    for column in (shown[name] for name in shown if name in keys):
        made += _keys(description, column, tidy)
        if tidy.cells[-1:] == (column.name,):
            words = Column("category", "text", f"{tidy.by or 'what is counted'}, in words")
            made.append(TidyColumn(words, tidy.cells, tidy.rows))
    if tidy.rows and not tidy.cells:
        made.append(_fixed("category", "what is counted, in words", tidy.rows[()]))
    made.append(_fixed("unit", "what is counted", tidy.unit))
    for column in (shown[name] for name in shown if name not in keys):
        is_text = column.type == "string"
        made += _keys(description, column, tidy) if is_text else [TidyColumn(_plain(column), (column.name,))]
    return list(_with_names_once(made))


def _with_names_once(made: Sequence[TidyColumn]) -> Iterator[TidyColumn]:
    """Yield columns under different names: those of a declaration may be any. They refer to each other by these."""
    taken: dict[str, str] = {}
    for each in made:
        name = each.column.name
        while name.casefold() in taken:
            name += "_2"
        taken[name.casefold()] = name
    names = [*taken.values()]
    numbers = {
        each.sources[0]: name for each, name in zip(made, names, strict=True) if each.column.role not in ("", "count")
    }
    for each, name, behind in zip(made, names, [*names[1:], ""], strict=True):
        column = replace(each.column, name=name, names=behind if each.column.names else "")
        yield replace(each, column=replace(column, of=numbers.get(column.of, "")))


def _fixed(name: str, meaning: str, text: str) -> TidyColumn:
    return TidyColumn(Column(name, "text", meaning), (), {(): text})


def _texts(words: Mapping[str, str]) -> Words | Listing | None:
    return {(code,): text for code, text in words.items()} or None


def _plain(column: Column, **changes: Any) -> Column:
    """Return a column of a table under the name that users see, without what holds in its table alone."""
    name = column.frame or column.name
    kept = {each: getattr(column, each) for each in ("type", "title", "role", "of", "level", "whole", "optional")}
    return Column(name, column.unit, column.meaning, **kept | changes)


def _keys(description: Description, column: Column, tidy: Tidy) -> Iterator[TidyColumn]:
    """Yield the code, or the number, of a key, and its name or words if it has some."""
    code, texts = _plain(column), {} if column.name in REGION_KEY else column.codes
    if tidy.cells == (column.name,):  # the words are the category
        yield TidyColumn(replace(code, name="category_code"), (column.name,), key=column.name)
        return
    source, recode = tidy.recoded.get(column.name, (column.name, {value: value for value in texts}))
    sources, words = _listing(description, column) or (
        (source,),
        _texts({value: texts[own] for value, own in recode.items()} if texts else {}),
    )
    stem = code.name.removesuffix("_code")
    if words is not None and not column.region:
        code = replace(code, name=f"{stem}_code", names=stem)
    yield TidyColumn(code, (source,), _texts(recode) if column.name in tidy.recoded else None, column.name)
    if words is not None:
        label = (column.names or f"{code.name}_name") if column.region else stem
        title = "" if column.region else code.title
        words_of = Column(label, "text", f"{column.meaning}: its name", title=title, optional=column.optional)
        yield TidyColumn(words_of, sources, words)


def _listing(description: Description, column: Column) -> tuple[tuple[str, ...], Listing] | None:
    """Return the columns that a column's text is looked up by, and the table of the release with these texts."""
    for table in description.tables:
        named = next((each.name for each in table.columns if each.role == "name"), "")
        listing = Listing(table.text, table.key, named)
        if named and table.key == REGION_KEY and column.region:
            if column.region.startswith("{"):
                return (column.region.strip("{}"), column.name), listing
            return (column.name,), replace(listing, kind=column.region)
        if named and table.key != REGION_KEY and table.key[-1:] == (column.name,):
            return table.key, listing
    return None
