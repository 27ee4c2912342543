"""Population group levels: a geographic summary level x an iteration level. Every SafeTab has the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from spine.settings import Jurisdiction
from tasks.errors import Refused
from tasks.geography.regions import REGION_TYPES

NATION_STATE = frozenset({"USA", "STATE", "PR-STATE"})
ITERATION_LEVELS = (1, 2)
REGION_NAMES = {"USA": "Nation", "AIANNH": "AIANNH"}  # other region types are their own words
ITERATION_LEVEL_NAMES = {1: "Regional", 2: "Detailed"}


class Level(NamedTuple):
    """A population group level: a geographic summary level x an iteration level (1 Regional, 2 Detailed)."""

    region_type: str
    iteration_level: int

    @property
    def nation_or_state(self) -> bool:
        """The granularity: nation and states tabulate other iterations than the levels below."""
        return self.region_type in NATION_STATE

    @property
    def jurisdiction(self) -> Jurisdiction:
        """The jurisdiction that tabulates it: US and Puerto Rico share no region type."""
        return "pr" if self.region_type.startswith("PR-") else "us"

    @property
    def name(self) -> str:
        """The level for people, `County, Detailed` or `PR-County, Detailed`; `str` returns its key in files."""
        return f"{self.geography}, {self.iterations}"

    @property
    def iterations(self) -> str:
        """The iteration level for people, `Regional` or `Detailed`."""
        return ITERATION_LEVEL_NAMES[self.iteration_level]

    @property
    def geography(self) -> str:
        """The region type for people, `County` or `PR-County`."""
        bare = self.region_type.removeprefix("PR-")
        return ("PR-" if self.jurisdiction == "pr" else "") + REGION_NAMES.get(bare, bare.capitalize())

    @property
    def slug(self) -> str:
        """The level as a file name, `county-2`."""
        return f"{self.region_type.lower()}-{self.iteration_level}"

    def __str__(self) -> str:
        """Return the level's key in config.json and manifest.json, `(COUNTY, 2)`."""
        return f"({self.region_type}, {self.iteration_level})"


ALL_LEVELS = tuple(
    Level(region_type, iteration_level)
    for region_types in REGION_TYPES.values()
    for region_type in region_types
    for iteration_level in ITERATION_LEVELS
)
_NAMES = {
    "".join(name.casefold().split()).strip("()"): level
    for level in ALL_LEVELS
    for name in (level.name, str(level), level.slug)
}


def named_level(text: str) -> Level:
    """Return the level with a name: `Nation, Detailed`, `(USA, 2)` as in config.json, or `usa-2`.

    Raises Refused for any other text.
    """
    level = _NAMES.get("".join(text.casefold().split()).strip("()"))
    if level is None:
        names = "; ".join(level.name for level in ALL_LEVELS)
        raise Refused(f"unknown population group level {text.strip()!r}: one of {names}")
    return level


def one_jurisdiction(levels: Iterable[Level]) -> Jurisdiction:
    """Return the jurisdiction of all these levels.

    Raises Refused without levels, or if some are of the US and some of Puerto Rico: those are separate runs.
    """
    jurisdictions = {level.jurisdiction for level in levels}
    if len(jurisdictions) != 1:
        raise Refused(
            "levels of the US and of Puerto Rico belong to separate runs" if jurisdictions else "name a level"
        )
    return jurisdictions.pop()
