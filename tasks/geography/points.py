"""A point of each region, for maps: public, from a release, the counties of 2020, or block tables.

A block table with the internal points of its blocks (INTPTLAT, INTPTLON), such as GRF-C and the geographic header of
the P.L. 94-171 data, gives a region the mean of its blocks' points. A value that is not a number of degrees is ignored:
no run depends on a point.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spine.geography import BadGeography
from tasks.errors import Refused
from tasks.geography.blocks.tables import recognize
from tasks.geography.region_files import RegionFile
from tasks.geography.regions import Region
from tasks.records.block_codes import BLOCK_COLUMNS

if TYPE_CHECKING:
    import pandas as pd

LATITUDES = ("INTPTLAT", "INTPTLAT20", "LATITUDE", "LAT")
LONGITUDES = ("INTPTLON", "INTPTLON20", "INTPTLONG", "LONGITUDE", "LON")
CODES = (*BLOCK_COLUMNS[:3], "PLACEFP", "COUSUBFP", "AIANNHCE")  # columns that make up region codes
BEYOND = 48.0  # degrees north, beyond which a longitude east of 170 is the end of the Aleutians
Point = tuple[float, float]  # latitude, longitude
Points = dict[Region, Point]


@cache
def points_of_2020() -> Points:
    """Return a point in each state and county of 2020, Puerto Rico's included, except two new ones in Alaska."""
    return POINTS.of_2020("points_2020.csv")


def _degrees(texts: Sequence[str]) -> Point | None:
    try:
        latitude, longitude = map(float, texts)
    except ValueError:
        return None
    fit = isfinite(latitude) and isfinite(longitude) and abs(latitude) <= 90 and abs(longitude) <= 180
    return (latitude, longitude) if fit else None


POINTS = RegionFile(
    "points.csv",
    ("LATITUDE", "LONGITUDE"),
    ("points", "latitude and longitude"),
    _degrees,
    lambda at: f"{at[0]:.5f}|{at[1]:.5f}",
)


def points_of_blocks(paths: Iterable[str]) -> Points:
    """Return the mean of the blocks' points for each region of block tables; empty for a table without points."""
    points: Points = {}
    with suppress(OSError, Refused, BadGeography, pa.ArrowInvalid):  # the stage that needs the file reports its faults
        for path in paths:
            points |= _of_blocks(path)
    return points


def _of_blocks(path: str) -> Points:
    import pandas as pd  # not needed for most releases, and the pages of one must not wait for it

    file = recognize(path)
    if (table := file.table) is None:
        return {}
    latitude, longitude = (
        next((name for name in known if name in table.names), None) for known in (LATITUDES, LONGITUDES)
    )
    if latitude is None or longitude is None:
        return {}
    codes = {code: file.columns[code] for code in CODES if code in file.columns}
    level = ["SUMLEV"] if file.headless else []
    types = dict.fromkeys([*codes.values(), latitude, longitude, *level], pa.string())
    parts = list[pd.DataFrame]()
    for batch in table.batches(types, 1 << 24):
        blocks = batch.filter(pc.equal(batch["SUMLEV"], "750")) if level else batch
        at = np.column_stack([_numbers(blocks[name]) for name in (latitude, longitude)])
        parts += _sums(at, {code: blocks[name].to_pandas() for code, name in codes.items()})
    if not parts:
        return {}
    sums = pd.concat(parts).groupby(["type", "id"]).sum()
    means = sums[["latitude", "longitude"]].div(sums["blocks"], axis=0)
    return {Region.named(*key): (at, (to + 180) % 360 - 180) for key, at, to in means.itertuples(name=None)}


def _sums(at: Any, codes: Mapping[str, pd.Series[str]]) -> Iterator[pd.DataFrame]:
    """Yield, by type of region, the sums of its blocks' latitudes and longitudes, and their number."""
    import pandas as pd

    at[:, 1] -= 360.0 * ((at[:, 1] > 170) & (at[:, 0] > BEYOND))
    state, county, tract = (codes[name] for name in BLOCK_COLUMNS[:3])
    ids = {"STATE": state, "COUNTY": state + county, "TRACT": state + county + tract}
    for kind, own, within, width in (
        ("PLACE", "PLACEFP", state, 7),
        ("COUSUB", "COUSUBFP", state + county, 10),
        ("AIANNH", "AIANNHCE", "", 4),
    ):
        if own in codes:  # a block outside the type has a blank or nines
            code = within + codes[own]
            ids[kind] = code.where(~codes[own].str.fullmatch("9*") & (code.str.len() == width), "")
    valid = (np.abs(at[:, 0]) <= 90) & (at[:, 1] >= -370) & (at[:, 1] <= 180)  # False for NaN
    for kind, code in ids.items():
        kept = valid & (code != "").to_numpy()
        table = pd.DataFrame({"id": code[kept], "latitude": at[kept, 0], "longitude": at[kept, 1], "blocks": 1})
        yield table.groupby("id", as_index=False).sum().assign(type=kind)


def _numbers(column: pa.ChunkedArray) -> Any:
    """Return degrees, NaN for other text; the Bureau writes a plus sign."""
    text = pc.utf8_ltrim(pc.utf8_trim_whitespace(column), characters="+")
    good = pc.match_substring_regex(text, r"^-?[0-9]{1,3}(\.[0-9]+)?$")
    return pc.if_else(good, text, None).cast(pa.float64()).to_numpy()
