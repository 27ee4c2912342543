"""The pages of `das show` in a real browser: what axe-core finds, by keyboard alone, the static copy beside them."""

from __future__ import annotations

import json
from urllib.request import urlopen

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from show_release import (
    copied_to,
    csv_of_copy,
    files_served,
    problems,
    seen,
    serving,
    too_wide,
    with_estimates,
)

from flows.reports.tuning.page import page as tuning_page
from flows.reports.tuning.plan import first_plan

VIEWS = (
    "overview",
    "find&q=iteration",
    "region/COUNTY/01001",
    "iteration/1002",
    "group/STATE/01/1002",
    "group/COUNTY/02001/1002",
    "group/TRACT/01001000100/2008",
    "compare&a=STATE/01/1002&b=STATE/02/1002",
    "compare&a=STATE/01/1002&region=0100",
    "group/COUNTY/99999/1002",
)
MORE = (
    "region/USA/1&level=2&sort=code&q_iteration=200",
    "iteration/2001&type=TRACT&in=COUNTY/01001&sort=code",
    "group/USA/1/2007",
    "group/COUNTY/01001/2007",
    "group/AIANNH/0007/2009",
    "compare&a=COUNTY/02001/1002&b=STATE/02/1002",
    "compare&a=PLACE/0100500/1004&region=tract&iteration=1003",
    "find&q=alabama",
    "find&q=nobody",
    "find&q=alabama 1002",
    "iteration/9999",
    "nothing",
)


@pytest.mark.parametrize(("width", "scheme", "views"), [(1300, "light", VIEWS), (400, "dark", VIEWS[::3])])
def test_pages_are_accessible_and_fit(page, sized, width, scheme, views):
    browser = sized(width, scheme)
    for view in views:
        browser.get(f"{page}?view={view}")
        assert (view, problems(browser), too_wide(browser)) == (view, [], False)


def test_the_report_is_accessible_and_fits(released, sized):
    for width, scheme in ((1300, "light"), (400, "dark")):
        browser = sized(width, scheme)
        browser.get(f"file://{released}/report.html")
        assert (problems(browser), too_wide(browser)) == ([], False)
    assert browser.execute_script("return document.querySelectorAll('svg.pyramid').length") > 0
    text = (released / "report.html").read_text()
    assert not [word for word in ("<script", "<link", "src=", "@import", "http") if word in text]  # one file, offline


def test_the_tuning_page_is_accessible_and_its_table_fits(tmp_path, sized):
    (tmp_path / "tune.html").write_text(tuning_page(first_plan(None, None, None, None)))
    browser = sized(1400)
    browser.get(f"file://{tmp_path}/tune.html")
    assert problems(browser) == []
    assert browser.execute_script(
        "const box = document.querySelector('.wide'); return box.scrollWidth <= box.clientWidth"
    )


def test_by_keyboard_alone(page, sized):
    browser = sized(1300)
    browser.get(page)
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
    """A static copy of the small release on a plain web server."""
    folder = copied_to(released, tmp_path_factory.mktemp("copy") / "copy")
    with files_served(folder) as address:
        yield address


@pytest.mark.slow
def test_the_static_copy_shows_what_the_page_shows(page, copied, sized):
    browser = sized(1300)
    for view in (*VIEWS[1:], *MORE):
        assert seen(browser, f"{copied}?view={view}") == seen(browser, f"{page}?view={view}"), view
    assert "report.html" not in seen(browser, f"{copied}?view=overview")[1]


def test_the_static_copy_gives_the_same_csv(page, copied, sized):
    browser = sized(1300)
    browser.get(copied)
    for view in ("overview", *VIEWS[1:8]):
        with urlopen(f"{page}?view={view}&format=csv") as answer:
            assert csv_of_copy(browser, view) == answer.read().decode(), view


def test_estimates_are_in_the_page_and_the_copy(released, tmp_path, sized):
    release, browser = with_estimates(released, tmp_path / "release"), sized(1300)
    with serving(release) as page, files_served(copied_to(release, tmp_path / "copy")) as copied:
        for view in ("group/COUNTY/01001/1002", "region/COUNTY/01001", "compare&a=STATE/01/1002&b=STATE/02/1002"):
            assert seen(browser, f"{copied}?view={view}") == seen(browser, f"{page}?view={view}"), view
            assert (view, problems(browser), too_wide(browser)) == (view, [], False)
            browser.get(copied)
            with urlopen(f"{page}?view={view}&format=csv") as answer:
                assert csv_of_copy(browser, view) == answer.read().decode(), view


@pytest.mark.slow
def test_a_copy_of_a_bottom_up_release_shows_the_same(histogram, tmp_path, sized):
    browser = sized(1300)
    with serving(histogram) as page, files_served(copied_to(histogram, tmp_path / "copy")) as copied:
        for view in ("overview", "margin/histogram&by_SEX=2&page=2", "margin/histogram&sort=code", "margin/total", "x"):
            assert seen(browser, f"{copied}?view={view}") == seen(browser, f"{page}?view={view}"), view
            assert (view, problems(browser), too_wide(browser)) == (view, [], False)
        browser.get(copied)
        for view in ("overview", "margin/histogram&by_COUNTY=00007", "margin/histogram", "margin/total"):
            with urlopen(f"{page}?view={view}&format=csv") as answer:
                assert csv_of_copy(browser, view) == answer.read().decode(), view


def test_the_static_copy_is_accessible(copied, sized):
    browser = sized(1300)
    for view in ("overview", "group/STATE/01/1002"):
        seen(browser, f"{copied}?view={view}")
        assert problems(browser) == []


def test_the_static_copy_ships_its_libraries_with_their_licences(copied):
    for name in ("hyparquet", "nunjucks"):
        with urlopen(f"{copied}static/vendor/{name}.LICENSE.txt") as answer:
            assert "opyright" in answer.read().decode()
    with urlopen(f"{copied}data/release.json") as answer:
        assert json.load(answer)["about"]["marks"]
