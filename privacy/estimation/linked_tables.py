"""Least squares over the cells, codes and regions of tables that count the same rows.

The true counts of a table obey, cell by cell: nation = sum of the states, all = sum of the codes (races). Tables that
count the same rows in other cells have the same total for each code and region. Each count was measured with
independent noise, so the generalized least-squares estimate under these equalities is unbiased and has the least
variance (Aitken 1936); it is a function of noisy counts alone.

All states are measured in the same way. So the estimate splits into two small systems over the cells and codes of one
region: x_s from the answers of a state alone, and the nation's T from the sum of the states and its own answers. A
state's estimate is then x_s + (T - sum of x_s) / S, with covariance V (1 - 1/S) + V_T / S^2: the deviations from the
states' mean are independent of it, and the nation has no information about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """Noisy counts, regions x codes x cells, and their variance; regions x 1 x cells for all codes together."""

    counts: NDArray[np.int64]
    variance: float


@dataclass(frozen=True)
class LinkedTable:
    """The answers about one table.

    codes, together: each state's answers by code, and for all codes together; a table without codes has only
    `together`.
    nation_codes, nation_together: the same for the nation.
    """

    codes: Answers | None = None
    together: Answers | None = None
    nation_codes: Answers | None = None
    nation_together: Answers | None = None

    @property
    def finest(self) -> Answers:
        """The answers about states, by code if the table has codes."""
        answers = self.codes or self.together
        assert answers is not None
        return answers

    @property
    def by_code(self) -> bool:
        """Whether the table has codes."""
        return self.codes is not None


@dataclass(frozen=True)
class Estimate:
    """The estimate of one table: whole numbers, states x codes x cells, that satisfy all sums.

    covariances: between the cells of one code in one region, before rounding, by `state codes`, `state all`, `nation
    codes` and `nation all`; every code has the same.
    """

    counts: NDArray[np.int64]
    covariances: Mapping[str, Numbers]


def estimate(tables: Mapping[str, LinkedTable], codes: int) -> dict[str, Estimate]:
    """Estimate tables that count the same rows: their totals agree, for each code that two of them have.

    Every table must have answers about states, by code if it has codes.
    """
    group = _LinkedSystem(tables, codes)
    states, nation = group.solve()
    whole = group.rounded(states, nation)
    return {name: Estimate(whole[name], group.covariances(name)) for name in tables}


class _LinkedSystem:
    """The linear system of linked tables, over the unknown counts of one region: the cells of all tables."""

    def __init__(self, tables: Mapping[str, LinkedTable], codes: int) -> None:
        self.tables, self.codes = tables, codes
        self.shapes = {name: table.finest.counts.shape[1:] for name, table in tables.items()}
        ends = np.cumsum([0, *(rows * cells for rows, cells in self.shapes.values())])
        self.places = {name: slice(*ends[at : at + 2]) for at, name in enumerate(tables)}
        self.size = int(ends[-1])
        self.basis = self._basis()
        self.states = max(len(table.finest.counts) for table in tables.values())
        information, self._vectors = self._information(("codes", "together"))
        self._inverse = np.linalg.pinv(information, hermitian=True)
        of_nation, self._nation_vectors = self._information(("nation_codes", "nation_together"))
        self._inverse_of_nation = np.linalg.pinv(information / self.states + of_nation, hermitian=True)

    def functional(self, name: str, *, code: int | None, cell: int | None) -> Numbers:
        """Return the row that picks a cell of a code; None sums over all."""
        rows, cells = self.shapes[name]
        mask = np.zeros((rows, cells))
        mask[slice(None) if code is None else code, slice(None) if cell is None else cell] = 1
        row = np.zeros(self.size)
        row[self.places[name]] = mask.ravel()
        return row

    def _basis(self) -> Numbers:
        """Return an orthonormal basis of the counts with equal totals: unknowns x free unknowns."""
        with_codes = [name for name, table in self.tables.items() if table.by_code]
        first = (with_codes or list(self.tables))[0]
        equations = []
        for name, table in self.tables.items():
            if name != first:
                shared = range(self.codes) if table.by_code and self.tables[first].by_code else (None,)
                for code in shared:
                    one, other = (self.functional(each, code=code, cell=None) for each in (first, name))
                    equations.append(one - other)
        if not equations:
            return np.eye(self.size)
        _, sizes, rows = np.linalg.svd(np.array(equations))
        return np.asarray(rows[int((sizes > 1e-9).sum()) :].T)

    def _information(self, names: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Return the information of the answers about one region, and its vectors: regions x free unknowns."""
        information, vectors = np.zeros((self.size, self.size)), np.zeros((1, self.size))
        for name, table in self.tables.items():
            for kind in names:
                answers: Answers | None = getattr(table, kind)
                if answers is None:
                    continue
                regions, rows, cells = answers.counts.shape
                by_code = rows == self.shapes[name][0]
                picked = [
                    self.functional(name, code=code if by_code else None, cell=cell)
                    for code in range(rows)
                    for cell in range(cells)
                ]
                design = np.array(picked)
                information += design.T @ design / answers.variance
                vectors = vectors + answers.counts.reshape(regions, -1) @ design / answers.variance
        return self.basis.T @ information @ self.basis, vectors @ self.basis

    def solve(self) -> tuple[Numbers, Numbers]:
        """Return the estimates: states x unknowns, and those of the nation."""
        alone = self._vectors @ self._inverse
        nation = (self._vectors.sum(axis=0) / self.states + self._nation_vectors[0]) @ self._inverse_of_nation
        states = alone + (nation - alone.sum(axis=0)) / self.states
        return states @ self.basis.T, nation @ self.basis.T

    def covariances(self, name: str) -> dict[str, Numbers]:
        """Return the covariances of a table's cells, as in Estimate. Those of the first code hold for every code."""
        of_state = self._inverse * (1 - 1 / self.states) + self._inverse_of_nation / self.states**2
        found = {}
        for region, free in (("state", of_state), ("nation", self._inverse_of_nation)):
            for words, code in (("codes", 0), ("all", None)):
                rows = [self.functional(name, code=code, cell=cell) for cell in range(self.shapes[name][1])]
                picked = np.array(rows) @ self.basis
                found[f"{region} {words}"] = picked @ free @ picked.T
        return found

    def rounded(self, states: Numbers, nation: Numbers) -> dict[str, NDArray[np.int64]]:
        """Return whole numbers near the estimates, states x codes x cells by table, that satisfy all sums.

        One pass goes down the tree of totals (nation, codes, states); then every table's cells share each total.
        """
        first = next((name for name, table in self.tables.items() if table.by_code), next(iter(self.tables)))
        rows, cells = self.shapes[first]
        of_states = states[:, self.places[first]].reshape(-1, rows, cells).sum(axis=2)
        of_nation = nation[self.places[first]].reshape(rows, cells).sum(axis=1)
        by_code = share_out(of_nation, np.rint(of_nation.sum()).astype(np.int64))
        totals = share_out(of_states.T, by_code).T
        whole = {}
        for name, (codes, width) in self.shapes.items():
            fractions = states[:, self.places[name]].reshape(-1, codes, width)
            whole[name] = share_out(fractions, totals if codes == rows else totals.sum(axis=1, keepdims=True))
        return whole


def share_out(fractions: Numbers, totals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return whole numbers near fractions whose sums along the last axis are `totals`, by largest remainders."""
    excess = (totals - fractions.sum(axis=-1))[..., None] / fractions.shape[-1]
    moved = fractions + excess
    low = np.floor(moved)
    missing = np.rint(totals - low.sum(axis=-1)).astype(np.int64)[..., None]
    order = np.argsort(low - moved, axis=-1, kind="stable")
    rank = np.argsort(order, axis=-1, kind="stable")
    shared: NDArray[np.int64] = low.astype(np.int64) + (rank < missing)
    return shared
