"""Words, on pages and terminals, for geographic levels, kinds of areas, and query groups; files have their keys."""

from __future__ import annotations

import re
from collections.abc import Mapping

from spine.redistricting import HISPANIC, MINORITY, PERSON_AXES, PERSON_COUNTS, UNIT_AXES, UNIT_COUNTS

LEVELS = {  # levels of a spine (capital) and families of areas; others keep their name
    "US": "Nation",
    "cbg": "Tabulation block group",
    "obg": "Optimized block group",
    "mcd": "County subdivision (MCD)",
    "aian": "AIAN area",
    "pme": "Place/MCD entity",
    "gq": "GQ pattern",
    "sd": "School district",
}
AXES = {  # in query groups
    "total": "total",
    **{axis.name: axis.words for axis in (*PERSON_AXES, *UNIT_AXES)},
    "hhinstlevels": "kind of living quarters in 3 groups",
    "hisp": HISPANIC.words,  # of the DHC
    "detailed": "every cell",
}
COUNTS = {count.name: count.words for count in (*UNIT_COUNTS, *PERSON_COUNTS)} | MINORITY
TRUTH = {  # what errors are against, by the mark of the data
    "SYNTHETIC": "errors against exact counts, of synthetic data",
    "PUBLIC": "errors against published microdata, itself a noisy database, and not against confidential counts",
}
PRODUCTS = {"persons": "Persons", "units": "Housing units"}


def capitalized(text: str) -> str:
    """Return a text with a capital first letter."""
    return text[:1].upper() + text[1:]


def level_words(level: str) -> str:
    """Return the name of a declaration's level in a sentence: `Block Group` for `Block_Group`."""
    return level.replace("_", " ")


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
    """Return the words of a count with margins: `Asian alone`, `group quarters: nursing facilities`."""
    return COUNTS.get(name, name)


def best_in_words(figures: Mapping[str, Mapping[str, float]]) -> str:
    """Return the best rows of each column: `conventional: Counties; optimized: Places, Tracts`.

    figures: by row and column; the smallest is best. Columns equal at three digits share a row. A row shared by all
    columns is left out.
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
