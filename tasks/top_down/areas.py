"""The areas that a release counts besides the spine's geounits: tabulation geounits and entities off the spine.

Both are sums of blocks and are named by public codes, unlike the geounits of an optimized spine.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from spine.entities import Areas, entities
from spine.geocodes import digits
from spine.geography import Geography
from spine.settings import SpineSettings

TABULATED = {"county": "County", "tract": "Tract", "cbg": "Block_Group"}  # family, as spine.entities calls it: level
OFF_SPINE = ("place", "mcd", "aian")
WHOLE_STATE = "state"  # only where a run asks for it: elsewhere its parts are enough
DIGITS = {"state": 2, "county": 5, "tract": 11, "cbg": 12, "place": 7, "mcd": 10, "aian": 4}  # digits of a public code
FOLDERS = {  # a family's folder in histograms/PRODUCT and margins/PRODUCT
    **{family: f"tabulation/{level}" for family, level in TABULATED.items()},
    **{family: f"entities/{family}" for family in OFF_SPINE},
    WHOLE_STATE: "tabulation/State",
}


def geocodes_of(areas: Areas) -> NDArray[np.uint8]:
    """Return the public codes of areas as digits, (areas, width)."""
    return digits(areas.codes, DIGITS[areas.name])


def areas(geography: Geography, settings: SpineSettings, *, whole_state: bool = False) -> Iterator[Areas]:
    """Yield the areas of every family that a state has; areas in several states are cut to this one."""
    for family in FOLDERS:
        if family == WHOLE_STATE and not whole_state:
            continue
        found = entities(geography, family, settings)
        if found is not None and not found.outside.all():
            number = np.where(found.outside, -1, np.cumsum(~found.outside) - 1)
            yield Areas(family, found.codes[~found.outside], number[found.of_block])
