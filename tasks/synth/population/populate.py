"""The steps in order: a state's tracts, populated."""

from __future__ import annotations

import numpy as np

from tasks.synth.population.ages import draw_ages, draw_sexes
from tasks.synth.population.codes import SETS, Origins, draw_codes
from tasks.synth.population.compiled_draws import Draws
from tasks.synth.population.households import StateLaw, choose_roles, form_households
from tasks.synth.population.model import People, Tracts, Units
from tasks.synth.population.races import draw_races
from tasks.synth.population.tenure import draw_tenures


def populate(tracts: Tracts, law: StateLaw, origins: Origins, seed: int) -> tuple[Units, People]:
    """Return the units of some tracts (at most 64) and their persons, both by block."""
    draws = Draws(seed, tracts.codes)
    homes = form_households(tracts, law, draws)
    role = choose_roles(homes, draws)
    age, _ = draw_ages(homes, role, draws)
    sex, role = draw_sexes(homes, role, age, draws)
    cell, point = draw_races(tracts, homes, origins, draws)
    codes = draw_codes(homes, role, cell, point, origins, draws)
    tenure = draw_tenures(homes, age, draws)
    units = Units(homes.block, homes.kind, homes.size, homes.first, homes.head, homes.type, tenure)
    hispanic, races = (cell // SETS).astype(np.uint8), (cell % SETS).astype(np.uint8)
    return units, People(homes.unit, role, age, sex, hispanic, races, *codes)
