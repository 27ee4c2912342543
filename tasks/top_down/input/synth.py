"""Draw synthetic persons and living quarters on real blocks: input of a TopDown run for tests, accuracy and scale.

Populations are those of the block table where it has them, else drawn. Shares follow published 2020 figures of Rhode
Island; residents of group quarters come first, then households, whose members mostly share ethnicity and race. A state
is drawn from streams named by seed, state and county, so the same seed gives the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from spine.entities import in_aian
from spine.geocodes import digits
from spine.geography import Geography, IntArray
from spine.redistricting import NURSING, TYPES
from spine.settings import Jurisdiction, SpineSettings, settings_for
from spine.top_down.redistricting import PERSONS
from spine.workload import FloatArray
from tasks.inputs.arrow import text
from tasks.inputs.block_codes import short_codes
from tasks.inputs.blocks.geography import read_geography
from tasks.inputs.marks import GRF_FILE
from tasks.inputs.names import NAMES, write_names
from tasks.inputs.points import points_in, write_points
from tasks.lifecycle.new_folder import check_empty, new_folder
from tasks.lifecycle.staging import PIPES
from tasks.top_down.input.records import block_columns
from tasks.top_down.input.write_inputs import Form, mark_inputs, open_declared, open_records, write_totals

RI_BLOCKS = 25_649  # the blocks of Rhode Island, which the numbers of group quarters below are for


@dataclass(frozen=True)
class Facilities:
    """Group quarters of one type: how many blocks have them, facilities in each, and residents in a facility.

    among: the number of most populous blocks to draw from; 0 for all that can hold them.
    """

    kind: int
    blocks: int
    per_block: int
    min_residents: int
    max_residents: int
    among: int = 0


FACILITIES = (
    Facilities(5, 60, 3, 60, 260, among=140),
    Facilities(1, 5, 1, 300, 500),
    Facilities(6, 4, 1, 60, 200),
    Facilities(NURSING, 95, 1, 40, 130),
    Facilities(4, 8, 1, 20, 80),
    Facilities(2, 40, 1, 4, 14),
    Facilities(7, 330, 1, 4, 18),
)
UNDER_18 = np.array([np.nan, 0, 0.95, 0, 0.1, 0.015, 0.005, 0.1])  # by type of group quarters
HISPANIC, CONCENTRATION, IN_TRACT = 0.166, 1.6, 12.0
TRACT_MIX, RACE_CONCENTRATION = 0.7, 40.0
SAME_ETHNICITY, SAME_RACE, NATIVE = 0.93, 0.80, 0.65  # of a household's members; of households in AIAN areas
ALONE = (
    {0: 0.845, 1: 0.062, 2: 0.0045, 3: 0.043, 4: 0.0004, 5: 0.011},  # not Hispanic: the rest is two or more races
    {0: 0.23, 1: 0.045, 2: 0.015, 3: 0.004, 4: 0.0002, 5: 0.43},
)
PAIRS: dict[tuple[int, ...], float] = {(0, 5): 0.36, (0, 1): 0.17, (0, 3): 0.12, (0, 2): 0.10}
VACANT, ONLY_VACANT = 0.09, 0.22


@dataclass(frozen=True)
class Made:
    """The folder that `das tda synth` made, and its numbers of records."""

    data: Path
    persons: int
    units: int
    blocks: int
    states: tuple[str, ...]


@dataclass(frozen=True)
class Quarters:
    """Living quarters and residents of a state's blocks.

    facilities, residents: (blocks, 8); column 0 holds housing units and the persons in households. occupied: (blocks,)
    housing units with persons.
    """

    facilities: IntArray
    residents: IntArray
    occupied: IntArray


def synthesize(
    source: str,
    out: Path,
    *,
    seed: int = 0,
    jurisdiction: Jurisdiction = "us",
    states: Sequence[int] = (),
    form: Form = "parquet",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Made:
    """Write persons, units, geography and declared invariants to the new folder OUT, and mark it synthetic.

    Raises
    ------
    Refused
        where OUT holds something, or the geography cannot be read.
    """
    check_empty(out)
    settings = settings_for("pl94-persons", jurisdiction, occupied_only=False)
    geography, _ = read_geography(source, settings, states=states)
    codes = tuple(f"{state:02d}" for state in np.unique(geography.state).tolist())
    with new_folder(out) as folder:
        _write_geography(folder / GRF_FILE, geography)
        if given := NAMES.in_geography(source):
            write_names(folder, given, given.__contains__)
        points = points_in(source)
        write_points(folder, points, points.__contains__)
        persons, units = _write_records(folder, geography, settings, seed, form, progress)
        mark_inputs(folder, "das tda synth", seed=seed)
    return Made(out, persons, units, len(geography), codes)


def _write_records(
    folder: Path,
    geography: Geography,
    settings: SpineSettings,
    seed: int,
    form: Form,
    progress: Callable[[int, int], None],
) -> tuple[int, int]:
    """Write persons, units and declared invariants, state by state; return the numbers of persons and units."""
    codes = np.unique(geography.state).tolist()
    totals, units = dict.fromkeys(codes, 0), 0
    with (
        open_records(folder, "persons", form) as write_persons,
        open_records(folder, "units", form) as write_units,
        open_declared(folder) as declare,
    ):
        for number, state in enumerate(codes, 1):
            in_state = geography.take(geography.state == state)
            rng = np.random.default_rng([seed, state])
            native = in_aian(in_state, settings)
            quarters = living_quarters(populations(in_state, rng), native, rng)
            declare(short_codes(in_state.geocode), quarters.facilities)
            block, status = units_of(quarters)
            write_units(in_state.geocode[block], status)
            units += len(block)
            for county in np.unique(in_state.county).tolist():
                rows = np.flatnonzero(in_state.county == county)
                part = _part(quarters, rows)
                block, cell = draw_persons(in_state.tract[rows], part, native[rows], (seed, county))
                write_persons(in_state.geocode[rows][block], cell)
                totals[state] += len(block)
            progress(number, len(codes))
    write_totals(folder, totals)
    return sum(totals.values()), units


def populations(geography: Geography, rng: np.random.Generator) -> IntArray:
    """Return the population of each block: the table's, else tracts of about 3,820 in 35 to 90 % of their blocks."""
    if geography.population is not None:
        return geography.population.astype(np.int64)
    tract = np.unique(geography.tract, return_inverse=True)[1]
    number = int(tract.max()) + 1
    inhabited = rng.random(len(tract)) < rng.uniform(0.35, 0.90, number)[tract]
    size = np.where(inhabited, rng.lognormal(0, 1.1, len(tract)), 0)
    total = np.maximum(rng.normal(3820, 900, number), 200)
    sums = np.maximum(np.bincount(tract, size, number), 1e-9)
    people: IntArray = np.where(inhabited, np.ceil(size * (total / sums)[tract]), 0).astype(np.int64)
    return people


def living_quarters(population: IntArray, native: Any, rng: np.random.Generator) -> Quarters:
    """Place group quarters inside the blocks' populations, then housing units for the rest, and vacant ones."""
    blocks = len(population)
    facilities, residents = np.zeros((blocks, TYPES), np.int64), np.zeros((blocks, TYPES), np.int64)
    left = population.copy()
    scale = blocks / RI_BLOCKS
    for facility in FACILITIES:
        capacity = (left * rng.uniform(0.4, 0.97, blocks)).astype(np.int64)
        fits = np.flatnonzero((capacity >= facility.min_residents) & (facilities[:, facility.kind] == 0))
        if facility.among:
            fits = fits[np.argsort(-left[fits], kind="stable")][: max(1, round(facility.among * scale))]
        chosen = rng.choice(fits, min(len(fits), max(1, round(facility.blocks * scale))), replace=False)
        low, high = np.log((facility.min_residents, facility.max_residents)).tolist()
        sizes = np.exp(rng.uniform(low, high, (len(chosen), facility.per_block))).sum(axis=1).astype(np.int64)
        facilities[chosen, facility.kind] = facility.per_block
        residents[chosen, facility.kind] = np.maximum(facility.per_block, np.minimum(sizes, capacity[chosen]))
        left -= residents[:, facility.kind]
    occupied = np.where(left > 0, np.maximum(1, np.rint(left / rng.uniform(2.0, 2.8, blocks))), 0).astype(np.int64)
    empty = (population == 0) & (rng.random(blocks) < ONLY_VACANT)
    vacant = np.where(occupied > 0, np.rint(VACANT * occupied), empty * (1 + rng.poisson(0.6, blocks)))
    if native.any() and not population[native].any():  # a state's second part, without anybody
        vacant[np.flatnonzero(native)[:2]] = 2
    facilities[:, 0], residents[:, 0] = occupied + vacant.astype(np.int64), left
    return Quarters(facilities, residents, occupied)


def _part(quarters: Quarters, rows: IntArray) -> Quarters:
    return Quarters(quarters.facilities[rows], quarters.residents[rows], quarters.occupied[rows])


def draw_persons(
    tract_of_block: IntArray, quarters: Quarters, native: Any, stream: tuple[int, int]
) -> tuple[IntArray, IntArray]:
    """Return block and cell of every person, by block."""
    rng = np.random.default_rng([*stream, 1])
    blocks = len(tract_of_block)
    slot = np.repeat(np.arange(blocks * TYPES), quarters.residents.ravel())
    block, kind = slot // TYPES, slot % TYPES
    first = np.cumsum(quarters.occupied) - quarters.occupied  # of a block's households
    place = np.arange(len(slot)) - np.searchsorted(slot, slot)
    in_household = kind == 0
    households = int(quarters.occupied.sum())
    alone = households + np.arange(len(slot))  # residents of group quarters are households of their own
    household = np.where(in_household, first[block] + place % np.maximum(quarters.occupied[block], 1), alone)
    tract = np.unique(tract_of_block, return_inverse=True)[1]
    number = int(tract.max()) + 1 if blocks else 0
    low, high = HISPANIC * CONCENTRATION, (1 - HISPANIC) * CONCENTRATION
    of_tract = np.clip(rng.beta(low, high, number), 0.005, 0.995)[tract]
    of_block = rng.beta(of_tract * IN_TRACT, (1 - of_tract) * IN_TRACT)
    hispanic = _shared(rng, household, SAME_ETHNICITY, rng.random(len(slot)) < of_block[block])
    shares = [race_shares(alone) for alone in ALONE]
    mixes = [
        TRACT_MIX * rng.dirichlet(RACE_CONCENTRATION * share, number) + (1 - TRACT_MIX) * share for share in shares
    ]
    own = np.zeros(len(slot), np.int64)
    for ethnicity, mix in enumerate(mixes):
        at = np.flatnonzero(hispanic == ethnicity)
        own[at] = _draw(rng, mix.cumsum(axis=1), tract[block[at]])
    is_native = native[block] & (rng.random(len(slot)) < NATIVE) & (hispanic == 0)
    race = _shared(rng, household, SAME_RACE, np.where(is_native, 2, own))
    minor = np.where(race > 5, 0.33, np.where(hispanic == 1, 0.28, 0.175))
    minor = np.where(in_household, minor, UNDER_18[kind])
    adult = (rng.random(len(slot)) >= minor).astype(np.int64)
    return block, np.ravel_multi_index((kind, adult, hispanic, race), PERSONS.shape)


def race_shares(alone: dict[int, float]) -> FloatArray:
    """Return the shares of the 63 races, given those of the six alone; most of the rest are pairs."""
    shares = np.zeros(63)
    races = [races for size in range(1, 7) for races in combinations(range(6), size)]
    seen = dict.fromkeys(range(1, 7), 0)
    for number, members in enumerate(races):
        size, k = len(members), seen[len(members)]
        seen[size] += 1
        if size == 1:
            shares[number] = alone[members[0]]
        elif size == 2:
            shares[number] = PAIRS.get(members, 0.204 / 11)  # pairs are .954 together
        else:
            shares[number] = {3: 0.035 / (1 + 0.6 * k), 4: 0.010 / (1 + 0.3 * k), 5: 0.003 / 6, 6: 0.002}[size]
    more = shares[6:].sum()
    shares[6:] *= (1 - sum(alone.values())) / more
    return shares


def _draw(rng: np.random.Generator, bounds: FloatArray, row: IntArray) -> IntArray:
    """Draw one category for each row of cumulative shares. Rows are few, so their bounds are laid end to end."""
    width = bounds.shape[1]
    line = (bounds / bounds[:, -1:] + np.arange(len(bounds))[:, None]).ravel()
    at = np.searchsorted(line, row + rng.random(len(row)), side="right")
    cell: IntArray = np.clip(at - row * width, 0, width - 1)
    return cell


def _shared(rng: np.random.Generator, household: IntArray, chance: float, own: Any) -> IntArray:
    """Return a trait of each person: with this chance that of the household's first person, else the own."""
    head = np.full(int(household.max(initial=-1)) + 1, -1)
    head[household[::-1]] = np.arange(len(household))[::-1]
    of_household = np.asarray(own, np.int64)[head[household]]
    shared: IntArray = np.where(rng.random(len(household)) < chance, of_household, own)
    return shared


def units_of(quarters: Quarters) -> tuple[IntArray, IntArray]:
    """Return block and status of every unit, by block: occupied (0), vacant (1), group quarters (2)."""
    counts = np.column_stack(
        [quarters.occupied, quarters.facilities[:, 0] - quarters.occupied, quarters.facilities[:, 1:].sum(axis=1)]
    )
    slot = np.repeat(np.arange(counts.size), counts.ravel())
    return slot // 3, slot % 3


def _write_geography(path: Path, geography: Geography) -> None:
    """Write the blocks in the format of GRF-C."""
    columns = block_columns(geography.geocode)
    for name, codes, width in (
        ("PLACEFP", geography.place, 5),
        ("COUSUBFP", geography.cousub, 5),
        ("AIANNHCE", geography.aiannh, 4),
    ):
        columns[name] = text(digits(codes.astype(np.int64), width))
    pa.csv.write_csv(pa.table(columns), path, PIPES)
