"""A release of any system as one tidy pandas table: a row a published count, with names, margins and estimates."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from flows.execution.systems import released_by
from spine.counts import sums
from spine.top_down import Product
from tasks.detailed_dhca.details import SEXES
from tasks.inputs.names import names_of_2020, names_of_release
from tasks.inputs.regions import Region
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.manifest import MANIFEST, read_manifest, require_release
from tasks.lifecycle.received import path_in, read_in, reason_of
from tasks.population_groups.levels import named_level
from tasks.top_down.run_plan import ProductName

GROUP = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE"]
CELL = [*GROUP, "SEX", "AGESTART", "AGEEND"]


def read_release(release: str | Path, levels: Collection[str] = ()) -> pd.DataFrame:
    """Return the published counts of a release: a row a count, with names and 95% margins of error.

    Detailed DHC-A
        region_type, region_id, region, iteration_code, iteration, sex (None: both), age_start, age_end (missing: all),
        count, margin; with estimates also estimate, estimate_margin.
    TopDown Algorithm
        product, level, state, code, name, statistic (total, voting age, Hispanic, …), count; of least squares also
        margin (missing where it would not be the release's), estimate, standard_error. Without blocks.
    Bottom-up
        the histogram: a column a factor, count, margin.

    A negative count is noise, and was not made zero. Margins are of the noise before suppression.

    Parameters
    ----------
    release
        the folder with manifest.json.
    levels
        which to read, all if none: `County, Detailed`; of the TopDown Algorithm `County`, `place`. All levels of a
        nation take gigabytes.

    Raises
    ------
    Refused
        where the folder holds no release, or no such level.
    """
    folder = Path(release)
    require_release(folder)
    try:
        manifest = read_manifest(folder)
        system = released_by(manifest["release"])
        if system is None or system.name not in _FRAMES:
            raise Refused(f"{folder} is a release of {manifest['release']!r:.80}, which has no table")
        frame: pd.DataFrame = _FRAMES[system.name](folder, manifest, [levels] if isinstance(levels, str) else levels)
    except (KeyError, TypeError, AttributeError) as error:  # the manifest is somebody else's: it may hold anything
        raise Refused(f"{folder}/{MANIFEST} is no manifest of a release: {reason_of(error)}") from error
    return frame


def _detailed_dhca(folder: Path, manifest: Mapping[str, Any], levels: Collection[str]) -> pd.DataFrame:
    there = [named_level(key) for key in manifest["levels"]]
    read = [named_level(name) for name in levels] or there
    if missing := [level.name for level in read if level not in there]:
        raise Refused(f"the release has no level {missing[0]}; it has {'; '.join(level.name for level in there)}")
    frame = pd.concat([_tables(folder, manifest["files"], level.slug) for level in read], ignore_index=True)
    names = _names(folder, manifest)
    iterations = {code: name for code, name, *_ in _rows(folder, "tabulated/iterations.csv")}
    regions = [
        names.get(Region(region_type, code), "United States" if region_type == "USA" else "")
        for region_type, code in zip(frame["REGION_TYPE"], frame["REGION_ID"], strict=True)
    ]
    ages = {name: pd.to_numeric(frame[name].replace("*", None)).astype("Int16") for name in ("AGESTART", "AGEEND")}
    tidy = {
        "region_type": frame["REGION_TYPE"].astype("category"),
        "region_id": frame["REGION_ID"],
        "region": pd.Categorical(regions),
        "iteration_code": frame["ITERATION_CODE"],
        "iteration": frame["ITERATION_CODE"].map(iterations).astype("category"),
        "sex": frame["SEX"].map({str(code): sex for code, sex in SEXES.items()}).astype("category"),
        "age_start": ages["AGESTART"],
        "age_end": ages["AGEEND"],
        "count": frame["COUNT"],
        "margin": frame["MOE"],
    }
    if "ESTIMATE" in frame:
        tidy |= {"estimate": frame["ESTIMATE"], "estimate_margin": frame["MOE_OF_ESTIMATE"]}
    return pd.DataFrame(tidy)


def _tables(folder: Path, files: Collection[str], level: str) -> pd.DataFrame:
    """Return T1 and T2 of a level as one table, with the estimates where the release has them."""
    counts = _both(folder, "", level)
    if f"parquet/estimates/t1/{level}.parquet" not in files:
        return counts
    estimates = _both(folder, "estimates/", level).rename(columns={"MOE": "MOE_OF_ESTIMATE"})
    return counts.merge(estimates, on=CELL, how="left", validate="one_to_one")


def _both(folder: Path, kind: str, level: str) -> pd.DataFrame:
    totals, cells = (_read(folder, f"parquet/{kind}{table}/{level}.parquet") for table in ("t1", "t2"))
    return pd.concat([totals.assign(SEX="*", AGESTART="*", AGEEND="*"), cells], ignore_index=True)


def _top_down(folder: Path, manifest: Mapping[str, Any], levels: Collection[str]) -> pd.DataFrame:
    from flows.reports.show.top_down.geounits import REGION_TYPES
    from tasks.top_down.run_plan import SCHEMAS

    found = list(_histograms(manifest["files"]))
    there = list(dict.fromkeys(level for _, _, level, _ in found))
    if missing := [level for level in levels if level not in there]:
        raise Refused(f"the release has no level {missing[0]!r}; it has {', '.join(there)}")
    names, parts = _names(folder, manifest), []
    for file, product, level, state in found:
        if levels and level not in levels:
            continue
        counts = _sums(_read(folder, file), SCHEMAS[product], state if level == "State" else "")
        margins = file.replace("histograms/", "margins/", 1)
        if margins in manifest["files"] and level != "State":  # a state may be two parts of the spine
            own = _read(folder, margins).drop(columns="released")
            own = own.rename(columns={"geounit": "code", "count": "statistic"}).astype({"statistic": str})
            counts = counts.merge(own, on=["code", "statistic"], how="left")
        regions = [names.get(Region.named(REGION_TYPES.get(level, ""), code), "") for code in counts["code"]]
        parts.append(counts.assign(product=product, level=level, state=state, name=regions))
    order = ["product", "level", "state", "code", "name", "statistic", "count", "margin", "estimate", "standard_error"]
    frame = pd.concat(parts, ignore_index=True).astype({"code": str})
    return frame[[name for name in order if name in frame]]


def _histograms(files: Iterable[str]) -> Iterator[tuple[str, ProductName, str, str]]:
    """Yield (file, product, level, state) of the histograms of states, tabulation geounits and entities."""
    for file in sorted(files):
        if match := re.fullmatch(r"histograms/(persons|units)/(.*/)?(\w+)/(\d\d)\.parquet", file):
            product, kind, level, state = match.groups()
            if level == "State" or kind in ("tabulation/", "entities/"):
                yield file, "persons" if product == "persons" else "units", level, state


def _sums(histograms: pd.DataFrame, schema: Product, state: str) -> pd.DataFrame:
    """Return the estimated counts of a product, a row for each geounit and count; all geounits as one `state`."""
    unit = pd.Categorical([state] * len(histograms) if state else histograms["geounit"].astype(str))
    names, geounits = np.array([one.name for one in schema.estimated], object), len(unit.categories)
    cell, count = histograms["cell"].to_numpy(), histograms["count"].to_numpy(np.int64)
    counts = sums(np.asarray(unit.codes), cell, count, geounits, schema.matrix(schema.estimated))
    codes = np.repeat(unit.categories.to_numpy(object), len(names))
    return pd.DataFrame({"code": codes, "statistic": np.tile(names, geounits), "count": counts.ravel()})


def _bottom_up(folder: Path, _manifest: Mapping[str, Any], levels: Collection[str]) -> pd.DataFrame:
    if levels:
        raise Refused("a bottom-up release has no levels")
    return _read(folder, "parquet/histogram.parquet").rename(columns={"COUNT": "count", "MOE": "margin"})


def _names(folder: Path, manifest: Mapping[str, Any]) -> dict[Region, str]:
    return {**names_of_2020(), **names_of_release(folder, manifest["files"])}


def _rows(folder: Path, name: str) -> Iterator[list[str]]:
    lines: Iterable[str] = read_in(folder, name).decode("utf-8", "replace").splitlines()[1:]
    return (line.split("|") for line in lines)


def _read(folder: Path, name: str) -> pd.DataFrame:
    try:
        frame: pd.DataFrame = pq.read_table(path_in(folder, name)).to_pandas()
    except (ValueError, OSError) as error:  # Arrow's errors are of these kinds
        raise Refused(f"{name} of {folder} cannot be read: {reason_of(error)}") from None
    return frame


_FRAMES = {"detailed-dhca": _detailed_dhca, "top-down": _top_down, "bottom-up": _bottom_up}
