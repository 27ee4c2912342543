"""The estimation of a wide table: noise off, known sums, zeros and counts, and that unread answers have no effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from wide import Tree, changed_wide, tree

from spine.geography import IntArray
from spine.top_down.queries import exact_answers, query_group
from spine.wide import least_squares, rounding
from spine.wide.dual import Objective, Solution
from spine.wide.estimate import WideEstimation
from spine.wide.rounding import Rounding
from spine.wide.transport import Problems


@pytest.fixture(scope="module")
def made() -> Tree:
    return tree()


@pytest.mark.parametrize("how", ["program", "carried", "stepwise"])
def test_without_noise_the_estimates_are_the_truth(made: Tree, how: Rounding) -> None:
    levels, _, _ = made.estimate(made.noisy(0.0), how)
    for estimate, true in zip(levels, made.truth, strict=True):
        np.testing.assert_array_equal(estimate.starts, true.starts)
        np.testing.assert_array_equal(estimate.cell, true.cell)
        np.testing.assert_array_equal(estimate.count, true.count)


@pytest.mark.parametrize("how", ["program", "carried", "stepwise"])
def test_every_geounit_has_its_known_sums_no_zeros_and_the_leaves_their_counts(made: Tree, how: Rounding) -> None:
    levels, estimation, _ = made.estimate(made.noisy(6.0), how)
    plan, product = made.plan, made.plan.product
    part = query_group(product, plan.declaration.form.counts[0].partition)
    for estimate, sums, counts in zip(levels, made.sums, made.counts, strict=True):
        size = len(estimate)
        np.testing.assert_array_equal(exact_answers(estimate, query_group(product, plan.equal), 0, size), sums)
        assert product.possible[estimate.cell].all()
        own = exact_answers(estimate, part, 0, size)[:, 1:]
        assert (own >= counts[:, 1:]).all()
        assert not own[counts[:, 1:] == 0].any()
    assert {(each.solver, each.rounding) for each in estimation.solved} == {("own", "flow")}
    own = [exact_answers(each, part, 0, len(each)) for each in levels]
    below = [np.add.reduceat(own[at + 1], made.plan.spine.first_child[at][:-1]) for at in range(len(levels) - 1)]
    assert any((above != children).any() for above, children in zip(own, below, strict=False)), "no record switched"


@pytest.mark.parametrize(
    "same",
    [
        {"round": ["total!", "hhgq*sex*votingage*race", "relgq5*sex*age6*race", "relgq*sex*age6*race", "detailed"]},
        {"then": [{}]},
        {"then": [{"least_squares": ["rest"]}]},
    ],
)
def test_other_words_for_the_same_passes_make_the_same_plan(made: Tree, same: dict[str, Any]) -> None:
    other = tree(raw=changed_wide(lambda raw: raw["passes"][0].update(same))).plan.passes
    for one, own in zip(other, made.plan.passes, strict=True):
        for name in ("cells", "kept", "dense", "large", "chain"):
            assert getattr(one, name) == getattr(own, name)


def test_queries_may_be_asked_after_the_rounding() -> None:
    def change(raw: dict[str, Any]) -> None:
        raw["queries"]["age"] = raw["queries"].pop("sex*age6")  # which the chain does not sum
        raw["passes"][0]["least_squares"] = [["hhgq*age3", "relgq", "relgq5*sex*age6*race"]]
        raw["passes"][0]["then"] = [{"least_squares": [["rest"]]}]

    later = tree(raw=changed_wide(change))
    first, second = later.plan.passes
    assert {*first.dense, *first.large} == {"hhgq*age3", "relgq", "relgq5*sex*age6*race"}
    assert (first.cells, {*second.dense, *second.large}) == ("relgq*sex*age6*race", {"age"})
    levels, _, seen = later.estimate(later.noisy(4.0))
    assert all(seen[level, "age"].any() for level in later.plan.spine.levels)
    for estimate, sums in zip(levels, later.sums, strict=True):
        own = exact_answers(estimate, query_group(later.plan.product, later.plan.equal), 0, len(estimate))
        np.testing.assert_array_equal(own, sums)


@pytest.mark.parametrize(
    ("how", "anchors"), [("program", False), ("carried", False), ("program", True), ("stepwise", True)]
)
def test_unread_answers_and_the_order_of_parents_have_no_effect(made: Tree, how: Rounding, anchors: bool) -> None:
    made = tree(raw=changed_wide(anchored)) if anchors else made
    answers = made.noisy(6.0)
    levels, _, seen = made.estimate(answers, how)
    others = {key: np.where(seen[key], own, own + 1_000) for key, own in answers.items()}
    assert not all(own.all() for own in seen.values())
    again, _, read = made.estimate(others, how, backwards=True)
    for one, other in zip(levels, again, strict=True):
        for name in ("starts", "cell", "count"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert all(np.array_equal(own, read[key]) for key, own in seen.items())


def test_without_our_solvers_general_ones_are_used_and_counted(made: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = made.noisy(2.0)
    ours, own, _ = made.estimate(answers)
    minimize, round_all = least_squares.minimize, rounding.round_all

    def stuck(problems: Problems, objective: Objective, stop: float) -> Solution:
        return minimize(problems, objective, stop)._replace(step=1.0)

    def lost(*given: Any) -> tuple[IntArray, IntArray]:
        whole, missing = round_all(*given)
        return whole * 0, missing + 1

    monkeypatch.setattr(least_squares, "minimize", stuck)
    monkeypatch.setattr(rounding, "round_all", lost)
    theirs, other, _ = made.estimate(answers)
    assert {(each.solver, each.rounding) for each in own.solved} == {("own", "flow")}
    assert {(each.solver, each.rounding) for each in other.solved} == {("clarabel", "highs")}
    for level, (one, same) in enumerate(zip(ours, theirs, strict=True)):
        np.testing.assert_array_equal(one.totals(), same.totals())
        if not level:  # ties of the least cost are broken otherwise, and below come other parents
            assert np.abs(one.dense(made.plan.product.cells) - same.dense(made.plan.product.cells)).sum() < 30


def anchored(raw: dict[str, Any]) -> None:
    raw["passes"][0] |= {"anchors": {"age6*race": "100"}, "then": [{"anchors": {"age": "100"}}]}


def test_anchors_are_sums_of_all_answers_at_the_top(made: Tree) -> None:
    """Also of cells of 0; what a known sum leaves of the misfit is the same in all its anchored sums that are not 0."""
    own, answers = tree(raw=changed_wide(anchored)), made.noisy(1.0)
    product, known = (
        own.plan.product,
        {"age6*race": np.arange(18) % 3 + 3 * (np.arange(18) > 5), "age": np.arange(12) // 2},
    )
    for query, cells in (("age6*race", "relgq*sex*age6*race"), ("age", "detailed")):
        asked, whole = query_group(product, query), own.plan.coordinate(cells)
        of_cell = np.zeros(product.width(cells), np.int64)
        of_cell[whole] = asked.coordinate
        possible = np.unique(whole[product.possible])
        sums = np.bincount(of_cell[possible], answers["state", cells][0, possible], asked.width)
        found = [exact_answers(each.estimate(answers, "carried")[0][0], asked, 0, 1)[0] for each in (made, own)]
        spreads = [
            max(np.ptp((each - sums)[(known[query] == part) & (each > 0)]) for part in range(6)) for each in found
        ]
        assert spreads[1] <= 2 < spreads[0]
    levels, _, _ = own.estimate(own.noisy(0.0))
    for estimate, true in zip(levels, own.truth, strict=True):
        np.testing.assert_array_equal(estimate.cell, true.cell)
        np.testing.assert_array_equal(estimate.count, true.count)


def test_a_state_without_records_has_none_below(made: Tree) -> None:
    estimation = WideEstimation(made.plan, lambda *asked: pytest.fail("an answer was read"))
    nobody = [own * 0 for own in made.sums]
    root = estimation.root(0, nobody[0], made.counts[0] * 0)
    assert not estimation.children(root, 0, nobody[1], made.counts[1] * 0).totals().any()
