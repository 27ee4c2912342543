"""Average the errors of several seeds: by spine and estimator, and the shares of counts within their margins."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from privacy.analyses.error_measures import ErrorSums
from tasks.top_down.accuracy.compare import ALL, COVERAGE, SIZES


def covered(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the shares within the margins over all seeds, by product, level, quantity, cut, spine and estimator.

    coverage, unbiased_coverage: of the release and of the unbiased estimate. square, unbiased_square: the mean square
    of errors over standard errors, 1 where standard errors are right. error: the mean standard error.
    """
    rows = []
    for kind, table in tables.items():
        sums = table.groupby(["product", "level", "quantity", "cut", "estimator"], as_index=False, sort=False)[
            list(COVERAGE)
        ].sum()
        sums = sums[sums["n"] > 0]
        n = sums["n"]
        shares = {
            "coverage": sums["released"] / n,
            "square": sums["released_squares"] / n,
            "unbiased_coverage": sums["unbiased"] / n,
            "unbiased_square": sums["unbiased_squares"] / n,
            "error": sums["width"] / n,
        }
        rows.append(sums[["product", "level", "quantity", "cut", "estimator", "n"]].assign(**shares, spine=kind))
    return pd.concat(rows, ignore_index=True)


def averaged(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return error measures by product, level, quantity, size, spine and estimator.

    Means over the seeds; `sd` is the standard deviation of the mean absolute error from seed to seed. ratio, ratio_sd:
    the same of the mean absolute error over topdown's on the same noise; empty where that was not run, or is 0.
    """
    rows = []
    for kind, table in tables.items():
        sums = ErrorSums(*(table[name] for name in ErrorSums._fields))
        by_seed = table.assign(mae=sums.mean_absolute, bias=sums.bias, rmse=sums.rmse)
        noise = ["seed", "product", "level", "quantity", "size"]
        program = by_seed[by_seed["estimator"] == "topdown"].set_index(noise)["mae"].replace(0.0, np.nan)
        by_seed["ratio"] = by_seed["mae"] / program.reindex(pd.MultiIndex.from_frame(by_seed[noise])).to_numpy()
        keys = ["product", "level", "quantity", "size", "estimator"]
        groups = by_seed.groupby(keys, sort=False)
        spread = groups[["mae", "ratio"]].std(ddof=1)
        means = groups[["mae", "bias", "rmse", "ratio"]].mean()
        means = means.assign(n=groups["n"].max(), sd=spread["mae"], ratio_sd=spread["ratio"])
        rows.append(means.reset_index().assign(spine=kind))
    found = pd.concat(rows, ignore_index=True)
    ends = (*SIZES[1:], None)
    names = {ALL: "all"} | {
        at: str(first) if end == first + 1 else f"{first} and more" if end is None else f"{first} to {end - 1}"
        for at, (first, end) in enumerate(zip(SIZES, ends, strict=True))
    }
    found["size"] = found["size"].map(names)
    figures = ["n", "mae", "sd", "bias", "rmse", "ratio", "ratio_sd"]
    return found[["product", "level", "quantity", "size", "spine", "estimator", *figures]]
