"""Anybody's areas: estimates, errors and covariances against the dense solution; plans; every refusal in one line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from statistics import NormalDist

import fsspec
import numpy as np
import pytest
import shapely
import shapely.geometry
from block_files import from_csv, geographic_header
from e2e_runs import das
from scipy.stats import chi2
from top_down_cases import State, plan_of, small_state
from top_down_inputs import HERE

from flows.commands.tda.areas import limit_of
from flows.reports.show.maps.districts import district_shapes
from privacy.noise.margins import Z95
from spine.gls import upward
from spine.gls.blue import STATES, Blue, blue_nation, blue_states, sibling_sums
from spine.gls.grid import SiblingSums
from spine.gls.information import Information
from spine.hierarchy import Spine
from spine.redistricting import MAJORITY_COUNTS, PERSON_COUNTS, PERSONS, redistricting_bounds
from spine.top_down import NoisyAnswers, Plan, exact_answers, query_group, summed
from spine.top_down.queries import weights
from tasks.errors import Refused
from tasks.geography.blocks.area_file import UNASSIGNED, AreaFile, read_areas, shown_examples
from tasks.geography.blocks.pl94 import SEGMENTS
from tasks.geography.regions import Region
from tasks.lifecycle.run_directory import RunDirectory
from tasks.releases.datapackage import read_package
from tasks.releases.manifest import FORMAT
from tasks.releases.pages.text_table import as_csv
from tasks.top_down.estimate.gls.pass_up import pass_up
from tasks.top_down.estimate.gls.tree import SavedSiblings, Tree, columns_of
from tasks.top_down.published.nmf.source import FileRequest
from tasks.top_down.published.open_published import PublishedMeasurements, find_published, release_of
from tasks.top_down.run_plan import PRODUCTS, US, ProductName
from tasks.top_down.user_areas import area_estimates
from tasks.top_down.user_areas.area_estimates import AreaEstimates, check_codes, check_states, estimate_file
from tasks.top_down.user_areas.area_tables import interval
from tasks.top_down.user_areas.bars import bound_bars, district_bars
from tasks.top_down.user_areas.deviations import DRAWS, Deviations, StatisticBounds, deviations, errors, joint_width
from tasks.top_down.user_areas.estimate_areas import estimate_areas
from tasks.top_down.user_areas.hearing import (
    COLOURS,
    Sketch,
    answer,
    census_verdict,
    district_map,
    shown_bounds,
    tract_points,
    verdict_table,
)
from tasks.top_down.user_areas.published_counts import published_counts
from tasks.top_down.user_areas.report import (
    OUTSIDE,
    as_data,
    counts_table,
    plan_tables,
    shares_table,
    terminal_tables,
    write_files,
)
from tasks.top_down.user_areas.state_cache import About, CachedState, cache_states, find_state

pytestmark = pytest.mark.usefixtures("untidy")
ONE, TWO = "560010001001001", "560010001001002"  # no blocks of the sample: for files alone


@pytest.fixture(scope="module")
def noisy(das_data: Path) -> Path:
    return das_data / "nmf-sample/noisy"


def published(noisy: Path) -> PublishedMeasurements:
    return find_published(noisy / "nmf", FileRequest(str(noisy / "states.csv")))[0]


@pytest.fixture(scope="module")
def home(noisy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A runs folder in which the sample is kept."""
    home = tmp_path_factory.mktemp("areas") / "state"
    directory = RunDirectory(home / "runs/areas")
    directory.create()
    source = published(noisy).read(directory.path, HERE, {}, ["56"])
    pass_up(source, HERE)
    cache_states(source, home, {"56": published(noisy).digest("56")})
    return home


@pytest.fixture(scope="module")
def tree(noisy: Path, home: Path) -> CachedState:
    kept = find_state(home, published(noisy).digest("56"))
    assert kept is not None
    assert kept.folder.stat().st_mode & 0o777 == kept.folder.parent.stat().st_mode & 0o777 == 0o700
    return kept


def areas_by(tree: CachedState, names: list[str]) -> AreaFile:
    """Areas named block by block, in the order of the blocks' codes."""
    distinct, area = np.unique(names, return_inverse=True)
    return AreaFile(np.sort(tree.codes("persons")), area, tuple(map(str, distinct)), ())


def estimates(found: AreaEstimates) -> dict[tuple[str, str], list[float]]:
    return {(row["area"], row["count"]): [row["estimate"], row["standard_error"]] for row in found.rows()}


@pytest.mark.parametrize("level", ["State", "County", "Tract", "Block_Group"])
def test_geounits_of_the_spine_have_the_dense_solution(noisy: Path, tree: CachedState, level: str) -> None:
    """Every count of every geounit, as an area of its blocks: whole tracts have the margins of these tracts."""
    expected = json.loads(gzip.decompress((noisy / "expected.json.gz").read_bytes()))
    truth = np.load(noisy / "truth.npz")
    compared = 0
    for name in ("person", "unit"):
        geocodes = {int(code[:11] + code[12:]): code for code in truth["code16"].tolist()}
        of_block = {code[-16:]: code for code in truth[f"{name}_codes"].tolist()}
        width = len(next(iter(expected[name][level])))
        area = [of_block[geocodes[code]][:width] for code in np.sort(tree.codes("persons")).tolist()]
        found = estimates(estimate_file([tree], areas_by(tree, area), "", None))
        for geocode, known in expected[name][level].items():
            for count, numbers in known["gls"].items():
                np.testing.assert_allclose(found[geocode, count], numbers, atol=0.002)
                compared += 1
    assert compared == 25 * len(expected["person"][level]) or level == "Block_Group"


def test_districts_sum_to_the_state_and_their_errors_to_nothing(noisy: Path, tree: CachedState) -> None:
    """Of any partition; so the rows of the covariances of totals sum to 0, and those of adults to the state's."""
    rng = np.random.default_rng(3)
    area = rng.integers(0, 6, len(tree.codes("persons")))
    whole = estimate_file([tree], areas_by(tree, ["all"] * len(area)), "", None)
    found = estimate_file([tree], areas_by(tree, [str(one) for one in area]), "", None)
    for product in PRODUCTS:
        assert whole.estimated[product].error.shape == (1, len(PERSON_COUNTS) + 2 if product == "persons" else 1)
        one, parts = whole.estimated[product], found.estimated[product]
        np.testing.assert_allclose(parts.estimate.sum(axis=0), one.estimate[0], atol=1e-7)
    persons, columns = found.estimated["persons"], columns_of("persons", minority=True)
    total = persons.covariances.of(columns, "total", "total")
    adults = persons.covariances.of(columns, "voting age", "voting age")
    np.testing.assert_allclose(total.sum(axis=1), 0, atol=1e-7)
    np.testing.assert_allclose(np.sqrt(total.diagonal()), persons.error[:, 0], rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(adults.sum()), whole.estimated["persons"].error[0, 1], rtol=1e-6)
    population = int((noisy / "states.csv").read_text().split(",")[-1])
    assert whole.estimated["persons"].estimate[0, 0] == pytest.approx(population, abs=1e-7)
    assert whole.plan is None
    plan = found.plan
    assert plan is not None
    assert plan.ideal == population / 6
    np.testing.assert_allclose(plan.error, persons.error[:, 0], rtol=1e-9)
    assert abs(errors(total).sum(axis=1)).max() < 1e-3
    drawn = np.cov(errors(total).T)
    np.testing.assert_allclose(drawn, total, atol=6 * total.max() * np.sqrt(2 / DRAWS))


def test_shares_have_the_errors_of_their_ratio(tree: CachedState) -> None:
    """The delta method against 200,000 draws of the two counts, where the base is well known: within 5 %."""
    found = estimate_file([tree], areas_by(tree, ["all"] * len(tree.codes("persons"))), "", None)
    share, error = found.shares["voting age by race: white"]
    persons, columns = found.estimated["persons"], columns_of("persons", minority=True)
    names = ("voting age by race: white", "voting age")
    mean = [persons.estimate[0, persons.names.index(name)] for name in names]
    covariance = [[persons.covariances.of(columns, one, two)[0, 0] for two in names] for one in names]
    drawn = np.random.default_rng(1).multivariate_normal(mean, covariance, 200_000)
    assert share[0] == pytest.approx(mean[0] / mean[1])
    assert error[0] == pytest.approx((drawn[:, 0] / drawn[:, 1]).std(), rel=0.05)


@pytest.mark.parametrize("number", [2, 3, 10, 75])
def test_bounds_of_a_plan_are_at_least_as_wide_as_they_must_be(number: int) -> None:
    """Equal districts whose errors sum to 0 against the exact quantile: of one normal figure for two districts, and of
    independent ones, which is above it (Šidák), for more."""
    covariance = 30.0**2 * (np.eye(number) - 1 / number)
    one = NormalDist().inv_cdf(0.975)
    independent = NormalDist().inv_cdf((1 + 0.95 ** (1 / number)) / 2)
    width = joint_width(errors(covariance), np.sqrt(covariance.diagonal()))
    exact = one if number == 2 else independent
    assert exact - (0.0 if number == 2 else 0.02) <= width <= exact + 0.15
    plan = deviations(np.full(number, 40.0), covariance, 40 * number)
    largest, smallest, whole = plan.bounds
    assert whole.noise_alone > whole.estimate == 0
    assert smallest.low == -40  # nobody lives in it, and no fewer
    assert largest.high <= 40 * (number - 1)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ((100.1, 5.0), (91, 109)),
        ((3.0, 5.0), (0, 12)),
        ((-40.0, 5.0), (0, 0)),
        ((7.0, 0.0), (7, 7)),
        ((7.4, 0.1), (7, 7)),
    ],
)
def test_ends_are_rounded_inwards(numbers: tuple[float, float], expected: tuple[int, int]) -> None:
    assert interval(*numbers, 1.96) == expected


# -- on drawn measurements --------------------------------------------------------------------------------------------


@cache
def drawn_state() -> tuple[State, Plan]:
    """The state whose measurements are drawn, made where it is used: every process collects this file."""
    state = small_state(7)
    return state, plan_of(state)


class Drawn:
    """A state of 25,816 persons whose measurements are drawn, in place of a kept one; without a seed they are exact.

    Noise is normal, so intervals have an exact law; a draw takes a tenth of a second.
    """

    def __init__(self, seed: int | None) -> None:
        self.state, self.plan = drawn_state()
        self.about = About("44", {"persons": self.plan.spine.levels}, self.state.total())
        plan, rng = self.plan, np.random.default_rng(seed)
        lowest, numbers = len(plan.spine.levels) - 1, list(map(len, plan.spine.starts))
        by_level, noisy = summed(self.state.persons, plan.spine), []
        for level, name in enumerate(plan.spine.levels):
            noisy.append({})
            for query in plan.allocation.queries[name]:
                exact = exact_answers(by_level[level], query_group(PERSONS, query), 0, numbers[level])
                shares = plan.spine.shares[level]
                weight = weights(plan.allocation, name, [query], shares, plan.spine.denominator)[0]
                deviation = (weight > 0) / np.sqrt(np.maximum(weight, 1e-30)) * (seed is not None)
                noisy[level][query] = exact + rng.standard_normal(exact.shape) * deviation[:, None]

        def measure(level: int, first: int, last: int) -> NoisyAnswers:
            return NoisyAnswers(first, last, {query: rows[first:last] for query, rows in noisy[level].items()})

        self.told = [*upward.pass_up(plan, measure, 0, 0, 1), *upward.pass_up(plan, measure, lowest, 0, numbers[-1])]
        parents = [(STATES, 1), *enumerate(numbers)]
        self.given = [
            sibling_sums(plan, level, 0, number, information)
            for (level, number), information in zip(parents, self.told, strict=False)
        ]
        self.whole = blue_states(self.plan, self.told[0])

    def tree(self, product: ProductName) -> DrawnTree:
        return DrawnTree(Path(), self.plan.spine.levels, self.given, self.whole)


@dataclass(frozen=True)
class DrawnTree(Tree):
    given: list[SiblingSums]
    of_state: Blue

    def siblings(self, level: str) -> Iterator[SavedSiblings]:
        given = self.given[self.levels.index(level)]
        yield SavedSiblings(
            0, 0, given, columns_of("persons", minority=True).sums(given.z) if level == "Block" else None
        )

    @property
    def whole(self) -> Blue:
        return self.of_state


def random_areas(rng: np.random.Generator, blocks: int, areas: int) -> np.ndarray:
    """Areas that follow each other, cut at random places of the blocks' order."""
    cuts = np.sort(rng.choice(np.arange(1, blocks), areas - 1, replace=False))
    return np.searchsorted(cuts, np.arange(blocks), side="right")


@pytest.mark.long
def test_intervals_of_random_areas_hold_the_truth() -> None:
    """480 random areas of 12 draws: intervals at 95 %, and errors against their covariances.

    The squares of the errors of a draw's areas, by the inverse of their covariances, have the chi-squared law. False
    alarms, were the draws not fixed: 1 in 10,000 for each of ten counts. A variance a third too large is seen.
    """
    columns, areas, draws = columns_of("persons", minority=True), 40, 12
    truth, rng = (
        drawn_state()[0].persons.dense(2016) @ PERSONS.matrix((*PERSONS.estimated, *MAJORITY_COUNTS)),
        np.random.default_rng(2),
    )
    truth[:, -2:] = truth[:, :2] - truth[:, -2:]
    held: list[np.ndarray] = []
    races = [name for name in columns.names if name.startswith("race: ") and "two" not in name]
    squares: dict[str, list[float]] = {}
    for draw in range(draws):
        area = random_areas(rng, len(truth), areas)
        found = estimate_areas([Drawn(100 + draw)], "persons", [area], areas)  # type: ignore[list-item]
        true = np.zeros((areas, len(columns)))
        np.add.at(true, area, truth)
        ends = np.vectorize(lambda estimate, error: interval(estimate, error, Z95))(found.estimate, found.error)
        held.append((ends[0] <= true) & (true <= ends[1]))
        for name in (
            "total",
            "voting age",
            "Hispanic",
            "minority",
            *races,
        ):
            at = columns.names.index(name)
            covariance = found.covariances.of(columns, name, name)
            np.testing.assert_allclose(np.sqrt(covariance.diagonal()), found.error[:, at], rtol=1e-9)
            size, vectors = np.linalg.eigh(covariance)
            some = size > 1e-9 * size.max()  # errors of the totals sum to 0
            error = (found.estimate - true)[:, at] @ vectors[:, some] / np.sqrt(size[some])
            squares.setdefault(name, []).extend((error**2).tolist())
    for name, values in squares.items():
        assert len(values) == draws * (areas - (name == "total"))
        assert chi2.ppf(0.5e-4, len(values)) < sum(values) < chi2.isf(0.5e-4, len(values)), name
    share = np.array(held).mean(axis=(0, 1))
    assert share.min() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / (draws * areas))


def test_the_minority_is_everybody_who_is_not_white_alone_and_not_hispanic() -> None:
    """From exact answers it is the exact count; its error is that of a difference of two columns of P2 and P4."""
    truth = drawn_state()[0].persons.dense(2016)
    area = random_areas(np.random.default_rng(6), len(truth), 3)
    found = estimate_areas([Drawn(None)], "persons", [area], 3)  # type: ignore[list-item]
    origin, race, age = (PERSONS.coordinates[name] for name in ("hispanic", "cenrace", "votingage"))
    cells = columns_of("persons", pl94=True)
    for name, all_of, white, where in (
        ("minority", "total", "P0020005", age >= 0),
        ("voting age by origin: minority", "voting age", "P0040005", age == 1),
    ):
        of_blocks = truth[:, where & ((origin == 1) | (race > 0))].sum(axis=1)
        at = found.names.index(name)
        np.testing.assert_allclose(found.estimate[:, at], np.bincount(area, of_blocks), atol=1e-6)
        signs = {(all_of, all_of): 1, (white, white): 1, (all_of, white): -2}
        variance = sum(sign * found.covariances.of(cells, *pair).diagonal() for pair, sign in signs.items())
        np.testing.assert_allclose(found.error[:, at] ** 2, variance, rtol=1e-6)


def test_the_us_level_would_change_little() -> None:
    """In a nation of 51 such states: no standard error of a count of the state, a county or a part is 1 % smaller."""
    drawn, states = Drawn(None), 51
    plan, top = drawn.plan, drawn.told[0]
    spine, numbers = plan.spine, np.arange(states)
    us = np.array([int(plan.allocation.levels[US] * spine.denominator)])
    shares = (us, np.repeat(spine.shares[0], states))
    nation = Spine((US, "State"), numbers, (numbers[:1], numbers), shares, spine.denominator)
    quarters = np.repeat(plan.bounds.counts[0], states, axis=0)
    declared = redistricting_bounds(
        plan.product, nation, quarters, dict.fromkeys(numbers.tolist(), drawn.state.total()), numbers
    )
    above_states = replace(plan, spine=nation, bounds=declared)
    of_states = Information(1, 0, *(np.repeat(array, states, axis=0) for array in (top.linear, top.precision)))

    def measure(level: int, first: int, last: int) -> NoisyAnswers:
        groups = {query: query_group(PERSONS, query) for query in plan.allocation.queries[US]}
        return NoisyAnswers(first, last, {query: np.zeros((1, group.width)) for query, group in groups.items()})

    whole = blue_nation(above_states, upward.above(above_states, measure, of_states, 0, 1))
    with_us = blue_states(above_states, of_states, whole).only(0, 1)
    rng, least, without_us = np.random.default_rng(4), [], drawn.whole
    for area in (*(random_areas(rng, spine.blocks, areas) for areas in (1, 2, 10)), spine.geounit_of_block(1)):
        errors = []
        for drawn.whole in (without_us, with_us):
            found = estimate_areas([drawn], "persons", [area], int(area.max()) + 1)  # type: ignore[list-item]
            errors.append(found.error)
        known = errors[0] < 1e-3
        least.append((np.where(known, 1, errors[1]) / np.where(known, 1, errors[0])).min())
    assert 0.99 < min(least) < 0.992


# -- files of areas ---------------------------------------------------------------------------------------------------

READ: dict[str, tuple[str, dict[str, int]]] = {
    "plan.csv": (f"GEOID20,District\n{ONE},2\n{TWO},10\n", {"2": 1, "10": 1}),
    "cd.txt": (f"BLOCKID|CDFP\r\n{ONE}|01\r\n{TWO}|01\r\n", {"01": 2}),
    "vtd.txt": (f"BLOCKID|COUNTYFP|DISTRICT\n{ONE}|001|7\n{TWO}|003|7\n", {"0017": 1, "0037": 1}),
    "equivalency.csv": (f"{ONE},1\n{TWO},2\n", {"1": 1, "2": 1}),
    "town.txt": (f"{ONE}\n{ONE[:12]}1{ONE[12:]}\n{TWO}\n", {"town": 2}),
    "excel.csv": (f'\ufeffGEO_ID;NAME\n1000000US{ONE};"A"\n1000000US{TWO};\n', {"A": 1}),
    "digits.csv": (f"GEOID20,NAME\n{ONE},{'9' * 10_000}\n", {"9" * 10_000: 1}),
    "rest.csv": (f"GEOID20,DISTRICT\n{ONE},1\n{TWO},Unassigned\n", {"1": 1}),
}


@pytest.mark.parametrize("name", READ)
def test_areas_are_read_as_people_have_them(tmp_path: Path, name: str) -> None:
    text, expected = READ[name]
    (tmp_path / name).write_text(text, newline="")
    with zipfile.ZipFile(tmp_path / "one.zip", "w") as archive:
        archive.write(tmp_path / name, name)
    for path in (str(tmp_path / name), str(tmp_path / "one.zip"), f"zip://{name}::{tmp_path / 'one.zip'}"):
        found = read_areas(path)
        assert dict(zip(found.names, np.bincount(found.area).tolist(), strict=True)) == expected
        assert found.code[0] == int(ONE)
    if name == "excel.csv":
        assert found.notes == ("rows with a blank area, whose blocks are unassigned: 1",)


def test_a_signature_in_the_address_of_a_list_is_not_in_the_name_of_its_area() -> None:
    address = "memory://town?signature=SECRET"
    with fsspec.open(address, "w") as file:
        file.write(f"{ONE}\n")
    assert read_areas(address).names == ("town",)


def zipped(names: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name in names:
            archive.writestr(f"{name}.csv", f"{ONE}\n")
    return content.getvalue()


TABLE = f"GEOID20,D\n{ONE},1\n"
NO_TEXT: dict[str, tuple[bytes, str]] = {
    "two.zip": (zipped("ab"), r"holds 2 files.*zip://NAME::.*a.csv, b.csv"),
    "empty.zip": (zipped(""), "holds 0 files"),
    "cut.zip": (b"PK\x03\x04xx", "is not a zip archive"),
    "plan.xlsx": (zipped("a"), "is a workbook or an archive: save the table as CSV"),
    "utf16.csv": (TABLE.encode("utf-16"), "is not text: save the table as CSV in UTF-8"),
    "cut.csv.gz": (gzip.compress(TABLE.encode())[:-9], "cannot be decompressed"),
    "plan.parquet": (b"PAR1" + bytes(9) + b"PAR1", "is not a t"),
}


@pytest.mark.parametrize("name", NO_TEXT)
def test_what_is_no_text_is_refused(tmp_path: Path, name: str) -> None:
    content, words = NO_TEXT[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Refused, match=words) as refusal:
        read_areas(str(tmp_path / name))
    assert "\n" not in str(refusal.value)


def test_places_that_are_no_file_and_rows_without_a_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, words in {
        tmp_path: "is a folder",
        tmp_path / "pipe": "is a named pipe",
        tmp_path / "none": "No such file",
    }.items():
        with pytest.raises(Refused, match=words):
            read_areas(str(path))
    (tmp_path / "plan.csv").write_text(f"{TABLE},2\n,\n")
    found = read_areas(str(tmp_path / "plan.csv"))
    assert (found.names, found.notes) == (("1",), ("rows with an area but no block, left out: 1",))
    with pytest.raises(Refused, match="has no column dog; it has D"):
        read_areas(str(tmp_path / "plan.csv"), "dog")


FAULTS = {
    f"GEOID10,D\n{ONE},1\n": "blocks of the 2010 census",
    "GEOID20,D\n10010201001000,1\n": "14 digits.*--pad",
    "GEOID20,D\n5.6001E+14,1\n": "not a block's.*give them as text",
    f"GEOID20,D\n{ONE[:12]}9{ONE[12:]},1\n": "16 digits that do not repeat",
    f"GEOID20,D\n{ONE},1\n{ONE},2\n": f"in two areas: 1 \\({ONE}\\)",
    f"GEOID20,X,Y\n{ONE},1,2\n": "--area-column; it has X, Y",
    "X,Y,Z\n1,2,3\n": "no column of blocks",
    f"GEOID20,D\n{ONE},1,2\n": "not a table of blocks",
    f"GEOID20,D\n{ONE},\n": "no block to an area",
    "": "not a table of blocks",
    "GEOID20,D\n": "no block to an area",
    "GEOID20," + ",".join(map(str, range(20_000))): "the first line, the header, is longer than",
    f"GEOID20,D\n{ONE},1\n\n{TWO},a\x1b[2Jb\n": f"plan.csv, row 2 of the table .block {TWO}.*control character",
    f'GEOID20,D\n{ONE},"two\nlines"\n': "row 1 of the table.*control character",
    f"GEOID20,D\n{ONE},fdp.\u202exe\n": "row 1 of the table.*control character",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.csv").write_text(text)
    with pytest.raises(Refused, match=FAULTS[text]) as refusal:
        read_areas(str(tmp_path / "plan.csv"))
    assert "\n" not in str(refusal.value)
    if "--pad" in FAULTS[text]:
        assert read_areas(str(tmp_path / "plan.csv"), pad=True).code.tolist() == [10010201001000]


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda code: code + 7 * 10**13, "blocks are in state 63"),
        (lambda code: code + 900 * 10**10, "in no county"),
        (
            lambda code: code // 10**10 * 10**10 + 555500 * 10**4 + code % 10**4,
            "in no tract.*15 digits of a block of 2020",
        ),
    ],
)
def test_codes_that_are_no_blocks_of_the_source_are_refused(
    tree: CachedState, change: Callable[[np.ndarray], np.ndarray], rule: str
) -> None:
    codes = np.sort(tree.codes("persons"))
    file = AreaFile(np.sort(change(codes)), np.zeros(len(codes), np.int64), ("one",), ())
    with pytest.raises(Refused, match=rule):
        check_states(file, ("56",)) and check_codes(file, codes)


def test_a_list_that_is_cut_has_a_mark() -> None:
    assert [shown_examples("abcd"[:number]) for number in (1, 3, 4)] == ["a", "a, b, c", "a, b, c, …"]


def test_blocks_without_living_quarters_are_a_note(tree: CachedState) -> None:
    codes = np.sort(tree.codes("persons"))
    empty = codes[0] // 10**4 * 10**4 + 9999
    water = codes[0] // 10**10 * 10**10 + 990000 * 10**4 + 1
    file = AreaFile(np.sort([*codes[:3], empty, water]), np.zeros(5, np.int64), ("one",), ())
    found = estimate_file([tree], file, "", None)
    assert found.names == ("one", UNASSIGNED)
    assert {row["area"] for row in found.rows()} == {"one"}  # nobody asked for the rest of the state
    assert found.plan is None
    (note,) = found.notes
    assert note.partition("persons: ")[2].startswith("2 (")
    assert "codes were typed by hand" in note
    assert found.estimated["persons"].blocks.tolist() == [3, len(codes) - 3]


# -- the command ------------------------------------------------------------------------------------------------------


def test_measurements_inside_a_release_have_its_published_counts(noisy: Path, tmp_path: Path) -> None:
    """Whether the release is named, or a folder in it; a folder of files elsewhere has none."""
    inside, beside = tmp_path / "release/nmf", tmp_path / "other/downloads"
    for copy in (inside, beside):
        shutil.copytree(noisy / "nmf", copy)
        (copy.parent / "manifest.json").write_text("{}")
    within = ((inside, inside.parent), (inside.parent, inside.parent))
    for folder, release in (*within, (noisy / "nmf", None), (beside, None)):
        assert {each.release for each in find_published(folder, FileRequest(str(noisy / "states.csv")))} == {release}
    declared = tmp_path / "declared"
    (declared / "measurements").mkdir(parents=True)
    (declared / "measurements/declared.json").write_text("{}")
    given = (declared, declared / "measurements", declared / "histograms")
    assert [release_of(folder) for folder in given] == [declared, declared, None]


def test_the_command_answers_from_what_is_kept(
    noisy: Path, home: Path, tree: CachedState, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "plan.csv"
    codes = np.sort(tree.codes("persons")).tolist()
    plan.write_text("GEOID20,DISTRICT\n" + "".join(f"{code:015d},{at % 2 + 1}\n" for at, code in enumerate(codes)))
    signed = "memory://plan.csv?signature=SECRET"
    fsspec.filesystem("memory").pipe(signed, plan.read_bytes())
    options = ("--runs-folder", home, "--state-totals", noisy / "states.csv")
    assert das("tda", "areas", noisy / "nmf", signed, tmp_path / "out", *options) == 0
    shown = capsys.readouterr().out
    for words in (
        "not a Census Bureau product",
        "range",
        "Shares, counts and how to read them",
        "Deviation of each district",
    ):
        assert words in " ".join(shown.split())
    rows = list(csv.DictReader((tmp_path / "out/areas.csv").read_text().splitlines()))
    assert das("tda", "areas", noisy / "nmf", plan, *options, "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert len(rows) == len(data["areas"]) == 2 * (len(PERSON_COUNTS) + 2 + 1)
    assert [float(row["estimate"]) for row in rows] == [row["estimate"] for row in data["areas"]]
    assert all(row["low_95"] <= row["low_90"] <= row["high_90"] <= row["high_95"] for row in data["areas"])
    assert data["plan"]["bounds"]["range"]["low_95"] >= 0
    between = list(csv.DictReader((tmp_path / "out/covariances.csv").read_text().splitlines()))
    assert [(row["area"], row["other_area"]) for row in between] == [("1", "1"), ("1", "2"), ("2", "2")]
    assert float(between[0]["total"]) == -float(between[1]["total"]) == float(between[2]["total"])
    tables = read_package(tmp_path / "out", [path.name for path in (tmp_path / "out").iterdir()])
    assert {table.name for table in tables} == {"areas", "covariances", "plan", "shares"}
    assert all(column.meaning for table in tables for column in table.columns)
    page = (tmp_path / "out/areas.html").read_text()
    assert "<script" not in page
    assert data["plan"]["answer"][1].replace(" %", "\N{NO-BREAK SPACE}%") in page[: page.index("<svg")]
    assert "<h1>Wyoming: is the range of this plan of 2 districts within 10\N{NO-BREAK SPACE}%?</h1>" in page
    assert "The plan: plan.csv." in page
    assert page.count('class="joint"') == 3 + 2, "a bar for each bound and each district"
    assert "group quarters: nursing facilities" in page
    assert page.index("Share of the voting age") < page.index(">minority<") < page.index("<details>"), "seen unasked"
    assert "Not known: the limit is between them" in page
    assert " ± 0.0<" not in page
    assert "not a Census Bureau product" in page
    assert das("tda", "areas", noisy / "nmf", plan, *options, "--format", "csv") == 0
    assert list(csv.DictReader(capsys.readouterr().out.splitlines())) == rows
    assert das("tda", "areas", noisy / "nmf", plan, *options, "--boundaries", plan) == 1
    assert "name a folder OUT" in capsys.readouterr().err
    assert das("tda", "areas", noisy / "nmf", plan, *options, "--count", "total", "--json") == 0
    assert {row["count"] for row in json.loads(capsys.readouterr().out)["areas"]} == {"total"}
    plan.write_text("GEOID20,DISTRICT\n" + "".join(f"{code:015d},{at % 20}\n" for at, code in enumerate(codes)))
    for count in ("total", "occupied"):
        assert das("tda", "areas", noisy / "nmf", plan, tmp_path / count, *options, "--count", count) == 0
        assert len((tmp_path / count / "areas.csv").read_text().splitlines()) == 21
    few = tmp_path / "few.csv"
    few.write_text("\n".join(plan.read_text().splitlines()[: 1 + 2 * len(codes) // 3]))
    capsys.readouterr()
    assert das("tda", "areas", noisy / "nmf", few, *options) == 0
    assert capsys.readouterr().out.startswith("Not judged as a plan: ")
    assert das("tda", "areas", noisy / "nmf", plan, tmp_path / "out", *options) == 1
    assert "is not empty" in capsys.readouterr().err
    assert das("tda", "areas", noisy / "nmf", few, tmp_path / "map", *options, "--boundaries", plan) == 1
    assert "these areas are not judged as one" in " ".join(capsys.readouterr().err.split())
    assert das("tda", "areas", noisy / "nmf", plan, *options, "--count", "dogs") == 1
    assert "--count dogs: no such count" in capsys.readouterr().err
    assert das("tda", "areas", noisy, tmp_path / "none.csv", *options) == 1
    assert das("tda", "areas", tmp_path, plan, *options) == 1
    assert "holds no noisy measurements" in capsys.readouterr().err


def test_a_name_is_no_formula_in_a_spreadsheet_and_no_markup_on_a_page(tree: CachedState, tmp_path: Path) -> None:
    names = ["=1+1", "+x", "-x", "@x", "-5", "007", "<b>"]
    codes = tree.codes("persons")
    found = estimate_file([tree], areas_by(tree, [names[at % len(names)] for at in range(len(codes))]), "", None)
    files = {path.name: path for path in write_files(tmp_path / "out", found)}
    escaped = {name: f"'{name}" if name in names[:4] else name for name in names}
    for file, column in (("areas.csv", "area"), ("plan.csv", "district"), ("covariances.csv", "other_area")):
        rows = list(csv.DictReader(files[file].read_text().splitlines()))
        assert {row[column] for row in rows} == set(escaped.values())
    negative = [row["estimate"] for row in found.rows() if row["estimate"] < 0]
    assert negative
    rows = list(csv.DictReader(files["areas.csv"].read_text().splitlines()))
    assert [float(row["estimate"]) for row in rows if row["estimate"].startswith("-")] == negative
    assert {row["area"] for row in as_data(found)["areas"]} == set(names)
    page = files["areas.html"].read_text()
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert as_csv(
        ["=a"], [["=cmd|' /C calc'!A0"], ["-2+3+cmd|x"], ["+22 (+0.29%)"], ["-36 to +80 (-1.0%)"], [-5.5]]
    ) == ("'=a\n'=cmd|' /C calc'!A0\n'-2+3+cmd|x\n+22 (+0.29%)\n-36 to +80 (-1.0%)\n-5.5\n")


def test_published_counts_are_those_of_pl94(tree: CachedState, tmp_path: Path) -> None:
    """Every cell of every segment, by block: cell number plus record."""
    codes = np.sort(tree.codes("persons"))
    blocks = tmp_path / "blocks.csv"
    text = [f"{code:015d}" for code in codes.tolist()]
    blocks.write_text(
        "STATE,COUNTY,TRACT,BLKGRP,BLOCK,POP\n"
        + "".join(f"{one[:2]},{one[2:5]},{one[5:11]},{one[11]},{one[11:]},1\n" for one in text)
    )
    table = from_csv(blocks)
    with zipfile.ZipFile(tmp_path / "wy2020.pl.zip", "w") as archive:
        archive.writestr("wygeo2020.pl", geographic_header(table, "wy"))
        for number, cells in SEGMENTS.items():
            records = [
                "|".join(
                    ["PLST", "WY", "000", f"0{number}", f"{10_000 + i:07d}", *(str(k + i) for k in range(len(cells)))]
                )
                for i in range(len(text))
            ]
            archive.writestr(f"wy0000{number}2020.pl", "\n".join(records) + "\n")
    counts = published_counts(str(tmp_path / "wy2020.pl.zip"))
    cells = {name: at for part in SEGMENTS.values() for at, name in enumerate(part)}
    there, persons = counts("persons", "56")
    assert there.tolist() == codes.tolist()
    assert persons.shape == (len(codes), len(PERSON_COUNTS) + 2)
    assert persons[2, 0] == cells["P0010001"] + 2
    assert persons[3, 1] == cells["P0030001"] + 3
    assert persons[0, 2] == cells["P0020002"]
    assert persons[0, -3] == cells["P0050010"]
    majority = cells["P0020005"], cells["P0040005"]
    assert persons[4, -2:].tolist() == [cells["P0010001"] - majority[0], cells["P0030001"] - majority[1]]
    assert counts("units", "56")[1][1].tolist() == [cells["H0010002"] + 1]
    with pytest.raises(Refused, match="it has no block of state 44, only of 56"):
        counts("persons", "44")
    with pytest.raises(Refused, match="neither a TopDown release nor"):
        published_counts(str(blocks))


def test_a_plan_has_the_deviations_of_the_published_totals(tree: CachedState) -> None:
    codes = np.sort(tree.codes("persons"))
    file = AreaFile(codes, np.minimum(np.arange(len(codes)), 2), ("one", "two", "rest"), ())

    def published(product: str, state: str) -> tuple[np.ndarray, np.ndarray]:
        return codes[:4], np.array([[14], [20], [1], [1]]).repeat(
            len(PERSON_COUNTS) + 2 if product == "persons" else 1, axis=1
        )

    found = estimate_file([tree], file, "", published)
    assert found.plan is not None
    assert "the one to cite" in answer(found.plan, 0.1)[2]
    own = estimate_file([tree], file, "", published, published_is_estimate=True).plan
    assert own is not None
    assert "NOT counts that were published" in answer(own, 0.1)[2]
    plan = as_data(found)["plan"]
    assert [row["published"] for row in plan["districts"]] == [14, 20, 2]
    assert [row["published_deviation"] for row in plan["districts"]] == [2, 8, -10]
    assert [one["published"] for one in plan["bounds"].values()] == [8, -10, 18]
    bounds, districts = plan_tables(found)
    hints = [terminal_tables(found, (), None, mapped=mapped)[0].notes[-1] for mapped in (False, True)]
    assert [("--boundaries" in hint, hint.startswith("Map")) for hint in hints] == [(True, False), (False, True)]
    assert [row[1].split(" ")[0] for row in bounds.rows] == ["+8", "-10", "+18"]
    assert [row[1:3] for row in districts.rows] == [["14", "+2"], ["20", "+8"], ["2", "-10"]]
    shares = [row["published"] for row in as_data(found)["shares_of_voting_age"]]
    assert set(shares) == {100.0}  # in these counts all races have as many
    table = counts_table(found, "", ["race: Asian"])
    low, high = (as_data(found, ["race: Asian"])["areas"][0][end] for end in ("low_95", "high_95"))
    assert low > 14 or high < 14
    assert table.rows[0][2] == "14*", "a published count outside its interval has a mark, and the table says why"
    assert table.notes == [OUTSIDE]
    assert OUTSIDE in shares_table(found).notes
    assert "published" not in plan_tables(estimate_file([tree], file, "", None))[0].columns


@pytest.mark.parametrize(
    ("high", "low", "within", "verdict"),
    [
        (8, 2, 0.1, "yes"),
        (10, 2, 0.1, "yes"),
        (23, 0, 0.1, "not known"),
        (23, 10, 0.1, "not known"),
        (23, 11, 0.1, "no"),
    ],
)
def test_a_hearing_is_answered_by_the_bounds(high: float, low: float, within: float, verdict: str) -> None:
    bounds = StatisticBounds("range", 4.3, 6.0, 3.0, low, high)
    plan = Deviations(100, np.zeros(2), np.zeros(2), np.ones(2), (bounds,), np.zeros((2, 2)))
    assert census_verdict(plan, within) == verdict
    published, census, cite, guide = answer(plan, within)
    assert "the one to cite" in cite
    assert (
        published == "The published range of this plan is 4.3 % of the ideal (4.3 persons), within the limit of 10 %."
    )
    assert "not for districts of Congress" in guide
    assert len(answer(plan, 0.2)) == 3
    assert ("not known" in census) == (verdict == "not known")
    cut = answer(replace(plan, groups_cut=40), within)[1]
    assert ("The limit lies between these bounds. The plan cuts 40 block groups" in cut) == (verdict == "not known")
    assert f"{high:g} %" in census
    plan = replace(plan, bounds=(replace(bounds, published=None),))
    assert answer(plan, within)[0].startswith("The range of the estimates is 6 %")


@pytest.mark.parametrize(
    ("low", "high", "between"),
    [
        (10.491, 10.519, "between 10.49 % and 10.52 %"),
        (4.3261, 9.9999, "between 4.32 % and 10 %"),
        (0.012341, 9.0909, "between 0.01 % and 9.1 %"),
        (0, 123.4, "between 0 % and 123.4 %"),
        (10.0004, 11, "between 10.0004 % and 11 %"),
        (5, 10, "between 5 % and 10 %"),
    ],
)
def test_the_bounds_of_a_hearing_are_rounded_outwards(low: float, high: float, between: str) -> None:
    plan = Deviations(
        100,
        np.zeros(2),
        np.zeros(2),
        np.ones(2),
        (StatisticBounds("range", 4.3, 6.0, 3.0, low, high),),
        np.zeros((2, 2)),
    )
    assert between in answer(plan, 0.1)[1]
    assert between.removeprefix("between ").replace(" and ", " to ") in verdict_table(plan, 0.1).rows[1]


def test_a_bound_just_below_nothing_has_no_minus() -> None:
    plan = Deviations(100, None, np.zeros(2), np.ones(2), (), np.zeros((2, 2)))
    assert shown_bounds(plan, StatisticBounds("smallest deviation", None, 0, 0, -3.0, -1e-9)) == ("-3 %", "0 %")


def test_a_published_range_is_shown_on_its_side_of_the_limit() -> None:
    for range_, shown in ((0, "0 %"), (10, "10 %"), (10.0004, "10.0004 %"), (9.9999, "10 %"), (4.126, "4.13 %")):
        bounds = StatisticBounds("range", range_, 6.0, 3.0, 0, 20)
        plan = Deviations(100, np.zeros(2), np.zeros(2), np.ones(2), (bounds,), np.zeros((2, 2)))
        assert answer(plan, 0.1)[0].startswith(f"The published range of this plan is {shown} of the ideal")


def test_districts_are_sketched_at_the_middle_of_their_blocks(tree: CachedState, tmp_path: Path) -> None:
    codes = np.sort(tree.codes("persons"))
    names = ("first", "<second>", "third", "fourth", "fifth")
    with_river = AreaFile(
        np.append(codes, codes[-1] + 1), np.append(np.arange(len(codes)) * 5 // len(codes), 5), (*names, "river"), ()
    )
    file = estimate_file([tree], with_river, "", None).read
    assert file is not None
    assert file.names == names  # nobody lives in the river
    tracts, number = np.unique(codes // 10**4, return_inverse=True)
    points = {Region("TRACT", f"{code:011d}"): (41.0 + at, -107.0 - at) for at, code in enumerate(tracts.tolist())}
    sketch = tract_points(file, points)
    assert sketch is not None
    assert sketch.tracts.tolist() == [[-107.0 - at, 41.0 + at] for at in range(len(tracts))]
    np.testing.assert_allclose(sketch.middle[:, 1], [41 + number[file.area == at].mean() for at in range(len(names))])
    most = [np.bincount(file.area[number == at]).argmax() for at in range(len(tracts))]
    assert sketch.of.tolist() == most
    assert tract_points(file, {}) is None
    write_files(tmp_path / "with", estimate_file([tree], file, "", None), sketch=sketch)
    write_files(tmp_path / "without", estimate_file([tree], file, "", None))
    pages = [(tmp_path / name / "areas.html").read_text() for name in ("with", "without")]
    assert ["A sketch: a dot is a tract" in page for page in pages] == [True, False]
    assert "&lt;second&gt;" in pages[0]
    assert "2. &lt;second&gt;" in pages[0], "long names are numbered, on the map and in the table"
    assert "<second>" not in pages[0]


def test_a_plan_that_lacks_blocks_is_of_the_mean_of_its_districts() -> None:
    """Exactly: estimates and errors of three districts of five, centred by hand."""
    covariance = np.array([[5.0, -1.0, 0.5], [-1.0, 4.0, 0.25], [0.5, 0.25, 3.0]])
    estimate, centre = np.array([30.0, 40.0, 20.0]), np.eye(3) - 1 / 3
    found = deviations(estimate, covariance, 100, np.array([31, 39, 20]), whole=False)
    assert found.ideal == 30
    assert found.deviation.tolist() == [0, 10, -10]
    np.testing.assert_allclose(found.error**2, (centre @ covariance @ centre).diagonal())
    assert found.published is not None
    assert found.published.tolist() == [1, 9, -10]
    assert found.bounds[0].low >= 0 >= found.bounds[1].high


@pytest.mark.parametrize(("missing", "judged"), [(0, True), (1, True), (60, False)])
def test_blocks_in_no_district_are_named_next_to_the_answer(
    tree: CachedState, monkeypatch: pytest.MonkeyPatch, missing: int, judged: bool
) -> None:
    codes = np.sort(tree.codes("persons"))
    monkeypatch.setattr(area_estimates, "MISSED", 1.5 / len(codes))
    kept = codes[: len(codes) - min(missing, len(codes) // 3)]
    found = estimate_file([tree], AreaFile(kept, np.arange(len(kept)) % 2, ("one", "two"), ()), "", None)
    assert (found.plan is not None) is judged
    assert found.districts == ("one", "two")
    if found.plan is None:
        assert found.unjudged.startswith("Not judged as a plan: ")
    else:
        assert bool(found.plan.remark) is bool(missing)
        assert answer(found.plan, 0.1)[0].startswith("Provisional: ") is bool(missing)
        assert len(as_data(found)["plan"]["districts"]) == 2


@pytest.mark.parametrize("known", [True, False])
def test_one_line_says_what_was_understood(tree: CachedState, tmp_path: Path, known: bool) -> None:
    """Persons in no district are the published ones where these are given, else estimated."""
    codes = np.sort(tree.codes("persons")).tolist()
    marks = {codes[0]: "ZZ", codes[1]: "ZZ"}
    rows = [f"{code:015d},{marks.get(code, at % 2 + 1)}" for at, code in enumerate(codes)]
    (tmp_path / "plan.csv").write_text("\n".join(["GEOID20,DISTRICT", *rows]))
    width = {product: 1 if product == "units" else len(PERSON_COUNTS) + 2 for product in PRODUCTS}

    def published(product: ProductName, state: str) -> tuple[np.ndarray, np.ndarray]:
        return np.array(codes), np.full((len(codes), width[product]), 600)

    found = estimate_file([tree], read_areas(str(tmp_path / "plan.csv")), "", published if known else None)
    said, by_mark = found.notes[:2]
    number = 1200 if known else found.estimated["persons"].estimate[-1, 0]
    assert said == (
        f"blocks in GEOID20, areas in DISTRICT: 2 areas of {len(codes) - 2:,} blocks; outside them are 2 blocks "
        f"with living quarters, where {number:,.0f} persons live {'as published' if known else 'by the estimate'}"
    )
    assert by_mark == "rows with the area ZZ, whose blocks are unassigned: 2"


@pytest.mark.parametrize(
    ("text", "limit"), [("10%", "1/10"), ("5 %", "1/20"), ("0.05", "1/20"), ("200%", "2"), ("0%", "0"), ("0", "0")]
)
def test_a_limit_is_typed_as_a_share_or_in_per_cent(text: str, limit: str) -> None:
    assert limit_of(text) == Fraction(limit)


@pytest.mark.parametrize(("text", "remedy"), [("5", "write 5% or 0.05"), ("0,05", "as 0.05"), ("-1%", "positive")])
def test_a_limit_that_is_none_is_refused_with_the_remedy(text: str, remedy: str) -> None:
    with pytest.raises(Refused, match=remedy):
        limit_of(text)


def test_a_truth_is_never_shown_as_published(tmp_path: Path) -> None:
    for manifest, words in (
        ({"format": FORMAT, "NOT_PRIVATE": "exact", "files": {}}, "never publish them"),
        ([], "no digests"),
    ):
        (tmp_path / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(Refused, match=words):
            published_counts(str(tmp_path))


def test_each_number_of_a_plan_has_its_bar_on_the_axis_of_its_table() -> None:
    """In per cent of an ideal of 200: estimates of 10 and -20, their own intervals inside those of all at once."""
    joint = np.array([[4.0, -56.0], [36.0, -24.0]])
    range_ = StatisticBounds("range", 50.0, 60.0, 5.0, 28.0, 92.0)
    plan = Deviations(200, np.array([10.0, -30.0]), np.array([20.0, -40.0]), np.array([5.0, 5.0]), (range_,), joint)

    def at(value: float, low: float, high: float) -> float:
        return 8 + 224 * (value - low) / (high - low)

    def drawn(cell: str, mark: str, *names: str) -> list[float]:
        found = re.search(f'class="{mark}"([^>]*)', cell)
        assert found is not None
        return [float(re.search(f' {name}="M?([^" ]*)', found[1])[1]) for name in names]  # type: ignore[index]

    districts = district_bars(plan, 0.1)
    assert "−28 %" in districts.head
    assert "+18 %" in districts.head
    for cell, published, estimate, own, both in zip(
        districts.cells, (5, -15), (10, -20), ((5.1, 14.9), (-24.9, -15.1)), ((2, 18), (-28, -12)), strict=True
    ):
        place = partial(at, low=-28, high=18)
        assert drawn(cell, "at", "cx") == [pytest.approx(place(estimate), abs=0.06)]
        assert drawn(cell, "own", "x1", "x2") == pytest.approx([*map(place, own)], abs=0.06)
        assert drawn(cell, "joint", "x1", "x2") == pytest.approx([*map(place, both)], abs=0.06)
        assert drawn(cell, "published", "d") == [pytest.approx(place(published), abs=0.06)]
        assert drawn(cell, "band", "x") == [pytest.approx(place(-5), abs=0.06)]
    (cell,) = bound_bars(plan, 0.1).cells
    assert drawn(cell, "own", "x1", "x2") == pytest.approx([at(14, -10, 46), at(46, -10, 46)], abs=0.06)
    assert drawn(cell, "band", "x", "width") == pytest.approx(
        [at(0, -10, 46), at(10, -10, 46) - at(0, -10, 46)], abs=0.1
    )
    assert "published" not in district_bars(replace(plan, published=None), 0.1).cells[0]


def test_a_district_s_name_is_no_formula() -> None:
    """matplotlib takes what is between dollar signs for mathematics, and fails on what is none."""
    plan = Deviations(100, np.zeros(2), np.zeros(2), np.ones(2), (), np.zeros((2, 2)))
    names, middle = (r"$\q$", "B"), np.array([[-71.0, 41.0], [-71.1, 41.1]])
    sketch = Sketch(middle, middle, np.arange(2))
    assert r"$\q$" in district_map(names, plan, 0.1, sketch)


def test_districts_are_drawn_as_their_blocks_make_them_up(tmp_path: Path) -> None:
    """Of tracts in a row the first district has the first and most of the second, whose blocks are in two."""
    tracts = [f"44001000{at}00" for at in range(1, 5)]
    squares = [shapely.box(-71 + at, 41, -70 + at, 42) for at in range(4)]
    features = [
        {"type": "Feature", "properties": {"GEOID": code}, "geometry": shapely.geometry.mapping(square)}
        for code, square in zip([*tracts, "44001"], [*squares, shapely.box(-71, 41, -67, 42)], strict=True)
    ]
    (tmp_path / "tracts.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    blocks = [int(f"{tracts[at]}1{number:03d}") for at in range(4) for number in range(3)]
    area = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1])
    file = AreaFile(np.array(blocks), area, ("A", "a long name"), ())
    sketch = district_shapes([tmp_path / "tracts.geojson"], file)
    drawn = [shapely.polygons(ring) for (ring,) in sketch.rings]
    assert all(
        shape.equals(shapely.box(*box))
        for shape, box in zip(drawn, ((-71, 41, -69, 42), (-69, 41, -67, 42)), strict=True)
    )
    assert all(shape.contains(shapely.points(at)) for shape, at in zip(drawn, sketch.middle, strict=True))
    plan = Deviations(100, np.array([9.0, -9.0]), np.zeros(2), np.ones(2), (), np.zeros((2, 2)))
    svg = district_map(file.names, plan, 0.1, sketch)
    assert [mark in svg for mark in (">1▲<", ">2▼<", COLOURS[0], COLOURS[1], COLOURS[2])] == [True] * 4 + [False]
    assert 'viewBox="0 0 324 129.6"' in svg, "the picture has the shape of the plan, here a wide one"
    assert re.search(r"font-size: 13px[^>]*>1▲<", svg), "labels of few districts are large"
    with pytest.raises(Refused, match="has no shape of the area A: give tracts"):
        district_shapes([tmp_path / "tracts.geojson"], replace(file, code=file.code + 10**10))
