"""The characteristic iterations of a release: their names, and at which granularity each is tabulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tasks.inputs.tables import read_table
from tasks.lifecycle.errors import Refused
from tasks.population_groups.tabulated import HIERARCHY_COLUMNS, ITERATION_COLUMNS


@dataclass(frozen=True)
class Iteration:
    """An iteration of a release.

    code, name: str.
    level: 1 Regional, 2 Detailed.
    nation_state, sub_state: whether that granularity tabulates it.
    total_only: whether nation and state give only its total.
    kind: `alone`, `combination` or `ethnicity`.
    regional: the code of the Regional iteration that a Detailed one is in; "" for none.
    """

    code: str
    name: str
    level: int
    nation_state: bool
    sub_state: bool
    total_only: bool
    kind: str
    regional: str

    def tabulated(self, *, nation_or_state: bool) -> bool:
        """Return whether a level of that granularity tabulates it."""
        return self.nation_state if nation_or_state else self.sub_state


def read_tabulated(path: Path, hierarchy: Path) -> dict[str, Iteration]:
    """Return the iterations of a release by code, from its table of them and that of their hierarchy."""
    above = {code: place for code, *place in _rows(hierarchy, HIERARCHY_COLUMNS)}
    iterations = {}
    for code, name, level, *flags in _rows(path, ITERATION_COLUMNS):
        nation_state, sub_state, total_only = (flag == "True" for flag in flags)
        kind, regional = above.get(code, ("", ""))
        iterations[code] = Iteration(code, name, int(level), nation_state, sub_state, total_only, kind, regional)
    return iterations


def _rows(path: Path, columns: Sequence[str]) -> Iterator[list[str]]:
    table, faults = read_table(str(path), path.name, columns)
    if table is None or faults:
        raise Refused(f"{path}: {faults[0].rule}")
    return ([row[column] for column in columns] for row in table.to_pylist())
