"""Describe the tables of a system's releases, once: columns, keys, files, and the count that a margin belongs to.

From a Description follow the datapackage.json and dictionary.csv of every release, and what reads these: `das show`,
`das check`, `read_release` and the tables of docs/spec/files.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Literal

Role = Literal["count", "estimate", "margin", "standard error", "variance", "declared", "name", "latitude", "longitude"]
Noise = Mapping[str, str | int | float]
TIDY_FOLDER = "tables"
PLACEHOLDER = re.compile(r"\{(\w+)(=\w+|\*|)\}")


@dataclass(frozen=True)
class Column:
    """A column of tables: a field of a Table Schema.

    name, unit, meaning: the name may be a pattern: `se_*`, or `*` for all columns without another description.
    codes: the possible values with their meanings, if they are few.
    type: a type of Table Schema. An integer column may be text in Parquet if some rows have a code of `missing`.
    title: a heading; by default from `frame` or the name.
    missing: texts that stand for a missing value.
    role, of: the role of its numbers, and the column that they are the margin, estimate or error of, if the table has
    several counts.
    frame: its name in `read_release`; its own by default.
    labels: whether `read_release` has the meanings of its codes.
    region, digits, names: the region type of its codes, such as `COUNTY`, or the column with the type, `{REGION_TYPE}`;
    how many of the last digits are the code, if not all; the column of `read_release` with the regions' names, or in
    tables/ the one with the words of its codes.
    level: the level of a declaration whose units it names, next to the columns of the levels above.
    total: the code of rows that are sums over other codes.
    overlap: whether a record is counted under several codes, so that counts must not be summed over them.
    whole: the number that tables/ has for a text of `missing`, in rows of sums: no integer there is empty.
    in_text, optional: whether text files have the column, too; whether a file may lack it.
    """

    name: str
    unit: str
    meaning: str
    codes: Mapping[str, str] = field(default_factory=dict)
    _: KW_ONLY
    type: str = "string"
    title: str = ""
    missing: tuple[str, ...] = ()
    role: Role | Literal[""] = ""
    of: str = ""
    frame: str = ""
    labels: bool = False
    region: str = ""
    digits: int = 0
    names: str = ""
    level: str = ""
    total: str = ""
    overlap: bool = False
    whole: int | None = field(default=None, compare=False)
    in_text: bool = True
    optional: bool = False


integer, number = partial(Column, type="integer"), partial(Column, type="number")


def count_and_margin(unit: str, count: str, margin: str, *, type: str = "integer") -> tuple[Column, Column]:
    """Return the columns of published counts and of their margins; text files lack the margins."""
    return (
        Column("COUNT", unit, count, type=type, role="count", frame="count"),
        Column("MOE", unit, margin, type=type, role="margin", of="COUNT", frame="margin", in_text=False),
    )


@dataclass(frozen=True)
class Reference:
    """A foreign key: these columns hold a key of the named table."""

    columns: tuple[str, ...]
    table: str
    key: tuple[str, ...]


@dataclass(frozen=True)
class Tidy:
    """A table's rows as they appear in tables/ (tidy.py).

    path: its files there without their ends, with the placeholders of the table's own files but `parts`, whose names
    are a column of one file. table, unit, by: its name, what it counts, and the characteristic of its rows, in words.
    level: the level of all rows, where no placeholder says it. title: the table's, if not that of the other.
    cells, rows: the columns that say what a row counts, and the words for their values.
    columns, key: those that its rows are made from, where they are other than the table's; recoded: by such a column
    the one of the table that it follows from, and its value for those of that one. only: by column the values of the
    rows that it has. summed: whether rows with the same texts are added up.
    left_out: columns that tables/ has not.
    """

    path: str
    table: str
    unit: str
    _: KW_ONLY
    by: str = ""
    level: str = ""
    title: str = ""
    cells: tuple[str, ...] = ()
    rows: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    parts: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    key: tuple[str, ...] = ()
    recoded: Mapping[str, tuple[str, Mapping[str, str]]] = field(default_factory=dict)
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    summed: bool = False
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table, or all tables of one shape.

    title: may have the placeholders of its files.
    columns, key, references: a file has those of them whose columns it has.
    text, parquet: its files as text and as Parquet, with the same rows. A placeholder, as in `t1/{level}.csv`, matches
    any name, `{rest*}` also subfolders, `{level=County}` that name only.
    delimiter: the text's; with `|` nothing is quoted.
    split: the placeholder whose files are parts of one table. Each name of another placeholder is a separate table.
    counts: whether `read_release` has its counts.
    of: the table with the counts behind its estimates and margins.
    sums: the table of the named sums of its cells, which `read_release` returns instead.
    dependent: whether the errors of its rows are dependent, so that the margin of a sum has no law.
    tidy: the tables of tables/ that are made of it.
    """

    title: str
    columns: tuple[Column, ...]
    _: KW_ONLY
    text: str = ""
    parquet: str = ""
    delimiter: str = "|"
    key: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    split: str = ""
    counts: bool = False
    of: str = ""
    sums: str = ""
    dependent: bool = False
    tidy: tuple[Tidy, ...] = ()

    @property
    def patterns(self) -> list[str]:
        """Its files, Parquet first."""
        return [pattern for pattern in (self.parquet, self.text) if pattern]

    @property
    def has_counts(self) -> bool:
        """Whether it has noisy counts."""
        return any(column.role == "count" for column in self.columns)

    def column(self, name: str) -> Column | None:
        """Return the column that describes a file's column, or None."""
        named = [column for column in self.columns if fnmatchcase(name, column.name)]
        return next((column for column in named if column.name == name), named[0] if named else None)


@dataclass(frozen=True)
class Description:
    """The tables of a release.

    noise: maps a table's name to the laws of its counts. A law has the `margin` of its rows unless it covers all, and
    `cells`, the number of draws that a row sums, unless the margin determines it.
    names: by placeholder, its possible names in order, with their words; a placeholder that is missing here may have
    any name.
    others: patterns of files that are not tables. required: files that must exist.
    """

    tables: tuple[Table, ...]
    noise: Callable[[str], Sequence[Noise]] = lambda _: ()
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    others: tuple[str, ...] = ("report.html",)
    required: tuple[str, ...] = ()

    def table_of(self, file: str) -> tuple[Table, str, dict[str, str]] | None:
        """Return the table of a file, its pattern, and the names in placeholders; None for a file of no table."""
        for table in self.tables:
            for pattern in table.patterns:
                match = _expression(pattern).fullmatch(file)
                if match and all(name in self.names.get(key, (name,)) for key, name in match.groupdict().items()):
                    return table, pattern, match.groupdict()
        return None

    def is_other(self, file: str) -> bool:
        """Return whether a release file is not a table."""
        return any(_expression(pattern).fullmatch(file) for pattern in self.others)

    def required_columns(self, file: str) -> list[str]:
        """Return the columns that a file of a table must have."""
        found = self.table_of(file)
        columns = found[0].columns if found else ()
        in_parquet = file.endswith(".parquet")
        return [
            column.name
            for column in columns
            if not column.optional and "*" not in column.name and (column.in_text or in_parquet)
        ]


def dictionary_rows(tables: Sequence[Table], files: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield (files, column, unit, code, meaning) of the tables of these files: a row per column and per code."""
    for table in tables:
        for pattern in table.patterns:
            if not any(map(_expression(pattern).fullmatch, files)):
                continue
            for column in table.columns:
                if column.in_text or pattern == table.parquet:
                    wildcard = PLACEHOLDER.sub(lambda match: match[2][1:] or "*", pattern)
                    yield wildcard, column.name, column.unit, "", column.meaning
                    yield from ((wildcard, column.name, "", *code) for code in column.codes.items())


def fill(pattern: str, names: Mapping[str, str]) -> str:
    """Return the file of a pattern with these names in its placeholders."""
    return PLACEHOLDER.sub(lambda match: names[match[1]], pattern)


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    parts: list[str] = PLACEHOLDER.split(pattern)
    names = (
        f"(?P<{name}>{'.+' if which == '*' else which[1:] or '[^/]+'})"
        for name, which in zip(parts[1::3], parts[2::3], strict=True)
    )
    return re.compile("".join(re.escape(text) + next(names, "") for text in parts[::3]))
