"""The tables of a spine's folder (entities, classes, levels), from the states' measures under one root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from spine.entities import OUTSIDE
from spine.osed import at_root
from spine.variance import Part, Root, cell_variance
from tasks.spine.first_pass import SPINES, SpinePlan, StateSpineSummary
from tasks.spine.second_pass import Family, Roots, Written

OUTSIDE_LABEL = "outside"


def entity_table(measured: Sequence[Mapping[str, Family]], plan: SpinePlan, root_of: Roots) -> pd.DataFrame:
    """Return one row per entity: class, code, blocks, persons; its OSED by spine, and its standard error by marginal.

    measured: the families of each state.
    """
    tables = []
    parts = {which: plan.parts(which) for which in SPINES}
    for name in measured[0]:
        families = [families[name] for families in measured]
        codes, where = np.unique(np.concatenate([family.codes for family in families]), return_inverse=True)
        if (codes == OUTSIDE).all():
            continue  # for example AIAN areas in Puerto Rico
        rows = np.split(where, np.cumsum([len(family.codes) for family in families])[:-1])
        columns = _identity(name, codes, families, where)
        for which in SPINES:
            total = _add([family.costs[which] for family in families], rows, len(codes))
            columns[f"osed_{which}"] = at_root(total, root_of[which, plan.marginals[0]][0].tops)
        for marginal in plan.marginals:
            for which in SPINES:
                under = [*zip(parts[which][marginal], root_of[which, marginal], strict=True)]
                columns[f"se_{marginal}_{which}"] = np.sqrt(_variance(families, rows, which, marginal, under))
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def _variance(
    families: Sequence[Family], rows: Sequence[Any], which: str, marginal: str, under: Sequence[tuple[Part, Root]]
) -> Any:
    """Return the variance of every entity: from its state, or from the root if it is in several states."""
    number = 1 + max(row.max() for row in rows)
    variance, shared = np.zeros(number), np.zeros(number, bool)
    for family, row in zip(families, rows, strict=True):
        variance[row] = family.variance[which, marginal]
        shared[row] |= family.shared
    if shared.any():
        place = np.cumsum(shared) - 1
        own = [place[row[family.shared]] for family, row in zip(families, rows, strict=True)]
        variance[shared] = 0
        for i, (part, root) in enumerate(under):
            sums = _add([family.sums[which, marginal][i] for family in families], own, int(shared.sum()))
            variance[shared] += cell_variance(part, sums.under(root))
    return variance


def _identity(name: str, codes: Any, families: Sequence[Family], where: Any) -> dict[str, Any]:
    def summed(values: Sequence[Any]) -> Any:
        return np.bincount(where, np.concatenate(values)).astype(np.int64)

    outside, persons = codes == OUTSIDE, [family.population for family in families]
    columns = {"class": name, "code": entity_labels(name, codes, outside), "outside": outside}
    columns["blocks"] = summed([family.blocks for family in families])
    return columns if any(each is None for each in persons) else columns | {"population": summed(persons)}


def entity_labels(name: str, codes: Any, outside: Any) -> Any:
    """Return codes in their usual form: state and place, county and MCD, AIANNH code, the bits of a GQ pattern."""
    widths = {"county": 5, "tract": 11, "cbg": 12, "place": 7, "mcd": 10, "aian": 4, "sd": 17}
    if name == "gq":
        labels = [f"{code:07b}" for code in codes.tolist()]
    else:  # a PME is a place or an MCD
        labels = [f"{code:0{widths.get(name, 7 if code < 10**8 else 10)}d}" for code in codes.tolist()]
    return np.where(outside, OUTSIDE_LABEL, np.array(labels, object))


def _add(parts: Sequence[Any], rows: Sequence[Any], number: int) -> Any:
    """Add up records of arrays (`EntityCosts`, `EntityVariances`), each at its rows of the `number` entities."""
    arrays = {f.name: getattr(parts[0], f.name) for f in fields(parts[0])}
    total = {name: np.zeros((number, *array.shape[1:]), array.dtype) for name, array in arrays.items()}
    for part, row in zip(parts, rows, strict=True):
        for name, summed in total.items():
            summed[row] += getattr(part, name)
    return type(parts[0])(**total)


def class_table(entities: pd.DataFrame) -> pd.DataFrame:
    """Return, by class, the number of entities and, by spine, the mean and largest OSED and the mean standard errors.

    The regions outside all entities of a class are in the entity table, but not in these means.
    """
    inside = entities[~entities["outside"]]
    groups = inside.groupby("class", sort=False)
    table = groups.size().to_frame("entities")
    for column in map(str, entities):
        kind, _, of = column.partition("_")
        if kind in ("osed", "se"):
            table[f"{kind}_mean_{of}"] = groups[column].mean()
            table[f"{kind}_max_{of}"] = groups[column].max()
    return table.reset_index()


def level_table(
    states: Sequence[StateSpineSummary], plan: SpinePlan, written: Sequence[Written], root_of: Roots
) -> pd.DataFrame:
    """Return, by spine and level, the number of geounits, their share beta before any bypass, and their fan-outs.

    It also has the root mean square and the largest standard error of the first marginal's cell.
    """
    rows = []
    for which, levels in plan.levels.items():
        shares = plan.allocation.on(levels).levels
        counts = [sum(n) for n in zip(*(state.geounits[which] for state in states), strict=True)]
        fanouts = [
            np.sum([*zip_longest(*(state.fanout[which][i] for state in states), fillvalue=0)], axis=1)
            for i in range(len(counts) - 1)
        ]
        errors = {level: [state.errors[which][level] for state in written] for level in written[0].errors[which]}
        if not plan.rooted:
            fanouts.insert(0, np.bincount([counts[0]]))
            counts.insert(0, 1)
            marginal = plan.marginals[0]
            under = zip(plan.parts(which)[marginal], root_of[which, marginal], strict=True)
            at_top = float(np.sqrt(sum(cell_variance(part, root.variance) for part, root in under)))
            errors[levels[0]] = [(at_top**2, 1, at_top)]
        for level, count, fanout in zip(levels, counts, [*fanouts, None], strict=True):
            squares, numbers, largest = zip(*errors[level], strict=True)
            rows.append(
                {"spine": which, "level": level, "geounits": count, "share": str(shares[level])}
                | _spread(fanout)
                | {"se_rms": float(np.sqrt(sum(squares) / sum(numbers))), "se_max": max(largest)}
            )
    return pd.DataFrame(rows)


def _spread(fanout: Any) -> dict[str, Any]:
    """Return minimum, quantiles, mean and maximum of the fan-outs counted in `fanout`, and the number of fan-outs 1."""
    if fanout is None:
        return {}
    values, cumulative = np.arange(len(fanout)), np.cumsum(fanout)
    at = {f"p{q}": int(np.searchsorted(cumulative, q / 100 * cumulative[-1])) for q in (5, 25, 50, 75, 95)}
    return {
        "only_child": int(fanout[1]) if len(fanout) > 1 else 0,
        "fanout_min": int(np.flatnonzero(fanout)[0]),
        **{f"fanout_{name}": value for name, value in at.items()},
        "fanout_mean": float((values * fanout).sum() / fanout.sum()),
        "fanout_max": len(fanout) - 1,
    }
