"""The Detailed DHC-A without noise, person by person in plain dictionaries, written from the specification alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dhca_inputs import Inputs

AGES = {
    1: [0, 18, 45, 65],
    2: [0, 5, 18, 25, 35, 45, 55, 65, 75],
    3: [0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85],
}
US = ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH")
PR = ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE")
NATION_OR_STATE = ("USA", "STATE", "PR-STATE")


def tabulated(inputs: Inputs, region_type: str, level: int) -> dict[str, dict[str, Any]]:
    """The iterations of a level of a region type: kind, whether a total only, the codes that map to it."""
    rows = {code: ("alone" if alone == "True" else "combination", *rest) for code, _, alone, *rest in inputs.race}
    rows |= {code: ("ethnicity", *rest) for code, _, *rest in inputs.ethnicity}
    level_of = {row[0]: row[1] for row in (*inputs.race, *inputs.ethnicity)}
    barred = 1 if region_type in NATION_OR_STATE else 0  # COARSE_ONLY or DETAILED_ONLY
    return {
        code: {"kind": kind, "total_only": flags[0] == "True", "codes": set(mapped.split())}
        for code, (kind, *flags, mapped) in rows.items()
        if level_of[code] == str(level) and flags[barred] == "False"
    }


def iterations(inputs: Inputs, person: dict[str, str], region_type: str, level: int) -> set[str]:
    """The iterations that a person is in (section 5.1 of the specification)."""
    domain = tabulated(inputs, region_type, level)
    races = [person[f"QRACE{number}"] for number in range(1, 9) if person[f"QRACE{number}"] != "Null"]

    def of(kind: str, code: str) -> set[str]:
        return {code_ for code_, about in domain.items() if about["kind"] == kind and code in about["codes"]}

    alone = set.intersection(*(of("alone", code) for code in races))
    combination = set.union(*(of("combination", code) for code in races))
    return alone | combination | of("ethnicity", person["QSPAN"])


def regions(block: tuple[str, ...]) -> dict[str, str]:
    """The region of each type that contains a block."""
    state, county, tract, _, place, area = block
    region_ids = {"STATE": state, "COUNTY": state + county, "TRACT": state + county + tract}
    if place != "99999":
        region_ids["PLACE"] = state + place
    if state == "72":
        return {f"PR-{name}": region for name, region in region_ids.items()}
    if area != "9999":
        region_ids["AIANNH"] = area
    return {"USA": "1", **region_ids}


def states(inputs: Inputs, jurisdiction: str) -> list[str]:
    """The state filter."""
    return inputs.config["state_filter_us"] if jurisdiction == "us" else ["72"]


def cells(inputs: Inputs, jurisdiction: str) -> dict[tuple[str, str, str], Counter[tuple[int, int]]]:
    """Persons by sex and age of every population group of the domain with a budget."""
    groups: dict[tuple[str, str, str], Counter[tuple[int, int]]] = {}
    blocks = {block[:4]: block for block in inputs.blocks if block[0] in states(inputs, jurisdiction)}
    levels = [
        (region_type, level)
        for region_type in (US if jurisdiction == "us" else PR)
        for level in (1, 2)
        if inputs.config[f"privacy_budget_p_level_{level}_{region_type.lower().replace('-', '_')}"] != 0
    ]
    for region_type, level in levels:
        for block in blocks.values():
            if region_type in regions(block):
                for code in tabulated(inputs, region_type, level):
                    groups[region_type, regions(block)[region_type], code] = Counter()
    for person in inputs.persons:
        key = (person["TABBLKST"], person["TABBLKCOU"], person["TABTRACTCE"], person["TABBLK"])
        if key[0] not in states(inputs, jurisdiction):
            continue
        for region_type, level in levels:
            if region_type in (lives_in := regions(blocks[key])):
                for code in iterations(inputs, person, region_type, level):
                    groups[region_type, lives_in[region_type], code][int(person["QSEX"]), int(person["QAGE"])] += 1
    return groups


def table(counts: Counter[tuple[int, int]], detail: int) -> list[tuple[str, str, str, int]]:
    """AGESTART, AGEEND, SEX, COUNT of a group's T2 table."""
    starts = AGES[detail]
    ranges = [(0, 115, "*", "*")]
    ranges += [(a, b - 1, str(a), str(b - 1)) for a, b in zip(starts, [*starts[1:], 116], strict=True)]
    return [
        (start, end, str(sex), sum(n for (s, age), n in counts.items() if s == sex and low <= age <= high))
        for low, high, start, end in ranges
        for sex in (1, 2)
    ]


def release(inputs: Inputs, jurisdiction: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """T1 and T2 with the noise off."""
    t1, t2 = [], []
    for (region_type, region_id, code), counts in cells(inputs, jurisdiction).items():
        total = sum(counts.values())
        level = next(level for level in (1, 2) if code in tabulated(inputs, region_type, level))
        thresholds = inputs.config["thresholds_p"][f"({region_type}, {level})"]
        detail = sum(total >= threshold for threshold in thresholds)
        if tabulated(inputs, region_type, level)[code]["total_only"]:
            detail = 0
        may_go = detail == 0 and region_type not in NATION_OR_STATE and inputs.config.get("zero_suppression_chance")
        if may_go and total <= 0:
            continue
        t1.append((region_id, region_type, code, str(total)))
        if detail:
            t2 += [
                (region_id, region_type, code, start, end, sex, str(count))
                for start, end, sex, count in table(counts, detail)
            ]
    return t1, t2
