"""The districts of a plan as shapes, made of boundaries of tracts, block groups or blocks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from flows.reports.show.maps.boundaries import read_boundaries, simplified, together
from spine.geography import FloatArray
from tasks.errors import Refused
from tasks.geography.blocks.area_file import AreaFile
from tasks.top_down.user_areas.hearing import Sketch

CODE = re.compile(r"(?:[0-9]{7}US)?([0-9]{11,12}|[0-9]{15})")
FINENESS = 1_000  # a line is simplified within this part of the map's width


def _codes_of(_path: Path, table: pa.Table) -> list[str | None]:
    """Return the code of each tract, block group or block; None for other areas."""
    found = (CODE.fullmatch((code or "").strip()) for code in table["code"].to_pylist())
    return [each[1] if each else None for each in found]


def district_shapes(paths: Sequence[Path], file: AreaFile) -> Sketch:
    """Return the shapes of a file's areas: each unit belongs to the area that has most of its blocks.

    Raises Refused for files that cannot be read, that mix kinds of units, or that lack an area.
    """
    import shapely

    shapes = read_boundaries(paths, _codes_of)
    widths = {len(code) for code in shapes}
    if len(widths) > 1:
        raise Refused("--boundaries has tracts, block groups or blocks together: give one kind")
    parts = _parts(shapes, file, 10 ** (15 - widths.pop()))
    if missing := [name for name, own in zip(file.names, parts, strict=True) if not own]:
        raise Refused(
            f"--boundaries has no shape of the area {missing[0]}: give tracts, block groups or blocks of 2020 of the "
            "whole state"
        )
    whole = np.array([together(own) for own in parts])
    west, _, east, _ = shapely.total_bounds(whole)
    plain = simplified(whole, (east - west) / FINENESS)
    middle = shapely.get_coordinates(shapely.point_on_surface(plain))
    return Sketch(middle, np.zeros((0, 2)), np.zeros(0, np.int64), [_rings(shape) for shape in plain])


def _parts(shapes: Mapping[str, Any], file: AreaFile, unit: int) -> list[list[Any]]:
    """Return the shapes of each area."""
    units, number = np.unique(file.code // unit, return_inverse=True)
    pairs, blocks = np.unique(np.stack([number, file.area]), axis=1, return_counts=True)
    area_of = dict[int, int]()
    for at in np.argsort(blocks, kind="stable").tolist():  # the last has the most
        area_of[int(units[pairs[0, at]])] = int(pairs[1, at])
    parts: list[list[Any]] = [[] for _ in file.names]
    for code, shape in shapes.items():
        if (area := area_of.get(int(code))) is not None:
            parts[area].append(shape)
    return parts


def _rings(shape: Any) -> list[FloatArray]:
    """Return the rings of a shape, outer and inner ones in opposite directions, so that holes stay empty."""
    import shapely

    return [shapely.get_coordinates(ring) for ring in shapely.get_rings(shapely.get_parts(shapely.normalize(shape)))]
