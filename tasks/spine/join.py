"""Combine the states' measures under one root: distances and standard errors of every entity, and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd

from spine.osed import at_root
from spine.variance import Root, cell_variance
from spine.workload import Part
from tasks.spine.entities import Family, Roots
from tasks.spine.first_pass import SPINES, SpinePlan, StateSummary

OUTSIDE_LABEL = "outside"


def roots(
    states: Sequence[StateSummary], plan: SpinePlan, levels: Mapping[str, tuple[str, ...]]
) -> dict[str, dict[str, list[Root]]]:
    """Return the root above all states, by spine, marginal and part. levels: each spine's levels with the root's."""
    root_of: dict[str, dict[str, list[Root]]] = {}
    for which in SPINES:
        parts = plan.parts(levels[which])
        top = levels[which][0]
        share = float(plan.allocation.levels[top]) ** plan.power
        tops = sum(state.geounits[which][0] for state in states)
        root_of[which] = {}
        for marginal, pieces in parts.items():
            of_states = [state.tops[which][marginal] for state in states]
            total = [np.sum(each, axis=0) for each in zip(*of_states, strict=True)]
            root_of[which][marginal] = [
                Root(np.zeros_like(each), each, 1)
                if plan.rooted
                else Root(share * part.information[top], np.linalg.inv(each), tops)
                for part, each in zip(pieces, total, strict=True)
            ]
    return root_of


def shared_codes(states: Sequence[StateSummary]) -> dict[str, Any]:
    """Return by family the codes of the entities that more than one state has a part of."""
    shared = {}
    for name in dict.fromkeys(name for state in states for name in state.codes):
        codes, number = np.unique(np.concatenate([state.codes[name] for state in states]), return_counts=True)
        shared[name] = codes[number > 1]
    return shared


def entity_table(
    measured: Sequence[Mapping[str, Family]],
    tops: Mapping[str, int],
    plan: SpinePlan,
    root_of: Roots,
    levels: Mapping[str, tuple[str, ...]],
) -> pd.DataFrame:
    """Return one row an entity: class, code, blocks, persons; by spine its OSED, and by marginal its standard error.

    measured: the families of each state. tops: by spine, how many geounits are below the root.
    """
    tables = []
    parts = {which: plan.parts(levels[which]) for which in SPINES}
    for name in measured[0]:
        families = [families[name] for families in measured]
        if all(family.outside.all() for family in families):
            continue  # as AIAN areas in Puerto Rico
        codes, where = np.unique(np.concatenate([family.codes for family in families]), return_inverse=True)
        rows = np.split(where, np.cumsum([len(family.codes) for family in families])[:-1])
        columns = _identity(name, codes, families, rows)
        for which in SPINES:
            total = _add([family.costs[which] for family in families], rows, len(codes))
            columns[f"osed_{which}"] = at_root(total, tops[which])
        for marginal in plan.marginals:
            for which in SPINES:
                variance = _variance(
                    families, rows, len(codes), which, marginal, parts[which][marginal], root_of[which][marginal]
                )
                columns[f"se_{marginal}_{which}"] = np.sqrt(variance)
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def _variance(
    families: Sequence[Family],
    rows: Sequence[Any],
    number: int,
    which: str,
    marginal: str,
    parts: Sequence[Part],
    marginal_roots: Sequence[Root],
) -> Any:
    """Return the variance of every entity.

    It comes from the entity's state, and from the root where the entity is in several.
    """
    variance, shared = np.zeros(number), np.zeros(number, bool)
    for family, row in zip(families, rows, strict=True):
        variance[row] = family.variance[which][marginal]
        shared[row] |= family.shared
    if shared.any():
        place = np.cumsum(shared) - 1
        own = [place[row[family.shared]] for family, row in zip(families, rows, strict=True)]
        variance[shared] = 0
        for i, (part, root) in enumerate(zip(parts, marginal_roots, strict=True)):
            sums = _add([family.sums[which][marginal][i] for family in families], own, int(shared.sum()))
            variance[shared] += cell_variance(part, root.entities(sums))
    return variance


def _identity(name: str, codes: Any, families: Sequence[Family], rows: Sequence[Any]) -> dict[str, Any]:
    outside, blocks, persons = (
        np.zeros(len(codes), bool),
        np.zeros(len(codes), np.int64),
        np.zeros(len(codes), np.int64),
    )
    for family, row in zip(families, rows, strict=True):
        outside[row] = family.outside
        blocks[row] += family.blocks
        persons[row] += 0 if family.population is None else family.population
    columns = {"class": name, "code": entity_labels(name, codes, outside), "outside": outside, "blocks": blocks}
    unknown = any(family.population is None for family in families)
    return columns if unknown else {**columns, "population": persons}


def entity_labels(name: str, codes: Any, outside: Any) -> Any:
    """Return codes as people write them: state and place, county and MCD, AIANNH code, the bits of a GQ pattern."""
    widths = {"county": 5, "tract": 11, "cbg": 12, "place": 7, "mcd": 10, "aian": 4, "sd": 17}
    if name == "gq":
        labels = [f"{code:07b}" for code in codes.tolist()]
    else:  # a PME is a place or an MCD
        labels = [f"{code:0{widths.get(name, 7 if code < 10**8 else 10)}d}" for code in codes.tolist()]
    return np.where(outside, OUTSIDE_LABEL, np.array(labels, object))


def _add(parts: Sequence[Any], rows: Sequence[Any], number: int) -> Any:
    """Add up records of arrays (`Costs`, `Sums`), each at its rows of the `number` entities."""
    arrays = {f.name: getattr(parts[0], f.name) for f in fields(parts[0])}
    total = {name: np.zeros((number, *array.shape[1:]), array.dtype) for name, array in arrays.items()}
    for part, row in zip(parts, rows, strict=True):
        for name, summed in total.items():
            summed[row] += getattr(part, name)
    return type(parts[0])(**total)
