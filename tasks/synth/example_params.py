"""Parameter files of the bundled example: a small code list of invented peoples with every case of the real one.

Regional (LEVEL 1) and Detailed (LEVEL 2) iterations, alone and in any combination; groups with too few people for
sub-state tables (DETAILED_ONLY) and the sub-state group that gathers them (COARSE_ONLY); ethnicity iterations; LEVEL 0.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tasks.population_groups.configuration import budget_key
from tasks.population_groups.levels import ALL_LEVELS, Level

# Code, name, major race (LEVEL 0), Regional and Detailed group. Codes have the ranges that the real list has by race.
_RACE = """
1000|White (checkbox)|White|Other White|White, not specified
1010|Alder (checkbox)|White|Woodland|Alder
1011|Alder (write-in)|White|Woodland|Alder
1020|Birch|White|Woodland|Birch
1030|Cedar|White|Woodland|Cedar
2000|Hispanic (checkbox)|Some Other Race||Hispanic responses
2010|Mesa|Some Other Race||Hispanic responses
2020|Palma|Some Other Race||Hispanic responses
2030|Quinta|Some Other Race||Hispanic responses
3000|Black (checkbox)|Black|Riverland|Black, not specified
3010|Delta|Black|Riverland|Delta
3020|Ford|Black|Riverland|Ford
4010|Crag|Asian|Highland|Crag
4020|Fell|Asian|Highland|Fell
5010|Heron|American Indian and Alaska Native|Plains|Heron
5020|Ibis|American Indian and Alaska Native|Plains|Ibis
5021|Jay|American Indian and Alaska Native|Plains|Jay
7510|Kelp|Native Hawaiian and Pacific Islander|Island|Kelp
7520|Lagoon|Native Hawaiian and Pacific Islander|Island|Lagoon
8010|Mixed|Some Other Race||Mixed
"""
# QSPAN: the Hispanic codes of the list above, and the one that is no race.
_ETHNICITY = """
2000|Hispanic (checkbox)|Hispanic||Hispanic, not specified
2010|Mesa|Hispanic|Southern|Mesa
2020|Palma|Hispanic|Southern|Palma
2030|Quinta|Hispanic||Quinta
9950|Not Hispanic (checkbox)|Not Hispanic||
"""
_DETAILED_ONLY = {"Hispanic responses", "Ibis", "Jay", "Mixed", "Hispanic, not specified", "Quinta"}
_COARSE_GROUPS = {"Ibis": "Other Plains", "Jay": "Other Plains", "Quinta": "Other Hispanic"}
_BUDGETS = {"USA": (0.1, 1.0), "STATE": (0.1, 1.0), "AIANNH": (0.0, 0.25)}  # (LEVEL 1, LEVEL 2); Puerto Rico alike
_SUB_STATE_BUDGETS = (0.05, 0.25)


def write_example_params(params: Path) -> None:
    """Write the example's parameter files into the directory `params`."""
    for name, lines in _tables().items():
        (params / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    (params / "config.json").write_text(json.dumps(_config(), indent=2) + "\n", "utf-8")


def _config() -> dict[str, Any]:
    return {
        "max_race_codes": 4,
        **{budget_key("p", level): _budget(level) for level in ALL_LEVELS},
        "privacy_budget_p_stage_1_fraction": 0.1,
        "thresholds_p": {
            str(level): [150, 300, 800] if level.nation_or_state else [40, 120, 400] for level in ALL_LEVELS
        },
        "zero_suppression_chance": 0.9999,
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": True,
        "reader": "csv",
        "state_filter_us": ["31", "46"],
        "privacy_defn": "zcdp",
    }


def _budget(level: Level) -> float:
    return _BUDGETS.get(level.region_type.removeprefix("PR-"), _SUB_STATE_BUDGETS)[level.iteration_level - 1]


def _tables() -> dict[str, list[str]]:
    race, ethnicity = _rows(_RACE), _rows(_ETHNICITY)
    codes = {code: name for code, name, *_ in sorted(race + ethnicity)}
    race_groups, span_groups = _groups(race), _groups(ethnicity)
    race_lines, span_lines, mapping = [], [], []
    for first, suffix, alone in [(1001, "alone", True), (2001, "alone or in any combination", False)]:
        for number, (name, level, flags, members) in enumerate(race_groups, start=first):
            race_lines.append(f"{number}|{name} {suffix}|{level}|{alone}|{flags}")
            mapping += [f"{number}|{code}" for code in members]
    for number, (name, level, flags, members) in enumerate(span_groups, start=4001):
        span_lines.append(f"{number}|{name}|{level}|{flags}")
        mapping += [f"{number}|{code}" for code in members]
    flags = "DETAILED_ONLY|COARSE_ONLY"
    return {
        "race-and-ethnicity-codes.txt": ["RACE_ETH_CODE|RACE_ETH_NAME", *(f"{c}|{n}" for c, n in codes.items())],
        "race-characteristic-iterations.txt": [f"ITERATION_CODE|ITERATION_NAME|LEVEL|ALONE|{flags}", *race_lines],
        "ethnicity-characteristic-iterations.txt": [f"ITERATION_CODE|ITERATION_NAME|LEVEL|{flags}", *span_lines],
        "race-and-ethnicity-code-to-iteration.txt": ["ITERATION_CODE|RACE_ETH_CODE", *mapping],
    }


def _rows(table: str) -> list[list[str]]:
    return [line.split("|") for line in table.split("\n") if line]


def _groups(rows: list[list[str]]) -> list[tuple[str, int, str, list[str]]]:
    """Return iterations as (name, LEVEL, "DETAILED_ONLY|COARSE_ONLY", codes), by LEVEL."""
    members: dict[tuple[int, str, str], list[str]] = {}
    for code, _, major, regional, detailed in rows:
        flags = f"{detailed in _DETAILED_ONLY}|False"
        names = [(0, major, "Null|Null"), (1, regional, "False|False"), (2, detailed, flags)]
        for key in [*names, (2, _COARSE_GROUPS.get(detailed, ""), "False|True")]:
            if key[1]:
                members.setdefault(key, []).append(code)
    return [
        (name, level, flags, codes) for (level, name, flags), codes in sorted(members.items(), key=lambda m: m[0][0])
    ]
