"""Names and points of the regions of a run: kept with what it prepares, and written into its release. Public."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tasks.inputs.names import Names, names_in, write_names
from tasks.inputs.points import points_in, write_points
from tasks.inputs.regions import Region
from tasks.lifecycle.files import load_object, save_object
from tasks.lifecycle.run_directory import RunDirectory

NAMES, POINTS = "prepared/names", "prepared/points"


def keep_regions(run: RunDirectory, geography: str) -> None:
    """Keep the names and points that a geography, by path or URL, has of its regions."""
    save_object(run / NAMES, names_in(geography))
    save_object(run / POINTS, points_in(geography))


def are_kept(run: RunDirectory) -> bool:
    """Return whether a run has kept names and points already."""
    return (run / POINTS).exists()  # the last


def kept_names(run: RunDirectory) -> Names:
    """Return the names that a run has kept; none of measurements of which only the codes are published."""
    names: Names = _kept(run / NAMES)
    return names


def write_regions(run: RunDirectory, out: Path, regions: Callable[[Region], bool]) -> None:
    """Write names.csv and points.csv of some regions into OUT."""
    write_names(out, kept_names(run), regions)
    write_points(out, _kept(run / POINTS), regions)


def _kept(path: Path) -> Any:
    return load_object(path) if path.exists() else {}
