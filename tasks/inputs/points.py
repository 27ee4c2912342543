"""A point of each region, for maps: public, from the geography of a run, and for the counties of 2020 from here.

* A block table with the internal points of its blocks, as GRF-C and the geographic header of the P.L. 94-171 data have
  them (INTPTLAT, INTPTLON), gives a region the mean of its blocks'.
* A Gazetteer file has the internal point of each region.
* `points.csv`, as a release has it and `das synth` writes it.

A value that is no number of degrees is left out: no run depends on a point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from spine.geography import BadGeography
from tasks.inputs.blocks.columns import Columns
from tasks.inputs.blocks.files import block_files
from tasks.inputs.blocks.tables import recognize
from tasks.inputs.files import open_file
from tasks.inputs.region_files import RegionFile
from tasks.inputs.regions import Region
from tasks.lifecycle.errors import Refused

LATITUDES = ("INTPTLAT", "INTPTLAT20", "LATITUDE", "LAT")
LONGITUDES = ("INTPTLON", "INTPTLON20", "INTPTLONG", "LONGITUDE", "LON")
CODES = ("state", "county", "tract", "place", "cousub", "aiannh")  # columns that make the codes of regions
BEYOND = 48.0  # degrees north of which a longitude east of 170 is the end of the Aleutians
Point = tuple[float, float]  # latitude, longitude
Points = dict[Region, Point]


@cache
def points_of_2020() -> Points:
    """Return a point in each state and county of 2020, Puerto Rico's included, except two new ones in Alaska."""
    return POINTS.of_2020("points_2020.csv")


def points_in(geography: str) -> Points:
    """Return the points of regions in a geography by path or URL, as far as it has them; files next to it go first."""
    points: Points = {}
    with suppress(OSError, Refused, BadGeography, pa.ArrowInvalid):  # the stage that needs the file reports its faults
        for path in block_files(geography):
            points |= _of_blocks(path)
    with suppress(Refused):
        points |= POINTS.in_geography(geography)
    return points


def write_points(out: Path, points: Mapping[Region, Point], regions: Callable[[Region], bool]) -> None:
    """Write OUT/points.csv: the points of some regions, sorted; no file without a point."""
    if any(map(regions, points)):
        POINTS.write_release(out, points, regions)


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
    ("INTPTLAT", "INTPTLONG"),
    _degrees,
    lambda at: f"{at[0]:.5f}|{at[1]:.5f}",
)


# -- block tables -----------------------------------------------------------------------------------------------------


def _of_blocks(path: str) -> Points:
    """Return for each region of a block table the mean of its blocks' points; none where the table has no points."""
    table = recognize(path)
    latitude, longitude = (
        next((name for name in known if name in table.names), None) for known in (LATITUDES, LONGITUDES)
    )
    if latitude is None or longitude is None:
        return {}
    codes = (getattr(table.columns, code) for code in CODES)
    names = [*dict.fromkeys(filter(None, codes)), latitude, longitude]
    header = table.columns.positions
    with open_file(path, compression="infer") as stream:
        rows = pyarrow.csv.open_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(
                column_names=list(header) or None, encoding="latin1" if header else "utf8", block_size=1 << 24
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=table.columns.delimiter, quote_char='"' if table.columns.delimiter == "," else False
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=[*names, *(["SUMLEV"] if header else [])],
                column_types=dict.fromkeys(table.names, pa.string()),
            ),
        )
        parts = [part for batch in rows for part in _sums(batch, table.columns, latitude, longitude)]
    if not parts:
        return {}
    sums = pd.concat(parts).groupby(["type", "id"]).sum()
    means = sums[["latitude", "longitude"]].div(sums["blocks"], axis=0)
    return {Region(*key): (at, (to + 180) % 360 - 180) for key, at, to in means.itertuples(name=None)}


def _sums(batch: Any, columns: Columns, latitude: str, longitude: str) -> Iterator[pd.DataFrame]:
    """Yield for each type of region the sums of its blocks' latitudes and longitudes, and their number."""
    if columns.positions:
        batch = batch.filter(pc.equal(batch["SUMLEV"], "750"))
    at = np.column_stack([_numbers(batch[name]) for name in (latitude, longitude)])
    at[:, 1] -= 360.0 * ((at[:, 1] > 170) & (at[:, 0] > BEYOND))
    codes = {code: batch[column].to_pandas() for code in CODES if (column := getattr(columns, code))}
    ids = {
        "STATE": codes["state"],
        "COUNTY": codes["state"] + codes["county"],
        "TRACT": codes["state"] + codes["county"] + codes["tract"],
    }
    for kind, parts, width in (("PLACE", ("state", "place"), 7), ("COUSUB", ("state", "county", "cousub"), 10)):
        if set(parts) <= set(codes):
            ids[kind] = _named(codes[parts[-1]], sum((codes[part] for part in parts[1:]), codes["state"]), width)
    if "aiannh" in codes:
        ids["AIANNH"] = _named(codes["aiannh"], codes["aiannh"], 4)
    valid = (np.abs(at[:, 0]) <= 90) & (at[:, 1] >= -370) & (at[:, 1] <= 180)  # False for NaN
    for kind, code in ids.items():
        kept = valid & (code != "").to_numpy()
        table = pd.DataFrame({"id": code[kept], "latitude": at[kept, 0], "longitude": at[kept, 1], "blocks": 1})
        sums = table.groupby("id", as_index=False).sum()
        in_puerto_rico = sums["id"].str.startswith("72") & (kind not in ("COUSUB", "AIANNH"))
        yield sums.assign(type=np.where(in_puerto_rico, f"PR-{kind}", kind))


def _named(own: pd.Series[str], code: pd.Series[str], width: int) -> pd.Series[str]:
    """Return the codes of regions; "" for a block in none of the type, whose code is blank or nines."""
    return code.where(~own.str.fullmatch("9*") & (code.str.len() == width), "")


def _numbers(column: pa.Array) -> Any:
    """Return degrees, NaN for what is no number; the Bureau writes a plus sign."""
    text = pc.utf8_ltrim(pc.utf8_trim_whitespace(column), characters="+")
    good = pc.match_substring_regex(text, r"^-?[0-9]{1,3}(\.[0-9]+)?$")
    return pc.if_else(good, text, None).cast(pa.float64()).to_numpy(zero_copy_only=False)
