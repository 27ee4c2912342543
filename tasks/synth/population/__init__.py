"""The steps that make a population, each in a file. They take and return arrays; no step reads or writes files.

A tract's persons and units depend only on the seed, its own blocks, the laws of its state and its place in its country:
every draw is addressed by seed, purpose, tract and row (`tasks.synth.draws`). Shares that are called "own" are this
project's rounded shapes, not taken from microdata.
"""

from __future__ import annotations

from tasks.synth.draws import Draws
from tasks.synth.population.ages import draw_ages, draw_sexes
from tasks.synth.population.codes import Origins, draw_codes
from tasks.synth.population.households import StateLaw, choose_roles, draw_tenures, form_households
from tasks.synth.population.model import Population, Tracts
from tasks.synth.population.races import draw_races


def populate(tracts: Tracts, law: StateLaw, origins: Origins, seed: int) -> Population:
    """Return the units of some tracts (at most 64) and their persons, both by block."""
    draws = Draws(seed, tracts.codes)
    homes = form_households(tracts, law, draws)
    role = choose_roles(homes, draws)
    age = draw_ages(homes, role, draws)
    sex, role = draw_sexes(homes, role, age, draws)
    cell, point = draw_races(tracts, homes, origins, draws)
    codes = draw_codes(homes, role, cell, point, origins, draws)
    return Population(homes, draw_tenures(homes, age, draws), role, age, sex, cell, codes)
