"""Regions by type and id: which contain which, and which sum to which."""

from __future__ import annotations

from dataclasses import dataclass

from spine.settings import Jurisdiction

REGION_TYPES: dict[Jurisdiction, tuple[str, ...]] = {  # in the order of Algorithm 4
    "us": ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH"),
    "pr": ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE"),
}
NATION = "1"
PUERTO_RICO = "PR-"
WITHIN = {
    "STATE": ("USA", 0),
    "AIANNH": ("USA", 0),
    "COUNTY": ("STATE", 2),
    "PLACE": ("STATE", 2),
    "TRACT": ("COUNTY", 5),
}
ADD_UP = {"USA": "STATE", "STATE": "COUNTY", "COUNTY": "TRACT"}  # each block of one is in one of the other


@dataclass(frozen=True, order=True, slots=True)  # a nation has 120,000
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
    def child_prefix(self) -> str:
        """The prefix of the ids of the regions within it."""
        return "" if self.type == "USA" else self.id

    @property
    def _prefix(self) -> str:
        return PUERTO_RICO if self.type.startswith(PUERTO_RICO) else ""
