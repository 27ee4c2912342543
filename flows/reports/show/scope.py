"""The part of a release in a view or a copy: all of it, one state, or one population group level."""

from __future__ import annotations

from dataclasses import dataclass

from flows.reports.show.geography import STATES
from tasks.errors import Refused
from tasks.geography.regions import PUERTO_RICO, Region
from tasks.safetab.levels import ALL_LEVELS, Level

SLUGS = {level.slug: level for level in ALL_LEVELS}


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
