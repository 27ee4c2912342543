"""One made-up population over real or made-up geography, written for any system: the work of `das synth`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from spine.settings import Jurisdiction
from tasks.geography.names import NAMES, Names
from tasks.geography.points import POINTS, Points
from tasks.geography.public_regions import read_regions
from tasks.lifecycle.new_folder import check_empty, new_folder
from tasks.records.marks import Mark, save_mark
from tasks.synth.blocks import read_blocks
from tasks.synth.nation import PUERTO_RICO
from tasks.synth.origins import match, published_counts, read_origins
from tasks.synth.params import read_config, write_params
from tasks.synth.population.codes import Origins
from tasks.synth.report import Counts
from tasks.synth.states import State, nation_states, table_states
from tasks.synth.write import Format, Options, check_room, write_data
from tasks.synth.writers.systems import SYSTEMS

EXAMPLE = Path(__file__).parent / "example"  # a block table and parameter files, in the usual formats
GIVEN = "populations of blocks by voting age, ethnicity and race, group quarters and housing units; the rest is drawn"
DRAWN = "populations of blocks; the rest is drawn"


@dataclass(frozen=True)
class MadePopulation:
    """A population that was made: its folders by system, its contents and its mark.

    shares: the published counts that it follows. uncounted: names of groups without a count, which get one person each.
    counts: the population's, as in report.py.
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
) -> MadePopulation:
    """Make persons over real geography, with exactly its block populations.

    table: docs/spec/files.md#block-tables. populated: refuse a table without populations; otherwise draw them.
    params: a code list; None: that of the bundled example. shares: published national counts (ITERATION_NAME, US_POP)
    of the groups; None: groups have the weights 1, 1/2, 1/3 ... in the order of their codes. wanted: whether to make a
    state. Raises Refused, Failed.
    """
    check_empty(out)
    states = table_states(read_blocks(table, populated=populated), table, options.seed, wanted)
    names, points = read_regions(str(table))
    return _make(generator, states, params, out, options, shares, names=names, points=points)


def synthesize_top_down(
    table: Path,
    out: Path,
    *,
    seed: int = 0,
    jurisdiction: Jurisdiction = "us",
    states: Sequence[int] = (),
    form: Format = "parquet",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> MadePopulation:
    """Make persons and units for the TopDown Algorithm on these blocks, or on those of some states, in `out` itself.

    Populations are drawn if the table lacks them; races follow the example's code list. Raises Refused, Failed.
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


def synthesize_example(out: Path, options: Options) -> MadePopulation:
    """Make the bundled example: a small invented geography with its own code list. Raises Refused, Failed.

    Two states (numbered 31 and 46, because a state filter must name real ones) with three counties, and a Puerto Rico
    with two. Places cross tracts; county 31003 is a single tract and, except for its water block 0001, a single place;
    AIANNH area 0500 crosses the states; some blocks are empty. The codes are of invented peoples, with every case of
    the real list: Regional and Detailed iterations, groups with too few people for sub-state tables (DETAILED_ONLY) and
    the group that collects them (COARSE_ONLY), LEVEL 0.
    """
    return synthesize_blocks(EXAMPLE / "blocks.txt", None, out, options, generator="das synth (example)")


def synthesize_nation(
    params: Path | None,
    out: Path,
    options: Options,
    shares: Path | None = None,
    *,
    persons: int | None = None,
    states: Sequence[str] = (),
) -> MadePopulation:
    """Make a nation with the tallies of 2020 (tasks.synth.nation), with one state at a time in memory.

    params: its code list and configuration; None: those of the bundled example.
    persons: in the whole nation and Puerto Rico, on the same geography; None: as many as in 2020.
    states: the codes to make, 72 for Puerto Rico; empty: all. A state is the same with or without the others.
    Raises Refused, Failed.
    """
    return _make("das synth nation", nation_states(persons, states, options.seed), params, out, options, shares)


def _make(
    generator: str,
    states: Sequence[State],
    params: Path | None,
    out: Path,
    options: Options,
    shares: Path | None,
    *,
    names: Names | None = None,
    points: Points | None = None,
) -> MadePopulation:
    params = params or EXAMPLE / "params"
    config = read_config(params)
    followed, uncounted = match(params, published_counts(shares), shares) if shares else (None, ())
    systems = {place: SYSTEMS[name] for name, place in options.places.items()}
    persons, blocks = sum(state.persons for state in states), sum(state.size for state in states)
    codes = sorted(state.code for state in states)

    @cache
    def origins(island: bool) -> Origins:
        return read_origins(params, followed, most_codes=config["max_race_codes"], puerto_rico=island)

    def law(state: State) -> Origins:
        return origins(state.code == PUERTO_RICO)

    mark = Mark(generator, version("das-flows"), options.seed, {}, population=_fidelity(states, law))
    with new_folder(out) as folder:
        check_room(folder, systems.values(), persons=persons, blocks=blocks, form=options.form)
        if options.params:
            write_params(config, params, folder / "params", codes)
        digests, counts = write_data(
            {folder / place: system for place, system in systems.items()},
            (state.open(law(state), options.seed) for state in states),
            options,
            persons,
        )
        for place, own in digests.items():
            save_mark(place, replace(mark, digests=own))
            if names:
                NAMES.write_release(place, names, names.__contains__)
            if points:
                POINTS.write_release(place, points, points.__contains__)
    folders = {name: out / place for name, place in options.places.items()}
    mark = replace(mark, digests=next(iter(digests.values())))
    return MadePopulation(folders, out / "params", persons, blocks, codes, shares, uncounted, mark, counts)


def _fidelity(states: Sequence[State], law: Callable[[State], Origins]) -> dict[str, Any]:
    """Return the sources of a population, for its mark: the given counts, and the numbers of repaired blocks."""
    if all(state.published is None for state in states):
        return {"given": DRAWN}
    repaired = sum((state.repairs or Counter() for state in states), Counter[str]())
    repaired["persons with a race that no code of the list has"] = sum(state.strangers(law(state)) for state in states)
    return {"given": GIVEN, "repaired": {rule: count for rule, count in repaired.items() if count}}
