"""The regions of a release: words for them, and the part of a release in a view or a copy."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.inputs.names import names_of_2020
from tasks.inputs.regions import NATION, PUERTO_RICO, Region
from tasks.lifecycle.errors import Refused
from tasks.population_groups.levels import ALL_LEVELS, Level

__all__ = ["NATION", "PUERTO_RICO", "STATES", "TITLES", "Region", "Scope", "capitalized", "plain_name", "title"]
TITLES = {  # in the order of answers of a search
    "USA": ("nation", "nation"),
    "STATE": ("state", "states"),
    "COUNTY": ("county", "counties"),
    "COUSUB": ("county subdivision", "county subdivisions"),
    "PLACE": ("place", "places"),
    "AIANNH": ("AIANNH area", "AIANNH areas"),
    "TRACT": ("tract", "tracts"),
    "BLOCK_GROUP": ("block group", "block groups"),
    "BLOCK": ("block", "blocks"),
}
STATES: dict[str, str] = {
    region.id: name for region, name in names_of_2020().items() if region.type in ("STATE", "PR-STATE")
}
SLUGS = {level.slug: level for level in ALL_LEVELS}


def title(region_type: str, *, several: bool = False) -> str:
    """Return the word for a region of a type, in a sentence; a type of no census is its own word."""
    bare = region_type.removeprefix(PUERTO_RICO)
    return TITLES.get(bare, (bare, bare))[several]


def plain_name(region: Region) -> str:
    """Return the name of a region of 2020, or of one that no file names."""
    if region.type == "USA":
        return "United States"
    return names_of_2020().get(region) or capitalized(f"{title(region.type)} {region.id}")


def capitalized(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]


@dataclass(frozen=True)
class Scope:
    """The part of a release in a view or a copy: a state by its FIPS code, or a level; neither is all of it.

    The scope of a state includes the nation, for the parents of its groups, but no other state.
    """

    state: str | None = None
    level: Level | None = None

    @classmethod
    def named(cls, text: str) -> Scope:
        """Return the scope that a user names: `44`, `Rhode Island` or `county-2`."""
        if text in SLUGS:
            return cls(level=SLUGS[text])
        for code, name in STATES.items():
            if text in (code, name):
                return cls(state=code)
        levels = f"a level of the Detailed DHC-A ({', '.join(SLUGS)})"
        raise Refused(f"--scope {text}: it is neither a state of the US (44, Rhode Island) nor {levels}")

    def holds(self, region: Region) -> bool:
        """Return whether a region is in it."""
        if self.level is not None:
            return region.type == self.level.region_type
        bare = region.type.removeprefix(PUERTO_RICO)
        return self.state is None or bare == "USA" or (bare != "AIANNH" and region.id.startswith(self.state))

    def complete_in(self, region: Region) -> bool:
        """Return whether the scope holds everything within a region that it holds."""
        return self.level is None and (self.state is None or region.type != "USA")

    @property
    def words(self) -> str:
        """A sentence for the pages of a copy."""
        if self.level is not None:
            return f"This copy contains one level of the release, {self.level.slug}."
        if self.state is not None:
            return f"This copy contains one state of the release, {STATES[self.state]}, and the nation."
        return ""
