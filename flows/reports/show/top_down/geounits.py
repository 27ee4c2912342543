"""The three kinds of geounit of a TopDown release.

Persons and units each have a spine of their own, and one geocode may mean different blocks on the two: a spine geounit
has one product's counts. Tabulation geounits and off-spine entities are the same for both.
"""

from __future__ import annotations

from dataclasses import dataclass

from flows.reports.show.geography import STATES, Region, capitalized
from tasks.top_down.release.tables import REGION_TYPES

US = "US"
GEOUNIT_KINDS: dict[str, str] = {
    "tabulation": "tabulation geounit",
    "entities": "off-spine entity",
    "spine_persons": "spine geounit, of persons",
    "spine_units": "spine geounit, of units",
}
TABULATION = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12, "Block": 15}  # digits of the public code
OFF_SPINE = {"place": 7, "mcd": 10, "aian": 4}
WORDS = {US: "nation", "mcd": "county subdivision", "aian": "AIAN area"}  # other levels are their own words


@dataclass(frozen=True, order=True)
class Geounit:
    """A geounit by its kind, level (or family of entities), state and code; the nation's state and code are US."""

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
        """The region in files of names; None for a spine geounit."""
        if self.kind not in ("tabulation", "entities") or self.level not in REGION_TYPES:
            return None
        return Region.named(REGION_TYPES[self.level], self.code)


def title_of(level: str, *, several: bool = False) -> str:
    """Return the word for a geounit of a level, in a sentence."""
    word = WORDS.get(level, level.replace("_", " ").lower())
    if not several or level == US:
        return word
    return "counties" if level == "County" else f"{word}s"


def plain_title(geounit: Geounit) -> str:
    """Return the name of a geounit that no file of names has."""
    if geounit.nation:
        return "United States"
    state = STATES.get(geounit.state, f"State {geounit.state}")
    if geounit.kind.startswith("spine"):
        if geounit.level == "State":
            return f"{state}, {'AIAN areas' if geounit.code[:1] == '1' else 'outside AIAN areas'}"
        return f"Spine {title_of(geounit.level)} {geounit.code}"
    if geounit.level == "State":
        return state
    return capitalized(f"{title_of(geounit.level)} {geounit.code}")


def tabulation_above(geounit: Geounit) -> list[Geounit]:
    """Return the tabulation geounits that contain a tabulation geounit or off-spine entity, the smallest first.

    A place may be in several counties; an AIAN area is its part in the state.
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
