"""Errors of repeated runs are those of the laws; data without a mark is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from dhca_inputs import HERE, mark_synthetic
from dhcb_inputs import BUDGETS, HouseholdInputs, configuration, households, new_run, settings_here

from flows.execution.repetitions import measure_errors
from privacy.noise.laws import law
from tasks.errors import Refused
from tasks.safetab.households.accuracy import compare, report

RUNS = 8


@pytest.mark.ci
def test_errors_have_the_variance_of_their_noise_and_margins_cover(tmp_path: Path) -> None:
    params, data = HouseholdInputs(households=households(200)).write(tmp_path)
    new_run(tmp_path, "other-us")
    with pytest.raises(Refused, match="not marked"):
        measure_errors(settings_here(tmp_path, params, data, name="other"), HERE, 1, compare)
    mark_synthetic(data)
    settings = settings_here(tmp_path, params, data, estimates=True)
    new_run(tmp_path)
    errors = measure_errors(settings, HERE, RUNS, compare)
    assert errors is not None
    found = report(errors)
    noise = law("zcdp", 1, 9)  # type: ignore[arg-type]
    county = found[(found["LEVEL"] == "(COUNTY, 2)") & (found["OF"] == "COUNT")]
    for row in county.to_dict("records"):
        cells = {"T03001": 1, "T04001": 1, "T04002": 3, "T03004": 5, "T03003": 4, "T03002": 2}[row["DETAIL"]]
        if row["CELL"] == 0:
            deviation = (cells * noise.variance()) ** 0.5
            assert row["RMSE"] == pytest.approx(deviation, rel=5 / (2 * row["COUNTS"]) ** 0.5)
            assert abs(row["BIAS"]) <= 5 * deviation / row["COUNTS"] ** 0.5
        assert row["COVERAGE"] >= 0.95 - 5 * (0.0475 / row["COUNTS"]) ** 0.5
    both = found[found["CELL"] == 0].groupby("OF")[["RMSE", "MARGIN"]].mean()
    assert (both.loc["ESTIMATE"] < both.loc["COUNT"]).all()
    assert not (tmp_path / "runs/run-us/trials/0").exists()


def test_infinite_budgets_are_refused_before_the_data_is_read(tmp_path: Path) -> None:
    inputs = HouseholdInputs(config=configuration(**{BUDGETS[0]: float("inf")}))
    params, data = inputs.write(tmp_path)
    mark_synthetic(data)
    with pytest.raises(Refused, match="is infinite: only `das truth`"):
        measure_errors(settings_here(tmp_path, params, data), HERE, 1, compare)


def test_details_that_no_group_has_are_left_out(tmp_path: Path) -> None:
    inputs = HouseholdInputs()
    inputs.totals = [(*group, "-2") for *group, _ in inputs.totals or ()]
    params, data = inputs.write(tmp_path)
    mark_synthetic(data)
    new_run(tmp_path)
    errors = measure_errors(settings_here(tmp_path, params, data), HERE, 1, compare)
    assert errors is not None
    assert set(errors["DETAIL"]) == {"T03001", "T04001"}
