"""Algorithm 4 against the paper's own loop over dictionaries, and which regions are coterminous."""

from __future__ import annotations

import random
from collections.abc import Iterable
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
    people,
    read_release,
    stage_here,
    valid_run,
    write_rows,
)
from dhca_naive import PR, US, regions, states, tabulated
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tasks.errors import Refused
from tasks.lifecycle.files import save_arrays, save_object
from tasks.releases.digests import file_digest
from tasks.releases.manifest import read_manifest
from tasks.safetab.coterminous import equate, equate_coterminous, find_sets, is_water, save_sets
from tasks.safetab.domain import load_domain
from tasks.safetab.group_tables import final_folders
from tasks.safetab.levels import Level
from tasks.safetab.persons.details import AGES, TOTAL, TOTAL_ONLY, WIDTHS
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.persons.suppression import PublishedGroups
from tasks.safetab.run import COTERMINOUS

pytestmark = pytest.mark.usefixtures("untidy")
Node = tuple[str, str]  # region type and id
Sets = set[frozenset[Node]]


def found_sets(run: DetailedRun, jurisdiction: str = "us", listed: Path | None = None) -> Sets:
    """The sets as the project finds them."""
    numbers = find_sets(run, jurisdiction, str(listed) if listed else None)  # type: ignore[arg-type]
    ids = run.geography.region_ids
    members: dict[int, set[Node]] = {}
    for region_type, set_of in numbers.items():
        for number, set_number in enumerate(set_of.tolist()):
            if set_number >= 0:
                members.setdefault(set_number, set()).add((region_type, ids[region_type][number]))
    return {frozenset(nodes) for nodes in members.values()}


def naive_sets(inputs: Inputs, jurisdiction: str = "us") -> Sets:
    """Regions with the same land blocks."""
    land: dict[Node, set[tuple[str, ...]]] = {}
    for block in inputs.blocks:
        water = block[3].startswith("0") or block[2].startswith("9900")
        if block[0] in states(inputs, jurisdiction) and not water:
            for node in regions(block).items():
                land.setdefault(node, set()).add(block[:4])
    groups: dict[frozenset[tuple[str, ...]], set[Node]] = {}
    for node, blocks in land.items():
        groups.setdefault(frozenset(blocks), set()).add(node)
    return {frozenset(nodes) for nodes in groups.values() if len(nodes) > 1}


@given(inputs=countries())
@example(
    inputs=Inputs(blocks=[("01", "001", "000100", "1000", "99999", "9999")], persons=people(2, blocks=BLOCKS[6:7]))
)
@settings(PROPERTY, max_examples=8)
def test_sets_are_the_regions_with_the_same_land_blocks(inputs: Inputs) -> None:
    with TemporaryDirectory() as folder:
        assert found_sets(valid_run(Path(folder), inputs)[0]) == naive_sets(inputs)


def test_a_district_is_state_county_and_place_at_once(tmp_path: Path) -> None:
    inputs = Inputs(config=configuration(state_filter_us=["01", "11"]))
    district = {("STATE", "11"), ("COUNTY", "11001"), ("TRACT", "11001000100"), ("PLACE", "1150000")}
    assert frozenset(district) in found_sets(valid_run(tmp_path, inputs)[0])


@pytest.mark.parametrize(
    ("tract", "block", "water"),
    [
        ("000100", "0001", True),
        ("000100", "0999", True),
        ("000100", "1000", False),
        ("990000", "1000", True),
        ("990099", "1000", True),
        ("990100", "1000", False),
        ("199001", "1000", False),
    ],
)
def test_water(tmp_path: Path, tract: str, block: str, water: bool) -> None:
    """A county of a land tract and a water one equals the land tract; of two land tracts it equals neither."""
    assert is_water(np.array([int(f"01001{tract}{block}")])).tolist() == [water]
    blocks = [("01", "001", "000200", "1000", "99999", "9999"), ("01", "001", tract, block, "99999", "9999")]
    inputs = Inputs(blocks=[*blocks, *BLOCKS[3:]], persons=[])
    inputs.persons = people(3, blocks=BLOCKS[3:6])
    pair = frozenset({("COUNTY", "01001"), ("TRACT", "01001000200")})
    assert (pair in found_sets(valid_run(tmp_path, inputs)[0])) == water


def listed(folder: Path, rows: Iterable[tuple[str, str, str]]) -> Path:
    path = folder / "sets.txt"
    write_rows(path, ["SET", "REGION_TYPE", "REGION_ID"], rows)
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> DetailedRun:
    """A run that has validated the small country; only to be read."""
    return valid_run(tmp_path_factory.mktemp("valid"), Inputs())[0]


def test_a_list_adds_sets_and_joins_those_there_are(tmp_path: Path, run: DetailedRun) -> None:
    assert frozenset({("COUNTY", "01003"), ("TRACT", "01003000100")}) in found_sets(run)
    rows = [
        ("a", "COUNTY", "01003"),
        ("a", "AIANNH", "0008"),
        ("b", "TRACT", "01001000100"),
        ("b", "PLACE", "0100500"),
        ("c", "PR-COUNTY", "72001"),  # for the other run
        ("c", "PR-PLACE", "7200500"),
    ]
    sets = found_sets(run, listed=listed(tmp_path, rows))
    equal = {("AIANNH", "0008"), ("PLACE", "0200900")}  # one block is all they have
    assert frozenset({("COUNTY", "01003"), ("TRACT", "01003000100"), *equal}) in sets
    assert frozenset({("TRACT", "01001000100"), ("PLACE", "0100500")}) in sets


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("a", "COUNTY", "01009")], "COUNTY 01009 is not a region of this run"),
        ([("a", "BLOCK", "01003")], "BLOCK 01003 is not a region of this run"),
        ([("a", "COUNTY", "11001")], "COUNTY 11001 is not a region of this run"),  # outside the state filter
        ([("a", "TRACT", "01001000100"), ("a", "TRACT", "01001000200")], "puts two TRACT regions into one set"),
    ],
)
def test_a_list_with_a_fault_is_refused(
    tmp_path: Path, run: DetailedRun, rows: list[tuple[str, str, str]], message: str
) -> None:
    with pytest.raises(Refused, match=message):
        found_sets(run, listed=listed(tmp_path, rows))


LIST = "SET|REGION_TYPE|REGION_ID\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "does not exist"), ("SET|REGION_ID\na|1\n", "Missing columns"), ("", "is empty"), (LIST, "is empty")],
)
def test_a_list_that_cannot_be_read_is_refused(
    tmp_path: Path, run: DetailedRun, text: str | None, message: str
) -> None:
    path = tmp_path / "sets.txt"
    if text is not None:
        path.write_text(text)
    with pytest.raises(Refused, match=message):
        found_sets(run, listed=path)


# Algorithm 4

Tables = dict[tuple[str, str, str], tuple[int, tuple[int, ...]]]  # group: detail, cells


def random_tables(inputs: Inputs, jurisdiction: str, rng: random.Random) -> Tables:
    """Some groups of the domain with made-up counts: of a total, or the cells of a table."""
    tables: Tables = {}
    blocks = [block for block in inputs.blocks if block[0] in states(inputs, jurisdiction)]
    for block in blocks:
        for region_type, region_id in regions(block).items():
            for level in (1, 2):
                if inputs.config[_budget(region_type, level)] == 0:
                    continue
                for code, about in tabulated(inputs, region_type, level).items():
                    if rng.random() < 0.5:
                        detail = TOTAL_ONLY if about["total_only"] else rng.choice([TOTAL, *AGES])
                        cells = tuple(rng.randint(-9, 99) for _ in range(int(WIDTHS[detail])))
                        tables[region_type, region_id, code] = (detail, cells)
    return tables


def _budget(region_type: str, level: int) -> str:
    return f"privacy_budget_p_level_{level}_{region_type.lower().replace('-', '_')}"


def algorithm_4(inputs: Inputs, df: Tables, sets: Sets, order: tuple[str, ...]) -> Tables:
    """The paper's loops; with a group's donor in the order R, and no group in a domain that it is not in."""
    df = dict(df)
    codes = {row[0] for row in (*inputs.race, *inputs.ethnicity)}
    for nodes in sets:
        for code in codes:
            members = [
                (region_type, region_id, code)
                for region_type, region_id in nodes
                if any(
                    code in tabulated(inputs, region_type, level) and inputs.config[_budget(region_type, level)] != 0
                    for level in (1, 2)
                )
            ]
            for summary_level in order:
                donor = next((group for group in members if group[0] == summary_level and group in df), None)
                if donor:
                    for group in members:
                        df[group] = df[donor]
                    break
    return df


def write_tables(run: DetailedRun, jurisdiction: str, tables: Tables) -> None:
    levels = run.parameters.configuration.levels(jurisdiction)  # type: ignore[arg-type]
    for place, level in enumerate(levels):
        domain = load_domain(run, level)
        rows = []
        for (region_type, region_id, code), table in tables.items():
            if region_type == level.region_type and code in domain.iteration_codes:
                group = domain.region_ids.index(region_id) * len(domain.iteration_codes)
                rows.append((group + domain.iteration_codes.index(code), *table))
        rows.sort()
        published = PublishedGroups(
            group=np.array([row[0] for row in rows], np.int64),
            detail=np.array([row[1] for row in rows], np.uint8),
            cells=np.array([cell for row in rows for cell in row[2]], np.int64),
            noise_of=np.full(len(rows), place, np.uint8),
        )
        for first, last in domain.pieces():
            width = len(domain.iteration_codes)
            inside = np.flatnonzero((published.group >= first * width) & (published.group < last * width))
            save_arrays(run.noisy_folder(level, PublishedGroups.MADE, first), published.take(inside).arrays())


def read_tables(run: DetailedRun, jurisdiction: str) -> tuple[Tables, dict[tuple[str, str, str], str]]:
    """The final tables, and by group the region type whose noise it has."""
    tables: Tables = {}
    noise_of: dict[tuple[str, str, str], str] = {}
    levels = run.parameters.configuration.levels(jurisdiction)  # type: ignore[arg-type]
    for level in levels:
        domain = load_domain(run, level)
        published = PublishedGroups.load(final_folders(run, level, PublishedGroups))
        assert np.all(np.diff(published.group) > 0)
        ends = np.cumsum(published.widths)
        for number, group in enumerate(published.group.tolist()):
            region_number, code = divmod(group, len(domain.iteration_codes))
            key = (level.region_type, domain.region_ids[region_number], domain.iteration_codes[code])
            cells = published.cells[ends[number] - published.widths[number] : ends[number]]
            tables[key] = (int(published.detail[number]), tuple(cells.tolist()))
            donor = levels[int(published.noise_of[number])]
            assert donor.iteration_level == level.iteration_level
            noise_of[key] = donor.region_type
    return tables, noise_of


@given(inputs=countries(), seed=st.integers(0, 10**6), jurisdiction=st.sampled_from(["us", "pr"]))
@settings(PROPERTY, max_examples=4)
def test_algorithm_4(inputs: Inputs, seed: int, jurisdiction: str) -> None:
    if jurisdiction == "pr":
        inputs.config |= {"run_us": False, "run_pr": True}
        inputs.blocks = [("72", *block[1:]) for block in {block[1:4]: block for block in inputs.blocks}.values()]
        inputs.persons = people(3, blocks=inputs.blocks)
        inputs.config["privacy_budget_p_level_2_pr_state"] = 1
    with TemporaryDirectory() as folder:
        run = valid_run(Path(folder), inputs, jurisdiction)[0]
        before = random_tables(inputs, jurisdiction, random.Random(seed))
        write_tables(run, jurisdiction, before)
        save_sets(run, jurisdiction, enabled=True, listed=None)  # type: ignore[arg-type]
        equate_coterminous(run, HERE, jurisdiction, (PublishedGroups,))  # type: ignore[arg-type]
        after, noise_of = read_tables(run, jurisdiction)
    sets = naive_sets(inputs, jurisdiction)
    assert after == algorithm_4(inputs, before, sets, US if jurisdiction == "us" else PR)
    for group, donor in noise_of.items():
        nodes = next((nodes for nodes in sets if group[:2] in nodes), frozenset({group[:2]}))
        (source,) = (region_id for region_type, region_id in nodes if region_type == donor)
        assert after[group] == before[donor, source, group[2]]


def test_switched_off_it_changes_nothing(tmp_path: Path) -> None:
    inputs = Inputs()
    run = valid_run(tmp_path, inputs)[0]
    before = random_tables(inputs, "us", random.Random(1))
    write_tables(run, "us", before)
    save_sets(run, "us", enabled=False, listed=None)
    equate_coterminous(run, HERE, "us", (PublishedGroups,))
    after, noise_of = read_tables(run, "us")
    assert after == before
    assert all(donor == region_type for (region_type, *_), donor in noise_of.items())


def test_a_retry_leaves_what_is_there(tmp_path: Path) -> None:
    run = valid_run(tmp_path, Inputs())[0]
    write_tables(run, "us", random_tables(Inputs(), "us", random.Random(1)))
    save_object(run / COTERMINOUS, find_sets(run, "us"))
    equate(run, "us", 2, PublishedGroups)
    first = {
        path: path.stat().st_mtime_ns for path in final_folders(run, Level("TRACT", 2), PublishedGroups)[0].iterdir()
    }
    equate(run, "us", 2, PublishedGroups)
    assert first == {
        path: path.stat().st_mtime_ns for path in final_folders(run, Level("TRACT", 2), PublishedGroups)[0].iterdir()
    }


def test_the_sets_are_of_the_list_that_the_release_names(tmp_path: Path) -> None:
    """A list edited before the reservation gives sets of its own; one edited after its digest was told is refused."""
    run = valid_run(tmp_path, Inputs())[0]
    path = listed(tmp_path, [("a", "PLACE", "0100500"), ("a", "COUNTY", "01001")])
    first = file_digest(path)
    save_sets(run, "us", enabled=True, listed=str(path), digest=first)
    before = run.coterminous_sets
    listed(tmp_path, [("a", "PLACE", "0100500"), ("a", "TRACT", "01001000200")])
    with pytest.raises(Refused, match="changed while it was read"):
        save_sets(run, "us", enabled=True, listed=str(path), digest=first)
    save_sets(run, "us", enabled=True, listed=str(path), digest=file_digest(path))
    after = run.coterminous_sets
    assert (before["PLACE"][0] == before["COUNTY"][0] >= 0, after["COUNTY"][0]) == (True, -1)
    assert (before["TRACT"][1], after["PLACE"][0] == after["TRACT"][1] >= 0) == (-1, True)


def test_a_recipient_has_its_donors_margin(tmp_path: Path) -> None:
    """The county of one tract gives the tract counts, detail and margins, though the tract's own noise is wider."""
    import pyarrow.parquet as pq

    inputs = Inputs(persons=people(100))
    inputs.config["privacy_budget_p_level_2_tract"] = 0.01
    del inputs.config["zero_suppression_chance"]
    _, place = stage_here(tmp_path, inputs, coterminous=True)

    def rows(name: str, region_id: str) -> list[tuple[object, ...]]:
        table = pq.read_table(place / f"parquet/{name}.parquet").to_pylist()
        return [tuple(row.values())[2:] for row in table if row["REGION_ID"] == region_id]

    for table in ("t1", "t2"):
        county, tract = rows(f"{table}/county-2", "01003"), rows(f"{table}/tract-2", "01003000100")
        assert tract
        assert county == tract
    alone = rows("t1/tract-2", "01001000200")
    assert min(row[-1] for row in alone) > max(row[-1] for row in rows("t1/county-2", "01003"))  # type: ignore[type-var]
    assert ["COUNTY 01003", "TRACT 01003000100"] in read_manifest(place)["coterminous_sets"]


@pytest.mark.ci
def test_a_level_without_budget_takes_no_part(tmp_path: Path) -> None:
    """Without a budget at county level the tract keeps its own noise, and no county table appears."""
    inputs = Inputs(persons=people(100))
    inputs.config |= {key: 0 for key in BUDGETS if key.endswith("_county")}
    _, place = stage_here(tmp_path, inputs, coterminous=True)
    assert not (place / "t1/county-2.csv").exists()
    _, apart = stage_here(tmp_path, inputs, name="apart", coterminous=False)
    tract = [row for row in read_release(place, "t1") if row[0] == "01003000100"]
    assert tract == [row for row in read_release(apart, "t1") if row[0] == "01003000100"]
