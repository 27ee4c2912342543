"""Errors of the TopDown Algorithm on synthetic data: by level and off-spine entity, for several spines and estimators.

Every seed is a run's noise of its own on each spine; the estimators are given the same. Errors are those of the
released blocks, summed to entities, and are held against the margins of error too: whether these are what they claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np
import pandas as pd

from spine.geography import IntArray
from spine.top_down import TrueHistograms
from spine.workload import FloatArray
from tasks.lifecycle.authorization import SECRET, Authorization, read_secret_digest, save_authorization
from tasks.lifecycle.files import remove, save_object
from tasks.lifecycle.workers import Workers
from tasks.top_down.areas import areas
from tasks.top_down.estimate.descent import load_estimates
from tasks.top_down.estimators import estimate
from tasks.top_down.gls.saved_margins import MARGINS, Margins, Z, columns_of, count_columns, load_margins
from tasks.top_down.input.geography import make_spine
from tasks.top_down.input.histograms import BLOCKS
from tasks.top_down.release.microdata import by_geocode
from tasks.top_down.reserve_budget import check_cost, configuration_digest
from tasks.top_down.run import Blocks, TopDownRun, load_histograms
from tasks.top_down.run_plan import ESTIMATORS, Design, Estimator, ProductName

LEVELS = {
    "state": "State",
    "county": "County",
    "tract": "Tract",
    "cbg": "Tabulation block group",
    "obg": "Optimized block group",
    "block": "Block",
    "place": "Place",
    "mcd": "County subdivision (MCD)",
    "aian": "AIAN area",
}
SIZES = (0, 1, 10, 50, 250, 1000)  # first true counts of the classes of size
ALL = -1  # instead of a class of size: all of them
COVERAGE = ("n", "released", "released_squares", "unbiased", "unbiased_squares", "width")
LEAST_ERROR = 0.01  # of a standard error that is not that of a declared count


@dataclass(frozen=True)
class Measured:
    """What was measured on one spine.

    errors: a row a seed, estimator, level, quantity and class of size: sums of errors. coverage: a row a seed,
    estimator, level and quantity, and whether entities cut block groups (`cut`): of n counts how many lie within 1.96
    standard errors of the truth, and the sum of the squares of errors over standard errors; of the release (released)
    and of the unbiased estimate (unbiased). `width`: sum of the standard errors.
    """

    errors: pd.DataFrame
    coverage: pd.DataFrame


def measure_errors(
    run: TopDownRun, workers: Workers, seeds: Sequence[int], estimators: Sequence[Estimator] = ESTIMATORS
) -> Measured:
    """Measure and estimate once a seed and estimator, on the histograms of synthetic data; return the errors.

    Raises
    ------
    Refused
        where a law of the spine cannot be drawn.
    """
    validated, design = run.validated, run.design
    each = [(product, state) for product in design.products for state in validated.states]
    workers.map("budget check", run, check_cost, each)
    configuration, errors, coverage = configuration_digest(run), [], []
    for seed in seeds:
        remove(run / "noisy")
        (run / SECRET).write_bytes(sha256(f"das tda accuracy, seed {seed}".encode()).digest())
        given = Authorization(validated.input_digest, configuration, str(read_secret_digest(run)))
        save_authorization(run, given)
        for estimator in sorted(estimators):  # gls first: the margins of error are its
            save_object(run / "prepared/design", replace(design, estimator=estimator))
            remove_estimates(run)
            estimate(run, workers)
            for one, other in workers.map("compare", run, compare_state, each):
                errors.append(one.assign(seed=seed, estimator=estimator))
                coverage.append(other.assign(seed=seed, estimator=estimator))
    keys = ["seed", "estimator", "product", "level", "quantity"]
    return Measured(_summed_over_states(errors, [*keys, "size"]), _summed_over_states(coverage, [*keys, "cut"]))


def remove_estimates(run: TopDownRun) -> None:
    """Remove what an estimator found, but the margins."""
    for path in (run / "noisy").glob("*/*/*"):
        if path.name != MARGINS:
            remove(path)


def _summed_over_states(tables: list[pd.DataFrame], keys: list[str]) -> pd.DataFrame:
    found: pd.DataFrame = pd.concat(tables, ignore_index=True).groupby(keys, as_index=False, sort=False).sum()
    return found


def compare_state(run: TopDownRun, product: ProductName, state: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Sums of errors over a state's entities, by level, quantity and class of the true size. Of synthetic data."""
    columns = columns_of(product)
    quantity = [name.split(":")[0] for name in columns.names]
    exact = load_histograms(run.counts_folder(product, state, BLOCKS), TrueHistograms)
    found = by_geocode(run, product, state, load_estimates(run, product, state, "Block"))
    truth, estimated = count_columns(exact, columns), count_columns(found, columns)
    blocks, rows, covered = run.state(state), [], []
    for level, entity, number in _entities(run.design, product, blocks):
        if not (entity >= 0).any():
            continue  # the state has no such entity
        there = np.flatnonzero(np.bincount(entity[entity >= 0], minlength=number))
        true, error = (_summed(values, entity, number)[there] for values in (truth, estimated - truth))
        margins = _margins(run, product, state, level, there)
        for name in dict.fromkeys(quantity):
            of = [at for at, each in enumerate(quantity) if each == name]
            rows += [(product, level, name, *row) for row in _sums_by_size(true[:, of].ravel(), error[:, of].ravel())]
            if margins is not None:
                unbiased = margins.estimate - true
                for cut in np.unique(margins.cut).tolist():
                    at = np.ix_(margins.cut == cut, of)
                    sums = _sums_of_coverage(error[at].astype(float), unbiased[at], margins.error[at])
                    covered.append((product, level, name, cut, *sums))
    names = ["product", "level", "quantity", "size", "n", "absolute", "signed", "squared"]
    also = ["product", "level", "quantity", "cut", *COVERAGE]
    return pd.DataFrame(rows, columns=names), pd.DataFrame(covered, columns=also)


def _sums_by_size(true: IntArray, error: IntArray) -> Iterator[tuple[int, ...]]:
    size = np.searchsorted(SIZES, true, side="right") - 1
    for of in (ALL, *np.unique(size).tolist()):
        part = error if of == ALL else error[size == of]
        yield (of, *map(int, (len(part), np.abs(part).sum(), part.sum(), (part**2).sum())))


def _sums_of_coverage(released: FloatArray, unbiased: FloatArray, error: FloatArray) -> tuple[float, ...]:
    """As COVERAGE names them; where the standard error is 0 a count is declared, and right."""
    some = error > LEAST_ERROR
    of = [values[some] / error[some] for values in (released, unbiased)]
    within = [int((np.abs(z) <= Z).sum()) for z in of]
    squares = [float((z**2).sum()) for z in of]
    return int(some.sum()), within[0], squares[0], within[1], squares[1], float(error[some].sum())


def _margins(run: TopDownRun, product: ProductName, state: str, level: str, there: IntArray) -> Margins | None:
    """The margins of a level's entities, where there are any: also of the spine's own optimized block groups."""
    name = "Block_Group" if level == "obg" and run.design.kind == "optimized" else level
    found = load_margins(run, product, state, name)
    if found is None:
        return None
    return found if found.area is None else found.only(np.searchsorted(found.area, there))


def _entities(design: Design, product: ProductName, blocks: Blocks) -> Iterator[tuple[str, IntArray, int]]:
    """For each level the entity of every block (-1 outside all), and how many there are."""
    geography, settings = blocks.geography, design.settings[product]
    number = len(geography)
    yield "state", np.zeros(number, np.int64), 1
    for family in areas(geography, settings):
        yield family.family, family.of_block, len(family.codes)
    spine = make_spine(geography, replace(design, kind="optimized"), product)
    group = np.empty(number, np.int64)
    level = spine.levels.index("Block_Group")
    group[spine.order] = spine.geounit_of_block(level)
    yield "obg", group, len(spine.starts[level])
    yield "block", np.arange(number), number


def _summed(values: IntArray, entity: IntArray, number: int) -> IntArray:
    """Sums over the blocks of each entity."""
    inside = entity >= 0
    sums = np.zeros((number, values.shape[1]), np.int64)
    np.add.at(sums, entity[inside], values[inside])
    return sums


def covered(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row a product, level, quantity, cut, spine and estimator: the shares within the margins, over all seeds.

    coverage, unbiased_coverage: of the release and of the unbiased estimate. square, unbiased_square: the mean square
    of errors over standard errors, 1 where these say what they claim. error: the mean standard error.
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
    """A row a product, level, quantity, size, spine and estimator: mean absolute error, bias, root mean square error.

    Means over the seeds; `sd` is the standard deviation of the mean absolute error from seed to seed. ratio, ratio_sd:
    the same of the mean absolute error over topdown's on the same noise; empty where that was not run, or is 0.
    """
    rows = []
    for kind, table in tables.items():
        each = table.assign(
            mae=table["absolute"] / table["n"],
            bias=table["signed"] / table["n"],
            rmse=(table["squared"] / table["n"]) ** 0.5,
        )
        of_noise = ["seed", "product", "level", "quantity", "size"]
        program = each[each["estimator"] == "topdown"].set_index(of_noise)["mae"].replace(0.0, np.nan)
        each["ratio"] = each["mae"] / program.reindex(pd.MultiIndex.from_frame(each[of_noise])).to_numpy()
        keys = ["product", "level", "quantity", "size", "estimator"]
        groups = each.groupby(keys, sort=False)
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
