"""Bounds of several partitions: what nests and what crosses, against HiGHS and Clarabel, brute force and the truth."""

from __future__ import annotations

from itertools import product as pairs
from typing import Any

import numpy as np
import pytest
from declarations import changed, hierarchy_of
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds as Box
from scipy.optimize import LinearConstraint, milp
from top_down_cases import everything, measuring, problems_of, same

from spine.declaration.classes import classify
from spine.declaration.declaration import first_crossing
from spine.declaration.figures import Figures, border, level_figures, read_bounds, subsets
from spine.top_down import Plan, TrueHistograms, reference, summed
from spine.top_down.histogram import from_entries
from spine.top_down.queries import query_group

WIDTH = {"dwelling": 2, "sex": 2, "young": 2, "dwelling*sex": 4, "total": 1, "sex*young": 4}


def of_counts(chosen: dict[str, tuple[list[int], list[Any]]], **more: Any) -> dict[str, Any]:
    """The declaration with counts of these partitions, each with its least and most."""

    def change(raw: dict[str, Any]) -> None:
        raw["counts"] = [
            {"partition": name, "columns": [f"{name}{at}" for at in range(WIDTH[name])], "least": least, "most": most}
            for name, (least, most) in chosen.items()
        ]
        raw.update(totals=[], zeros=[])
        raw["axes"]["age"]["values"] = [["0-2"], ["3-9"]]
        raw.update(more)

    return changed(change)


def case(raw: dict[str, Any], seed: int, limits: bool = True) -> tuple[Plan, TrueHistograms] | None:
    """A country of six zones with records, and counts that are true of them; None where these are refused."""
    rng = np.random.default_rng(seed)
    leaves = {
        "zone": [str(at) for at in range(6)],
        "region": list("111222"),
        "district": list("112122"),
        "zcode": [str(at) for at in range(6)],
    }
    hierarchy = hierarchy_of(raw, leaves)
    declaration = hierarchy.declaration
    cells = declaration.product.cells
    dense = rng.integers(0, 4, (6, cells)) * (rng.random((6, cells)) < 0.6)
    counts = []
    for count in declaration.form.counts:
        group = query_group(declaration.product, count.partition)
        own = np.zeros((6, group.width), np.int64)
        np.add.at(own.T, group.coordinate, dense.T)
        least = np.array(count.least or [0] * group.width)
        counts.append(np.where((least > 1) & (own > 0), np.maximum(own // np.maximum(least, 1), 0), own))
        dense[:, :] *= (counts[-1] > 0)[:, group.coordinate]  # a count of 0 closes its part
    for count, own in zip(declaration.form.counts, counts, strict=True):  # closing may have taken records
        group = query_group(declaration.product, count.partition)
        own[:] = 0
        np.add.at(own.T, group.coordinate, dense.T)
        own[:] = own // np.maximum(np.array(count.least or [1] * group.width), 1)
    bounds, faults = read_bounds(hierarchy, Figures(counts, []))
    if bounds is None:
        assert faults
        return None
    row, cell = np.nonzero(dense)
    truth = from_entries(TrueHistograms, len(hierarchy.spine.levels) - 1, 0, row, cell, dense[row, cell], 6)
    return Plan(declaration.product, hierarchy.spine, declaration.allocation, bounds, declaration.passes), truth


def holds(plan: Plan, estimates: list[Any]) -> None:
    """Every bound on every level, and every sum."""
    assert same(estimates[1:], summed(estimates[-1], plan.spine)[1:])
    for level, found in enumerate(estimates):
        by_part = np.zeros((len(found), len(plan.bounds.least)), np.int64)
        np.add.at(by_part, (found.row, plan.product.types[found.cell]), found.count)
        assert (by_part[~plan.bounds.allowed(level)] == 0).all()
        if (sets := plan.bounds.sets) is not None:
            by_set = by_part @ sets.member.T
            assert (by_set >= sets.low[level]).all()
            assert (by_set <= sets.high[level]).all()


@st.composite
def several(draw: st.DrawFn, names: list[str], number: int = 2) -> dict[str, tuple[list[int], list[Any]]]:
    """Counts of some partitions, with least 0 or 1 and most 1, 2 or none."""
    chosen = draw(st.lists(st.sampled_from(names), min_size=number, max_size=3, unique=True))
    return {
        name: (
            draw(st.lists(st.integers(0, 1), min_size=WIDTH[name], max_size=WIDTH[name])),
            draw(st.lists(st.sampled_from([1, 2, ""]), min_size=WIDTH[name], max_size=WIDTH[name])),
        )
        for name in chosen
    }


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(several(["dwelling", "sex", "young", "dwelling*sex", "total", "sex*young"]), st.integers(0, 2**32))
def test_declared_figures_hold_and_without_noise_the_estimate_is_the_truth(
    counts: dict[str, tuple[list[int], list[Any]]], seed: int
) -> None:
    made = case(of_counts(counts), seed)
    assume(made is not None)
    assert made is not None
    plan, truth = made
    assert same(everything(plan, measuring(plan, truth, None))[0], summed(truth, plan.spine))
    estimates, solves = everything(plan, measuring(plan, truth, seed % 1000))
    holds(plan, estimates)
    sets = plan.bounds.sets
    assert sets is not None
    assert {solve.rounding for solve in solves} <= ({"general"} if sets.crossing or sets.certified else {"flow"})


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(several(["sex", "young", "dwelling"]), st.integers(0, 2**32))
def test_crossing_declarations_are_solved_as_by_clarabel_and_highs(
    counts: dict[str, tuple[list[int], list[Any]]], seed: int
) -> None:
    for least, _ in counts.values():
        least[0] = 1  # each binds, so they cross
    made = case(of_counts(counts), seed)
    assume(made is not None)
    assert made is not None
    plan, truth = made
    assert classify_of(plan, counts)
    problems = problems_of(lambda: everything(plan, measuring(plan, truth, seed % 1000)))
    for _, problem, x, _ in problems:
        other = reference.least_squares(problem, "clarabel")
        assert other is not None
        hessian, linear = problem.objective.quadratic(problem.parent.cells)
        ours, theirs = (each.ravel() @ (hessian @ each.ravel()) / 2 - linear @ each.ravel() for each in (x, other))
        assert ours <= theirs + 1e-6 * (1 + abs(theirs))
        assert problem.violation(x) < 1e-6


def classify_of(plan: Plan, counts: dict[str, Any]) -> bool:
    """Whether bounds that bind cross."""
    crossing = first_crossing(plan.product, list(counts)) is not None
    assert plan.bounds.sets is not None
    return plan.bounds.sets.crossing == crossing
