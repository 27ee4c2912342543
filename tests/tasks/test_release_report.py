"""What a release's report opens with: sentences with exact figures."""

import re
from fractions import Fraction
from pathlib import Path

from privacy.accounting.composition import spend
from tasks.pages.release_report import spent_in_short
from tasks.top_down.release.report import MEASURED

RESULTS = Path(__file__).parents[2] / "benchmarks/results/top-down.md"


def test_what_was_spent_is_said_with_its_unit_its_epsilon_and_the_bounds_on_an_attacker() -> None:
    """Under pure DP with epsilon 1: 1 - exp(-1) 0.95 > e 0.05 = 0.1360; odds of 1 to 99 become e to 99, 2.67 %."""
    said = spent_in_short(spend("puredp", [Fraction(1)]), {})
    assert said == [
        "The budget was charged to the curator’s account.",
        "The release spends epsilon 1, which bounds what a reader learns of this: a person added or removed.",
        "Whoever knows everything else, and accuses falsely in 5 of 100 cases, accuses rightly in at most 13.6 of "
        "100; without the release, in 5. A suspicion of 1% becomes at most 2.7%.",
    ]


def test_a_bound_that_hides_nothing_is_called_so_and_marked_data_is_not_charged() -> None:
    said = spent_in_short(spend("zcdp", [Fraction("4.944")], "household"), {"SYNTHETIC": "…"})
    assert said[0] == "Nothing was charged: the data is synthetic and describes nobody."
    assert "rho 4.944" in said[1]
    assert "a household added or removed" in said[1]
    assert said[2].endswith("in 95 of 100 releases.")
    assert said[3].startswith(
        "So the bound does not exclude that such a person finds out whether a whole record is there"
    )
    assert spent_in_short(None, {}) == []


def test_measured_errors_are_those_of_the_results() -> None:
    lines = RESULTS.read_text().split("<!-- ri-errors -->")[1].split("<!-- /ri-errors -->")[0].splitlines()
    rows = {cells[0]: cells[2:] for cells in (re.split(r"\s*\|\s*", line.strip("| ")) for line in lines if "/" in line)}
    for column, areas in enumerate(MEASURED.values()):
        assert {area: "{:g} / {:g}".format(*pair) for area, pair in areas.items()} == {
            area: rows[area][column] for area in areas
        }
