"""The region types of a release: their names, which contain which, and which add up to which."""

from __future__ import annotations

import re
from dataclasses import dataclass

NATION = "1"
TITLES = {
    "USA": ("nation", "nation"),
    "STATE": ("state", "states"),
    "COUNTY": ("county", "counties"),
    "TRACT": ("tract", "tracts"),
    "PLACE": ("place", "places"),
    "AIANNH": ("AIANNH area", "AIANNH areas"),
}
WITHIN = {
    "STATE": ("USA", 0),
    "AIANNH": ("USA", 0),
    "COUNTY": ("STATE", 2),
    "PLACE": ("STATE", 2),
    "TRACT": ("COUNTY", 5),
}
ADD_UP = {"USA": "STATE", "STATE": "COUNTY", "COUNTY": "TRACT"}  # each block of one is in one of the other
PUERTO_RICO = "PR-"
STATES: dict[str, str] = dict(
    re.findall(
        r"(\d\d) ([^,]+)",
        "01 Alabama, 02 Alaska, 04 Arizona, 05 Arkansas, 06 California, 08 Colorado, 09 Connecticut, 10 Delaware, "
        "11 District of Columbia, 12 Florida, 13 Georgia, 15 Hawaii, 16 Idaho, 17 Illinois, 18 Indiana, 19 Iowa, "
        "20 Kansas, 21 Kentucky, 22 Louisiana, 23 Maine, 24 Maryland, 25 Massachusetts, 26 Michigan, 27 Minnesota, "
        "28 Mississippi, 29 Missouri, 30 Montana, 31 Nebraska, 32 Nevada, 33 New Hampshire, 34 New Jersey, "
        "35 New Mexico, 36 New York, 37 North Carolina, 38 North Dakota, 39 Ohio, 40 Oklahoma, 41 Oregon, "
        "42 Pennsylvania, 44 Rhode Island, 45 South Carolina, 46 South Dakota, 47 Tennessee, 48 Texas, 49 Utah, "
        "50 Vermont, 51 Virginia, 53 Washington, 54 West Virginia, 55 Wisconsin, 56 Wyoming, 72 Puerto Rico",
    )
)


@dataclass(frozen=True, order=True)
class Region:
    """A region by its type and id, as in the rows of a release."""

    type: str
    id: str

    @classmethod
    def named(cls, bare: str, code: str) -> Region:
        """Return the region of a type and code; Puerto Rico's regions have types of their own."""
        in_puerto_rico = code.startswith("72") and bare not in ("AIANNH", "COUSUB")
        return cls(PUERTO_RICO * in_puerto_rico + bare, code)

    @property
    def key(self) -> str:
        """The region in an address, `COUNTY/44007`."""
        return f"{self.type}/{self.id}"

    @property
    def parent(self) -> Region | None:
        """The smallest region type that always contains it; None for the nation and Puerto Rico."""
        bare = self.type.removeprefix(PUERTO_RICO)
        if bare not in WITHIN or self.type == "PR-STATE":
            return None
        above, digits = WITHIN[bare]
        return Region(self._prefix + above, self.id[:digits] or NATION)

    @property
    def child_types(self) -> tuple[str, ...]:
        """The types of the regions within this one, those that add up to it first."""
        bare = self.type.removeprefix(PUERTO_RICO)
        inside = [below for below, (above, _) in WITHIN.items() if above == bare]
        return tuple(self._prefix + below for below in sorted(inside, key=lambda below: below != ADD_UP.get(bare)))

    @property
    def adds_up_from(self) -> str | None:
        """The type of the regions that add up to this one, block by block."""
        below = ADD_UP.get(self.type.removeprefix(PUERTO_RICO))
        return below and self._prefix + below

    @property
    def child_prefix(self) -> str:
        """The prefix of the ids of the regions within it."""
        return "" if self.type == "USA" else self.id

    @property
    def _prefix(self) -> str:
        return PUERTO_RICO if self.type.startswith(PUERTO_RICO) else ""


def title(region_type: str, *, several: bool = False) -> str:
    """Return the word for a region of a type, in a sentence."""
    return TITLES[region_type.removeprefix(PUERTO_RICO)][several]


def plain_name(region: Region) -> str:
    """Return the name of a region that no file of names has."""
    if region.type == "USA":
        return "United States"
    if region.type in ("STATE", "PR-STATE"):
        return STATES.get(region.id, f"State {region.id}")
    return capitalized(f"{title(region.type)} {region.id}")


def capitalized(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]
