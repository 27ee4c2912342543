"""Compare the least squares of a wide declaration, such as the DHC's, with Clarabel's and with a finer stop of our own.

    python benchmarks/wide_solvers.py DECLARATION RECORDS RUNS [--parents 50] [--unknowns 60000]

RECORDS are marked, as `das synth` makes them; nothing is charged. On every level the first parents with a least squares
of several sums are solved three times, and each solution is rounded as the run rounds it. A line for each level has

    gap        the objective of ours above Clarabel's, as a share of it: the largest and the least
    cells      the largest difference of an entry
    nearest    entries whose nearest integer is another, though neither is within 1/500 of a half
    rounded    records that are elsewhere after rounding, and alike: problems without one
    finer      records and fractions that are elsewhere by the finer stop
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, cast

import numpy as np
from measure import arguments
from top_down_stages import Here

from flows.execution.runner import InProcess
from flows.execution.top_down_settings import DeclaredSettings
from spine.geography import FloatArray
from spine.top_down.rounding import on_grid
from spine.wide import estimate, least_squares
from spine.wide.dual import Objective, Solution, minimize
from spine.wide.transport import Problems
from spine.wide.undecided import Undecided
from tasks.lifecycle.files import remove
from tasks.lifecycle.workers import Workers

FINER, TIE = 1e-9, 2e-3
LARGEST = ("unknowns", "cells")  # of the problems of a level; the sums of all others
to_integers, of_pass = least_squares.to_integers, estimate.WideEstimation._pass


class Enough(Exception):
    """All levels have been compared."""


class Comparison:
    """Takes the place of the least squares and of the rounding, and compares them."""

    def __init__(self, parents: int, unknowns: int) -> None:
        self.parents, self.unknowns, self.level = parents, unknowns, ""
        self.found: dict[str, list[dict[str, float]]] = defaultdict(list)

    def at(self, estimation: estimate.WideEstimation, which: int, own: Any, level: int, first: int) -> Any:
        """Solve a pass, and note its level."""
        levels = estimation.plan.spine.levels
        if level == len(levels) - 1 and len(self.found[levels[-1]]) >= self.parents:
            raise Enough
        if self.level != levels[level]:
            self.report()
        self.level = levels[level]
        return of_pass(estimation, which, own, level, first)

    def report(self) -> None:
        """Print what was found on the level."""
        if own := self.found[self.level]:
            print(self.level, json.dumps({"problems": len(own), **summary(own)}), flush=True)

    def minimize(self, problems: Problems, objective: Objective, stop: float) -> Solution:
        """Solve the least squares, and keep it."""
        self.objective, self.solution = objective, minimize(problems, objective, stop)
        return self.solution

    def to_integers(self, left: Undecided, x: FloatArray, *how: Any) -> Any:
        """Round, and compare with what others would be rounded to."""
        whole, by = to_integers(left, x, *how)
        own, problems, objective = self.found[self.level], left.problems, self.objective
        if len(objective.y) and len(own) < self.parents and len(x) <= self.unknowns:
            finer, theirs = minimize(problems, objective, FINER).x, least_squares.least_squares(problems, objective)
            if theirs is None:
                raise SystemExit("Clarabel gave up")
            others = (to_integers(left, on_grid(y), *how)[0] for y in (finer, theirs))
            moved = [np.abs(other - whole) for other in others]
            ours, best = (least_squares.value(problems, objective, y) for y in (self.solution.x, theirs))
            sure = np.abs(x - np.floor(x) - 0.5) > TIE
            own.append(
                {
                    "unknowns": len(x),
                    "gap": (ours - best) / best,
                    "cells": np.abs(self.solution.x - theirs).max(),
                    "nearest": (np.rint(x) != np.rint(theirs))[sure].sum(),
                    "rounded": moved[1].sum() / 2,
                    "alike": not moved[1].any(),
                    "finer rounded": moved[0].sum() / 2,
                    "finer grid": (on_grid(finer) != x).sum(),
                }
            )
        return whole, by


def summary(own: list[dict[str, float]]) -> dict[str, float]:
    """Return the largest and smallest gap, the largest of differences and sizes, and the sums of all else."""
    column = {name: [float(row[name]) for row in own] for name in own[0]}
    gaps = {"gap": max(column["gap"]), "least gap": min(column.pop("gap"))}
    return gaps | {name: max(each) if name in LARGEST else sum(each) for name, each in column.items()}


def main() -> None:
    words = arguments(__doc__)
    words.add_argument("declaration")
    words.add_argument("records")
    words.add_argument("runs", type=Path)
    words.add_argument("--parents", type=int, default=50)
    words.add_argument("--unknowns", type=int, default=60_000, help="of a parent that Clarabel solves")
    given = words.parse_args()
    given.runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    comparison = Comparison(given.parents, given.unknowns)
    least_squares.minimize, least_squares.to_integers = comparison.minimize, comparison.to_integers  # type: ignore
    estimate.WideEstimation._pass = lambda *of: comparison.at(*of)  # type: ignore
    with tempfile.TemporaryDirectory(dir=given.runs) as folder:
        settings = DeclaredSettings.new(
            data=given.records,
            declaration=given.declaration,
            out=f"{folder}/out",
            runs_folder=str(given.runs),
            ledger=f"{folder}/ledger.sqlite",
            run_id=f"solvers-{Path(folder).name}",
        )
        settings.directory.create()
        try:
            InProcess(settings, cast(Workers, Here()), before="release").run()
        except Enough:
            pass
        finally:
            remove(settings.directory.path)
    comparison.report()


if __name__ == "__main__":
    main()
