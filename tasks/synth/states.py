"""States to populate: their blocks, living quarters and laws, published or drawn, and their whole tracts in turn.

A state's persons depend on the seed, its own blocks, the code list and public tallies, but not on other states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tasks.errors import Refused
from tasks.synth.block_counts import cells_in, read_counts
from tasks.synth.blocks import BlockTable
from tasks.synth.draws import Purpose, apportion
from tasks.synth.nation import PUERTO_RICO, state_blocks, tallies
from tasks.synth.population import populate
from tasks.synth.population.codes import Origins
from tasks.synth.population.households import MINORS, UNDER_18, StateLaw
from tasks.synth.population.model import IntArray, Tracts
from tasks.synth.population.quarters import Quarters, draw_populations, draw_quarters, repair_quarters
from tasks.synth.population.sizes import fit_law
from tasks.synth.writers.columns import Stretch

FIRST_MAFID, MAFIDS_A_PERSON = 100_000_001, 2  # a state has this many numbers for each of its persons of 2020
STRETCH_PERSONS, STRETCH_TRACTS = 150_000, 60  # the largest stretch, unless a tract is larger; tracts have 6 bits


@dataclass(frozen=True)
class State:
    """A state to populate.

    persons, size: its numbers of persons and blocks. before, country: persons of its country in earlier states, and in
    all. read: returns its blocks. published: its living quarters, and persons by block and cell (`Published.cells`).
    repairs: the number of blocks that each rule repaired.
    """

    code: str
    persons: int
    size: int
    before: int
    country: int
    read: Callable[[], BlockTable]
    published: tuple[Quarters, IntArray] | None = None
    repairs: Counter[str] | None = None

    def strangers(self, origins: Origins) -> int:
        """Return the number of published persons who get other races because the list has no code for theirs."""
        cells = np.zeros((0, 3), np.int64) if self.published is None else self.published[1]
        return int(cells[origins.nearest[cells[:, 1] & 127] != cells[:, 1] & 63, 2].sum())

    def open(self, origins: Origins, seed: int) -> OpenState:
        """Return the state with its blocks in memory. Raises Refused if it has more units than MAFIDs."""
        blocks, cells = self.read(), None
        if self.published is None:
            quarters = draw_quarters(blocks.population, _random(seed, Purpose.QUARTERS, self.code))
        else:
            quarters, cells = self.published
            cells = np.column_stack([cells[:, 0], cells[:, 1] & 192 | origins.nearest[cells[:, 1] & 127], cells[:, 2]])
        return OpenState(self, blocks, quarters, cells, _law(quarters), origins, _mafid(self.code, quarters), seed)


@dataclass(frozen=True)
class OpenState:
    """A state whose blocks are in memory. law: its households'. mafid: that of its first unit."""

    state: State
    blocks: BlockTable
    quarters: Quarters
    cells: IntArray | None
    law: StateLaw
    origins: Origins
    mafid: int
    seed: int

    def stretches(self) -> Iterator[slice]:
        """Yield slices of the blocks that are whole tracts."""
        columns = self.blocks.columns
        same = [columns[name][1:] == columns[name][:-1] for name in ("TABBLKCOU", "TABTRACTCE")]
        ends = np.append(np.flatnonzero(~(same[0] & same[1])) + 1, len(self.blocks))
        persons = np.concatenate([[0], self.blocks.population.cumsum()])
        first, tracts = 0, 0
        for end, following in zip(ends.tolist(), [*ends.tolist()[1:], None], strict=True):
            tracts += 1
            full = following is None or persons[following] - persons[first] > STRETCH_PERSONS
            if full or tracts == STRETCH_TRACTS:
                yield slice(first, end)
                first, tracts = end, 0

    def populate(self, rows: slice) -> Stretch:
        """Populate the tracts in these rows of the blocks."""
        population = populate(self._tracts(rows), self.law, self.origins, self.seed)
        mafid = self.mafid + int(self.quarters.facilities[: rows.start].sum())
        return Stretch(self.blocks.take(rows), self.quarters.facilities[rows], population, self.origins, mafid)

    def _tracts(self, rows: slice) -> Tracts:
        columns = self.blocks.take(rows).columns
        county = columns["TABBLKCOU"].astype(np.uint64) + np.uint64(1000 * int(self.state.code))
        codes = np.column_stack([county, columns["TABTRACTCE"].astype(np.uint64)])
        new = np.concatenate([[True], (codes[1:] != codes[:-1]).any(axis=1)])
        cells, quarters = self.cells, self.quarters
        if cells is not None:
            cells = cells_in(cells, rows)
            cells = np.repeat(cells[:, :2], cells[:, 2], axis=0)
        return Tracts(
            codes[new],
            new.cumsum() - 1,
            quarters.facilities[rows],
            quarters.residents[rows],
            quarters.occupied[rows],
            self.state.before + int(self.blocks.population[: rows.start].sum()),
            self.state.country,
            cells,
        )


def table_states(blocks: BlockTable, table: Path, seed: int, wanted: Callable[[str], bool]) -> list[State]:
    """Return the states of a table that are wanted, each a country of its own, with what its files publish of them."""
    blocks, published, states = _with_populations(blocks, seed), read_counts(table, blocks), []
    of_row = blocks.columns["TABBLKST"]
    for name in np.unique(of_row):
        rows = slice(*np.searchsorted(of_row, [name, name + b"~"]).tolist())
        own, code = blocks.take(rows), name.decode()
        state = State(code, own.persons, len(own), 0, own.persons, lambda own=own: own)  # type: ignore[misc]
        if published is not None:
            here = published.take(rows)
            quarters, repairs = repair_quarters(own.population, here.residents, here.units, here.occupied)
            state = replace(state, published=(quarters, here.cells), repairs=Counter(repairs))
        states += [state] if wanted(code) else []
    if not states:
        raise Refused(f"{table} has no block of these states")
    return states


def nation_states(persons: int | None, wanted: Sequence[str], seed: int) -> list[State]:
    """Return the wanted states of the nation; all if none are named.

    persons: in the whole nation and Puerto Rico; None: as many as in 2020. Raises Refused for an unknown state code.
    """
    tally = tallies()
    for code in sorted(set(wanted) - set(tally)):
        raise _unknown_state(code)
    populations = np.array([state.persons for state in tally.values()])
    people = dict(zip(tally, apportion(populations, persons or int(populations.sum())).tolist(), strict=True))
    mainland = sum(people.values()) - people[PUERTO_RICO]

    def state(code: str) -> State:
        before, country = sum(people[other] for other in tally if other < code), mainland
        if code == PUERTO_RICO:
            before, country = 0, people[code]
        blocks = tally[code].blocks
        return State(code, people[code], blocks, before, country, lambda: state_blocks(tally[code], people[code], seed))

    return [state(code) for code in tally if not wanted or code in wanted]


def _with_populations(blocks: BlockTable, seed: int) -> BlockTable:
    """Return blocks with populations, drawn where the table lacks them."""
    population = blocks.population.copy()
    for state in np.unique(blocks.columns["TABBLKST"][population < 0]):
        rows = np.flatnonzero((blocks.columns["TABBLKST"] == state) & (population < 0))
        tract = np.char.add(blocks.columns["TABBLKCOU"][rows], blocks.columns["TABTRACTCE"][rows])
        number = np.unique(tract, return_inverse=True)[1]
        population[rows] = draw_populations(number, _random(seed, Purpose.POPULATION, state.decode()))
    return BlockTable(blocks.columns, population)


def _random(seed: int, purpose: Purpose, state: str) -> np.random.Generator:
    """Return the generator of draws for a whole state."""
    return np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), purpose], counter=[0, 0, 0, int(state)]))


def _law(quarters: Quarters) -> StateLaw:
    """Return the law of a state's households from its tallies."""
    persons = quarters.residents[:, 0]
    free = int((persons - quarters.occupied).sum())
    minors = MINORS * int(quarters.residents.sum()) - float(quarters.residents.sum(axis=0)[1:] @ UNDER_18[1:])
    return StateLaw(fit_law(quarters.occupied, persons), min(max(minors, 0.0) / max(free, 1), 1.0))


def _mafid(state: str, quarters: Quarters) -> int:
    """Return the MAFID of a state's first unit: each state reserves numbers by its persons of 2020, made or not."""
    persons = {code: tally.persons for code, tally in tallies().items()}
    if state not in persons:
        raise _unknown_state(state)
    room, units = MAFIDS_A_PERSON * persons[state], int(quarters.facilities.sum())
    if units > room:
        raise Refused(f"state {state} would have {units:,} living quarters: the most is {room:,}, two a person of 2020")
    return FIRST_MAFID + MAFIDS_A_PERSON * sum(persons[code] for code in persons if code < state)


def _unknown_state(code: str) -> Refused:
    return Refused(f"{code} is not a state code: 01 to 56 as the Census Bureau numbers them, or 72")
