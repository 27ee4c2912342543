"""The plausibility of a population: its shares compared with published ones (`das synth --report`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tasks.synth.population.ages import PARENT_GAP
from tasks.synth.population.codes import SETS
from tasks.synth.population.model import (
    ADULT_AGE,
    HOUSEHOLDER,
    OWN_CHILDREN,
    PARTNER,
    RELATIVES,
    SAME_SEX_PARTNER,
    SAME_SEX_SPOUSE,
    SPOUSE,
)
from tasks.synth.writers.columns import Stretch

Counts = dict[str, int]


@dataclass(frozen=True)
class Figure:
    """A share of a population: its counts, its published value, and the allowed distance from it."""

    words: str
    part: str
    whole: str
    target: float
    within: float

    def value(self, counts: Mapping[str, int]) -> float:
        """Return the share in a population with these counts."""
        return counts[self.part] / max(counts[self.whole], 1)

    def fits(self, counts: Mapping[str, int]) -> bool:
        """Return whether the share is within the allowed distance of the published one."""
        return abs(self.value(counts) - self.target) <= self.within


FIGURES = (  # targets of 2020 and of the American Community Survey 2017-2021; the last three are our own
    Figure("households of one person", "of one", "households", 0.276, 0.010),
    Figure("persons in a household", "housed", "households", 2.549, 0.010),
    Figure("households of a married couple", "married", "households", 0.462, 0.010),
    Figure("households of a cohabiting couple", "cohabiting", "households", 0.069, 0.005),
    Figure("couples of one sex", "of one sex", "couples", 0.017, 0.003),
    Figure("households of one woman", "one woman", "households", 0.153, 0.007),
    Figure("households of one man", "one man", "households", 0.123, 0.007),
    Figure("households with own children under 18", "with children", "households", 0.27, 0.02),
    Figure("householders, of persons in households", "householders", "housed", 0.392, 0.010),
    Figure("spouses", "spouses", "housed", 0.182, 0.010),
    Figure("partners", "partners", "housed", 0.027, 0.010),
    Figure("children", "children", "housed", 0.294, 0.010),
    Figure("other relatives", "other relatives", "housed", 0.071, 0.010),
    Figure("nonrelatives", "nonrelatives", "housed", 0.034, 0.010),
    Figure("persons in households of couples", "coupled", "housed", 0.67, 0.03),
    Figure("owners, of households", "owners", "households", 0.631, 0.010),
    Figure("vacant, of housing units", "vacant", "housing units", 0.0974, 0.005),
    Figure("persons in group quarters", "in quarters", "persons", 0.025, 0.005),
    Figure("persons under 18", "minors", "persons", 0.221, 0.003),
    Figure("households of two and more of one ethnicity", "one ethnicity", "of several", 0.90, 0.03),
    Figure("households of two and more of one race", "one race", "of several", 0.85, 0.03),
    Figure("own children 15 years and more younger", "younger", "children", 1.0, 0.005),
)


def count_figures(stretch: Stretch) -> Counts:
    """Return the counts from which the figures are computed."""
    people, units, recodes = stretch.population, stretch.population.homes, stretch.recodes
    housed = units.kind[units.unit] == 0
    role = np.bincount(people.role, minlength=64)
    child = np.isin(people.role, OWN_CHILDREN)
    household, several = units.head >= 0, (units.head >= 0) & (units.size > 1)
    couple = np.isin(recodes.cplt, (1, 2, 3, 4))

    def roles(*codes: int) -> int:
        return int(role[list(codes)].sum())

    def shared(values: np.ndarray) -> int:
        other = values != values[units.head_of]
        return int((several & (np.bincount(units.unit[other], minlength=len(units.size)) == 0)).sum())

    spouses, partners = roles(SPOUSE, SAME_SEX_SPOUSE), roles(PARTNER, SAME_SEX_PARTNER)
    relatives = roles(*RELATIVES) - spouses - roles(*OWN_CHILDREN)
    gap = people.age[units.head_of].astype(int) - people.age
    counts = {
        "households": household.sum(),
        "of one": (household & (units.size == 1)).sum(),
        "of several": several.sum(),
        "housed": housed.sum(),
        "married": (recodes.hht == 1).sum(),
        "cohabiting": np.isin(recodes.cplt, (3, 4)).sum(),
        "couples": couple.sum(),
        "of one sex": np.isin(recodes.cplt, (2, 4)).sum(),
        "one woman": (recodes.hht == 6).sum(),
        "one man": (recodes.hht == 4).sum(),
        "with children": np.isin(recodes.hht2, (1, 3, 6, 10)).sum(),
        "householders": roles(HOUSEHOLDER),
        "spouses": spouses,
        "partners": partners,
        "children": child.sum(),
        "other relatives": relatives,
        "nonrelatives": roles(34, 35, 36),
        "coupled": units.size[couple].sum(),
        "owners": np.isin(people.tenure, (1, 2)).sum(),
        "housing units": (units.kind == 0).sum(),
        "vacant": ((units.kind == 0) & ~household).sum(),
        "persons": len(people.age),
        "in quarters": (~housed).sum(),
        "minors": (people.age < ADULT_AGE).sum(),
        "one ethnicity": shared(people.cell // SETS),
        "one race": shared(people.cell % SETS),
        "younger": (child & (gap >= PARENT_GAP)).sum(),
    }
    return {name: int(count) for name, count in counts.items()}
