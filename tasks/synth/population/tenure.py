"""Tenure of households."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.synth.population.compiled_draws import Draws, Purpose
from tasks.synth.population.model import NO_RENT, OWNED, OWNED_WITH_MORTGAGE, RENTED, Households

OWNERS = np.array([0, 0.80, 0.45, 0.45, 0.53])  # by type of household, own; 63.1% of all in 2020
MORTGAGE_AGES, MORTGAGES = (35, 75), (0.90, 0.25)  # of owners, falling with the householder's age; own
WITHOUT_RENT = 0.04  # of those who do not own; own


def draw_tenures(homes: Households, age: NDArray[np.uint8], draws: Draws) -> NDArray[np.uint8]:
    """Return TEN of each unit, 0 where there is no household."""
    draw = draws.uniform(Purpose.TENURE, homes.unit_tract)
    owners = OWNERS[homes.type]
    mortgages = np.interp(age[homes.head], MORTGAGE_AGES, MORTGAGES) if len(age) else owners
    owned = np.where(draw < owners * mortgages, OWNED_WITH_MORTGAGE, OWNED)
    rented = np.where(draw < owners + (1 - owners) * WITHOUT_RENT, NO_RENT, RENTED)
    return np.where(homes.head < 0, 0, np.where(draw < owners, owned, rented)).astype(np.uint8)
