"""das accuracy: its errors are those of released files and follow their law, and data of persons is refused."""

from __future__ import annotations

import csv
import json
import shutil
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from dhca_inputs import HERE, new_run, settings_here, truth_here, validate
from e2e_runs import FEW_LEVELS
from hypothesis import example as case
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from flows.execution.repetitions import measure_accuracy, open_trial, trial_directory
from flows.execution.runner import Ask, InProcess, release_truth
from flows.execution.safetab_settings import DetailedDhcaSettings
from privacy.accounting.composition import spend
from privacy.accounting.ledger import Account, Ledger, Request
from privacy.analyses.error_measures import quantile_95
from tasks.errors import Refused
from tasks.lifecycle.authorization import SECRET, mark_repetition
from tasks.records.marks import MARK_FILE
from tasks.safetab.levels import Level
from tasks.safetab.persons.accuracy.errors import BY, LARGEST, NOT_PUBLISHED, Accuracy
from tasks.safetab.persons.accuracy.report import ALL, WORKLOADS, Report, make_report, size_name
from tasks.safetab.persons.details import AGES, CELLS_OF, DETAILS
from tasks.safetab.persons.run import DetailedRun
from tasks.safetab.run import claim

pytestmark = pytest.mark.usefixtures("untidy")
RUNS = 2
KEY = ["OF", "REGION_TYPE", "ITERATION_LEVEL", "SIZE", "WORKLOAD", "COUNT_OF"]
GROUP = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE"]


def fixed_secret(run: DetailedRun, number: int) -> None:
    mark_repetition(run)
    (run / SECRET).write_bytes(bytes([number] * 32))


def settings_of(run: DetailedRun, example: Path, **options: Any) -> DetailedDhcaSettings:
    return settings_here(run.runs_folder, example / "params", example / "data", run_id=run.id, **options)


def measured(run: DetailedRun, example: Path, runs: int = 1, *, estimates: bool = False) -> Accuracy:
    accuracy = measure_accuracy(settings_of(run, example, estimates=estimates), HERE, runs)
    assert accuracy is not None
    return accuracy


def repeat(example: Path, place: Path, runs: int, *, estimates: bool = False) -> Report:
    """The report of an example repeated with the secrets 000..., 111... and so on."""
    run = new_run(place)
    for number in range(runs):
        trial_directory(run, number).create()
        fixed_secret(trial_directory(run, number), number)
    report = make_report(measured(run, example, runs, estimates=estimates))
    assert not [path for path in (run / "trials").iterdir() if path.is_dir()]  # secrets and noisy counts are gone
    return report


def changed(example: Path, place: Path, **changes: object) -> Path:
    """The example with another configuration."""
    shutil.copytree(example, place)
    config = place / "params/config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | changes))
    return place


@pytest.fixture(scope="module")
def few_levels(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with levels of its states and counties alone: a run takes as long as it has levels."""
    return changed(example, tmp_path_factory.mktemp("few") / "example", **FEW_LEVELS)


@pytest.fixture(scope="module")
def repeated(example: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The bundled example, repeated."""
    return repeat(example, tmp_path_factory.mktemp("accuracy"), RUNS)


def release(example: Path, place: Path, number: int, *, estimates: bool) -> Path:
    """The files of a run with one of these secrets."""
    run = new_run(place, f"run-{number}")
    fixed_secret(run, number)
    runner = InProcess(settings_of(run, example, estimates=estimates), HERE, before="commit")
    runner.run()
    return runner.staged


def read(place: Path, table: str) -> pd.DataFrame:
    """t1 or t2 of a release with its margins; the name of each file tells the iteration level."""
    paths = sorted((place / "parquet" / table).glob("*.parquet"))
    return pd.concat(pd.read_parquet(path).assign(ITERATION_LEVEL=int(path.stem[-1])) for path in paths)


def errors_of(place: Path, truth: Path, detailed_only: set[str], of: str) -> pd.DataFrame:
    """Every count, or estimate, of a release with the true one: a sum of true sex by age23 cells of its group."""
    folder, column = {"count": ("", "COUNT"), "estimate": ("estimates/", "ESTIMATE")}[of]
    t1, t2, true_t2 = read(place, f"{folder}t1"), read(place, f"{folder}t2"), read(truth, "t2")
    sizes = read(truth, "t1").set_index(GROUP)["COUNT"].to_dict()
    ages: dict[tuple[str, ...], np.ndarray] = {}
    for *key, start, count in true_t2[true_t2["AGESTART"] != "*"][[*GROUP, "SEX", "AGESTART", "COUNT"]].to_numpy():
        ages.setdefault(tuple(key), np.zeros(116, int))[int(start)] = count
    t1["COUNT_OF"], t2["COUNT_OF"] = "table", np.where(t2["AGESTART"] == "*", "sex", "cell")
    widths = t2[t2["COUNT_OF"] == "cell"].groupby(GROUP).size().to_dict()
    rows = []
    for row in pd.concat([t1, t2]).to_dict("records"):
        group = tuple(str(row[name]) for name in GROUP)
        if row["COUNT_OF"] == "table":
            true = sizes.get(group, 0)
        else:
            low, high = (0, 115) if row["AGESTART"] == "*" else (int(row["AGESTART"]), int(row["AGEEND"]))
            true = ages[*group, str(row["SEX"])][low : high + 1].sum()
        by_age = {CELLS_OF[DETAILS[at]]: f"Sex x Age({len(bins)})" for at, bins in AGES.items()}
        row["WORKLOAD"] = by_age.get(widths.get(group), "TotalOnly" if group[2] in detailed_only else "Total")
        row["SIZE"] = "0" if not sizes.get(group) else SIZE_NAMES[max(len(str(sizes[group] - 1)), 1)]
        rows.append({**row, "OF": of, "ERROR": row[column] - true, "TRUE": true})
    return pd.DataFrame(rows)


SIZE_NAMES = {1: "1-10", 2: "11-100", 3: "101-1000", 4: "1001-10000"}  # by the digits of size - 1


def hold_against_files(report: Report, example: Path, place: Path) -> None:
    """Hold a report against the released files of runs with its secrets, and against the truth.

    The truth has a sex by age23 table of every group, for its thresholds are 0.
    """
    levels = json.loads((example / "params/config.json").read_text())["thresholds_p"]
    finest = changed(example, place / "finest", thresholds_p={level: [0, 0, 0] for level in levels})
    truth = truth_here(place, finest / "params", finest / "data")
    detailed_only = set()
    for name in ("race", "ethnicity"):
        with open(example / f"params/{name}-characteristic-iterations.txt", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="|"))
        detailed_only |= {row["ITERATION_CODE"] for row in rows if row["DETAILED_ONLY"] == "True"}
    kinds = sorted(set(report.errors["OF"]))
    runs = range(report.accuracy.runs)
    places = [release(example, place, number, estimates="estimate" in kinds) for number in runs]
    hold_against_manifests(report, places)
    released = [errors_of(each, truth, detailed_only, of) for each in places for of in kinds]
    expected = dict(iter(pd.concat(released).groupby(KEY)))
    table = report.errors[report.errors["SIZE"] != ALL]
    assert {tuple(key) for key in table[KEY].to_numpy()} == set(expected)
    assert set(table["WORKLOAD"]) == set(WORKLOADS)
    assert (table["NOISE_OF"] != table["REGION_TYPE"]).any()  # the example has coterminous recipients
    for key, rows in table.groupby(KEY):
        errors, margins, true = (expected[key][name].to_numpy() for name in ("ERROR", "MOE", "TRUE"))
        size, near = np.abs(errors), (true > 0) & (20 * np.abs(errors) <= true)
        assert rows["COUNTS"].sum() == len(errors)
        assert rows["BIAS"] @ rows["COUNTS"] == pytest.approx(errors.sum())
        assert rows["RMSE"] ** 2 @ rows["COUNTS"] == pytest.approx((errors**2).sum())
        assert rows["COVERAGE"] @ rows["COUNTS"] == pytest.approx((np.abs(errors) <= margins).sum())
        assert rows["WITHIN_5"] @ rows["COUNTS"] == pytest.approx(100 * (size <= 5).sum())
        assert rows["OUTLIERS"] @ rows["COUNTS"] == pytest.approx(100 * (~near & (size > 5)).sum())
        if len(rows) == 1 and (true > 0).any():
            assert rows["MAPE"].iloc[0] == pytest.approx(100 * (size[true > 0] / true[true > 0]).mean())
            assert rows["WITHIN_5_PERCENT"].iloc[0] == pytest.approx(100 * near[true > 0].mean())
        assert (rows["MOE"].min(), rows["MOE_LARGEST"].max()) == (margins.min(), margins.max())
        if key[0] == "count":
            assert set(rows["MOE"]) == set(margins)


def hold_against_manifests(report: Report, places: list[Path]) -> None:
    """Groups of the domain, and groups published at each detail."""
    everyone = report.workloads[report.workloads["SIZE"] == ALL]
    manifests = [json.loads((place / "manifest.json").read_text())["levels"] for place in places]
    assert len(everyone) == len(manifests[0])
    for row in everyone.to_dict("records"):
        levels = [manifest[f"({row['REGION_TYPE']}, {row['ITERATION_LEVEL']})"] for manifest in manifests]
        assert row["GROUPS"] == levels[0]["groups"]
        for name, detail in zip(WORKLOADS, DETAILS, strict=True):
            published = sum(level["groups_published"][detail] for level in levels)
            assert row[name] * row["GROUPS"] * len(places) == pytest.approx(published)


@pytest.mark.ci
def test_errors_are_those_of_the_released_files(repeated: Report, example: Path, tmp_path: Path) -> None:
    hold_against_files(repeated, example, tmp_path)


@pytest.mark.slow
def test_errors_of_clipped_counts_piece_by_piece(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.safetab.domain.GROUPS_EACH", 64)  # a region or two a piece
    clipped = changed(example, tmp_path / "clipped", allow_negative_counts=False)
    report = repeat(clipped, tmp_path / "runs", 1, estimates=True)
    hold_against_files(report, clipped, tmp_path)
    gains = report.gains()
    assert set(gains["COUNT_OF"]) == {"table", "sex", "cell"}
    only = gains[gains["WORKLOAD"] == "TotalOnly"]
    assert len(only)
    assert (only["GAIN"] == 0).all()  # one answer: the estimate is the count


def test_without_estimates_there_are_no_gains(repeated: Report) -> None:
    assert set(repeated.errors["OF"]) == {"count"}
    assert repeated.gains().empty


def test_counts_without_suppression_follow_the_stated_law(repeated: Report) -> None:
    """Coverage of unsuppressed counts is binomial. At 1e-6 a row, fresh secrets would fail one time in 10,000."""
    table = repeated.errors
    certain = (table["COUNT_OF"] == "cell") | table["REGION_TYPE"].isin(["USA", "STATE"])
    rows = table[certain & (table["SIZE"] == ALL)]
    assert len(rows) < 100
    for row in rows.to_dict("records"):
        within = round(row["COVERAGE"] * row["COUNTS"])
        assert binomtest(within, row["COUNTS"], row["NOISE_COVERAGE"]).pvalue > 1e-6, row


def test_suppression_shows(repeated: Report) -> None:
    shares = repeated.workloads.set_index(["REGION_TYPE", "ITERATION_LEVEL", "SIZE"])
    assert shares[[*WORKLOADS, "SUPPRESSED"]].sum(axis=1).to_numpy() == pytest.approx(1)
    assert (shares.loc[["USA", "STATE"], "SUPPRESSED"].abs() < 1e-9).all()
    assert (shares.loc[("TRACT", 2, "1-10"), "SUPPRESSED"] > 0.9).all()
    groups = shares["GROUPS"].unstack()
    assert (groups.drop(columns=ALL).sum(axis=1) == groups[ALL]).all()


def test_each_run_has_noise_of_its_own(repeated: Report) -> None:
    """Two runs of the same noise would have every error twice."""
    assert RUNS == 2
    assert (repeated.accuracy.errors.groupby(BY)["number"].sum() % RUNS).any()


def test_fresh_secrets(few_levels: Path, tmp_path: Path) -> None:
    """No secret given: two calls draw other noise."""
    first, second = (measured(new_run(tmp_path, name), few_levels).errors for name in "ab")
    assert not first.equals(second)
    groups = [each[(each["statistic"] == 0)].groupby("level")["number"].sum().tolist() for each in (first, second)]
    assert groups[0] == groups[1]


def test_the_truth_has_no_error(few_levels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.execution.repetitions.authorize", lambda *_: None)  # nothing to draw
    run = new_run(tmp_path)
    trial = trial_directory(run, 0)
    trial.create()
    (trial / "TRUTH").touch()
    report = make_report(measured(run, few_levels))
    assert set(report.accuracy.errors["error"]) == {0}
    assert set(report.errors["COVERAGE"]) == {1}


def test_data_of_persons_is_refused(example: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(example / "data", data)
    (data / MARK_FILE).unlink()
    run, out = new_run(tmp_path), tmp_path / "out"
    with pytest.raises(Refused, match="not marked synthetic"):
        measure_accuracy(settings_of(run, example).model_copy(update={"data": str(data)}), HERE, 1)
    assert not out.exists()
    settings = settings_of(run, example)
    ask = Ask(InProcess(settings, HERE), run.validated, partial(claim, jurisdiction="us", options={}))
    with pytest.raises(Refused, match="this data needs an account"):  # without that check, by the reservation
        open_trial(ask, 0)
    assert not list(run.path.rglob(SECRET))


def test_data_that_was_charged_is_refused_whatever_its_mark_says(example: Path, tmp_path: Path) -> None:
    run, ledger = new_run(tmp_path), Ledger(tmp_path / "runs/ledger.sqlite")
    inputs = (str(example / "params"), str(example / "data"))
    seen = validate(run, HERE, *inputs, "us")
    assert seen is not None
    ledger.open_account(Account("a", "zcdp", Fraction(1)))
    digests = {"input_digest": "of another geography", "records_digests": seen.records_digests}
    request = Request(
        "real", "a", ("44",), spend("zcdp", [Fraction(1)]), configuration_digest="c", noise_scheme=1, **digests
    )
    ledger.reserve(request, str)
    with pytest.raises(Refused, match="charged for as confidential before"):
        measure_accuracy(settings_of(run, example), HERE, 1)
    for curator in (False, True):
        with pytest.raises(Refused, match="charged for as confidential before"):
            release_truth(settings_of(run, example, out=str(tmp_path / "out")), HERE, curator=curator)
    assert not (tmp_path / "out").exists()
    assert not list(run.path.rglob(SECRET))
    assert not ledger.books().marked


def test_infinite_budgets_are_refused(example: Path, tmp_path: Path) -> None:
    noiseless = changed(example, tmp_path / "noiseless", privacy_budget_p_level_2_tract=float("inf"))
    run = new_run(tmp_path)
    with pytest.raises(Refused, match="infinite"):
        measured(run, noiseless)
    assert not (run / "counts").exists()


@case({0: 19, 5: 1})  # exactly 5% are beyond 0
@given(st.dictionaries(st.integers(-30, 30), st.integers(1, 9), min_size=1))
def test_quantiles(tally: dict[int, int]) -> None:
    error, number = (np.array(list(part)) for part in (tally.keys(), tally.values()))
    every = np.abs(np.repeat(error, number))
    assert quantile_95(error, number) == min(m for m in every if 20 * (every > m).sum() <= len(every))


@pytest.mark.parametrize(
    ("size", "name"),
    [(0, "0"), (1, "1-10"), (2, "1-10"), (10, "1-10"), (11, "11-100"), (1000, "101-1000"), (1001, "1001-10000")],
)
def test_size_classes(size: int, name: str) -> None:
    assert size_name(int(np.searchsorted(LARGEST, size))) == name


def test_nothing_published_is_said() -> None:
    suppressed = pd.DataFrame({**dict.fromkeys([*BY, "number"], 0), "detail": NOT_PUBLISHED}, index=[0])
    with pytest.raises(Refused, match="no errors to report"):
        make_report(Accuracy(1, True, (Level("USA", 1),), (), suppressed))
