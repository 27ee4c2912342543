"""What a spend means for an attacker: bounds that no test of the noise passes, and that some mechanism reaches."""

from __future__ import annotations

from math import ceil, exp, log, sqrt
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from privacy.accounting.attacker import belief, detection


@given(st.floats(1e-4, 20), st.floats(0.001, 0.5))
def test_no_test_of_gaussian_noise_detects_more_than_the_bound(rho, false_alarms):
    gaussian = norm.cdf(norm.ppf(false_alarms) + sqrt(2 * rho))
    assert gaussian <= detection("zcdp", rho, false_alarms) + 1e-9 <= 1 + 1e-9


@given(st.floats(1e-4, 5), st.floats(0.001, 0.5))
def test_randomized_response_reaches_the_bound_of_pure_dp(epsilon, false_alarms):
    """Its best test says yes at a yes (chance e/(1 + e)) and, with the rest of the false alarms, at a no."""
    yes = exp(epsilon) / (1 + exp(epsilon))
    right = (
        false_alarms / (1 - yes) * yes
        if false_alarms <= 1 - yes
        else yes + (1 - yes) * (false_alarms - (1 - yes)) / yes
    )
    assert detection("puredp", epsilon, false_alarms) == pytest.approx(right)


def test_the_bound_under_zcdp_grows_with_rho_and_starts_at_guessing():
    bounds = [detection("zcdp", rho) for rho in (0, 0.01, 0.1, 0.5, 1, 2.56, 4.944)]
    assert bounds == sorted(bounds)
    assert bounds[0] == pytest.approx(0.05, abs=1e-8)
    assert [round(bound, 3) for bound in bounds[1:]] == [0.070, 0.134, 0.336, 0.543, 0.935, 0.996]


@pytest.mark.parametrize(("rho", "after"), [(0.1, 0.0323), (1, 0.4667), (4.944, 0.9997)])
def test_a_belief_of_one_percent_in_95_of_100_releases(rho, after):
    """Against Gaussian noise: its loss is normal with mean rho and variance 2 rho, so its quantile lies below."""
    assert belief("zcdp", rho) == pytest.approx(after, abs=5e-5)
    gaussian = 1 / (1 + 99 * exp(-(rho + sqrt(2 * rho) * norm.ppf(0.95))))
    assert gaussian < belief("zcdp", rho)


def test_a_belief_under_pure_dp_moves_by_the_factor_of_the_odds():
    assert belief("puredp", log(11)) == pytest.approx(0.1)


@pytest.mark.parametrize("false_alarms", [0, 1, -1, float("nan")])
def test_a_share_that_is_none_is_refused(false_alarms):
    with pytest.raises(ValueError, match="strictly between 0 and 1"):
        detection("zcdp", 1, false_alarms)


def test_the_table_of_the_docs_has_the_figures_of_its_rhos_rounded_up():
    text = (Path(__file__).parents[3] / "docs/privacy.md").read_text()
    _, _, after = text.partition("| ρ | right of 100, at most")
    rows = [line.strip("| ").split(" | ") for line in after.split("\n\n")[0].splitlines()[2:]]
    assert [rho for rho, *_ in rows] == ["0.01", "0.1", "0.25", "0.5", "1", "2.56", "4.944"]
    for text, *stated in rows:
        rho = float(text)
        gaussian = 1 / (1 + 99 * exp(-(rho + sqrt(2 * rho) * norm.ppf(0.95))))
        found = detection("zcdp", rho), norm.cdf(norm.ppf(0.05) + sqrt(2 * rho)), belief("zcdp", rho), gaussian
        assert [float(each.strip("%")) for each in stated] == [ceil(1000 * each) / 10 for each in found], rho
