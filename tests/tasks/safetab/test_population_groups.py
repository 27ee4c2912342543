"""Codes to iterations and exact counts, held against a naive implementation of the specification and vetted cases."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement, product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from dhca_inputs import (
    BLOCKS,
    BUDGETS,
    HERE,
    PROPERTY,
    Inputs,
    configuration,
    countries,
    cut_files,
    new_run,
    people,
    person,
    valid_run,
    validate_here,
)
from dhca_naive import AGES, US, cells, iterations, tabulated
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privacy.accounting.stability import record_reach
from tasks import kernels
from tasks.safetab.count import count_population_groups, load_partitions
from tasks.safetab.domain import load_domain
from tasks.safetab.exact_counts import ExactCounts, read_exact_counts
from tasks.safetab.flatmap import Records, Regions, count_compiled, count_plainly
from tasks.safetab.group_counts import Counts
from tasks.safetab.iterations import ITERATION_KINDS, Granularity, Iterations, read_iterations
from tasks.safetab.levels import ITERATION_LEVELS, Level
from tasks.safetab.parameters import read_parameters
from tasks.safetab.persons.details import AGE4, AGE9, AGE23, in_bins
from tasks.safetab.persons.run import DetailedRun, SafeTabPConfiguration

GRANULARITIES = [("STATE", "nation_state"), ("COUNTY", "sub_state")]
CODE_LIST = ["1100", "1110", "1200", "1300", "2000"]


@st.composite
def hierarchies(draw: st.DrawFn) -> Inputs:
    """A random code list and hierarchy in which every code maps to at most one iteration of a kind, level, granularity.

    A code maps to an iteration of both granularities, or to one of each.
    """
    race: list[tuple[str, ...]] = []
    ethnicity: list[tuple[str, ...]] = []
    number = 1000
    for kind, level in product(("True", "False", "ethnicity"), "12"):
        into: dict[tuple[str, str, int], list[str]] = {}
        for code in CODE_LIST:
            for flags in draw(st.sampled_from([["both"], ["both"], ["nation"], ["sub"], ["nation", "sub"], []])):
                detailed_only, coarse_only = str(flags == "nation"), str(flags == "sub")
                into.setdefault((detailed_only, coarse_only, draw(st.integers(0, 2))), []).append(code)
        for (detailed_only, coarse_only, _), codes in into.items():
            number += 1
            row = (str(number), level, detailed_only, coarse_only, " ".join(codes))
            if kind == "ethnicity":
                ethnicity.append(row)
            else:
                race.append((row[0], level, kind, *row[2:]))
    race.append(("0001", "0", "True", "Null", "Null", " ".join(CODE_LIST)))
    ethnicity.append(("0002", "0", "Null", "Null", CODE_LIST[0]))
    inputs = Inputs(codes=list(CODE_LIST), race=race, ethnicity=ethnicity, persons=[])
    for key in BUDGETS:
        level, region_type = key.removeprefix("privacy_budget_p_level_").split("_", 1)
        name = region_type.upper().replace("_", "-")
        if not any(about["codes"] for about in tabulated(inputs, name, int(level)).values()):
            inputs.config[key] = 0  # a level that no code reaches is refused
    return inputs


def load(inputs: Inputs) -> Iterations:
    """The iterations as the project reads them from files."""
    with TemporaryDirectory() as folder:
        params, _ = inputs.write(Path(folder))
        iterations_, findings = read_iterations(str(params))
    assert iterations_ is not None, findings
    return iterations_


def groups(loaded: Iterations, granularity: Granularity, persons: list[dict[str, str]]) -> list[set[str]]:
    """The iterations of each person, of both levels."""
    columns = [*(f"QRACE{number}" for number in range(1, 9)), "QSPAN"]
    codes = np.array([[loaded.numbers[person[name]] for name in columns] for person in persons], np.uint16)
    matrix = granularity.flatmap(codes)
    assert matrix.dtype.kind == "i"
    dense = matrix.toarray()
    assert set(np.unique(dense)) <= {0, 1}
    return [{granularity.codes[number] for number in np.flatnonzero(row)} for row in dense]


@given(
    inputs=hierarchies(),
    codes=st.lists(
        st.tuples(
            st.lists(st.sampled_from(CODE_LIST), min_size=1, max_size=8),
            st.sampled_from(CODE_LIST),
        ),
        min_size=1,
        max_size=12,
    ),
)
@PROPERTY
def test_the_map_is_the_naive_one(inputs: Inputs, codes: list[tuple[list[str], str]]) -> None:
    loaded = load(inputs)
    persons = [person(races=races, QSPAN=qspan) for races, qspan in codes]
    for region_type, name in GRANULARITIES:
        expected = [
            iterations(inputs, each_person, region_type, 1) | iterations(inputs, each_person, region_type, 2)
            for each_person in persons
        ]
        assert groups(loaded, getattr(loaded, name), persons) == expected


def test_vetted_cases(das_data: Path) -> None:
    loaded, findings = read_iterations(str(das_data / "toy/input_dir_zcdp"))
    assert loaded is not None, findings
    rows = (das_data / "toy/race_eth_codes_to_iterations_testcases.txt").read_text().splitlines()[1:]
    cases = [row.split("|") for row in rows]
    assert len(cases) == 12
    persons = [person(races=races.split(","), QSPAN=qspan) for races, qspan, _, _ in cases]
    assert groups(loaded, loaded.nation_state, persons) == [set(case[2].split(",")) for case in cases]
    assert groups(loaded, loaded.sub_state, persons) == [set(case[3].split(",")) for case in cases]
    for region_type in ("STATE", "COUNTY"):  # the Bureau's test has 8 for both levels together
        assert sum(loaded.stability(Level(region_type, level), 3) for level in ITERATION_LEVELS) == 8


def test_production_tallies(das_data: Path) -> None:
    parameters, _ = read_parameters(str(das_data / "params-2020-production"), SafeTabPConfiguration)
    assert parameters is not None
    loaded = parameters.iterations
    assert len(loaded.codes) == 1755
    assert [len(loaded.nation_state.of_level(level)) for level in ITERATION_LEVELS] == [52, 2944]
    assert [len(loaded.sub_state.of_level(level)) for level in ITERATION_LEVELS] == [48, 2150]
    for level in (*parameters.configuration.levels("us"), *parameters.configuration.levels("pr")):
        assert loaded.stability(level, 8) == 9


# Stability


def brute_force_reach(inputs: Inputs, region_type: str, level: int, max_race_codes: int) -> int:
    """The most groups that any possible record is in."""
    records = [
        person(races=races, QSPAN=qspan)
        for count in range(1, max_race_codes + 1)
        for races in combinations_with_replacement(inputs.codes, count)
        for qspan in inputs.codes
    ]
    return max(len(iterations(inputs, record, region_type, level)) for record in records)


def formula(inputs: Inputs, region_type: str, level: int, max_race_codes: int) -> int:
    """Their stability (docs/privacy.md#proof, 4), from the hierarchy itself."""
    most = {
        kind: max(
            sum(about["kind"] == kind and code in about["codes"] for about in domain.values()) for code in inputs.codes
        )
        for domain in [tabulated(inputs, region_type, level)]
        for kind in ("alone", "combination", "ethnicity")
    }
    return max(most["alone"], most["combination"]) * max(2, max_race_codes) + most["ethnicity"]


@given(inputs=hierarchies(), max_race_codes=st.integers(1, 4))
@settings(PROPERTY, max_examples=10)
def test_stability_bounds_every_possible_record(inputs: Inputs, max_race_codes: int) -> None:
    loaded = load(inputs)
    for region_type, name in GRANULARITIES:
        for level in ITERATION_LEVELS:
            reach = brute_force_reach(inputs, region_type, level, max_race_codes)
            bound = formula(inputs, region_type, level, max_race_codes)
            assert record_reach(getattr(loaded, name).counts(level), max_race_codes) == reach
            if reach > bound or not bound:
                with pytest.raises(ValueError, match=r"possible record|no code maps"):
                    loaded.stability(Level(region_type, level), max_race_codes)
            else:
                assert loaded.stability(Level(region_type, level), max_race_codes) == bound


# Exact counts


def counted(folder: Path, inputs: Inputs, blocks_each: int | None, jurisdiction: str = "us") -> DetailedRun:
    run, _ = valid_run(folder, inputs, jurisdiction)  # type: ignore[arg-type]
    count_population_groups(run, HERE, jurisdiction, blocks_each)  # type: ignore[arg-type]
    return run


def check_counts(run: DetailedRun, inputs: Inputs, jurisdiction: str, regions_each: int) -> None:
    """Totals and tables of every level, taken in runs of `regions_each` regions, against the naive ones."""
    expected = cells(inputs, jurisdiction)
    seen = 0
    for level in run.parameters.configuration.levels(jurisdiction):  # type: ignore[arg-type]
        domain = load_domain(run, level)
        keys = [
            (level.region_type, region_id, code) for region_id in domain.region_ids for code in domain.iteration_codes
        ]
        assert keys == sorted(keys)
        seen += len(keys)
        width = len(domain.iteration_codes)
        for first in range(0, len(domain.region_ids), regions_each):
            last = min(first + regions_each, len(domain.region_ids))
            exact = read_exact_counts(run, level, first, last)
            part = [expected[key] for key in keys[first * width : last * width]]
            assert exact.totals().tolist() == [counts.total() for counts in part]
            chosen = np.arange(len(part))[::2]
            for detail in (AGE4, AGE9, AGE23):
                table = in_bins(exact.cells(chosen), detail)
                assert table.tolist() == [naive_table(part[number], detail) for number in chosen]
    assert seen == len(expected)


def naive_table(counts: Counter[tuple[int, int]], detail: int) -> list[int]:
    starts = AGES[detail]
    return [
        sum(n for (s, age), n in counts.items() if s == sex and low <= age < high)
        for sex in (1, 2)
        for low, high in zip(starts, [*starts[1:], 116], strict=True)
    ]


@pytest.mark.parametrize("blocks_each", [1, None, pytest.param(1000, marks=pytest.mark.slow)])
def test_partitions_of_any_size_give_the_naive_counts(tmp_path: Path, blocks_each: int | None) -> None:
    inputs = Inputs(persons=people(300))
    run = counted(tmp_path, inputs, blocks_each)
    partitions = load_partitions(run)
    if blocks_each == 1:
        assert len(partitions) == 4  # whole tracts
    if blocks_each == 1000:
        assert len(partitions) == 1
    check_counts(run, inputs, "us", 2)


@given(inputs=countries(), blocks_each=st.integers(1, 5), regions_each=st.integers(1, 4))
@example(inputs=Inputs(persons=[person(BLOCKS[6])]), blocks_each=1, regions_each=1)  # nobody in the states
@settings(PROPERTY, max_examples=8)
def test_counts_of_any_country(inputs: Inputs, blocks_each: int, regions_each: int) -> None:
    with TemporaryDirectory() as folder:
        run = counted(Path(folder), inputs, blocks_each)
        check_counts(run, inputs, "us", regions_each)


def test_puerto_rico(tmp_path: Path) -> None:
    inputs = Inputs(persons=[*people(50), *people(80, 2, BLOCKS[7:])])
    inputs.config |= {"run_us": False, "run_pr": True}
    check_counts(counted(tmp_path, inputs, 1, "pr"), inputs, "pr", 1)


def test_every_age_falls_in_its_bin(tmp_path: Path) -> None:
    """A person of each age, in a tract of its own."""
    ages = [0, 4, 5, 14, 15, 17, 18, 20, 21, 22, 24, 62, 64, 66, 67, 84, 85, 115]
    blocks = [("01", "001", f"{number:06d}", "1000", "99999", "9999") for number in range(1, len(ages) + 1)]
    persons = [person(block, QAGE=str(age), QSEX="2") for block, age in zip(blocks, ages, strict=True)]
    run = counted(tmp_path, Inputs(blocks=blocks, persons=persons), None)
    exact = read_exact_counts(run, Level("TRACT", 1), 0, len(ages))
    groups = np.flatnonzero(exact.totals()).reshape(len(ages), -1)[:, 0]  # each is in as many groups as the others
    for group, age in zip(groups.tolist(), ages, strict=True):
        for detail in (AGE4, AGE9, AGE23):
            bins = AGES[detail]
            (cell,) = np.flatnonzero(in_bins(exact.cells(np.array([group])), detail)[0])
            assert cell == len(bins) + sum(age >= start for start in bins) - 1


def test_levels_without_budget_are_not_counted(tmp_path: Path) -> None:
    inputs = Inputs(config=configuration(**{key: 0 for key in BUDGETS if "tract" in key or "level_1" in key}))
    run = counted(tmp_path, inputs, 1)
    assert {path.name for path in (run / "counts").iterdir()} == set(US) - {"TRACT"}


@st.composite
def granularities(draw: st.DrawFn) -> Granularity:
    """Maps of five codes to iterations, each iteration of one kind and level."""
    random, maps, known = np.random.default_rng(draw(st.integers(0, 2**32))), {}, 0
    for kind, level in product(ITERATION_KINDS, ITERATION_LEVELS):
        maps[kind, level] = np.append(-1, random.integers(-1, 3, 5)).astype(np.int32)
        maps[kind, level][maps[kind, level] >= 0] += known
        known += 3
    codes = tuple(str(number) for number in range(known))
    return Granularity(codes, np.zeros(known, np.uint8), np.zeros(known, bool), maps)


combinations = st.lists(
    st.tuples(*[st.integers(1, 5), *[st.sampled_from([0, 0, 1, 2, 3, 4, 5])] * 7, st.integers(1, 5)]),
    min_size=1,
    max_size=8,
).map(lambda rows: np.array(rows, np.uint16))


@given(granularities(), combinations)
@PROPERTY
def test_the_matrix_maps_each_combination_by_itself(granularity: Granularity, combinations: np.ndarray) -> None:
    dense = np.zeros((len(combinations), len(granularity.codes)), np.int64)
    for row, codes in enumerate(combinations.tolist()):
        dense[row, list(iterations_of(granularity, codes))] = 1
    flatmap = granularity.flatmap(combinations)
    np.testing.assert_array_equal(dense, flatmap.toarray())
    assert flatmap.nnz == dense.sum()


def iterations_of(granularity: Granularity, codes: list[int]) -> set[int]:
    """The iterations of a record, of both levels (paper, Table 5), code by code."""
    races, found = {code for code in codes[:8] if code}, set()
    for level in ITERATION_LEVELS:
        alone, combination, ethnicity = (granularity.maps[kind, level] for kind in ITERATION_KINDS)
        found |= {int(combination[race]) for race in races} | {int(ethnicity[codes[8]])}
        common = {int(alone[race]) for race in races}
        found |= common if len(common) == 1 else set()
    return found - {-1}


@st.composite
def two_granularities(draw: st.DrawFn) -> list[Granularity]:
    """Two that share iterations; codes without a shared one may have one that only this granularity tabulates."""
    shared, found = draw(granularities()), []
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    for own in "ab":
        codes, maps = list(shared.codes), {}
        for key, of_codes in shared.maps.items():
            at = (of_codes < 0) & (np.arange(len(of_codes)) > 0) & (random.random(len(of_codes)) < 0.5)
            maps[key] = np.where(at, len(codes), of_codes).astype(np.int32)
            codes.append(f"{own}{len(codes)}")
        order = random.permutation(len(codes))
        renumbered = np.append(np.argsort(order), -1).astype(np.int32)
        maps = {key: renumbered[of_codes] for key, of_codes in maps.items()}
        none = np.zeros(len(codes), np.uint8)
        found.append(Granularity(tuple(codes[place] for place in order), none, none.astype(bool), maps))
    return found


@given(two_granularities(), combinations, st.data())
@PROPERTY
def test_the_kernels_count_what_the_product_does(
    granularities: list[Granularity], combinations: np.ndarray, data: st.DataObject
) -> None:
    """Regions of several types, of either granularity, each block in one or in none, in any order.

    Some types consist of another's regions, and some groups have more records in a cell than an entry holds.
    """
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    blocks, count = data.draw(st.integers(1, 6)), data.draw(st.integers(0, 60) | st.just(3000))
    block = np.sort(random.integers(0, blocks, count))
    records = Records(
        starts=np.searchsorted(block, np.arange(blocks + 1)),
        cell=random.integers(0, data.draw(st.sampled_from([1, 46])), count).astype(np.uint8),
        combination=random.integers(0, len(combinations), count).astype(np.uint32),
        combinations=combinations,
    )
    numbers = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    regions = {
        str(place): Regions(number, random.integers(-1, number, blocks).astype(np.int32))
        for place, number in enumerate(numbers)
    }
    for name, parts in list(regions.items()):
        if data.draw(st.booleans()):
            whole = np.append(random.integers(-1, 2, parts.number), -1).astype(np.int32)
            regions[f"whole {name}"] = Regions(2, whole[parts.of_block])
    of_type = {name: data.draw(st.sampled_from(granularities)) for name in regions}
    codes = sorted({code for granularity in granularities for code in granularity.codes})
    compiled, plain = (
        {name: _dense(made, of_type[name], codes) for name, made in count(records, of_type, regions, codes, 46)}
        for count in (count_compiled, count_plainly)
    )
    assert compiled.keys() == plain.keys() == regions.keys()
    for name, granularity in of_type.items():
        np.testing.assert_array_equal(compiled[name], plain[name])
        in_groups = np.diff(granularity.flatmap(combinations).indptr)[records.combination]
        assert compiled[name].sum() == in_groups[regions[name].of_block[block] >= 0].sum()


def _dense(made: Counts, granularity: Granularity, codes: list[str]) -> np.ndarray:
    """Regions x cells x iterations of the granularity; no entry is empty, and groups have the sums of theirs."""
    counts = np.zeros((len(made.ends) - 1, 46, len(codes)), np.int64)
    region = np.repeat(np.arange(len(counts)), np.diff(made.ends[:, 0]))
    group = np.repeat(np.arange(len(made.groups)), made.groups[:, 2])
    assert made.entries[:, 1].all()
    np.testing.assert_array_equal(np.bincount(group, made.entries[:, 1], len(made.groups)), made.groups[:, 1])
    np.testing.assert_array_equal(np.searchsorted(region[group], np.arange(len(counts) + 1)), made.ends[:, 1])
    np.add.at(counts, (region[group], made.entries[:, 0], made.groups[group, 0]), made.entries[:, 1])
    return counts[:, :, np.searchsorted(codes, granularity.codes)]


def test_a_run_counts_the_same_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the chunks are in another order than the blocks."""
    params, data = Inputs(persons=people(90)).write(tmp_path)
    cut_files(monkeypatch, 700)
    found = []
    for fewest in (0, 1 << 30):
        monkeypatch.setattr(kernels, "kernels_loaded", bool)  # none
        monkeypatch.setattr(kernels, "FEWEST", fewest)
        run = new_run(tmp_path, f"fewest-{fewest}")
        assert validate_here(run, params, data)[0] is not None
        count_population_groups(run, HERE, "us", blocks_each=3)
        exact = [
            read_exact_counts(run, level, 0, len(load_domain(run, level).region_ids))
            for level in run.parameters.configuration.levels("us")
        ]
        totals = [counts.totals() for counts in exact]
        tables = [counts.cells(np.arange(len(total))) for counts, total in zip(exact, totals, strict=True)]
        found.append([(total.tolist(), table.tolist()) for total, table in zip(totals, tables, strict=True)])
    assert found[0] == found[1]
    assert sum(found[0][0][0]) > 0


@given(
    matrices=st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 2), st.integers(0, 2**32), st.integers(0, 40)),
        min_size=1,
        max_size=3,
    ),
    chosen=st.lists(st.integers(0, 11), unique=True),
    position=st.permutations([0, 1, 2, -1, -1]),
)
@PROPERTY
def test_kernels_add_entries_up_as_numpy_does(
    matrices: list[tuple[int, int, int, int]], chosen: list[int], position: list[int]
) -> None:
    """Partitions that share regions, parts of a longer matrix, iterations of another level, groups in any order."""
    dense, parts = np.zeros((4, 3, 46), np.int64), []
    for first, regions, seed, many in matrices:
        random = np.random.default_rng(seed)
        sizes = random.integers(0, 4, many)
        entries = np.stack([random.integers(0, 46, sizes.sum()), random.integers(1, 9, sizes.sum())], axis=1)
        group, iteration = np.repeat(np.arange(many), sizes), random.integers(0, 5, many)
        totals = np.bincount(group, entries[:, 1], many).astype(np.int64)
        region = np.sort(random.integers(0, regions, many))
        ends = [np.searchsorted(of, np.arange(regions + 1)) for of in (region, region[group])]
        groups = np.stack([iteration, totals, sizes], axis=1).astype(np.uint16)
        before = random.integers(0, 9, 2)
        counts = Counts(np.stack(ends, axis=1) + before, groups, entries.astype(np.uint8))
        parts.append((slice(first, first + regions), counts))
        for at, (cell, persons) in zip(group, entries.tolist(), strict=True):
            if position[iteration[at]] >= 0:
                dense[first + region[at], position[iteration[at]], cell] += persons
    exact = ExactCounts(4, 3, 46, np.array(position), parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "kernels_loaded", bool)  # none
        for fewest in (0, 1 << 30):
            patch.setattr(kernels, "FEWEST", fewest)
            np.testing.assert_array_equal(exact.totals(), dense.sum(axis=2).reshape(-1))
            cells = exact.cells(np.array(chosen, np.int64))
            np.testing.assert_array_equal(cells, dense.reshape(12, 46)[np.array(chosen, np.int64)])
            in_four = in_bins(cells, AGE4)
            starts = [0, 4, 12, 17, 23, 27, 35, 40]  # of ages 0, 18, 45 and 65 among the 46 cells
            np.testing.assert_array_equal(in_four, np.add.reduceat(cells, starts, axis=1))
