import numpy as np
import pytest

from privacy.estimation.equality import combine, combined_margin, combined_variance, find_equalities
from privacy.noise.margins import Z95
from tasks.safetab.iterations import read_iterations

# code:        Null A   B   C   D   E
REGIONAL = np.array([-1, 0, 0, 1, 1, -1], np.int32)


@pytest.mark.parametrize(
    ("detailed", "expected"),
    [
        ([-1, 5, 6, 7, 7, -1], {0: (5, 6), 1: (7,)}),
        ([-1, 5, -1, 7, 7, -1], {1: (7,)}),  # a code without a Detailed iteration
        ([-1, 5, 6, 6, 7, -1], {}),  # one that two Regional iterations share
        ([-1, 5, 6, 7, 7, 7], {0: (5, 6)}),  # one with a code of no Regional iteration
    ],
)
def test_equalities_come_from_the_maps(detailed, expected):
    assert find_equalities(REGIONAL, np.array(detailed, np.int32)) == expected


def test_the_equalities_of_production(das_data):
    """Central American, South American, Caribbean Hispanic; Other Hispanic at nation and state only. No race is one."""
    iterations, _ = read_iterations(str(das_data / "params-2020-production"))
    for granularity, expected in (
        (iterations.nation_state, {"4016": 7, "4024": 10, "4035": 4, "4040": 8}),
        (iterations.sub_state, {"4016": 7, "4024": 10, "4035": 4}),
    ):
        maps = granularity.maps
        equalities = find_equalities(maps["ethnicity", 1], maps["ethnicity", 2])
        assert {granularity.codes[whole]: len(parts) for whole, parts in equalities.items()} == expected
        total_only = sum(granularity.total_only[list(parts)].sum() for parts in equalities.values())
        assert total_only == (3 if granularity is iterations.nation_state else 0)


def test_the_variances_of_production():
    """Tract, all of them total only: 23.719 alone, and with 7, 10 and 4 parts of 5.328 each."""
    for parts, deviation in ((7, 12.12), (10, 13.73), (4, 9.72)):
        variance = combined_variance(np.array([23.719**2]), np.array([parts * 5.328**2]))
        assert variance[0] ** 0.5 == pytest.approx(deviation, abs=0.01)
        assert combined_margin(variance)[0] == int(np.ceil(Z95 * deviation - 0.5))


def test_combining_is_by_inverse_variance_to_the_nearest():
    own, parts = np.array([100, 100, 0]), np.array([110, 90, -1])
    combined = combine(own, np.array([9.0, 9.0, 1.0]), parts, np.array([1.0, 1.0, 1.0]))
    assert combined.tolist() == [109, 91, -1]
