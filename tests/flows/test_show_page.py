"""The pages of `das show` in a real browser: what axe-core finds, by keyboard alone; and copies of them."""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from dhca_inputs import HERE, mark_synthetic, new_run, settings_here, truth_here
from hypothesis import given
from hypothesis import strategies as st
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from show_release import copied_to, differences, enter, faults, inputs, serving, with_estimates
from spine_cases import blocks_table, write_grfc

from flows.execution.repetitions import measure_accuracy
from flows.reports.show.export import file_name
from flows.reports.show.scope import Scope
from flows.reports.tuning.page import page as tuning_page
from flows.reports.tuning.plan import first_plan
from privacy.analyses.error_measures import Closeness, ErrorSums
from tasks.errors import Refused
from tasks.geography.blocks.area_file import AreaFile
from tasks.lifecycle.run_directory import RunDirectory
from tasks.safetab.persons.accuracy.report import make_report
from tasks.safetab.persons.accuracy.report import write_report as write_accuracy
from tasks.top_down.accuracy.errors import COVERAGE, TARGET, averaged, covered, targeted
from tasks.top_down.accuracy.report import write_report as write_errors
from tasks.top_down.estimate.gls.pass_up import pass_up
from tasks.top_down.published.open_published import find_published
from tasks.top_down.user_areas.area_estimates import estimate_file
from tasks.top_down.user_areas.report import page as areas_page
from tasks.top_down.user_areas.state_cache import cache_states, find_state
from tests.flows.conftest import printed

VIEWS = (
    "overview",
    "find&q=iteration",
    "region/COUNTY/01001",
    "code/ITERATION_CODE/1002",
    "iterations",
    "group/STATE/01/1002",
    "group/COUNTY/02001/1002",
    "group/TRACT/01001000100/2008",
    "table/t1-county-1&by_ITERATION_CODE=iteration",
    "group/COUNTY/99999/1002",
    "table-map/t1-county-1&by_ITERATION_CODE=1002",
    "tables",
    "table/t2-county-2&by_SEX=2",
    "table-map/t1-county-2&by_ITERATION_CODE=1002",
    "table-map/t1-county-1&by_ITERATION_CODE=1002&by_REGION_ID=01*&by=share",
    "no/such/view",
)
# Chromium lays a printed page out at up to one and a half times the width of its paper.
SCREENS = ((1400, "light", "screen"), (400, "dark", "screen"), (1070, "light", "print"))


@pytest.mark.parametrize(("screen", "views"), [*zip(SCREENS, (VIEWS, VIEWS[::3], VIEWS[::5]), strict=True)])
def test_pages_are_accessible_and_fit(page, sized, screen, views):
    browser = sized(*screen)
    enter(browser, page)
    for view in views:
        browser.get(f"{page}?view={view}")
        assert (view, faults(browser)) == (view, [])


def test_pages_of_a_bottom_up_release_are_accessible_and_fit(bottom_up_released, sized):
    with serving(bottom_up_released) as page:
        enter(sized(1400), page)
        for screen, view in itertools.product(SCREENS, ("overview", "table/histogram&by_SEX=2", "table/none")):
            browser = sized(*screen)
            browser.get(f"{page}?view={view}")
            assert (view, faults(browser)) == (view, [])


@pytest.fixture(scope="module")
def written(released, top_down_released, tmp_path_factory):
    """The pages that the product writes as files: reports first, that of exact counts and pages of errors last."""
    folder = tmp_path_factory.mktemp("pages")
    (folder / "tune.html").write_text(tuning_page(first_plan(None, None, None, None)))
    geography = write_grfc(folder / "GRF-C.txt", blocks_table(7, (55,), 200))
    printed("spine", geography, folder / "spine")
    kinds = ["conventional", "optimized"]
    sums = pd.concat([made_up_sums().assign(spine=kind) for kind in kinds], ignore_index=True)
    errors, coverage, target = averaged(sums), covered(sums), targeted(sums)
    about = {"Runs": "2", "truth": "errors of a test"}
    write_errors(folder, errors, coverage, kinds, ["topdown", "gls"], about, target)
    (folder / "areas.html").write_text(areas_page(answered(top_down_released, folder)))
    params, data = inputs().write(folder / "small")
    mark_synthetic(data)
    repeated(params, data, folder / "repeated")
    exact = truth_here(folder, params, data) / "report.html"
    files = (released / "report.html", top_down_released / "report.html", folder / "spine/spine.html")
    alone = [folder / name for name in ("error.html", "tune.html", "areas.html", "repeated/accuracy.html")]
    return [*files, *alone, exact]


def answered(release, folder):
    """The counts of two areas of a release's state 46, from its measurements."""
    (published,) = find_published(release)
    directory = RunDirectory(folder / "runs/areas")
    directory.create()
    source = published.read(directory.path, HERE, {}, ["46"])
    digest = published.digest("46")
    pass_up(source, HERE)
    cache_states(source, folder, {"46": digest})
    tree = find_state(folder, digest)
    codes = np.sort(tree.codes("persons"))
    areas = AreaFile(codes, np.arange(len(codes)) % 2, ("north", "south"), ())
    return estimate_file([tree], areas, published.origin.name, None, published.banners)


def repeated(params, data, out):
    """Repeat a run of the Detailed DHC-A once, with estimates, and write its report of errors."""
    new_run(out.parent, "repeated-us")
    settings = settings_here(out.parent, params, data, name="repeated", estimates=True)
    report = make_report(measure_accuracy(settings, HERE, 1))
    write_accuracy(out, report, {"Data": "made up"}, "Alabama and Alaska")


def made_up_sums():
    """Sums of errors, of coverage and of the target, as das tda accuracy measures them of two seeds: 9 counts each."""
    counts = (("persons", "total"), ("persons", "voting age by race"), ("units", "occupied"))
    levels = ("county", "block")
    keys = [
        {"seed": seed, "estimator": estimator, "product": product, "level": level, "quantity": quantity, "size": size}
        for (product, quantity), level in itertools.product(counts, levels)
        for seed, estimator, size in itertools.product((0, 1), ("topdown", "gls"), (-1, 2))
    ]
    columns = dict.fromkeys((*ErrorSums._fields, *Closeness._fields, *COVERAGE, *TARGET), 9) | {"cut": 0}
    return pd.DataFrame(keys).assign(**columns)


@pytest.mark.parametrize(
    ("width", "scheme", "media"), [SCREENS[0], *(pytest.param(*each, marks=pytest.mark.ci) for each in SCREENS[1:])]
)
def test_written_pages_are_accessible_and_fit_screens_and_paper(written, sized, width, scheme, media):
    browser = sized(width, scheme, media)
    for file in written:
        browser.get(file.as_uri())
        assert (file.name, faults(browser)) == (file.name, [])


def test_reports_are_one_file_and_have_words(written, sized):
    for file in written[:4]:
        text = file.read_text()
        assert not re.search(r"<script|<link|src=|@import|href=.http", text)  # offline
        keys = r"cenrace|hhgq|hhinstlevels|votingage|Block_Group|\d{9}/\d"
        assert file.name == "spine.html" or not re.search(keys, text)  # its settings are keys
    browser = sized(1300)
    browser.get(written[1].as_uri())
    assert "Maine, South Dakota" in browser.title


def test_by_keyboard_alone(page, sized):
    browser = sized(1300)
    enter(browser, page)
    focused = lambda: browser.switch_to.active_element  # noqa: E731
    focused().send_keys(Keys.TAB)
    assert focused().text == "to the content"
    while focused().get_attribute("id") != "q":
        focused().send_keys(Keys.TAB)
    focused().send_keys("Iteration 1002", Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda one: one.title == "“Iteration 1002”")
    while focused().text != "Iteration 1002":
        focused().send_keys(Keys.TAB)
        outline = focused().value_of_css_property("outline-style")
        assert (focused().tag_name, outline) in {(focused().tag_name, "solid"), ("body", "none")}
    focused().send_keys(Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda one: one.find_element(By.TAG_NAME, "h1").text == "Iteration 1002")
    while "group/" not in (focused().get_attribute("href") or ""):
        focused().send_keys(Keys.TAB)
    focused().send_keys(Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda one: one.find_elements(By.CSS_SELECTOR, ".figure .big"))


@pytest.fixture(scope="module")
def copied(released, tmp_path_factory):
    """A copy of the pages of the small release."""
    return copied_to(released, tmp_path_factory.mktemp("copy") / "copy")


@pytest.mark.ci
def test_a_copy_has_the_pages_and_tables_that_are_served(released, copied):
    assert differences(released, copied, every=5) == []
    kinds = Counter(re.split("[-.]", path.name)[0] for path in copied.glob("*.html"))
    assert min(kinds[kind] for kind in ("index", "region", "code", "iterations", "group", "find")) > 0


def groups_with_tables(release):
    """Type, region and iteration of every group with a table by sex and age."""
    rows = pd.concat(pd.read_parquet(path) for path in (release / "parquet/t2").iterdir())
    return set(zip(rows.REGION_TYPE, rows.REGION_ID, rows.ITERATION_CODE, strict=True))


@pytest.mark.ci
def test_a_group_with_a_table_has_a_page_of_its_own_in_a_copy(copied, released):
    pages = {tuple(path.stem.split("-")[1:]) for path in copied.glob("group-*.html")}
    assert pages == groups_with_tables(released)


@pytest.mark.ci
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "estimates", "histogram"])
def test_copies_of_all_releases_agree_with_what_is_served(kind, released, histogram, tmp_path):
    """Every page; `make test` compares some of each view."""
    release = with_estimates(released, tmp_path / "release") if kind == "estimates" else histogram
    release = released if kind == "plain" else release
    assert differences(release, copied_to(release, tmp_path / "copy")) == []


@pytest.mark.ci
@pytest.mark.parametrize(
    ("scope", "kinds", "states"),
    [
        ("county-2", {"COUNTY"}, {"01", "02"}),
        pytest.param("01", {"USA", "STATE", "COUNTY", "PLACE", "TRACT"}, {"01"}, marks=pytest.mark.slow),
    ],
)
def test_a_copy_of_a_state_or_a_level_leads_nowhere_else(released, tmp_path, scope, kinds, states):
    copy = copied_to(released, tmp_path / scope, Scope.named(scope))
    links = {link for path in copy.glob("*.html") for link in re.findall('href="([^"#:]*)"', path.read_text())}
    assert {link for link in links if not (copy / link).is_file()} == set()
    pages = {tuple(re.split("[-.]", link)[1:3]) for link in links if link.startswith(("region-", "group-"))}
    assert {kind for kind, _ in pages} == kinds
    assert {number[:2] for kind, number in pages if kind != "USA"} == states


def test_a_release_with_too_many_pages_is_not_copied(released, tmp_path, monkeypatch):
    monkeypatch.setattr("flows.reports.show.export.MOST_PAGES", 7)
    with pytest.raises(Refused, match="more than 7 pages; copy a state or a level"):
        copied_to(released, tmp_path / "copy")
    assert list(tmp_path.iterdir()) == []


@given(st.dictionaries(st.sampled_from(["view", "type", "in", "page"]), st.text()))
def test_a_file_of_a_copy_stays_in_its_folder(asked):
    assert re.fullmatch("[A-Za-z0-9_=~-]+", file_name(asked))


def found_in(browser):
    """The links of a copy's search, which the page writes itself."""
    WebDriverWait(browser, 10).until(lambda one: one.find_element(By.ID, "number").text)
    return browser.find_elements(By.CSS_SELECTOR, "#found a")


def test_a_copy_is_accessible_and_found_in_as_a_folder(copied, sized):
    for width, scheme in ((1300, "light"), (400, "dark")):
        browser = sized(width, scheme)
        for name in ("index.html", "group-STATE-01-1002.html", "region-COUNTY-01001.html", "find.html?q=tract"):
            browser.get(f"file://{copied}/{name}")
            assert (name, faults(browser)) == (name, [])
    browser.get(f"file://{copied}/index.html")
    browser.find_element(By.ID, "q").send_keys("ALABÁMA", Keys.ENTER)
    WebDriverWait(browser, 10).until(lambda one: one.title == "Find")
    links = found_in(browser)
    assert links[0].text == "Alabama"
    assert {"county 01001", "state 01"} <= {one.text for one in browser.find_elements(By.CSS_SELECTOR, "#found .code")}
    links[0].click()
    WebDriverWait(browser, 10).until(lambda one: one.title == "Alabama")


def test_a_copy_finds_a_group_by_its_region_and_iteration(copied, released, page, sized):
    """As the page that is served; a group that has no page of its own leads to the list of its region."""
    browser = sized(1300)
    enter(browser, page)
    for query in ("Iteration 1002 Alabama", "alabama, iteration 1002", "how many iteration 1002 live in 01001"):
        browser.get(f"{page}?view=find&q={query}")
        served = [link.text for link in browser.find_elements(By.CSS_SELECTOR, ".choices a")]
        browser.get(f"file://{copied}/find.html?q={query}")
        links = found_in(browser)
        assert [link.text.split(", ")[:2] for link in links] == [name.split(", ")[:2] for name in served] != []
        assert links[0].get_attribute("href").endswith("-1002.html")
    rows = [row for path in copied.glob("region-*.csv") for row in csv.DictReader(path.read_text().splitlines())]
    keys = {(row["REGION_TYPE"], row["REGION_ID"], row["ITERATION_CODE"]) for row in rows}
    kind, region, code = min(keys - groups_with_tables(released))
    browser.get(f"file://{copied}/find.html?q={code} {region}")
    (link,) = found_in(browser)
    assert link.get_attribute("href").endswith(f"/region-{kind}-{region}.html")
