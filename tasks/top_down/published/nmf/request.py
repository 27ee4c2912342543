"""What a user asks of published files besides the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

REQUEST = "prepared/request"  # of a run that reads such files


@dataclass(frozen=True)
class Request:
    """What a user adds to the files. totals: a file of declared populations; None for those of 2020.

    geography: block tables with places, county subdivisions and AIAN areas. changes: fields of the design.
    check_spine: whether the files' geocodes are compared with those of a spine made of the geography. keep_answers:
    False where `states_at_hand` will map the answers again, so that a nation's need not be kept. as_tabulated: whether
    blocks in water are counted where the published tables have them; None for the default. part_totals: whether
    populations of the states' parts are taken from their bounds.
    """

    totals: str | None
    geography: str | None
    changes: Mapping[str, Any]
    check_spine: bool = False
    keep_answers: bool = True
    as_tabulated: bool | None = None
    part_totals: bool = False
