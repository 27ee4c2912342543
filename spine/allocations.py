"""Privacy-loss allocations of a run: the budget, each geolevel's share beta and each query group's share alpha."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from spine.settings import Definition

# Levels of the optimized spines that are one level, Tract, on the conventional spine.
_TRACT_LEVELS = ("Prim", "Tract_Subset_Group", "Tract_Subset", "Tract")


@dataclass(frozen=True)
class Allocation:
    """The paper's beta and alpha, all exact.

    definition: zcdp (budget is rho) or puredp (budget is epsilon). levels: the share of each geolevel, top first; they
    sum to 1. queries: for each geolevel the share of each query group that is asked there; they sum to 1.
    """

    definition: Definition
    budget: Fraction
    levels: Mapping[str, Fraction]
    queries: Mapping[str, Mapping[str, Fraction]]
    source: str

    def __post_init__(self) -> None:
        if self.budget <= 0:
            raise ValueError(f"the budget {self.budget} is not positive")
        if any(share <= 0 for share in self.levels.values()) or sum(self.levels.values()) != 1:
            raise ValueError(
                f"the geolevel shares must be positive and sum to 1: they sum to {sum(self.levels.values())}"
            )
        for level in self.levels:
            shares = self.queries.get(level, {}).values()
            if any(share <= 0 for share in shares) or sum(shares) != 1:
                raise ValueError(f"the query shares of level {level} must be positive and sum to 1, not {sum(shares)}")

    def described(self) -> dict[str, object]:
        """Return the allocation as text with exact fractions, without its source, which has no effect."""
        return {
            "mechanism": self.definition,
            "budget": str(self.budget),
            "levels": {level: str(share) for level, share in self.levels.items()},
            "queries": {
                level: {query: str(alpha) for query, alpha in queries.items()}
                for level, queries in self.queries.items()
            },
        }

    def as_file(self) -> dict[str, object]:
        """Return the allocation in the form of its files (docs/spec/files.md#allocations), fractions as text."""
        asked = dict.fromkeys(query for queries in self.queries.values() for query in queries)
        return {
            "rho" if self.definition == "zcdp" else "epsilon": str(self.budget),
            "geolevel": {level: str(share) for level, share in self.levels.items()},
            "query_within_geolevel": {
                query: {level: str(self.queries[level][query]) for level in self.levels if query in self.queries[level]}
                for query in asked
            },
        }

    def with_tract_groups(self, part: Fraction) -> Allocation:
        """Give `part` of the tracts' share to tract groups, with the tracts' query groups."""
        levels: dict[str, Fraction] = {}
        for name, share in self.levels.items():
            if name == "Tract":
                levels["Tract_Group"] = share * part
                share *= 1 - part
            levels[name] = share
        return replace(self, levels=levels, queries={**self.queries, "Tract_Group": self.queries["Tract"]})

    def on(self, levels: tuple[str, ...]) -> Allocation:
        """Return the allocation for a spine with other levels: its tracts get the shares of the tract-like levels.

        Conventional and AIAN spines have one level, Tract, where the DHC spine has three. It asks the query groups of
        the tract subsets. The total is the same, so that spines can be compared.
        """
        if tuple(self.levels) == levels:
            return self
        own = [name for name in self.levels if name in _TRACT_LEVELS or name == "Tract_Group"]
        shares = {name: self.levels[name] for name in levels if name in self.levels and name not in own}
        shares["Tract"] = sum((self.levels[name] for name in own), Fraction(0))
        ordered = {name: shares[name] for name in levels}
        return replace(self, levels=ordered, queries={**self.queries, "Tract": self.queries[own[-1]]})
