"""`das bottom-up` as a person types it."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
from e2e_runs import ACCOUNT, open_account

from privacy.accounting.composition import spend
from privacy.accounting.ledger import Request
from privacy.noise.laws import TwoSidedGeometric
from privacy.noise.margins import margin_of_error
from tasks.bottom_up.example import Example, make_example

pytestmark = pytest.mark.usefixtures("stages_here")


@pytest.fixture
def das_tune(das):
    return partial(das.func, "tune")


@pytest.fixture
def das(das):
    """Run `das bottom-up ARGUMENTS`; returns (exit code, stdout, stderr)."""
    return partial(das, "bottom-up")


@pytest.fixture
def made(tmp_path: Path) -> Example:
    return make_example(tmp_path / "made", 20_000, states=12, counties=4)


COUNTS = ("--counts", "120,40,15,900,300,60,5,0,20,10")


def test_noise_table_has_the_closed_forms(das):
    code, out, _ = das("noise", "--epsilon", "0.5", "--cells", "1", "--cells", "100", "--json")
    (result,) = json.loads(out)
    assert (code, result["epsilon"]) == (0, "1/2")
    assert result["deviation"] == pytest.approx(7.835396**0.5, abs=1e-6)
    assert result["margins"][0]["margin"] == 6


def test_a_declaration_is_tuned_before_its_run(das_tune, made):
    """Each marginal's margin is that of the most cells that one of its counts sums; of a sample the epsilon is less."""
    code, out, _ = das_tune(made.declaration, "--total", "1/2", "--margin", "100", "--json")
    found = json.loads(out)
    rows = {row["query"]: row for row in found["queries"]}
    assert (code, rows["the histogram"]["margins"], rows["the total"]["cells"]) == (0, [6], [48 * 200])
    law = TwoSidedGeometric(Fraction(2))
    for name, cells in (("STATE", 4 * 200), ("SEX, STATE", 4 * 100), ("COUNTY, SEX", 100)):
        assert (rows[name]["cells"], rows[name]["margins"]) == ([cells], [margin_of_error(law, cells)])
        least = Fraction(str(rows[name]["least_budget"][0]))
        assert margin_of_error(TwoSidedGeometric(1 / least), cells) <= 100
    assert "costs epsilon 0.151 in place of 0.5" in found["notes"][0]
    code, out, err = das_tune(made.declaration, "--gamma", "0.3")
    assert (code, out, "--gamma: a declaration of das bottom-up takes" in " ".join(err.split())) == (2, "", True)


def test_a_margin_of_a_trillion_cells_is_proved_at_once(das):
    _, out, _ = das("noise", "--epsilon", "1", "--cells", 10**12, "--json")
    # the deviation is sqrt(2 e^-1 cells) / (1 - e^-1) = 1,356,964.7, and 1.959964 of it the normal margin
    assert json.loads(out)[0]["margins"][0]["margin"] == 2659598


def test_curve_has_the_closed_forms(das):
    code, out, _ = das("curve", *COUNTS, "--epsilon", "1", "--epsilon", "50", "--json")
    result = json.loads(out)
    assert (code, result["cells"]) == (0, 10)
    assert [point["a1"] for point in result["points"]] == pytest.approx([0.99421, 1], abs=5e-6)
    assert "NOT PRIVATE" in result["notes"][0]
    _, text, _ = das("curve", *COUNTS, "--epsilon", "1", "--format", "csv")
    assert text.splitlines() == ["epsilon,L1,L2,A1,A2", "1,0.85092,1.8413,0.99421,0.99998"]


@pytest.mark.ci
def test_charts_name_axes_and_units_and_follow_the_page(das, tmp_path):
    for name in ("curve.svg", "curve.png"):
        assert das("curve", *COUNTS, "--plot", tmp_path / name)[0] == 0
    svg = (tmp_path / "curve.svg").read_text()
    for text in (
        "privacy-loss budget ε",
        "accuracy (1 is exact)",
        "L2, mean squared [records²]",
    ):
        assert text in svg
    assert "prefers-color-scheme:dark" in svg
    assert "#0a0b0c" not in svg  # all ink is the page's
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("noise", "--epsilon", "-1"), "--epsilon is a positive number, not -1"),
        (("noise", "--epsilon", "0"), "--epsilon is a positive number, not 0"),
        (("noise", "--epsilon", "nan"), "--epsilon is a positive number, not 'nan'"),
        (("curve", *COUNTS, "--epsilon", "1e999999999"), "--epsilon is a positive number"),
        (("curve", "--counts", "1,x"), "whole numbers"),
        (("curve", "--counts", "1,-2"), "cannot be negative"),
        (("curve", "--counts", "0,0"), "sum to 0"),
        (("curve", *COUNTS, "--plot", "curve.gif"), ".svg, .png, .pdf"),
        (("curve", *COUNTS, "--plot", "/nowhere/curve.svg"), "cannot be written"),
        (("run", "t.csv", "/nowhere.toml", "out", "--epsilon", "1"), "cannot be read"),
        (("run", "--resume", "nobody"), "no confidential directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_refused_in_one_line(refused, arguments, message):
    refused(message, *arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--epsilon", "-1"), "epsilon must be positive"),
        (("--epsilon", "much"), "is not a number"),
        (("--epsilon", "1", "--marginal", "TOWN"), "no axis, level or recode 'TOWN'"),
        (("--epsilon", "1", "--tolerance", "-1"), "tolerance must not be negative"),
        (("--epsilon", "1", "--run-id", "../up"), "run_id"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_options_of_a_run_are_refused_before_it_starts(refused, made, tmp_path, options, message):
    refused(message, "run", made.table, made.declaration, tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_usage_is_exit_2(das):
    assert das("curve")[0] == 2
    assert das("run", "table.csv", "declaration.toml", "out", "--epsilon", "1", "--calibration", "magic")[0] == 2


def test_example_writes_what_a_run_needs(das, tmp_path):
    code, out, _ = das("example", tmp_path / "new", "--rows", "100", "--json")
    assert (code, set(json.loads(out))) == (0, {"table", "declaration", "totals"})
    assert das("example", tmp_path / "new")[0] == 1


def test_resume_knows_a_released_run_and_one_that_is_not_yet_in_its_place(das, tmp_path):
    """That a run directory is of one system: tests/flows/test_runs.py."""
    state = tmp_path / "state"
    ledger = open_account(state, 1, "puredp")
    request = Request("done", ACCOUNT, ("01",), spend("puredp", [Fraction(1)]), "d", "c", 1, "r")
    ledger.reserve(request, lambda: "secret")
    ledger.seal("done", "digest")
    assert das("run", "--resume", "done", "--runs-folder", state)[0] == 1
    ledger.release("done", "digest")
    code, out, _ = das("run", "--resume", "done", "--runs-folder", state)
    assert (code, out) == (0, "run done is released; there is nothing to resume\n")
