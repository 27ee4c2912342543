"""Errors of repeated runs are those of the laws; data without a mark is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from dhca_inputs import HERE, mark_synthetic
from dhcb_inputs import BUDGETS, HouseholdInputs, configuration, households, new_run, only, settings_here

from flows.execution.repetitions import measure_errors
from privacy.noise.laws import law
from privacy.noise.margins import margin_of_error
from tasks.errors import Refused
from tasks.releases.errors import figures

RUNS = 4


@pytest.mark.ci
def test_errors_have_the_variance_of_their_noise_and_margins_cover(tmp_path: Path) -> None:
    made = HouseholdInputs(households=households(200), config=configuration(**only("2_county")))
    params, data = made.write(tmp_path)
    new_run(tmp_path, "other-us")
    with pytest.raises(Refused, match="not marked"):
        measure_errors(settings_here(tmp_path, params, data, name="other"), HERE, 1)
    mark_synthetic(data)
    settings = settings_here(tmp_path, params, data, estimates=True)
    new_run(tmp_path)
    errors = measure_errors(settings, HERE, RUNS)
    assert errors is not None
    found = figures(errors)
    noise = law("zcdp", 1, 9)  # type: ignore[arg-type]
    parts = {"t3-t03001": 1, "t4-t04001": 1, "t4-t04002": 3, "t3-t03004": 5, "t3-t03003": 4, "t3-t03002": 2}
    counts = found[found["OF"] == "COUNT"]
    assert {name.removesuffix("-county-2") for name in counts["TABLE"]} >= {*parts}
    for row in counts.to_dict("records"):
        if row["ROW"] in ("", "T3_DATA_CELL 0", "T4_DATA_CELL 0"):  # a table that has one cell does not name it
            cells = parts[row["TABLE"].removesuffix("-county-2")]
            deviation = (cells * noise.variance()) ** 0.5
            assert row["RMSE"] == pytest.approx(deviation, rel=5 / (2 * row["COUNTS"]) ** 0.5)
            assert abs(row["BIAS"]) <= 5 * deviation / row["COUNTS"] ** 0.5
            assert row["MARGIN"] == margin_of_error(noise, cells)
        assert row["COVERAGE"] >= 0.95 - 5 * (0.0475 / row["COUNTS"]) ** 0.5
    both = figures(errors, ["OF"]).set_index("OF")
    assert (both.loc["ESTIMATE", ["RMSE", "MARGIN"]] < both.loc["COUNT", ["RMSE", "MARGIN"]]).all()
    assert not any(path.is_dir() for path in (tmp_path / "runs/run-us/trials").glob("[0-9]"))
    assert not any((tmp_path / "runs/run-us/repeated").glob(".us-[0-9]*.partial"))


def test_infinite_budgets_are_refused_before_the_data_is_read(tmp_path: Path) -> None:
    inputs = HouseholdInputs(config=configuration(**{BUDGETS[0]: float("inf")}))
    params, data = inputs.write(tmp_path)
    mark_synthetic(data)
    with pytest.raises(Refused, match="is infinite: only `das truth`"):
        measure_errors(settings_here(tmp_path, params, data), HERE, 1)


def test_details_that_no_group_has_are_left_out(tmp_path: Path) -> None:
    inputs = HouseholdInputs(config=configuration(**only("2_county")))
    inputs.totals = [(*group, "-2") for *group, _ in inputs.totals or ()]
    params, data = inputs.write(tmp_path)
    mark_synthetic(data)
    new_run(tmp_path)
    errors = measure_errors(settings_here(tmp_path, params, data), HERE, 1)
    assert errors is not None
    assert {name[:9] for name in errors["TABLE"]} == {"t3-t03001", "t4-t04001"}
