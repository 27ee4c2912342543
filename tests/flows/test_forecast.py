"""`das tda tune`: typed shares, targets, a file for a run, real runs beside; what is refused, and by which words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from top_down_inputs import country

from flows.reports.forecast.page import content, page_of
from flows.reports.forecast.questions import read_aim, read_limit, read_row, read_target
from flows.reports.forecast.searches import as_allocation, changed
from flows.reports.forecast.tables import conclusion
from spine.forecast.precision import Weights, weights_of
from spine.forecast.search import Row
from spine.forecast.surface import fit
from spine.production import allocation
from tasks.errors import Refused
from tasks.records.marks import MARK_FILE
from tests.flows.conftest import Das

SHARES = allocation("pl94-persons", "us")
ROWS = [(level, quantity) for level in ("county", "tract", "obg", "place") for quantity in ("total", "race")]


def test_shares_of_a_level_and_of_a_query_are_exact_and_the_others_keep_their_proportions() -> None:
    found = changed(SHARES, ["State=.06", "tract = 1/5"], ["Tract: total=.4", "tract:hispanic*cenrace=.1"])
    assert found.levels["State"] == Fraction(6, 100)
    assert found.levels["Tract"] == Fraction(1, 5)
    assert found.levels["County"] / found.levels["Block"] == SHARES.levels["County"] / SHARES.levels["Block"]
    asked, before = found.queries["Tract"], SHARES.queries["Tract"]
    assert (asked["total"], asked["hispanic*cenrace"]) == (Fraction(2, 5), Fraction(1, 10))
    assert asked["detailed"] / asked["cenrace"] == before["detailed"] / before["cenrace"]
    assert found.queries["County"] == SHARES.queries["County"]


def test_found_weights_become_shares_of_one_part_in_10000_each_positive() -> None:
    found = as_allocation(weights_of(SHARES), SHARES, "a test")
    for level, share in SHARES.levels.items():
        assert float(found.levels[level]) == pytest.approx(float(share), abs=2e-4)
        assert all(alpha >= Fraction(1, 10_000) for alpha in found.queries[level].values())
        assert float(found.queries[level]["detailed"]) == pytest.approx(
            float(SHARES.queries[level]["detailed"]), abs=2e-3
        )


@pytest.mark.parametrize(
    ("levels", "queries", "word"),
    [
        (["Sate=.06"], [], "Sate"),
        (["State"], [], "--level"),
        (["State=0"], [], "State"),
        (["State=1.06"], [], "1.06"),
        (["State=x"], [], "'x'"),
        (["State=.6", "County=.5"], [], "1.1"),
        (["State=.5", "County=.5"], [], "--level"),
        ([], ["total=.4"], "LEVEL: QUERY"),
        ([], ["Trct: total=.4"], "Trct"),
        ([], ["Tract: totl=.4"], "totl"),
        ([], ["Tract: total=.9", "Tract: detailed=.2"], "Tract"),
        ([], ["Tract: total=-1"], "-1"),
    ],
)
def test_shares_without_sense_are_refused_by_their_name(levels: list[str], queries: list[str], word: str) -> None:
    with pytest.raises(Refused, match=word.replace("*", r"\*")):
        changed(SHARES, levels, queries)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("95% of places: largest group within 5 points", "95% of areas (place)"),
        ("99.5 % of Tracts: largest group within 5 points", "99.5% of areas (tract)"),
        ("tract: total error <= 2", "tract: total, mean absolute error at most 2"),
        ("block groups: race at most 1.5", "obg: race, mean absolute error at most 1.5"),
        ("Optimized block groups: total at most 3", "obg: total, mean absolute error at most 3"),
        ("99% of MCDs: largest group within 5 points", "99% of areas (mcd)"),
        ("County subdivision (MCD): total at most 3", "mcd: total, mean absolute error at most 3"),
        ("counties: total margin <= 10", "county: total, mean margin of error at 95% at most 10"),
    ],
)
def test_targets_in_words(text: str, words: str) -> None:
    assert read_target(text, [*ROWS, ("mcd", "total")]).words.startswith(words)


@pytest.mark.parametrize(
    ("read", "text", "word"),
    [
        (read_target, "make it good", "make it good"),
        (read_target, "95% of parishes: largest group within 5 points", "parishes"),
        (
            read_target,
            "95% of towns: largest group within 5 points",
            "more than one level 'towns': write Place, County sub",
        ),
        (read_target, "block groups: total <= 2", "write Optimized block group, Tabulation block group"),
        (read_target, "95% of places: largest grup within 5 points", "not 'largest grup within 5 points'"),
        (read_target, "0% of places: largest group within 5 points", "0%"),
        (read_target, "tract: age error <= 2", "age"),
        (read_target, "tract: total error <= 0", "0"),
        (read_row, "total", "'total'"),
        (read_row, "village: total", "village"),
        (read_aim, "tract: total=heavy", "heavy"),
        (read_aim, "tract: total=0", "'0'"),
        (read_limit, "tract: total", "RATIO"),
        (read_limit, "tract: total <= -1", "-1"),
    ],
)
def test_questions_without_sense_are_refused_by_their_word(read, text: str, word: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(Refused, match=word):
        read(text, [*ROWS, ("mcd", "total"), ("cbg", "total")])


@pytest.mark.ci
@pytest.mark.usefixtures("stages_here")
def test_predicted_errors_fall_with_the_budget_and_the_file_is_one_of_a_run(das: Das, tmp_path: Path) -> None:
    data, file = country(tmp_path), tmp_path / "shares.json"
    words = ("tda", "tune", data, "--persons-budget", "5", "--query", "Tract: total=.5", "--out", file, "--json")
    code, out, err = das(*words, "--check", "1")
    assert err.endswith(f"next: das tda run DATA OUT --persons-allocation {file}\n")
    answered = json.loads(out)
    assert code == 0
    rows = {(row["product"], row["level"], row["quantity"]): row for row in answered["errors"]}
    assert rows["persons", "tract", "total"]["error"] < rows["persons", "tract", "total"]["start"]
    assert rows["units", "block", "occupied"]["error"] == rows["units", "block", "occupied"]["start"]
    assert "measured" in rows["persons", "block", "total"]
    assert {level for (_, level, _), row in rows.items() if row["how"] == "uncalibrated"} == {"county", "aian"}
    assert answered["allocation"] == json.loads(file.read_text())
    assert answered["allocation"]["query_within_geolevel"]["total"]["Tract"] == "1/2"
    assert answered["conclusion"].startswith("The budget of persons is rho 2.5562 → 5. Predicted errors change by -")
    assert float(answered["spends"]["persons"]) == pytest.approx(5 * float(1 - SHARES.levels["US"]))
    assert float(answered["spends"]["units"]) == pytest.approx(0.0745781, rel=1e-6)
    assert f"A run without --us-level spends {answered['spends']['persons']} of it" in answered["conclusion"]
    code, out, _ = das("tda", "tune", data, "--persons-allocation", file, "--solve", "block: total error <= 1")
    assert code == 0
    assert out.startswith("The budget of persons is rho 2.5562 → ")
    assert "block: total, mean absolute error at most 1" in " ".join(out.split())


@pytest.mark.ci
@pytest.mark.usefixtures("stages_here")
def test_a_budget_for_the_best_shares_says_what_these_are_best_for(das: Das, tmp_path: Path) -> None:
    data = country(tmp_path)
    solve = ("tda", "tune", data, "--solve", "80% of counties: largest group within 5 points")
    found = json.loads(das(*solve, "--best", "--keep", "State", "--json")[1])
    of_all, few = sorted(found["solved"]["notes"])[::-1]
    assert '--aim "county: race" seeks those for it alone' in of_all
    assert few.startswith("80% of so few areas is all of them: County 4")
    assert set(found["outside_trials"]) == {"another geography"} | {
        f"a budget of {float(found['solved']['budget']) / 2.55623:.2g} times production's"
    }
    code, _, err = das("tda", "tune", data, "--solve", "80% of blocks: largest group within 5 points")
    assert (code, "there is no such area with 500 persons" in " ".join(err.split())) == (1, True)
    aimed = json.loads(das(*solve, "--best", "--aim", "county: race", "--json")[1])
    assert [note[:3] for note in aimed["solved"]["notes"]] == ["80%"]
    assert float(aimed["solved"]["budget"]) < float(found["solved"]["budget"])


def test_the_conclusion_says_which_aims_and_limits_are_met() -> None:
    best = [
        {"row": "tract: total", "aim": True, "limit": None, "ratio": 0.9},
        {"row": "place: total", "aim": True, "limit": 1.1, "ratio": 1.2},
    ]
    said = conclusion({"errors": [], "best": best}, SHARES, SHARES)
    assert "At an equal budget, the shares that --best found have smaller errors in 1 of 2 aims" in said
    assert said.endswith("Limits passed: place: total 1.200.")
    assert conclusion({"errors": [], "best": best[:1]}, SHARES, SHARES).endswith("than those that it began with.")


@pytest.mark.ci
@pytest.mark.usefixtures("stages_here")
def test_data_without_a_mark_is_refused(das: Das, tmp_path: Path) -> None:
    data = country(tmp_path)
    (data / MARK_FILE).unlink()
    code, out, err = das("tda", "tune", data)
    assert (code, out) == (1, "")
    assert "not marked synthetic or public" in (said := " ".join(err.split()))
    assert "a block table" in said


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("--pareto", "county: total", "counties: Total"), "two different aims, not 'county: total' twice"),
        (("--level", "Stat=.06"), "unknown level 'Stat'"),
        (("--solve", "parish: total <= 3"), "unknown level 'parish'"),
        (("--aim", "county: total"), "are for --best"),
        (("--product", "units", "--best"), "about the shares of persons"),
        ((), "holds person-records.txt, of another system"),
    ],
)
def test_words_are_refused_before_data_is_read(das: Das, tmp_path: Path, words: tuple[str, ...], refusal: str) -> None:
    (tmp_path / "person-records.txt").touch()
    code, out, err = das("tda", "tune", tmp_path, *words)
    assert (code, out) == (1, "")
    assert refusal in " ".join(err.split())


def test_the_page_computes_the_surface_next_to_other_shares(sized: Callable[..., Any], tmp_path: Path) -> None:
    """Sliders in a real browser: with the sum held, errors are those of Python's polynomial, the US level's too."""
    now, before = weights_of(SHARES), weights_of(replace(SHARES, budget=SHARES.budget / 900))

    def predict(weights: Weights) -> dict[Row, float]:
        return {(level, "total"): sum(weights[level].values()) ** -0.5 for level in ("County", "Tract")}

    surface = fit(predict, now, ("County", "Tract"))
    assert surface.off < 0.02  # a sum of weights is no polynomial in their logarithms, but nearly one
    made = content(surface, now, before, predict(before), ["US"])
    (tmp_path / "tune.html").write_text(
        page_of(made, source="blocks", before="theirs.json", off="1%", unit="rho"), encoding="utf-8"
    )
    chromium = sized(1300)
    chromium.get_log("browser")
    chromium.get((tmp_path / "tune.html").as_uri())

    def column(table: str, cell: int) -> list[str]:
        return chromium.execute_script(
            "return [...document.getElementById(arguments[0]).rows].map((row) => row.cells[arguments[1]].textContent)",
            table,
            cell,
        )

    def floats(table: str, cell: int) -> list[float]:
        return [float(text) for text in column(table, cell)]

    assert floats("errors", 1) == pytest.approx(list(predict(before).values()), rel=6e-3)  # far outside the surface
    assert floats("errors", 2) == pytest.approx(list(predict(now).values()), rel=6e-3)
    assert column("errors", 3) == ["−97%", "−97%"]
    budgets = np.array(floats("groups", 4))
    assert floats("groups", 3) == pytest.approx(budgets / 900, rel=6e-3)
    assert not [text for text in column("groups", 3) if "e" in text], "one way of writing budgets, small ones too"
    assert column("groups", 0)[:2] == ["Nation", "County"]
    moved = np.zeros(len(budgets))
    for slider, value in ((1, 1.0), (0, 1.2)):
        chromium.execute_script(
            "const own = document.querySelectorAll('#groups input')[arguments[0]];"
            "own.value = arguments[1]; own.dispatchEvent(new Event('input'))",
            slider,
            value,
        )
        moved[slider] = value
        held = moved - np.log((budgets * np.exp(moved)).sum() / budgets.sum())
        assert floats("errors", 2) == pytest.approx(surface.errors(held[None, 1:])[0], rel=6e-3)
        assert floats("groups", 4) == pytest.approx(budgets * np.exp(held), rel=6e-3)
    said = chromium.find_element("id", "answer").text
    assert "The budget is 2.55623 (before: 0.00284025)" in said
    assert "theirs.json" in chromium.find_element("tag name", "main").text
    assert chromium.get_log("browser") == []


@pytest.mark.ci
@pytest.mark.usefixtures("stages_here")
def test_another_allocation_file_is_what_errors_are_compared_with(das: Das, tmp_path: Path) -> None:
    data, theirs, page = country(tmp_path), tmp_path / "theirs.json", tmp_path / "tune.html"
    theirs.write_text(json.dumps(replace(SHARES, budget=Fraction(1)).as_file()))
    words = ("tda", "tune", data, "--us-level", "--against", theirs, "--html", page)
    code, out, _ = das(*words, "--json")
    assert code == 0
    answered = json.loads(out)
    assert "2.5562" in answered["conclusion"].split("rho 1 → ")[1]
    assert "against the budget and shares of theirs.json" in answered["conclusion"]
    code, out, _ = das("tda", "tune", data, "--persons-allocation", theirs, "--json")
    alone = {(row["level"], row["quantity"]): row["error"] for row in json.loads(out)["errors"]}
    rows = [row for row in answered["errors"] if row["product"] == "persons"]
    assert {(row["level"], row["quantity"]): row["start"] for row in rows} == pytest.approx(
        {key: error for key, error in alone.items() if key[1] != "occupied"}
    )
    text = page.read_text()
    for title in (
        "Areas of 500 and more persons",
        "Predicted bias of the totals of blocks",
        "Mean margin of error at 95%",
    ):
        assert f"<h2>{title}" in text
    start = json.loads(text.split("const START = ")[1].split(";\n")[0])
    assert start["groups"][0]["level"] == "Nation"
    assert start["whole"] == pytest.approx([2.5562, 1], rel=1e-4)
    code, _, err = das(*words[:3], "--against", tmp_path / "missing.json")
    assert (code, "missing.json" in err) == (1, True)
