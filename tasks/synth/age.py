"""Sex, age and householder of synthetic persons.

The pyramid is this project's own: a rounded shape of the United States in 2020 (a bulge at 25-34 and at 55-64, fewer
children than adults, women outliving men), drawn through the anchors below. No published table is copied.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tasks.synth.proportions import edges, shares

OLDEST = 115
AGES = OLDEST + 1
HOUSEHOLDERS = (23, 60)  # householders per person; 126.8 million households over 331.4 million persons in 2020

# Persons of one year of age, relative to age 30; straight lines between.
_AGE_ANCHORS = {0: 0.80, 5: 0.88, 12: 0.95, 20: 0.97, 30: 1.0, 38: 0.97, 45: 0.88, 57: 0.96, 65: 0.82, 73: 0.62}
_AGE_ANCHORS |= {80: 0.34, 85: 0.21, 90: 0.105, 95: 0.032, 100: 0.005, 105: 2e-4, 110: 4e-6, OLDEST: 1e-7}
# Women among persons of that age.
_FEMALE_ANCHORS = {0: 0.489, 30: 0.496, 45: 0.506, 65: 0.525, 80: 0.575, 90: 0.665, 100: 0.81, OLDEST: 0.9}
# Chance of being the householder, before it is scaled to HOUSEHOLDERS.
_HEADSHIP_ANCHORS = {14: 0.0, 18: 0.02, 25: 0.33, 35: 0.5, 50: 0.56, 75: 0.63, 90: 0.6, OLDEST: 0.4}


def cell(sex: int, age: int) -> int:
    """Return the index of a sex (1 male, 2 female) and age among the 2 * AGES cells."""
    return (sex - 1) * AGES + age


@cache
def pyramid() -> np.ndarray:
    """Return the chance of every cell, float64 of shape (2 * AGES,)."""
    persons, female = _line(_AGE_ANCHORS), _line(_FEMALE_ANCHORS)
    return shares(np.concatenate([persons * (1 - female), persons * female]))


@cache
def cell_edges() -> np.ndarray:
    """Return the cumulative chances of the cells: on [0, 1) of other persons, on [1, 2) of householders; (4 * AGES,).

    Householders take their share of each cell, the others what is left, so that both together have the pyramid's law.
    """
    share = HOUSEHOLDERS[0] / HOUSEHOLDERS[1]
    headship = np.tile(_line(_HEADSHIP_ANCHORS), 2)
    headship *= share / (pyramid() * headship).sum()
    others, householders = pyramid() * (1 - headship) / (1 - share), pyramid() * headship / share
    return edges(others, householders)


def householder_pattern(start: int, count: int) -> np.ndarray:
    """Return whether persons start .. start + count - 1 of a state are householders, bool of shape (count,).

    Householders are spread evenly, so that any stretch of the file holds the same share and its length is known.
    """
    numerator, denominator = HOUSEHOLDERS
    before = np.arange(start, start + count + 1) * numerator // denominator
    return np.diff(before).astype(bool)


def _line(anchors: dict[int, float]) -> np.ndarray:
    return np.interp(np.arange(AGES), list(anchors), list(anchors.values()))
