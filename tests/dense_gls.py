"""A dense solution of noisy measurement files, independent of das-flows' recursion.

Every query treats the cells of a type of living quarters alike on the axes that it sums over, so an orthonormal basis
of means and contrasts on voting age, Hispanic and race splits the normal equations: for each of the 252 basis vectors
one dense system over (blocks x types), one matrix for all vectors of a component (mean or contrast on each axis).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.linalg import helmert, null_space

SIZES = {"votingage": 2, "hispanic": 2, "cenrace": 63}
LEVELS = {"US": 0, "State": 3, "County": 9, "Tract": 13, "Block_Group": 15, "Block": 31}  # widths of geocodes
INSTITUTIONS = np.repeat(np.eye(3), (1, 4, 3), axis=1)  # hhinstlevels of the types


@dataclass
class Dense:
    """Of each component: basis vectors (d, 252), estimates (d, blocks x 8), covariance (blocks x 8, blocks x 8)."""

    codes: list[str]
    basis: dict[tuple[int, ...], np.ndarray]
    estimate: dict[tuple[int, ...], np.ndarray]
    covariance: dict[tuple[int, ...], np.ndarray]

    def columns(self, cells: np.ndarray, of: dict[str, list[str]]) -> tuple[np.ndarray, np.ndarray]:
        """The (areas x columns,) sums of cells (2016, K) over areas, and their covariance.

        of: by area its blocks. A column counts the same cells of each type that it counts.
        """
        by_type = cells.T.reshape(cells.shape[1], 8, 252).astype(float)
        types = by_type.any(axis=2).astype(float)
        shape = by_type.max(axis=1)
        assert np.array_equal(by_type, types[:, :, None] * shape[:, None])
        inside = np.array([[code in blocks for code in self.codes] for blocks in map(set, of.values())], float)
        pick = np.einsum("ab,kt->akbt", inside, types).reshape(len(of), len(types), -1)
        sums, spread = np.zeros(pick.shape[:2]), np.zeros((pick.shape[0] * pick.shape[1],) * 2)
        for part, basis in self.basis.items():
            weight = basis @ shape.T
            sums += np.einsum("vk,vx,akx->ak", weight, self.estimate[part], pick, optimize=True)
            flat = pick.reshape(-1, pick.shape[2])
            spread += (flat @ self.covariance[part] @ flat.T) * np.tile(weight.T @ weight, (len(of), len(of)))
        return sums.ravel(), spread


def solve(nmf: Path, totals: dict[str, int]) -> Dense:
    """Solve the normal equations of the persons' files in a folder; totals: declared persons by state's code."""
    rows = {level: _rows(nmf / f"{level}.parquet/DPQuery") for level in LEVELS}
    bounds = {
        row["geocode"]: np.asarray(row["value"])
        for row in _rows(nmf / "Block.parquet/Constraint")
        if row["query_name"] == "hhgq_total_ub_con"
    }
    codes = sorted(bounds)
    zeros = np.eye(len(codes) * 8)[np.concatenate([bounds[code] == 0 for code in codes])]
    of_state = np.array([np.repeat([code[1:3] == state for code in codes], 8) for state in totals], float)
    found = Dense(codes, {}, {}, {})
    for part in product((0, 1), repeat=3):
        axes = [
            helmert(n, full=True)[1:] if rest else np.full((1, n), n**-0.5)
            for rest, n in zip(part, SIZES.values(), strict=True)
        ]
        basis = np.einsum("ai,bj,ck->abcijk", *axes).reshape(-1, 252)
        hessian, linear = np.zeros((len(codes) * 8,) * 2), np.zeros((len(codes) * 8, len(basis)))
        for level in LEVELS:
            for row in rows[level]:
                asked = [] if row["query_name"] == "total_dpq" else row["query_name"].removesuffix("_dpq").split(" * ")
                asked = [*SIZES, "hhgq"] if asked == ["detailed"] else asked
                if any(rest and axis not in asked for rest, axis in zip(part, SIZES, strict=True)):
                    continue
                types = np.eye(8) if "hhgq" in asked else INSTITUTIONS if "hhinstlevels" in asked else np.ones((1, 8))
                factor = np.prod([n**0.5 for axis, n in SIZES.items() if axis not in asked])
                value = np.asarray(row["value"], float).reshape(len(types), -1)
                kept = [axes[at] if axis in asked else np.ones((1, 1)) for at, axis in enumerate(SIZES)]
                vectors = np.einsum("ai,bj,ck->abcijk", *kept).reshape(len(basis), -1)
                inside = np.flatnonzero([code.startswith(row["geocode"]) for code in codes])
                at = (inside[:, None] * 8 + np.arange(8)).ravel()
                seen = factor * np.tile(types, len(inside))  # (types asked, blocks inside x 8)
                hessian[np.ix_(at, at)] += seen.T @ seen / row["variance"]
                linear[at] += seen.T @ (value @ vectors.T) / row["variance"]
        known = [zeros] if any(part) else [zeros, of_state]  # totals are sums of the means, times the root of the cells
        start = np.zeros(linear.shape)
        if not any(part):
            sums = np.array([*totals.values()]) / 252**0.5
            start = np.linalg.lstsq(np.concatenate(known), np.append(np.zeros(len(zeros)), sums))[0][:, None]
        free = null_space(np.concatenate(known))
        inverse = free @ np.linalg.inv(free.T @ hessian @ free) @ free.T
        estimate = start + inverse @ (linear - hessian @ start)
        found.basis[part], found.estimate[part], found.covariance[part] = basis, estimate.T, inverse
    return found


def _rows(folder: Path) -> list[dict]:
    return [
        row
        for path in sorted(folder.glob("**/*.parquet"))
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]
