"""The characteristic iterations of a release: their names, and at which granularity each is tabulated.

A release says it in a table of its own. Of one that was made before there was such a table the parameter files say it,
where they are given, and otherwise what was published tells, as far as it does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from tasks.inputs.files import digest_file
from tasks.inputs.tables import read_table
from tasks.lifecycle.errors import Refused
from tasks.population_groups.iterations import ETHNICITY_COLUMNS, ETHNICITY_FILE, RACE_COLUMNS, RACE_FILE
from tasks.population_groups.tabulated import HIERARCHY_COLUMNS, ITERATION_COLUMNS


@dataclass(frozen=True)
class Iteration:
    """An iteration of a release.

    Attributes
    ----------
    code, name : str
        The name is the code's own where none is known.
    level : int
        1 Regional, 2 Detailed.
    nation_state, sub_state : bool or None
        Whether that granularity tabulates it; None where nothing tells.
    total_only : bool or None
        Whether nation and state give only its total.
    kind : str
        `alone`, `combination` or `ethnicity`; "" where nothing tells.
    regional : str
        The code of the Regional iteration that a Detailed one is in; "" for none, or where nothing tells.
    """

    code: str
    name: str
    level: int
    nation_state: bool | None
    sub_state: bool | None
    total_only: bool | None = None
    kind: str = ""
    regional: str = ""

    def tabulated(self, *, nation_or_state: bool) -> bool | None:
        """Return whether a level of that granularity tabulates it; None where nothing tells."""
        return self.nation_state if nation_or_state else self.sub_state


def read_tabulated(path: Path, hierarchy: Path | None = None) -> dict[str, Iteration]:
    """Return the iterations of a release's own table, and where it has one, by its table of their hierarchy."""
    above = {code: place for code, *place in _rows(hierarchy, HIERARCHY_COLUMNS)} if hierarchy else {}
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


def read_parameters(folder: Path, digests: Mapping[str, str]) -> dict[str, Iteration]:
    """Return the iterations of a parameters directory. Raises Refused where its files are not those of the release."""
    iterations = {}
    for file, columns in ((RACE_FILE, RACE_COLUMNS), (ETHNICITY_FILE, ETHNICITY_COLUMNS)):
        path = folder / file
        if not path.is_file():
            raise Refused(f"{path} is not there; --params is the parameters directory of the run")
        if digest_file(str(path)) != digests.get(file):
            raise Refused(f"{path} is not the file that the release was made with: its digest differs")
        table, faults = read_table(str(path), file, columns)
        if table is None or faults:
            raise Refused(f"{path}: {faults[0].rule}")
        for row in table.to_pylist():
            if row["LEVEL"] in ("1", "2"):
                iterations[row["ITERATION_CODE"]] = Iteration(
                    code=row["ITERATION_CODE"],
                    name=row["ITERATION_NAME"],
                    level=int(row["LEVEL"]),
                    nation_state=row["COARSE_ONLY"] == "False",
                    sub_state=row["DETAILED_ONLY"] == "False",
                    total_only=row["DETAILED_ONLY"] == "True",
                )
    return iterations


def from_tables(
    seen: Mapping[tuple[int, bool], Set[str]], complete: Mapping[tuple[int, bool], bool], total_only: Set[str]
) -> dict[str, Iteration]:
    """Return the iterations that the published rows tell of, without names.

    Parameters
    ----------
    seen : {(level, nation or state): codes}
        Those with a published row.
    complete : {(level, nation or state): bool}
        Whether these are all that the granularity tabulates: their number is the manifest's.
    total_only : codes
        Those whose margin at nation or state is that of TotalOnly and of nothing else.
    """

    def tabulated(code: str, level: int, nation_or_state: bool) -> bool | None:
        if code in seen.get((level, nation_or_state), ()):
            return True
        if complete.get((level, nation_or_state)) or (code in total_only and not nation_or_state):
            return False
        return None

    levels = {code: level for (level, _), codes in seen.items() for code in codes}
    return {
        code: Iteration(code, f"Iteration {code}", level, tabulated(code, level, True), tabulated(code, level, False))
        for code, level in sorted(levels.items())
    }
