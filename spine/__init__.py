"""The geographic spine of the TopDown Algorithm (TDA): build it, measure it, optimize it.

Everything here follows "Geographic Spines in the 2020 Census Disclosure Avoidance System" (Cumings-Menon et al.),
called the paper. docs/spec/spine.md describes the choices of the programs of 2020, and docs/api.md has an example. The
code works on arrays: no files, no Prefect, no Dask.
"""

from spine.allocations import Allocation
from spine.build import aian, conventional, optimized
from spine.entities import Entities
from spine.geography import BadGeography, Geography
from spine.hierarchy import Spine
from spine.production import allocation_for
from spine.settings import SpineSettings, settings_for

__all__ = [
    "Allocation",
    "BadGeography",
    "Entities",
    "Geography",
    "Spine",
    "SpineSettings",
    "aian",
    "allocation_for",
    "conventional",
    "optimized",
    "settings_for",
]
