"""The histogram that a declaration describes: axes, recodes and zeros, in the order of the file."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from privacy.tables.histogram import Axis, Count, Histogram, Recode
from spine.declaration.form import (
    AxisForm,
    Fault,
    Form,
    RecodeForm,
    TableForm,
    expanded,
    is_writable,
)
from spine.top_down.histogram import Product
from spine.top_down.queries import DETAILED, TOTAL

MOST_CELLS = 1 << 24  # that a process holds with their queries
LONGEST_NAME = 64  # letters of a column's name
RESERVED = (TOTAL, DETAILED, "rest", "cells")  # in queries and passes; a folder of a release
COLUMNS = ("count", "query", "value", "share", "parameter", "variance")  # columns of a release, besides its codes
OF_MARGINS = ("part", "released", "estimate", "standard_error", "estimate_margin")  # beside codes of a level alone
NEGATED = "not:"


def cell_values(axis: AxisForm) -> list[tuple[str, ...]]:
    """Return the values that a column may have in each cell of an axis. Raises ValueError as `expanded`."""
    cells: list[tuple[str, ...]] = []
    for each in axis.values:
        if isinstance(each, str):
            cells += [(value,) for value in expanded(each)]
        else:
            cells.append(tuple(value for text in each for value in expanded(text)))
    return cells


def coordinates(axis: AxisForm) -> dict[str, int]:
    """Return the coordinate of each value that a column may have."""
    return {value: cell for cell, values in enumerate(cell_values(axis)) for value in values}


def _axis(name: str, form: AxisForm) -> Axis:
    """Return an axis; a cell of several values has the code `first-last`."""
    cells = cell_values(form)
    if not cells or not all(cells):
        raise ValueError("it has no cell, or a cell without a value")
    codes = [values[0] if len(values) == 1 else f"{values[0]}-{values[-1]}" for values in cells]
    texts = (*codes, *form.labels, name, form.words or name)
    if wrong := [text for text in texts if not is_writable(text)]:
        raise ValueError(f"{wrong[0]!r:.50} is empty, has | or \" or a line's end, or is a formula: write it otherwise")
    values = Counter(value for cell in cells for value in cell)
    if (twice := next((value for value, number in values.items() if number > 1), None)) is not None:
        raise ValueError(f"the value {twice!r} is in two cells")
    if form.labels and len(form.labels) != len(codes):
        raise ValueError(f"there are {len(form.labels)} labels for {len(codes)} cells")
    return Axis(name, form.words or name, form.labels or tuple(codes), form.column, tuple(codes))


def _recode(name: str, form: RecodeForm, axis: Axis, values: list[tuple[str, ...]]) -> Recode:
    """Return a recode of an axis. Raises ValueError where it does not put each cell into one part."""
    if sum(given is not None for given in (form.parts, form.width, form.starts)) != 1:
        raise ValueError("it needs one of from, width and starts")
    if form.width is not None:
        part = [cell // form.width for cell in range(len(axis))]
    elif form.starts is not None:
        if not all(value[0].isdigit() for value in values) or any(a >= b for a, b in pairwise(form.starts)):
            raise ValueError("starts need an axis of numbers, and must ascend")
        part = [sum(int(value[0]) >= start for start in form.starts) - 1 for value in values]
        if min(part, default=-1) < 0:
            raise ValueError(f"the cell {axis.codes[part.index(-1)]} is below the first start")
    else:
        parts_of: dict[str, set[int]] = defaultdict(set)
        for at, each in enumerate(form.parts or ()):
            for text in (each,) if isinstance(each, str) else each:
                for value in expanded(text):
                    parts_of[value].add(at)
        inside = [set[int]().union(*(parts_of[value] for value in own)) for own in values]
        if (bad := next((code for code, at in zip(axis.codes, inside, strict=True) if len(at) != 1), None)) is not None:
            raise ValueError(f"the cell {bad} of {axis.name} is in no part, or in two")
        part = [at for (at,) in inside]
    number = max(part) + 1
    if set(part) != set(range(number)):
        raise ValueError("a part has no cell")
    if form.labels and len(form.labels) != number:
        raise ValueError(f"there are {len(form.labels)} labels for {number} parts")
    labels = form.labels or tuple(_part_label(axis, part, at) for at in range(number))
    words = form.words or f"{axis.words} in {number} groups"
    if not all(map(is_writable, (*labels, words))) or len({*labels}) < len(labels):
        raise ValueError('labels are distinct, not empty, and, as words, without |, ", line ends and formulas')
    return Recode(name, axis.name, tuple(part), labels, words)


def _part_label(axis: Axis, part: list[int], at: int) -> str:
    inside = [label for label, own in zip(axis.labels, part, strict=True) if own == at]
    ranges = [closed[1] for label in (inside[0], inside[-1]) if (closed := re.fullmatch(r"(?:\d+-)?(\d+)", label))]
    if len(inside) > 1 and len(ranges) == 2:  # of whole numbers: they have an order
        return f"{inside[0].partition('-')[0]} to {ranges[1]}"
    return inside[0] if len(inside) == 1 else f"{inside[0]} to {inside[-1]}"


def read_product(form: Form) -> tuple[Product | None, list[Fault]]:
    """Return the histogram of a leaf with what it is bounded by, or None and every fault."""
    histogram, faults = read_histogram(form, MOST_CELLS)
    if histogram is None:
        return None, faults
    product = Product(
        histogram.axes,
        histogram.recodes,
        histogram.zeros,
        name=form.name,
        counts=(Count("total", f"{form.records}s"),),
        bounded=TOTAL
        if form.is_wide
        else (form.partitions or [TOTAL])[0]
        if form.one_partition
        else tuple(form.partitions),
    )
    if not product.possible.any():
        return None, [Fault("zeros", "every cell is a zero: no record could be in any")]
    return product, []


def read_histogram(form: TableForm, most: int) -> tuple[Histogram | None, list[Fault]]:
    """Return the histogram of a declaration's axes, or None and every fault of its axes, recodes and zeros.

    most: the cells that it may have.
    """
    faults: list[Fault] = []
    axes: dict[str, Axis] = {}
    recodes: dict[str, Recode] = {}
    for name, axis in form.axes.items():
        try:
            axes[name] = _axis(name, axis)
        except ValueError as error:
            faults.append(Fault(f"axes.{name}.values", str(error)))
    for name, recode in form.recodes.items():
        if recode.axis not in form.axes:
            faults.append(Fault(f"recodes.{name}.axis", f"there is no axis {recode.axis}"))
        elif recode.axis in axes:
            try:
                recodes[name] = _recode(name, recode, axes[recode.axis], cell_values(form.axes[recode.axis]))
            except ValueError as error:
                faults.append(Fault(f"recodes.{name}", str(error)))
    faults += _names(form)
    if np.prod([float(len(axis)) for axis in axes.values()]) > most:
        faults.append(Fault("axes", f"the table has more than {most:,} cells: merge values"))
    if faults:
        return None, faults
    zeros = tuple(_zero(form, at, axes, recodes, faults) for at in range(len(form.zeros)))
    return (None if faults else Histogram(tuple(axes.values()), tuple(recodes.values()), zeros)), faults


def _names(form: TableForm) -> Iterator[Fault]:
    """Yield names that are used twice, or that mean something else."""
    columns = [axis.column for axis in form.axes.values()]
    folded = [column.casefold() for level in form.levels for column in level.columns]
    folded += [level.name.casefold() for level in form.levels if level.made]  # a column of the release, too
    reserved = (*COLUMNS, *OF_MARGINS, TOTAL, *(["name"] if any(level.names for level in form.levels) else []))
    if doubles := [name for name in folded if folded.count(name) > 1 or name in reserved]:
        yield Fault(
            "levels.columns",
            f"the column {doubles[0]} is in two levels, or a column of releases or of totals: name it otherwise",
        )
    if wrong := [name for name in folded if not is_writable(name) or len(name) > LONGEST_NAME]:
        yield Fault("levels.columns", f"{wrong[0]!r:.50} is not a column name")
    taken = {*folded, *COLUMNS, *(level.name.casefold() for level in form.levels)}
    for kind, names in (("axes", form.axes), ("recodes", form.recodes)):
        if (double := next((name for name in names if name.casefold() in taken), None)) is not None:
            yield Fault(
                f"{kind}.{double}", f"{double} is a level, or a column of one or of releases: choose another name"
            )
        for name in names:
            if name in RESERVED or (kind == "recodes" and name in form.axes):
                yield Fault(f"{kind}.{name}", f"{name} has another meaning: choose another name")
    for name, axis in form.axes.items():
        if columns.count(axis.column) > 1:
            yield Fault(f"axes.{name}.column", f"two axes are read from the column {axis.column}")


def _zero(
    form: TableForm, at: int, axes: Mapping[str, Axis], recodes: Mapping[str, Recode], faults: list[Fault]
) -> dict[str, frozenset[int]]:
    """Return the condition of a structural zero by axis; add what is wrong with it to the faults."""
    where: dict[str, frozenset[int]] = {}
    for name, texts in form.zeros[at].where.items():
        key = f"zeros.{at}.where.{name}"
        if name not in axes and name not in recodes:
            faults.append(Fault(key, f"there is no axis or recode {name}"))
            continue
        axis = recodes[name].axis if name in recodes else name
        negated = texts[0].startswith(NEGATED) if texts else False
        try:
            values = {value for text in texts for value in expanded(text.removeprefix(NEGATED))}
        except ValueError as error:
            faults.append(Fault(key, str(error)))
            continue
        if name in recodes:
            labels = recodes[name].labels
            unknown = values - set(labels)
            chosen = {cell for cell, part in enumerate(recodes[name].part) if labels[part] in values}
        else:
            cells = cell_values(form.axes[axis])
            unknown = values - {value for cell in cells for value in cell}
            chosen = {number for number, cell in enumerate(cells) if set(cell) <= values}
        if unknown:
            faults.append(Fault(key, f"{name} has no value {min(unknown)!r}"))
        own = frozenset(set(range(len(axes[axis]))) - chosen if negated else chosen)
        where[axis] = where.get(axis, own) & own
    return where
