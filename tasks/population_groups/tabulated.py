"""The regions, with their names, and iterations that a run tabulates: by them a reader knows why a group has no row.

All come from public files alone. A group of a tabulated region and iteration that has no row was suppressed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from spine.settings import Jurisdiction
from tasks.inputs.public_regions import write_regions
from tasks.inputs.region_files import KEY
from tasks.inputs.regions import REGION_TYPES, Region
from tasks.population_groups.iterations import ITERATION_KINDS, Iterations
from tasks.population_groups.levels import ITERATION_LEVELS
from tasks.population_groups.run import SafeTabRun

REGIONS_FILE, ITERATIONS_FILE = "tabulated/regions.csv", "tabulated/iterations.csv"
HIERARCHY_FILE = "tabulated/hierarchy.csv"
HIERARCHY_COLUMNS = ("ITERATION_CODE", "KIND", "REGIONAL_CODE")
ITERATION_COLUMNS = ("ITERATION_CODE", "ITERATION_NAME", "LEVEL", "NATION_STATE", "SUB_STATE", "TOTAL_ONLY")


def write_tabulated(run: SafeTabRun, jurisdiction: Jurisdiction, out: Path) -> None:
    """Write the regions, their names and the iterations of a run into OUT, pipe-delimited and sorted."""
    ids = run.geography.region_ids
    regions = {Region(name, region_id): None for name in REGION_TYPES[jurisdiction] for region_id in ids[name]}
    _write(out / REGIONS_FILE, KEY, ((region.type, region.id) for region in regions))
    write_regions(run, out, regions.__contains__)
    iterations = run.parameters.iterations
    _write(out / ITERATIONS_FILE, ITERATION_COLUMNS, _iterations(iterations))
    rows = ((code, *above) for code, above in sorted(hierarchy(iterations).items()))
    _write(out / HIERARCHY_FILE, HIERARCHY_COLUMNS, rows)


def _iterations(iterations: Iterations) -> Iterable[Sequence[object]]:
    nation, below = iterations.nation_state, iterations.sub_state
    total_only = {code for code, only in zip(nation.codes, nation.total_only, strict=True) if only}
    level = {
        granularity.codes[number]: level
        for granularity in (nation, below)
        for level in ITERATION_LEVELS
        for number in granularity.of_level(level)
    }
    for code in sorted(level):
        yield code, iterations.names[code], level[code], code in nation.codes, code in below.codes, code in total_only


def hierarchy(iterations: Iterations) -> dict[str, tuple[str, str]]:
    """Return by iteration its kind and the Regional one that has all codes of a Detailed one, or ""."""
    found: dict[str, tuple[str, str]] = {}
    for granularity in (iterations.nation_state, iterations.sub_state):
        for kind in ITERATION_KINDS:
            regional, detailed = (granularity.maps[kind, level] for level in ITERATION_LEVELS)
            found |= {granularity.codes[number]: (kind, "") for number in set(regional[regional >= 0].tolist())}
            for number in set(detailed[detailed >= 0].tolist()):
                above = set(regional[detailed == number].tolist())
                whole = granularity.codes[above.pop()] if len(above) == 1 and min(above) >= 0 else ""
                found[granularity.codes[number]] = kind, whole
    return found


def _write(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("|".join(map(str, row)) + "\n" for row in (columns, *rows)))
