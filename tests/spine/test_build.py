"""Conventional, AIAN and optimized spines on made-up geography: partitions, keys, caps, and states put together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from spine_cases import blocks_table, write_grfc

from spine.build import CONVENTIONAL, aian, conventional, optimized
from spine.entities import block_group_key, entities, in_aian
from spine.geography import Geography
from spine.groups import group_starts, size_cap
from spine.hierarchy import Spine
from spine.osed import osed
from spine.settings import PRODUCTS, SpineSettings, settings_for
from tasks.geography.blocks.geography import read_geography


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("spine")


def geography(folder: Path, settings: SpineSettings, seed: int = 0, **of: Any) -> Geography:
    return read_geography(write_grfc(folder / "GRF-C.txt", blocks_table(seed, **of)), settings)[0]


def check_partitions(spine: Spine) -> None:
    """Every block once at every level, and every geounit inside one parent."""
    assert sorted(spine.order.tolist()) == list(range(spine.blocks))
    for level in range(len(spine.levels)):
        sizes = spine.ends(level) - spine.starts[level]
        assert spine.starts[level][0] == 0
        assert (sizes > 0).all()
        assert sizes.sum() == spine.blocks
        if level:
            assert np.isin(spine.starts[level - 1], spine.starts[level]).all()
            assert (np.bincount(spine.parents[level]) > 0).all()
    assert len(spine.starts[-1]) == spine.blocks


@pytest.mark.parametrize("variant", ["production", pytest.param("paper", marks=pytest.mark.ci)])
@pytest.mark.parametrize("product", PRODUCTS)
@examples(max_examples=6, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(3, 250))
def test_every_block_is_once_on_every_level(folder: Path, product: str, variant: str, seed: int, n: int) -> None:
    settings = settings_for(product, "us", variant)
    blocks = geography(folder, settings, seed, per_state=n)
    for make in (conventional, aian, optimized):
        check_partitions(make(blocks, settings))
    spine = optimized(blocks, settings)
    group = spine.geounit_of_block(spine.levels.index("Block_Group"))
    for name in settings.entities:  # an optimized block group lies in one OSE of each family
        key = block_group_key(blocks, name, settings)
        if key is not None:
            assert len(np.unique(np.column_stack([group, key[spine.order]]), axis=0)) == group.max() + 1
    part = in_aian(blocks, settings)[spine.order]
    state = spine.geounit_of_block(spine.levels.index("State"))
    assert len(np.unique(np.column_stack([state, part]), axis=0)) == state.max() + 1


@pytest.mark.parametrize(("variant", "extra"), [("production", 1), ("paper", 0)])
def test_optimized_block_groups_keep_their_cap_and_fill_it(folder: Path, variant: str, extra: int) -> None:
    settings = settings_for("pl94-persons", "us", variant, fanout_cutoff=2)
    blocks = geography(folder, settings)
    spine = optimized(blocks, settings)
    tract, group = (spine.levels.index(name) for name in ("Tract", "Block_Group"))
    sizes = spine.ends(group) - spine.starts[group]
    n = (spine.ends(tract) - spine.starts[tract])[spine.parents[group]]
    cap = np.floor(np.sqrt(n)) + 2 + extra
    assert (sizes <= cap).all()
    assert (sizes == cap).any()


def test_caps_of_program_and_paper() -> None:
    assert size_cap(np.array([100, 99, 1]), 12, 1).tolist() == [23, 22, 14]  # n = 100 -> 23
    assert size_cap(np.array([100]), 12, 0).tolist() == [22]


@pytest.mark.parametrize(
    ("n", "cap", "sizes"), [(7, 7, [7]), (8, 7, [7, 1]), (9, 7, [4, 5]), (14, 7, [7, 7]), (17, 7, [5, 6, 6])]
)
def test_even_division(n: int, cap: int, sizes: list[int]) -> None:
    """DHC's group_type=even: two neighbouring sizes, small ones first, unless n mod cap is 0 or 1."""
    begins = group_starts(np.zeros(n, int), (), np.full(n, cap), "even")
    assert np.diff(np.append(np.flatnonzero(begins), n)).tolist() == sizes
    runs = group_starts(np.zeros(n, int), (), np.full(n, cap), "runs")
    assert (np.diff(np.append(np.flatnonzero(runs), n))[:-1] == cap).all()


def test_blocks_of_a_group_are_consecutive_in_geocode_order(folder: Path) -> None:
    settings = settings_for("pl94-persons")
    blocks = geography(folder, settings)
    spine = optimized(blocks, settings)
    group = spine.geounit_of_block(spine.levels.index("Block_Group"))
    same = group[1:] == group[:-1]
    assert (np.diff(blocks.geocode[spine.order])[same] > 0).all()


def test_states_apart_are_the_states_together(folder: Path) -> None:
    for product in PRODUCTS:
        settings = settings_for(product, "us", "paper")
        blocks = geography(folder, settings)
        whole = optimized(blocks, settings)
        offset, starts = 0, [[] for _ in whole.levels[1:]]
        orders = []
        for state in np.unique(blocks.state):
            rows = np.flatnonzero(blocks.state == state)
            part = optimized(blocks.take(rows), settings).without_root()
            orders.append(rows[part.order])
            for level, level_starts in enumerate(part.starts):
                starts[level].append(level_starts + offset)
            offset += part.blocks
        assert (np.concatenate(orders) == whole.order).all()
        for level, level_starts in enumerate(starts):
            assert (np.concatenate(level_starts) == whole.starts[level + 1]).all()


def test_aian_areas_come_on_the_spine_and_pmes_nearer(folder: Path) -> None:
    settings = settings_for("pl94-persons")
    blocks = geography(folder, settings)
    distance = {}
    for make in (conventional, aian, optimized):
        spine = make(blocks, settings)
        for name in ("aian", "pme"):
            family = entities(blocks, name, settings)
            assert family is not None
            distance[make.__name__, name] = osed(spine, family)[~family.outside].sum()
    assert distance["conventional", "aian"] > distance["aian", "aian"] >= distance["optimized", "aian"]
    assert distance["aian", "pme"] > distance["optimized", "pme"]


def test_place_and_mcd_entities(folder: Path) -> None:
    """County subdivisions in strong-MCD states outside AIAN areas, places everywhere else (paper, section 1)."""
    settings = settings_for("pl94-persons")
    blocks = geography(folder, settings, states=(1, 55))
    key = block_group_key(blocks, "pme", settings)
    mcd = (blocks.state == 55) & ~in_aian(blocks, settings)
    assert key is not None
    assert (key == np.where(mcd, blocks.cousub, blocks.place)).all()
    assert 0 < mcd.sum() < (blocks.state == 55).sum()


def test_prims_follow_the_functional_status(folder: Path) -> None:
    settings = settings_for("dhc-units")
    table = blocks_table(4)
    blocks = read_geography(write_grfc(folder / "GRF-C.txt", table), settings)[0]
    assert blocks.prim is not None
    table["geocode"] = (
        table["TABBLKST"] + table["TABBLKCOU"] + table["TABTRACTCE"] + table["TABBLKGRPCE"] + table["TABBLK"]
    )
    table = table.sort_values("geocode").reset_index(drop=True)
    county = table["TABBLKST"] + table["TABBLKCOU"]
    with_active = county.isin(county[table["COUSUBFS"].isin(list("ABC"))])
    cousub = table["COUSUBFP"].where(with_active, "99999")
    place = table["PLACEFP"].where(table["PLACEFS"].isin(list("ABF")) & (table["PLACEFP"] != "99999"), "99999")
    assert blocks.prim.tolist() == (county + cousub + place).astype(int).tolist()


def test_tract_subsets_of_paper_and_program(folder: Path) -> None:
    """The paper cuts tract subsets by each AIAN area, the programs only by the state's split."""
    table = blocks_table(0, per_state=600)
    mixed = table["TABTRACTCE"].isin(["000300", "000500"])
    table.loc[mixed, "AIANNHCE"] = np.where(table["TABBLK"].astype(int)[mixed] % 2, "0010", "0013")
    path = write_grfc(folder / "GRF-C.txt", table)
    counts, groups = {}, {}
    for variant in ("production", "paper"):
        settings = settings_for("dhc-persons", "us", variant, fanout_cutoff=0)
        blocks = read_geography(path, settings)[0]
        spine = optimized(blocks, settings)
        level = spine.levels.index("Tract_Subset")
        counts[variant] = len(spine.starts[level])
        area = np.where(in_aian(blocks, settings), blocks.aiannh, 9999)[spine.order]
        pairs = np.unique(np.column_stack([spine.geounit_of_block(level), area]), axis=0)
        groups[variant] = len(pairs) == counts[variant]
        fanout = spine.children(level - 1)
        prim = spine.children(level - 2)[spine.parents[level - 1]]
        assert fanout.max() <= np.floor(np.sqrt((fanout * prim).max())) + 1
    assert groups == {"production": False, "paper": True}
    assert counts["paper"] > counts["production"]


def test_aian_areas_as_counties(folder: Path) -> None:
    everywhere = settings_for("pl94-persons", redefine_counties="everywhere")
    blocks = geography(folder, everywhere)
    spine = optimized(blocks, everywhere)
    county = spine.geounit_of_block(spine.levels.index("County"))
    part = in_aian(blocks, everywhere)[spine.order]
    areas = np.column_stack([blocks.state[spine.order], blocks.aiannh[spine.order]])[part]
    assert len(np.unique(county[part])) == len(np.unique(areas, axis=0))
    check_partitions(spine)


def test_puerto_rico_has_its_root_at_the_state(folder: Path) -> None:
    settings = settings_for("pl94-persons", "pr")
    blocks = geography(folder, settings, states=(55, 72))
    spine = optimized(blocks, settings)
    assert set(blocks.state.tolist()) == {72}
    assert spine.levels == ("State", "County", "Tract", "Block_Group", "Block")
    assert len(spine.starts[0]) == 1
    dhc = settings_for("dhc-persons", "pr")
    blocks = geography(folder, dhc, states=(72,))
    assert blocks.prim is not None
    assert (blocks.prim == blocks.county * 10**10 + 9999999999).all()  # a prim is a county there


def test_settings_say_where_their_values_come_from() -> None:
    assert all(SpineSettings.sources().values())
    with pytest.raises(ValueError, match="no settings pl95"):
        settings_for("pl95")


def test_a_split_spine_of_puerto_rico_has_no_level_of_the_us(folder: Path) -> None:
    settings = replace(settings_for("pl94-persons", "pr"), aian_split=True)
    spine = aian(geography(folder, settings, states=(72,)), settings)
    assert spine.levels == CONVENTIONAL[1:]
    check_partitions(spine)


def test_pieces_are_the_largest_within_their_limits() -> None:
    random = np.random.default_rng(1)
    blocks = np.arange(200)
    groups = np.flatnonzero((random.random(200) < 0.3) | (blocks == 0))
    tracts = groups[(random.random(len(groups)) < 0.3) | (groups == 0)]
    spine = Spine(("Tract", "Block_Group", "Block"), blocks, (tracts, groups, blocks), (), 1)
    begins = [np.append(np.searchsorted(starts, tracts), len(starts)) for starts in spine.starts[1:]]
    for sizes in ((1, 1), (4, 10), (100, 12), (3, 200), (999, 999)):
        pieces = spine.pieces(0, (1, sizes[0]), (2, sizes[1]))
        assert [first for first, _ in pieces[1:]] == [last for _, last in pieces[:-1]]
        assert (pieces[0][0], pieces[-1][1]) == (0, len(tracts))
        for first, last in pieces:
            small, larger = (
                all(own[min(end, len(tracts))] - own[first] <= size for own, size in zip(begins, sizes, strict=True))
                for end in (last, last + 1)
            )
            assert small or last == first + 1
            assert last == len(tracts) or not larger
