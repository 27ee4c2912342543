"""One made-up population over real or made-up geography, written for any system: what `das synth` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

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
from tasks.synth.population.ages import minor_share
from tasks.synth.population.codes import Origins
from tasks.synth.population.compiled_draws import Purpose
from tasks.synth.population.households import StateLaw
from tasks.synth.population.quarters import Quarters, draw_populations, draw_quarters
from tasks.synth.population.sizes import fit_law
from tasks.synth.proportions import apportion
from tasks.synth.tallies import tallies
from tasks.synth.writers import SYSTEMS

FIRST_MAFID, MAFIDS_A_PERSON = 100_000_001, 2  # numbers that a state has, by its persons of 2020
DRAWN = "populations of blocks; all else is drawn"


@dataclass(frozen=True)
class Options:
    """How to make it.

    places: the folder of each system's files in OUT. params: whether parameter files are made too. progress: called
    with the number of persons written, and the number of all.
    """

    seed: int = 0
    places: Mapping[str, str] = field(default_factory=lambda: {"detailed-dhca": "data"})
    params: bool = True
    form: Format = "text"
    threads: int = 2
    progress: Callable[[int, int], None] = lambda done, total: None


@dataclass(frozen=True)
class Made:
    """What was made: its folders by system, its contents and its mark.

    shares: the published counts that it follows. uncounted: names of groups without one, which get a person each.
    """

    folders: Mapping[str, Path]
    params: Path
    persons: int
    units: int
    blocks: int
    states: list[str]
    shares: Path | None
    uncounted: tuple[str, ...]
    mark: Mark

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
    blocks_of: the blocks of a state.
    names, points: of its regions, where the geography has them.
    """

    blocks: Mapping[str, int]
    people: Mapping[str, int]
    before: Mapping[str, tuple[int, int]]
    blocks_of: Callable[[str], Blocks]
    names: Names = field(default_factory=dict)
    points: Points = field(default_factory=dict)
    given: str = DRAWN

    @property
    def persons(self) -> int:
        """Persons to make."""
        return sum(self.people.values())

    def parts(self, origins: Callable[[bool], Origins], seed: int) -> Iterator[Part]:
        """Yield the states in order."""
        for state in sorted(self.blocks):
            blocks = self.blocks_of(state)
            quarters = draw_quarters(blocks.population, _random(seed, Purpose.QUARTERS, state))
            law = origins(state == PUERTO_RICO)
            yield Part(state, blocks, quarters, _law(quarters), law, *self.before[state], _mafid(state, quarters))


def _law(quarters: Quarters) -> StateLaw:
    """Return what the tallies of a state fix of its households."""
    persons = quarters.residents[:, 0]
    free = int((persons - quarters.occupied).sum())
    chance = minor_share() * int(quarters.residents.sum()) / max(free, 1)
    return StateLaw(fit_law(quarters.occupied, persons), min(chance, 1.0))


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
    land = _land(_drawn(read_blocks(table, populated=populated), options.seed), wanted)
    land = replace(land, names=NAMES.in_geography(str(table)), points=points_in(str(table)))
    if not land.blocks:
        raise Refused(f"{table} has no block of these states")
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
    counts, systems = (
        shares.counts if shares else None,
        {place: SYSTEMS[name] for name, place in options.places.items()},
    )

    @cache
    def origins(island: bool) -> Origins:
        return read_origins(params, counts, most_codes=config["max_race_codes"], puerto_rico=island)

    origins(False)
    blocks = sum(land.blocks.values())
    with new_folder(out) as folder:
        check_room(folder, systems.values(), persons=land.persons, blocks=blocks, form=options.form)
        if options.params:
            write_params(config, params, folder / "params", land.blocks)
        places = {folder / place: system for place, system in systems.items()}
        marks, units = write_data(
            places,
            land.parts(origins, options.seed),
            seed=options.seed,
            generator=generator,
            population={"given": land.given},
            form=options.form,
            threads=options.threads,
            wrote=lambda done: options.progress(done, land.persons),
        )
        for place in places:
            if land.names:
                write_names(place, land.names, land.names.__contains__)
            write_points(place, land.points, land.points.__contains__)
    followed, uncounted = (shares.path, shares.uncounted) if shares else (None, ())
    folders = {name: out / place for name, place in options.places.items()}
    mark = next(iter(marks.values()))
    return Made(folders, out / "params", land.persons, units, blocks, sorted(land.blocks), followed, uncounted, mark)


def _land(blocks: Blocks, wanted: Callable[[str], bool] = lambda state: True) -> Land:
    """Return the states of a table that are wanted, each a country of its own."""
    states = {state: part for state, part in blocks.by_state().items() if wanted(state)}
    people = {state: part.persons for state, part in states.items()}
    before = {state: (0, count) for state, count in people.items()}
    return Land({state: len(part) for state, part in states.items()}, people, before, states.__getitem__)
