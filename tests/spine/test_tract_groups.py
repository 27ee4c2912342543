"""Tract groups (Algorithm 2): they keep their caps, never push entities away, and are what the paper's sweep makes."""

from __future__ import annotations

import doctest
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from spine_cases import blocks_table, write_grfc

from spine import objective
from spine.build import optimized
from spine.entities import Entities, entities
from spine.geography import Geography
from spine.groups import _premerged, with_tract_groups
from spine.hierarchy import Spine
from spine.objective import lexicographically_no_larger, objectives
from spine.osed import osed
from spine.settings import SpineSettings, settings_for
from tasks.geography.blocks.geography import read_geography


def with_groups(variant: Any = "paper", **changes: Any) -> SpineSettings:
    return settings_for("pl94-persons", "us", variant, tract_groups=True, **changes)


def made_up(tmp_path: Path, seed: int, settings: SpineSettings, n: int = 500) -> Geography:
    return read_geography(write_grfc(tmp_path / "GRF-C.txt", blocks_table(seed, (55,), n)), settings)[0]


def plain(geography: Geography, settings: SpineSettings) -> Spine:
    """The spine before tract groups are made."""
    levels = tuple(level for level in settings.levels if level != "Tract_Group")
    return optimized(geography, replace(settings, tract_groups=False, levels=levels))


def families(geography: Geography, settings: SpineSettings) -> list[Entities]:
    entity_families = [entities(geography, name, settings) for name in settings.objective]
    return [family for family in entity_families if family is not None]


def descending(spine: Spine, families: list[Entities], outside: bool) -> list[int]:
    """The descending OSEDs that Algorithm 2 compares."""
    values = [osed(spine, family)[~family.outside | outside] for family in families]
    return sorted(np.concatenate(values).tolist(), reverse=True)


def members(spine: Spine) -> list[list[frozenset[int]]]:
    """By county, the tract groups as sets of the first rows of their tracts."""
    group, tract = spine.levels.index("Tract_Group"), spine.levels.index("Tract")
    result: list[list[frozenset[int]]] = [[] for _ in spine.starts[group - 1]]
    rows = [frozenset(spine.order[a:b].tolist()) for a, b in zip(spine.starts[tract], spine.ends(tract), strict=True)]
    for g, county in enumerate(spine.parents[group]):
        mine = np.flatnonzero(spine.parents[tract] == g)
        result[county].append(frozenset(min(rows[t]) for t in mine))
    return result


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("variant", ["paper", "production"])
def test_groups_keep_their_cap_and_do_not_push_entities_away(tmp_path: Path, variant: str, seed: int) -> None:
    settings = with_groups(variant, fanout_cutoff=1, entity_threshold=0)
    geography = made_up(tmp_path, seed, settings)
    before, after = plain(geography, settings), optimized(geography, settings)
    assert sorted(after.order.tolist()) == list(range(len(geography)))
    assert all(np.isin(up, down).all() for up, down in zip(after.starts, after.starts[1:], strict=False))
    group = after.levels.index("Tract_Group")
    tracts = np.bincount(after.parents[group][after.parents[group + 1]])
    cap = np.floor(np.sqrt(tracts)) + 1
    assert (after.children(group) <= cap[after.parents[group]]).all()
    assert (after.children(group) > 1).any()
    if variant == "paper":  # measured at the root, accepted only if not larger: so the end is not larger
        entity_families = families(geography, settings)
        assert descending(after, entity_families, outside=True) <= descending(before, entity_families, outside=True)


def literal_sweeps(
    spine: Spine, entity_families: list[Entities], settings: SpineSettings
) -> list[list[frozenset[int]]]:
    """Algorithm 2 on whole spines: try every sibling pair, keep a merge if the root's sorted OSEDs do not grow."""
    tract = spine.levels.index("Tract")
    county = spine.parents[tract]
    group = np.arange(len(county))

    def spine_of(group: np.ndarray) -> list[int]:
        order = np.lexsort((np.arange(len(group)), group, county))
        sizes = (spine.ends(tract) - spine.starts[tract])[order]
        rows = np.concatenate([np.arange(spine.starts[tract][t], spine.ends(tract)[t]) for t in order])
        position = np.argsort(rows)
        new_tracts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        new_groups = new_tracts[np.append(True, np.diff(group[order]) != 0)]
        below = [np.sort(position[s]) for s in spine.starts[tract + 1 :]]
        levels = (*spine.levels[:tract], "Tract_Group", *spine.levels[tract:])
        all_starts = (*spine.starts[:tract], new_groups, new_tracts, *below)
        zero = tuple(np.zeros(len(s), int) for s in all_starts)
        return descending(
            Spine(levels, spine.order[rows], all_starts, zero, 1), entity_families, settings.objective_outside
        )

    current = spine_of(group)
    for c in range(county.max() + 1):
        mine = np.flatnonzero(county == c)
        cap = int(np.sqrt(len(mine))) + settings.fanout_cutoff
        changed = True
        while changed:
            changed = False
            for u in mine:
                for v in mine[mine > u]:
                    if group[u] != u or group[v] != v or u == v:
                        continue
                    if (group == u).sum() + (group == v).sum() > cap:
                        continue
                    merged = np.where(group == v, u, group)
                    candidate = spine_of(merged)
                    if candidate <= current:  # Python compares lists as the paper's lexicographic order
                        group, current, changed = merged, candidate, True
    return [
        [
            frozenset(
                int(spine.order[spine.starts[tract][t] : spine.ends(tract)[t]].min()) for t in mine[group[mine] == g]
            )
            for g in np.unique(group[mine])
        ]
        for mine in (np.flatnonzero(county == c) for c in range(county.max() + 1))
    ]


@pytest.mark.parametrize("seed", range(4))
def test_the_paper_variant_is_the_papers_sweep(tmp_path: Path, seed: int) -> None:
    settings = with_groups("paper", fanout_cutoff=1, objective=("pme", "aian"))
    geography = made_up(tmp_path, seed, settings, n=260)
    expected = literal_sweeps(plain(geography, settings), families(geography, settings), settings)
    assert members(optimized(geography, settings)) == expected


def test_the_order_of_the_file_does_not_matter(tmp_path: Path) -> None:
    settings = with_groups("production", fanout_cutoff=1)
    table = blocks_table(3, (55,), 400)
    first = read_geography(write_grfc(tmp_path / "a.txt", table), settings)[0]
    second = read_geography(write_grfc(tmp_path / "b.txt", table.iloc[::-1]), settings)[0]
    sorted_spine, shuffled_spine = optimized(first, settings), optimized(second, settings)
    assert (sorted_spine.order == shuffled_spine.order).all()
    assert all((a == b).all() for a, b in zip(sorted_spine.starts, shuffled_spine.starts, strict=True))


def test_entities_that_are_near_are_left_out_and_groups_chunked(tmp_path: Path) -> None:
    """With nothing in the objective the pre-merged groups are chunked in order by the cap.

    docs/spec/spine.md#tract-groups, point 4.
    """
    settings = with_groups("production", fanout_cutoff=1, entity_threshold=10**6)
    geography = made_up(tmp_path, 2, settings)
    base = plain(geography, settings)
    spine = with_tract_groups(base, families(geography, settings), settings)
    group = spine.levels.index("Tract_Group")
    tracts = np.bincount(base.parents[base.levels.index("Tract")])
    cap = np.floor(np.sqrt(tracts)) + 1
    assert (spine.children(group - 1) <= np.ceil(tracts / cap)).all()


def test_the_production_greedy_ends_no_worse_than_it_began(tmp_path: Path) -> None:
    """Without pre-merging the greedy of the programs only accepts merges that do not grow the county's distances."""
    settings = replace(with_groups("production", fanout_cutoff=1, entity_threshold=0), objective_at="root")
    settings = replace(settings, premerge=False)
    geography = made_up(tmp_path, 5, settings)
    entity_families = families(geography, settings)
    assert descending(optimized(geography, settings), entity_families, outside=False) <= descending(
        plain(geography, settings), entity_families, outside=False
    )


def test_lexicographic_order() -> None:
    current = np.array([5, 3, 3])
    candidates = np.array([[5, 3, 3], [5, 3, 2], [5, 4, 0], [4, 4, 4], [6, 0, 0]])
    assert lexicographically_no_larger(candidates, current).tolist() == [True, True, False, True, False]


def test_tracts_are_joined_beforehand_only_where_they_meet_the_same_codes_the_outside_one_included() -> None:
    """Three tracts: in the entity, half in it and half outside of all, in it: the second has another set of codes."""
    spine = Spine(
        ("County", "Tract", "Block"),
        np.arange(6),
        (np.array([0]), np.array([0, 2, 4]), np.arange(6)),
        tuple(np.zeros(n, np.int64) for n in (1, 3, 6)),
        1,
    )
    family = Entities("place", np.array([-1, 0]), np.array([1, 1, 1, 0, 1, 1]))
    for outside in (False, True):
        settings = with_groups("production", objective_outside=outside)
        (objective,) = objectives(spine, [family], settings)
        assert objective.entities == 1 + outside
        assert [chunk.tolist() for chunk in _premerged(objective, cap=9)] == [[0, 2], [1]]


def test_the_worked_example_of_four_tracts() -> None:
    done = doctest.testmod(objective)
    assert done.attempted >= 10
    assert done.failed == 0
