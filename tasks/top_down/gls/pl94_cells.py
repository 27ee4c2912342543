"""The cells of the redistricting tables P1 to P5 as sums of cells of the histogram.

P1 race; P2 Hispanic origin, and race of those who are not Hispanic; P3 and P4 the same of those 18 and over; P5 group
quarters by type (2020 Census National Redistricting Data Summary File, technical documentation, chapter 5). A cell is
named as there, table and number: P0010001 to P0050010.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, pairwise
from math import comb

from spine.top_down.histogram import TYPES
from tasks.pages.words import ALONE, COMBINATIONS, QUARTERS

Cell = tuple[str, Sequence[int], Sequence[int], Sequence[int], Sequence[int]]  # types, voting ages, Hispanic, races
ALL_TYPES, BOTH = range(TYPES), (0, 1)
SIZES = list(pairwise(accumulate((comb(6, races) for races in range(1, 7)), initial=0)))  # CENRACE, from 0, by how many
ALL_RACES = range(SIZES[-1][1])
INSTITUTIONAL, OTHER = range(1, 5), range(5, TYPES)
TABLES = {
    "P1": "Race",
    "P2": "Hispanic origin, and race of those who are not Hispanic",
    "P3": "Race, 18 and over",
    "P4": "Hispanic origin, and race of those who are not Hispanic, 18 and over",
    "P5": "Group quarters by type",
}
COUNTED = ("one race", "two races", "three races", "four races", "five races", "six races")


def _races() -> Iterator[Sequence[int]]:
    """Yield the races below a total: one race, each; two or more; then of two, of three, ... races, all and each."""
    for number, (first, last) in enumerate(SIZES):
        if number == 1:
            yield range(first, ALL_RACES.stop)
        yield range(first, last)
        yield from ((race,) for race in range(first, last))


def pl94_cells() -> list[Cell]:
    """Return the 298 cells of P1 to P5, in the tables' order."""
    races = [ALL_RACES, *_races()]
    cells: list[Cell] = []
    for table, ages, by_origin in ((1, BOTH, False), (2, BOTH, True), (3, (1,), False), (4, (1,), True)):
        of: list[tuple[Sequence[int], Sequence[int]]] = [((0,) if by_origin else BOTH, race) for race in races]
        above: list[tuple[Sequence[int], Sequence[int]]] = [(BOTH, ALL_RACES), ((1,), ALL_RACES)] if by_origin else []
        for number, (origin, race) in enumerate([*above, *of], start=1):
            cells.append((f"P{table:03d}{number:04d}", ALL_TYPES, ages, origin, race))
    quarters: list[Sequence[int]] = [range(1, TYPES)]
    for group in (INSTITUTIONAL, OTHER):
        quarters += [group, *((kind,) for kind in group)]
    cells += [(f"P005{number:04d}", kind, BOTH, BOTH, ALL_RACES) for number, kind in enumerate(quarters, start=1)]
    return cells


def table_of_cell(name: str) -> str | None:
    """Return the table that a count is a cell of, P1 to P5; None for other counts."""
    return f"P{name[3]}" if name in cell_titles() else None


@cache
def cell_titles() -> dict[str, str]:
    """Return the cells in words, by their names."""
    return {
        name: _quarters(kinds) if name[3] == "5" else _race(origin, race)
        for name, kinds, _, origin, race in pl94_cells()
    }


def _quarters(kinds: Sequence[int]) -> str:
    sums = {range(1, TYPES): "all group quarters", INSTITUTIONAL: "institutional", OTHER: "noninstitutional"}
    return QUARTERS[kinds[0]] if len(kinds) == 1 else sums[range(kinds[0], kinds[-1] + 1)]


def _race(origin: Sequence[int], race: Sequence[int]) -> str:
    """Return a cell in words; a sum of races is a range, a race a tuple."""
    sums = {ALL_RACES: "", range(SIZES[1][0], ALL_RACES.stop): "two or more races"}
    sums |= {range(*size): words for size, words in zip(SIZES, COUNTED, strict=True)}
    words = sums[race] if isinstance(race, range) else COMBINATIONS[race[0]] + " alone" * (race[0] < len(ALONE))
    of = {BOTH: "", (1,): "Hispanic", (0,): "not Hispanic"}[tuple(origin)]
    return ": ".join(filter(None, (of, words))) or "everybody"
