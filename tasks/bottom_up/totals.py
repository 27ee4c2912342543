"""Published totals that the counts of a bottom-up run are calibrated to."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import repeat
from pathlib import Path

from privacy.noise.exact import exact_number
from tasks.bottom_up.declared_histogram import DeclaredHistogram
from tasks.errors import Refused
from tasks.records.files import refuse_unreadable
from tasks.records.public_table import open_table

LARGEST_TOTAL = 1 << 53  # steps


@dataclass(frozen=True)
class PublishedTotals:
    """Published totals, in steps, by group of cells. Other groups are unpublished.

    names: the axes, levels and recodes that define the groups.
    """

    names: tuple[str, ...]
    published: dict[int, int]


def read_totals(path: Path, declared: DeclaredHistogram) -> PublishedTotals:
    """Read published totals: columns named as axes, levels or recodes, and TOTAL; an empty TOTAL is unpublished.

    Raises Refused with the first fault: an unknown column or code, a repeated group, or a total that is negative or not
    a multiple of the weights' grid.
    """
    with refuse_unreadable(path):
        file = open_table(str(path), delimiter=declared.form.delimiter)
        rows = file.read()
    try:
        total = file.columns(["TOTAL"])["TOTAL"]
        names = [name for name in rows.table.column_names if name != total]
        groups = declared.histogram.groups(declared.spelled(name) for name in names)
        published = {}
        codes = zip(*(rows.table[name].to_pylist() for name in names), strict=True) if names else repeat(())
        for line, own, text in zip(rows.lines.tolist(), codes, rows.table[total].to_pylist(), strict=bool(names)):
            number = groups.number(own)
            if number in published:
                raise ValueError(f"line {line} repeats a group")
            if text.strip():
                published[number] = _steps(text, declared.grid, line)
    except ValueError as error:
        raise Refused(f"{path}: {error}") from None
    return PublishedTotals(groups.names, published)


def _steps(text: str, grid: Fraction, line: int) -> int:
    try:
        steps = exact_number(text.strip()) / grid
    except ValueError as error:
        raise ValueError(f"line {line}: {text[:20]!r} {error}") from None
    if steps < 0 or steps.denominator != 1:
        raise ValueError(f"line {line}: a total must be a multiple of the grid, {grid}, and not negative; not {text}")
    if steps > LARGEST_TOTAL:
        raise ValueError(f"line {line}: a total is at most {LARGEST_TOTAL:,} steps of the grid")
    return int(steps)
