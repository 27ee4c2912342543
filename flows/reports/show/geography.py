"""Words for the regions of a release."""

from __future__ import annotations

from tasks.geography.names import names_of_2020
from tasks.geography.regions import PUERTO_RICO, Region
from tasks.releases.pages.words import capitalized

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
