"""What a review board would check: over repeated runs with fresh secrets, releases err as their manifests say.

The runs do all that makes a release, without Prefect and Dask, on the bundled example, coterminous geographies
included. Secrets come from a seeded generator, so the outcome is always the same. Each statistic may be 5 standard
deviations from its expectation, and each chi-square test fails at 1e-6: under fresh seeds a right implementation would
fail somewhere in this file with a chance below 1e-4.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dhca_inputs import Here, mark_synthetic
from e2e_runs import directory, go, reconfigure, settings_for
from numpy.typing import NDArray
from scipy import stats

from tasks.lifecycle.authorization import AUTHORIZATION, SECRET
from tasks.lifecycle.staging import staging
from tasks.lifecycle.workers import Workers
from tasks.releases.manifest import read_manifest
from tasks.safetab.domain import Domain, load_domain
from tasks.safetab.exact_counts import read_exact_counts
from tasks.safetab.levels import Level
from tasks.safetab.persons.details import AGES, TOTAL, TOTAL_ONLY, WIDTHS, in_bins
from tasks.safetab.persons.run import DetailedRun

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
HERE: Workers = Here()  # type: ignore[assignment]
RUNS = 20
DEVIATIONS = 5
CHANCE = 0.8  # that the noisy total of an empty group is suppressed
EMPTIED = ("000200", "000300")  # tracts that nobody lives in here, so that there are empty groups
LEFT_OUT = ("1_state", "1_county", "1_tract", "1_place", "2_aiannh")  # levels; the others are enough
DETAIL_OF_ROWS = {int(WIDTHS[detail]) + 2: detail for detail in AGES}


@dataclass(frozen=True)
class Law:
    """A law of noise as the manifest states it, in floats: whole numbers and their chances."""

    values: NDArray[np.int64]
    chances: NDArray[np.float64]

    @classmethod
    def stated(cls, query: dict[str, str], stability: int) -> Law:
        """From the parameter alone, which is what budget and stability make it and has the variance too."""
        gaussian = "sigma_squared" in query
        exact = Fraction(query["sigma_squared" if gaussian else "scale"])
        assert exact == stability / Fraction(query["budget"]) / (2 if gaussian else 1)
        parameter = float(exact)
        values = np.arange(-4000, 4001)
        weight = np.exp(-(values**2.0) / (2 * parameter)) if gaussian else np.exp(-np.abs(values) / parameter)
        law = cls(values, weight / weight.sum())
        assert law.variance == pytest.approx(query["variance"], rel=1e-9)
        return law

    @property
    def variance(self) -> float:
        return float((self.values**2.0) @ self.chances)

    @property
    def kurtosis(self) -> float:
        return float((self.values**4.0) @ self.chances) / self.variance**2


@dataclass
class Errors:
    """Errors of released counts whose noise is the sum of `cells` draws of one law, and their margins."""

    law: Law
    cells: int
    errors: list[NDArray[np.int64]] = field(default_factory=list)
    margins: list[NDArray[np.int64]] = field(default_factory=list)

    @property
    def error(self) -> NDArray[np.int64]:
        return np.concatenate(self.errors)

    @property
    def margin(self) -> NDArray[np.int64]:
        return np.concatenate(self.margins)


@dataclass
class Board:
    """What a number of runs released, and what was true."""

    found: dict[tuple[Level, str, int], Errors] = field(default_factory=dict)
    zeros: dict[Level, list[int]] = field(default_factory=dict)  # published, of how many
    chance: dict[Level, float] = field(default_factory=dict)  # with which they are published

    def of(self, kind: str) -> list[Errors]:
        """Errors of T1 counts, of the sums of a sex, or of single cells."""
        return [errors for (_, name, _), errors in self.found.items() if name == kind]


@pytest.fixture(scope="module", params=["zcdp", "puredp"])
def board(request: pytest.FixtureRequest, example: Path, tmp_path_factory: pytest.TempPathFactory) -> Board:
    """The outcome of RUNS runs under one privacy definition."""
    folder = tmp_path_factory.mktemp(request.param) / "country"
    shutil.copytree(example, folder)
    budgets = {
        f"privacy_budget_p_level_{name}": 0 for name in ("1_state", "1_county", "1_tract", "1_place", "2_aiannh")
    }
    changes = {"privacy_defn": request.param, "zero_suppression_chance": CHANCE, "run_pr": False}
    reconfigure(folder / "params", **budgets, **changes)
    header, *persons = (folder / "data/person-records.txt").read_text().splitlines(keepends=True)
    column = header.split("|").index("TABTRACTCE")
    left = [person for person in persons if person.split("|")[column] not in EMPTIED]
    (folder / "data/person-records.txt").write_text("".join([header, *left]))
    mark_synthetic(folder / "data")
    settings = settings_for(folder, "run-us", account=None)
    go(settings, HERE, before="reserve budget")
    run, random, board = directory(settings), np.random.default_rng(2020), Board()
    for _ in range(RUNS):
        shutil.rmtree(run / "noisy", ignore_errors=True)
        (run / AUTHORIZATION).unlink(missing_ok=True)
        (run / SECRET).write_bytes(random.bytes(32))
        go(settings, HERE, before="commit")
        _note(board, run, staging(run, Path(settings.out), "us"))
    return board


def _note(board: Board, run: DetailedRun, release: Path) -> None:
    manifest = read_manifest(release)
    shared = {tuple(region.split(" ")) for regions in manifest["coterminous_sets"] for region in regions}
    for level in run.parameters.configuration.levels("us"):
        domain, stated = load_domain(run, level), manifest["levels"][str(level)]
        own = np.array([(level.region_type, region) not in shared for region in domain.region_ids])
        t1 = pq.read_table(release / f"parquet/t1/{level.slug}.parquet").to_pydict()
        group = _groups(domain, t1["REGION_ID"], t1["ITERATION_CODE"])
        count, margin = np.array(t1["COUNT"]), np.array(t1["MOE"])
        tables = dict(_tables(domain, release / f"parquet/t2/{level.slug}.parquet"))
        detail = np.array([_detail(domain, number, tables) for number in group])
        exact = read_exact_counts(run, level, 0, len(domain.region_ids))
        totals = exact.totals()

        def note(kind: str, at: int, cells: int, error: NDArray[np.int64], margin: NDArray[np.int64]) -> None:
            query = stated["queries"]["total_only" if at == TOTAL_ONLY else "stage_2"]  # noqa: B023
            found = board.found.setdefault((level, kind, at), Errors(Law.stated(query, stated["stability"]), cells))  # noqa: B023
            found.errors.append(error.ravel())
            found.margins.append(margin.ravel())

        chosen = own[group // len(domain.iterations)] & ((detail != TOTAL) | level.nation_or_state)
        for at in np.unique(detail[chosen]):
            rows = chosen & (detail == at)
            note("T1", at, int(WIDTHS[at]), (count - totals[group])[rows], margin[rows])
        for number, (at, noisy, margins) in tables.items():
            if own[number // len(domain.iterations)]:
                cells = in_bins(exact.cells(np.array([number])), at).reshape(2, -1)
                note("sex", at, cells.shape[1], noisy[:2] - cells.sum(axis=1), margins[:2])
                note("cell", at, 1, noisy[2:].reshape(-1, 2).T - cells, margins[2:].reshape(-1, 2).T)
        if not level.nation_or_state:
            empty = (totals == 0) & np.repeat(own, len(domain.iterations))
            empty[list(tables)] = False  # what has a table was never up for suppression
            seen = board.zeros.setdefault(level, [0, 0])
            seen[0] += int(empty[group].sum())
            seen[1] += int(empty.sum())
            law = Law.stated(stated["queries"]["stage_2"], stated["stability"])
            board.chance[level] = float(law.chances[law.values > stated["suppressed_up_to"]].sum())


def _groups(domain: Domain, regions: list[str], codes: list[str]) -> NDArray[np.int64]:
    region, code = (
        {name: at for at, name in enumerate(names)} for names in (domain.region_ids, domain.iteration_codes)
    )
    pairs = zip(regions, codes, strict=True)
    return np.array([region[row] * len(code) + code[other] for row, other in pairs], np.int64)


def _tables(domain: Domain, path: Path) -> Iterator[tuple[int, tuple[int, NDArray[np.int64], NDArray[np.int64]]]]:
    """Detail, counts and margins of every group that has a table."""
    rows = pq.read_table(path).to_pydict()
    groups = _groups(domain, rows["REGION_ID"], rows["ITERATION_CODE"])
    count, margin = np.array(rows["COUNT"], np.int64), np.array(rows["MOE"], np.int64)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(groups)], strict=True):
        yield int(groups[start]), (DETAIL_OF_ROWS[stop - start], count[start:stop], margin[start:stop])


def _detail(domain: Domain, group: int, tables: dict[int, tuple[int, NDArray[np.int64], NDArray[np.int64]]]) -> int:
    if group in tables:
        return tables[group][0]
    return TOTAL_ONLY if domain.total_only[group % len(domain.iterations)] else TOTAL


@pytest.mark.parametrize(("kind", "sums"), [("T1", {1, 8, 18}), ("sex", {4, 9}), ("cell", {1})])
def test_errors_have_the_stated_mean_and_variance(board: Board, kind: str, sums: set[int]) -> None:
    """Of a sum of k draws the variance is k times one's, and the excess of the kurtosis over 3 a k-th of one's."""
    found = board.of(kind)
    assert {errors.cells for errors in found} >= sums
    standard = [errors.error / np.sqrt(errors.cells * errors.law.variance) for errors in found]
    total, draws = sum(float(values.sum()) for values in standard), sum(len(values) for values in standard)
    assert abs(total) < DEVIATIONS * np.sqrt(draws)
    surplus = sum(float((values**2 - 1).sum()) for values in standard)
    spread = sum(
        len(values) * (2 + (errors.law.kurtosis - 3) / errors.cells)
        for values, errors in zip(standard, found, strict=True)
    )
    assert abs(surplus) < DEVIATIONS * np.sqrt(spread)


def test_totals_of_nation_and_state_have_the_stated_law(board: Board) -> None:
    """Chi-square over ten ranges of about equal chance for each law."""
    statistic, freedom = 0.0, 0
    for errors in board.of("T1"):
        if errors.cells == 1 and len(errors.error) >= 100:
            cuts = np.unique(np.searchsorted(np.cumsum(errors.law.chances), np.arange(0.1, 0.95, 0.1)))
            expected = np.add.reduceat(errors.law.chances, [0, *cuts]) * len(errors.error)
            place = np.searchsorted(errors.law.values[cuts], errors.error, side="right")
            observed = np.bincount(place, minlength=len(expected))
            statistic += float(((observed - expected) ** 2 / expected).sum())
            freedom += len(expected) - 1
    assert freedom >= 12
    assert stats.chi2.sf(statistic, freedom) > 1e-6


@pytest.mark.parametrize("kind", ["T1", "sex", "cell"])
def test_margins_cover_95_percent_and_are_the_smallest_that_do(board: Board, kind: str) -> None:
    error = np.abs(np.concatenate([errors.error for errors in board.of(kind)]))
    margin = np.concatenate([errors.margin for errors in board.of(kind)])
    slack = DEVIATIONS * np.sqrt(0.95 * 0.05 / len(error))
    assert (error <= margin).mean() > 0.95 - slack
    assert (error <= margin - 1).mean() < 0.95 + slack


def test_empty_groups_are_published_at_the_stated_chance(board: Board) -> None:
    surplus = spread = 0.0
    for level, (published, groups) in board.zeros.items():
        chance = board.chance[level]
        assert chance <= 1 - CHANCE
        surplus += published - groups * chance
        spread += groups * chance * (1 - chance)
    assert sum(groups for _, groups in board.zeros.values()) > 1000
    assert abs(surplus) < DEVIATIONS * np.sqrt(spread)
