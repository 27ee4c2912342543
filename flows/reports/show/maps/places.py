"""Where regions are: the points that the release has, those of the counties of 2020, and the user's boundaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from flows.reports.show.maps.boundaries import Shapes, read_boundaries
from tasks.inputs.points import POINTS, Points, points_of_2020


@dataclass(frozen=True)
class Places:
    """Points, as (latitude, longitude), and shapes of regions."""

    points: Points = field(default_factory=dict)
    shapes: Shapes | None = None

    @cached_property
    def types(self) -> frozenset[str]:
        """The region types that a map can show."""
        shaped = self.shapes.types if self.shapes else set()
        return frozenset({region.type for region in self.points} | shaped)


def places_of(release: Path, manifest: Mapping[str, Any], boundaries: Sequence[Path] = ()) -> Places:
    """Return where the regions of a release are. Raises Refused where a file of boundaries has none."""
    own = POINTS.of_release(release, manifest["files"])
    return Places({**points_of_2020(), **own}, read_boundaries(boundaries))
