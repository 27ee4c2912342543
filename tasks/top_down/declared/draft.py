"""A first draft of a declaration, from a public table of leaves and axes as they are typed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from spine.declaration.form import closed_range, is_writable

NAMED = re.compile(r"([A-Za-z][A-Za-z0-9_]{0,63})=(.+)")
VALUE = re.compile(r"\[([^\[\]]+)\]|([^,\[\]]+)")
EXAMPLE = 'a top-coded age: values = ["0-99", ["100-120"]]; labels = [...] names the cells'

Cells = list[str | list[str]]


def read_axis(text: str) -> tuple[str, Cells]:
    """Return name and values of an axis, typed as `sex=1,2` or `age=0-99,[100-120]`; brackets make one cell.

    Raises ValueError, whose text has the axis to type.
    """
    named = NAMED.fullmatch(text.strip())
    if named is None or VALUE.sub("", named[2]).strip(", "):
        raise ValueError('write a name and its values, as "sex=1,2" or "age=0-99,[100-120]"')
    cells: Cells = []
    for together, alone in VALUE.findall(named[2]):
        if closed := closed_range(alone.strip()):
            single, rest = closed
            works = named[2].replace(alone.strip(), f"{single},[{rest}]")
            raise ValueError(f'{alone.strip()} has no end: write "{named[1]}={works}", with the largest value there is')
        cells.append([part.strip() for part in together.split(",")] if together else alone.strip())
    return named[1], cells


def draft(file: str, leaves: Mapping[str, Sequence[str]], axes: Mapping[str, Cells]) -> tuple[str, list[str]]:
    """Return a declaration in TOML, with comments, and the columns of the table that it needs: levels, key and names.

    file: the name of the table; leaves: its columns. Raises ValueError for a table that has a column with the name of
    an axis, or no column with another code in every row. No message has a value of the table.
    """
    key = next((name for name, codes in leaves.items() if len({*codes}) == len(codes)), None)
    if clash := [name for name in leaves if name.casefold() in {axis.casefold() for axis in axes}]:
        raise ValueError(
            f"it looks like records, not places: it has the column {clash[0]} of an axis. A draft is made from public "
            "tables alone: give a table with a row for every place"
        )
    if key is None:
        raise ValueError(
            "it looks like records, not places: no column has another code in every row. Give a table with a row for "
            "every place, and a column that names it"
        )
    columns = _levels(leaves, key)
    names = _names(leaves, [*columns, key])
    return "\n".join(_lines(file, key, columns, names, axes)) + "\n", [*columns, key, *names.values()]


def _levels(leaves: Mapping[str, Sequence[str]], key: str) -> list[str]:
    """Return the columns that divide the leaves further and further; the key ends them.

    They are in the order of the table, or in the opposite one where that has more: many tables begin with the key.
    """
    names = [*leaves]
    at = names.index(key)
    # a table whose key comes last among its places has figures after it
    columns = [name for name in (names[:at] or names[1:]) if not _are_distinct_names(leaves[name])]
    given, read = _divided(leaves, columns)
    opposite, _ = _divided(leaves, read[::-1])
    if len(opposite) <= len(given):
        return given
    # the first that divides the leaves alike is the code, not the name
    return [next(other for other in columns if _divide_alike(leaves[other], leaves[name])) for name in opposite]


def _divided(leaves: Mapping[str, Sequence[str]], columns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the columns that divide the leaves further, one after another, and all columns that were read.

    Reading stops before the column with which every leaf is a group of its own.
    """
    rows = len(next(iter(leaves.values())))
    joined: list[tuple[str, ...]] = [()] * rows
    found, read = list[str](), list[str]()
    for name in columns:
        finer = [(*above, code) for above, code in zip(joined, leaves[name], strict=True)]
        if len({*finer}) == rows:
            break
        read.append(name)
        if len({*finer}) > max(1, len({*joined})):
            found.append(name)
            joined = finer
    return found, read


def _are_distinct_names(texts: Sequence[str]) -> bool:
    """Return whether a column may be the key's, or its names: no text twice, and one with a letter."""
    return len({*texts}) == len(texts) and any(any(map(str.isalpha, text)) for text in texts)


def _divide_alike(one: Sequence[str], other: Sequence[str]) -> bool:
    return len({*one}) == len({*other}) == len({*zip(one, other, strict=True)})


def _names(leaves: Mapping[str, Sequence[str]], columns: Sequence[str]) -> dict[str, str]:
    """Return by the column of a level the one with the names of its units: texts with letters, one a unit, distinct.

    If there are several, the one whose name begins as that of the level.
    """
    found: dict[str, str] = {}
    codes: list[tuple[str, ...]] = [()] * len(leaves[columns[-1]])
    for column in columns:
        above, codes = codes, [(*each, code) for each, code in zip(codes, leaves[column], strict=True)]
        units = len({*codes})
        named = [
            name
            for name in sorted({*leaves} - {*columns, *found.values()}, key=lambda name: not name.startswith(column))
            if all(is_writable(text) and any(map(str.isalpha, text)) for text in leaves[name])
            and len({*zip(codes, leaves[name], strict=True)}) == len({*zip(above, leaves[name], strict=True)}) == units
        ]
        found |= dict(zip([column], named, strict=False))
    return found


def _lines(
    file: str, key: str, columns: Sequence[str], names: Mapping[str, str], axes: Mapping[str, Cells]
) -> Iterator[str]:
    yield "# A first draft, made from a public table alone. Read every line; then `das tda explain` says what it means."
    yield 'name = "draft"                  # in the address of the noise'
    yield 'records = "person"              # or "household": what a row of the records is'
    yield 'budget = "1"                    # rho of a record that is replaced by another, all levels together: set it'
    yield f"leaves = {{ file = {_quoted(file)}, key = {_quoted(key)} }}   # a row for every place that may have records"
    yield ""
    yield "# Levels, the top first, each with an equal share. Delete what is not geography; add what is missing."
    yield from ("[[levels]]", 'name = "all"')
    for at, column in enumerate([*columns, key]):
        yield from ("[[levels]]", f"name = {_quoted(_level_name(column, at))}", f"columns = [{_quoted(column)}]")
        yield from (
            [f"names = {_quoted(names[column])}   # of its units, in tables and pages"] if column in names else []
        )
    yield ""
    yield "# Axes: a value a cell; [..] in the list makes one cell of several values. `column` is that of the records."
    yield f"# {EXAMPLE}"
    for name, cells in axes.items():
        yield from (f"[axes.{name}]", f"column = {_quoted(name)}", f"values = {_quoted(cells)}")
    yield ""
    yield '# Shares of the budget: axes and groups of their cells, joined by *, as "sex*age"; `detailed` is every cell.'
    yield "# Ask for every sum that you want a margin for: `das tda estimate RELEASE OUT --estimator gls` makes it."
    yield from ("[queries]", 'total = "1/2"', 'detailed = "1/2"', "")
    yield "# Numbers of records that are public already, of the units of a level:"
    yield "# [[totals]]"
    yield f"# of = {_quoted(columns[0] if columns else key)}"
    yield '# file = "totals.csv"'


def _quoted(value: str | Cells) -> str:
    """Return a text or a list in TOML: as JSON, without surrogate pairs, and with U+007F escaped."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _level_name(column: str, at: int) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", column)[:64]
    return name if re.match("[A-Za-z]", name) and name != "all" else f"level_{at + 1}"
