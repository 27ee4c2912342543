"""A-attribute privacy loss of SafeTab-P: the loss of a change that touches only the attributes in A of one record.

Extends Theorem 2 of "SafeTab-P" (Detailed DHC-A), whose proof prices each population group by the change within it.
With b = rho_i / s the budget of a group at level i, s the stability of the flatmap g_i:

    the group holds one of the two records                       b
    it holds both, is not TotalOnly, the sex-by-age cell changes  2 (1 - gamma) b
    else                                                          0

so a change from k groups to k', c of them shared and c_T of those TotalOnly, costs

    b [ (k - c) + (k' - c) + 2 (1 - gamma) (c - c_T) 1{sex or age changes} ],

which is largest at the smallest c that A allows. Bounded neighbours: the record is replaced. Under pure DP the same
formula gives epsilon (all differences are 0 or 1, so L1 distances are squared L2 distances). Two ages count as two
cells, because the finest detail may be chosen.

A described person's figure is the maximum over new values of A only. It depends on the present values, so it is an
analyst's figure and not for release.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

AGE, SEX, RACE, ETHNICITY, BLOCK = "Age", "Sex", "Race", "Ethnicity", "Block"
ATTRIBUTES = (AGE, SEX, RACE, ETHNICITY, BLOCK)
TYPE, TENURE = "Type", "Tenure"  # attributes of a household
HOUSEHOLD_ATTRIBUTES = (TYPE, TENURE, RACE, ETHNICITY, BLOCK)
OF_TABLES = {"t3": TYPE, "t4": TENURE}  # by table of SafeTab-H, the attribute that decides a record's cell
NATION = "USA"
_WITHIN_COUNTY = frozenset({"TRACT", "PLACE", "AIANNH", "PR-TRACT", "PR-PLACE"})
CROSSED = {
    "anywhere": _WITHIN_COUNTY | {"STATE", "COUNTY", "PR-STATE", "PR-COUNTY"},
    "same state": _WITHIN_COUNTY | {"COUNTY", "PR-COUNTY"},
    "same county": _WITHIN_COUNTY,
    "same tract": _WITHIN_COUNTY - {"TRACT", "PR-TRACT"},
}
"""By distance of a change of block, the region types whose region it can change."""


@dataclass(frozen=True)
class GroupLevel:
    """A population group level: its budget (rho or epsilon), and the most groups of each kind that a record is in.

    `race_groups` = max(h_alone, h_comb) * max(2, max_race_codes), `ethnicity_groups` = h_e; their sum is the stability.
    """

    region_type: str
    iteration_level: int
    budget: Fraction
    race_groups: int
    ethnicity_groups: int

    def __post_init__(self) -> None:
        if self.region_type not in {NATION, *CROSSED["anywhere"]}:
            raise ValueError(f"it is not known which changes of block cross a region of the type {self.region_type}")

    @property
    def stability(self) -> int:
        """The most groups of this level that a record is in."""
        return self.race_groups + self.ethnicity_groups


@dataclass(frozen=True)
class Record:
    """The facts about one person on which the loss depends.

    `race_groups` and `ethnicity_groups` count the person's population groups at each level (`race_groups_of_codes`
    bounds the first); `total_only` of the race groups are TotalOnly at nation and state; `place` and `aiannh`: whether
    the block is in such a region.
    """

    name: str
    race_groups: int
    ethnicity_groups: int = 1
    total_only: int = 0
    place: bool = True
    aiannh: bool = True

    def counted_in(self, region_type: str) -> bool:
        """Return whether the person's block is in a region of this type."""
        return {"PLACE": self.place, "PR-PLACE": self.place, "AIANNH": self.aiannh}.get(region_type, True)


def race_groups_of_codes(codes: int) -> int:
    """Return the most race groups of a level that a person with this many race codes is in, if h = 1.

    One code: alone and in combination. More: one in-combination group each (two codes of one iteration: the same two).
    """
    return max(2, codes)


def loss(
    level: GroupLevel,
    gamma: Fraction,
    attributes: frozenset[str],
    record: Record | None = None,
    crossed: frozenset[str] = CROSSED["anywhere"],
) -> Fraction:
    """Return the A-attribute loss of both steps at one level, bounded, exact."""
    return sum(losses(level, gamma, attributes, record, crossed).values(), Fraction(0))


def losses(
    level: GroupLevel,
    gamma: Fraction,
    attributes: frozenset[str],
    record: Record | None = None,
    crossed: frozenset[str] = CROSSED["anywhere"],
) -> dict[str, Fraction]:
    """Return the loss by query, `total` and `sex by age`; worst case over all records unless one is described.

    `gamma` is the share of step 1 (stage_1_fraction); `crossed`: the region types that a change of block can cross. A
    TotalOnly group counts under both queries: its one query has the budget of the two.
    """
    race, ethnicity, total_only = _groups(level, record)
    new_race = level.race_groups if RACE in attributes else race
    new_ethnicity = level.ethnicity_groups if ETHNICITY in attributes else ethnicity
    inside = record is None or record.counted_in(level.region_type)
    moves = BLOCK in attributes and level.region_type in crossed
    shared = total_only_shared = 0
    if inside and not moves:
        shared = (RACE not in attributes) * race + (ETHNICITY not in attributes) * ethnicity
        total_only_shared = (RACE not in attributes) * total_only
    before = inside * (race + ethnicity)
    after = (inside or moves) * (new_race + new_ethnicity)
    cell = 2 * (shared - total_only_shared) if attributes & {AGE, SEX} else 0
    per_group, groups = level.budget / level.stability, before + after - 2 * shared
    return {"total": per_group * gamma * groups, "sex by age": per_group * (1 - gamma) * (groups + cell)}


def losses_of_household(
    tables: Mapping[str, GroupLevel],
    attributes: frozenset[str],
    record: Record | None = None,
    crossed: frozenset[str] = CROSSED["anywhere"],
) -> dict[str, Fraction]:
    """Return the A-attribute loss by table at one level of SafeTab-H, where a record is a household.

    tables: `t3`, by type, and `t4`, by tenure, as the level measures them, each with its own budget. Details follow
    from published totals, so there is no first step and no group is TotalOnly.
    """
    kept = attributes - {TYPE, TENURE}
    bare = record and replace(record, total_only=0)
    return {
        name: loss(level, Fraction(0), kept | {AGE} if OF_TABLES[name] in attributes else kept, bare, crossed)
        for name, level in tables.items()
    }


def loss_of_crossing(
    left: Iterable[GroupLevel], entered: Iterable[GroupLevel], record: Record | None = None
) -> Fraction:
    """Return the loss over both releases of a move between the United States and Puerto Rico, with race and ethnicity.

    Every group of the release that is left loses the person, nation included, and every group of the other gains one.
    """
    cost = [
        level.budget / level.stability * sum(_groups(level, record)[:2])
        for level, present in [(level, True) for level in left] + [(level, False) for level in entered]
        if record is None or not present or record.counted_in(level.region_type)
    ]
    return sum(cost, Fraction(0))


def _groups(level: GroupLevel, record: Record | None) -> tuple[int, int, int]:
    if record is None:
        return level.race_groups, level.ethnicity_groups, 0
    total_only = record.total_only if level.region_type in (NATION, "STATE", "PR-STATE") else 0
    race = min(record.race_groups, level.race_groups)
    return race, min(record.ethnicity_groups, level.ethnicity_groups), min(total_only, race)
