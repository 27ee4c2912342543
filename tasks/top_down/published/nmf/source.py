"""The Census Bureau's noisy measurement files as a source: blocks and spines are saved, every answer is mapped.

Answers are validated, and in the order of the spine.

```
prepared/opened, geography/SS                the files, the request, and the blocks
noisy/PRODUCT/SS/published/LEVEL/variances  (kinds, queries) distinct rows of variances, 0 for a query without answer
noisy/PRODUCT/SS/published/LEVEL/kind       (geounits,) each geounit's row of these; -1: no answer
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from spine.geography import (
    NO_AIANNH,
    NO_COUSUB,
    NO_PLACE,
    BadGeography,
    FloatArray,
    Geography,
    IntArray,
    checked,
    gq_pattern,
)
from spine.redistricting import HOUSEHOLD, PERSONS
from spine.top_down.queries import TOTAL
from tasks.lifecycle.files import load_object, open_array, save_arrays, save_object
from tasks.records.block_codes import find_blocks
from tasks.records.findings import Finding
from tasks.top_down.blocks import Blocks, BlockSource
from tasks.top_down.published.nmf.census_2020 import as_tabulated
from tasks.top_down.published.nmf.geounits import StateGeounits, read_geounits, spine_of
from tasks.top_down.published.nmf.inventory import Faults, Inventory
from tasks.top_down.published.nmf.rows import Rows, read_rows
from tasks.top_down.published.source import (
    LARGEST_NATION,
    TOO_FAR,
    PublishedSource,
    Read,
    columns_of,
    is_far,
    new_answers,
    put_answers,
)
from tasks.top_down.release.nmf_layout import LEVELS, QUERIES, Codes, as_codes, shapes
from tasks.top_down.run_plan import SCHEMAS, US
from tasks.top_down.source import Branch

if TYPE_CHECKING:
    from spine.top_down import Plan

COLUMNS = {product: columns_of(schema, QUERIES[product]) for product, schema in SCHEMAS.items()}
Variances: TypeAlias = tuple[float, ...]  # by query, 0 for no answer
OPENED, GEOGRAPHY = "prepared/opened", "prepared/geography"
OF_2010 = 8  # digits of a county in the files of the 2010 demonstration


@dataclass(frozen=True)
class FileRequest:
    """A user's additions to the files.

    totals: a file of declared populations; None for those of 2020. geography: block tables with places, county
    subdivisions and AIAN areas. check_spine: compare the files' geocodes with those of a spine made of the geography.
    as_measured: leave blocks in water as measured; otherwise those of 2020 are counted as in the published tables.
    """

    totals: str | None = None
    geography: str | None = None
    check_spine: bool = False
    as_measured: bool = False


class Opened(NamedTuple):
    """The files, the request, and the declared population by state code."""

    inventory: Inventory
    request: FileRequest
    totals: dict[int, int]


class SameVariances(NamedTuple):
    """Geounits of a level with the same variances. place: their files. geocode: the first one's."""

    level: str
    place: str
    variances: Variances
    geounits: int
    geocode: str


@dataclass(frozen=True)
class NmfSource(BlockSource, PublishedSource):
    """Noisy measurement files of a jurisdiction."""

    @property
    def opened(self) -> Opened:
        """The files and the request, loaded."""
        return load_object(self / OPENED, Opened)

    def largest_count(self, branch: Branch) -> int:
        """Return the largest possible count in a state: its declared population, or its housing units."""
        if branch.name == US:
            return LARGEST_NATION
        blocks = self.state(branch.name)
        return (
            blocks.totals[int(branch.name)] if branch.product == "persons" else int(blocks.quarters[:, HOUSEHOLD].sum())
        )

    def columns(self, plan: Plan, _level: str) -> dict[str, slice]:
        """Return the columns of all queries of a product; a level may lack some."""
        return COLUMNS["persons" if plan.product is PERSONS else "units"]

    def fill(self, branch: Branch, level: str, folder: Path) -> Read:
        """Map the answers of a level of a state; return the findings, and the distinct rows of variances."""
        codes, most = level_codes(self, branch, level), self.largest_count(branch)
        at, faults = list(COLUMNS[branch.product].values()), Faults()
        new_answers(folder, len(codes), at)
        variances = np.zeros((len(codes), len(at)), np.float32)
        order = np.argsort(codes)
        for part in self.opened.inventory.of(branch.product, level, "DPQuery", branch.name):
            for rows in read_rows(part, shapes(branch.product), faults):
                _scatter(rows, part.name, codes, order, at, folder, variances, most, faults)
        distinct, first, row, number = np.unique(
            variances, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
        none, place = ~distinct.any(axis=1), f"{branch.product}, level {level}, state {branch.name}"
        np.save(folder / "variances.npy", distinct[~none].astype(float))
        np.save(folder / "kind.npy", np.where(none, -1, np.cumsum(~none) - 1)[row.ravel()].astype(np.int32))
        return faults.findings(), [
            SameVariances(
                level, place, tuple(distinct[k].astype(float).tolist()), int(number[k]), codes[first[k]].decode()
            )
            for k in np.flatnonzero(~none).tolist()
        ]


def level_codes(source: NmfSource, branch: Branch, level: str) -> Codes:
    """Return the geocodes of a level, in the order of the spine."""
    return as_codes(source.codes(branch)[0 if branch.name == US else LEVELS.index(level)])


def _scatter(
    rows: Rows,
    file: str,
    codes: Codes,
    order: IntArray,
    at: list[slice],
    folder: Path,
    variances: FloatArray,
    most: int,
    faults: Faults,
) -> None:
    """Write a batch of rows to their places among the codes, which `order` sorts."""
    place = order[np.minimum(np.searchsorted(codes, rows.code, sorter=order), len(codes) - 1)]
    there = codes[place] == rows.code
    faults.add(file, "a geounit without a Constraint row", rows.code[~there].tolist())
    key = place * len(at) + rows.query
    first = np.zeros(len(key), bool)
    first[np.unique(key, return_index=True)[1]] = True
    twice = there & (~first | (variances[place, rows.query] > 0))
    faults.add(file, "a row twice", rows.code[twice].tolist())
    off = np.abs(rows.plb * rows.variance - 1) > 1e-5  # False without plb
    if (off & (rows.variance > 1.2)).any():  # below, the variance is not the parameter of the law
        faults.note("", "some plb are not 1 / variance: they are not used")
    keep = there & ~twice
    for query in np.unique(rows.query[keep]).tolist():
        own = np.flatnonzero(keep & (rows.query == query))
        own = own[np.argsort(place[own], kind="stable")]
        taken = rows.values.take(own).flatten().to_numpy(zero_copy_only=False).reshape(len(own), -1)
        far = is_far(taken, rows.variance[own], most)
        faults.add(file, TOO_FAR.format(most), rows.code[own[far]].tolist())
        own, taken = own[~far], taken[~far]
        if not len(own):
            continue
        put_answers(folder, place[own], at[query], taken, file)
        variances[place[own], query] = rows.variance[own]


def shares_of(
    source: NmfSource, branch: Branch, level: str, shares: Mapping[Variances, Fraction], denominator: int
) -> IntArray:
    """Return the numerator of each geounit's share, from its variances; 0 without an answer."""
    folder = source.answers_folder(branch, level)
    distinct = [int(shares[tuple(row)] * denominator) for row in open_array(folder, "variances").tolist()]
    numerators: IntArray = np.array([*distinct, 0], np.int64)[open_array(folder, "kind")]
    return numerators


def measured_total(source: NmfSource, state: str) -> tuple[int, float] | None:
    """Return a state's population from its parts' noisy totals, and its variance; None if a part has no total."""
    folder = source.answers_folder(Branch("persons", state), LEVELS[0])
    query = QUERIES["persons"].index(TOTAL)
    variance = open_array(folder, "variances").reshape(-1, len(QUERIES["persons"]))[open_array(folder, "kind"), query]
    if not variance.all():
        return None
    return int(open_array(folder, "values")[:, COLUMNS["persons"][TOTAL]].sum()), float(variance.sum())


class StateRead(NamedTuple):
    """The result of reading a state's geounits: findings, and the lengths of geocodes by product and level.

    moved: for each measured block that the tables have moved, the block there (`as_tabulated`).
    """

    findings: list[Finding]
    widths: dict[str, tuple[int, ...]]
    housing_units: int = 0
    moved: tuple[tuple[int, int], ...] = ()


def read_state(source: NmfSource, state: str) -> StateRead:
    """Save the blocks of a state and, for each product, its geounits; return findings."""
    inventory, request, totals = source.opened
    faults = Faults()
    read = {product: read_geounits(inventory, product, state, faults) for product in inventory.products}
    found = {product: geounits for product, geounits in read.items() if geounits is not None}
    if len(found) < len(read):
        return StateRead(faults.findings(), {})
    _compare_products(found, state, faults)
    first = found[inventory.products[0]]
    public = np.sort(first.public)
    quarters = first.quarters[np.argsort(first.public)]
    _check_declared(first, quarters, state, totals[int(state)], "persons" in found, faults)
    of_2020 = first.codes[LEVELS.index("County")].shape[1] != OF_2010
    stays = not of_2020 or inventory.written_by is not None or request.check_spine or request.as_measured
    tabulated = public if stays else as_tabulated(public)  # the Bureau moved blocks in water in the tables of 2020
    order = np.lexsort((public, tabulated))  # order of the run's blocks: by the tables' codes
    number = np.argsort(order)
    try:
        geography = _geography(source, state, tabulated, quarters, faults).take(order)
    except BadGeography as error:
        faults.add("geography", str(error))
        return StateRead(faults.findings(), {})
    save_object(source / f"prepared/blocks/{state}", Blocks(geography, quarters[order], totals))
    for product, geounits in found.items():
        spine = spine_of(geounits.codes, number[np.searchsorted(public, geounits.public)])
        branch = Branch(product, state)
        save_object(geounits_path(source, branch), spine)
        save_arrays(source.codes_folder(branch), {str(n): codes for n, codes in enumerate(geounits.codes)})
    moved = tuple((old, new) for old, new in zip(public.tolist(), tabulated.tolist(), strict=True) if old != new)
    widths = {product: tuple(codes.shape[1] for codes in geounits.codes) for product, geounits in found.items()}
    return StateRead(faults.findings(), widths, int(quarters[:, HOUSEHOLD].sum()), moved)


def geounits_path(source: NmfSource, branch: Branch) -> Path:
    """Return the path of a state's spine before its shares are known."""
    return source / f"prepared/spine/{branch}.geounits"


def _compare_products(found: Mapping[str, StateGeounits], state: str, faults: Faults) -> None:
    """Report blocks that persons and units do not share, or whose housing units differ."""
    if len(found) < 2:
        return
    persons, units = found["persons"], found["units"]
    (p, p_order), (u, u_order) = ((each.public, np.argsort(each.public)) for each in (persons, units))
    for name, own, other in (("persons", p, u), ("units", u, p)):
        faults.add(
            f"{name}, State={state}", "a block that the other product lacks", _codes16(own[~np.isin(own, other)])
        )
    if np.array_equal(p[p_order], u[u_order]):
        differ = persons.quarters[p_order, HOUSEHOLD] != units.quarters[u_order, HOUSEHOLD]
        rule = "a block whose housing units differ between persons and units"
        faults.add(f"persons and units, State={state}", rule, _codes16(p[p_order][differ]))


def _codes16(public: IntArray) -> list[str]:
    return [f"{code:016d}" for code in public.tolist()]


def _check_declared(
    geounits: StateGeounits, quarters: IntArray, state: str, total: int, persons: bool, faults: Faults
) -> None:
    facilities = int(quarters[:, HOUSEHOLD + 1 :].sum())
    if total < facilities:
        faults.add(f"State={state}", f"a declared population of {total:,}, less than its {facilities:,} group quarters")
    if persons and geounits.totals is not None and int(geounits.totals.sum()) != total:
        own = int(geounits.totals.sum())
        faults.add(
            f"State={state}", f"the files declare a population of {own:,}, not {total:,}: give it with --state-totals"
        )


def _geography(source: NmfSource, state: str, public: IntArray, quarters: IntArray, faults: Faults) -> Geography:
    """Return the blocks with their areas; without a geography, they are outside all areas."""
    n = len(public)
    areas: dict[str, Any] = {
        "place": np.full(n, NO_PLACE, np.int32),
        "cousub": np.full(n, NO_COUSUB, np.int32),
        "aiannh": np.full(n, NO_AIANNH, np.int16),
    }
    path = source / f"{GEOGRAPHY}/{state}"
    if path.exists():
        known = load_object(path, Geography)
        row, there = find_blocks(known.geocode, public)
        for name, column in areas.items():
            column[there] = getattr(known, name)[row[there]]
        if not there.all():
            faults.note(
                f"State={state}",
                f"{int((~there).sum()):,} blocks are missing in the geography and are outside all areas",
            )
    else:
        faults.note("", "places, county subdivisions and AIAN areas need --geography")
    gq = gq_pattern([quarters[:, kind] > 0 for kind in range(1, quarters.shape[1])])
    found = checked(Geography(np.arange(n), areas["place"], areas["cousub"], areas["aiannh"], gq=gq))
    return replace(found, geocode=public)  # two measured blocks may be one in the tables
