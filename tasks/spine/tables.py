"""The tables of a spine's report: by class of entity, and by level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from spine.variance import Root, cell_variance
from tasks.spine.entities import Roots
from tasks.spine.first_pass import SPINES, SpinePlan, StateSummary
from tasks.spine.second_pass import Written


def class_table(entities: pd.DataFrame, marginals: Sequence[str]) -> pd.DataFrame:
    """Return by class of entity: how many, and by spine the mean and largest OSED and the mean standard errors.

    The regions outside all entities of a class are in the entity table, but not in these means.
    """
    inside = entities[~entities["outside"]]
    groups = inside.groupby("class", sort=False)
    table = groups.size().to_frame("entities")
    for which in SPINES:
        table[f"osed_mean_{which}"] = groups[f"osed_{which}"].mean()
        table[f"osed_max_{which}"] = groups[f"osed_{which}"].max()
    for marginal in marginals:
        for which in SPINES:
            table[f"se_mean_{marginal}_{which}"] = groups[f"se_{marginal}_{which}"].mean()
            table[f"se_max_{marginal}_{which}"] = groups[f"se_{marginal}_{which}"].max()
    return table.reset_index()


def level_table(states: Sequence[StateSummary], plan: SpinePlan, levels: Mapping[str, tuple[str, ...]]) -> pd.DataFrame:
    """Return by spine and level.

    How many geounits, their share beta before any bypass, and the spread of their fan-outs.
    """
    rows = []
    for which in SPINES:
        shares = plan.allocation.on(levels[which]).levels
        counts = [sum(n) for n in zip(*(state.geounits[which] for state in states), strict=True)]
        fanouts = [
            np.sum([*zip_longest(*(state.fanout[which][i] for state in states), fillvalue=0)], axis=1)
            for i in range(len(counts) - 1)
        ]
        if not plan.rooted:
            fanouts.insert(0, np.bincount([counts[0]]))
            counts.insert(0, 1)
        for level, count, fanout in zip(levels[which], counts, [*fanouts, None], strict=True):
            rows.append(
                {"spine": which, "level": level, "geounits": count, "share": str(shares[level])} | _spread(fanout)
            )
    return pd.DataFrame(rows)


def _spread(fanout: Any) -> dict[str, Any]:
    """Return minimum, quantiles, mean and maximum of the fan-outs counted in `fanout`, and how many are 1."""
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


def with_errors(
    table: pd.DataFrame,
    plan: SpinePlan,
    levels: Mapping[str, tuple[str, ...]],
    written: Sequence[Written],
    root_of: Roots,
) -> pd.DataFrame:
    """Return the level table with the root mean square and the largest standard error of the first marginal's cell."""
    marginal = plan.marginals[0]
    spread: dict[tuple[str, str], tuple[float, float]] = {}
    for which in SPINES:
        for level in written[0].errors[which]:
            squares, counts, largest = zip(*(state.errors[which][level] for state in written), strict=True)
            spread[which, level] = float(np.sqrt(sum(squares) / sum(counts))), max(largest)
        if not plan.rooted:
            top = levels[which][0]
            spread[which, top] = (root_error(plan, levels[which], root_of[which][marginal]),) * 2
    keys = list(zip(table["spine"], table["level"], strict=True))
    return table.assign(**{"se_rms": [spread[k][0] for k in keys], "se_max": [spread[k][1] for k in keys]})


def root_error(plan: SpinePlan, levels: tuple[str, ...], roots: Sequence[Root]) -> float:
    """Return the standard error of the first marginal's cell at a root above several states."""
    parts = plan.parts(levels)[plan.marginals[0]]
    return float(np.sqrt(sum(cell_variance(p, r.variance) for p, r in zip(parts, roots, strict=True))))
