"""Errors of the TopDown Algorithm on synthetic data: by level and by off-spine entity, for several spines and seeds.

Every seed is a run's noise of its own on each spine. Errors are those of the released blocks, summed to entities.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pandas as pd

from spine.entities import entities
from spine.geography import IntArray
from spine.top_down import PERSONS, TrueHistograms
from spine.top_down.histogram import OCCUPIED, Histograms
from tasks.lifecycle.authorization import SECRET, Authorization, read_secret_digest, save_authorization
from tasks.lifecycle.errors import Refused
from tasks.lifecycle.exemption import exempt
from tasks.lifecycle.files import remove
from tasks.lifecycle.workers import Workers
from tasks.top_down.budget_check import check_cost, configuration_digest
from tasks.top_down.design import Design, ProductName
from tasks.top_down.estimate import estimate, load_estimates
from tasks.top_down.geography import build_spines, make_spine
from tasks.top_down.histograms import BLOCKS, sum_histograms
from tasks.top_down.microdata import by_geocode
from tasks.top_down.run import Blocks, TopDownRun, load_histograms
from tasks.top_down.tables import Tables
from tasks.top_down.validation import validate

RACES = 7  # the six alone, and two or more
FAMILIES = ("county", "tract", "cbg", "place", "mcd", "aian")  # as spine.entities calls them
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


@dataclass(frozen=True)
class Quantity:
    """What is compared: columns of cells, each the sum of the cells where it is True. columns: (cells, columns)."""

    name: str
    columns: IntArray


def quantities(product: ProductName) -> list[Quantity]:
    """The quantities of a product."""
    if product == "units":
        return [Quantity("occupied", np.eye(2, dtype=np.int64)[:, OCCUPIED : OCCUPIED + 1])]
    axes = PERSONS.coordinates
    adult, race = axes["votingage"] == 1, np.minimum(axes["cenrace"], RACES - 1)
    by_race = (race[:, None] == np.arange(RACES)).astype(np.int64)
    return [
        Quantity("total", np.ones((PERSONS.cells, 1), np.int64)),
        Quantity("voting age", adult[:, None].astype(np.int64)),
        Quantity("Hispanic", axes["hispanic"][:, None]),
        Quantity("race", by_race),
        Quantity("voting age by race", by_race * adult[:, None]),
    ]


def measure_accuracy(
    run: TopDownRun, workers: Workers, tables: Tables, design: Design, seeds: Sequence[int], ledger: Path
) -> pd.DataFrame:
    """The errors on one spine, a row a seed, level, quantity and class of size; of marked data only.

    Raises
    ------
    Refused
        where the data is not marked synthetic, or is not valid.
    """
    validated = validate(run, workers, tables, design, None)
    digests = {"input_digest": validated.input_digest, "records_digest": validated.records_digest}
    if not exempt(run.id, ledger, marked=validated.synthetic, **digests):
        raise Refused("the data is not marked synthetic: errors are reported for synthetic data only")
    build_spines(run, workers)
    each = [(product, state) for product in design.products for state in validated.states]
    workers.map("budget check", run, check_cost, each)
    sum_histograms(run, workers)
    measured = []
    for seed in seeds:
        remove(run / "noisy")
        (run / SECRET).write_bytes(sha256(f"das tda accuracy, seed {seed}".encode()).digest())
        given = Authorization(validated.input_digest, configuration_digest(run), str(read_secret_digest(run)))
        save_authorization(run, given)
        estimate(run, workers)
        errors = workers.map("compare", run, compare_state, each)
        measured += [of_spine.assign(seed=seed) for of_spine in errors]
    table = pd.concat(measured, ignore_index=True)
    keys = ["seed", "product", "level", "quantity", "size"]
    summed: pd.DataFrame = table.groupby(keys, as_index=False, sort=False)[["n", "absolute", "signed", "squared"]].sum()
    return summed


def compare_state(run: TopDownRun, product: ProductName, state: str) -> pd.DataFrame:
    """Sums of errors over a state's entities, by level, quantity and class of the true size. Of synthetic data."""
    exact = load_histograms(run.counts_folder(product, state, BLOCKS), TrueHistograms)
    estimates = by_geocode(run, product, state, load_estimates(run, product, state, "Block"))
    blocks, rows = run.state(state), []
    of_level = list(_entities(run.design, product, blocks))
    for quantity in quantities(product):
        truth, estimated = _by_block(exact, quantity), _by_block(estimates, quantity)
        for level, entity, number in of_level:
            if not (entity >= 0).any():
                continue  # the state has no such entity
            true, error = (_summed(values, entity, number).ravel() for values in (truth, estimated - truth))
            size = np.searchsorted(SIZES, true, side="right") - 1
            for size_class in (ALL, *np.unique(size).tolist()):
                part = error if size_class == ALL else error[size == size_class]
                sums = (len(part), np.abs(part).sum(), part.sum(), (part**2).sum())
                rows.append((product, level, quantity.name, size_class, *map(int, sums)))
    return pd.DataFrame(rows, columns=["product", "level", "quantity", "size", "n", "absolute", "signed", "squared"])


def _entities(design: Design, product: ProductName, blocks: Blocks) -> Iterator[tuple[str, IntArray, int]]:
    """For each level the entity of every block (-1 outside all), and how many there are."""
    geography, settings = blocks.geography, design.settings[product]
    number = len(geography)
    yield "state", np.zeros(number, np.int64), 1
    for name in FAMILIES:
        family = entities(geography, name, settings)
        if family is not None:
            yield name, np.where(family.outside[family.of_block], -1, family.of_block), len(family.codes)
    spine = make_spine(geography, replace(design, kind="optimized"), product)
    group = np.empty(number, np.int64)
    level = spine.levels.index("Block_Group")
    group[spine.order] = spine.geounit_of_block(level)
    yield "obg", group, len(spine.starts[level])
    yield "block", np.arange(number), number


def _by_block(histograms: Histograms, quantity: Quantity) -> IntArray:
    sums = np.zeros((len(histograms), quantity.columns.shape[1]), np.int64)
    np.add.at(sums, histograms.row, quantity.columns[histograms.cell] * histograms.count[:, None])
    return sums


def _summed(values: IntArray, entity: IntArray, number: int) -> IntArray:
    """Sums over the blocks of each entity that has one."""
    inside = entity >= 0
    sums = np.zeros((number, values.shape[1]), np.int64)
    np.add.at(sums, entity[inside], values[inside])
    return sums[np.bincount(entity[inside], minlength=number) > 0]


def averaged(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """A row a product, level, quantity, class of size and spine: mean absolute error, bias, root mean square error.

    Means over the seeds; `sd` is the standard deviation of the mean absolute error from seed to seed.
    """
    rows = []
    for kind, table in tables.items():
        each = table.assign(
            mae=table["absolute"] / table["n"],
            bias=table["signed"] / table["n"],
            rmse=(table["squared"] / table["n"]) ** 0.5,
        )
        keys = ["product", "level", "quantity", "size"]
        groups = each.groupby(keys, sort=False)
        means = groups[["mae", "bias", "rmse"]].mean().assign(n=groups["n"].max(), sd=groups["mae"].std(ddof=1))
        rows.append(means.reset_index().assign(spine=kind))
    measured = pd.concat(rows, ignore_index=True)
    ends = (*SIZES[1:], None)
    names = {ALL: "all"} | {
        at: str(first) if end == first + 1 else f"{first} and more" if end is None else f"{first} to {end - 1}"
        for at, (first, end) in enumerate(zip(SIZES, ends, strict=True))
    }
    measured["size"] = measured["size"].map(names)
    return measured[["product", "level", "quantity", "size", "spine", "n", "mae", "sd", "bias", "rmse"]]
