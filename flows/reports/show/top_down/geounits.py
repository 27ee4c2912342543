"""The three kinds of geounit of a TopDown release, and where each one's histogram lies.

Persons and units have each a spine of their own, so that one geocode may stand for other blocks in the other product:
a spine geounit has one product's counts. Tabulation geounits and off-spine entities are the same for both.
"""

from __future__ import annotations

from dataclasses import dataclass

from flows.reports.show.geography import PUERTO_RICO, STATES, Region

US = "US"
KINDS: dict[str, str] = {
    "tabulation": "tabulation geounit",
    "entities": "off-spine entity",
    "spine_persons": "spine geounit, of persons",
    "spine_units": "spine geounit, of units",
}
TABULATION = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12, "Block": 15}  # digits of the public code
OFF_SPINE = {"place": 7, "mcd": 10, "aian": 4}
TITLES = {
    "US": ("nation", "nation"),
    "State": ("state", "states"),
    "County": ("county", "counties"),
    "Tract_Group": ("tract group", "tract groups"),
    "Tract": ("tract", "tracts"),
    "Block_Group": ("block group", "block groups"),
    "Prim": ("prim", "prims"),
    "Block": ("block", "blocks"),
    "place": ("place", "places"),
    "mcd": ("county subdivision", "county subdivisions"),
    "aian": ("AIAN area", "AIAN areas"),
}
REGION_TYPES = {  # of names (names.py)
    "State": "STATE",
    "County": "COUNTY",
    "Tract": "TRACT",
    "place": "PLACE",
    "mcd": "COUSUB",
    "aian": "AIANNH",
}


@dataclass(frozen=True, order=True)
class Geounit:
    """A geounit by its kind, level (or family of entities), state and code; of the nation state and code are US."""

    kind: str
    level: str
    state: str
    code: str

    @property
    def key(self) -> str:
        """The geounit in an address, `tabulation/County/44/44007`."""
        return f"{self.kind}/{self.level}/{self.state}/{self.code}"

    @property
    def nation(self) -> bool:
        """Whether it is the nation, which is its own tabulation geounit."""
        return self.state == US

    @property
    def region(self) -> Region | None:
        """The region that files of names give a name to; None for a spine geounit."""
        if self.kind not in ("tabulation", "entities") or self.level not in REGION_TYPES:
            return None
        region_type = REGION_TYPES[self.level]
        in_puerto_rico = self.state == "72" and region_type not in ("AIANNH", "COUSUB")
        return Region((PUERTO_RICO if in_puerto_rico else "") + region_type, self.code)


def title_of(level: str, *, several: bool = False) -> str:
    """Return what a geounit of a level is called in a sentence."""
    return TITLES.get(level, (level.replace("_", " ").lower(),) * 2)[several]


def plain_title(geounit: Geounit) -> str:
    """Return what a geounit is called where no file of names tells."""
    if geounit.nation:
        return "United States"
    state = STATES.get(geounit.state, f"State {geounit.state}")
    if geounit.kind.startswith("spine"):
        if geounit.level == "State":
            return f"{state}, {'AIAN areas' if geounit.code[:1] == '1' else 'outside AIAN areas'}"
        return f"Spine {title_of(geounit.level)} {geounit.code}"
    if geounit.level == "State":
        return state
    word = title_of(geounit.level)
    return f"{word[0].upper()}{word[1:]} {geounit.code}"


def tabulation_above(geounit: Geounit) -> list[Geounit]:
    """Return the tabulation geounits that a tabulation geounit or off-spine entity lies in, the smallest first.

    A place may lie in several counties, and of an AIAN area the release has its part in the state.
    """
    if geounit.nation:
        return []
    levels = ["State"]
    if geounit.kind == "tabulation":
        levels = [level for level, digits in TABULATION.items() if digits < TABULATION[geounit.level]]
    elif geounit.level == "mcd":
        levels = ["State", "County"]
    code = geounit.state if levels == ["State"] else geounit.code
    return [Geounit("tabulation", level, geounit.state, code[: TABULATION[level]]) for level in reversed(levels)]
