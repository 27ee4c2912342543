"""One made-up population over real or made-up geography, written for any system: what `das synth` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from spine.settings import Jurisdiction
from tasks.inputs.marks import Mark
from tasks.inputs.names import NAMES, Names, write_names
from tasks.inputs.points import Points, points_in, write_points
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.new_folder import check_empty, new_folder
from tasks.synth.blocks import Blocks, read_blocks
from tasks.synth.example import example_blocks
from tasks.synth.example_params import write_example_params
from tasks.synth.files import Format, Part, check_room, write_data
from tasks.synth.nation import state_blocks
from tasks.synth.origins import match, published_counts, read_origins
from tasks.synth.params import PUERTO_RICO, read_config, write_params
from tasks.synth.population.codes import Origins
from tasks.synth.population.compiled_draws import Purpose
from tasks.synth.population.households import MINORS, UNDER_18, StateLaw
from tasks.synth.population.model import IntArray
from tasks.synth.population.quarters import Quarters, draw_populations, draw_quarters, repair_quarters
from tasks.synth.population.sizes import fit_law
from tasks.synth.proportions import apportion
from tasks.synth.published import read_published
from tasks.synth.report import Counts
from tasks.synth.tallies import tallies
from tasks.synth.writers import SYSTEMS

FIRST_MAFID, MAFIDS_A_PERSON = 100_000_001, 2  # numbers that a state has, by its persons of 2020
GIVEN = "populations of blocks by voting age, ethnicity and race, group quarters and housing units; the rest is drawn"
DRAWN = "populations of blocks; the rest is drawn"


@dataclass(frozen=True)
class Options:
    """How to make it.

    places: the folder of each system's files in OUT. params: whether parameter files are made too. progress: called
    with the number of persons written, and the number of all. report: count what report.py shows.
    """

    seed: int = 0
    places: Mapping[str, str] = field(default_factory=lambda: {"detailed-dhca": "data"})
    params: bool = True
    form: Format = "text"
    threads: int = 2
    report: bool = False
    progress: Callable[[int, int], None] = lambda done, total: None


@dataclass(frozen=True)
class Made:
    """What was made: its folders by system, its contents and its mark.

    shares: the published counts that it follows. uncounted: names of groups without one, which get a person each.
    counts: of the population, as in report.py.
    """

    folders: Mapping[str, Path]
    params: Path
    persons: int
    blocks: int
    states: list[str]
    shares: Path | None
    uncounted: tuple[str, ...]
    mark: Mark
    counts: Counts

    @property
    def data(self) -> Path:
        """The folder of the first system."""
        return next(iter(self.folders.values()))


@dataclass(frozen=True)
class Shares:
    """Published counts of persons by group, their file, and the names of groups that it does not count."""

    path: Path
    counts: Mapping[str, float]
    uncounted: tuple[str, ...]


@dataclass(frozen=True)
class Land:
    """States to populate, and a function that gives the geography of each.

    blocks: number of blocks by state. people: of persons. before: of persons of the country in the states before, and
    in all of it.
    blocks_of: the blocks of a state. names, points: of its regions, where the geography has them. published: of
    states, living quarters and cells (`Published`), where they are. repairs: blocks that each rule repaired.
    """

    blocks: Mapping[str, int]
    people: Mapping[str, int]
    before: Mapping[str, tuple[int, int]]
    blocks_of: Callable[[str], Blocks]
    names: Names = field(default_factory=dict)
    points: Points = field(default_factory=dict)
    published: Mapping[str, tuple[Quarters, IntArray]] = field(default_factory=dict)
    repairs: Mapping[str, int] = field(default_factory=dict)

    @property
    def persons(self) -> int:
        """Persons to make."""
        return sum(self.people.values())

    def parts(self, origins: Callable[[bool], Origins], seed: int) -> Iterator[Part]:
        """Yield the states in order."""
        for state in sorted(self.blocks):
            blocks = self.blocks_of(state)
            law, cells = origins(state == PUERTO_RICO), None
            if state in self.published:
                quarters, cells = self.published[state]
                cells = np.column_stack([cells[:, 0], cells[:, 1] & 192 | law.nearest[cells[:, 1] & 127], cells[:, 2]])
            else:
                quarters = draw_quarters(blocks.population, _random(seed, Purpose.QUARTERS, state))
            mafid = _mafid(state, quarters)
            yield Part(state, blocks, quarters, _law(quarters), law, *self.before[state], mafid, cells)

    def races_without_codes(self, origins: Callable[[bool], Origins]) -> int:
        """Return how many published persons get other races, for want of codes in the list."""
        lost = 0
        for state, (_, cells) in self.published.items():
            nearest = origins(state == PUERTO_RICO).nearest[cells[:, 1] & 127]
            lost += int(cells[nearest != cells[:, 1] & 63, 2].sum())
        return lost


def _law(quarters: Quarters) -> StateLaw:
    """Return what the tallies of a state fix of its households."""
    persons = quarters.residents[:, 0]
    free = int((persons - quarters.occupied).sum())
    minors = MINORS * int(quarters.residents.sum()) - float(quarters.residents.sum(axis=0)[1:] @ UNDER_18[1:])
    return StateLaw(fit_law(quarters.occupied, persons), min(max(minors, 0.0) / max(free, 1), 1.0))


def _mafid(state: str, quarters: Quarters) -> int:
    """Return the MAFID of a state's first unit: each state has numbers by its persons of 2020, made or not."""
    persons = {code: tally.persons for code, tally in tallies().items()}
    if state not in persons:
        raise Refused(f"{state} is not a state code: 01 to 56 as the Census Bureau numbers them, or 72")
    room, units = MAFIDS_A_PERSON * persons[state], int(quarters.facilities.sum())
    if units > room:
        raise Refused(f"state {state} would have {units:,} living quarters: the most is {room:,}, two a person of 2020")
    return FIRST_MAFID + MAFIDS_A_PERSON * sum(persons[code] for code in persons if code < state)


def synthesize_blocks(
    table: Path,
    params: Path | None,
    out: Path,
    options: Options,
    shares: Path | None = None,
    *,
    generator: str = "das synth",
    populated: bool = True,
    wanted: Callable[[str], bool] = lambda state: True,
) -> Made:
    """Make persons over real geography, exactly its block populations.

    table: docs/spec/files.md#block-tables; without populations it is refused, or they are drawn (not populated).
    params: a code list; None: that of the bundled example. shares: published national counts (ITERATION_NAME, US_POP)
    of the groups; None: groups have the chances 1, 1/2, 1/3 ... in the order of their codes. wanted: which states.
    Raises Refused, Failed.
    """
    check_empty(out)
    blocks = _drawn(read_blocks(table, populated=populated), options.seed)
    land = _land(blocks, wanted)
    land = replace(land, names=NAMES.in_geography(str(table)), points=points_in(str(table)))
    if not land.blocks:
        raise Refused(f"{table} has no block of these states")
    land = _with_published(land, table, blocks)
    with _params(params) as folder:
        return _make(generator, land, folder, out, options, read_shares(shares, folder))


def synthesize_top_down(
    table: Path,
    out: Path,
    *,
    seed: int = 0,
    jurisdiction: Jurisdiction = "us",
    states: Sequence[int] = (),
    form: Format = "parquet",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Made:
    """Make persons and units of the TopDown Algorithm on these blocks, or on those of some states, in `out` itself.

    Populations are drawn where the table has none; races follow the example's code list. Raises Refused, Failed.
    """
    codes = {f"{state:02d}" for state in states}
    return synthesize_blocks(
        table,
        None,
        out,
        Options(seed, {"tda": "."}, params=False, form=form, progress=progress),
        generator="das tda synth",
        populated=False,
        wanted=lambda state: (state == PUERTO_RICO) == (jurisdiction == "pr") and state in (codes or {state}),
    )


@contextmanager
def _params(params: Path | None) -> Iterator[Path]:
    """Yield a folder of parameter files, those of the example where none are given."""
    if params is not None:
        yield params
        return
    with TemporaryDirectory() as bundled:
        write_example_params(Path(bundled))
        yield Path(bundled)


def _drawn(blocks: Blocks, seed: int) -> Blocks:
    """Return blocks with populations, drawn where the table has none."""
    population = blocks.population.copy()
    for state in np.unique(blocks.columns["TABBLKST"][population < 0]):
        rows = np.flatnonzero((blocks.columns["TABBLKST"] == state) & (population < 0))
        tract = np.char.add(blocks.columns["TABBLKCOU"][rows], blocks.columns["TABTRACTCE"][rows])
        number = np.unique(tract, return_inverse=True)[1]
        population[rows] = draw_populations(number, _random(seed, Purpose.POPULATION, state.decode()))
    return Blocks(blocks.columns, population)


def _random(seed: int, purpose: Purpose, state: str) -> np.random.Generator:
    """Return the generator of what is drawn for a whole state."""
    return np.random.Generator(np.random.Philox(key=[seed & (2**64 - 1), purpose], counter=[0, 0, 0, int(state)]))


def synthesize_example(out: Path, options: Options) -> Made:
    """Return the bundled example: a small made-up geography with its own code list. Raises Refused, Failed."""
    with _params(None) as params:
        return _make("das synth (example)", _land(example_blocks()), params, out, options)


def synthesize_nation(
    params: Path | None,
    out: Path,
    options: Options,
    shares: Path | None = None,
    *,
    persons: int | None = None,
    states: Sequence[str] = (),
) -> Made:
    """Return a made-up nation with the tallies of 2020 (tasks.synth.tallies), with one state at a time in memory.

    params: its code list and configuration; None: those of the bundled example.
    persons: of the whole nation and Puerto Rico, the geography being the same; None: as many as in 2020.
    states: the codes to make, 72 being Puerto Rico; none: all. A state is the same with or without the others.
    Raises Refused, Failed.
    """
    tally = tallies()
    if unknown := sorted(set(states) - set(tally)):
        raise Refused(f"{unknown[0]} is not a state code: 01 to 56 as the Census Bureau numbers them, or 72")
    populations = np.array([state.persons for state in tally.values()])
    people = apportion(populations, persons or int(populations.sum())).tolist()
    people_of = dict(zip(tally, people, strict=True))
    mainland = sum(people_of.values()) - people_of[PUERTO_RICO]
    before = {state: (sum(people_of[code] for code in tally if code < state), mainland) for state in tally}
    before[PUERTO_RICO] = (0, people_of[PUERTO_RICO])
    made = {state: tally[state].blocks for state in tally if not states or state in states}
    land = Land(
        made,
        {state: people_of[state] for state in made},
        before,
        lambda state: state_blocks(tally[state], people_of[state], options.seed),
    )
    with _params(params) as folder:
        return _make("das synth nation", land, folder, out, options, read_shares(shares, folder))


def read_shares(path: Path | None, params: Path) -> Shares | None:
    """Return the published counts that groups are to follow; None without a file. Raises Refused as `match` does."""
    return None if path is None else Shares(path, *match(params, published_counts(path), path))


def _make(
    generator: str,
    land: Land,
    params: Path,
    out: Path,
    options: Options,
    shares: Shares | None = None,
) -> Made:
    config = read_config(params)
    systems = {place: SYSTEMS[name] for name, place in options.places.items()}
    wanted = shares.counts if shares else None

    @cache
    def origins(island: bool) -> Origins:
        return read_origins(params, wanted, most_codes=config["max_race_codes"], puerto_rico=island)

    population: dict[str, Any] = {"given": GIVEN if land.published else DRAWN}
    if land.published:
        lost = {"persons with a race that no code of the list has": land.races_without_codes(origins)}
        population["repaired"] = {rule: count for rule, count in {**land.repairs, **lost}.items() if count}
    blocks = sum(land.blocks.values())
    with new_folder(out) as folder:
        check_room(folder, systems.values(), persons=land.persons, blocks=blocks, form=options.form)
        if options.params:
            write_params(config, params, folder / "params", land.blocks)
        places = {folder / place: system for place, system in systems.items()}
        marks, counts = write_data(
            places,
            land.parts(origins, options.seed),
            seed=options.seed,
            generator=generator,
            population=population,
            form=options.form,
            threads=options.threads,
            report=options.report,
            wrote=lambda done: options.progress(done, land.persons),
        )
        for place in places:
            if land.names:
                write_names(place, land.names, land.names.__contains__)
            write_points(place, land.points, land.points.__contains__)
    followed, uncounted = (shares.path, shares.uncounted) if shares else (None, ())
    folders = {name: out / place for name, place in options.places.items()}
    mark = next(iter(marks.values()))
    return Made(folders, out / "params", land.persons, blocks, sorted(land.blocks), followed, uncounted, mark, counts)


def _with_published(land: Land, table: Path, blocks: Blocks) -> Land:
    """Return the land with what its files publish of it, without contradictions."""
    published, all_of = read_published(table, blocks), blocks.columns["TABBLKST"]
    if published is None:
        return land
    of_state, repairs = {}, Counter[str]()
    for state in land.blocks:
        rows = slice(*np.searchsorted(all_of, [state.encode(), state.encode() + b"~"]).tolist())
        here = published.take(rows)
        quarters, repaired = repair_quarters(blocks.population[rows], here.residents, here.units, here.occupied)
        of_state[state] = (quarters, here.cells)
        repairs.update(repaired)
    return replace(land, published=of_state, repairs=repairs)


def _land(blocks: Blocks, wanted: Callable[[str], bool] = lambda state: True) -> Land:
    """Return the states of a table that are wanted, each a country of its own."""
    states = {state: part for state, part in blocks.by_state().items() if wanted(state)}
    people = {state: part.persons for state, part in states.items()}
    before = {state: (0, count) for state, count in people.items()}
    return Land({state: len(part) for state, part in states.items()}, people, before, states.__getitem__)
