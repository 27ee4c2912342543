"""A small table like the DHC's persons, for the tests: kinds of quarters of three sorts, sex, age and race."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

WIDE: dict[str, Any] = {
    "name": "wide",
    "records": "person",
    "budget": "4",
    "leaves": {"file": "blocks.csv", "key": "block"},
    "levels": [
        {"name": "state"},
        {"name": "county", "columns": ["county"]},
        {"name": "tract", "columns": ["tract"]},
        {"name": "block", "columns": ["code"]},
    ],
    "axes": {
        "relgq": {"column": "RELGQ", "values": "0-6"},  # 0-2 in households; 3, 4 and 5, 6 of two sorts of quarters
        "sex": {"column": "SEX", "values": "1-2"},
        "age": {"column": "AGE", "values": "0-11"},
        "race": {"column": "RACE", "values": "1-3"},
    },
    "recodes": {
        "hhgq": {"axis": "relgq", "from": ["0-2", "3-4", "5-6"]},
        "relgq5": {"axis": "relgq", "from": ["0", "1", "2", "3-4", "5-6"]},
        "gqtype": {"axis": "relgq", "from": ["0-2", "3", "4", "5", "6"]},
        "votingage": {"axis": "age", "starts": [0, 4]},
        "age3": {"axis": "age", "starts": [0, 4, 8]},
        "age6": {"axis": "age", "width": 2},
    },
    "queries": {
        "hhgq*age3": "1/8",
        "sex*age6": "1/8",
        "relgq": "1/8",
        "relgq5*sex*age6*race": "1/8",
        "relgq*sex*age6*race": "1/4",
        "detailed": "1/4",
    },
    "zeros": [{"where": {"relgq": "1", "age": "0-2"}}, {"where": {"relgq": "5", "age": ["0-1", "10-11"]}}],
    "equal": [{"partition": "hhgq*votingage*race", "release": "redistricting"}],
    "counts": [
        {
            "partition": "gqtype",
            "columns": ["", "gq1", "gq2", "gq3", "gq4"],
            "least": [0, 1, 1, 1, 1],
            "repair": "switch",
        }
    ],
    "passes": [
        {
            "levels": ["state", "county", "tract", "block"],
            "least_squares": [["rest"]],
            "round": ["hhgq*sex*votingage*race", "relgq5*sex*age6*race", "relgq*sex*age6*race"],
            "then": [{"least_squares": [["detailed"]]}],
        }
    ],
}


def changed_wide(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """The declaration after a change."""
    raw = copy.deepcopy(WIDE)
    change(raw)
    return raw
