"""The words of pages and terminals for geographic levels, kinds of areas, and query groups; files have keys instead."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import combinations

LEVELS = {  # of a spine (capital), and families of areas; a level that is not here is its own word
    "US": "Nation",
    "cbg": "Tabulation block group",
    "obg": "Optimized block group",
    "mcd": "County subdivision (MCD)",
    "aian": "AIAN area",
    "pme": "Place/MCD entity",
    "gq": "GQ pattern",
    "sd": "School district",
}
AXES = {  # of the histograms of the redistricting data
    "total": "total",
    "hhgq": "kind of living quarters (8)",
    "hhinstlevels": "kind of living quarters (3)",
    "votingage": "voting age",
    "hispanic": "Hispanic origin",
    "hisp": "Hispanic origin",
    "cenrace": "race",
    "detailed": "every cell",
}
QUARTERS = (
    "households",
    "correctional facilities for adults",
    "juvenile facilities",
    "nursing facilities",
    "other institutional facilities",
    "college or university student housing",
    "military quarters",
    "other noninstitutional facilities",
)
ALONE = (
    "White",
    "Black or African American",
    "American Indian and Alaska Native",
    "Asian",
    "Native Hawaiian and Other Pacific Islander",
    "Some other race",
)
COMBINATIONS = [" + ".join(some) for number in range(1, 7) for some in combinations(ALONE, number)]  # CENRACE 01 to 63
RACES = {"AIAN": "American Indian and Alaska Native", "NHPI": "Native Hawaiian and Other Pacific Islander"}
PRODUCTS = {"persons": "Persons", "units": "Housing units"}


def level_title(level: str, *, several: bool = False) -> str:
    """Return a level of a spine, or a family of areas, in words: `Block group`, `County subdivisions (MCDs)`."""
    words = LEVELS.get(level, level.replace("_", " ").capitalize())
    if not several:
        return words
    words = words.replace("subdivision (MCD)", "subdivisions (MCDs)")
    return words if words.endswith(")") else f"{words[:-1]}ies" if words.endswith("y") else f"{words}s"


def query_title(query: str) -> str:
    """Return a query group in words: `voting age × Hispanic origin × race`, from `votingage*hispanic*cenrace`."""
    return " × ".join(_axis(axis.strip()) for axis in query.split("*"))


def count_title(name: str) -> str:
    """Return a count that has margins in words: `race: Asian`, `group quarters: nursing facilities`."""
    of, _, which = name.partition(": ")
    if not which:
        return "occupied housing units" if name == "occupied" else name
    return f"{of}: {QUARTERS[int(which[5:])] if which.startswith('type ') else RACES.get(which, which)}"


def best_in_words(figures: Mapping[str, Mapping[str, float]]) -> str:
    """Return for which rows each column has the least figure: `conventional: Counties; optimized: Places, Tracts`.

    figures: by row and column. Columns that are equal at three digits share a row; a row that all share is left out.
    """
    best: dict[str, list[str]] = {}
    for row, values in figures.items():
        shown = {column: float(f"{value:.3g}") for column, value in values.items()}
        least = [column for column in shown if shown[column] == min(shown.values())]
        for column in least if len(least) < len(shown) else ():
            best.setdefault(column, []).append(row)
    return "; ".join(
        f"{column}: {', '.join(best[column])}" for column in next(iter(figures.values()), ()) if column in best
    )


def _axis(axis: str) -> str:
    if grouped := re.fullmatch(r"(age|relgq)_(\d+)_groups", axis):  # of the DHC
        return f"{'age' if grouped[1] == 'age' else 'relationship'} in {grouped[2]} groups"
    return AXES.get(axis, axis.replace("_", " "))
