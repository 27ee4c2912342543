"""Random small spines and the dense matrices of the paper, to compare the fast code with."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

from privacy.tables.histogram import Axis, Recode
from spine.allocations import Allocation
from spine.entities import Entities
from spine.hierarchy import Spine
from spine.top_down.histogram import Product
from spine.variance import Root, Upward

SMALL = Product(
    tuple(
        Axis(name, "", (), "", tuple("012"[:size])) for name, size in (("hhgq", 3), ("votingage", 2), ("cenrace", 2))
    ),
    name="small",
    counts=(),
    recodes=(Recode("hhinstlevels", "hhgq", (0, 1, 1)),),
)
QUERIES = ("total", "cenrace", "hhinstlevels", "votingage*cenrace", "detailed")


def random_spine(rng: np.random.Generator, blocks: int, levels: int = 4, keep: float = 0.6) -> Spine:
    """A rooted spine: each level keeps some of the starts of the level below; blocks in a shuffled order."""
    starts = [np.arange(blocks)]
    for _ in range(levels - 2):
        kept = rng.random(len(starts[0])) < keep
        kept[0] = True
        starts.insert(0, starts[0][kept])
    starts.insert(0, np.array([0]))
    names = tuple(f"L{i}" for i in range(levels))
    zero = tuple(np.zeros(len(s), np.int64) for s in starts)
    return Spine(names, rng.permutation(blocks), tuple(starts), zero, 1)


def random_shares(rng: np.random.Generator, levels: tuple[str, ...]) -> dict[str, Fraction]:
    parts = [int(n) for n in rng.integers(1, 12, len(levels))]
    return {level: Fraction(n, sum(parts)) for level, n in zip(levels, parts, strict=True)}


def random_allocation(rng: np.random.Generator, levels: tuple[str, ...], definition: str = "zcdp") -> Allocation:
    queries = {}
    for level in levels:
        parts = [int(n) for n in rng.integers(1, 9, len(QUERIES))]
        queries[level] = {q: Fraction(n, sum(parts)) for q, n in zip(QUERIES, parts, strict=True)}
    budget = Fraction(int(rng.integers(1, 50)), 7)
    return Allocation(definition, budget, random_shares(rng, levels), queries, "random")


def random_family(rng: np.random.Generator, blocks: int, entities: int = 3) -> Entities:
    _, of_block = np.unique(rng.integers(0, entities, blocks), return_inverse=True)
    codes = np.arange(of_block.max() + 1)
    return Entities("random", codes, of_block)


def matrix(spine: Spine, level: int) -> np.ndarray:
    """A[l] of the paper, columns in spine order."""
    rows = np.zeros((len(spine.starts[level]), spine.blocks))
    rows[spine.geounit_of_block(level), np.arange(spine.blocks)] = 1
    return rows


def query_matrix(query: str, product: Product) -> np.ndarray:
    """Q of section 2.3 as the Kronecker product of its axes."""
    asked, parts = product.asked(query), {recode.name: recode.part for recode in product.recodes}
    result = np.ones((1, 1))
    for axis in product.axes:
        factor = np.eye(len(axis)) if axis.name in asked else np.ones((1, len(axis)))
        if asked.get(axis.name) in parts:
            part = np.array(parts[asked[axis.name]])
            factor = (part == np.arange(part.max() + 1)[:, None]).astype(float)
        result = np.kron(result, factor)
    return result


def dense_variance(spine: Spine, allocation: Allocation, product: Product) -> np.ndarray:
    """The variance matrix of all blocks' histograms, (blocks * n)^2: equation 19 with V the identity."""
    information = 0.0
    for level, name in enumerate(spine.levels):
        rows, gamma = matrix(spine, level), spine.shares[level] / spine.denominator
        inner = 0.0
        for query, alpha in allocation.queries[name].items():
            q = query_matrix(query, product)
            budget = float(allocation.budget)
            weight = budget * alpha if allocation.definition == "zcdp" else (budget * float(alpha)) ** 2 / 8
            inner = inner + float(weight) * q.T @ q
        power = 1 if allocation.definition == "zcdp" else 2
        information = information + np.kron(rows.T @ np.diag(gamma**power) @ rows, inner)
    return np.linalg.inv(information)


def shares_of(spine: Spine, level: int) -> list[Fraction]:
    """The exact shares gamma of a level's geounits."""
    return [Fraction(n, spine.denominator) for n in spine.shares[level].tolist()]


def root_of(spine: Spine, up: Upward, own: np.ndarray | None = None) -> Root:
    """The root above all top geounits; a spine with one top is its own root (`own` is then nothing)."""
    below = np.linalg.inv(up.variance[0].sum(0))
    return Root(np.zeros_like(below) if own is None else own, below, len(spine.starts[0]))


def blocks_table(seed: int = 0, states: tuple[int, ...] = (1, 55), per_state: int = 300) -> pd.DataFrame:
    """A made-up GRF-C with every column that a spine can use: one row per block, in shuffled order, codes as text.

    Subdivisions, places, AIAN and school districts are stretches of neighbouring blocks that follow no tract.
    """
    rng = np.random.default_rng(seed)
    tables = []
    for state in states:
        n = per_state
        tract = np.sort(rng.integers(0, max(1, n // 25), n))
        group = 1 + np.arange(n) % 3
        table = pd.DataFrame({"TABBLKST": f"{state:02d}", "tract": tract, "group": group})
        table = table.sort_values(["tract", "group"], kind="stable").reset_index(drop=True)
        within = table.groupby(["tract", "group"]).cumcount()
        table["TABBLKCOU"] = [f"{1 + 2 * (t // 4):03d}" for t in table["tract"]]
        table["TABTRACTCE"] = [f"{100 * (1 + t):06d}" for t in table["tract"]]
        table["TABBLK"] = [f"{1000 * g + i:04d}" for g, i in zip(table["group"], within, strict=True)]
        table["TABBLKGRPCE"] = table["group"].astype(str)
        table["COUSUBFP"] = _stretches(rng, n, n // 18, "{:05d}", 100)
        table["COUSUBFS"] = ["A" if int(c) % 3 else "F" for c in table["COUSUBFP"]]
        table["PLACEFP"] = _stretches(rng, n, n // 22, "{:05d}", 2000, gaps="99999")
        table["PLACEFS"] = ["A" if int(p) % 4 else "S" for p in table["PLACEFP"]]
        table["AIANNHCE"] = _stretches(rng, n, 8, "{:04d}", 10, gaps="9999", often=0.7)
        table["SDUNILEA"] = _stretches(rng, n, n // 60, "{:05d}", 300)
        table["SDSECLEA"] = table["SDELMLEA"] = "99999"
        tables.append(table.drop(columns=["tract", "group"]))
    return pd.concat(tables).sample(frac=1, random_state=seed).reset_index(drop=True)


def _stretches(
    rng: np.random.Generator, n: int, number: int, form: str, first: int, gaps: str = "", often: float = 0.4
):
    cuts = np.sort(rng.choice(np.arange(1, n), min(number, n - 1), replace=False))
    stretch = np.searchsorted(cuts, np.arange(n), side="right")
    codes = [gaps if gaps and rng.random() < often else form.format(first + 3 * i) for i in range(stretch.max() + 1)]
    return [codes[i] for i in stretch]


def write_grfc(path: Path, table: pd.DataFrame) -> Path:
    path.write_text(table.to_csv(sep="|", index=False), encoding="utf-8")
    return path
