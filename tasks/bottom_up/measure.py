"""Noise in every cell of a bottom-up run, and calibration to published totals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from privacy.bottom_up.calibration import Method, agree, calibrate
from privacy.bottom_up.mechanism import BottomUp
from privacy.noise.exact import parse_exact
from privacy.noise.sampler import check_law
from tasks.bottom_up.declared_histogram import DeclaredHistogram, check_marginals, checked_histogram
from tasks.bottom_up.tabulate import COUNTS
from tasks.bottom_up.totals import PublishedTotals
from tasks.lifecycle.authorization import read_secret
from tasks.lifecycle.files import load_object, open_array, save_arrays, save_object
from tasks.lifecycle.reservation import Claim, Input
from tasks.lifecycle.run_directory import VALIDATED, RunDirectory
from tasks.lifecycle.workers import Workers
from tasks.records.counted_records import load_counted

CHOICES = "prepared/design"
CASES = "noisy/cases"
FINAL = "noisy/final"
CELLS_EACH = 1 << 20  # cells that one piece of a noise stage holds
QUERY = "bottom-up/histogram"


@dataclass(frozen=True)
class BottomUpPlan:
    """The choices of a run, all public."""

    declared: DeclaredHistogram
    epsilon: Fraction
    totals: PublishedTotals | None = None
    calibration: Method = "additive"
    tolerance: Fraction = Fraction(0)
    marginals: tuple[tuple[str, ...], ...] = ()
    clip: bool = False

    @cached_property
    def mechanism(self) -> BottomUp:
        """The mechanism, with the sensitivity that follows from the weights."""
        return self.declared.mechanism(self.epsilon)

    @property
    def pieces(self) -> int:
        """The number of pieces of CELLS_EACH cells."""
        return -(-self.declared.histogram.cells // CELLS_EACH)

    def groups_of_totals(self, cells: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the group of totals of each cell; -1 for structural zeros, and without totals."""
        histogram = self.declared.histogram
        if self.totals is None:
            return np.full(len(cells), -1)
        groups = histogram.groups(self.totals.names).of(histogram.coordinates_of(cells))
        return np.where(histogram.are_possible(cells), groups, -1)

    def described(self) -> dict[str, Any]:
        """Return the design for a manifest; `read_design` reads it."""
        totals = self.totals
        return {
            "declaration": dict(self.declared.declaration),
            "leaves": {name: list(codes) for name, codes in self.declared.leaves.items()},
            "epsilon": str(self.epsilon),
            "totals": totals and {"by": list(totals.names), "published": sorted(map(list, totals.published.items()))},
            "calibration": self.calibration,
            "tolerance": str(self.tolerance),
            "marginals": [list(names) for names in self.marginals],
            "clip": self.clip,
        }

    def digest(self) -> str:
        """Return one digest of everything besides the data that shapes the release."""
        options = {
            "declaration": self.declared.digest(),
            "epsilon": str(self.epsilon),
            "totals": self.totals and [self.totals.names, sorted(self.totals.published.items())],
            "calibration": self.calibration,
            "tolerance": str(self.tolerance),
            "marginals": self.marginals,
            "clip": self.clip,
        }
        return sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()


def read_design(stated: Mapping[str, Any]) -> BottomUpPlan:
    """Return the design in a manifest. Raises ValueError, TypeError or LookupError if it has no valid one."""
    declared = checked_histogram(stated["declaration"], stated["leaves"])
    totals, method = stated["totals"], {each: each for each in get_args(Method)}[stated["calibration"]]
    published = totals and {int(group): int(total) for group, total in totals["published"]}
    marginals = tuple(tuple(map(str, names)) for names in stated["marginals"])
    check_marginals(declared, marginals)
    design = BottomUpPlan(
        declared,
        parse_exact(stated["epsilon"]),
        totals and PublishedTotals(declared.histogram.groups(totals["by"]).names, published),
        method,
        parse_exact(stated["tolerance"]),
        marginals,
        bool(stated["clip"]),
    )
    check_law(design.mechanism.law)
    return design


def claim(run: RunDirectory) -> Claim:
    """Return the claim of a run that has tabulated."""
    design = load_object(run / CHOICES, BottomUpPlan)
    tabulated = load_object(run / VALIDATED, Input)
    return Claim(run, design.declared.charged, design.mechanism.spend, design.digest(), tabulated)


def measure(run: RunDirectory, workers: Workers) -> None:
    """Add noise to every cell except structural zeros, including empty cells."""
    design = load_object(run / CHOICES, BottomUpPlan)
    workers.map("measure", run, measure_piece, [(number,) for number in range(design.pieces)])


def measure_piece(run: RunDirectory, number: int) -> None:
    """Measure CELLS_EACH cells from CELLS_EACH * number on: noisy/NUMBER with `count`, int64, in steps."""
    folder = run / f"noisy/{number:05d}"
    if folder.exists():
        return
    design = load_object(run / CHOICES, BottomUpPlan)
    start = number * CELLS_EACH
    stop = min(start + CELLS_EACH, design.declared.histogram.cells)
    noisy = exact_counts(run, start, stop) + _noise(run, design, start, stop)
    noisy[~design.declared.histogram.are_possible(np.arange(start, stop))] = 0
    save_arrays(folder, {"count": noisy})


def exact_counts(run: RunDirectory, start: int, stop: int) -> NDArray[np.int64]:
    """Return the exact counts of cells start ... stop - 1 over all partitions, in steps; confidential."""
    counts = np.zeros(stop - start, np.int64)
    for cell, steps in load_counted(run / COUNTS, start, stop):
        counts[cell - start] += steps  # a cell occurs once in a partition
    return counts


def _noise(run: RunDirectory, design: BottomUpPlan, start: int, stop: int) -> NDArray[np.int64]:
    return read_secret(run).noise(design.mechanism.law, QUERY).draw_run(start, stop)


def calibrate_counts(run: RunDirectory, workers: Workers) -> None:
    """Join the pieces and calibrate them: noisy/final with `count` and `reported`; one worker holds all cells."""
    workers.map("calibrate", run, _calibrate, [()])


def _calibrate(run: RunDirectory) -> None:
    design = load_object(run / CHOICES, BottomUpPlan)
    noisy = np.concatenate([open_array(run / f"noisy/{number:05d}", "count") for number in range(design.pieces)])
    reported = design.declared.histogram.are_possible(np.arange(len(noisy)))
    cases: list[dict[str, str]] = []
    if design.totals is not None:
        group = design.groups_of_totals(np.arange(len(noisy)))
        published, tolerance = design.totals.published, design.tolerance / design.declared.grid
        consistent = agree(noisy, group, published, design.mechanism.law, tolerance)
        done = calibrate(noisy, group, published, consistent, design.calibration)
        noisy, reported = done.counts, reported & done.reported
        label = design.declared.histogram.groups(design.totals.names).label
        cases = [{**label(number), "case": case} for number, case in done.cases.items()]
    save_object(run / CASES, cases)
    save_arrays(run / FINAL, {"count": noisy, "reported": reported})
