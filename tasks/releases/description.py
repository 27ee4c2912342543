"""What the tables of a system's releases are, said once: columns, keys, files, and which count a margin is of.

From a Description follow datapackage.json and dictionary.csv of every release, and from these what reads a release:
`das show`, `das check`, `read_release` and the tables of docs/spec/files.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Literal

Role = Literal["count", "estimate", "margin", "standard error", "variance", "declared", "name", "latitude", "longitude"]
Noise = Mapping[str, str | int | float]
PLACEHOLDER = re.compile(r"\{(\w+)(=\w+|\*|)\}")


@dataclass(frozen=True)
class Column:
    """A column of tables: a field of a Table Schema.

    name, unit, meaning: the name may be a pattern: `se_*`, or `*` for every column that no other describes.
    codes: the values that it can have, with their meanings, where they are few.
    type: of Table Schema. An integer may be text in Parquet where some rows have a code of `missing`.
    title: a heading; the name in `frame` or its own by default.
    missing: texts that stand for no value.
    role, of: what its numbers are, and the column whose margin, estimate or error they are, where that is not the only
    count.
    frame: its name in `read_release`; its own by default.
    labels: whether `read_release` has the meanings of its codes.
    region, digits, names: the type of the regions that it holds codes of, `COUNTY`, or the column that has it,
    `{REGION_TYPE}`; how many of its last digits are the code, where not all are; the column of `read_release` that has
    the regions' names.
    total: the code in rows that are sums of rows with other codes.
    overlap: whether one record is counted under several of its codes, so that counts may not be summed over them.
    in_text, optional: whether text files have it, too; whether a file may lack it.
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
    total: str = ""
    overlap: bool = False
    in_text: bool = True
    optional: bool = False


integer, number = partial(Column, type="integer"), partial(Column, type="number")


def count_and_margin(unit: str, count: str, margin: str, *, type: str = "integer") -> tuple[Column, Column]:
    """Return the columns of published counts and of their margins, which text has not."""
    return (
        Column("COUNT", unit, count, type=type, role="count", frame="count"),
        Column("MOE", unit, margin, type=type, role="margin", of="COUNT", frame="margin", in_text=False),
    )


@dataclass(frozen=True)
class Reference:
    """A foreign key: these columns hold a key of the table of this name."""

    columns: tuple[str, ...]
    table: str
    key: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table, or all tables of one shape.

    title: may have the placeholders of its files.
    columns, key, references: of those of its columns that a file has.
    text, parquet: its files as text and as Parquet with the same rows. A placeholder, as in `t1/{level}.csv`, stands
    for any name, `{rest*}` also for names of folders within, `{level=County}` for the one name.
    delimiter: between the columns of text; with `|` nothing is quoted.
    split: the placeholder whose files are parts of one table; of every other placeholder each name is a table.
    counts: whether `read_release` has its counts.
    of: the table whose counts its estimates and margins are of.
    sums: the table of the named sums of its cells, which `read_release` has in their place.
    dependent: whether the errors of its rows depend on each other, so that no law gives the margin of a sum.
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

    @property
    def patterns(self) -> list[str]:
        """Its files, Parquet first."""
        return [pattern for pattern in (self.parquet, self.text) if pattern]

    @property
    def has_counts(self) -> bool:
        """Whether it has noisy counts."""
        return any(column.role == "count" for column in self.columns)

    def column(self, name: str) -> Column | None:
        """Return the column that describes one of a file; None where there is none."""
        named = [column for column in self.columns if fnmatchcase(name, column.name)]
        return next((column for column in named if column.name == name), named[0] if named else None)


@dataclass(frozen=True)
class Description:
    """The tables of a release.

    noise: returns the laws of the counts of a table by its name, each with the `margin` of the rows that it is of,
    where that is not all, and `cells`, the draws that such a row sums, where its margin alone does not say how many.
    names: by placeholder the names that it can have, in order, with their words; one that is not here has any.
    others: patterns of the files that are no tables. required: the files that must be there.
    """

    tables: tuple[Table, ...]
    noise: Callable[[str], Sequence[Noise]] = lambda _: ()
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    others: tuple[str, ...] = ("report.html",)
    required: tuple[str, ...] = ()

    def table_of(self, file: str) -> tuple[Table, str, dict[str, str]] | None:
        """Return the table that a file is of, its pattern, and the names in placeholders; None where it is none."""
        for table in self.tables:
            for pattern in table.patterns:
                match = re.fullmatch(_expression(pattern), file)
                if match and all(name in self.names.get(key, (name,)) for key, name in match.groupdict().items()):
                    return table, pattern, match.groupdict()
        return None

    def is_other(self, file: str) -> bool:
        """Return whether a file is one of the release that is no table."""
        return any(re.fullmatch(_expression(pattern), file) for pattern in self.others)

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
    """Yield (files, column, unit, code, meaning) of the tables that are there: a row a column and a row a code."""
    for table in tables:
        for pattern in table.patterns:
            if not any(re.fullmatch(_expression(pattern), file) for file in files):
                continue
            for column in table.columns:
                if column.in_text or pattern == table.parquet:
                    wildcard = PLACEHOLDER.sub(lambda match: match[2][1:] or "*", pattern)
                    yield wildcard, column.name, column.unit, "", column.meaning
                    yield from ((wildcard, column.name, "", *code) for code in column.codes.items())


def fill(pattern: str, names: Mapping[str, str]) -> str:
    """Return the file of a pattern for these names in its placeholders."""
    return PLACEHOLDER.sub(lambda match: names[match[1]], pattern)


def _expression(pattern: str) -> str:
    """Return the regular expression of a pattern of files."""
    parts: list[str] = PLACEHOLDER.split(pattern)
    names = (
        f"(?P<{name}>{'.+' if which == '*' else which[1:] or '[^/]+'})"
        for name, which in zip(parts[1::3], parts[2::3], strict=True)
    )
    return "".join(re.escape(text) + next(names, "") for text in parts[::3])
