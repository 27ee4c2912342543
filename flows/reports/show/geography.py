"""Words for the regions of a release, and the part of them in a view or a copy."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.errors import Refused
from tasks.geography.names import names_of_2020
from tasks.geography.regions import PUERTO_RICO, Region
from tasks.releases.pages.words import capitalized
from tasks.safetab.levels import ALL_LEVELS, Level

SLUGS = {level.slug: level for level in ALL_LEVELS}
TITLES = {  # in the order of search results
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


def title(region_type: str, *, several: bool = False) -> str:
    """Return the word for a region of a type, in a sentence; a type outside the census is its own word."""
    bare = region_type.removeprefix(PUERTO_RICO)
    return TITLES.get(bare, (bare, bare))[several]


def number_within(region_type: str, number: int) -> str:
    """Return the words for the number of regions of a type within another: `1 tract within it`."""
    return f"{number:,} {title(region_type, several=number != 1)} within it"


def plain_name(region: Region) -> str:
    """Return the name of a region of 2020, or a name made from its code."""
    if region.type == "USA":
        return "United States"
    return names_of_2020().get(region) or capitalized(f"{title(region.type)} {region.id}")


@dataclass(frozen=True)
class Scope:
    """The part of a release in a view or a copy: a state by its FIPS code, or a level; all of it if both are None.

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
        """Return whether the scope includes a region."""
        if self.level is not None:
            return region.type == self.level.region_type
        bare = region.type.removeprefix(PUERTO_RICO)
        return self.state is None or bare == "USA" or (bare != "AIANNH" and region.id.startswith(self.state))

    def complete_in(self, region: Region) -> bool:
        """Return whether the scope includes everything within a region."""
        return self.level is None and (self.state is None or region.type != "USA")

    @property
    def words(self) -> str:
        """A sentence for the pages of a copy."""
        if self.level is not None:
            return f"This copy contains one level of the release, {self.level.slug}."
        if self.state is not None:
            return f"This copy contains one state of the release, {STATES[self.state]}, and the nation."
        return ""
