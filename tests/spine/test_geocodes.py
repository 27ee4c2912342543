"""Geocodes against a construction of their own: a tree of nested lists, as the published rule is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spine.build import aian, conventional, optimized
from spine.bypass import bypass
from spine.entities import in_aian, is_strong_mcd
from spine.geocodes import SpineKind, form, geocodes, largest_numbers
from spine.geography import Geography, geocode16
from spine.production import allocation_for
from spine.settings import SpineSettings, settings_for
from tasks.geography.blocks.geography import read_geography

Tree = dict[str, Any]  # own part or number by child; a block's value is its row
BUILDERS: dict[SpineKind, Callable[..., Any]] = {"conventional": conventional, "aian": aian, "optimized": optimized}


def written(geography: Geography, asked: SpineSettings, kind: SpineKind = "optimized") -> list[list[str]]:
    """By level and block of the geography the geocode of its geounit, as das-flows writes it."""
    spine = BUILDERS[kind](geography, asked).with_shares(
        dict(allocation_for(asked, Fraction(8)).on(asked.levels).levels)
    )
    if kind == "optimized":
        spine = bypass(spine, asked)
    codes = geocodes(spine, geography, asked, kind, largest_numbers(spine, geography, asked))
    of_block = []
    for level, rows in enumerate(codes):
        texts = [row.tobytes().decode() for row in rows]
        by_row = [""] * len(geography)
        for block, geounit in zip(spine.order, spine.geounit_of_block(level), strict=True):
            by_row[block] = texts[geounit]
        of_block.append(by_row)
    return of_block


def classes(geography: Geography, asked: SpineSettings) -> list[str]:
    """The text of each block's class: the codes of the entities that block groups do not cut, one behind the other."""
    inside, strong = in_aian(geography, asked), is_strong_mcd(geography, asked)
    texts = []
    for row in range(len(geography)):
        geocode, gq, district = int(geography.geocode[row]), geography.gq, geography.school_district
        mcd = strong[row] and not inside[row]
        parts = {
            "pme": f"{(geography.cousub if mcd else geography.place)[row]:05d}",
            "aian": f"{geography.aiannh[row] if inside[row] else 9999:04d}",
            "gq": f"{0 if gq is None else int(gq[row]):07b}",
            "sd": f"{0 if district is None else int(district[row]):015d}",
            "cbg": str(geocode // 10**4),
        }
        texts.append("".join(parts[name] for name in asked.entities))
    return texts


def runs(members: list[Any], cap: int) -> list[list[Any]]:
    return [members[at : at + cap] for at in range(0, len(members), cap)]


def cap(members: int) -> int:
    return isqrt(members) + 13


def by_key(rows: list[int], key: Callable[[int], Any]) -> list[list[int]]:
    found: dict[Any, list[int]] = defaultdict(list)
    for row in rows:
        found[key(row)].append(row)
    return [found[name] for name in sorted(found)]


def block_groups(rows: list[int], texts: list[str]) -> list[Any]:
    """A tract's (or tract subset's) groups of blocks; those of a single block go to the end."""
    groups = [run for members in by_key(rows, texts.__getitem__) for run in runs(members, cap(len(rows)))]
    return bypassed(groups)


def bypassed(siblings: list[Any]) -> list[Any]:
    """Siblings after the only children's parents were taken out of the list and appended again."""
    return [one for one in siblings if len(one) > 1] + [one for one in siblings if len(one) == 1]


def expected(geography: Geography, asked: SpineSettings) -> list[list[str]]:
    """The same as `written`, of nested lists."""
    texts, part = classes(geography, asked), in_aian(geography, asked) & asked.aian_split
    rows = list(range(len(geography)))
    numbered: dict[int, list[tuple[str, int | None]]] = {}  # of a block: own part and number, level by level
    dhc = asked.product.startswith("dhc")
    for state in by_key(rows, lambda row: (bool(part[row]), int(geography.state[row]))):
        for county in by_key(state, lambda row: int(geography.county[row])):
            first = county[0]
            top: list[tuple[str, int | None]] = [
                (f"{int(part[first])}{int(geography.state[first]):02d}", None),
                (f"10{int(geography.county[first]) % 1000:03d}", None if dhc else 1),
            ]
            for row, numbers in (_below_prims if dhc else _below_tracts)(geography, county, texts):
                numbered[row] = top + [("", number) for number in numbers]
    widths = [max(len(str(path[level][1])) for path in numbered.values()) for level in range(len(numbered[0]))]
    if asked.jurisdiction == "us" and not dhc and asked.geocode_widths == "nation":
        widths = [max(pair) for pair in zip(widths, [0, 1, 4, 2], strict=True)]
    levels: list[list[str]] = [[] for _ in asked.levels]
    for row in rows:
        prefix = ""
        own = iter(levels)
        if asked.jurisdiction == "us":
            next(own).append(prefix)
        for (text, number), width in zip(numbered[row], widths, strict=True):
            prefix += text + ("" if number is None else f"{number:0{width}d}")
            next(own).append(prefix)
        next(own).append(prefix + f"{int(geography.geocode[row]):016d}")
    return levels


def _below_tracts(geography: Geography, county: list[int], texts: list[str]) -> Iterator[tuple[int, list[int]]]:
    for tract, members in enumerate(by_key(county, lambda row: int(geography.tract[row])), 1):
        for number, group in enumerate(block_groups(members, texts), 1):
            for row in group:
                yield row, [tract, number]


def _below_prims(geography: Geography, county: list[int], texts: list[str]) -> Iterator[tuple[int, list[int]]]:
    prim_of = geography.prim
    assert prim_of is not None
    prims = []
    for members in by_key(county, lambda row: int(prim_of[row])):
        subsets = [block_groups(tract, texts) for tract in by_key(members, lambda row: int(geography.tract[row]))]
        prims.append(bypassed([bypassed(group) for group in runs(subsets, cap(len(subsets)))]))
    for p, groups in enumerate(bypassed(prims), 1):
        for g, group in enumerate(groups, 1):
            for s, subset in enumerate(group, 1):
                for b, members in enumerate(subset, 1):
                    for row in members:
                        yield row, [p, g, s, b]


def with_quarters(geography: Geography, seed: int = 1) -> Geography:
    """The same blocks with made-up group quarters, and prims of their county subdivisions."""
    rng = np.random.default_rng(seed)
    gq = np.where(rng.random(len(geography)) < 0.1, rng.integers(1, 128, len(geography)), 0).astype(np.uint8)
    district = geography.school_district
    return replace(
        geography,
        gq=gq,
        prim=geography.county * 10**10 + geography.cousub.astype(np.int64) * 10**5 + 99999,
        school_district=np.full(len(geography), 10**15 - 1) if district is None else district,
    )


def first(geography: Geography, blocks: int | None) -> Geography:
    """Its first blocks."""
    arrays = {name: value for name, value in vars(geography).items() if isinstance(value, np.ndarray)}
    return replace(geography, **{name: array[:blocks] for name, array in arrays.items()})


@pytest.mark.parametrize("blocks", [6000, pytest.param(None, marks=pytest.mark.slow)], ids=["some", "all"])
@pytest.mark.parametrize(
    ("name", "product"),
    [
        ("ri", "pl94-persons"),
        ("pr", "pl94-units"),
        *(pytest.param("ri", product, marks=pytest.mark.ci) for product in ("pl94-units", "dhc-persons")),
        *(pytest.param("pr", product, marks=pytest.mark.ci) for product in ("pl94-persons", "dhc-persons")),
    ],
)
def test_every_block_and_geounit_of_a_state(das_data: Path, name: str, product: str, blocks: int | None) -> None:
    """Rhode Island and Puerto Rico, 25,649 and 41,987 blocks with made-up group quarters."""
    asked = settings_for(product, "pr" if name == "pr" else "us", geocode_widths="run")
    plain = settings_for("pl94-units", asked.jurisdiction)
    geography = first(with_quarters(read_geography(das_data / f"{name}_blocks_2020.csv.gz", plain)[0]), blocks)
    assert len(np.unique(geography.county)) > 1
    assert written(geography, asked) == expected(geography, asked)


def test_rhode_island_alone_has_the_geocodes_of_the_nation(das_data: Path) -> None:
    """Bristol County's first tract and group: the AIAN flag and state, `10` and county, 1, 0001, 01, and the block."""
    asked = settings_for("pl94-persons")
    geography = with_quarters(read_geography(das_data / "ri_blocks_2020.csv.gz", asked)[0])
    *above, blocks = written(geography, asked)
    assert [len(level[0]) for level in (*above, blocks)] == [0, 3, 9, 13, 15, 31]
    assert next(code for code in blocks if code.endswith("4400103010011000")).startswith("0441000110001")
    assert form(asked, "optimized") == "redistricting-2020"


def test_a_tract_of_25_blocks() -> None:
    """Classes A (3 blocks), B (1), C (20), D (1) and a cap of 18: A 01, C 02 and 03, B 04, D 05."""
    places = [1] * 3 + [2] + [3] * 20 + [4]
    number = np.arange(25)
    of = geocode16(np.full(25, 50), np.full(25, 1), np.full(25, 100), 1000 + number)
    none = np.full(25, 99999, np.int32)
    geography = Geography(of, np.array(places, np.int32), none, np.full(25, 9999, np.int16))
    groups = written(geography, settings_for("pl94-units", strong_mcd_states=()))[-2]
    assert [code[-2:] for code in groups] == ["01"] * 3 + ["04"] + ["02"] * 18 + ["03"] * 2 + ["05"]
    assert groups[0] == "0501000110001" + "01"  # 050100011: Addison County, Vermont


@pytest.mark.parametrize(
    ("kind", "expected_widths", "shown"),
    [("conventional", [0, 2, 5, 11, 12, 16], "4400103010011000"), ("aian", [0, 3, 8, 14, 15, 35], None)],
)
def test_spines_of_tabulation_geounits_have_plain_codes(
    das_data: Path, kind: SpineKind, expected_widths: list[int], shown: str | None
) -> None:
    asked = settings_for("pl94-units")
    geography = read_geography(das_data / "ri_blocks_2020.csv.gz", asked)[0]
    levels = written(geography, asked, kind)
    assert [len(level[0]) for level in levels] == expected_widths
    first = levels[-1][0]
    assert first == (shown or "044" + "10001" + "030100" + "1" + "1000" + "4400103010011000")


@given(st.integers(0, 10**6), st.sampled_from(["zcdp", "puredp"]), st.booleans())
@settings(max_examples=30, deadline=None)
def test_every_geounit_has_a_geocode_of_its_own_behind_its_parents(seed: int, definition: str, groups: bool) -> None:
    rng = np.random.default_rng(seed)
    number = int(rng.integers(2, 60))
    of = np.unique(
        geocode16(*(rng.integers(low, high, number) for low, high in ((1, 3), (1, 3), (1, 5), (1000, 1020))))
    )
    places = rng.integers(1, 4, len(of)).astype(np.int32)
    areas = rng.choice([9999, 1], len(of)).astype(np.int16)
    geography = with_quarters(Geography(of, places, np.full(len(of), 99999, np.int32), areas), seed)
    asked = settings_for("pl94-persons", "us", definition=definition, tract_groups=groups, fanout_cutoff=1)  # type: ignore[arg-type]
    levels = written(geography, asked)
    for above, below in pairwise(levels):
        assert all(code.startswith(parent) for code, parent in zip(below, above, strict=True))
        assert len({len(code) for code in below}) == 1
    assert len(set(levels[-1])) == len(of)
