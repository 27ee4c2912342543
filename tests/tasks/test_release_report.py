"""What a release's report opens with: sentences with exact figures."""

import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from privacy.accounting.composition import MOVED, PERSON, rounded_up, spend
from privacy.s_dhc.stability import ONE_UNIT, TWO_UNITS, Query
from privacy.s_dhc.stability import spend as spend_s_dhc
from tasks.releases.description import Column, Description, Table, count_and_margin, integer
from tasks.releases.pages import margin
from tasks.releases.report import CHARGED, IN_WORDS, in_short, spent_in_short
from tasks.top_down.release.report import MEASURED
from tasks.top_down.spend import compose

KEY = Column("KEY", "", "")
RESULTS = Path(__file__).parents[2] / "benchmarks/results/top-down.md"


def test_what_was_spent_is_said_with_its_unit_its_epsilon_and_the_bounds_on_an_attacker() -> None:
    """Under pure DP with epsilon 1: 1 - exp(-1) 0.95 > e 0.05 = 0.1360; odds of 1 to 99 become e to 99, 2.67 %."""
    said = spent_in_short(spend("puredp", [Fraction(1)]), {})
    assert said == [
        "Privacy loss: epsilon 1.",
        CHARGED,
        "What that means for this change, a person added or removed: suppose somebody knows everything else and "
        "guesses whether it was made. If they say so wrongly 5 times in 100, they say so rightly at most 13.6 times in "
        "100; without the release, 5. Whoever was 1% sure of it is at most 2.7% sure afterwards.",
        "The bounds are weaker for changes that cost more: a person replaced (epsilon 2).",
    ]


def test_what_is_charged_is_said_where_a_relation_costs_less_or_more() -> None:
    """The S-DHC charges more than a rewritten unit costs; two units, and one person of SafeTab-H, cost more."""
    queries = [Query("PH1_num", 10, Fraction(1)), Query("PH3", None, Fraction("0.2000001"))]
    for stability in ("program", "unit"):
        run = spend_s_dhc("zcdp", stability, queries)
        said = spent_in_short(run, {})
        assert all(each.figure != run.charged for each in run.relations)
        assert said[0].startswith(f"Charged: {run.charged_row().cells[0]}, the sum of the budgets of all queries.")
        assert f"for this change, {ONE_UNIT.sentence} (" in said[2]
        assert TWO_UNITS.sentence in said[3]
    text = " ".join(spent_in_short(spend("zcdp", [Fraction(1)], "household"), {}))
    for relation in ("a household replaced (rho 2)", f"{PERSON.sentence} (rho 2)", f"{MOVED.sentence} (rho 8)"):
        assert relation in text
    text = " ".join(spent_in_short(compose("zcdp", {"persons": Fraction(2), "units": Fraction(1)}), {}))
    assert (
        "not covered: a person or a housing unit added or removed; a person or a housing unit replaced by one" in text
    )
    assert "Privacy loss: rho 3," in text
    assert "cost more" not in text


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**9))
def test_a_figure_is_rounded_up_and_by_less_than_its_last_digit(figure: Fraction) -> None:
    shown = Fraction(rounded_up(figure))
    assert figure <= shown <= figure * (1 + Fraction(1, 10**5))
    assert rounded_up(shown) == rounded_up(figure)


def test_a_figure_of_few_digits_is_exact() -> None:
    assert rounded_up(Fraction("8.895302")) == "8.895302"
    assert rounded_up(Fraction("8.8953020001")) == "8.89531"


def test_a_bound_that_hides_nothing_is_called_so_and_marked_data_is_not_charged() -> None:
    said = spent_in_short(spend("zcdp", [Fraction("4.944")], "household"), {"SYNTHETIC": "…"})
    assert said[1].startswith("No account was charged: the data is synthetic and describes nobody.")
    assert "rho 4.944" in said[0]
    assert said[2].startswith("For somebody who knows everything else the bound excludes next to nothing")
    assert "a household added or removed" in said[3]
    assert said[3].endswith("in 95 of 100 releases, and may be surer in the others.")
    assert spent_in_short(None, {}) == []


def test_measured_errors_are_those_of_the_results() -> None:
    lines = RESULTS.read_text().split("<!-- ri-ratios -->")[1].split("<!-- /ri-ratios -->")[0].splitlines()
    # Of each spine `topdown`, `gls` and their ratio.
    rows = {
        cells[0]: cells[2::3] for cells in (re.split(r"\s*\|\s*", line.strip("| ")) for line in lines if "/" in line)
    }
    for column, areas in enumerate(MEASURED.values()):
        assert {area: "{:g} / {:g}".format(*pair) for area, pair in areas.items()} == {
            area: rows[area][column] for area in areas
        }


@given(st.just(0.0) | st.floats(1e-3, 1e9))
def test_a_margin_is_never_shown_smaller_than_it_is(value: float) -> None:
    """At three digits below 100, whole above: at most 1 in 100 larger."""
    shown = float(margin(value).replace(",", ""))
    assert value <= shown <= value * (1.01 + 1e-9)


def test_the_answer_in_short_has_the_counts_and_the_margins_of_every_place(tmp_path: Path) -> None:
    """Of tables by level a row a level; texts and tables without counts are left out; a file may have no row."""
    level = Table("By {level}", (KEY, *count_and_margin("", "", "")), text="{level}.csv", parquet="p/{level}.parquet")
    whole = replace(level, title="All", text="", parquet="all.parquet")
    estimate = Table("", (KEY, integer("N", "", "", role="estimate")), parquet="estimates.parquet")
    described = Description((level, whole, estimate), names={"level": {"a": "Nation", "b": "County", "c": "Tract"}})
    (tmp_path / "p").mkdir()
    for name, margins in {"p/a": [3, 7, 5], "p/b": [0.5, 2.5], "p/c": [], "all": [1200]}.items():
        rows = pd.DataFrame({"KEY": ["x"] * len(margins), "COUNT": 1, "MOE": margins}).astype(
            {"KEY": str, "COUNT": int}
        )
        rows.to_parquet(tmp_path / f"{name}.parquet", row_group_size=2)
    (tmp_path / "a.csv").write_text("KEY|COUNT\nx|1\n")
    pd.DataFrame({"KEY": ["x"], "N": 1}).to_parquet(tmp_path / "estimates.parquet")
    short = in_short(tmp_path, described, {}, ["Counts."], changed="Some were clipped.", notes=["A note."])
    assert short.published == ["Counts.", "6 counts in 4 tables."]
    assert short.sure == [IN_WORDS, "Some were clipped. ± does not cover that."]
    assert short.table is not None
    margins = {"Nation": ("3", "3", "7"), "County": ("2", "0.5", "2.5"), "Tract": ("0", "0", "0")}
    assert short.table.rows == [[place, *row] for place, row in margins.items()] + [["All", "1", "1,200", "1,200"]]
    assert short.table.notes[1:] == ["A note."]
    exact = in_short(tmp_path, described, {"NOT_PRIVATE": ""}, [])
    assert (exact.sure, exact.table) == (["The counts are exact."], None)
