"""Least squares over linked tables: figures of the S-DHC's production budgets, a direct solution, sums that hold."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from privacy.estimation.linked_tables import Answers, LinkedTable, estimate, share_out
from privacy.noise.margins import Z95

STATES, RACES = 51, 7
RNG = np.random.default_rng(36)
PERSONS = (1708.774, 14782.237, 92401.680, 92401.680)  # state by race, state, nation by race, nation
MINORS = (147.818, 14781.297, 92365.693, 92365.693)
UNITS = (1709.402, 14814.815, 90909.091, 90909.091)


def measured(truth: np.ndarray, variances: tuple[float, ...], *, by_code: bool = True) -> LinkedTable:
    """The noisy answers about a table, truth states x races x cells; rounded normal noise is near enough here."""
    of_codes, of_all, nation_codes, nation = variances

    def noisy(counts: np.ndarray, variance: float) -> Answers:
        return Answers(counts + np.rint(RNG.normal(0, sqrt(variance), counts.shape)).astype(np.int64), variance)

    summed, total = truth.sum(axis=1, keepdims=True), truth.sum(axis=0, keepdims=True)
    together = noisy(summed, of_all), noisy(summed.sum(axis=0, keepdims=True), nation)
    if not by_code:
        return LinkedTable(together=together[0], nation_together=together[1])
    return LinkedTable(noisy(truth, of_codes), together[0], noisy(total, nation_codes), together[1])


def truths() -> dict[str, np.ndarray]:
    totals = RNG.integers(100, 100_000, (STATES, RACES))
    return {
        name: np.stack([RNG.multinomial(total, [1 / cells] * cells) for total in totals.ravel()]).reshape(
            STATES, RACES, cells
        )
        for name, cells in (("PH1", 2), ("PH7", 3), ("PH2", 8))
    }


def deviations(name: str, found: dict) -> dict[str, float]:
    each = found[name]
    return {
        **{key: sqrt(each.covariances[key][0, 0]) for key in each.covariances},
        **{f"total, {key}": sqrt(covariance.sum()) for key, covariance in each.covariances.items()},
    }


def test_standard_deviations_of_the_production_budgets() -> None:
    truth = truths()
    tables = {name: measured(each, PERSONS, by_code=name != "PH2") for name, each in truth.items()}
    linked = estimate(tables, RACES)
    ph1, ph7, ph2 = (deviations(name, linked) for name in ("PH1", "PH7", "PH2"))
    own = deviations("PH1", estimate({"PH1": tables["PH1"]}, RACES))
    assert [own[key] for key in ("state codes", "state all", "nation codes", "nation all")] == pytest.approx(
        [39.8, 80.7, 199, 255], rel=0.005
    )
    assert [ph1[key] for key in ("state codes", "state all", "nation codes", "nation all")] == pytest.approx(
        [35.6, 71.3, 178, 224], rel=0.005
    )
    for each, keys in ((ph1, ("codes", "all")), (ph7, ("codes", "all")), (ph2, ("all",))):
        expected = {"codes": (43.5, 218), "all": (85.5, 264)}
        for key in keys:
            found = [each[f"total, {region} {key}"] for region in ("state", "nation")]
            assert found == pytest.approx(expected[key], rel=0.005)
    assert [ph2["state all"], ph2["nation all"]] == pytest.approx([113, 270], rel=0.005)
    alone = deviations("PH2", estimate({"PH2": tables["PH2"]}, RACES))
    assert [alone["state all"], alone["total, state all"]] == pytest.approx([120.5, 341], rel=0.005)
    minors = deviations("PH3", estimate({"PH3": measured(truth["PH1"], MINORS)}, RACES))
    assert [minors[key] for key in ("state codes", "state all", "nation codes", "nation all")] == pytest.approx(
        [12.1, 31.0, 81, 175], rel=0.006
    )
    units = {name: measured(truth["PH1"][:, :, :cells], UNITS) for name, cells in (("PH1_denom", 1), ("PH8_denom", 2))}
    denominators = estimate(units, RACES)
    for name in units:
        found = deviations(name, denominators)
        keys = ("state codes", "state all", "nation codes", "nation all")
        assert [found[f"total, {key}"] for key in keys] == pytest.approx([32.5, 65.9, 162, 207], rel=0.005)


def test_one_code_is_the_inverse_variance_mean_of_states_and_nation() -> None:
    states, nation = RNG.integers(0, 10_000, (STATES, 1, 2)), RNG.integers(0, 100_000, (1, 1, 2))
    table = LinkedTable(codes=Answers(states, 14782.237), nation_codes=Answers(nation, 92401.68))
    found = deviations("H", estimate({"H": table}, 1))
    assert found["nation codes"] == pytest.approx(287, rel=0.005)


def test_it_is_the_direct_solution_of_the_whole_system() -> None:
    """Three states, two races, two linked tables: all unknowns and equations written out."""
    truth = RNG.integers(0, 50, (3, 2, 2))
    other = np.stack([truth[..., 0] // 2, truth.sum(axis=2) - truth[..., 0] // 2], axis=2)
    tables = {"a": measured(truth, (3.0, 10.0, 20.0, 30.0)), "b": measured(other, (2.0, 5.0, 9.0, 4.0))}
    rows, values, weights = [], [], []
    for number, table in enumerate(tables.values()):
        for kind in ("codes", "together", "nation_codes", "nation_together"):
            answers = getattr(table, kind)
            for (state, race, cell), count in np.ndenumerate(answers.counts):
                mask = np.zeros((2, 3, 2, 2))
                where = (slice(None) if "nation" in kind else state, slice(None) if "together" in kind else race, cell)
                mask[(number, *where)] = 1
                rows.append(mask.ravel())
                values.append(count)
                weights.append(1 / answers.variance)
    equations = np.zeros((6, 24))
    for at, (state, race) in enumerate(np.ndindex(3, 2)):
        mask = np.zeros((2, 3, 2, 2))
        mask[0, state, race], mask[1, state, race] = 1, -1
        equations[at] = mask.ravel()
    design, weight = np.array(rows), np.array(weights)
    system = np.block([[design.T * weight @ design, equations.T], [equations, np.zeros((6, 6))]])
    inverse = np.linalg.inv(system)
    direct = (inverse @ np.concatenate([design.T * weight @ np.array(values), np.zeros(6)]))[:24].reshape(2, 3, 2, 2)
    found = estimate(tables, 2)
    for number, name in enumerate(tables):
        assert np.abs(found[name].counts - direct[number]).max() < 1.5  # rounded, with equal totals
        cell = inverse[12 * number, 12 * number]
        assert found[name].covariances["state codes"][0, 0] == pytest.approx(cell)
        both = np.zeros(24)
        both.reshape(2, 3, 2, 2)[number, :, :, 1] = 1
        assert found[name].covariances["nation all"][1, 1] == pytest.approx(both @ inverse[:24, :24] @ both)
    assert (found["a"].counts.sum(axis=2) == found["b"].counts.sum(axis=2)).all()


def test_intervals_cover_and_whole_numbers_add_up() -> None:
    truth = truths()
    covered = []
    for _ in range(40):
        found = estimate({name: measured(each, PERSONS, by_code=name != "PH2") for name, each in truth.items()}, RACES)
        totals = [each.counts.sum(axis=2) for each in found.values()]
        assert (totals[0] == totals[1]).all()
        assert (totals[0].sum(axis=1, keepdims=True) == totals[2]).all()
        for name, cells in (("PH1", 2), ("PH7", 3)):
            for cell in range(cells):
                error = found[name].counts[:, :, cell] - truth[name][:, :, cell]
                covered.append((np.abs(error) <= Z95 * sqrt(found[name].covariances["state codes"][cell, cell])).mean())
    assert np.mean(covered) == pytest.approx(0.95, abs=0.005)  # of 71,400 that depend little on each other


def test_sharing_out_is_near_and_exact() -> None:
    fractions = RNG.normal(0, 100, (20, 5))
    totals = np.rint(fractions.sum(axis=1)).astype(np.int64)
    shared = share_out(fractions, totals)
    assert (shared.sum(axis=1) == totals).all()
    assert np.abs(shared - fractions).max() < 1.2
