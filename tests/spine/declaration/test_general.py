"""Bounds of several partitions, which nest: against Clarabel, brute force and the truth."""

from __future__ import annotations

from itertools import product as pairs
from typing import Any

import numpy as np
import pytest
from declarations import LEAVES, changed, hierarchy_of, keys
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from top_down_cases import everything, measuring, problems_of, same

from spine.declaration.figures import Figures, LevelFigures, border, read_bounds, subsets
from spine.top_down import Plan, TrueHistograms, descend, summed
from spine.top_down.bounds import NO_LIMIT
from spine.top_down.general_solvers import least_squares
from spine.top_down.histogram import from_entries
from spine.top_down.queries import query_group

WIDTH = {"dwelling": 2, "sex": 2, "young": 2, "dwelling*sex": 4, "total": 1, "sex*young": 4}
NESTED = [["dwelling", "dwelling*sex", "total"], ["sex", "dwelling*sex", "total"], ["young", "sex*young", "total"]]


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


def case(raw: dict[str, Any], seed: int) -> tuple[Plan, TrueHistograms] | None:
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
        assert keys(faults) == {"counts"}
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
def several(draw: st.DrawFn) -> dict[str, tuple[list[int], list[Any]]]:
    """Counts of some partitions that nest, with least 0 or 1 and most 1, 2 or none."""
    chosen = draw(st.lists(st.sampled_from(draw(st.sampled_from(NESTED))), min_size=2, unique=True))
    return {
        name: (
            draw(st.lists(st.integers(0, 1), min_size=WIDTH[name], max_size=WIDTH[name])),
            draw(st.lists(st.sampled_from([1, 2, ""]), min_size=WIDTH[name], max_size=WIDTH[name])),
        )
        for name in chosen
    }


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(several(), st.integers(0, 2**32))
@pytest.mark.ci
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
    assert {solve.rounding for solve in solves} <= {"flow"}


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(several(), st.integers(0, 2**32))
def test_nested_declarations_are_solved_as_by_clarabel(
    counts: dict[str, tuple[list[int], list[Any]]], seed: int
) -> None:
    made = case(of_counts(counts), seed)
    assume(made is not None)
    assert made is not None
    plan, truth = made
    problems = problems_of(lambda: everything(plan, measuring(plan, truth, seed % 1000)))
    for _, problem, x, _ in problems:
        assert problem.violation(x) < 1e-6
        tried = (least_squares(problem, "clarabel", accuracy) for accuracy in (1e-9, 1e-7, 1e-5))
        if (other := next((found for found in tried if found is not None), None)) is None:
            continue  # bounds that leave a single point: Clarabel has no interior to start from
        hessian, linear = problem.objective.quadratic(problem.parent.cells)
        ours, theirs = (each.ravel() @ (hessian @ each.ravel()) / 2 - linear @ each.ravel() for each in (x, other))
        slack = max(1e-6, problem.violation(other))  # of what the other misses, which makes its objective lower
        assert ours <= theirs + slack * (1 + abs(theirs))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "passes",
    [
        [["total"], ["dwelling*young"], ["rest"]],
        [["dwelling*young"], ["sex*young"], ["rest"]],
        [["total"], ["dwelling*young", "sex*young"], ["detailed"]],
    ],
)
def test_further_passes_keep_what_they_found(passes: list[list[str]], seed: int) -> None:
    asked = {"total": "1/5", "dwelling*young": "1/5", "sex*young": "1/5", "detailed": "2/5"}
    raw = of_counts({"dwelling": ([0, 1], [])}, queries=asked)
    raw["passes"] = [{"levels": ["nation"]}, {"levels": ["region", "district", "zone"], "least_squares": passes}]
    made = case(raw, seed)
    assert made is not None
    plan, truth = made
    estimates, _ = everything(plan, measuring(plan, truth, None))
    assert same(estimates, summed(truth, plan.spine))
    kept = problems_of(lambda: holds(plan, everything(plan, measuring(plan, truth, seed))[0]))
    assert all(problem.violation(x) < 1e-6 for _, problem, x, _ in kept)
    assert any(len(problem.parent.sets) > 2 for _, problem, _, _ in kept)  # the bands of earlier passes


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 6))])
@pytest.mark.parametrize("total", [[], [["total"]]])
@pytest.mark.parametrize("counts", [{}, {"dwelling": ([0, 1], [])}])
def test_what_was_rounded_before_then_is_kept_exactly(
    counts: dict[str, Any], total: list[list[str]], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"total": "1/5", "dwelling*young": "1/5", "sex": "1/5", "dwelling*sex*young": "1/5", "detailed": "1/5"}
    raw = of_counts(counts, queries=asked)
    raw["passes"] = [
        {
            "levels": ["nation", "region", "district", "zone"],
            "least_squares": [["total"], *([["dwelling*young"]] if total else [["rest"]])],
            "round": ["dwelling", "dwelling*young"],
            "then": [{"least_squares": [["sex", "dwelling*sex*young"], ["rest"]], "round": ["dwelling*sex*young"]}],
        }
    ]
    made = case(raw, seed)
    assert made is not None
    plan, truth = made
    assert same(everything(plan, measuring(plan, truth, None))[0], summed(truth, plan.spine))
    rounded: list[tuple[Any, np.ndarray]] = []
    into = descend.to_integers

    def remember(problem: Any, x: np.ndarray, *more: Any) -> Any:
        rounded.append((problem, into(problem, x, *more)[0]))
        return into(problem, x, *more)

    monkeypatch.setattr(descend, "to_integers", remember)
    estimates, solves = everything(plan, measuring(plan, truth, seed))
    holds(plan, estimates)
    assert {solve.rounding for solve in solves} == {"flow"}
    assert not any(solve.failed for solve in solves)
    changed_cells = 0
    group = query_group(plan.product, "dwelling*young").coordinate
    for (problem, before), (_, after) in zip(rounded[::2], rounded[1::2], strict=True):
        sums = [np.zeros((int(group.max()) + 1, before.shape[1]), np.int64) for _ in range(2)]
        for own, numbers in zip(sums, (before, after), strict=True):
            np.add.at(own, group[problem.parent.cells], numbers)
        assert np.array_equal(*sums)
        changed_cells += int((before != after).sum())
    assert changed_cells  # the second passes ask more


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_the_most_and_least_of_every_set_are_those_of_all_numbers(data: st.DataObject) -> None:
    """Three parts, two nested sets and a total, against all whole numbers up to 4."""
    allowed = np.array([[data.draw(st.booleans()) for _ in range(3)]])
    member = np.array([[True, True, False], [True, False, False]])
    low = np.array([[data.draw(st.integers(0, 2)) for _ in member]], float)
    high = low + np.array([[data.draw(st.integers(0, 2)) for _ in member]])
    total = np.array([float(data.draw(st.integers(0, 4)))])
    least, most = border(LevelFigures(allowed, member, low, high, total, np.zeros(1, int)))
    numbers = np.array([each for each in pairs(*(range(5 if own else 1) for own in allowed[0])) if sum(each) == total])
    numbers = numbers.reshape(-1, 3)
    inside = numbers @ member.T
    numbers = numbers[((inside >= low) & (inside <= high)).all(axis=1)]
    if not len(numbers):
        assert least[0, 0] > most[0, 0]
        return
    sums = numbers @ subsets(3).T
    assert least[0].tolist() == sums.min(axis=0).tolist()
    assert most[0].tolist() == sums.max(axis=0).tolist()


@pytest.mark.parametrize("most", [[1, 1], [2, 2]])
def test_a_total_above_all_limits_is_refused(most: list[int]) -> None:
    raw = changed(lambda raw: raw.update(counts=[], totals=[{"of": "nation", "file": "n.csv"}], zeros=[]))
    raw["counts"] = [{"partition": "sex", "columns": ["women", "men"], "most": most}]
    leaves = {name: LEAVES[name] for name in ("zone", "region", "district", "zcode")}
    hierarchy = hierarchy_of(raw, leaves)
    counts, of_nation = np.full((5, 2), 3), np.zeros(5, int)
    for total in (30 * most[0], 30 * most[0] + 1):
        bounds, faults = read_bounds(hierarchy, Figures([counts], [(of_nation, ["nation"], np.array([total]))]))
        assert (bounds is None) == (total > 30 * most[0]), faults
        assert bounds is not None or keys(faults) == {"counts"}


def test_equality_with_records_in_zeros_is_refused() -> None:
    raw = changed(lambda raw: raw.update(counts=[], totals=[], equal=[{"partition": "sex", "release": "x"}]))
    raw["zeros"] = [{"where": {"sex": "2"}}]
    hierarchy = hierarchy_of(raw, {name: LEAVES[name] for name in ("zone", "region", "district", "zcode")})
    for men in (0, 1):
        bounds, faults = read_bounds(hierarchy, Figures([], [], [np.array([[4, men]] * 5)]))
        assert (bounds is None) == bool(men), faults


@pytest.mark.parametrize(("most", "end"), [([3, 3], 3), (["", ""], NO_LIMIT)])
def test_a_range_without_an_upper_end_is_told_from_a_limit(most: list[Any], end: int) -> None:
    made = case(of_counts({"sex": ([1, 0], most), "total": ([0], [end if end < NO_LIMIT else ""])}), 1)
    assert made is not None
    low, high = made[0].bounds.root_range or (0, 0)
    assert 0 < low < high
    assert (high == NO_LIMIT) == (end == NO_LIMIT)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_nested_figures_are_refused_where_some_parent_cannot_divide_and_give_the_range_of_the_total(
    data: st.DataObject,
) -> None:
    """Two zones, limits of each dwelling and of its sexes, against all whole numbers that the zones can have."""
    ends = [data.draw(st.sampled_from([(0, 1), (0, 2), (1, 2)])) for _ in range(6)]
    counts = [np.array([[data.draw(st.integers(0, 2)) for _ in range(width)] for _ in range(2)]) for width in (2, 4)]
    least, most = ([end[at] for end in ends] for at in (0, 1))
    chosen = {"dwelling": (least[:2], most[:2]), "dwelling*sex": (least[2:], most[2:])}
    leaves = {"zone": ["0", "1"], "region": ["1", "1"], "district": ["1", "1"], "zcode": ["0", "1"]}
    hierarchy = hierarchy_of(of_counts(chosen), leaves)

    open_ = (counts[0] > 0).repeat(2, axis=1) & (counts[1] > 0)  # of sexes 1 and 2 in dwelling 1, then in dwelling 2

    def numbers(halves: np.ndarray, parts: np.ndarray, open_: np.ndarray) -> set[tuple[int, ...]]:
        """What meets the figures of a geounit."""
        ranges = (
            range(int(few), int(many) + 1) if own else range(int(few) > 0, 1)
            for few, many, own in zip(parts * least[2:], parts * most[2:], open_, strict=True)
        )
        low, high = (halves * end[:2] for end in (least, most))
        found = np.array([*pairs(*ranges)], int).reshape(-1, 2, 2)
        sums = found.sum(axis=2)
        return {*map(tuple, found[((sums >= low) & (sums <= high)).all(axis=1)].reshape(-1, 4).tolist())}

    own = [numbers(*(each[zone] for each in (*counts, open_))) for zone in range(2)]
    parent = numbers(counts[0].sum(axis=0), counts[1].sum(axis=0), open_.any(axis=0))
    together = {tuple(map(sum, zip(*chosen, strict=True))) for chosen in pairs(*own)}
    bounds, faults = read_bounds(hierarchy, Figures(counts, []))
    if not together or not parent <= together:
        assert keys(faults) == {"counts"}
        return
    assert bounds is not None, faults
    totals = {sum(each) for each in together}
    assert bounds.root_range == (min(totals), max(totals))


def test_limits_above_what_a_histogram_holds_are_none() -> None:
    raw = changed(lambda raw: raw.update(totals=[], zeros=[]))
    raw["counts"] = [{"partition": "sex", "columns": ["women", "men"], "most": [1 << 20, 2]}]
    leaves = {name: LEAVES[name] for name in ("zone", "region", "district", "zcode")}
    hierarchy = hierarchy_of(raw, leaves)
    bounds, faults = read_bounds(hierarchy, Figures([np.full((5, 2), (1 << 31) - 1)], []))
    assert bounds is not None, faults
    assert bounds.sets is not None
    assert bounds.sets.high[0].tolist() == [[NO_LIMIT, NO_LIMIT]]
    bounds, _ = read_bounds(hierarchy, Figures([np.full((5, 2), 1000)], []))
    assert bounds is not None
    assert bounds.sets is not None
    assert bounds.sets.high[0].tolist() == [[5000 << 20, 10000]]


@pytest.mark.parametrize("own", [[5, -2], [-1, 9]])
def test_negative_counts_of_a_release_are_refused(own: list[int]) -> None:
    raw = changed(lambda raw: raw.update(counts=[], totals=[], equal=[{"partition": "sex", "release": "x"}]))
    hierarchy = hierarchy_of(raw, {name: LEAVES[name] for name in ("zone", "region", "district", "zcode")})
    bounds, faults = read_bounds(hierarchy, Figures([], [], [np.array([own] + [[4, 2]] * 4)]))
    assert bounds is None
    assert "counts" in keys(faults)
