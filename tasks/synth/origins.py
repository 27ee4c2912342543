"""The law of race and ethnicity codes of synthetic persons, from parameter files and published national counts.

A published count belongs to a Detailed (LEVEL 2) group; within it the codes are skewed (1, 1/2, 1/3 ...). The counts
are of groups "alone or in any combination", so a person with several codes is in several of them. So the groups' shares
of all responses follow the published table. Each person has one Hispanic origin, so these follow it as shares of the
population.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from tasks.errors import Refused
from tasks.records.files import refuse_unreadable
from tasks.records.public_table import open_table
from tasks.synth.draws import shares
from tasks.synth.population.codes import Origins, make_origins

US_POPULATION = 331_449_281  # 2020
HISPANIC_SHARE = 0.187  # used without published counts
PR_HISPANIC_SHARE = 0.989  # 2020
PR_PUERTO_RICAN_SHARE = 0.955  # share of Hispanic persons
MAJOR_NAMES = ("White", "Black", "American Indian", "Asian", "Native Hawaiian", "Some Other Race")
SOME_OTHER_RACE = 5  # the major race of a code without one
PARAMETER_FILES = {
    "race-and-ethnicity-codes.txt": ["RACE_ETH_CODE"],
    "race-characteristic-iterations.txt": ["ITERATION_CODE", "ITERATION_NAME", "LEVEL", "ALONE", "COARSE_ONLY"],
    "ethnicity-characteristic-iterations.txt": ["ITERATION_CODE", "ITERATION_NAME", "LEVEL", "COARSE_ONLY"],
    "race-and-ethnicity-code-to-iteration.txt": ["ITERATION_CODE", "RACE_ETH_CODE"],
}


def published_counts(path: Path) -> dict[str, float]:
    """Return persons by iteration name from a table with the columns ITERATION_NAME and US_POP.

    A suppressed count ("X") is one person. Raises Refused, also for an invalid count and for a name that appears twice.
    """
    with refuse_unreadable(path):
        table = open_table(str(path)).read(("ITERATION_NAME", "US_POP")).table.to_pandas()
    names, counts = table["ITERATION_NAME"].str.strip(), table["US_POP"].str.strip()
    if len(bad := table[~counts.str.fullmatch("[0-9]{1,10}|X")]):
        name, count = bad.iloc[0]
        raise Refused(f"{path}: US_POP of {name!r} is a whole number, or X where it was suppressed; not {count[:20]!r}")
    if names.duplicated().any():
        raise Refused(f"{path} counts {names[names.duplicated()].iloc[0]!r} twice")
    return dict(zip(names, counts.where(counts != "X", "1").astype(float).clip(lower=1), strict=True))


def match(params: Path, counts: Mapping[str, float], path: Path) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the counts of a code list's groups, and the names of groups without one, which get one person each.

    Raises Refused if the counts are of another list, that is if more than half of the groups lack one, or if they are
    not national: groups that follow such counts would make no sense.
    """
    _, race_groups, span_groups, _ = _groups(params)
    sums = {}
    for kind, groups in (("race", race_groups), ("ethnicity", span_groups)):
        names = set(groups.values())
        if 2 * len(names - counts.keys()) > len(names):
            known = len(names & counts.keys())
            raise Refused(f"{path} counts {known} of the {len(names)} {kind} groups of {params}: it is of another list")
        sums[kind] = sum(counts.get(name, 1.0) for name in names)
    if not 1 / 2 <= sums["race"] / US_POPULATION <= 4 or sums["ethnicity"] > US_POPULATION:
        raise Refused(
            f"{path} counts {sums['race']:,.0f} race answers and {sums['ethnicity']:,.0f} Hispanic persons: it is not "
            f"of the nation, which has {US_POPULATION:,} persons"
        )
    names = {*race_groups.values(), *span_groups.values()}
    return {name: counts.get(name, 1.0) for name in names}, tuple(sorted(names - counts.keys()))


def read_origins(
    params: Path, counts: Mapping[str, float] | None, *, most_codes: int, puerto_rico: bool = False
) -> Origins:
    """Return the law for the code list of a parameters directory.

    counts: published persons by iteration name. None: groups have the weights 1, 1/2, 1/3 ... in the order of their
    codes, and HISPANIC_SHARE of all persons are Hispanic.
    puerto_rico: 98.9% are Hispanic, and 95.5% of these are Puerto Rican if the iterations' names include it.

    Raises Refused if files are missing or no code belongs to a race.
    """
    code_list, race_groups, span_groups, majors = _groups(params)
    race_weight = _weights(code_list, race_groups, counts)
    span_weight = _weights(code_list, span_groups, counts)
    is_race, is_hispanic = race_weight > 0, span_weight > 0
    if not is_race.any():
        raise Refused(f"{params}: no code of the list belongs to a race iteration of LEVEL 1 or 2")

    hispanic_share = HISPANIC_SHARE if counts is None else min(1.0, span_weight.sum() / US_POPULATION)
    race_shares = _race_shares(race_weight[is_race], is_hispanic[is_race], hispanic_share)
    if puerto_rico:
        hispanic_share = PR_HISPANIC_SHARE
        span_weight = _mostly(span_weight, code_list.map(span_groups).eq("Puerto Rican").to_numpy())
    if not is_hispanic.any():
        hispanic_share = 0.0
    names = np.array(code_list.to_list(), "S4")
    spans = np.concatenate([[1 - hispanic_share], hispanic_share * shares(span_weight[is_hispanic])])
    return make_origins(
        race=names[is_race],
        major=np.array([majors.get(code, SOME_OTHER_RACE) for code in code_list[is_race]], np.int64),
        race_shares=race_shares,
        span=np.concatenate([_not_hispanic(names, is_race, is_hispanic), names[is_hispanic]]),
        span_shares=spans,
        most_codes=most_codes,
    )


def _groups(params: Path) -> tuple[pd.Series, dict[str, str], dict[str, str], dict[str, int]]:
    """Return the code list, and the race group, ethnicity group and major race of codes. Raises Refused."""
    codes, race, ethnicity, mapping = (_read(params, name) for name in PARAMETER_FILES)
    race_groups = _detailed_groups(mapping, race[race["ALONE"] == "False"])
    return codes["RACE_ETH_CODE"], race_groups, _detailed_groups(mapping, ethnicity), _majors(mapping, race)


def _read(params: Path, name: str) -> pd.DataFrame:
    path, columns = params / name, PARAMETER_FILES[name]
    with refuse_unreadable(path):
        table: pd.DataFrame = open_table(str(path), delimiter="|").read(columns).table.to_pandas()
    for column in {"RACE_ETH_CODE", "ITERATION_CODE"}.intersection(columns):
        if len(bad := table[column][~table[column].str.fullmatch("[0-9]{4}")]):
            raise Refused(f"{path}, row {bad.index[0] + 1}: {column} {bad.iloc[0]!r} is not a code of four digits")
    return table


def _detailed_groups(mapping: pd.DataFrame, iterations: pd.DataFrame) -> dict[str, str]:
    """Return the name of each code's nation/state group: its only LEVEL 2 iteration or, without one, its LEVEL 1."""
    tabulated = iterations[(iterations["LEVEL"] != "0") & (iterations["COARSE_ONLY"] == "False")]
    rows = mapping.merge(tabulated, on="ITERATION_CODE").sort_values(["LEVEL", "ITERATION_CODE"], kind="stable")
    return dict(zip(rows["RACE_ETH_CODE"], rows["ITERATION_NAME"].str.strip(), strict=True))


def _weights(codes: pd.Series, groups: Mapping[str, str], counts: Mapping[str, float] | None) -> np.ndarray:
    """Return the weight of every code, float64 (c,): its group's count, split 1, 1/2, 1/3 ... over its codes, or 0."""
    if counts is None:
        sizes = {
            group: 1 / place
            for place, group in enumerate(dict.fromkeys(groups[code] for code in sorted(groups)), start=1)
        }
    else:
        sizes = {group: counts.get(group, 1.0) for group in groups.values()}
    group = codes.map(groups)
    part = 1 / (group.groupby(group).cumcount() + 1)
    weights = group.map(sizes) * part / part.groupby(group).transform("sum")
    return weights.fillna(0.0).to_numpy(dtype=float)


def _mostly(weights: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return weights whose chosen part is PR_PUERTO_RICAN_SHARE of the whole; the rest keeps its proportions."""
    if not chosen.any() or chosen[weights > 0].all():
        return weights
    rest = (1 - PR_PUERTO_RICAN_SHARE) * shares(np.where(chosen, 0.0, weights))
    return PR_PUERTO_RICAN_SHARE * shares(np.where(chosen, weights, 0.0)) + rest


def _race_shares(weights: np.ndarray, is_hispanic: np.ndarray, hispanic_share: float) -> np.ndarray:
    """Return the shares of race codes, (2, c): for persons who are not Hispanic, and for Hispanic persons.

    Only Hispanic persons give Hispanic codes as race. With f the share of these codes among all responses and h the
    share of Hispanic persons in the nation, they are f/h of a Hispanic person's codes.
    """
    chances = shares(weights)
    given = min(1.0, chances[is_hispanic].sum() / hispanic_share) if is_hispanic.any() else 0.0
    other = shares(np.where(is_hispanic, 0.0, chances)) if not is_hispanic.all() else chances
    own = shares(np.where(is_hispanic, chances, 0.0)) if is_hispanic.any() else other
    return np.array([other, given * own + (1 - given) * other])


def _majors(mapping: pd.DataFrame, race: pd.DataFrame) -> dict[str, int]:
    """Return the major race of codes: that of their LEVEL 0 iteration for one race alone."""
    level = race[(race["LEVEL"] == "0") & (race["ALONE"] == "True")]
    of_iteration = {
        iteration: number
        for iteration, name in zip(level["ITERATION_CODE"], level["ITERATION_NAME"], strict=True)
        for number, major in enumerate(MAJOR_NAMES)
        if name.strip().startswith(major)
    }
    rows = mapping[mapping["ITERATION_CODE"].isin(of_iteration)]
    return dict(zip(rows["RACE_ETH_CODE"], rows["ITERATION_CODE"].map(of_iteration), strict=True))


def _not_hispanic(names: np.ndarray, is_race: np.ndarray, is_hispanic: np.ndarray) -> np.ndarray:
    """Return the QSPAN of persons who are not Hispanic: a code that is not a race, else the first not Hispanic."""
    if is_hispanic.all():
        raise Refused("every code of the list is Hispanic: persons who are not Hispanic need a code too")
    candidates = ~is_hispanic & ~is_race
    return np.asarray(names[candidates if candidates.any() else ~is_hispanic][:1])
