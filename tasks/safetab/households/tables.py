"""T3, household type, and T4, tenure: what their cells count, and which cells a table of each detail has.

The measured cells of a table partition the households; its other rows are sums of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privacy.tables.published import Published, PublishedRow
from tasks.releases.description import Description
from tasks.safetab.group_tables import GroupTables
from tasks.safetab.households.household import CELLS, TENURES, TYPES
from tasks.safetab.release_tables import describe


@dataclass(frozen=True)
class TableShell:
    """A table of households by a characteristic.

    name: in file names, such as `t3`. words: the characteristic. categories: the category of each record cell. cells:
    by number, the words of a published cell and the categories that it counts. measured: by detail, the cells that the
    table measures; the last detail distinguishes all categories.
    """

    name: str
    words: str
    categories: tuple[int, ...]
    cells: Mapping[int, tuple[str, frozenset[int]]]
    measured: tuple[tuple[int, ...], ...]

    @property
    def key(self) -> str:
        """Its name in keys of config.json, `h_t3`."""
        return f"h_{self.name}"

    @property
    def column(self) -> str:
        """The column of its cells, `T3_DATA_CELL`."""
        return f"{self.name.upper()}_DATA_CELL"

    @cached_property
    def details(self) -> tuple[str, ...]:
        """The names of its tables by detail, `T03001` and so on."""
        return tuple(f"T{int(self.name[1:]):02d}{number:03d}" for number in range(1, len(self.measured) + 1))

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """The number of measured cells by detail."""
        return np.array([len(cells) for cells in self.measured])

    def counted(self, detail: int) -> NDArray[np.int64]:
        """Return which record cells each measured cell counts: record cells x measured cells, 0 or 1."""
        return _inside([frozenset({category}) for category in self.categories], self._counts(self.measured[detail]))

    @cached_property
    def published(self) -> tuple[Published, ...]:
        """The table of each detail: the published cells, sorted, that are sums of measured ones."""
        title, parts = f"Households by {self.words}", map(self._counts, self.measured)
        return tuple(
            Published(code, f"{title} ({code})", self.name, "households", (self.column,), self._rows(own), self.words)
            for code, own in zip(self.details, parts, strict=True)
        )

    @cached_property
    def files(self) -> dict[str, dict[int, Published]]:
        """The tables of a release by name, each with its form by detail."""
        return {f"{self.name}/{each.name}": {detail: each} for detail, each in enumerate(self.published)}

    def _rows(self, parts: Sequence[frozenset[int]]) -> tuple[PublishedRow, ...]:
        """Return the rows of a table, from the categories that each measured cell counts."""
        rows = []
        for cell, (words, whole) in sorted(self.cells.items()):
            places = tuple(place for place, part in enumerate(parts) if part <= whole)
            if frozenset().union(*(parts[place] for place in places)) == whole:
                rows.append(PublishedRow((str(cell),), words, places))
        return tuple(rows)

    def onto(self, fine: int, coarse: int) -> NDArray[np.int64]:
        """Return which cells of a detail make up those of a coarser one: cells x cells, 0 or 1."""
        return _inside(self._counts(self.measured[fine]), self._counts(self.measured[coarse]))

    def _counts(self, cells: Iterable[int]) -> list[frozenset[int]]:
        """Return the categories that each published cell counts."""
        return [self.cells[cell][1] for cell in cells]


def _inside(parts: Sequence[frozenset[int]], wholes: Sequence[frozenset[int]]) -> NDArray[np.int64]:
    """Return which parts lie in each whole: parts x wholes, 0 or 1."""
    return np.array([[part <= whole for whole in wholes] for part in parts], np.int64)


T3 = TableShell(
    "t3",
    "household type",
    tuple(cell // TENURES + 1 for cell in range(CELLS)),
    {
        0: ("all households", frozenset(range(1, TYPES + 1))),
        1: ("family households", frozenset({1, 2, 3})),
        2: ("married couple families", frozenset({1})),
        3: ("other families", frozenset({2, 3})),
        4: ("other families, male householder, no spouse", frozenset({2})),
        5: ("other families, female householder, no spouse", frozenset({3})),
        6: ("nonfamily households", frozenset({4, 5})),
        7: ("nonfamily households, householder alone", frozenset({4})),
        8: ("nonfamily households, householder not alone", frozenset({5})),
    },
    ((0,), (1, 6), (2, 3, 7, 8), (2, 4, 5, 7, 8)),
)
T4 = TableShell(
    "t4",
    "tenure",
    tuple(cell % TENURES + 1 for cell in range(CELLS)),
    {
        0: ("all households", frozenset(range(1, TENURES + 1))),
        1: ("owned with a mortgage or a loan", frozenset({1})),
        2: ("owned free and clear", frozenset({2})),
        3: ("rented, or occupied without rent", frozenset({3})),
    },
    ((0,), (1, 2, 3)),
)
TABLES = {table.name: table for table in (T3, T4)}
TITLE = "Detailed DHC-B by SafeTab-H"  # `release` in manifests


@dataclass(frozen=True)
class HouseholdTypes(GroupTables):
    """T3 of the groups of a level: households by type."""

    TABLES, CELLS, BUDGET = T3.files, T3.widths, T3.key
    MADE, FINAL = "t3", "final_t3"


@dataclass(frozen=True)
class Tenures(GroupTables):
    """T4 of the groups of a level: households by tenure."""

    TABLES, CELLS, BUDGET = T4.files, T4.widths, T4.key
    MADE, FINAL = "t4", "final_t4"


KINDS: dict[str, type[GroupTables]] = {"t3": HouseholdTypes, "t4": Tenures}


def description(manifest: Mapping[str, Any]) -> Description:
    """Describe a release: its tables, and the laws of their noise."""
    return describe(manifest, T3.files | T4.files, "householders")
