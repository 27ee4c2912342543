"""Synthetic persons over real or made-up geography: what `das synth` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tasks.inputs.marks import Mark
from tasks.inputs.names import NAMES, Names, write_names
from tasks.inputs.points import Points, points_in, write_points
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.new_folder import new_folder
from tasks.synth.blocks import Blocks, read_blocks
from tasks.synth.example import example_blocks
from tasks.synth.example_params import write_example_params
from tasks.synth.files import Format, Part, check_room, write_data
from tasks.synth.nation import state_blocks
from tasks.synth.origins import Origins, match, published_counts, read_origins
from tasks.synth.params import PUERTO_RICO, read_config, write_params
from tasks.synth.proportions import apportion
from tasks.synth.tallies import tallies


@dataclass(frozen=True)
class Options:
    """How to make it. progress: called with the number of persons written, and the number of all."""

    seed: int = 0
    form: Format = "text"
    threads: int = 2
    progress: Callable[[int, int], None] = lambda done, total: None


@dataclass(frozen=True)
class Made:
    """What was made: its folders, its contents and its mark.

    shares: the published counts that it follows. uncounted: names of groups without one, which get a person each.
    """

    data: Path
    params: Path
    persons: int
    blocks: int
    states: list[str]
    shares: Path | None
    uncounted: tuple[str, ...]
    mark: Mark


@dataclass(frozen=True)
class Shares:
    """Published counts of persons by group, their file, and the names of groups that it does not count."""

    path: Path
    counts: Mapping[str, float]
    uncounted: tuple[str, ...]


@dataclass(frozen=True)
class Land:
    """States to populate, and a function that gives the geography of each.

    people: persons by state of the whole nation (and Puerto Rico), whether made here or not.
    blocks: number of blocks by state, of those that are made.
    blocks_of: the blocks of a state.
    names, points: of its regions, where the geography has them.
    """

    people: Mapping[str, int]
    blocks: Mapping[str, int]
    blocks_of: Callable[[str], Blocks]
    names: Names = field(default_factory=dict)
    points: Points = field(default_factory=dict)

    @property
    def persons(self) -> int:
        """Persons to make."""
        return sum(self.people[state] for state in self.blocks)

    def parts(self, countries: Mapping[bool, Origins]) -> Iterator[Part]:
        """Yield the states in order, each with its place in its country: the US (False), Puerto Rico (True)."""
        for island in (False, True):
            people = {state: count for state, count in self.people.items() if (state == PUERTO_RICO) is island}
            before = 0
            for state, count in people.items():
                if state in self.blocks:
                    yield Part(state, self.blocks_of(state), countries[island], before, sum(people.values()))
                before += count


def synthesize_blocks(table: Path, params: Path, out: Path, options: Options, shares: Path | None = None) -> Made:
    """Make persons over real geography, exactly its block populations: OUT/data and OUT/params.

    table: docs/spec/files.md#block-tables. shares: published national counts (ITERATION_NAME, US_POP) of the groups;
    None: groups have the chances 1, 1/2, 1/3 ... in the order of their codes.
    Raises Refused, Failed.
    """
    land = replace(_land(read_blocks(table)), names=NAMES.in_geography(str(table)), points=points_in(str(table)))
    return _make("das synth", land, params, out, options, read_shares(shares, params))


def synthesize_example(out: Path, options: Options) -> Made:
    """Return the bundled example: a small made-up geography with its own code list. Raises Refused, Failed."""
    with TemporaryDirectory() as params:
        write_example_params(Path(params))
        return _make("das synth (example)", _land(example_blocks()), Path(params), out, options)


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
    land = Land(
        people=people_of,
        blocks={state: tally[state].blocks for state in tally if not states or state in states},
        blocks_of=lambda state: state_blocks(tally[state], people_of[state], options.seed),
    )
    with TemporaryDirectory() as bundled:
        if params is None:
            params = Path(bundled)
            write_example_params(params)
        return _make("das synth nation", land, params, out, options, read_shares(shares, params))


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
    counts = shares.counts if shares else None
    countries = {island: _origins(params, counts, config, island) for island in (False, True)}
    blocks = sum(land.blocks.values())
    with new_folder(out) as folder:
        check_room(folder, persons=land.persons, blocks=blocks, form=options.form)
        write_params(config, params, folder / "params", land.blocks)
        mark = write_data(
            folder / "data",
            land.parts(countries),
            seed=options.seed,
            generator=generator,
            version=version("das-flows"),
            form=options.form,
            threads=options.threads,
            wrote=lambda done: options.progress(done, land.persons),
        )
        if land.names:
            write_names(folder / "data", land.names, land.names.__contains__)
        write_points(folder / "data", land.points, land.points.__contains__)
    place, uncounted = (shares.path, shares.uncounted) if shares else (None, ())
    return Made(out / "data", out / "params", land.persons, blocks, list(land.blocks), place, uncounted, mark)


def _origins(params: Path, counts: Mapping[str, float] | None, config: Mapping[str, Any], island: bool) -> Origins:
    return read_origins(params, counts, most_codes=config["max_race_codes"], puerto_rico=island)


def _land(blocks: Blocks) -> Land:
    states = blocks.by_state()
    return Land(
        people={state: part.persons for state, part in states.items()},
        blocks={state: len(part) for state, part in states.items()},
        blocks_of=states.__getitem__,
    )
